// SPDX-License-Identifier: Apache-2.0
//! [`Snapshot`]: what a reader sees, on every node.

use super::error::ReadError;
use super::life::Life;
use crate::brick_rows::BrickRows;
use coeval_txn::EpochSet;
use coeval_txn::cluster::{BrickAddress, ReaderId};
use std::sync::Arc;

/// What a declared reader sees: one set of epochs, on every node the same, serializable with all loads. It never changes.
///
/// It is held until it is dropped: LSE stays behind it, and so does purge.
pub struct Snapshot {
    pub(super) life: Arc<Life>,
    /// What holds it; nothing if a delete does.
    pub(super) reader: Option<ReaderId>,
    pub(super) set: EpochSet,
}

impl Snapshot {
    /// The epochs that it sees.
    #[must_use]
    pub fn epochs(&self) -> &EpochSet {
        &self.set
    }

    /// The bricks of a table of which any node has something, ascending: all in which it sees rows, and perhaps others. This node
    /// says what it has, and so many others are asked that one of them has each brick; while views change, they are asked again.
    /// May be given up at any time.
    ///
    /// # Errors
    /// If the table is not declared, too few nodes answer in time, or the life of the node that gave the snapshot is over.
    pub async fn bricks(&self, table: u64) -> Result<Vec<u64>, ReadError> {
        self.life.list(table, &self.set).await
    }

    /// The rows of a brick that it sees, with their texts. They come from this node if it has the brick, in place, else from one that does; while
    /// views change, it is asked again. May be given up at any time.
    ///
    /// # Errors
    /// If the table is not declared, the brick is not to be had in time, or the life of the node that gave the snapshot is over.
    pub async fn read(&self, brick: BrickAddress) -> Result<BrickRows, ReadError> {
        self.life.read(brick, &self.set).await
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // With a life that is over, so are its readers.
        if let Some(reader) = self.reader {
            self.life.step(|engine| engine.protocol.release(reader));
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({} of {})", self.set, self.life.member)
    }
}
