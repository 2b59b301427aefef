// SPDX-License-Identifier: Apache-2.0
//! [`Round`]: what is flushed at one go, and from where the log goes on (AOSI III-D).
//!
//! It is taken with the node's lock held, as views of bricks, and made bytes by threads that write.

use crate::brick_change::BrickChange;
use crate::brick_rows::{changes_above, labels_of};
use crate::log::{Batch, LogError, LogFile};
use crate::wire::{FlushedBrick, LogHead, NodeRecord, encode};
use coeval_brick::{BrickView, Reader, TableView};
use coeval_txn::cluster::{BrickAddress, DictionaryRecord, LogRecord};
use coeval_txn::{Epoch, EpochSet};
use std::collections::BTreeSet;

/// Bytes of rows in one record.
const RECORD_BYTES: usize = 1 << 20;

/// Bytes that are written, and synced, at a time. Commits wait for the same disk meanwhile, and less long behind a few megabytes than behind
/// all of a round.
const WRITTEN_BYTES: usize = 4 << 20;

/// When the next round is due.
#[derive(Clone, Copy, Debug)]
pub struct RoundOptions {
    /// With so many bytes logged since the last one;
    pub log_bytes: usize,
    /// or after so long, with anything logged.
    pub pause: std::time::Duration,
}

impl Default for RoundOptions {
    /// Each round writes again what is above LSE, which is some tenths of a second behind, and now and then one writes all rows: rounds are
    /// rare enough that this is little beside what is logged, and a start that reads such a log is short.
    fn default() -> Self {
        Self { log_bytes: 64 << 20, pause: std::time::Duration::from_secs(5) }
    }
}

/// Tables by number, each as it was at one moment.
pub(super) type TableViews = Vec<(u64, TableView)>;

/// What a round flushes.
pub(super) struct Round {
    /// Up to where earlier rounds have flushed; zero if they count no more.
    pub(super) before: Epoch,
    /// Up to where this one does: LSE.
    pub(super) through: Epoch,
    /// All bricks of each table.
    pub(super) tables: TableViews,
    /// Bricks of which all is flushed again: something came to them from other nodes below the last horizon.
    pub(super) anew: BTreeSet<BrickAddress>,
    /// What the protocol is given again.
    pub(super) records: Vec<LogRecord<BrickChange>>,
    /// What dictionaries are.
    pub(super) texts: Vec<DictionaryRecord>,
}

impl Round {
    /// Writes the rows that the round flushes, and syncs them.
    pub(super) fn write_rows(&self, file: &mut LogFile) -> Result<(), LogError> {
        let mut writer = RecordWriter { file, batch: Batch::new() };
        let (nobody, before, now) = (reader(Epoch::ZERO), reader(self.before), reader(self.through));
        let mut left = self.anew.clone();
        for (table, view) in &self.tables {
            for brick in view.bricks() {
                let at = BrickAddress { table: *table, brick: brick.id().get() };
                let is_anew = left.remove(&at);
                let flush = view.unflushed(brick, if is_anew { &nobody } else { &before }, &now);
                let earlier = if is_anew || flush.voids_earlier { Earlier::IsVoid } else { Earlier::Counts };
                writer.push_brick(at, earlier, flush.loads(RECORD_BYTES))?;
            }
        }
        // Nothing is left of these.
        left.into_iter().try_for_each(|at| writer.push_brick(at, Earlier::IsVoid, Vec::new()))?;
        writer.finish()
    }

    /// Writes what a log begins with that goes on from here: the rounds that count, what the protocol and dictionaries are
    /// given again, and what bricks have that no round has flushed. Syncs it.
    pub(super) fn write_log(&self, rounds: &[u64], file: &mut LogFile) -> Result<(), LogError> {
        let mut writer = RecordWriter { file, batch: Batch::new() };
        let bricks = self.tables.iter().flat_map(|(_, view)| view.bricks());
        let given = self.records.len() + self.texts.len();
        let records = (given + bricks.filter(|brick| self.has_more(brick)).count()) as u64;
        let head = LogHead { rounds: rounds.to_vec(), through: self.through, records };
        writer.push(&encode(&head))?;
        // By itself, so that it is there to tell what is missing.
        writer.write()?;
        self.records.iter().try_for_each(|record| writer.push(&encode(record)))?;
        // Before the rows that have their codes.
        for record in &self.texts {
            writer.push(&encode(&NodeRecord::Dictionaries(record.clone())))?;
        }
        for (table, view) in &self.tables {
            for brick in view.bricks().iter().filter(|brick| self.has_more(brick)) {
                let rows = changes_above(view, brick, self.through);
                let brick = BrickAddress { table: *table, brick: brick.id().get() };
                // It replaces nothing: no transaction has the epoch zero.
                writer.push(&encode(&LogRecord::Copied { brick, ended: EpochSet::none(), rows }))?;
            }
        }
        writer.finish()
    }

    /// Whether a brick has something that the round does not flush.
    fn has_more(&self, brick: &BrickView) -> bool {
        labels_of(brick).any(|label| label > self.through)
    }
}

fn reader(through: Epoch) -> Reader {
    Reader::of(EpochSet::through(through))
}

/// What earlier rounds have flushed of a brick.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Earlier {
    Counts,
    IsVoid,
}

/// Records on their way to a file, a batch at a time.
struct RecordWriter<'a> {
    file: &'a mut LogFile,
    batch: Batch,
}

impl RecordWriter<'_> {
    fn push(&mut self, record: &[u8]) -> Result<(), LogError> {
        self.batch.push(record);
        if self.batch.has(WRITTEN_BYTES) { self.write() } else { Ok(()) }
    }

    /// One record for each load, so that none is longer than one may be.
    fn push_brick(
        &mut self,
        brick: BrickAddress,
        earlier: Earlier,
        loads: Vec<(Epoch, Vec<u8>)>,
    ) -> Result<(), LogError> {
        if earlier == Earlier::IsVoid {
            self.push(&encode(&FlushedBrick { brick, voids_earlier: true, rows: Vec::new() }))?;
        }
        for (label, rows) in loads {
            let rows = vec![(label, BrickChange::Rows(rows.into()))];
            self.push(&encode(&FlushedBrick { brick, voids_earlier: false, rows }))?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), LogError> {
        self.file.write(std::mem::replace(&mut self.batch, Batch::new()))
    }

    fn finish(mut self) -> Result<(), LogError> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        self.file.sync()
    }
}
