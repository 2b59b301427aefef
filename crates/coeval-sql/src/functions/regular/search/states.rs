// SPDX-License-Identifier: Apache-2.0
//! Sets of states of an automaton.

use super::super::machine::State;

/// States, in the order in which they came.
#[derive(Debug)]
pub(super) struct StateSet {
    members: Vec<State>,
    /// The round in which each state came last.
    rounds: Vec<u32>,
    round: u32,
}

impl StateSet {
    /// What a set takes of an automaton of so many states, with what may be kept for each of its members.
    pub(super) fn bytes_of(states: usize) -> usize {
        states * (2 * size_of::<State>() + size_of::<u32>() + 2 * size_of::<usize>())
    }

    /// None, of an automaton of so many states.
    pub(super) fn none_of(states: usize) -> Self {
        Self { members: Vec::new(), rounds: vec![0; states], round: 1 }
    }

    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.rounds.fill(0);
            self.round = 1;
        }
    }

    /// Whether it was not there.
    #[inline]
    pub(super) fn insert(&mut self, state: State) -> bool {
        let is_new = !self.contains(state);
        if is_new {
            self.rounds[state as usize] = self.round;
            self.members.push(state);
        }
        is_new
    }

    #[inline]
    pub(super) fn contains(&self, state: State) -> bool {
        self.rounds[state as usize] == self.round
    }

    pub(super) fn members(&self) -> &[State] {
        &self.members
    }
}
