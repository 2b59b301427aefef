// SPDX-License-Identifier: Apache-2.0
//! What is published, in the words of the log; above all of a store that follows another one, which shows what that has said to be.

use super::{Consent, Publishing};
use crate::commit_context::CommitContext;
use crate::log::Lsn;
use coeval_txn::Version;

impl Publishing {
    /// Its log was taken up to here, without a new version.
    pub(crate) fn note_taken(&self, end: Lsn) {
        self.state.lock().taken = end;
    }

    /// Up to where readers see its log.
    pub(crate) fn shown_position(&self) -> Lsn {
        let state = self.state.lock();
        match state.pending.front().map(|pending| pending.consent) {
            Some(Consent::Primary(shown)) => shown,
            _ => state.taken,
        }
    }

    /// Shows nothing beyond this version, or what it shows now, until [`resume`](Self::resume).
    pub(crate) fn pause_at(&self, context: &CommitContext, version: Option<Version>) {
        self.change(context, |state| state.paused_at = Some(version.unwrap_or(state.published)));
    }

    /// Shows everything again.
    pub(crate) fn resume(&self, context: &CommitContext) {
        self.change(context, |state| state.paused_at = None);
    }

    /// See [`pause_at`](Self::pause_at).
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused_at.is_some()
    }

    /// Up to where the log has all that is published, if a version is, and that is known.
    pub(crate) fn published_end(&self, version: Version) -> Option<Lsn> {
        let state = self.state.lock();
        state.published_end.filter(|_| version <= state.published)
    }

    /// Publishes what has been followed, up to this version.
    pub(crate) fn publish_through(&self, context: &CommitContext, version: Version) {
        self.change(context, |state| state.allowed = state.allowed.max(version));
    }

    /// Somebody else is followed from here on, or the same one anew: what was said before is of a log that may be gone. That may be
    /// more than there is here, as what a primary publishes before it is durable, and the same number is another commit in the
    /// log of the next one.
    pub(crate) fn forget_word(&self) {
        let mut state = self.state.lock();
        // What the log here has of it is the beginning of whichever log is followed next: it may be held back by a pause.
        let here = state.pending.back().map_or(state.published, |pending| pending.world.version());
        state.allowed = state.allowed.min(here);
    }

    /// Up to which version whoever is followed has said that everything is published, of what the log here has and of what is still
    /// to come; nothing before it has said something.
    pub(crate) fn word(&self) -> Version {
        self.state.lock().allowed
    }
}
