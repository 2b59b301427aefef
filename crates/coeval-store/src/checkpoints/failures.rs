// SPDX-License-Identifier: Apache-2.0
//! Whether checkpoints fail, for who watches the store: commits go on without them, and log and deltas grow.

use crate::error::StoreError;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Checkpoints that have failed since the last one that did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFailures {
    /// How many.
    pub count: u64,
    /// For how long: since the first of them.
    pub lasting: Duration,
    /// Why the last of them did.
    pub reason: String,
}

/// Notes what becomes of checkpoints; none of it decides anything.
///
/// # Locking
/// A leaf lock, held for moments.
#[derive(Debug, Default)]
pub(super) struct Outcomes(Mutex<Option<Failing>>);

#[derive(Debug)]
struct Failing {
    count: u64,
    since: Instant,
    reason: String,
}

impl Outcomes {
    /// A checkpoint has ended. One that ends because the store is closed tells nothing.
    pub(super) fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let mut failing = self.0.lock();
        match outcome {
            Ok(_) => *failing = None,
            Err(StoreError::Closing) => {}
            Err(error) => {
                let first = || Failing { count: 0, since: Instant::now(), reason: String::new() };
                let failing = failing.get_or_insert_with(first);
                failing.count += 1;
                failing.reason = error.to_string();
            }
        }
    }

    pub(super) fn failures(&self) -> Option<CheckpointFailures> {
        let failing = self.0.lock();
        failing.as_ref().map(|failing| CheckpointFailures {
            count: failing.count,
            lasting: failing.since.elapsed(),
            reason: failing.reason.clone(),
        })
    }
}
