// SPDX-License-Identifier: Apache-2.0
//! How a run tells somebody who watches what it is doing.

use std::time::Duration;

/// What happened during the last interval of a measured phase.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time since the phase began.
    pub elapsed: Duration,
    /// How long the phase lasts in all.
    pub total: Duration,
    /// Committed transactions per second in the interval.
    pub transactions_per_s: f64,
    /// Median latency of transactions in the interval.
    pub latency_p50: Duration,
    /// 99th percentile of the latency of transactions in the interval.
    pub latency_p99: Duration,
    /// Transactions committed since the phase began.
    pub committed: u64,
    /// Attempts that lost certification since the phase began.
    pub conflicts: u64,
    /// Analytical queries answered since the phase began.
    pub queries: u64,
    /// The query that ended last, by number, and how long it took.
    pub last_query: Option<(usize, Duration)>,
    /// Age of the oldest snapshot that an analytical query reads now; zero between queries.
    pub snapshot_age: Duration,
    /// Consistency checks that ran inside snapshots.
    pub checks: u64,
    /// Rows that violated one.
    pub violations: u64,
}

/// Told what a run does. Called from the thread that called [`run`](crate::run), and from loading threads.
pub trait Progress: Sync {
    /// A phase begins; `total` is in the unit that [`Progress::advance`] counts, if it is known.
    fn begin(&self, phase: &str, total: Option<u64>);
    /// So much more is done.
    fn advance(&self, count: u64);
    /// The phase is over.
    fn end(&self);
    /// About four times a second while transactions run.
    fn sample(&self, sample: &Sample);
    /// Whether the run should end early, with what it has found so far. Asked as often.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _total: Option<u64>) {}
    fn advance(&self, _count: u64) {}
    fn end(&self) {}
    fn sample(&self, _sample: &Sample) {}
}
