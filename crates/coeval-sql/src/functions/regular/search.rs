// SPDX-License-Identifier: Apache-2.0
//! Finds the match that PostgreSQL finds, and its groups.
//!
//! Of all matches it is the one that begins first; of those that begin there the longest, or the shortest, as the pattern as a whole
//! prefers. Then each part takes the longest or the shortest text, as it prefers, with which the rest fits into what is left: the
//! parts in front decide before those behind them.
//!
//! Without back references all is found by [walks](walk) over the text, whose number depends on the pattern alone; what is repeated
//! and has groups takes one more for each turn, or, as `{0,9}` of it, for each place where a turn may end. A back reference has to be
//! tried with each text that its group may have. Every step is counted: a search looks on its way whether the statement is to end, and
//! one of too many steps is refused.

mod places;
mod repeated;
mod states;
mod walk;

use super::machine::{Kind, Machine, Part};
use super::syntax::{Prefers, Way};
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::stack::with_room;
use places::Places;
use states::StateSet;
use std::ops::{ControlFlow, Range};

/// The most steps of a search: some minutes.
const STEPS_MAX: usize = 1 << 34;

/// Steps between two looks, of some nanoseconds each.
const STEPS_BETWEEN_LOOKS: usize = 1 << 14;

/// The bytes that each group has, the first being the whole match.
pub(super) type Groups = Vec<Option<Range<usize>>>;

/// A search in one text.
pub(super) struct Search<'r> {
    machine: &'r Machine,
    text: &'r str,
    meter: &'r Meter,
    groups: Groups,
    /// Sets of states that are not in use.
    spare: Vec<StateSet>,
    steps: usize,
    steps_until_look: usize,
    /// The bytes of memory that are in use beside sets of states.
    held: usize,
    /// What the sets of states take: they are kept until the search ends.
    held_by_sets: usize,
}

impl<'r> Search<'r> {
    pub(super) fn new(machine: &'r Machine, text: &'r str, meter: &'r Meter) -> Self {
        Self {
            machine,
            text,
            meter,
            groups: Vec::new(),
            spare: Vec::new(),
            steps: 0,
            steps_until_look: STEPS_BETWEEN_LOOKS,
            held: 0,
            held_by_sets: 0,
        }
    }

    /// Whether there is a match from a byte of the text on.
    ///
    /// # Errors
    /// The error of a statement that was told to end; `54001` after too many steps; `53200`.
    pub(super) fn matches(mut self, from: usize) -> Result<bool, SqlError> {
        if self.machine.top.traits.refers_back {
            return Ok(self.groups_from(from)?.is_some());
        }
        Ok(self.first_begin(from)?.is_some())
    }

    /// The bytes of the first match from a byte of the text on, and of its groups.
    ///
    /// # Errors
    /// As [`matches`](Self::matches).
    pub(super) fn groups_from(mut self, from: usize) -> Result<Option<Groups>, SqlError> {
        let mut from = from;
        while let Some(begin) = self.first_begin(from)? {
            if self.match_at(begin)? {
                return Ok(Some(self.groups));
            }
            // What may be a match by all but its back references is none.
            match self.text[begin..].chars().next() {
                Some(letter) => from = begin + letter.len_utf8(),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The same if the first match, or what may be one by all but its back references, is known to begin here.
    ///
    /// # Errors
    /// As [`matches`](Self::matches).
    pub(super) fn groups_at(mut self, begin: usize) -> Result<Option<Groups>, SqlError> {
        Ok(if self.match_at(begin)? { Some(self.groups) } else { None })
    }

    /// The same of the first match, if its bytes are known and it refers to nothing back.
    ///
    /// # Errors
    /// As [`matches`](Self::matches).
    pub(super) fn groups_between(mut self, begin: usize, end: usize) -> Result<Option<Groups>, SqlError> {
        Ok(if self.divided(begin, end)? { Some(self.groups) } else { None })
    }

    /// Whether a match begins here; if so, `groups` are its.
    fn match_at(&mut self, begin: usize) -> Result<bool, SqlError> {
        let machine = self.machine;
        let top = &machine.top;
        if !top.traits.refers_back {
            let Some(end) = self.preferred_end(top, begin, self.text.len())? else { return Ok(false) };
            return self.divided(begin, end);
        }
        let mut ends = self.places(begin..self.text.len())?;
        self.walk(Way::Ahead, top.ends, begin..self.text.len(), &mut |end| {
            ends.add(end);
            ControlFlow::Continue(())
        })?;
        while let Some(end) = ends.take(top.prefers()) {
            if self.divided(begin, end)? {
                return Ok(true);
            }
        }
        self.give_back(ends);
        Ok(false)
    }

    /// Whether the bytes are a match, which they are by all but their back references; if so, `groups` are its.
    fn divided(&mut self, begin: usize, end: usize) -> Result<bool, SqlError> {
        let machine = self.machine;
        self.groups.clear();
        self.groups.resize(machine.groups + 1, None);
        let is_match = self.divide(&machine.top, begin, end)?;
        self.groups[0] = Some(begin..end);
        Ok(is_match)
    }

    /// The end that a part prefers of those between a byte and a bound.
    fn preferred_end(&mut self, part: &Part, begin: usize, bound: usize) -> Result<Option<usize>, SqlError> {
        let mut found = None;
        let prefers = part.prefers();
        self.walk(Way::Ahead, part.ends, begin..bound, &mut |end| {
            found = Some(end);
            if prefers == Prefers::Shortest { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(found)
    }

    /// Divides bytes that a part may be among what is in it. Whether they are one with its back references, too.
    fn divide(&mut self, part: &Part, begin: usize, end: usize) -> Result<bool, SqlError> {
        if !part.traits.has_groups && !part.traits.refers_back {
            return Ok(true);
        }
        with_room(|| match &part.kind {
            Kind::Plain => Ok(true),
            Kind::Group(number, inside) => {
                let is_so = self.divide(inside, begin, end)?;
                if is_so {
                    self.groups[*number] = Some(begin..end);
                }
                Ok(is_so)
            }
            Kind::Pair(pair) => self.divide_pair(pair, begin, end),
            Kind::Choice(parts) => self.divide_choice(parts, begin, end),
            Kind::Back { number, least, most } => self.is_repeated(*number, (*least, *most), begin..end),
            Kind::Repeated { part: turn, least, most } => {
                self.divide_turns((part, turn.as_ref()), (*least, *most), begin..end)
            }
        })
    }

    fn divide_pair(&mut self, pair: &[Part; 2], begin: usize, end: usize) -> Result<bool, SqlError> {
        let [first, second] = pair;
        let mut middles = self.places(begin..end)?;
        self.walk(Way::Ahead, first.ends, begin..end, &mut |middle| {
            middles.add(middle);
            ControlFlow::Continue(())
        })?;
        let mut fitting = self.places(begin..end)?;
        self.walk(Way::Behind, second.ends, begin..end, &mut |middle| {
            if middles.has(middle) {
                fitting.add(middle);
            }
            ControlFlow::Continue(())
        })?;
        self.give_back(middles);
        let mut is_so = false;
        while let Some(middle) = fitting.take(first.prefers()) {
            is_so = self.divide(first, begin, middle)? && self.divide(second, middle, end)?;
            if is_so {
                break;
            }
            self.forget(first);
            self.forget(second);
        }
        self.give_back(fitting);
        Ok(is_so)
    }

    fn divide_choice(&mut self, parts: &[Part], begin: usize, end: usize) -> Result<bool, SqlError> {
        for part in parts {
            if self.may_be(part, begin, end)? {
                if self.divide(part, begin, end)? {
                    return Ok(true);
                }
                self.forget(part);
            }
        }
        Ok(false)
    }

    /// Whether the bytes may be this part, by all but its back references.
    fn may_be(&mut self, part: &Part, begin: usize, end: usize) -> Result<bool, SqlError> {
        let mut is_so = false;
        self.walk(Way::Ahead, part.ends, begin..end, &mut |found| {
            is_so = found == end;
            ControlFlow::Continue(())
        })?;
        Ok(is_so)
    }

    /// Whether the bytes are what a group has, so many times.
    fn is_repeated(
        &mut self,
        number: usize,
        (least, most): (usize, Option<usize>),
        bytes: Range<usize>,
    ) -> Result<bool, SqlError> {
        let Some(group) = self.groups[number].clone() else { return Ok(false) };
        let (text, machine) = (self.text, self.machine);
        let (word, all) = (&text[group], &text[bytes]);
        self.count(all.len() + 1)?;
        if word.is_empty() {
            return Ok(all.is_empty());
        }
        let (mut turns, mut letters) = (0, all.chars().peekable());
        while letters.peek().is_some() {
            let fits = |letter: char| letters.next().is_some_and(|found| machine.are_same(letter, found));
            if !word.chars().all(fits) {
                return Ok(false);
            }
            turns += 1;
        }
        Ok(least <= turns && most.is_none_or(|most| turns <= most))
    }

    /// The groups in a part have nothing.
    fn forget(&mut self, part: &Part) {
        self.groups[part.groups.clone()].fill(None);
    }

    /// So many steps were made.
    fn count(&mut self, steps: usize) -> Result<(), SqlError> {
        self.steps += steps;
        match self.steps_until_look.checked_sub(steps) {
            Some(left) => self.steps_until_look = left,
            None => {
                self.steps_until_look = STEPS_BETWEEN_LOOKS;
                self.meter.look()?;
                if self.steps > STEPS_MAX {
                    return Err(too_many_steps());
                }
            }
        }
        Ok(())
    }

    /// Room for the places of these bytes.
    fn places(&mut self, bytes: Range<usize>) -> Result<Places, SqlError> {
        self.hold(Places::bytes_of(&bytes))?;
        Ok(Places::none_of(bytes))
    }

    fn give_back(&mut self, places: Places) {
        self.held -= places.bytes();
    }

    /// So many bytes more are about to be taken.
    fn hold(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.held += bytes;
        self.meter.workspace(self.held + self.held_by_sets)
    }
}

fn too_many_steps() -> SqlError {
    SqlError::new(SqlState::StatementTooComplex, "regular expression is too complex for this text")
        .with_detail(format!("The search was ended after {STEPS_MAX} steps."))
        .with_hint("A back reference is tried with each text that its group may have: let the group fit fewer texts.")
}

#[cfg(test)]
mod tests;
