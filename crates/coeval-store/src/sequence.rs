// SPDX-License-Identifier: Apache-2.0
//! Sequences: numbers handed out once, from ranges that are logged ahead (DESIGN 5.1).
//!
//! A sequence is not part of the world: a number that was handed out stays used when its transaction rolls
//! back. Before a range is used its end is in the log and durable, so a crash skips at most the rest of the
//! range and never hands a number out twice.

use crate::catalog::SequenceDef;
use crate::error::StoreError;
use crate::ids::SequenceId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Numbers logged ahead: enough that the sync vanishes, few enough that a crash wastes little.
const RANGE: u64 = 1_024;

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// The next number; `None` at the end.
    next: Option<i64>,
    /// How many more may be handed out before the log must know.
    logged: u64,
    /// Where it goes on after a crash, as the log knows.
    resume: Option<i64>,
}

/// The states of all sequences.
///
/// # Locking
/// `states` is held across the log's append and sync of a new range, so that two sessions never log the same
/// one; the pipeline never takes it.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    states: Mutex<HashMap<SequenceId, State>>,
}

impl Sequences {
    /// Sequences that go on where the log or a manifest says.
    pub(crate) fn recovered(next: impl IntoIterator<Item = (SequenceId, Option<i64>)>) -> Self {
        let states =
            next.into_iter().map(|(id, next)| (id, State { next, logged: 0, resume: next })).collect();
        Self { states: Mutex::new(states) }
    }

    /// Where each sequence would go on after a crash now, for a manifest.
    pub(crate) fn resume_points(&self) -> Vec<(SequenceId, Option<i64>)> {
        let states = self.states.lock();
        let mut points: Vec<_> = states.iter().map(|(id, state)| (*id, state.resume)).collect();
        points.sort_unstable_by_key(|(id, _)| *id);
        points
    }

    /// The next number. `log` makes a new resume point durable.
    pub(crate) fn next_value(
        &self,
        def: &SequenceDef,
        log: impl FnOnce(Option<i64>) -> Result<(), StoreError>,
    ) -> Result<i64, StoreError> {
        let mut states = self.states.lock();
        let fresh = State { next: Some(def.start), logged: 0, resume: Some(def.start) };
        let state = states.entry(def.id).or_insert(fresh);
        let Some(value) = state.next else {
            return Err(StoreError::SequenceExhausted(def.name.to_string()));
        };
        if state.logged == 0 {
            // Near the end of the sequence each number is logged by itself: a crash must not waste the last.
            let range = if in_bounds(def, value, RANGE).is_some() { RANGE } else { 1 };
            let resume = advance(def, value, range);
            log(resume)?;
            state.resume = resume;
            state.logged = range;
        }
        state.logged -= 1;
        state.next = advance(def, value, 1);
        Ok(value)
    }

    /// The number that comes next, which stays the next one; `None` at the end.
    pub(crate) fn upcoming(&self, def: &SequenceDef) -> Option<i64> {
        let states = self.states.lock();
        states.get(&def.id).map_or(Some(def.start), |state| state.next)
    }

    /// Goes on at `next` from now on.
    pub(crate) fn set(
        &self,
        id: SequenceId,
        next: Option<i64>,
        log: impl FnOnce(Option<i64>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut states = self.states.lock();
        log(next)?;
        states.insert(id, State { next, logged: 0, resume: next });
        Ok(())
    }
}

/// The number `steps` after `value`, if the sequence has it.
fn in_bounds(def: &SequenceDef, value: i64, steps: u64) -> Option<i64> {
    let target = i128::from(value) + i128::from(def.increment) * i128::from(steps);
    let inside = target >= i128::from(def.min) && target <= i128::from(def.max);
    if inside { i64::try_from(target).ok() } else { None }
}

/// The number `steps` after `value`; behind the end the first one again if the sequence cycles, else `None`.
pub(crate) fn advance(def: &SequenceDef, value: i64, steps: u64) -> Option<i64> {
    let again = def.cycle.then_some(if def.increment > 0 { def.min } else { def.max });
    in_bounds(def, value, steps).or(again)
}
