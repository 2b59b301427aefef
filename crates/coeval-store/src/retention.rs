// SPDX-License-Identifier: Apache-2.0
//! What followers and copies of a database still need of its files: checkpoints leave that alone.
//!
//! A follower that is connected holds the log from the place that it has durably, and the segment files of bulk loads that
//! the log names there. A copy that is being made holds the files of its manifest as well. What nobody holds goes with the
//! next checkpoint, so a follower that comes back too late is told so (`LogError::Gone`) and begins with a new copy.
//!
//! What is *kept* stays when who needs it goes, and over a close (`kept_log.rs`): for an archive, which is to have everything.
//! It is left then, until the next one comes who keeps it, or until it is more than it may be.
//!
//! # Locking
//! A leaf lock, held for moments.

use crate::log::Lsn;
use coeval_txn::Version;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All that is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retention(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<u64, Held>,
    next: u64,
}

/// What one of them needs.
#[derive(Clone, Debug)]
struct Held {
    /// The log from here on.
    log: Lsn,
    /// Bulk loads of later versions.
    version: Version,
    /// Segment files by number.
    files: BTreeSet<u64>,
    /// At most so many bytes of log are kept when who needs it has gone; nothing if not given.
    kept: Option<u64>,
    /// Whether he has gone.
    is_left: bool,
}

/// What is kept when who needs it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The log from here on.
    pub(crate) log: Lsn,
    /// Bulk loads of later versions.
    pub(crate) version: Version,
    /// At most so many bytes of log.
    pub(crate) bytes_max: u64,
}

impl Retention {
    /// Holds the log from `log` on, bulk loads of versions behind `version`, and these files.
    pub(crate) fn hold(&self, log: Lsn, version: Version, files: BTreeSet<u64>) -> Hold {
        let number = self.insert(Held { log, version, files, kept: None, is_left: false });
        Hold { retention: self.clone(), number }
    }

    fn insert(&self, held: Held) -> u64 {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.held.insert(number, held);
        number
    }

    /// That of a store in whose directory this was left.
    pub(crate) fn with_left(kept: Option<Kept>) -> Self {
        let retention = Self::default();
        if let Some(Kept { log, version, bytes_max }) = kept {
            let files = BTreeSet::new();
            retention.insert(Held { log, version, files, kept: Some(bytes_max), is_left: true });
        }
        retention
    }

    /// What is kept, whether or not who needs it has gone.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let state = self.0.lock();
        let kept = state.held.values().filter_map(|held| {
            held.kept.map(|bytes_max| Kept { log: held.log, version: held.version, bytes_max })
        });
        kept.reduce(|a, b| Kept {
            log: a.log.min(b.log),
            version: a.version.min(b.version),
            bytes_max: a.bytes_max.max(b.bytes_max),
        })
    }

    /// Lets go of what was left and is more than may be kept of a log that ends here. Returns from where on it was kept.
    pub(crate) fn let_go_of_too_much(&self, end: Lsn) -> Option<Lsn> {
        let mut let_go = None;
        self.0.lock().held.retain(|_, held| {
            let is_too_much = |bytes_max| end.get().saturating_sub(held.log.get()) > bytes_max;
            let goes = held.is_left && held.kept.is_some_and(is_too_much);
            let_go = if goes { Some(held.log) } else { let_go };
            !goes
        });
        let_go
    }

    /// How far the log may be removed, up to `lsn`.
    pub(crate) fn log_before(&self, lsn: Lsn) -> Lsn {
        self.0.lock().held.values().map(|held| held.log).fold(lsn, Lsn::min)
    }

    /// Up to which version the files of bulk loads may be removed, up to `version`.
    pub(crate) fn loads_through(&self, version: Version) -> Version {
        self.0.lock().held.values().map(|held| held.version).fold(version, Version::min)
    }

    /// Adds the files that are held.
    pub(crate) fn add_files(&self, files: &mut BTreeSet<u64>) {
        self.0.lock().held.values().for_each(|held| files.extend(&held.files));
    }
}

/// Keeps what somebody needs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    retention: Retention,
    number: u64,
}

impl Hold {
    /// What is before is not needed any more, nor any file of the manifest.
    pub(crate) fn advance(&self, log: Lsn, version: Version) {
        let mut state = self.retention.0.lock();
        let held = state.held.get_mut(&self.number).expect("it is held until this is dropped");
        held.log = held.log.max(log);
        held.version = held.version.max(version);
        held.files.clear();
    }

    /// Has it stay when this is dropped, up to so many bytes of log. What was left before is not needed any more.
    pub(crate) fn keep(&self, bytes_max: u64) {
        let mut state = self.retention.0.lock();
        state.held.get_mut(&self.number).expect("it is held until this is dropped").kept = Some(bytes_max);
        state.held.retain(|_, held| !held.is_left);
    }

    /// Has it go when this is dropped.
    pub(crate) fn let_go(&self) {
        let mut state = self.retention.0.lock();
        state.held.get_mut(&self.number).expect("it is held until this is dropped").kept = None;
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.retention.0.lock().held.get(&self.number).is_some_and(|held| held.kept.is_some())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.retention.0.lock();
        match state.held.get_mut(&self.number) {
            Some(held) if held.kept.is_some() => held.is_left = true,
            _ => drop(state.held.remove(&self.number)),
        }
    }
}
