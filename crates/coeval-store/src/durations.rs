// SPDX-License-Identifier: Apache-2.0
//! [`Durations`]: how often something took how long, for people and their charts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the durations that are told apart, in microseconds. The last one is none.
const BOUNDS_MICROS: [u64; 8] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, u64::MAX];

/// How often something took how long since the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    /// How many were at most so long and longer than the bound before; the last bound is [`Duration::MAX`].
    pub counts: Vec<(Duration, u64)>,
    /// All together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Counts durations. Plain counters: a reader may see one here and not yet there.
#[derive(Debug, Default)]
pub(crate) struct DurationCounters {
    counts: [AtomicU64; BOUNDS_MICROS.len()],
    total_nanos: AtomicU64,
    longest_nanos: AtomicU64,
}

impl DurationCounters {
    pub(crate) fn note(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let micros = nanos.div_ceil(1_000);
        let place = BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.total_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Durations {
        let bound = |&micros: &u64| match micros {
            u64::MAX => Duration::MAX,
            micros => Duration::from_micros(micros),
        };
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Durations {
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
    fn a_duration_is_counted_at_the_least_bound_that_it_does_not_pass() {
        let counters = DurationCounters::default();
        for micros in [1, 10, 11, 1_000, 20_000_000] {
            counters.note(Duration::from_micros(micros));
        }
        let read = counters.read();
        let counts: Vec<u64> = read.counts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(read.longest, Duration::from_secs(20));
        assert_eq!(read.total, Duration::from_micros(20_001_022));
        assert_eq!(read.counts[1].0, Duration::from_micros(100));
    }
}
