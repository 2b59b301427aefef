// SPDX-License-Identifier: Apache-2.0
//! Makes the automaton of a pattern.
//!
//! What nothing has to be told of is [wired](Builder::wire_choice) alone. What has groups, refers back, or prefers the longest and the
//! shortest text in different parts becomes a tree of parts besides: a branch is what precedes the first such piece, that piece, and
//! the rest, each behind the other.

use super::super::letters::LetterSet;
use super::super::pattern::{Options, too_complex};
use super::super::syntax::{Atom, Choice, Letters, Piece, Syntax, Times, Traits};
use super::{Edge, Edges, Ends, Kind, LookAround, Machine, Part, State, Step};
use crate::error::SqlError;
use crate::stack::with_room;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The most states, copies of what is repeated included.
const STATES_MAX: usize = 32 << 10;

/// The most parts in the tree, which may stand within each other.
const PARTS_MAX: usize = 4 << 10;

/// The most ranges in the different sets of letters, a mebibyte of them: `\w` has some 770.
const RANGES_MAX: usize = 128 << 10;

/// The letters of words, whatever the pattern's options are.
static WORD: LazyLock<Result<LetterSet, SqlError>> =
    LazyLock::new(|| LetterSet::of(&Letters::Set(r"\w".to_owned()), Options::default()));

pub(super) fn built(syntax: &Syntax) -> Result<Machine, SqlError> {
    let mut builder = Builder { options: syntax.options, ..Builder::default() };
    let from = builder.state()?;
    let top = builder.choice(&syntax.top, from)?;
    let word = WORD.as_ref().map_err(SqlError::clone)?;
    let reversed: Vec<_> =
        builder.edges.iter().map(|(from, edge)| (edge.to, Edge { to: *from, step: edge.step })).collect();
    Ok(Machine {
        top,
        groups: syntax.groups,
        states: builder.states,
        ahead: Edges::of_all(builder.states, &builder.edges),
        behind: Edges::of_all(builder.states, &reversed),
        sets: builder.sets,
        looks: builder.looks,
        word,
        options: syntax.options,
    })
}

/// What of a part is wired.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Constraints {
    Kept,
    /// As in what a back reference may be.
    Dropped,
}

#[derive(Default)]
struct Builder {
    options: Options,
    states: usize,
    parts: usize,
    edges: Vec<(State, Edge)>,
    sets: Vec<LetterSet>,
    /// How many ranges they have together.
    ranges: usize,
    /// The numbers of the sets that are written so.
    known: HashMap<String, u32>,
    looks: Vec<LookAround>,
}

impl Builder {
    fn state(&mut self) -> Result<State, SqlError> {
        let state = State::try_from(self.states).map_err(|_| too_complex())?;
        if self.states == STATES_MAX {
            return Err(too_complex());
        }
        self.states += 1;
        Ok(state)
    }

    fn edge(&mut self, from: State, step: Step, to: State) {
        self.edges.push((from, Edge { to, step }));
    }

    /// A new state that a free step leads to.
    fn behind(&mut self, from: State) -> Result<State, SqlError> {
        let state = self.state()?;
        self.edge(from, Step::Free, state);
        Ok(state)
    }

    fn set(&mut self, letters: &Letters) -> Result<u32, SqlError> {
        let written = letters.written();
        if let Some(known) = self.known.get(&written) {
            return Ok(*known);
        }
        let number = u32::try_from(self.sets.len()).map_err(|_| too_complex())?;
        let set = LetterSet::of(letters, self.options)?;
        self.ranges += set.ranges();
        if self.ranges > RANGES_MAX {
            return Err(too_complex());
        }
        self.sets.push(set);
        self.known.insert(written, number);
        Ok(number)
    }

    /// Wires a choice between two states.
    fn wire_choice(&mut self, choice: &Choice, ends: Ends, constraints: Constraints) -> Result<(), SqlError> {
        for branch in &choice.branches {
            let mut at = self.behind(ends.from)?;
            for piece in branch {
                at = self.wire_times(&piece.atom, piece.times, at, constraints)?;
            }
            self.edge(at, Step::Free, ends.to);
        }
        Ok(())
    }

    /// Wires an atom, and gives the state behind it.
    fn wire_atom(&mut self, atom: &Atom, from: State, constraints: Constraints) -> Result<State, SqlError> {
        let to = self.state()?;
        let ends = Ends { from, to };
        match atom {
            Atom::Letters(letters) => {
                let set = self.set(letters)?;
                self.edge(from, Step::Letter(set), to);
            }
            Atom::Group { inside, .. } => with_room(|| self.wire_choice(inside, ends, constraints))?,
            Atom::Back { inside, .. } => with_room(|| self.wire_choice(inside, ends, Constraints::Dropped))?,
            Atom::Place(_) | Atom::Look(_) if constraints == Constraints::Dropped => {
                self.edge(from, Step::Free, to);
            }
            Atom::Place(place) => self.edge(from, Step::Place(*place), to),
            Atom::Look(look) => {
                let ends = Ends { from: self.state()?, to: self.state()? };
                with_room(|| self.wire_choice(&look.inside, ends, Constraints::Kept))?;
                let number = u32::try_from(self.looks.len()).map_err(|_| too_complex())?;
                self.looks.push(LookAround { way: look.way, is_wanted: look.is_wanted, ends });
                self.edge(from, Step::Look(number), to);
            }
        }
        Ok(to)
    }

    /// Wires an atom so many times, and gives the state behind it.
    fn wire_times(
        &mut self,
        atom: &Atom,
        times: Times,
        from: State,
        constraints: Constraints,
    ) -> Result<State, SqlError> {
        let mut at = from;
        for _ in 0..times.least {
            at = self.wire_atom(atom, at, constraints)?;
        }
        let Some(most) = times.most else {
            let turn = self.behind(at)?;
            let begin = self.behind(turn)?;
            let end = self.wire_atom(atom, begin, constraints)?;
            self.edge(end, Step::Free, turn);
            return self.behind(turn);
        };
        if most <= times.least {
            return self.behind(at);
        }
        let to = self.state()?;
        for _ in times.least..most {
            self.edge(at, Step::Free, to);
            let begin = self.behind(at)?;
            at = self.wire_atom(atom, begin, constraints)?;
        }
        self.edge(at, Step::Free, to);
        Ok(to)
    }

    fn part(&mut self, kind: Kind, traits: Traits, ends: Ends) -> Result<Part, SqlError> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(too_complex());
        }
        let groups = match &kind {
            Kind::Plain | Kind::Back { .. } => 0..0,
            Kind::Pair(pair) => joined(&pair[0].groups, &pair[1].groups),
            Kind::Choice(parts) => parts.iter().fold(0..0, |groups, part| joined(&groups, &part.groups)),
            Kind::Group(number, part) => joined(&(*number..*number + 1), &part.groups),
            Kind::Repeated { part, .. } => part.groups.clone(),
        };
        Ok(Part { kind, ends, traits, groups })
    }

    /// The part that a choice is, from this state on.
    fn choice(&mut self, choice: &Choice, from: State) -> Result<Part, SqlError> {
        if let [branch] = choice.branches.as_slice() {
            let begin = self.behind(from)?;
            return with_room(|| self.branch(branch, begin));
        }
        let ends = Ends { from, to: self.state()? };
        if !choice.traits.has_parts() {
            self.wire_choice(choice, ends, Constraints::Kept)?;
            return self.part(Kind::Plain, choice.traits, ends);
        }
        let mut parts = Vec::with_capacity(choice.branches.len());
        for branch in &choice.branches {
            let begin = self.behind(from)?;
            let part = with_room(|| self.branch(branch, begin))?;
            self.edge(part.ends.to, Step::Free, ends.to);
            parts.push(part);
        }
        self.part(Kind::Choice(parts), choice.traits, ends)
    }

    fn branch(&mut self, pieces: &[Piece], from: State) -> Result<Part, SqlError> {
        let (mut before, mut at) = (Traits::default(), from);
        for (place, piece) in pieces.iter().enumerate() {
            if piece.is_nothing() {
                continue;
            }
            let joined = if piece.is_constraint() { Some(before) } else { piece.joined_to(before) };
            if let Some(traits) = joined {
                before = traits;
                at = self.wire_times(&piece.atom, piece.times, at, Constraints::Kept)?;
                continue;
            }
            let begin = self.behind(at)?;
            let mut part = self.piece(piece, begin)?;
            let rest = &pieces[place + 1..];
            if !rest.is_empty() {
                let begin_of_rest = self.behind(part.ends.to)?;
                let rest = with_room(|| self.branch(rest, begin_of_rest))?;
                let traits = piece.quantified_traits().and(rest.traits);
                let ends = Ends { from: begin, to: rest.ends.to };
                part = self.part(Kind::Pair(Box::new([part, rest])), traits, ends)?;
            }
            if at == from {
                return Ok(part);
            }
            let first = self.part(Kind::Plain, before, Ends { from, to: at })?;
            let (traits, ends) = (before.and(part.traits), Ends { from, to: part.ends.to });
            return self.part(Kind::Pair(Box::new([first, part])), traits, ends);
        }
        let to = self.behind(at)?;
        self.part(Kind::Plain, before, Ends { from, to })
    }

    /// A piece that has parts.
    fn piece(&mut self, piece: &Piece, from: State) -> Result<Part, SqlError> {
        let Piece { atom, times } = piece;
        let (of_atom, traits) = (piece.atom_traits(), piece.quantified_traits());
        let least = usize::from(times.least);
        let most = times.most.map(usize::from);
        if let Atom::Back { number, .. } = atom {
            let to = self.wire_times(atom, *times, from, Constraints::Kept)?;
            return self.part(Kind::Back { number: *number, least, most }, traits, Ends { from, to });
        }
        if piece.is_as_its_atom() {
            return self.atom(atom, of_atom, from);
        }
        if !of_atom.has_groups && !of_atom.refers_back {
            let to = self.wire_times(atom, *times, from, Constraints::Kept)?;
            return self.part(Kind::Plain, traits, Ends { from, to });
        }
        if times.least > 0 && !of_atom.refers_back {
            // Of its groups the last turn tells, so that all before it is one part.
            let before = Times { least: times.least - 1, most: times.most.map(|most| most - 1), ..*times };
            let middle = self.wire_times(atom, before, from, Constraints::Kept)?;
            let preferring = Traits::preferring(traits.prefers);
            let first = self.part(Kind::Plain, preferring, Ends { from, to: middle })?;
            let begin = self.behind(middle)?;
            let last = self.atom(atom, of_atom, begin)?;
            let ends = Ends { from, to: last.ends.to };
            return self.part(Kind::Pair(Box::new([first, last])), traits, ends);
        }
        let to = self.wire_times(atom, *times, from, Constraints::Kept)?;
        let begin = self.state()?;
        let turn = Box::new(self.atom(atom, of_atom, begin)?);
        self.part(Kind::Repeated { part: turn, least, most }, traits, Ends { from, to })
    }

    fn atom(&mut self, atom: &Atom, traits: Traits, from: State) -> Result<Part, SqlError> {
        if let Atom::Group { number, inside } = atom {
            let part = with_room(|| self.choice(inside, from))?;
            let Some(number) = *number else { return Ok(part) };
            let ends = Ends { from, to: part.ends.to };
            return self.part(Kind::Group(number, Box::new(part)), traits, ends);
        }
        let to = self.wire_atom(atom, from, Constraints::Kept)?;
        self.part(Kind::Plain, traits, Ends { from, to })
    }
}

/// Both, and what is between them.
fn joined(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        (false, false) => one.start.min(other.start)..one.end.max(other.end),
    }
}
