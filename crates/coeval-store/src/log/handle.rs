// SPDX-License-Identifier: Apache-2.0
//! [`LogHandle`]: everything that may be done to a log while somebody else appends to it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use crate::files::{File, FileError, FileSystem};
use crate::log::end_note::EndNote;
use crate::log::format::segment_path;
use crate::log::walk::Found;
use crate::log::{LogError, LogReader, Lsn};

/// The written end of the log.
pub(crate) struct Written {
    /// The LSN behind the last record.
    pub(crate) end: Lsn,
    /// Where the last segment starts, and its file.
    pub(crate) first: Lsn,
    pub(crate) file: Arc<dyn File>,
    /// The next record goes to a segment that is still to be made: nothing is appended until it is there.
    pub(crate) is_ending: bool,
    /// Where the records begin whose last bytes are still being written.
    pub(crate) unfilled: BTreeSet<Lsn>,
}

impl Written {
    /// The end of a log whose last segment starts at `first`.
    pub(crate) fn new(first: Lsn, end: Lsn, file: Arc<dyn File>) -> Written {
        Written { end, first, file, is_ending: false, unfilled: BTreeSet::new() }
    }

    /// Up to where all records are whole.
    fn whole_end(&self) -> Lsn {
        self.unfilled.first().copied().unwrap_or(self.end)
    }
}

/// What the appender and the handles share.
///
/// # Locking
/// - `turn` is held across each sync of the last segment, and across the change to the next one: the system
///   reports a failed sync to one caller only, so two at a time could let the second believe in success.
/// - `written` and `segments` are held for moments, never across a system call, except that `segments` is held
///   while segments are removed (nobody waits for it but another removal and the change of segment's last step).
/// - `noted` is held while the note of the end is written, and across its syncs: only who writes one waits for it.
/// - Order: `noted` or `turn`, then `written` or `segments`; never both of the latter.
/// - Whoever holds `turn` may wait on `filled`: who fills takes no lock but `written`.
/// - `durable` changes only under `turn`. `stopped` is set once and never taken back.
pub(crate) struct Shared {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) dir: PathBuf,
    pub(crate) turn: Mutex<()>,
    pub(crate) written: Mutex<Written>,
    /// A record has got its last bytes, or never will.
    pub(crate) filled: Condvar,
    pub(crate) segments: Mutex<Vec<Lsn>>,
    /// The end that is noted beside the segments.
    noted: Mutex<Option<EndNote>>,
    durable: AtomicU64,
    stopped: OnceLock<Arc<LogError>>,
}

impl Shared {
    pub(crate) fn new(files: Arc<dyn FileSystem>, dir: PathBuf, found: Found, written: Written) -> Shared {
        // The log is opened with everything in it synced.
        let durable = AtomicU64::new(written.end.get());
        Shared {
            files,
            dir,
            turn: Mutex::new(()),
            written: Mutex::new(written),
            filled: Condvar::new(),
            segments: Mutex::new(found.segments),
            noted: Mutex::new(found.noted),
            durable,
            stopped: OnceLock::new(),
        }
    }

    /// Fails if the log has stopped.
    pub(crate) fn check_running(&self) -> Result<(), LogError> {
        match self.stopped.get() {
            None => Ok(()),
            Some(first) => Err(LogError::Stopped { first: Arc::clone(first) }),
        }
    }

    /// Stops the log for good, unless it has stopped already, and returns `error`.
    pub(crate) fn stop(&self, error: impl Into<LogError>) -> LogError {
        let error = error.into();
        // A log that has stopped keeps its first reason.
        let _ = self.stopped.set(Arc::new(error.clone()));
        error
    }

    /// What a failure to make room means: without room the log is as it was, else it stops.
    pub(crate) fn no_room_or_stop(&self, error: FileError) -> LogError {
        if error.is_disk_full() { LogError::NoRoom(error) } else { self.stop(error) }
    }

    /// Waits until all records before `target` are whole. Returns up to where all are, and the file of the last segment.
    ///
    /// # Errors
    /// When the log has stopped.
    pub(crate) fn wait_until_whole(&self, target: Lsn) -> Result<(Lsn, Arc<dyn File>), LogError> {
        let mut written = self.written.lock();
        assert!(target <= written.end, "only what was appended can be synced");
        while written.whole_end() < target {
            self.check_running()?;
            self.filled.wait(&mut written);
        }
        self.check_running()?;
        Ok((written.whole_end(), Arc::clone(&written.file)))
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    /// Records that everything up to `end` is durable. Only under `turn`.
    pub(crate) fn set_durable(&self, end: Lsn) {
        assert!(end >= self.durable(), "what is durable stays durable");
        self.durable.store(end.get(), Ordering::Release);
    }
}

/// Syncs a log and drops its old segments, from any thread, without holding up appends. Cheap to clone.
#[derive(Clone)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

impl LogHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> LogHandle {
        LogHandle { shared }
    }

    /// Makes all records up to `target` (an LSN that an append returned) durable, and returns the LSN up to which
    /// the log is durable now, at least `target`.
    ///
    /// Returns at once when that is so already, even if the log has stopped since. Otherwise the caller waits for
    /// its turn; a sync covers all that was written before it began, so of many waiting callers most find their
    /// records durable when it is theirs. Appends go on meanwhile. A record whose last bytes are still being written is
    /// waited for if it is wanted, else what is before it is synced.
    ///
    /// # Errors
    /// When the sync fails, or the log has stopped before. Records behind [`LogHandle::durable_lsn`] may then be
    /// found after a restart, or not.
    ///
    /// # Panics
    /// When `target` is behind the end of the log.
    pub fn sync(&self, target: Lsn) -> Result<Lsn, LogError> {
        let shared = &self.shared;
        if shared.durable() >= target {
            return Ok(shared.durable());
        }
        let _turn = shared.turn.lock();
        if shared.durable() >= target {
            return Ok(shared.durable());
        }
        let (end, file) = shared.wait_until_whole(target)?;
        file.sync_data().map_err(|error| shared.stop(error))?;
        shared.set_durable(end);
        Ok(end)
    }

    /// Notes beside the log up to where it is durable, so that the loss of its last segment, or of its last records, is told
    /// from an end. Durable on return; nothing is written if that is noted already.
    ///
    /// # Errors
    /// When it cannot be written, or the log has stopped; the log goes on, and the note before may be there or this one.
    pub(crate) fn note_end(&self) -> Result<(), LogError> {
        let shared = &self.shared;
        shared.check_running()?;
        let mut noted = shared.noted.lock();
        let segment = shared.written.lock().first;
        // Read behind the segment's place, which was durable before it was put there.
        let note = EndNote { segment, end: shared.durable() };
        if noted.is_some_and(|noted| noted.end >= note.end) {
            return Ok(());
        }
        note.write(&*shared.files, &shared.dir)?;
        *noted = Some(note);
        Ok(())
    }

    /// Reads the log from `position` on while others append to it.
    pub fn reader(&self, position: Lsn) -> LogReader {
        LogReader::new(Arc::clone(&self.shared), position)
    }

    /// Stops the log for good, for a reason that is not its own.
    pub(crate) fn stop(&self, reason: LogError) {
        self.shared.stop(reason);
    }

    /// The LSN up to which the log is durable. Never goes back.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable()
    }

    /// The LSN behind the last record that was appended.
    pub fn end_lsn(&self) -> Lsn {
        self.shared.written.lock().end
    }

    /// The error that stopped the log, as long as it has stopped.
    ///
    /// # Errors
    /// [`LogError::Stopped`] when a write or sync has failed.
    pub fn check_running(&self) -> Result<(), LogError> {
        self.shared.check_running()
    }

    /// Removes the segments whose records all end at or before `lsn`, once a checkpoint that contains them is
    /// durable. The last segment always stays. Returns how many were removed; the removal is durable on return.
    ///
    /// # Errors
    /// When a segment cannot be removed. Nothing needed is lost, the log goes on, and a later call tries again.
    pub fn remove_before(&self, lsn: Lsn) -> Result<usize, LogError> {
        let shared = &self.shared;
        let mut segments = shared.segments.lock();
        let mut removed = 0;
        // A segment ends where the next one starts.
        while segments.len() > 1 && segments[1] <= lsn {
            let path = segment_path(&shared.dir, segments[0]);
            match shared.files.remove(&path) {
                // A removal whose directory sync failed earlier has left no file but may have left the entry.
                Err(error) if error.is_not_found() => {}
                outcome => outcome?,
            }
            segments.remove(0);
            removed += 1;
        }
        if removed > 0 {
            shared.files.sync_dir(&shared.dir)?;
        }
        Ok(removed)
    }
}
