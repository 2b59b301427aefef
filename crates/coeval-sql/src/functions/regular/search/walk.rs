// SPDX-License-Identifier: Apache-2.0
//! Walks over a text by all ways at once that a part of a pattern allows.

use super::super::machine::{Edges, Ends, State, Step};
use super::super::syntax::Way;
use super::Search;
use super::states::StateSet;
use crate::error::SqlError;
use crate::stack::with_room;
use std::mem::swap;
use std::ops::{ControlFlow, Range};

/// States, and for each the byte at which what has come to it begins; the first begin first.
struct Threads {
    states: StateSet,
    begins: Vec<usize>,
}

impl Threads {
    fn clear(&mut self) {
        self.states.clear();
        self.begins.clear();
    }
}

impl Search<'_> {
    /// Calls `visit` with each byte at which a part may end that begins at the first of these bytes; or, going behind, at which it
    /// may begin if it ends at the last one: the nearest first.
    pub(super) fn walk(
        &mut self,
        way: Way,
        ends: Ends,
        bytes: Range<usize>,
        visit: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        let (machine, text) = (self.machine, self.text);
        let (edges, begin, goal, mut at, bound) = match way {
            Way::Ahead => (&machine.ahead, ends.from, ends.to, bytes.start, bytes.end),
            Way::Behind => (&machine.behind, ends.to, ends.from, bytes.end, bytes.start),
        };
        let (mut now, mut next) = (self.states()?, self.states()?);
        now.insert(begin);
        loop {
            self.close(&mut now, edges, goal, at)?;
            self.count(now.members().len())?;
            if (now.contains(goal) && visit(at).is_break()) || at == bound {
                break;
            }
            let letter = match way {
                Way::Ahead => text[at..].chars().next(),
                Way::Behind => text[..at].chars().next_back(),
            };
            let Some(letter) = letter else { break };
            for &state in now.members().iter().filter(|state| **state != goal) {
                for edge in edges.of(state) {
                    if machine.takes(edge.step, letter) {
                        next.insert(edge.to);
                    }
                }
            }
            if next.members().is_empty() {
                break;
            }
            swap(&mut now, &mut next);
            next.clear();
            at = match way {
                Way::Ahead => at + letter.len_utf8(),
                Way::Behind => at - letter.len_utf8(),
            };
        }
        self.spare.extend([now, next]);
        Ok(())
    }

    /// A set without states, one that was used before if there is any.
    fn states(&mut self) -> Result<StateSet, SqlError> {
        if let Some(mut states) = self.spare.pop() {
            states.clear();
            return Ok(states);
        }
        // Each of what looks around within another one has sets of its own.
        self.held_by_sets += StateSet::bytes_of(self.machine.states);
        self.hold(0)?;
        Ok(StateSet::none_of(self.machine.states))
    }

    /// Adds what is reached without a letter; the goal is not left.
    fn close(&mut self, set: &mut StateSet, edges: &Edges, goal: State, at: usize) -> Result<(), SqlError> {
        let mut place = 0;
        while let Some(&state) = set.members().get(place) {
            place += 1;
            if state == goal {
                continue;
            }
            for edge in edges.of(state) {
                if !set.contains(edge.to) && self.is_open(edge.step, at)? {
                    set.insert(edge.to);
                }
            }
        }
        Ok(())
    }

    /// Whether a step may be made here without a letter.
    fn is_open(&mut self, step: Step, at: usize) -> Result<bool, SqlError> {
        let machine = self.machine;
        match step {
            Step::Free => Ok(true),
            Step::Letter(_) => Ok(false),
            Step::Place(place) => Ok(machine.is_at(place, self.text, at)),
            Step::Look(number) => {
                let look = &machine.looks[number as usize];
                let bytes = match look.way {
                    Way::Ahead => at..self.text.len(),
                    Way::Behind => 0..at,
                };
                let mut is_there = false;
                with_room(|| {
                    self.walk(look.way, look.ends, bytes, &mut |_| {
                        is_there = true;
                        ControlFlow::Break(())
                    })
                })?;
                Ok(is_there == look.is_wanted)
            }
        }
    }

    /// Where the first match from this byte on begins, back references aside.
    pub(super) fn first_begin(&mut self, from: usize) -> Result<Option<usize>, SqlError> {
        let (machine, text) = (self.machine, self.text);
        let Ends { from: begin, to: goal } = machine.top.ends;
        let mut now = Threads { states: self.states()?, begins: Vec::new() };
        let mut next = Threads { states: self.states()?, begins: Vec::new() };
        let (mut at, mut found, mut open) = (from, None, Vec::new());
        loop {
            if found.is_none() {
                self.spread(&mut now, &mut open, (begin, at), at)?;
            }
            self.count(now.begins.len())?;
            if let Some(place) = now.states.members().iter().position(|state| *state == goal) {
                found = Some(now.begins[place]);
            }
            // Only what begins before the match that was found may be an earlier one.
            let earlier = now.begins.partition_point(|begin| found.is_none_or(|found| *begin < found));
            let letter = text[at..].chars().next();
            let Some(letter) = letter.filter(|_| earlier > 0) else { break };
            at += letter.len_utf8();
            for (state, begin) in now.states.members().iter().zip(&now.begins).take(earlier) {
                for edge in machine.ahead.of(*state) {
                    if machine.takes(edge.step, letter) {
                        self.spread(&mut next, &mut open, (edge.to, *begin), at)?;
                    }
                }
            }
            swap(&mut now, &mut next);
            next.clear();
        }
        self.spare.extend([now.states, next.states]);
        Ok(found)
    }

    /// Adds a state, and what is reached from it without a letter, unless what begins earlier has come there.
    fn spread(
        &mut self,
        threads: &mut Threads,
        open: &mut Vec<State>,
        (state, begin): (State, usize),
        at: usize,
    ) -> Result<(), SqlError> {
        let machine = self.machine;
        open.push(state);
        while let Some(state) = open.pop() {
            if !threads.states.insert(state) {
                continue;
            }
            threads.begins.push(begin);
            if state == machine.top.ends.to {
                continue;
            }
            for edge in machine.ahead.of(state) {
                if !threads.states.contains(edge.to) && self.is_open(edge.step, at)? {
                    open.push(edge.to);
                }
            }
        }
        Ok(())
    }
}
