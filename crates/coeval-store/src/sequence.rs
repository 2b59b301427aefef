// SPDX-License-Identifier: Apache-2.0
//! Sequences: numbers handed out once, from ranges that are logged ahead.
//!
//! A sequence is not part of the world: a number that was handed out stays used when its transaction rolls
//! back. Before a number is handed out, a record that says "goes on behind it" is durable; so a crash skips at
//! most the rest of a range and never hands a number out twice.
//!
//! ```text
//!   given               ready: the record is durable      ahead: the record is written     not logged
//! ------------------|--------------------------------|---------------------------------|----------->
//!               position                         horizon                         next horizon
//! ```
//!
//! # Steps
//! 1. A number before the horizon is taken under the sequence's own lock, which is held for moments. Nobody waits
//!    for the log or for another sequence there.
//! 2. The caller that takes the first number of a range's second half appends the record of the next range, unless the pipeline's
//!    leader is busy at that moment, and does not sync it: most often a commit's sync has made it durable by the time that it is
//!    needed, and the sequence goes on without a sync of its own.
//! 3. A caller that finds no number before the horizon appends and syncs what is missing. Callers that want a number of the same
//!    sequence meanwhile wait for that; others do not.
//!
//! # Why no number is given twice
//! The newest durable record of a sequence says where it goes on after a crash, and every number that was given lies
//! before that, in the direction of the step:
//! - A horizon is a number with a direction, not a count. Another step (`ALTER SEQUENCE ... INCREMENT`) jumps
//!   further, but what it reaches is before the horizon or it is logged anew.
//! - One at a time logs for a sequence (`is_logging`), so its records are in the order of their horizons. A record
//!   that was written and may be durable or not is further than the one before; either one is far enough.
//! - A checkpoint's manifest takes the place of records that it read the state behind. `resume` is set before the
//!   record is appended, so a manifest that is written meanwhile says the same or more.
//! - Going back is wanted where somebody asks for it: `setval`, CYCLE (the first number is logged before it is
//!   given again), and a step of the other sign.
//!
//! # Sizes
//! A range that was used up within a second was too small, and the next one is twice as long, up to
//! [`RANGE_MAX`]; so there is about one record a second, whatever the rate, and a crash skips about what was used in
//! the last seconds. It never skips more than a 32nd of what is left up to the end.

use crate::catalog::SequenceDef;
use crate::error::StoreError;
use crate::ids::SequenceId;
use crate::log::{LogError, Lsn};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers logged ahead at first: enough that the sync vanishes, few enough that a crash wastes little.
const RANGE_MIN: u64 = 1_024;
/// Numbers logged ahead at most: ten million numbers in a second take some twenty records.
const RANGE_MAX: u64 = 1 << 20;
/// A range that lasts shorter than this is too small.
const RANGE_TIME_MIN: Duration = Duration::from_secs(1);
/// A range that lasts longer than this is larger than it needs to be.
const RANGE_TIME_MAX: Duration = Duration::from_secs(4);
/// A crash may skip this part of what is left of a sequence.
const LEFT_PER_SKIPPED: u128 = 32;

const _: () =
    assert!(RANGE_MIN <= RANGE_MAX && RANGE_MAX.is_power_of_two(), "ranges double up to the largest");

/// What sequences need of the log. `None` as an LSN: there is no log, and nothing to wait for.
pub(crate) trait SequenceLog {
    /// Appends where the sequence goes on after a crash; waits for the pipeline's leader.
    fn append(&self, id: SequenceId, resume: Option<i64>) -> Result<Option<Lsn>, StoreError>;

    /// As [`append`](Self::append), unless somebody leads in this moment: nothing has happened then.
    fn try_append(&self, id: SequenceId, resume: Option<i64>) -> Option<Result<Option<Lsn>, StoreError>>;

    /// Whether the record that ends there is durable. Waits for nobody.
    fn is_durable(&self, lsn: Lsn) -> bool;

    /// Makes it durable.
    fn sync(&self, lsn: Lsn) -> Result<(), StoreError>;

    /// Runs what waits for somebody else.
    fn aside(&self, wait: &mut dyn FnMut());
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// This number is the next one, whatever the step is.
    Next(i64),
    /// The next one is a step behind this one, which was given.
    After(i64),
    /// It has been used up to the end of the numbers.
    End,
}

impl Position {
    /// What the log and the manifest say of it: the number that it goes on at, outside of the sequence's bounds at its
    /// end, and nothing at the end of the numbers.
    fn resume(self, def: &SequenceDef) -> Option<i64> {
        match self {
            Self::Next(next) => Some(next),
            Self::After(last) => last.checked_add(def.increment),
            Self::End => None,
        }
    }
}

/// The number that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upcoming {
    Number(i64),
    /// The first one again.
    Again(i64),
    Exhausted,
}

/// Numbers before `end`, in the direction of the steps, may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Horizon {
    end: i128,
    is_ascending: bool,
}

impl Horizon {
    fn covers(self, number: i64, def: &SequenceDef) -> bool {
        let number = i128::from(number);
        let is_before = if self.is_ascending { number < self.end } else { number > self.end };
        self.is_ascending == is_ascending(def) && is_before
    }

    /// How many more steps there are from `number` on.
    fn steps_from(self, number: i64, def: &SequenceDef) -> u128 {
        (self.end - i128::from(number)).unsigned_abs() / u128::from(def.increment.unsigned_abs())
    }

    /// The number that the sequence goes on at behind it; nothing if that is none.
    fn resume(self) -> Option<i64> {
        i64::try_from(self.end).ok()
    }
}

/// Numbers that are to be logged together.
#[derive(Clone, Copy, Debug)]
struct Range {
    horizon: Horizon,
    count: u64,
    planned: Instant,
}

/// A range that is written to the log, and was not known to be durable.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    horizon: Horizon,
    lsn: Option<Lsn>,
}

#[derive(Debug)]
struct State {
    position: Position,
    /// What may be given; nothing before the first record.
    ready: Option<Horizon>,
    ahead: Option<Ahead>,
    /// Where the newest record says that it goes on, also while that is being appended.
    resume: Option<i64>,
    /// Somebody appends or syncs a record of this sequence.
    is_logging: bool,
    /// How many numbers the last range had, and since when it is used.
    range: u64,
    since: Option<Instant>,
}

/// One sequence.
///
/// # Locking
/// `state` is held for moments: never across the log, and no other lock is taken under it. `logged` says that
/// `is_logging` has ended. A caller that logs holds no lock, only that mark.
#[derive(Debug)]
struct Sequence {
    state: Mutex<State>,
    logged: Condvar,
}

/// The states of all sequences.
///
/// # Locking
/// `by_id` is held to find or add one; a sequence's own lock comes behind it. The pipeline takes neither.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    by_id: RwLock<HashMap<SequenceId, Arc<Sequence>>>,
}

/// What has to be done before a number can be given.
enum Step<'s> {
    Given(i64),
    /// Given; the record of the next range is to be appended.
    GivenOfSecondHalf(i64, Logging<'s>, Range),
    /// This range is to be logged first.
    Log(Logging<'s>, Range),
    /// The range that is written is to be synced first.
    Sync(Logging<'s>, Ahead),
    /// Somebody else logs.
    Wait,
}

impl Sequences {
    /// Sequences that go on where the log or a manifest says.
    pub(crate) fn recovered(next: impl IntoIterator<Item = (SequenceId, Option<i64>)>) -> Self {
        let position = |next: Option<i64>| next.map_or(Position::End, Position::Next);
        let sequences =
            next.into_iter().map(|(id, next)| (id, Arc::new(Sequence::new(position(next), next))));
        Self { by_id: RwLock::new(sequences.collect()) }
    }

    /// Goes on where the log of another store says, which this one follows: nobody takes numbers here meanwhile.
    pub(crate) fn follow(&self, points: impl IntoIterator<Item = (SequenceId, Option<i64>)>) {
        for (id, next) in points {
            let position = next.map_or(Position::End, Position::Next);
            self.by_id.write().insert(id, Arc::new(Sequence::new(position, next)));
        }
    }

    /// Where each sequence would go on after a crash now, for a manifest.
    pub(crate) fn resume_points(&self) -> Vec<(SequenceId, Option<i64>)> {
        let by_id = self.by_id.read();
        let mut points: Vec<_> =
            by_id.iter().map(|(id, sequence)| (*id, sequence.state.lock().resume)).collect();
        points.sort_unstable_by_key(|(id, _)| *id);
        points
    }

    /// The next number.
    pub(crate) fn next_value(&self, def: &SequenceDef, log: &impl SequenceLog) -> Result<i64, StoreError> {
        let sequence = self.sequence(def);
        loop {
            match sequence.step(def, log)? {
                Step::Given(number) => return Ok(number),
                Step::GivenOfSecondHalf(number, logging, range) => {
                    let horizon = range.horizon;
                    match log.try_append(def.id, horizon.resume()) {
                        Some(Ok(lsn)) => logging.finish(|state| {
                            state.note_logged(range);
                            state.ahead = Some(Ahead { horizon, lsn });
                        }),
                        None | Some(Err(StoreError::Log(LogError::NoRoom(_)))) => logging.take_back(),
                        // This number was logged before; a log that has failed says so when the next range is needed.
                        Some(Err(_)) => {}
                    }
                    return Ok(number);
                }
                Step::Log(logging, range) => {
                    let (logging, lsn) = logging.written(log.append(def.id, range.horizon.resume()))?;
                    lsn.map_or(Ok(()), |lsn| log.sync(lsn))?;
                    logging.finish(|state| {
                        state.note_logged(range);
                        state.ready = Some(range.horizon);
                    });
                }
                Step::Sync(logging, ahead) => {
                    ahead.lsn.map_or(Ok(()), |lsn| log.sync(lsn))?;
                    logging.finish(|state| state.go_on_to(ahead));
                }
                Step::Wait => log.aside(&mut || sequence.wait_until_logged()),
            }
        }
    }

    /// The number that comes next, which stays the next one; `None` at the end.
    pub(crate) fn upcoming(&self, def: &SequenceDef) -> Option<i64> {
        let sequence = self.by_id.read().get(&def.id).cloned();
        let position = sequence.map_or(Position::Next(def.start), |sequence| sequence.state.lock().position);
        match upcoming(position, def) {
            Upcoming::Number(number) | Upcoming::Again(number) => Some(number),
            Upcoming::Exhausted => None,
        }
    }

    /// Goes on at `position` from now on. Numbers that others take meanwhile count as taken before.
    pub(crate) fn set(
        &self,
        def: &SequenceDef,
        position: Position,
        log: &impl SequenceLog,
    ) -> Result<(), StoreError> {
        let sequence = self.sequence(def);
        let resume = position.resume(def);
        let logging = loop {
            match sequence.begin_logging(resume) {
                Some(logging) => break logging,
                None => log.aside(&mut || sequence.wait_until_logged()),
            }
        };
        let (logging, lsn) = logging.written(log.append(def.id, resume))?;
        lsn.map_or(Ok(()), |lsn| log.sync(lsn))?;
        logging.finish(|state| {
            state.position = position;
            state.ready = None;
            state.ahead = None;
        });
        Ok(())
    }

    fn sequence(&self, def: &SequenceDef) -> Arc<Sequence> {
        if let Some(known) = self.by_id.read().get(&def.id) {
            return Arc::clone(known);
        }
        let mut by_id = self.by_id.write();
        let fresh = || Arc::new(Sequence::new(Position::Next(def.start), Some(def.start)));
        Arc::clone(by_id.entry(def.id).or_insert_with(fresh))
    }
}

impl Sequence {
    fn new(position: Position, resume: Option<i64>) -> Self {
        let (ready, ahead, is_logging) = (None, None, false);
        let state = State { position, ready, ahead, resume, is_logging, range: 0, since: None };
        Self { state: Mutex::new(state), logged: Condvar::new() }
    }

    /// Gives the next number, or says what has to be done before.
    fn step(&self, def: &SequenceDef, log: &impl SequenceLog) -> Result<Step<'_>, StoreError> {
        let mut state = self.state.lock();
        let number = match upcoming(state.position, def) {
            Upcoming::Number(number) => number,
            Upcoming::Again(_) if state.is_logging => return Ok(Step::Wait),
            Upcoming::Again(first) => {
                // It was given before, so nothing that was logged allows it.
                state.position = Position::Next(first);
                state.ready = None;
                state.ahead = None;
                first
            }
            Upcoming::Exhausted => return Err(StoreError::SequenceExhausted(def.name.to_string())),
        };
        let is_ready = |state: &State| state.ready.is_some_and(|ready| ready.covers(number, def));
        if !is_ready(&state)
            && !state.is_logging
            && let Some(ahead) = state.ahead
            && ahead.lsn.is_none_or(|lsn| log.is_durable(lsn))
        {
            state.go_on_to(ahead);
        }
        if is_ready(&state) {
            state.position = Position::After(number);
            return Ok(match state.range_behind(number, def) {
                None => Step::Given(number),
                Some(range) => {
                    let resume = range.horizon.resume();
                    Step::GivenOfSecondHalf(number, self.mark_logging(state, resume), range)
                }
            });
        }
        if state.is_logging {
            return Ok(Step::Wait);
        }
        if let Some(ahead) = state.ahead {
            let resume = state.resume;
            return Ok(Step::Sync(self.mark_logging(state, resume), ahead));
        }
        let range = state.range_from(number, def);
        let resume = range.horizon.resume();
        Ok(Step::Log(self.mark_logging(state, resume), range))
    }

    /// Marks that the caller logs that it goes on at `resume`, if nobody else logs.
    fn begin_logging(&self, resume: Option<i64>) -> Option<Logging<'_>> {
        let state = self.state.lock();
        (!state.is_logging).then(|| self.mark_logging(state, resume))
    }

    fn mark_logging(&self, mut state: MutexGuard<'_, State>, resume: Option<i64>) -> Logging<'_> {
        assert!(!state.is_logging, "one at a time logs for a sequence");
        state.is_logging = true;
        let before = std::mem::replace(&mut state.resume, resume);
        Logging { sequence: self, before }
    }

    fn wait_until_logged(&self) {
        let mut state = self.state.lock();
        self.logged.wait_while(&mut state, |state| state.is_logging);
    }
}

impl State {
    /// What was written ahead may be given now.
    fn go_on_to(&mut self, ahead: Ahead) {
        self.ready = Some(ahead.horizon);
        self.ahead = None;
    }

    /// The range behind the one that `number` was given of, if it is time to log that.
    fn range_behind(&self, number: i64, def: &SequenceDef) -> Option<Range> {
        let ready = self.ready.filter(|_| self.ahead.is_none() && !self.is_logging)?;
        let end = i64::try_from(ready.end).ok().filter(|end| (def.min..=def.max).contains(end))?;
        if ready.steps_from(number, def) > u128::from(self.range / 2) {
            return None;
        }
        Some(self.range_from(end, def))
    }

    /// A range that begins at `first`.
    fn range_from(&self, first: i64, def: &SequenceDef) -> Range {
        let planned = Instant::now();
        let wanted = match self.since.map(|since| planned.saturating_duration_since(since)) {
            Some(lasted) if lasted < RANGE_TIME_MIN => self.range.saturating_mul(2),
            Some(lasted) if lasted > RANGE_TIME_MAX => self.range / 2,
            _ => self.range,
        };
        let (first, step) = (i128::from(first), i128::from(def.increment));
        let last = i128::from(if is_ascending(def) { def.max } else { def.min });
        let left = (last - first).unsigned_abs() / step.unsigned_abs();
        let may_skip = u64::try_from(left / LEFT_PER_SKIPPED).unwrap_or(u64::MAX);
        // Near the end each number is logged by itself: a crash must not waste the last ones.
        let count = wanted.clamp(RANGE_MIN, RANGE_MAX).min(may_skip).max(1);
        let horizon = Horizon { end: first + step * i128::from(count), is_ascending: is_ascending(def) };
        Range { horizon, count, planned }
    }

    /// The record of this range is written.
    fn note_logged(&mut self, range: Range) {
        self.range = range.count;
        self.since = Some(range.planned);
    }
}

/// Somebody logs for a sequence until this is finished or dropped.
struct Logging<'s> {
    sequence: &'s Sequence,
    /// Where the newest record said that it goes on before.
    before: Option<i64>,
}

impl Logging<'_> {
    /// Goes on with the record where it was written; without room for it nothing was.
    fn written(self, lsn: Result<Option<Lsn>, StoreError>) -> Result<(Self, Option<Lsn>), StoreError> {
        match lsn {
            Ok(lsn) => Ok((self, lsn)),
            Err(error) => {
                // The log goes on, and the next manifest must not say what no record says.
                if matches!(error, StoreError::Log(LogError::NoRoom(_))) {
                    self.take_back();
                }
                Err(error)
            }
        }
    }

    /// The record is where it was to be.
    fn finish(self, change: impl FnOnce(&mut State)) {
        change(&mut self.sequence.state.lock());
    }

    /// Nothing was written.
    fn take_back(self) {
        self.sequence.state.lock().resume = self.before;
    }
}

impl Drop for Logging<'_> {
    fn drop(&mut self) {
        self.sequence.state.lock().is_logging = false;
        self.sequence.logged.notify_all();
    }
}

fn is_ascending(def: &SequenceDef) -> bool {
    def.increment > 0
}

/// The number that comes at `position`.
fn upcoming(position: Position, def: &SequenceDef) -> Upcoming {
    let (first, last) = if is_ascending(def) { (def.min, def.max) } else { (def.max, def.min) };
    let next = match position {
        Position::Next(next) => Some(i128::from(next)),
        Position::After(last) => Some(i128::from(last) + i128::from(def.increment)),
        Position::End => None,
    };
    let is_past = |number: i128, other: i64| {
        if is_ascending(def) { number > i128::from(other) } else { number < i128::from(other) }
    };
    match next {
        Some(next) if !is_past(next, last) => {
            // The bounds may have been moved: what lies before the first number is passed over.
            let is_inside = next == i128::from(first) || is_past(next, first);
            let number = if is_inside { i64::try_from(next).ok() } else { None };
            Upcoming::Number(number.unwrap_or(first))
        }
        _ if def.cycle => Upcoming::Again(first),
        _ => Upcoming::Exhausted,
    }
}

#[cfg(test)]
mod tests;
