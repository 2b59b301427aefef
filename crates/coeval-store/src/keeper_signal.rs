// SPDX-License-Identifier: Apache-2.0
//! [`KeeperSignal`]: what threads that commit, read or drop tell the keeper, and how it sleeps until then (`keeper.rs`).

use crate::error::StoreError;
use crate::log::Lsn;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often worlds that somebody else still holds are looked at again.
const GRAVEYARD_INTERVAL: Duration = Duration::from_millis(50);

/// Chunks are let go of at most so often: each time all are looked at.
const UNLOAD_INTERVAL: Duration = Duration::from_millis(100);

/// So many commit batches that append to brick tables pass between two purges: a purge looks at each brick.
const BRICK_BATCHES_BETWEEN_PURGES: u64 = 1_000;

/// What committing threads and the keeper tell each other.
///
/// # Locking
/// `state` is a leaf lock, held for moments. The marks are plain counters: a commit that reads an old mark wakes
/// the keeper for nothing, or leaves it to the next commit.
#[derive(Debug)]
pub(crate) struct KeeperSignal {
    state: Mutex<State>,
    wake: Condvar,
    stopping: AtomicBool,
    /// Changes of keys that were committed so far.
    changes: AtomicU64,
    /// The count of changes and the log position at which the keeper wants to be woken.
    changes_mark: AtomicU64,
    log_mark: AtomicU64,
    /// How often the log gets heartbeats.
    heartbeat: Option<Duration>,
    /// How often rows are looked for that are older than their tables keep them, whatever else happens or does not.
    expiry: Duration,
    /// Whether something was committed since the log has known all.
    owes_heartbeat: AtomicBool,
    /// Whether somebody found that chunks take more memory than they may.
    is_full: AtomicBool,
    brick_batches: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_poked: bool,
    has_graves: bool,
    /// When chunks were last let go of.
    unloaded: Option<Instant>,
}

impl KeeperSignal {
    pub(crate) fn new(heartbeat: Option<Duration>, expiry: Duration) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            stopping: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            changes_mark: AtomicU64::new(u64::MAX),
            log_mark: AtomicU64::new(u64::MAX),
            heartbeat,
            expiry,
            owes_heartbeat: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            brick_batches: AtomicU64::new(1),
        }
    }

    /// Counts a commit batch with so many changed keys, whose record ends at `log_end`.
    #[inline]
    pub(crate) fn note_commit(&self, changes: u64, log_end: Option<Lsn>) {
        let before = self.changes.fetch_add(changes, Ordering::Relaxed);
        let changes_due = before + changes >= self.changes_mark.load(Ordering::Relaxed);
        let log_due = log_end.is_some_and(|end| end.get() >= self.log_mark.load(Ordering::Relaxed));
        if changes_due || log_due {
            self.poke();
        }
        if self.heartbeat.is_some() && !self.owes_heartbeat.load(Ordering::Relaxed) {
            self.owe_heartbeat();
        }
    }

    #[cold]
    fn owe_heartbeat(&self) {
        let _state = self.state.lock();
        self.owes_heartbeat.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Counts a commit batch that appended to brick tables.
    pub(crate) fn note_bricks(&self) {
        let before = self.brick_batches.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(BRICK_BATCHES_BETWEEN_PURGES) {
            self.poke();
        }
    }

    /// Makes the keeper look whether a checkpoint is due.
    #[cold]
    pub(crate) fn poke(&self) {
        // So that the next commits do not poke again before the keeper has looked.
        self.changes_mark.store(u64::MAX, Ordering::Relaxed);
        self.log_mark.store(u64::MAX, Ordering::Relaxed);
        self.state.lock().is_poked = true;
        self.wake.notify_all();
    }

    /// Whether the keeper has not begun to look since it was poked.
    #[cfg(test)]
    pub(crate) fn is_poked(&self) -> bool {
        self.state.lock().is_poked
    }

    /// Makes the keeper look after buried worlds.
    pub(crate) fn note_graves(&self) {
        self.state.lock().has_graves = true;
        self.wake.notify_all();
    }

    /// All buried worlds are going to be looked at: what is buried from here on is noted again.
    pub(crate) fn forget_graves(&self) {
        self.state.lock().has_graves = false;
    }

    /// How often the log gets heartbeats; `None` if it gets none.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    /// Whether something was committed since the log has known all; from here on it counts as known.
    pub(crate) fn take_owed_heartbeat(&self) -> bool {
        self.owes_heartbeat.swap(false, Ordering::Relaxed)
    }

    /// The log does not know all yet.
    pub(crate) fn keep_owing_heartbeat(&self) {
        self.owes_heartbeat.store(true, Ordering::Relaxed);
    }

    /// How often rows are looked for that have expired.
    pub(crate) fn expiry(&self) -> Duration {
        self.expiry
    }

    /// The keeper is woken behind so many more changes, and when the log has come to `log`.
    pub(crate) fn set_marks(&self, more_changes: u64, log: u64) {
        let changes = self.changes.load(Ordering::Relaxed).saturating_add(more_changes);
        self.changes_mark.store(changes, Ordering::Relaxed);
        self.log_mark.store(log, Ordering::Relaxed);
    }

    /// Makes the keeper let go of chunks.
    pub(crate) fn note_full(&self) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            // Behind this the keeper either sleeps and hears it, or looks before it sleeps.
            drop(self.state.lock());
            self.wake.notify_all();
        }
    }

    /// Fails once the store is being closed.
    pub(crate) fn check_running(&self) -> Result<(), StoreError> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(StoreError::Closing);
        }
        Ok(())
    }

    /// Tells the keeper to end.
    pub(crate) fn stop(&self) {
        let _state = self.state.lock();
        self.stopping.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Sleeps until there is something to do, at most for as long as old rows may wait. Returns why it woke; `None` when
    /// it is to stop.
    pub(crate) fn wait(&self) -> Option<Woken> {
        let mut state = self.state.lock();
        loop {
            if self.stopping.load(Ordering::Relaxed) {
                return None;
            }
            if std::mem::take(&mut state.is_poked) {
                return Some(Woken::Poke);
            }
            let full = self.is_full.load(Ordering::Relaxed).then(|| {
                let rested = state.unloaded.map_or(UNLOAD_INTERVAL, |unloaded| unloaded.elapsed());
                UNLOAD_INTERVAL.saturating_sub(rested)
            });
            if full == Some(Duration::ZERO) {
                state.unloaded = Some(Instant::now());
                self.is_full.store(false, Ordering::Relaxed);
                return Some(Woken::Fullness);
            }
            let heartbeat = self.heartbeat.filter(|_| self.owes_heartbeat.load(Ordering::Relaxed));
            let graves = state.has_graves.then_some(GRAVEYARD_INTERVAL);
            let interval = heartbeat.into_iter().chain(graves).chain(full).fold(self.expiry, Duration::min);
            if self.wake.wait_for(&mut state, interval).timed_out() {
                return Some(Woken::Time);
            }
        }
    }
}

/// What woke the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Somebody wants it to see whether a checkpoint is due.
    Poke,
    /// Chunks take more memory than they may.
    Fullness,
    /// Something that it does at intervals may be due.
    Time,
}
