// SPDX-License-Identifier: Apache-2.0
//! What became of those who asked for safe snapshots, and what making these took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Figures of safe snapshots since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SafeSnapshotCounts {
    /// Transactions that began on one.
    pub taken: u64,
    /// Transactions that could not, because it lacked what their session had committed or read before.
    pub behind_floor: u64,
    /// Transactions that could not, because one that the boundary has passed was being certified.
    pub while_certifying: u64,
    /// Safe worlds that were made.
    pub made: u64,
    /// How long that took, all together.
    pub making: Duration,
}

/// Why somebody who asked for a safe snapshot got none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BehindFloor,
    WhileCertifying,
}

/// Counts as things happen; none of it decides anything.
#[derive(Debug, Default)]
pub(crate) struct SafeCounters {
    taken: AtomicU64,
    behind_floor: AtomicU64,
    while_certifying: AtomicU64,
    made: AtomicU64,
    making_nanos: AtomicU64,
}

impl SafeCounters {
    /// Somebody has asked for one.
    pub(crate) fn asked<T>(&self, outcome: &Result<T, Refusal>) {
        let counter = match outcome {
            Ok(_) => &self.taken,
            Err(Refusal::BehindFloor) => &self.behind_floor,
            Err(Refusal::WhileCertifying) => &self.while_certifying,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A safe world was made.
    pub(crate) fn made(&self, took: Duration) {
        self.made.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.making_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The figures as of now.
    pub(crate) fn read(&self) -> SafeSnapshotCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SafeSnapshotCounts {
            taken: load(&self.taken),
            behind_floor: load(&self.behind_floor),
            while_certifying: load(&self.while_certifying),
            made: load(&self.made),
            making: Duration::from_nanos(load(&self.making_nanos)),
        }
    }
}
