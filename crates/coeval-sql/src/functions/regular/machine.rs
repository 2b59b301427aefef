// SPDX-License-Identifier: Apache-2.0
//! The automaton of a regular expression, and the tree of those of its parts whose places matter.
//!
//! Each part is a piece of the automaton between two states, which is entered and left by these alone: what leads from the one to
//! the other is a text that the part may be. A back reference is as its group is, without the constraints in it: which text it is has
//! to be looked at besides.

mod building;

use super::letters::LetterSet;
use super::pattern::Options;
use super::syntax::{Place, Prefers, Syntax, Traits, Way};
use crate::error::SqlError;
use std::ops::Range;

/// A state's number.
pub(super) type State = u32;

/// The automaton of a pattern.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) top: Part,
    /// How many groups are told.
    pub(super) groups: usize,
    pub(super) states: usize,
    pub(super) ahead: Edges,
    pub(super) behind: Edges,
    sets: Vec<LetterSet>,
    pub(super) looks: Vec<LookAround>,
    word: &'static LetterSet,
    options: Options,
}

/// The two states between which a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: State,
    pub(super) to: State,
}

/// A part of a pattern.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) ends: Ends,
    pub(super) traits: Traits,
    /// The numbers of the groups in it.
    pub(super) groups: Range<usize>,
}

impl Part {
    /// Which of several texts from the same place on it takes.
    pub(super) fn prefers(&self) -> Prefers {
        self.traits.prefers.unwrap_or(Prefers::Longest)
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing in it matters.
    Plain,
    /// One behind the other.
    Pair(Box<[Part; 2]>),
    /// One of them.
    Choice(Vec<Part>),
    /// What the group of this number has.
    Group(usize, Box<Part>),
    /// What it has had, so many times.
    Back { number: usize, least: usize, most: Option<usize> },
    /// The part, so many times.
    Repeated { part: Box<Part>, least: usize, most: Option<usize> },
}

/// What is to stand ahead of a place or behind it, or is not to.
#[derive(Debug)]
pub(super) struct LookAround {
    pub(super) way: Way,
    pub(super) is_wanted: bool,
    pub(super) ends: Ends,
}

/// What leads from a state to another one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Free,
    /// A letter of the set of this number.
    Letter(u32),
    Place(Place),
    /// What stands around, by its number.
    Look(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: State,
    pub(super) step: Step,
}

/// The edges of all states, in one direction.
#[derive(Debug)]
pub(super) struct Edges {
    /// Where those of each state begin, and where the last ones end.
    begins: Vec<usize>,
    edges: Vec<Edge>,
}

impl Edges {
    /// Those of so many states, each with the one that it leads from.
    fn of_all(states: usize, all: &[(State, Edge)]) -> Self {
        let mut begins = vec![0; states + 1];
        for (from, _) in all {
            begins[*from as usize + 1] += 1;
        }
        for state in 0..states {
            begins[state + 1] += begins[state];
        }
        let mut next = begins.clone();
        let mut edges = vec![Edge { to: 0, step: Step::Free }; all.len()];
        for (from, edge) in all {
            edges[next[*from as usize]] = *edge;
            next[*from as usize] += 1;
        }
        Self { begins, edges }
    }

    #[inline]
    pub(super) fn of(&self, state: State) -> &[Edge] {
        let state = state as usize;
        &self.edges[self.begins[state]..self.begins[state + 1]]
    }
}

impl Machine {
    /// # Errors
    /// `2201B` if it has too many states, or too many different sets of letters.
    pub(super) fn of(syntax: &Syntax) -> Result<Self, SqlError> {
        building::built(syntax)
    }

    #[inline]
    pub(super) fn takes(&self, step: Step, letter: char) -> bool {
        matches!(step, Step::Letter(set) if self.sets[set as usize].contains(letter))
    }

    /// Whether a byte of the text is at such a place.
    pub(super) fn is_at(&self, place: Place, text: &str, at: usize) -> bool {
        let before = text[..at].chars().next_back();
        let behind = text[at..].chars().next();
        let minds_lines = self.options.anchors_at_lines;
        let is_word = |letter: Option<char>| letter.is_some_and(|letter| self.word.contains(letter));
        match place {
            Place::Begin => before.is_none() || (minds_lines && before == Some('\n')),
            Place::End => behind.is_none() || (minds_lines && behind == Some('\n')),
            Place::TextBegin => before.is_none(),
            Place::TextEnd => behind.is_none(),
            Place::WordBegin => !is_word(before) && is_word(behind),
            Place::WordEnd => is_word(before) && !is_word(behind),
            Place::WordEdge => is_word(before) != is_word(behind),
            Place::NoWordEdge => is_word(before) == is_word(behind),
        }
    }

    /// Whether a back reference takes the one letter where its group has the other.
    pub(super) fn are_same(&self, one: char, other: char) -> bool {
        one == other
            || (self.options.ignores_case
                && (one.to_lowercase().eq(other.to_lowercase())
                    || one.to_uppercase().eq(other.to_uppercase())))
    }
}
