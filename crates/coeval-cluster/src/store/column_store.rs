// SPDX-License-Identifier: Apache-2.0
//! [`ColumnStore`]: a log file, and the bricks of brick tables in memory.

use super::column_bricks::{ApplyError, ColumnBricks};
use super::node_log::NodeLog;
use super::{LogPosition, NodeStore, StoreFailed, StoredBrick, SyncedTo};
use crate::brick_change::BrickChange;
use crate::log::{Durability, LogError};
use crate::tables::{RowsRefused, Tables};
use bytes::Bytes;
use coeval_txn::Epoch;
use coeval_txn::cluster::{BrickAddress, LogRecord};
use std::path::Path;

/// A log file, and bricks in columns, in memory. A restart makes the bricks of the log.
pub struct ColumnStore {
    log: NodeLog,
    bricks: ColumnBricks,
    failure: Option<StoreFailed>,
}

impl ColumnStore {
    /// Opens what a node keeps in `directory`; gives the records that are on disk. All tables that the log has rows of have been
    /// declared.
    ///
    /// # Errors
    /// If the log cannot be used, or has rows of other tables. Nothing has changed.
    pub fn open(
        directory: &Path,
        durability: Durability,
        tables: Tables,
        synced: SyncedTo,
    ) -> Result<(Self, Vec<LogRecord<BrickChange>>), LogError> {
        let (log, records) = NodeLog::open(directory, durability, synced)?;
        let mut bricks = ColumnBricks::new(tables);
        for record in &records {
            bricks.apply(record).map_err(|error| not_restored(directory, &error))?;
        }
        Ok((Self { log, bricks, failure: None }, records))
    }

    /// Has the bricks made and changed without a rule.
    #[cfg(test)]
    pub(super) fn leave_out(&mut self, rule: Option<super::column_bricks::Rule>) {
        self.bricks.left_out = rule;
    }

    fn note<T>(&mut self, done: Result<T, impl Into<StoreFailed>>) -> Result<T, StoreFailed> {
        done.map_err(|error| {
            let failure = error.into();
            self.failure.get_or_insert_with(|| failure.clone());
            failure
        })
    }
}

fn not_restored(directory: &Path, error: &ApplyError) -> LogError {
    LogError::Rows { directory: directory.to_owned(), why: error.to_string() }
}

impl NodeStore for ColumnStore {
    fn check(&mut self, brick: BrickAddress, rows: &Bytes) -> Result<(), RowsRefused> {
        self.bricks.check(brick, rows)
    }

    fn log(&mut self, record: LogRecord<BrickChange>) {
        self.log.log(&record);
        let applied = self.bricks.apply(&record).map_err(|error| StoreFailed(error.to_string()));
        // Whoever asks for a failure is told.
        let _ = self.note(applied);
    }

    fn logged(&self) -> LogPosition {
        self.log.logged()
    }

    fn sync(&mut self) {
        self.log.sync();
    }

    fn has_unsynced(&self) -> bool {
        self.log.has_unsynced()
    }

    fn brick(&mut self, brick: BrickAddress) -> Result<StoredBrick, StoreFailed> {
        let found = self.bricks.brick(brick);
        self.note(found)
    }

    fn bricks(&mut self) -> Result<Vec<BrickAddress>, StoreFailed> {
        let bricks = self.bricks.bricks();
        self.note(bricks)
    }

    fn durability(&self) -> Durability {
        self.log.durability()
    }

    fn purge(&mut self, safe: Epoch) {
        let purged = self.bricks.purge(safe);
        let _ = self.note(purged);
    }

    fn failure(&self) -> Option<StoreFailed> {
        self.failure.clone()
    }
}
