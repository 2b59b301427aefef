// SPDX-License-Identifier: Apache-2.0
//! The log of transactions: a record per transaction, on disk every ten milliseconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::transactions::Transaction;

/// How long a record may wait to be on disk.
const SYNC_TIME: Duration = Duration::from_millis(10);

/// A log that a thread of its own brings to disk.
#[derive(Debug)]
pub(crate) struct Log {
    file: Arc<File>,
    record: Vec<u8>,
    ended: Arc<AtomicBool>,
    syncs: Arc<AtomicU64>,
    syncer: JoinHandle<io::Result<()>>,
}

impl Log {
    /// An empty log at a path.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = Arc::new(OpenOptions::new().write(true).create(true).truncate(true).open(path)?);
        let (ended, syncs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let syncer = thread::spawn({
            let (file, ended, syncs) = (Arc::clone(&file), Arc::clone(&ended), Arc::clone(&syncs));
            move || {
                while !ended.load(Ordering::Acquire) {
                    thread::sleep(SYNC_TIME);
                    file.sync_data()?;
                    syncs.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        });
        Ok(Log { file, record: Vec::new(), ended, syncs, syncer })
    }

    /// Hands a record over to the system; on disk with the next sync.
    ///
    /// # Errors
    /// If the system does not take it. A part of it may be in the file then.
    pub(crate) fn append(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.record.clear();
        transaction.encode(&mut self.record);
        (&*self.file).write_all(&self.record)
    }

    /// Waits until all is on disk; how many syncs there were.
    ///
    /// # Errors
    /// If one of the syncs failed.
    pub(crate) fn close(self) -> io::Result<u64> {
        self.ended.store(true, Ordering::Release);
        self.syncer.join().expect("the syncing thread does not panic")?;
        self.file.sync_data()?;
        Ok(self.syncs.load(Ordering::Relaxed))
    }
}
