// SPDX-License-Identifier: Apache-2.0
//! The counters (3.1.3): transaction ids, commit timestamps, and the start timestamp that follows them in order.
//!
//! ```text
//! cts handed out     ... 7  8  9  10      finished: 7, 9, 10
//! sts                    7                8 finishes: sts goes to 10 at once
//! ```
//! Nobody asks repeatedly: who waits for the start timestamp sleeps until it has moved.
//!
//! # Earlier start timestamps
//! A transaction that reads this database together with others may begin at an earlier start timestamp ([`Counters::begin_at`]).
//! The part of the program that keeps such timestamps tells the oldest that may still be asked for ([`Counters::retain`]):
//! nothing newer counts as stable. Once a timestamp was given out as stable, no transaction begins before it any more. So even if
//! a timestamp was not retained, a transaction that could begin finds all versions that it has to see, and all write sets that
//! it is certified against.

use crate::interrupt::{LOOK, is_interrupted};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// Names a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Txid(pub(crate) i64);

/// A place in the order of commits: a start timestamp sees all commit timestamps up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timestamp(pub(crate) i64);

struct State {
    next_txid: i64,
    next_cts: i64,
    sts: i64,
    /// Commit timestamps above `sts` whose transactions have ended.
    finished: BTreeSet<i64>,
    running: BTreeMap<i64, i64>,
    /// The newest timestamp that was given out as stable.
    passed: i64,
    /// Why no timestamp will be handed out or advanced any more.
    stopped: Option<String>,
}

/// The start timestamp of a database's new transactions, for whoever keeps no more of it.
///
/// # Locking
/// Moves forward only, before whoever committed is told.
#[derive(Clone, Debug)]
pub struct Clock {
    newest: Arc<AtomicI64>,
}

impl Clock {
    /// What a transaction that begins now sees.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.newest.load(Ordering::SeqCst)
    }
}

/// Gives the oldest start timestamp that somebody may still begin at, if it is an earlier one than the newest.
type Oldest = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// The counters of a database.
///
/// # Locking
/// One lock guards all counters; nothing is called while it is held. `clock` is set under it.
pub(crate) struct Counters {
    state: Mutex<State>,
    advanced: Condvar,
    clock: Clock,
    retained: OnceLock<Oldest>,
}

impl Counters {
    /// Counters behind the last commit of an earlier life.
    pub(crate) fn after(txid: Txid, cts: Timestamp) -> Self {
        let state = State {
            next_txid: txid.0 + 1,
            next_cts: cts.0 + 1,
            sts: cts.0,
            finished: BTreeSet::new(),
            running: BTreeMap::new(),
            passed: cts.0,
            stopped: None,
        };
        let clock = Clock { newest: Arc::new(AtomicI64::new(cts.0)) };
        Self { state: Mutex::new(state), advanced: Condvar::new(), clock, retained: OnceLock::new() }
    }

    /// A new transaction; it counts as running until [`end`](Self::end).
    pub(crate) fn begin(&self) -> (Txid, Timestamp) {
        let mut state = self.state.lock();
        let (txid, sts) = (state.next_txid, state.sts);
        state.next_txid += 1;
        state.running.insert(txid, sts);
        (Txid(txid), Timestamp(sts))
    }

    /// A new transaction with an earlier start timestamp. None if what it would see may have been removed.
    pub(crate) fn begin_at(&self, sts: Timestamp) -> Option<(Txid, Timestamp)> {
        let mut state = self.state.lock();
        assert!(sts.0 <= state.sts, "start timestamps are given out once they are reached");
        if sts.0 < state.passed {
            return None;
        }
        let txid = state.next_txid;
        state.next_txid += 1;
        state.running.insert(txid, sts.0);
        Some((Txid(txid), sts))
    }

    /// Sets the function that tells the oldest start timestamp that may still be asked for. Set once.
    pub(crate) fn retain(&self, oldest: impl Fn() -> Option<i64> + Send + Sync + 'static) {
        let _ = self.retained.set(Box::new(oldest));
    }

    /// The start timestamp, to be looked at from elsewhere.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Nobody begins at a start timestamp before this one.
    pub(crate) fn passed(&self) -> Timestamp {
        Timestamp(self.state.lock().passed)
    }

    /// The transaction reads and writes nothing any more.
    pub(crate) fn end(&self, txid: Txid) {
        let was = self.state.lock().running.remove(&txid.0);
        assert!(was.is_some(), "a transaction ends once");
    }

    /// So many commit timestamps in a row. Each must be finished some day, or start timestamps stand still.
    pub(crate) fn take(&self, count: usize) -> RangeInclusive<i64> {
        assert!(count > 0, "a batch has a transaction");
        let mut state = self.state.lock();
        let first = state.next_cts;
        state.next_cts += i64::try_from(count).expect("a batch is small");
        first..=state.next_cts - 1
    }

    /// These transactions have ended, well or not.
    pub(crate) fn finish(&self, timestamps: impl IntoIterator<Item = Timestamp>) {
        let mut state = self.state.lock();
        for Timestamp(cts) in timestamps {
            assert!(cts > state.sts && cts < state.next_cts, "a timestamp finishes once, after it was taken");
            state.finished.insert(cts);
        }
        let before = state.sts;
        while state.finished.first() == Some(&(state.sts + 1)) {
            state.finished.pop_first();
            state.sts += 1;
        }
        if state.sts > before {
            self.clock.newest.store(state.sts, Ordering::SeqCst);
            self.advanced.notify_all();
        }
    }

    /// Sleeps until new transactions see this timestamp.
    ///
    /// # Errors
    /// The counters were stopped; whoever opens the database again will see it or not.
    pub(crate) fn wait_for(&self, timestamp: Timestamp) -> Result<(), String> {
        let mut state = self.state.lock();
        while state.sts < timestamp.0 {
            if let Some(reason) = &state.stopped {
                return Err(reason.clone());
            }
            self.advanced.wait(&mut state);
        }
        Ok(())
    }

    /// The same; false if the wait was [interrupted](is_interrupted) before.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub(crate) fn has_come(&self, timestamp: Timestamp) -> Result<bool, String> {
        let mut state = self.state.lock();
        while state.sts < timestamp.0 {
            if let Some(reason) = &state.stopped {
                return Err(reason.clone());
            }
            if MutexGuard::unlocked(&mut state, is_interrupted) {
                return Ok(false);
            }
            if state.sts < timestamp.0 && state.stopped.is_none() {
                self.advanced.wait_for(&mut state, LOOK);
            }
        }
        Ok(true)
    }

    /// What a transaction that begins now sees.
    pub(crate) fn newest(&self) -> Timestamp {
        Timestamp(self.state.lock().sts)
    }

    /// The last timestamp that was handed out.
    pub(crate) fn last_taken(&self) -> Timestamp {
        Timestamp(self.state.lock().next_cts - 1)
    }

    /// What every running and future transaction sees, and the first transaction that may still be running.
    pub(crate) fn stable(&self) -> (Timestamp, Txid) {
        // Asked before the lock is taken: a transaction that begins in between is among the running ones, so its snapshot is safe.
        let retained = self.retained.get().and_then(|oldest| oldest());
        let mut state = self.state.lock();
        let running = state.running.values().copied().min().unwrap_or(state.sts);
        let sts = retained.map_or(running, |retained| retained.min(running));
        state.passed = state.passed.max(sts);
        let txid = state.running.keys().next().copied().unwrap_or(state.next_txid);
        (Timestamp(sts), Txid(txid))
    }

    /// How many transactions are running.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Nothing commits any more; whoever waits is told why.
    pub(crate) fn stop(&self, reason: String) {
        self.state.lock().stopped.get_or_insert(reason);
        self.advanced.notify_all();
    }

    /// Why nothing commits any more, if so.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.state.lock().stopped.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn start_timestamps_follow_commits_in_order_past_those_that_failed() {
        let counters = Counters::after(Txid(11), Timestamp(4));
        assert_eq!(counters.begin(), (Txid(12), Timestamp(4)));
        assert_eq!((counters.take(3), counters.take(1)), (5..=7, 8..=8));
        counters.finish([Timestamp(6), Timestamp(8)]);
        assert_eq!(counters.newest(), Timestamp(4));
        counters.finish([Timestamp(5)]);
        assert_eq!((counters.newest(), counters.begin()), (Timestamp(6), (Txid(13), Timestamp(6))));
        assert_eq!(counters.stable(), (Timestamp(4), Txid(12)));
        counters.end(Txid(12));
        assert_eq!(counters.stable(), (Timestamp(6), Txid(13)));
        counters.finish([Timestamp(7)]);
        assert_eq!((counters.newest(), counters.last_taken()), (Timestamp(8), Timestamp(8)));
    }

    #[test]
    fn a_transaction_begins_at_a_timestamp_of_before_as_long_as_that_is_retained() {
        let counters = Counters::after(Txid(0), Timestamp(4));
        let oldest = Arc::new(AtomicI64::new(5));
        let retained = Arc::clone(&oldest);
        counters.retain(move || Some(retained.load(Ordering::SeqCst)));
        counters.take(4);
        counters.finish((5..=8).map(Timestamp));
        assert_eq!(counters.clock().newest(), 8);
        assert_eq!(counters.stable().0, Timestamp(5));
        let (first, _) = counters.begin_at(Timestamp(5)).unwrap();
        // It runs, so nobody has to retain it.
        oldest.store(7, Ordering::SeqCst);
        assert_eq!(counters.stable().0, Timestamp(5));
        counters.end(first);
        assert_eq!(counters.stable().0, Timestamp(7));
        assert_eq!(counters.begin_at(Timestamp(6)), None, "what it needs may be gone");
        // What was stable once stays so, whatever is retained.
        oldest.store(3, Ordering::SeqCst);
        assert_eq!(counters.stable().0, Timestamp(3));
        assert_eq!((counters.begin_at(Timestamp(6)), counters.passed()), (None, Timestamp(7)));
        assert_eq!(counters.begin_at(Timestamp(7)).map(|begun| begun.1), Some(Timestamp(7)));
    }

    #[test]
    fn who_waits_hears_that_it_is_to_end() {
        let counters = Counters::after(Txid(0), Timestamp(0));
        counters.take(1);
        let interrupt = |is_set: bool| -> crate::interrupt::Interrupt { Arc::new(move || is_set) };
        let wait = || counters.has_come(Timestamp(1));
        assert_eq!(crate::interrupt::interruptible(Some(interrupt(true)), wait), Ok(false));
        counters.finish([Timestamp(1)]);
        assert_eq!(crate::interrupt::interruptible(Some(interrupt(true)), wait), Ok(true), "it is there");
        assert!(!is_interrupted(), "behind it nothing is interrupted");
    }

    #[test]
    fn who_waits_is_woken_when_the_timestamp_is_there_or_will_never_be() {
        let counters = Arc::new(Counters::after(Txid(0), Timestamp(0)));
        counters.take(3);
        let waiter = |timestamp| {
            let counters = Arc::clone(&counters);
            std::thread::spawn(move || counters.wait_for(Timestamp(timestamp)))
        };
        let (second, third) = (waiter(2), waiter(3));
        counters.finish([Timestamp(2)]);
        counters.finish([Timestamp(1)]);
        assert_eq!(second.join().unwrap(), Ok(()));
        counters.stop("the engine went away".to_owned());
        assert_eq!(third.join().unwrap(), Err("the engine went away".to_owned()));
    }
}
