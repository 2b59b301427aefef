// SPDX-License-Identifier: Apache-2.0
//! What a regular expression says: the tree that is read from PostgreSQL's syntax.
//!
//! Each part of it prefers the longest or the shortest text, or neither, and that decides which of several matches is the one:
//!
//! | part | prefers |
//! |---|---|
//! | a letter, a set of letters, a constraint, a back reference | neither |
//! | what has a quantifier such as `*`, or `*?` | the longest, or the shortest |
//! | what has the quantifier `{n}` | what it prefers without |
//! | a branch | what its first part does that prefers something |
//! | several branches | the longest |

mod brackets;
mod escape;
mod parser;

use super::pattern::Options;
pub(super) use parser::parsed;
use std::rc::Rc;

/// A regular expression.
#[derive(Debug)]
pub(super) struct Syntax {
    /// What the flags say, and what the pattern says of itself in front.
    pub(super) options: Options,
    pub(super) top: Choice,
    /// How many groups it has that are told.
    pub(super) groups: usize,
}

/// Branches, of which one fits.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) branches: Vec<Vec<Piece>>,
    pub(super) traits: Traits,
}

/// A part of a branch, as many times as its quantifier says.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) atom: Atom,
    pub(super) times: Times,
}

#[derive(Debug)]
pub(super) enum Atom {
    /// One letter of these.
    Letters(Letters),
    /// The number is that of a group that is told.
    Group {
        number: Option<usize>,
        inside: Rc<Choice>,
    },
    /// The text that the group of this number has; the group's content is what that may be.
    Back {
        number: usize,
        inside: Rc<Choice>,
    },
    Place(Place),
    Look(Look),
}

#[derive(Clone, Debug)]
pub(super) enum Letters {
    One(char),
    Any,
    /// In the syntax of the `regex` crate.
    Set(String),
}

/// Where a match is to be at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the begin of the text, or of a line.
    Begin,
    /// At the end of the text, or of a line.
    End,
    TextBegin,
    TextEnd,
    WordBegin,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// What is to stand at a place, or is not to stand there.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) way: Way,
    pub(super) is_wanted: bool,
    pub(super) inside: Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ahead,
    Behind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefers {
    Longest,
    Shortest,
}

/// How often something may stand in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) least: u16,
    /// None for any number.
    pub(super) most: Option<u16>,
    pub(super) prefers: Option<Prefers>,
}

impl Times {
    pub(super) const ONCE: Self = Self { least: 1, most: Some(1), prefers: None };
}

/// What is so of a part and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) prefers: Option<Prefers>,
    /// Some of it prefers the longest, and some the shortest.
    is_mixed: bool,
    pub(super) has_groups: bool,
    pub(super) refers_back: bool,
}

impl Traits {
    pub(super) fn preferring(prefers: Option<Prefers>) -> Self {
        Self { prefers, ..Self::default() }
    }

    /// The traits of this and what follows it.
    pub(super) fn and(self, behind: Self) -> Self {
        let is_clash = self.prefers.zip(behind.prefers).is_some_and(|(one, other)| one != other);
        Self {
            prefers: self.prefers.or(behind.prefers),
            is_mixed: self.is_mixed || behind.is_mixed || is_clash,
            has_groups: self.has_groups || behind.has_groups,
            refers_back: self.refers_back || behind.refers_back,
        }
    }

    /// Whether a match of it has parts whose places matter.
    pub(super) fn has_parts(self) -> bool {
        self.is_mixed || self.has_groups || self.refers_back
    }
}

impl Choice {
    fn of(branches: Vec<Vec<Piece>>) -> Self {
        let traits = match branches.as_slice() {
            [branch] => traits_of_branch(branch),
            branches => branches.iter().fold(Traits::preferring(Some(Prefers::Longest)), |traits, branch| {
                traits.and(traits_of_branch(branch))
            }),
        };
        Self { branches, traits }
    }
}

impl Piece {
    fn once(atom: Atom) -> Self {
        Self { atom, times: Times::ONCE }
    }

    /// Whether it takes no letters by itself.
    pub(super) fn is_constraint(&self) -> bool {
        matches!(self.atom, Atom::Place(_) | Atom::Look(_))
    }

    /// Whether its quantifier leaves nothing of it.
    pub(super) fn is_nothing(&self) -> bool {
        self.times.most == Some(0)
    }

    /// The traits of the atom, whatever its quantifier says.
    pub(super) fn atom_traits(&self) -> Traits {
        match &self.atom {
            Atom::Group { number, inside } => {
                let has_groups = inside.traits.has_groups || number.is_some();
                Traits { has_groups, ..inside.traits }
            }
            Atom::Back { .. } => Traits { refers_back: true, ..Traits::default() },
            Atom::Letters(_) | Atom::Place(_) | Atom::Look(_) => Traits::default(),
        }
    }

    /// Those of the atom, which prefers what its quantifier says.
    pub(super) fn quantified_traits(&self) -> Traits {
        Traits::preferring(self.times.prefers).and(self.atom_traits())
    }

    /// Whether the quantifier changes nothing: once, and with the preference that the atom has by itself, or without one.
    pub(super) fn is_as_its_atom(&self) -> bool {
        let atom = self.atom_traits();
        let agrees = !atom.is_mixed && (atom.prefers.is_none() || atom.prefers == self.times.prefers);
        self.times.least == 1 && self.times.most == Some(1) && (self.times.prefers.is_none() || agrees)
    }

    /// The traits of what precedes it and itself, if that is one part together; `None` if it has parts of its own, or prefers
    /// something else.
    pub(super) fn joined_to(&self, before: Traits) -> Option<Traits> {
        let traits = before.and(self.quantified_traits());
        (!traits.has_parts()).then_some(traits)
    }

    fn traits(&self) -> Traits {
        let is_back = matches!(self.atom, Atom::Back { .. });
        if self.is_as_its_atom() && !is_back { self.atom_traits() } else { self.quantified_traits() }
    }
}

/// The traits of a branch: each piece that has parts divides it into what precedes, the piece, and the rest.
fn traits_of_branch(pieces: &[Piece]) -> Traits {
    let (mut divided, mut before) = (Vec::new(), Traits::default());
    for piece in pieces.iter().filter(|piece| !piece.is_constraint() && !piece.is_nothing()) {
        match piece.joined_to(before) {
            Some(traits) => before = traits,
            None => divided.push((std::mem::take(&mut before), piece)),
        }
    }
    let is_last = |piece: &Piece| pieces.last().is_some_and(|last| std::ptr::eq(last, piece));
    let is_rest_empty = divided.last().is_some_and(|(_, piece)| is_last(piece));
    let mut rest = if is_rest_empty { None } else { Some(before) };
    while let Some((before, piece)) = divided.pop() {
        let part = match rest {
            Some(rest) => piece.quantified_traits().and(rest),
            None => piece.traits(),
        };
        rest = Some(before.and(part));
    }
    rest.unwrap_or_default()
}
