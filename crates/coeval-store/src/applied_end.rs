// SPDX-License-Identifier: Apache-2.0
//! Up to where the newest world of a follower has its log, while the follower goes through that (`following/own_log.rs`).

use crate::log::Lsn;
use std::sync::atomic::{AtomicU64, Ordering};

/// Up to where the newest world has the log, if that may be less than all of it. A checkpoint stands there.
#[derive(Debug)]
pub(crate) struct AppliedEnd(AtomicU64);

/// The world has all of the log.
const ALL: u64 = u64::MAX;

impl Default for AppliedEnd {
    fn default() -> Self {
        Self(AtomicU64::new(ALL))
    }
}

impl AppliedEnd {
    /// The place, unless the world has all of the log.
    pub(crate) fn get(&self) -> Option<Lsn> {
        Some(self.0.load(Ordering::Acquire)).filter(|place| *place != ALL).map(Lsn::new)
    }

    /// From here on the log may have more than the world.
    pub(crate) fn begin(&self, place: Lsn) {
        self.0.store(place.get(), Ordering::Release);
    }

    /// The world has more of the log. Under the leader's lock.
    pub(crate) fn note(&self, place: Lsn) {
        if self.get().is_some() {
            self.begin(place);
        }
    }
}
