// SPDX-License-Identifier: Apache-2.0
//! [`FileStore`]: a log file, and bricks in memory.

use super::memory_bricks::MemoryBricks;
use super::{LogPosition, NodeStore, SyncedTo};
use crate::brick_change::BrickChange;
use crate::log::{Batch, Durability, LogError, LogFile, LogWriter};
use crate::wire::{decode, encode};
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, LogRecord};
use coeval_txn::{Epoch, EpochSet};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the log in a node's directory.
const LOG_NAME: &str = "epochs.log";

/// A log file with bricks in memory. A restart reads the whole log; nothing of it is ever dropped. It is there for tests and
/// figures, until the product's bricks stand behind the same trait.
pub struct FileStore {
    bricks: MemoryBricks,
    durability: Durability,
    logged: u64,
    waiting: Vec<Batch>,
    writing: Arc<Writing>,
    writer: LogWriter,
}

/// What the thread that writes shares with the store.
///
/// # Locking
/// `until` is held to look it up or to set it, with nothing else locked within. It is set by who has set `is_busy`, and looked up
/// before `is_busy` is taken back.
struct Writing {
    is_busy: AtomicBool,
    /// The end of what is being written.
    until: Mutex<LogPosition>,
}

impl FileStore {
    /// Opens what a node keeps in `directory`; gives the records that are on disk.
    ///
    /// # Errors
    /// If the log cannot be used. Nothing has changed.
    pub fn open(
        directory: &Path,
        durability: Durability,
        synced: SyncedTo,
    ) -> Result<(Self, Vec<LogRecord<BrickChange>>), LogError> {
        let path = directory.join(LOG_NAME);
        let (file, bytes) = LogFile::open(&path, durability)?;
        let foreign = |_| LogError::Foreign { path: path.clone(), what: "a record has something else in it" };
        let records: Result<Vec<LogRecord<BrickChange>>, _> = bytes.into_iter().map(decode).collect();
        let records = records.map_err(foreign)?;
        let mut bricks = MemoryBricks::default();
        records.iter().for_each(|record| bricks.apply(record.clone()));
        let writing = Arc::new(Writing { is_busy: AtomicBool::new(false), until: Mutex::default() });
        let shared = Arc::clone(&writing);
        let done = move |written: Result<(), LogError>| {
            let until = *shared.until.lock();
            shared.is_busy.store(false, Ordering::Release);
            synced(written.map(|()| until));
        };
        let writer =
            LogWriter::start(file, done).map_err(|error| LogError::File { path: path.clone(), error })?;
        Ok((Self { bricks, durability, logged: 0, waiting: Vec::new(), writing, writer }, records))
    }
}

impl NodeStore for FileStore {
    fn log(&mut self, record: LogRecord<BrickChange>) {
        if self.waiting.last().is_none_or(Batch::is_full) {
            self.waiting.push(Batch::new());
        }
        if let Some(batch) = self.waiting.last_mut() {
            batch.push(&encode(&record));
        }
        self.logged += 1;
        self.bricks.apply(record);
    }

    fn logged(&self) -> LogPosition {
        LogPosition::new(self.logged)
    }

    fn sync(&mut self) {
        if self.waiting.is_empty() || self.writing.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        *self.writing.until.lock() = self.logged();
        self.writer.write(std::mem::take(&mut self.waiting));
    }

    fn has_unsynced(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn read(&self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<(Epoch, Bytes)> {
        self.bricks.read(brick, snapshot)
    }

    fn copy_of(&self, brick: BrickAddress) -> Vec<(Epoch, BrickChange)> {
        self.bricks.copy_of(brick)
    }

    fn bricks(&self) -> Vec<BrickAddress> {
        self.bricks.bricks()
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn purge(&mut self, safe: Epoch) {
        self.bricks.purge(safe);
    }
}
