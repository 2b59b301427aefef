// SPDX-License-Identifier: Apache-2.0
//! [`TokenWait`]: one who waits until the snapshot of a token is there.

use crate::cancel::CancelHandle;
use crate::error::{SqlError, SqlState};
use crate::token::SnapshotToken;
use coeval_store::Store;
use coeval_txn::ssi::SessionFloor;
use std::time::{Duration, Instant};

/// How often it is looked whether the statement is to end. What it waits for wakes it.
pub(super) const END_LOOK: Duration = Duration::from_millis(20);

/// Where the snapshot has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Among what readers of plain snapshots see.
    Shown,
    /// In a safe snapshot, too.
    Safe,
}

/// See the module.
pub(super) struct TokenWait<'w> {
    pub(super) token: &'w SnapshotToken,
    /// What a safe snapshot must have.
    pub(super) floor: SessionFloor,
    pub(super) needs: Needs,
    /// For how long it may wait; `None`: for as long as it takes.
    pub(super) limit: Option<Duration>,
    pub(super) cancel: &'w CancelHandle,
}

impl TokenWait<'_> {
    /// Blocks the thread until the snapshot is there. Whatever brings it, to the store of a replica, wakes it; every `end_look` it is
    /// looked whether the statement is to end.
    ///
    /// # Errors
    /// `55000` if the snapshot will never be there; `57014` if the statement is to end, or the limit is reached.
    pub(super) fn until_there(&self, store: &Store, end_look: Duration) -> Result<(), SqlError> {
        let begun = Instant::now();
        loop {
            // Taken first: what changes behind the look ends the wait at once.
            let seen = store.shown_changes();
            if self.is_there(store)? {
                return Ok(());
            }
            if let Some(reason) = self.cancel.requested() {
                return Err(reason.error());
            }
            let waited = begun.elapsed();
            if self.limit.is_some_and(|limit| waited >= limit) {
                return Err(too_late(waited));
            }
            let rest = self.limit.map_or(end_look, |limit| limit.saturating_sub(waited).min(end_look));
            store.wait_shown(seen, rest);
        }
    }

    fn is_there(&self, store: &Store) -> Result<bool, SqlError> {
        Ok(self.token.is_shown(store)?
            && (self.needs == Needs::Shown || store.safe_snapshot_satisfies(&self.floor)))
    }
}

fn too_late(waited: Duration) -> SqlError {
    SqlError::new(SqlState::QueryCanceled, "the snapshot of the token has not come in time")
        .with_detail(format!("Waited for {} ms.", waited.as_millis()))
        .with_hint("Ask another replica, or wait longer: coeval.wait_for_token_timeout.")
}

#[cfg(test)]
mod tests;
