// SPDX-License-Identifier: Apache-2.0
//! The registry of the snapshot versions that transactions hold.
//!
//! Certification must remember the commits that an active transaction does not see, and only those. The
//! registry says how far back that is.
//!
//! A transaction registers *while* it chooses its version: the choice is a closure that runs under the
//! registry's lock. Otherwise a prune could fall between choosing and registering, and forget commits that
//! the transaction is about to be certified against.
//!
//! Keep one registry for each question. A transaction that never certifies (declared read-only) needs no
//! entry in the registry that certification is pruned by; an hour-long report then costs no memory there.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Version;

/// The snapshot versions that are held at the moment, each with the number of its holders.
///
/// A clone is another handle to the same registry.
///
/// ```
/// use coeval_txn::{ActiveSnapshots, Version};
///
/// let snapshots = ActiveSnapshots::new();
/// let guard = snapshots.register(|| Version::new(7));
/// assert_eq!(guard.version(), Version::new(7));
/// assert_eq!(snapshots.oldest(), Some(Version::new(7)));
/// drop(guard);
/// assert_eq!(snapshots.oldest(), None);
/// ```
#[derive(Clone, Default)]
pub struct ActiveSnapshots {
    /// # Locking
    ///
    /// Guards the held versions. A leaf lock: while it is held only the caller's closure runs, which reads
    /// an atomic pointer and takes no lock of its own; nothing is held across I/O.
    held: Arc<Mutex<HeldVersions>>,
}

impl ActiveSnapshots {
    /// A registry in which nothing is held.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the version that `current` chooses, until the guard is dropped.
    ///
    /// `current` runs under the registry's lock, so from the moment of its choice on, [`oldest`] and
    /// [`oldest_or`] count the version in. To hold the world as well, load it in the closure and keep it
    /// outside:
    ///
    /// ```
    /// # use coeval_txn::{ActiveSnapshots, Version};
    /// # struct World { version: Version }
    /// # let (snapshots, load) = (ActiveSnapshots::new(), || World { version: Version::new(3) });
    /// let mut world = None;
    /// let guard = snapshots.register(|| world.insert(load()).version);
    /// assert_eq!(world.map(|world| world.version), Some(guard.version()));
    /// ```
    ///
    /// Cost: an uncontended lock and, if the version is not the newest one held, a search in the versions
    /// that are. `current` must neither block nor call this registry (it would wait for itself). If it
    /// panics, nothing is registered.
    ///
    /// [`oldest`]: Self::oldest
    /// [`oldest_or`]: Self::oldest_or
    #[inline]
    pub fn register(&self, current: impl FnOnce() -> Version) -> SnapshotGuard {
        let mut held = self.held.lock();
        let version = current();
        held.add(version);
        drop(held);
        SnapshotGuard { held: Arc::clone(&self.held), version }
    }

    /// The oldest version held, or `None` if there is none.
    ///
    /// To prune, take [`oldest_or`](Self::oldest_or): by the time a `None` has been looked at, somebody may
    /// have registered.
    #[must_use]
    pub fn oldest(&self) -> Option<Version> {
        self.held.lock().oldest()
    }

    /// The version up to which commits may be forgotten: the smaller of the oldest version held and
    /// `published`.
    ///
    /// `published` is the lowest version that any later [`register`](Self::register) can still choose (the
    /// version of the published world). It runs under the registry's lock, so that no registration falls
    /// between the two. It counts even if something is held: a transaction that starts from the newest
    /// *applied* world may hold a version that is not published yet, and the next one may choose an older.
    #[must_use]
    pub fn oldest_or(&self, published: impl FnOnce() -> Version) -> Version {
        let held = self.held.lock();
        let published = published();
        held.oldest().map_or(published, |oldest| oldest.min(published))
    }

    /// The versions held, the oldest first, each with the number of its holders. For views: nobody registers
    /// meanwhile.
    #[must_use]
    pub fn list(&self) -> Vec<(Version, usize)> {
        self.held.lock().versions.iter().map(|held| (held.version, held.holder_count)).collect()
    }

    /// How many snapshots are held; two holders of one version count twice.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.lock().holder_count
    }
}

impl fmt::Debug for ActiveSnapshots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.lock();
        formatter
            .debug_struct("ActiveSnapshots")
            .field("count", &held.holder_count)
            .field("oldest", &held.oldest())
            .finish()
    }
}

/// Keeps a version registered as held; dropping it ends that.
///
/// Keep it until the transaction has been admitted or refused, not only until its last read: certification
/// needs the commits since its snapshot.
#[must_use = "dropping the guard ends the registration"]
pub struct SnapshotGuard {
    held: Arc<Mutex<HeldVersions>>,
    version: Version,
}

impl SnapshotGuard {
    /// The version that is kept registered.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for SnapshotGuard {
    #[inline]
    fn drop(&mut self) {
        self.held.lock().release(self.version);
    }
}

impl fmt::Debug for SnapshotGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SnapshotGuard").field(&self.version).finish()
    }
}

/// The held versions in ascending order, each with its holders.
///
/// A sorted queue instead of a tree: a version is nearly always registered at the back, and released near
/// the back (short transactions) or at the front (the oldest one), so little has to move.
#[derive(Default)]
struct HeldVersions {
    versions: VecDeque<HeldVersion>,
    holder_count: usize,
}

struct HeldVersion {
    version: Version,
    holder_count: usize,
}

impl HeldVersions {
    #[inline]
    fn oldest(&self) -> Option<Version> {
        self.versions.front().map(|held| held.version)
    }

    #[inline]
    fn add(&mut self, version: Version) {
        self.holder_count += 1;
        match self.versions.back_mut() {
            Some(newest) if newest.version == version => newest.holder_count += 1,
            Some(newest) if newest.version > version => self.add_behind(version),
            _ => self.versions.push_back(HeldVersion { version, holder_count: 1 }),
        }
    }

    /// Adds a version that is older than the newest one held.
    fn add_behind(&mut self, version: Version) {
        match self.versions.binary_search_by_key(&version, |held| held.version) {
            Ok(index) => self.versions[index].holder_count += 1,
            Err(index) => self.versions.insert(index, HeldVersion { version, holder_count: 1 }),
        }
    }

    #[inline]
    fn release(&mut self, version: Version) {
        assert!(self.holder_count > 0, "version {version} was released but nothing is held");
        self.holder_count -= 1;
        match self.versions.back_mut() {
            Some(newest) if newest.version == version => {
                newest.holder_count -= 1;
                if newest.holder_count == 0 {
                    self.versions.pop_back();
                }
            }
            _ => self.release_behind(version),
        }
    }

    /// Releases a version that is older than the newest one held.
    fn release_behind(&mut self, version: Version) {
        let index = self
            .versions
            .binary_search_by_key(&version, |held| held.version)
            .expect("a guard's version stays in the registry until the guard is dropped");
        let held = &mut self.versions[index];
        held.holder_count -= 1;
        if held.holder_count == 0 {
            self.versions.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
