// SPDX-License-Identifier: Apache-2.0
//! The counters (3.1.3): transaction ids, commit timestamps, and the start timestamp that follows them in order.
//!
//! ```text
//! cts handed out     ... 7  8  9  10      finished: 7, 9, 10
//! sts                    7                8 finishes: sts goes to 10 at once
//! ```
//! Nobody asks repeatedly: who waits for the start timestamp sleeps until it has moved.

use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

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
    /// Why no timestamp will be handed out or advanced any more.
    stopped: Option<String>,
}

/// The counters of a database.
///
/// # Locking
/// One lock guards all counters; nothing is called while it is held.
pub(crate) struct Counters {
    state: Mutex<State>,
    advanced: Condvar,
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
            stopped: None,
        };
        Self { state: Mutex::new(state), advanced: Condvar::new() }
    }

    /// A new transaction; it counts as running until [`end`](Self::end).
    pub(crate) fn begin(&self) -> (Txid, Timestamp) {
        let mut state = self.state.lock();
        let (txid, sts) = (state.next_txid, state.sts);
        state.next_txid += 1;
        state.running.insert(txid, sts);
        (Txid(txid), Timestamp(sts))
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
        let state = self.state.lock();
        let sts = state.running.values().copied().min().unwrap_or(state.sts);
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
