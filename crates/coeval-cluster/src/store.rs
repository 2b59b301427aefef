// SPDX-License-Identifier: Apache-2.0
//! What a node keeps: its log and its bricks, behind a trait.
//!
//! The driver knows no files and no rows. What it logs and what its bricks are made of stands behind [`NodeStore`];
//! [`FileStore`] is a simple one, a log file with bricks in memory, for tests and figures. The product's log and bricks come
//! behind the same trait.

mod file_store;
mod memory_bricks;

pub use file_store::FileStore;

use crate::brick_change::BrickChange;
use crate::log::{Durability, LogError};
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, LogRecord};
use coeval_txn::{Epoch, EpochSet};

/// A place in a node's log: how many records are before it, of this life of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(u64);

impl LogPosition {
    /// The position behind so many records.
    #[must_use]
    pub const fn new(records: u64) -> Self {
        Self(records)
    }

    /// How many records are before it.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Who is told how far a log is on disk. It is called from any thread, with nothing of the store locked.
pub type SyncedTo = Box<dyn Fn(Result<LogPosition, LogError>) + Send + Sync>;

/// What a node keeps: the log of the protocol's records, and the bricks that these make.
///
/// No call waits for a disk. Rows are bytes whose meaning is the store's and its users' business.
pub trait NodeStore: Send + 'static {
    /// Appends a record to the log, and does to the bricks what it says, at once:
    ///
    /// - `Append`: the rows, or the delete, go to the end of the brick, with the epoch as label;
    /// - `Cut`: rows and deletes with this label go from all bricks;
    /// - `Copied`: in this brick, rows and deletes whose label is in `ended` make room for those that are given;
    /// - the others change no brick.
    ///
    /// A restart gives all records that were on disk, in their order, and makes the bricks of them.
    fn log(&mut self, record: LogRecord<BrickChange>);

    /// The end of the log.
    fn logged(&self) -> LogPosition;

    /// Begins to bring all that is logged to disk, unless that is under way; [`SyncedTo`] tells. One sync is for all records
    /// before it. With nothing to bring, nothing happens.
    fn sync(&mut self);

    /// Whether something is logged and a sync of it has not begun.
    fn has_unsynced(&self) -> bool;

    /// The rows of a brick, with the labels that `snapshot` has; without those that a delete with such a label covers.
    fn read(&self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<(Epoch, Bytes)>;

    /// All rows and deletes of a brick, for a copy.
    fn copy_of(&self, brick: BrickAddress) -> Vec<(Epoch, BrickChange)>;

    /// The bricks of which there is something.
    fn bricks(&self) -> Vec<BrickAddress>;

    /// Whether what is logged is synced before it counts as such.
    fn durability(&self) -> Durability;

    /// Nobody reads below `safe` any more: what deletes up to it cover may go, and what tells epochs up to it apart may be
    /// forgotten. A later delete covers all up to it. The driver says so only while no bricks are on their way, since a copy
    /// goes by labels.
    fn purge(&mut self, safe: Epoch);
}
