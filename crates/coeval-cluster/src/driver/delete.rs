// SPDX-License-Identifier: Apache-2.0
//! [`Delete`]: a transaction that deletes what bricks have.

use super::error::LoadError;
use super::load::{CommitWait, Committed, Load};
use super::snapshot::Snapshot;
use crate::brick_change::BrickChange;
use coeval_txn::cluster::BrickAddress;
use coeval_txn::{Epoch, EpochSet};
use tokio::sync::OwnedMutexGuard;

/// A transaction that deletes what bricks have. It reads what it deletes, so it has a snapshot: all that had ended when it began,
/// for all that any node knew. Rows of others stay, whether they are there already or come later.
///
/// Deletes run on one node, where the keeper of the views is, and one after the other: of two that each miss what the other one
/// sees there would be no serial order.
///
/// From its begin until it ends, snapshots on all nodes have nothing newer than what it sees, so it had better be short. If it is
/// dropped before it is committed, it is rolled back.
#[derive(Debug)]
pub struct Delete {
    load: Load,
    seen: EpochSet,
    /// Keeps the next one waiting.
    _alone: OwnedMutexGuard<()>,
}

impl Delete {
    pub(super) fn new(load: Load, seen: EpochSet, alone: OwnedMutexGuard<()>) -> Self {
        Self { load, seen, _alone: alone }
    }

    /// Its label.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.load.epoch()
    }

    /// What it sees: of bricks that it deletes, rows with these labels go.
    #[must_use]
    pub fn seen(&self) -> &EpochSet {
        &self.seen
    }

    /// A reader of what it sees. It is held by the delete: once that is over, what it sees may be gone, which readers are told
    /// by [`ReadError::BelowSafe`](crate::ReadError::BelowSafe).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { life: self.load.life(), reader: None, set: self.seen.clone() }
    }

    /// Deletes the rows of a brick that it sees. As [`Load::append`] sends rows, so this sends the delete, to all replicas.
    ///
    /// # Errors
    /// As [`Load::append`]: if so much was pending at its begin that the list of it is more than a message may have; or if it is
    /// over.
    pub async fn delete(&mut self, brick: BrickAddress) -> Result<(), LoadError> {
        self.load.change(brick, BrickChange::Delete(self.seen.clone())).await
    }

    /// Has the delete committed, as [`Load::commit`]. Once it is decided, new snapshots of all nodes lack the rows as soon as
    /// these have heard of it.
    ///
    /// # Errors
    /// As [`Load::commit`].
    pub async fn commit(self, wait: CommitWait) -> Result<Committed, LoadError> {
        self.load.commit(wait).await
    }

    /// Takes the delete back, as [`Load::roll_back`].
    ///
    /// # Errors
    /// As [`Load::roll_back`].
    pub async fn roll_back(self) -> Result<(), LoadError> {
        self.load.roll_back().await
    }
}
