// SPDX-License-Identifier: Apache-2.0
//! [`Archiver`]: a thread that archives a database while it is used.
//!
//! # What it does
//! It sends the log in stretches: when one is full, or when its first record has waited for `archive_timeout`. It makes a
//! backup when it begins and finds none to go on from, and then at intervals or after so much log. Behind a backup it collects,
//! if it is told what to keep.
//!
//! # What it never does
//! It holds up no commit: it reads what is durable, on a thread of its own. What it has not sent is kept in the database's
//! directory (`LogFeed`), so a storage that is gone for a while is caught up with.
//!
//! # When the storage is gone for too long
//! With more than `keep_max` bytes of log that were not sent, it lets go of them: the next checkpoint removes them. From there
//! to the next backup, which it makes as soon as the storage answers, no moment can be restored. That is a [`Gap`]: it is in
//! the status, in the log of the program, and found by a check of the archive.
//!
//! # After a restart
//! It goes on where the archive's log ends, in the history that the database has gone on with, if the database still has the
//! log from there on; else with a new backup. What was not sent when the database was closed, or ended in whatever way, is kept
//! in its directory as while it is open, up to `keep_max` bytes ([`LogFeed::keep_over_closes`](coeval_store::LogFeed)).
//!
//! # From the first moment on
//! Where the archive ends is known when the storage has answered. Checkpoints do not wait for that, so all log stays from the
//! moment on in which the archiver is started (`held_log.rs`), up to `keep_max` bytes.
//!
//! # On a replica
//! It sends nothing: the primary does. It holds what it does not see in the archive yet, so that nothing is missing there when
//! the primary is lost and this replica is promoted: it goes on then where the primary's archiver has ended.

mod held_log;
mod worker;

use crate::archive::Archive;
use crate::collect::Keep;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::spread_rows::SpreadSource;
use coeval_store::log::Lsn;
use coeval_store::{LogTime, Store};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::Worker;

/// When what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiverOptions {
    /// A stretch of log is sent when it has so many bytes,
    pub chunk_bytes: usize,
    /// or when its first record has waited for so long: what a loss of the whole machine costs at most.
    pub archive_timeout: Duration,
    /// A backup is made at this interval,
    pub backup_interval: Duration,
    /// or after so many bytes of log: a restore has to apply them.
    pub backup_log_bytes: u64,
    /// So many bytes of log that were not sent are kept at most.
    pub keep_max: u64,
    /// What of the archive is kept; everything if not given.
    pub keep: Option<Keep>,
    /// So long after a backup without the rows of spread tables, since nobody gave them, they are asked for again: a backup with them is made
    /// once they are there.
    pub rows_pause: Duration,
    /// How often it looks whether there is something to send.
    pub poll: Duration,
}

impl Default for ArchiverOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: crate::backup::CHUNK_BYTES,
            archive_timeout: Duration::from_secs(60),
            backup_interval: Duration::from_secs(24 * 60 * 60),
            backup_log_bytes: 4 << 30,
            keep_max: 8 << 30,
            keep: None,
            rows_pause: Duration::from_secs(10 * 60),
            poll: Duration::from_millis(100),
        }
    }
}

/// How far an archiver is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiverStatus {
    /// The archive has the log up to here; `None` until it is known what it has.
    pub archived: Option<Lsn>,
    /// The last time in the log that was sent since the archiver began.
    pub archived_time: LogTime,
    /// Bytes of log that are durable here and not archived.
    pub bytes_behind: u64,
    /// The last backup: where it stands, and when it was made.
    pub last_backup: Option<(Lsn, LogTime)>,
    /// Stretches of log, and bytes of all kinds, that were sent since it began.
    pub chunks_sent: u64,
    /// See `chunks_sent`.
    pub bytes_sent: u64,
    /// Attempts that failed since the last one that did not.
    pub failures: u32,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
    /// Attempts that failed since it began, and when the last of them did.
    pub failures_in_all: u64,
    /// See `failures_in_all`.
    pub last_failed: Option<LogTime>,
    /// Log that was let go of, with where it goes on in the archive.
    pub gaps: Vec<Gap>,
    /// Whether log was let go of and no backup has followed yet.
    pub has_let_go: bool,
    /// Whether the thread is there. If not, without having been stopped, that is a bug.
    pub is_running: bool,
}

/// Archives a database until it is dropped. It holds the store open.
pub struct Archiver {
    watch: ArchiverWatch,
    thread: Option<JoinHandle<()>>,
}

/// Looks at an archiver, also when that has ended. Clones look at the same one.
#[derive(Clone)]
pub struct ArchiverWatch {
    shared: Arc<Shared>,
    store: Store,
}

/// What the thread and its owner share.
///
/// # Locking
/// A leaf lock, held for moments.
struct Shared {
    status: Mutex<ArchiverStatus>,
    wake: Condvar,
    /// Once set, nothing is waited for any more.
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Archiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Archiver({:?})", self.status())
    }
}

impl Archiver {
    /// Begins to archive; on a replica, to hold what the archive lacks. From the return on, no log goes before it is archived.
    /// Whether the storage answers is seen in the status.
    ///
    /// # Errors
    /// [`ArchiveError::Place`] if there is no thread to be had.
    pub fn start(store: Store, archive: Archive, options: ArchiverOptions) -> Result<Self, ArchiveError> {
        Self::start_with(store, archive, options, None)
    }

    /// The same, with backups that have the rows of tables that are spread over a cluster, from `source`. While that does not give them,
    /// and without one, backups are made without these rows when they are due, say so, and the log of the program says it too.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(
        store: Store,
        archive: Archive,
        options: ArchiverOptions,
        source: Option<Arc<dyn SpreadSource>>,
    ) -> Result<Self, ArchiveError> {
        let status = ArchiverStatus { is_running: true, ..ArchiverStatus::default() };
        let shared = Arc::new(Shared {
            status: Mutex::new(status),
            wake: Condvar::new(),
            stop: Arc::new(AtomicBool::new(false)),
        });
        let place = archive.place().to_owned();
        let worker = Worker::new((store.clone(), source), archive, options, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("coeval-archiver".to_owned());
        let running = Running(Arc::clone(&shared));
        let thread = thread.spawn(move || {
            let _running = running;
            worker.run();
        });
        let thread = thread.map_err(|error| ArchiveError::Place { place, what: error.to_string() })?;
        Ok(Self { watch: ArchiverWatch { shared, store }, thread: Some(thread) })
    }

    /// How far it is.
    #[must_use]
    pub fn status(&self) -> ArchiverStatus {
        self.watch.status()
    }

    /// Looks at it, for others.
    #[must_use]
    pub fn watch(&self) -> ArchiverWatch {
        self.watch.clone()
    }

    /// Ends it, and says how far it came. What waits is sent once more, if the storage takes it within some seconds.
    #[must_use]
    pub fn stop(mut self) -> ArchiverStatus {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        {
            let shared = &self.watch.shared;
            let _status = shared.status.lock();
            shared.stop.store(true, Ordering::Relaxed);
            shared.wake.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            // The thread's own panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl ArchiverWatch {
    /// How far it is. Costs two locks that are held for moments.
    #[must_use]
    pub fn status(&self) -> ArchiverStatus {
        let mut status = self.shared.status.lock().clone();
        let durable = self.store.log_position().map_or(Lsn::START, |(_, durable)| durable);
        status.bytes_behind = durable.get().saturating_sub(status.archived.unwrap_or(Lsn::START).get());
        status
    }
}

impl fmt::Debug for ArchiverWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchiverWatch({:?})", self.status())
    }
}

/// Goes with the thread, however that ends.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.tell(|status| status.is_running = false);
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps for so long, or until it is to stop.
    fn rest(&self, pause: Duration) {
        let mut status = self.status.lock();
        if !self.is_stopping() {
            self.wake.wait_for(&mut status, pause);
        }
    }

    fn tell(&self, change: impl FnOnce(&mut ArchiverStatus)) {
        change(&mut self.status.lock());
    }
}
