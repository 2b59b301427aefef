// SPDX-License-Identifier: Apache-2.0
//! Holding the leader's lock: for how long, and what becomes of a panic meanwhile.

use super::Leader;
use crate::log::LogError;
use crate::shared::Shared;
use crate::stopping::stop;
use parking_lot::MutexGuard;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The leader's lock while it is held. A panic of the holder may leave half changed what it guards, which nobody may use
/// again: it stops commits before the lock is given back.
pub(crate) struct Leading<'a> {
    leader: MutexGuard<'a, Leader>,
    shared: &'a Shared,
    since: Instant,
    /// Whoever cleans up behind a panic of its own has left nothing half changed here.
    was_panicking: bool,
}

impl<'a> Leading<'a> {
    pub(crate) fn new(leader: MutexGuard<'a, Leader>, shared: &'a Shared) -> Self {
        Self { leader, shared, since: Instant::now(), was_panicking: std::thread::panicking() }
    }
}

impl Deref for Leading<'_> {
    type Target = Leader;

    fn deref(&self) -> &Leader {
        &self.leader
    }
}

impl DerefMut for Leading<'_> {
    fn deref_mut(&mut self) -> &mut Leader {
        &mut self.leader
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            let text = "the process reported its text".to_owned();
            stop(self.shared, LogError::Panicked { during: "under the commit leader's lock", text });
        }
        self.shared.pipeline.stays.note(self.since.elapsed());
    }
}

/// Upper bounds of the stays that are told apart, in microseconds. The last one is none.
const BOUNDS_MICROS: [u64; 8] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, u64::MAX];

/// For how long the leader's lock was held, since the store was opened: nobody commits meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderStays {
    /// How many stays were at most so long and longer than the bound before; the last bound is [`Duration::MAX`].
    pub counts: Vec<(Duration, u64)>,
    /// All together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Counts stays. Plain counters: a reader may see a stay in one and not yet in another.
#[derive(Debug, Default)]
pub(crate) struct StayCounters {
    counts: [AtomicU64; BOUNDS_MICROS.len()],
    total_nanos: AtomicU64,
    longest_nanos: AtomicU64,
}

impl StayCounters {
    fn note(&self, stay: Duration) {
        let nanos = u64::try_from(stay.as_nanos()).unwrap_or(u64::MAX);
        let micros = nanos.div_ceil(1_000);
        let place = BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.total_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> LeaderStays {
        let bound = |&micros: &u64| match micros {
            u64::MAX => Duration::MAX,
            micros => Duration::from_micros(micros),
        };
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        LeaderStays {
            counts: BOUNDS_MICROS.iter().map(bound).zip(counts).collect(),
            total: Duration::from_nanos(self.total_nanos.load(Ordering::Relaxed)),
            longest: Duration::from_nanos(self.longest_nanos.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stay_is_counted_at_the_least_bound_that_it_does_not_pass() {
        let counters = StayCounters::default();
        for micros in [1, 10, 11, 1_000, 20_000_000] {
            counters.note(Duration::from_micros(micros));
        }
        let stays = counters.read();
        let counts: Vec<u64> = stays.counts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(stays.longest, Duration::from_secs(20));
        assert_eq!(stays.total, Duration::from_micros(20_001_022));
        assert_eq!(stays.counts[1].0, Duration::from_micros(100));
    }
}
