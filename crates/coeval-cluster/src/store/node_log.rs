// SPDX-License-Identifier: Apache-2.0
//! [`NodeLog`]: the log of a node, in its file and on its way there, and the rounds that make it shorter.

use super::kept_records::KeptRecords;
use super::round::Round;
use super::store_files::{OpenedFiles, StoreFiles};
use super::{LogPosition, RoundOptions, SyncedTo};
use crate::brick_change::BrickChange;
use crate::log::{Batch, Durability, LogError, LogFile, LogWriter, Turn};
use crate::wire::{FlushedBrick, NodeRecord, Wire, decode, encode_into};
use coeval_txn::Epoch;
use coeval_txn::cluster::{DictionaryRecord, LogRecord};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The log of a node.
pub(super) struct NodeLog {
    durability: Durability,
    logged: u64,
    waiting: Vec<Batch>,
    writing: Arc<Writing>,
    writer: LogWriter,
    kept: KeptRecords,
    /// All records of dictionaries: each log has them anew.
    texts: Vec<DictionaryRecord>,
    pub(super) files: StoreFiles,
    rounds: RoundOptions,
    /// Since the last round.
    bytes: usize,
    last_round: Instant,
}

/// What the thread that writes says of itself.
struct Writing {
    /// Batches are being written.
    is_busy: AtomicBool,
    /// A round is.
    is_turning: AtomicBool,
}

/// What a log has on disk.
pub(super) struct OnDisk {
    /// Up to where rounds have flushed.
    pub(super) through: Epoch,
    /// What rounds have flushed, in their order.
    pub(super) flushed: Vec<FlushedBrick>,
    /// The records of epochs that follow.
    pub(super) records: Vec<LogRecord<BrickChange>>,
    /// Those of dictionaries.
    pub(super) texts: Vec<DictionaryRecord>,
}

impl NodeLog {
    /// Opens the log in `directory`; gives what is on disk.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        rounds: RoundOptions,
        synced: SyncedTo,
    ) -> Result<(Self, OnDisk), LogError> {
        let OpenedFiles { files, log, records, through, flushed } = StoreFiles::open(directory, durability)?;
        let what = "a record has something else in it";
        let foreign = |_| LogError::Foreign { path: directory.to_owned(), what };
        let decoded: Result<Vec<NodeRecord>, _> = records.into_iter().map(decode).collect();
        let (mut records, mut texts) = (Vec::new(), Vec::new());
        for record in decoded.map_err(foreign)? {
            match record {
                NodeRecord::Epochs(record) => records.push(record),
                NodeRecord::Dictionaries(record) => texts.push(record),
            }
        }
        let mut kept = KeptRecords::default();
        records.iter().for_each(|record| kept.note(record));
        let (is_busy, is_turning) = (AtomicBool::new(false), AtomicBool::new(false));
        let writing = Arc::new(Writing { is_busy, is_turning });
        let shared = Arc::clone(&writing);
        let done = move |written: Result<u64, LogError>| {
            shared.is_busy.store(false, Ordering::Release);
            synced(written.map(LogPosition::new));
        };
        let writer = LogWriter::start(log, done)
            .map_err(|error| LogError::File { path: directory.to_owned(), error })?;
        let (waiting, last_round) = (Vec::new(), Instant::now());
        let log = Self {
            durability,
            logged: 0,
            waiting,
            writing,
            writer,
            kept,
            texts: texts.clone(),
            files,
            rounds,
            bytes: 0,
            last_round,
        };
        Ok((log, OnDisk { through, flushed, records, texts }))
    }

    pub(super) fn log(&mut self, record: &LogRecord<BrickChange>) {
        self.push(record);
        self.kept.note(record);
    }

    pub(super) fn log_texts(&mut self, record: DictionaryRecord) {
        self.push(&NodeRecord::Dictionaries(record.clone()));
        self.texts.push(record);
    }

    fn push(&mut self, record: &impl Wire) {
        if self.waiting.last().is_none_or(Batch::is_full) {
            self.waiting.push(Batch::new());
        }
        if let Some(batch) = self.waiting.last_mut() {
            self.bytes += batch.push_with(|out| encode_into(record, out));
        }
        self.logged += 1;
    }

    pub(super) fn logged(&self) -> LogPosition {
        LogPosition::new(self.logged)
    }

    pub(super) fn sync(&mut self) {
        if self.waiting.is_empty() || self.writing.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        self.writer.write(std::mem::take(&mut self.waiting), self.logged);
    }

    pub(super) fn has_unsynced(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether it is time for a round: enough is logged, and none is being written.
    pub(super) fn is_round_due(&self) -> bool {
        let is_due = self.bytes > self.rounds.log_bytes
            || (self.bytes > 0 && self.last_round.elapsed() > self.rounds.pause);
        is_due && !self.writing.is_turning.load(Ordering::Acquire)
    }

    /// What the protocol is given again by a log that goes on once all up to `safe` is flushed.
    pub(super) fn kept_above(&mut self, safe: Epoch) -> Vec<LogRecord<BrickChange>> {
        self.kept.drop_up_to(safe);
        self.kept.list()
    }

    /// What dictionaries are given again by the next log: all that was logged of them.
    pub(super) fn texts(&self) -> Vec<DictionaryRecord> {
        self.texts.clone()
    }

    /// Has a round written, behind all that was logged before it was taken, and goes on in the next log when that is done.
    pub(super) fn turn(&mut self, round: Round) {
        self.writing.is_turning.store(true, Ordering::Release);
        (self.bytes, self.last_round) = (0, Instant::now());
        // The next log has these too, as what they have made of bricks. They are written here since somebody may wait for them.
        if !self.waiting.is_empty() {
            self.writer.write(std::mem::take(&mut self.waiting), self.logged);
        }
        let (files, writing) = (self.files.next(), Arc::clone(&self.writing));
        self.writer.turn(Box::new(WrittenRound { files, round, writing }));
    }
}

/// A round on its way to the disk.
struct WrittenRound {
    files: StoreFiles,
    round: Round,
    writing: Arc<Writing>,
}

impl Turn for WrittenRound {
    fn begin(&mut self) -> Result<LogFile, LogError> {
        self.files.begin(&self.round)
    }

    fn work(&mut self) -> Result<(), LogError> {
        self.files.write_rows(&self.round)
    }

    fn finish(self: Box<Self>, next: LogFile) -> Result<LogFile, LogError> {
        let Self { files, writing, .. } = *self;
        let log = files.finish(next)?;
        writing.is_turning.store(false, Ordering::Release);
        Ok(log)
    }
}
