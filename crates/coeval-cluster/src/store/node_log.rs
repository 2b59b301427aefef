// SPDX-License-Identifier: Apache-2.0
//! [`NodeLog`]: the log of a node, in the file and on its way there.

use super::{LogPosition, SyncedTo};
use crate::brick_change::BrickChange;
use crate::log::{Batch, Durability, LogError, LogFile, LogWriter};
use crate::wire::{decode, encode};
use coeval_txn::cluster::LogRecord;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the log in a node's directory.
const LOG_NAME: &str = "epochs.log";

/// The log of a node. A restart reads the whole of it; nothing of it is ever dropped.
pub(super) struct NodeLog {
    durability: Durability,
    logged: u64,
    waiting: Vec<Batch>,
    writing: Arc<Writing>,
    writer: LogWriter,
}

/// What the thread that writes shares with the log.
///
/// # Locking
/// `until` is held to look it up or to set it, with nothing else locked within. It is set by who has set `is_busy`, and looked up
/// before `is_busy` is taken back.
struct Writing {
    is_busy: AtomicBool,
    /// The end of what is being written.
    until: Mutex<LogPosition>,
}

impl NodeLog {
    /// Opens the log in `directory`; gives the records that are on disk.
    ///
    /// # Errors
    /// If it cannot be used. Nothing has changed.
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        synced: SyncedTo,
    ) -> Result<(Self, Vec<LogRecord<BrickChange>>), LogError> {
        let path = directory.join(LOG_NAME);
        let (file, bytes) = LogFile::open(&path, durability)?;
        let foreign = |_| LogError::Foreign { path: path.clone(), what: "a record has something else in it" };
        let records: Result<Vec<LogRecord<BrickChange>>, _> = bytes.into_iter().map(decode).collect();
        let records = records.map_err(foreign)?;
        let writing = Arc::new(Writing { is_busy: AtomicBool::new(false), until: Mutex::default() });
        let shared = Arc::clone(&writing);
        let done = move |written: Result<(), LogError>| {
            let until = *shared.until.lock();
            shared.is_busy.store(false, Ordering::Release);
            synced(written.map(|()| until));
        };
        let writer =
            LogWriter::start(file, done).map_err(|error| LogError::File { path: path.clone(), error })?;
        Ok((Self { durability, logged: 0, waiting: Vec::new(), writing, writer }, records))
    }

    pub(super) fn log(&mut self, record: &LogRecord<BrickChange>) {
        if self.waiting.last().is_none_or(Batch::is_full) {
            self.waiting.push(Batch::new());
        }
        if let Some(batch) = self.waiting.last_mut() {
            batch.push(&encode(record));
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
        *self.writing.until.lock() = self.logged();
        self.writer.write(std::mem::take(&mut self.waiting));
    }

    pub(super) fn has_unsynced(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }
}
