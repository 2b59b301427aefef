// SPDX-License-Identifier: Apache-2.0
//! [`ColumnStore`]: a log file, and the bricks of brick tables in memory.

use super::column_bricks::{ApplyError, ColumnBricks};
use super::node_log::{NodeLog, OnDisk};
use super::round::Round;
use super::{CountBricks, LogPosition, NodeStore, RoundOptions, StoreFailed, SyncedTo};
use crate::brick_change::BrickChange;
use crate::brick_rows::StoredBrick;
use crate::log::{Durability, LogError};
use crate::tables::{RowsOf, RowsRefused, Tables};
use crate::texts::RowCodes;
use bytes::Bytes;
use coeval_brick::{RoutedLoad, ShardStopped};
use coeval_txn::Epoch;
use coeval_txn::cluster::{BrickAddress, DictionaryRecord, LogRecord};
use std::path::Path;

/// A log, and bricks in columns, in memory.
///
/// When nobody reads below LSE any more, a *round* flushes the rows up to it to a file of their own, and the log goes on in
/// another file, which has what is above. So a restart reads what is flushed, and a log that is short. Purge follows the rounds:
/// what is flushed is told by its label.
pub struct ColumnStore {
    log: NodeLog,
    bricks: ColumnBricks,
    /// Up to where rounds have flushed.
    flushed: Epoch,
    /// The records of dictionaries that were on disk, until somebody takes them.
    texts: Vec<DictionaryRecord>,
    failure: Option<StoreFailed>,
}

impl ColumnStore {
    /// Opens what a node keeps in `directory`; gives the records that are on disk. All tables that the log has rows of have been
    /// declared.
    ///
    /// # Errors
    /// If the log cannot be used, or has rows of other tables: then that is said by name, and it may be tried again. Nothing has
    /// changed.
    pub fn open(
        directory: &Path,
        durability: Durability,
        tables: Tables,
        rounds: RoundOptions,
        synced: SyncedTo,
    ) -> Result<(Self, Vec<LogRecord<BrickChange>>), LogError> {
        let (log, OnDisk { through, flushed, records, texts }) =
            NodeLog::open(directory, durability, rounds, synced)?;
        // A round notes which tables go while the store is open; these had gone before.
        if flushed.iter().any(|flushed| tables.is_forgotten(flushed.brick.table)) {
            log.files.note_gone();
        }
        let mut bricks = ColumnBricks::new(tables);
        for brick in &flushed {
            bricks.restore(brick).map_err(|error| not_restored(directory, &error))?;
        }
        bricks.restored(through);
        for record in &records {
            bricks.apply(record).map_err(|error| not_restored(directory, &error))?;
        }
        Ok((Self { log, bricks, flushed: through, texts, failure: None }, records))
    }

    /// Has the process end after so many steps of a round.
    #[cfg(test)]
    pub(super) fn end_after(&mut self, steps: usize, order: super::store_files::FileOrder) {
        (self.log.files.steps_left, self.log.files.order) = (Some(steps), order);
    }

    /// Up to where rounds have flushed.
    #[cfg(test)]
    pub(super) fn flushed(&self) -> Epoch {
        self.flushed
    }

    /// How many appends the threads of bricks were not given yet.
    #[cfg(test)]
    pub(super) fn gathered(&self) -> usize {
        self.bricks.gathered()
    }

    /// Has the bricks made and changed without a rule.
    #[cfg(test)]
    pub(super) fn leave_out(&mut self, rule: Option<super::column_bricks::Rule>) {
        self.bricks.left_out = rule;
    }

    /// Flushes what is up to `safe`, has the log go on from there, and purges.
    fn round(&mut self, safe: Epoch) -> Result<(), ShardStopped> {
        if self.bricks.has_gone() {
            self.log.files.note_gone();
        }
        let (tables, anew) = self.bricks.for_round()?;
        let before = if self.log.files.is_next_anew() { Epoch::ZERO } else { self.flushed };
        let records = self.log.kept_above(safe);
        let texts = self.log.texts();
        self.log.turn(Round { before, through: safe, tables, anew, records, texts });
        self.flushed = safe;
        self.bricks.purge(safe)
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
    if let ApplyError::Refused(RowsRefused::NoTable(table)) = error {
        return LogError::NoTable { directory: directory.to_owned(), table: *table };
    }
    LogError::Rows { directory: directory.to_owned(), why: error.to_string() }
}

impl NodeStore for ColumnStore {
    fn check(&mut self, brick: BrickAddress, rows: &Bytes, of: RowsOf) -> Result<Vec<RowCodes>, RowsRefused> {
        self.bricks.check(brick, rows, of)
    }

    fn note_routed(&mut self, brick: BrickAddress, rows: &Bytes, load: RoutedLoad) {
        self.bricks.note_routed(brick, rows, load);
    }

    fn log(&mut self, record: LogRecord<BrickChange>) {
        self.log.log(&record);
        let applied = self.bricks.apply(&record).map_err(|error| StoreFailed(error.to_string()));
        // Whoever asks for a failure is told.
        let _ = self.note(applied);
    }

    fn log_dictionary(&mut self, record: DictionaryRecord) {
        self.log.log_texts(record);
    }

    fn take_dictionary_records(&mut self) -> Vec<DictionaryRecord> {
        std::mem::take(&mut self.texts)
    }

    fn end_step(&mut self) {
        let given = self.bricks.end_step();
        // Whoever asks for a failure is told.
        let _ = self.note(given);
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

    fn bricks_of(&mut self, table: u64) -> Result<Vec<BrickAddress>, StoreFailed> {
        let bricks = self.bricks.bricks_of(table);
        self.note(bricks)
    }

    fn held(&mut self) -> Result<CountBricks, StoreFailed> {
        let held = self.bricks.held();
        self.note(held)
    }

    fn durability(&self) -> Durability {
        self.log.durability()
    }

    fn purge(&mut self, safe: Epoch) -> Epoch {
        if safe > self.flushed && self.log.is_round_due() {
            let flushed = self.round(safe);
            let _ = self.note(flushed);
        }
        self.flushed
    }

    fn failure(&self) -> Option<StoreFailed> {
        self.failure.clone()
    }
}
