// SPDX-License-Identifier: Apache-2.0
//! The registrations of a batch between its certification and the queue of what is to be published.

use crate::certification::ActiveGuard;
use crate::publishing::Publishing;
use crate::submission::Submission;
use std::sync::Arc;

/// The transactions of a batch that are registered as active. A transaction that was noted as committed belongs to safe snapshots
/// from then on, so it stays registered until it is published, even if the log fails or a thread panics before it is in the queue,
/// and commits stop. See `State::stop` in `publishing.rs`.
pub(super) struct Registrations<'p> {
    publishing: &'p Publishing,
    held: Vec<Arc<ActiveGuard>>,
}

impl<'p> Registrations<'p> {
    pub(super) fn new(publishing: &'p Publishing) -> Self {
        Self { publishing, held: Vec::new() }
    }

    /// Before it is noted as committed.
    pub(super) fn add(&mut self, submission: &Submission) {
        let certification = submission.certification.as_ref();
        self.held.extend(certification.and_then(|certification| certification.guard.clone()));
    }

    /// Of a batch that is in the log, for the queue.
    pub(super) fn of_logged(mut self) -> Vec<Arc<ActiveGuard>> {
        std::mem::take(&mut self.held)
    }
}

impl Drop for Registrations<'_> {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            self.publishing.keep_undecided(std::mem::take(&mut self.held));
        }
    }
}
