// SPDX-License-Identifier: Apache-2.0
//! What a node keeps: its log and its bricks, behind a trait.
//!
//! The driver knows no files and no columns. What it logs and what its bricks are made of stands behind [`NodeStore`];
//! [`ColumnStore`] has a log and files of flushed rows, and the bricks of `coeval-brick`.

mod column_bricks;
mod column_store;
mod kept_records;
#[cfg(test)]
mod memory_bricks;
mod node_log;
mod round;
mod store_files;
#[cfg(test)]
mod tests;

pub use column_store::ColumnStore;
pub use round::RoundOptions;

use crate::brick_change::BrickChange;
use crate::brick_rows::StoredBrick;
use crate::log::{Durability, LogError};
use crate::tables::{RowsOf, RowsRefused};
use crate::texts::RowCodes;
use bytes::Bytes;
use coeval_brick::{RoutedLoad, ShardStopped};
use coeval_txn::Epoch;
use coeval_txn::cluster::{BrickAddress, DictionaryRecord, LogRecord};

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

/// Bricks are not what the log makes of them any more: a thread that changes them has stopped. The node has to begin anew from
/// its log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bricks cannot be changed any more: {0}")]
pub struct StoreFailed(pub String);

impl From<ShardStopped> for StoreFailed {
    fn from(stopped: ShardStopped) -> Self {
        Self(stopped.to_string())
    }
}

/// A brick of which there is something, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBrick {
    /// Which.
    pub brick: BrickAddress,
    /// Its rows, whoever sees them; none of a brick that has deletes alone.
    pub rows: u64,
    /// The bytes of memory that they take.
    pub bytes: u64,
}

/// Looks at bricks, with nothing locked: each is counted as it is then, with all that was done to it before this was made. May wait for
/// the threads that change bricks. Fails if the store has.
pub type CountBricks = Box<dyn FnOnce() -> Result<Vec<HeldBrick>, StoreFailed> + Send>;

/// What a node keeps: the log of the protocol's records, and the bricks that these make.
///
/// No call waits for a disk. Rows are bytes that were checked when they came; what they mean is the store's business.
pub trait NodeStore: Send + 'static {
    /// Whether these are rows of a brick, as [`log`](Self::log) takes them: or of several, if they may be. Nobody has rows logged that were
    /// not checked, unless this node has just made them of a batch. Gives the codes that they have in place of texts: whoever has them logged sees to it
    /// that the texts are logged before.
    ///
    /// # Errors
    /// If they are not, or not yet: the table may be declared later.
    fn check(&mut self, brick: BrickAddress, rows: &Bytes, of: RowsOf) -> Result<Vec<RowCodes>, RowsRefused>;

    /// In place of [`check`](Self::check), of rows that this node has just made of a batch: these are the columns that the bytes stand for. If
    /// they are logged next, nothing has to be made of the bytes.
    fn note_routed(&mut self, brick: BrickAddress, rows: &Bytes, load: RoutedLoad);

    /// Appends a record to the log, and does to the bricks what it says, before anybody looks at them:
    ///
    /// - `Append`: the rows, or the delete, go to the end of the brick, with the epoch as label; rows may be of several bricks;
    /// - `Cut`: rows and deletes with this label go from all bricks;
    /// - `Copied`: in this brick, rows and deletes whose label is in `ended` make room for those that are given;
    /// - the others change no brick.
    ///
    /// A restart gives the records that were on disk, in their order, or what the protocol learns as much from; and makes the
    /// bricks that all of them made.
    fn log(&mut self, record: LogRecord<BrickChange>);

    /// Nothing more is logged for the moment: what was gathered of changes of bricks, to be made together, is made from now on. Without
    /// this it is made once somebody looks at a brick, or it is much.
    fn end_step(&mut self);

    /// Appends a record of dictionaries to the same log. It changes no brick.
    fn log_dictionary(&mut self, record: DictionaryRecord);

    /// The records of dictionaries that were on disk when this was opened, in their order. They are given once.
    fn take_dictionary_records(&mut self) -> Vec<DictionaryRecord>;

    /// The end of the log.
    fn logged(&self) -> LogPosition;

    /// Begins to bring all that is logged to disk, unless that is under way; [`SyncedTo`] tells. One sync is for all records
    /// before it. With nothing to bring, nothing happens.
    fn sync(&mut self);

    /// Whether something is logged and a sync of it has not begun.
    fn has_unsynced(&self) -> bool;

    /// A brick as it is now: for readers, and for a copy.
    ///
    /// # Errors
    /// If the store has failed.
    fn brick(&mut self, brick: BrickAddress) -> Result<StoredBrick, StoreFailed>;

    /// The bricks of which there is something.
    ///
    /// # Errors
    /// If the store has failed.
    fn bricks(&mut self) -> Result<Vec<BrickAddress>, StoreFailed>;

    /// Those of a table.
    ///
    /// # Errors
    /// If the store has failed.
    fn bricks_of(&mut self, table: u64) -> Result<Vec<BrickAddress>, StoreFailed> {
        let mut bricks = self.bricks()?;
        bricks.retain(|at| at.table == table);
        Ok(bricks)
    }

    /// What looks how much there is of each brick, apart from the store: there may be many. Cost: of a few reference counts for each
    /// table.
    ///
    /// # Errors
    /// If the store has failed.
    fn held(&mut self) -> Result<CountBricks, StoreFailed>;

    /// Whether what is logged is synced before it counts as such.
    fn durability(&self) -> Durability;

    /// Nobody reads below `safe` any more: all up to it may be flushed, what deletes up to it cover may go, and what tells
    /// epochs up to it apart may be forgotten, now or later. A later delete covers all up to it. The driver says so only while no bricks are on their way, since a copy
    /// goes by labels.
    /// Gives up to where that is so by now: not above `safe`.
    fn purge(&mut self, safe: Epoch) -> Epoch;

    /// Why the bricks are not what the log says, if they are not. Then the life of the node ends.
    fn failure(&self) -> Option<StoreFailed>;
}
