// SPDX-License-Identifier: Apache-2.0
//! Who follows the log of the database, and how far each has come: what `pg_stat_replication` shows.

use coeval_store::log::Lsn;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far one who follows has come. What it has not said yet is the beginning of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sent to it.
    pub sent: Lsn,
    /// In its log.
    pub written: Lsn,
    /// Durable there.
    pub flushed: Lsn,
    /// Seen by its readers.
    pub applied: Lsn,
    /// When it last said so, in microseconds since 1970; 0 if it has not.
    pub replied_micros: i64,
}

/// All who follow, by the numbers of their sessions.
///
/// # Locking
/// A leaf lock, held for moments.
#[derive(Clone, Debug, Default)]
pub struct Followers(Arc<Mutex<BTreeMap<i32, Progress>>>);

impl Followers {
    /// A session begins to follow.
    #[must_use = "it follows until this is dropped"]
    pub fn add(&self, pid: i32) -> Following {
        self.0.lock().insert(pid, Progress::default());
        Following { all: self.clone(), pid }
    }

    /// How far a session has come that follows.
    #[must_use]
    pub fn progress(&self, pid: i32) -> Option<Progress> {
        self.0.lock().get(&pid).copied()
    }
}

/// Keeps a session listed among those that follow.
#[derive(Debug)]
pub struct Following {
    all: Followers,
    pid: i32,
}

impl Following {
    /// Changes how far it has come.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = self.all.0.lock().get_mut(&self.pid) {
            change(progress);
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.pid);
    }
}
