// SPDX-License-Identifier: Apache-2.0
//! Holding the leader's lock: for how long, and what becomes of a panic meanwhile.

use super::{Leader, Pipeline};
use crate::log::LogError;
use crate::publishing::stop;
use parking_lot::MutexGuard;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// The leader's lock while it is held. A panic of the holder may leave half changed what it guards, which nobody may use
/// again: it stops commits before the lock is given back.
pub(crate) struct Leading<'a> {
    leader: MutexGuard<'a, Leader>,
    pipeline: &'a Pipeline,
    since: Instant,
    /// Whoever cleans up behind a panic of its own has left nothing half changed here.
    was_panicking: bool,
}

impl<'a> Leading<'a> {
    pub(crate) fn new(leader: MutexGuard<'a, Leader>, pipeline: &'a Pipeline) -> Self {
        Self { leader, pipeline, since: Instant::now(), was_panicking: std::thread::panicking() }
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
            stop(
                &self.pipeline.publishing,
                LogError::Panicked { during: "under the commit leader's lock", text },
            );
        }
        self.pipeline.stays.note(self.since.elapsed());
    }
}
