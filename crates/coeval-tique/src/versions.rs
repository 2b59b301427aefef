// SPDX-License-Identifier: Apache-2.0
//! Which versions a cache holds: a look-up of one key reads the one table, and there the one version, that it needs
//! (Figure 6c, for each key).
//!
//! All appends to the caches go through this process, so it knows. The argument, for a transaction that sees up to `sts`:
//!
//! - **No version up to `sts` is noted: the storage has the row.** Versions up to `sts` were noted before the transaction
//!   began. A checkpoint changes a row of the storage only if it has versions that all running transactions see, so not
//!   this one.
//! - **The newest up to `sts` is noted: the cache has it.** A checkpoint forgets versions when the storage has them, before
//!   it deletes them. Who finds the version still noted behind its query has read the cache before anything was deleted;
//!   who does not asks again, and is sent to the storage.

use crate::counters::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// What a table's cache is known to hold of what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheRows {
    /// Nothing.
    None,
    /// Something, perhaps.
    Some,
    /// One row is looked for, and its newest version that is seen is the one with this timestamp.
    Exactly(Timestamp),
}

/// The versions of one table's cache, by the texts of their keys. About a hundred bytes for each key.
///
/// # Locking
/// One lock, held for moments; by a checkpoint, and where a batch is undone, for a look at each key.
pub(crate) struct Versions {
    /// The newest timestamp that was ever noted, and the newest up to which versions were forgotten.
    newest: AtomicI64,
    forgotten: AtomicI64,
    /// The timestamps of each key's versions; nothing if it is not known what the cache holds.
    keys: Mutex<Option<HashMap<String, Vec<Timestamp>>>>,
}

impl Versions {
    /// Of an empty cache.
    pub(crate) fn none() -> Self {
        let (newest, forgotten) = (AtomicI64::new(0), AtomicI64::new(0));
        Self { newest, forgotten, keys: Mutex::new(Some(HashMap::new())) }
    }

    /// It is not known what the cache holds, now or later.
    pub(crate) fn lose(&self) {
        *self.keys.lock() = None;
    }

    /// Notes versions, before they are appended.
    pub(crate) fn note<'a>(&self, keys: impl Iterator<Item = &'a str>, cts: Timestamp) {
        self.newest.fetch_max(cts.0, Ordering::SeqCst);
        let mut known = self.keys.lock();
        let Some(known) = known.as_mut() else { return };
        for key in keys {
            match known.get_mut(key) {
                Some(versions) => versions.push(cts),
                None => drop(known.insert(key.to_owned(), vec![cts])),
            }
        }
    }

    /// These versions did not come to be.
    pub(crate) fn take_back(&self, all: &[Timestamp]) {
        self.retain(|version| !all.contains(&version));
    }

    /// Forgets versions up to a timestamp: the storage has them, and they are about to be deleted. If that fails, what the
    /// cache holds is to be [lost](Self::lose).
    pub(crate) fn forget(&self, stable: Timestamp) {
        self.forgotten.fetch_max(stable.0, Ordering::SeqCst);
        self.retain(|version| version > stable);
    }

    fn retain(&self, keep: impl Fn(Timestamp) -> bool) {
        if let Some(known) = self.keys.lock().as_mut() {
            known.retain(|_, versions| {
                versions.retain(|version| keep(*version));
                !versions.is_empty()
            });
        }
    }

    /// No version that was noted is newer than this.
    pub(crate) fn newest(&self) -> Timestamp {
        Timestamp(self.newest.load(Ordering::SeqCst))
    }

    /// The cache has all versions that are newer than this.
    pub(crate) fn forgotten(&self) -> Timestamp {
        Timestamp(self.forgotten.load(Ordering::SeqCst))
    }

    /// Where the row with a key is for a transaction with this start timestamp.
    pub(crate) fn of(&self, key: &str, sts: Timestamp) -> CacheRows {
        let known = self.keys.lock();
        let Some(known) = known.as_ref() else { return CacheRows::Some };
        let versions = known.get(key).into_iter().flatten();
        let newest = versions.filter(|version| **version <= sts).max();
        newest.map_or(CacheRows::None, |newest| CacheRows::Exactly(*newest))
    }

    /// Whether a version is noted still.
    pub(crate) fn has(&self, key: &str, version: Timestamp) -> bool {
        let known = self.keys.lock();
        known.as_ref().is_some_and(|known| known.get(key).is_some_and(|versions| versions.contains(&version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_where_its_newest_version_is_that_is_seen() {
        let versions = Versions::none();
        let of = |sts| versions.of("1.2", Timestamp(sts));
        assert_eq!(of(9), CacheRows::None);
        versions.note(["1.2", "1.3"].into_iter(), Timestamp(5));
        versions.note(std::iter::once("1.2"), Timestamp(8));
        versions.note(std::iter::once("1.2"), Timestamp(7));
        let exactly = |cts| CacheRows::Exactly(Timestamp(cts));
        assert_eq!([of(4), of(5), of(7), of(9)], [CacheRows::None, exactly(5), exactly(7), exactly(8)]);
        versions.take_back(&[Timestamp(8)]);
        assert_eq!(of(9), exactly(7));
        versions.forget(Timestamp(5));
        assert_eq!((of(5), of(7)), (CacheRows::None, exactly(7)));
        assert_eq!(versions.of("1.3", Timestamp(9)), CacheRows::None);
        assert!(versions.has("1.2", Timestamp(7)) && !versions.has("1.2", Timestamp(5)));
        versions.lose();
        assert_eq!(of(9), CacheRows::Some);
        assert!(!versions.has("1.2", Timestamp(7)));
    }
}
