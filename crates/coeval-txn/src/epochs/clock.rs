// SPDX-License-Identifier: Apache-2.0
//! The epochs of one process: EC, LCE, LSE, what is pending, and which snapshots are held.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::counters::EpochCounters;
use super::{Epoch, EpochSet, Stride};

/// The epoch clock of a process. A clone is another handle to the same clock.
///
/// A transaction that writes brick tables [begins](Self::begin) an epoch for each of its savepoint levels, and
/// [commits](Self::commit) or [rolls back](Self::roll_back) them. A reader [holds](Self::hold) the set of
/// epochs that it reads by, so that LSE, and with it purge, stays behind it.
///
/// ```
/// use coeval_txn::{Epoch, EpochClock, Stride};
///
/// let clock = EpochClock::new(Stride::ALONE);
/// let load = clock.begin().epoch;
/// let before = clock.snapshot();
/// clock.commit(&[load]);
/// assert!(!before.set().contains(load));
/// assert!(clock.snapshot().set().contains(load));
///
/// assert_eq!(clock.advance_safe(Epoch::MAX), Epoch::ZERO, "held back by a reader that does not see the load");
/// drop(before);
/// assert_eq!(clock.advance_safe(Epoch::MAX), load);
/// ```
#[derive(Clone)]
pub struct EpochClock {
    /// # Locking
    ///
    /// Guards the counters and the held horizons. A leaf lock: while it is held only the closure of
    /// [`hold`](EpochClock::hold) runs, which reads an atomic pointer and takes no lock.
    state: Arc<Mutex<ClockState>>,
}

struct ClockState {
    counters: EpochCounters,
    /// The horizons of the held sets, each with the number of its holders.
    held: BTreeMap<Epoch, usize>,
}

/// What a transaction gets when it begins an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunEpoch {
    /// The label of the rows that the transaction will write.
    pub epoch: Epoch,
    /// What was committed before: all epochs below, without those pending (the paper's `deps`).
    pub snapshot: EpochSet,
}

/// The counters at one moment, for `coeval_epochs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochStatus {
    /// EC: the epoch that the next transaction gets.
    pub next: Epoch,
    /// LCE: the latest committed epoch with nothing pending below.
    pub latest_committed: Epoch,
    /// LSE: the epoch that purge may work up to.
    pub latest_safe: Epoch,
    /// The epochs that have begun and not ended, in ascending order.
    pub pending: Vec<Epoch>,
    /// The horizon of the oldest held set, beyond which LSE does not go.
    pub oldest_held: Option<Epoch>,
}

impl EpochClock {
    /// The clock of a database that has no epoch yet.
    #[must_use]
    pub fn new(stride: Stride) -> Self {
        Self::of(EpochCounters::new(stride))
    }

    /// The clock of a database that was recovered up to `newest`; what was pending above it is gone.
    #[must_use]
    pub fn recovered(stride: Stride, newest: Epoch) -> Self {
        Self::of(EpochCounters::after(stride, newest))
    }

    fn of(counters: EpochCounters) -> Self {
        Self { state: Arc::new(Mutex::new(ClockState { counters, held: BTreeMap::new() })) }
    }

    /// Begins an epoch (EC moves on), which is pending until it is committed or rolled back.
    #[must_use]
    pub fn begin(&self) -> BegunEpoch {
        let (epoch, dependencies) = self.state.lock().counters.begin();
        BegunEpoch { epoch, snapshot: EpochSet::below(epoch).without(dependencies) }
    }

    /// Ends all `epochs` of a transaction as committed, at once. The set of what is committed now.
    ///
    /// Their rows must have been applied to the bricks: whoever takes a snapshot from here on sees them.
    ///
    /// # Panics
    ///
    /// If one of them is not pending.
    pub fn commit(&self, epochs: &[Epoch]) -> EpochSet {
        let mut state = self.state.lock();
        for epoch in epochs {
            state.counters.commit(*epoch);
        }
        state.counters.advance_committed(|_| true);
        state.counters.committed()
    }

    /// As [`commit`](Self::commit); the set is held before LSE can pass it.
    ///
    /// # Panics
    ///
    /// If one of the epochs is not pending.
    pub fn commit_and_hold(&self, epochs: &[Epoch]) -> HeldEpochs {
        let mut state = self.state.lock();
        for epoch in epochs {
            state.counters.commit(*epoch);
        }
        state.counters.advance_committed(|_| true);
        let set = state.counters.committed();
        self.register(&mut state, set)
    }

    /// Ends `epochs` as rolled back. Their rows must have been removed from the bricks before: LCE and LSE may
    /// pass these epochs now, and sets that contain them be handed out.
    ///
    /// # Panics
    ///
    /// If one of them is not pending.
    pub fn roll_back(&self, epochs: &[Epoch]) {
        let mut state = self.state.lock();
        for epoch in epochs {
            state.counters.roll_back(*epoch);
        }
        state.counters.advance_committed(|_| true);
    }

    /// Those of `epochs` that have been handed out and are pending no more.
    #[must_use]
    pub fn ended(&self, epochs: &[Epoch]) -> Vec<Epoch> {
        let state = self.state.lock();
        let is_ended =
            |epoch: &Epoch| *epoch < state.counters.next() && !state.counters.pending().contains(epoch);
        epochs.iter().copied().filter(is_ended).collect()
    }

    /// What is committed now.
    #[must_use]
    pub fn committed(&self) -> EpochSet {
        self.state.lock().counters.committed()
    }

    /// What is committed now, held.
    pub fn snapshot(&self) -> HeldEpochs {
        let mut state = self.state.lock();
        let set = state.counters.committed();
        self.register(&mut state, set)
    }

    /// Holds the set that `choose` gives (that of the current world), until the guard is dropped.
    ///
    /// `choose` runs under the clock's lock, so that LSE cannot pass between choosing and holding; it must
    /// neither block nor call this clock.
    ///
    /// # Panics
    ///
    /// If LSE has already passed the set's horizon: purge may have merged what the set tells apart.
    pub fn hold(&self, choose: impl FnOnce() -> EpochSet) -> HeldEpochs {
        let mut state = self.state.lock();
        let set = choose();
        self.register(&mut state, set)
    }

    /// Goes on, in a process that begins no epochs itself, to the set that another one has committed, and holds that. All
    /// epochs up to `ended` have ended there, and nobody there tells them apart any more: LCE goes so far, and LSE no further,
    /// whatever is held here. A delete that comes later covers all of these epochs or, of those that were rolled back, none.
    ///
    /// # Panics
    ///
    /// If the set lacks an epoch up to `ended`, or LSE has passed its horizon.
    pub fn follow(&self, set: &EpochSet, ended: Epoch) -> HeldEpochs {
        let mut state = self.state.lock();
        state.counters.follow(set, ended);
        self.register(&mut state, set.clone())
    }

    /// Holds `set`, until the guard is dropped; `None` if LSE has passed its horizon, or if it has epochs that are pending
    /// or have not been handed out: no snapshot of this clock sees these.
    pub fn try_hold(&self, set: &EpochSet) -> Option<HeldEpochs> {
        let mut state = self.state.lock();
        let counters = &state.counters;
        let is_past = set.horizon() >= counters.latest_safe() && set.newest() < counters.next();
        let is_snapshot = is_past && !counters.pending().iter().any(|epoch| set.contains(*epoch));
        is_snapshot.then(|| self.register(&mut state, set.clone()))
    }

    fn register(&self, state: &mut ClockState, set: EpochSet) -> HeldEpochs {
        let latest_safe = state.counters.latest_safe();
        assert!(set.horizon() >= latest_safe, "LSE {latest_safe} has passed the set {set}");
        *state.held.entry(set.horizon()).or_default() += 1;
        HeldEpochs { clock: self.clone(), set }
    }

    /// Lamport's rule: after a message from a node whose clock was `clock`, this one is not behind it.
    pub fn observe(&self, clock: Epoch) {
        self.state.lock().counters.observe(clock);
    }

    /// Moves LSE as far as LCE, the held sets and `flushed` allow, and gives the result. LSE never moves back.
    ///
    /// All epochs up to `flushed` must be durable, and the oldest set that a later [`hold`](Self::hold) may
    /// still choose (that of the published world) must contain them.
    pub fn advance_safe(&self, flushed: Epoch) -> Epoch {
        let mut state = self.state.lock();
        let oldest_held = state.held.first_key_value().map_or(flushed, |(horizon, _)| *horizon);
        state.counters.advance_safe(flushed.min(oldest_held))
    }

    /// The counters now.
    #[must_use]
    pub fn status(&self) -> EpochStatus {
        let state = self.state.lock();
        EpochStatus {
            next: state.counters.next(),
            latest_committed: state.counters.latest_committed(),
            latest_safe: state.counters.latest_safe(),
            pending: state.counters.pending().iter().copied().collect(),
            oldest_held: state.held.first_key_value().map(|(horizon, _)| *horizon),
        }
    }
}

impl fmt::Debug for EpochClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.status(), formatter)
    }
}

/// A set of epochs that somebody reads by: LSE does not pass its horizon before this is dropped.
///
/// A transaction that deletes keeps it until it has ended, since its delete markers carry the set.
#[must_use = "dropping the guard lets purge go on"]
pub struct HeldEpochs {
    clock: EpochClock,
    set: EpochSet,
}

impl HeldEpochs {
    /// The set.
    #[must_use]
    pub fn set(&self) -> &EpochSet {
        &self.set
    }
}

impl Drop for HeldEpochs {
    fn drop(&mut self) {
        let mut state = self.clock.state.lock();
        let horizon = self.set.horizon();
        let holders =
            state.held.get_mut(&horizon).expect("a held horizon stays until its guards are dropped");
        *holders -= 1;
        if *holders == 0 {
            state.held.remove(&horizon);
        }
    }
}

impl fmt::Debug for HeldEpochs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("HeldEpochs").field(&self.set).finish()
    }
}

#[cfg(test)]
mod tests;
