// SPDX-License-Identifier: Apache-2.0
//! Panics on purpose, so that tests see what becomes of one in the places that every commit depends on.

use std::sync::atomic::{AtomicU8, Ordering};

/// Where a test can have a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// The leader has taken the queue.
    Take = 1,
    /// It certifies a transaction.
    Certify,
    /// It applies one.
    Apply,
    /// It notes one as committed.
    Admit,
    /// It is about to append the record of a batch.
    Append,
    /// The record is appended, the world not installed.
    Install,
    /// The world is installed, nobody has been told.
    Verdicts,
    /// Whoever syncs the log for all has begun.
    Sync,
    /// Worlds are being published.
    Publish,
    /// Worlds are published; those who wait have not been woken.
    Settle,
    /// The keeper has been woken.
    Keep,
    /// A checkpoint has merged what it writes.
    Merge,
    /// A checkpoint holds the leader's lock to put its chunks in place.
    PutInPlace,
}

/// At most one panic, at the next passage through a step. Never armed outside tests.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    /// The step; 0 for none. Plain: a test arms it before what it wants to see.
    armed: AtomicU8,
}

impl Trap {
    #[cfg(test)]
    pub(crate) const ALL: [Step; 13] = [
        Step::Take,
        Step::Certify,
        Step::Apply,
        Step::Admit,
        Step::Append,
        Step::Install,
        Step::Verdicts,
        Step::Sync,
        Step::Publish,
        Step::Settle,
        Step::Keep,
        Step::Merge,
        Step::PutInPlace,
    ];

    /// Whoever comes to the step next panics.
    #[cfg(test)]
    pub(crate) fn arm(&self, step: Step) {
        self.armed.store(step as u8, Ordering::SeqCst);
    }

    /// Panics if it is armed for this step.
    #[inline]
    pub(crate) fn pass(&self, step: Step) {
        if self.armed.load(Ordering::Relaxed) == step as u8 {
            self.spring(step);
        }
    }

    #[cold]
    fn spring(&self, step: Step) {
        let is_first = self.armed.compare_exchange(step as u8, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        assert!(!is_first, "a trap was set at {step:?}");
    }
}
