// SPDX-License-Identifier: Apache-2.0
//! What followers and copies of a database still need of its files: checkpoints leave that alone.
//!
//! A follower that is connected holds the log from the place that it has durably, and the segment files of bulk loads that
//! the log names there. A copy that is being made holds the files of its manifest as well. What nobody holds goes with the
//! next checkpoint, so a follower that comes back too late is told so (`LogError::Gone`) and begins with a new copy.
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
}

impl Retention {
    /// Holds the log from `log` on, bulk loads of versions behind `version`, and these files.
    pub(crate) fn hold(&self, log: Lsn, version: Version, files: BTreeSet<u64>) -> Hold {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.held.insert(number, Held { log, version, files });
        Hold { retention: self.clone(), number }
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
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.retention.0.lock().held.remove(&self.number);
    }
}
