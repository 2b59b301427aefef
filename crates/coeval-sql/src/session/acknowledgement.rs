// SPDX-License-Identifier: Apache-2.0
//! When what statements have done is durable, and who waits for it.

use crate::cancel::CancelHandle;
use crate::error::SqlError;
use coeval_store::{Committed, Publication, Store, StoreError, Transaction};
use coeval_txn::Version;
use coeval_txn::ssi::SessionFloor;

/// Whether the statement or the caller waits until what a statement has done, or depends on, is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The statement: it is durable when the statement returns.
    #[default]
    Awaited,
    /// The caller, by [`Session::publication`](crate::Session::publication), before it gives anything out or runs
    /// another statement.
    LeftToCaller,
}

/// What a session has to wait for.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    pub(super) by: Acknowledgement,
    /// The version that the caller is to wait for.
    left: Option<Version>,
}

impl Acknowledgements {
    /// Sees to it that nothing is given out before this version is published; before it is acknowledged, if its
    /// commit's answer is what is given out.
    ///
    /// # Errors
    /// [`StoreError::OutcomeUnknown`] if the log failed and it is waited for here.
    pub(super) fn wait(&mut self, store: &Store, version: Version) -> Result<(), StoreError> {
        self.see_to(version, || store.wait_published(version))
    }

    fn see_to(
        &mut self,
        version: Version,
        wait: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self.by {
            Acknowledgement::Awaited => wait(),
            Acknowledgement::LeftToCaller => {
                self.left = self.left.max(Some(version));
                Ok(())
            }
        }
    }

    /// Waits for what a transaction's statement has read.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) fn depend(&mut self, store: &Store, transaction: &Transaction) -> Result<(), SqlError> {
        self.wait(store, transaction.dependency()).map_err(SqlError::from)
    }

    /// Waits for a commit, and notes what the session's later snapshots must have.
    ///
    /// # Errors
    /// The commit's, and those of [`wait`](Self::wait); [`StoreError::NotReplicated`] if it is cancelled while it waits for
    /// replicas.
    pub(super) fn commit(
        &mut self,
        store: &Store,
        floor: &mut SessionFloor,
        cancel: &CancelHandle,
        outcome: Result<Committed, StoreError>,
    ) -> Result<(), StoreError> {
        let committed = outcome?;
        let (version, interrupt) = (committed.version, cancel.interrupt());
        self.see_to(version, || store.wait_acknowledged(version, Some(&*interrupt)))?;
        committed.order.into_iter().for_each(|order| floor.note_commit(order));
        Ok(())
    }

    /// Ends a statement's own transaction, which is committed if the statement has not failed. `refuse` lets go of what others wait for, when
    /// the commit is refused and before anything is waited for.
    ///
    /// # Errors
    /// The statement's, the commit's, and those of [`wait`](Self::wait).
    pub(super) fn end<T>(
        &mut self,
        store: &Store,
        floor: &mut SessionFloor,
        cancel: &CancelHandle,
        transaction: Transaction,
        (outcome, refuse): (Result<T, SqlError>, impl FnOnce(&StoreError)),
    ) -> Result<T, SqlError> {
        match outcome {
            Ok(value) => {
                let applied = transaction.commit_unless_refused().map_err(|refused| {
                    refuse(refused.error());
                    refused.waited()
                });
                self.commit(store, floor, cancel, applied)?;
                Ok(value)
            }
            Err(error) => self.depend(store, &transaction).and(Err(error)),
        }
    }

    /// The version that nobody has waited for yet, of what this session has committed or read.
    pub(super) fn left(&self) -> Option<Version> {
        self.left
    }

    /// Takes what the caller is to wait for.
    pub(super) fn take(&mut self, store: &Store) -> Option<Publication> {
        self.left.take().and_then(|version| store.publication(version))
    }
}

#[cfg(test)]
mod tests;
