// SPDX-License-Identifier: Apache-2.0
//! [`CommitContext`]: what commits need of their store. The worlds of a store and who reads them, its switches, whose word commits wait for, who
//! is told of them.
//!
//! The pipeline and publications know this much of their store, and nothing of transactions, sequences, files or
//! checkpoints. What has all of the store has it too (`shared.rs`).

use crate::applied_end::AppliedEnd;
use crate::clock::LogClock;
use crate::companion::Companion;
use crate::error::StoreError;
use crate::keeper_signal::KeeperSignal;
use crate::options::{SafeLogging, Sizes, StoreOptions};
use crate::replicas::Replicas;
use crate::serializable::Serializable;
use crate::terms::TermHistory;
use crate::trap::Trap;
use crate::world::World;
use arc_swap::ArcSwap;
use coeval_txn::{ActiveSnapshots, SnapshotGuard, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A safe world that is more versions old than this is not dropped by who publishes: it may hold a great deal alone.
const VERSIONS_DROPPED_HERE: u64 = 64;

/// Runs what may wait, once, on this thread, for a caller whose threads serve others too: they are seen to by another
/// thread meanwhile.
pub type RunAside = fn(&mut dyn FnMut());

/// What commits need of their store: see the module.
pub(crate) struct CommitContext {
    pub(crate) options: StoreOptions,
    pub(crate) sizes: Sizes,
    /// The newest world that sessions may read.
    published: ArcSwap<World>,
    /// The newest certified world; its log record may not be durable yet.
    applied: ArcSwap<World>,
    /// Of transactions that may write: what certification is pruned by.
    writing: ActiveSnapshots,
    /// Of those that only read. They hold worlds, and by them the epochs of bricks; certification forgets what it likes.
    reading: ActiveSnapshots,
    pub(crate) serializable: Serializable,
    run_aside: OnceLock<RunAside>,
    companion: OnceLock<Arc<dyn Companion>>,
    pub(crate) keeper: Arc<KeeperSignal>,
    /// Worlds that checkpoints have replaced. Who drops the last reference to one frees its trees, which may
    /// take long: they stay here until this is the last one, and the keeper drops them.
    ///
    /// # Locking
    /// A leaf lock, held for moments; worlds are dropped outside of it.
    graveyard: Mutex<Vec<Arc<World>>>,
    /// Who wrote the log, up to its end.
    ///
    /// # Locking
    /// A leaf lock, held for moments.
    terms: Mutex<TermHistory>,
    pub(crate) replicas: Replicas,
    pub(crate) clock: LogClock,
    /// Of a follower that goes through its own log: up to where it has.
    pub(crate) applied_end: AppliedEnd,
    pub(crate) trap: Trap,
}

impl CommitContext {
    /// That of a store which begins with this world.
    pub(crate) fn new(
        options: StoreOptions,
        sizes: Sizes,
        world: Arc<World>,
        serializable: Serializable,
        replicas: Replicas,
        terms: TermHistory,
        clock: LogClock,
    ) -> Self {
        Self {
            options,
            sizes,
            published: ArcSwap::new(Arc::clone(&world)),
            applied: ArcSwap::new(world),
            writing: ActiveSnapshots::new(),
            reading: ActiveSnapshots::new(),
            serializable,
            run_aside: OnceLock::new(),
            companion: OnceLock::new(),
            keeper: Arc::new(KeeperSignal::new(sizes.heartbeat, sizes.expiry)),
            graveyard: Mutex::default(),
            terms: Mutex::new(terms),
            replicas,
            clock,
            applied_end: AppliedEnd::default(),
            trap: Trap::default(),
        }
    }

    /// Whether it follows another store's log.
    #[inline]
    pub(crate) fn is_following(&self) -> bool {
        self.serializable.is_following()
    }

    /// Whether those that follow it, or it itself if it follows, are told what safe snapshots are made of.
    #[inline]
    pub(crate) fn tells_of_safe(&self) -> bool {
        self.options.safe_logging == SafeLogging::On
    }

    /// How far safe snapshots may go of those that follow this store, if it writes the log: nowhere as long as what it was opened
    /// with is not confirmed.
    pub(crate) fn boundary_for_others(&self) -> Version {
        if self.replicas.have_recovered() { self.final_version() } else { Version::ZERO }
    }

    /// Fails if the database was opened to be read only.
    #[inline]
    pub(crate) fn check_writable(&self, what: &'static str) -> Result<(), StoreError> {
        if self.is_following() {
            return Err(StoreError::OnReplica(what));
        }
        self.check_files_writable(what)
    }

    /// Fails if nothing of the directory may be changed.
    #[inline]
    pub(crate) fn check_files_writable(&self, what: &'static str) -> Result<(), StoreError> {
        if self.options.is_read_only() { Err(StoreError::ServedReadOnly(what)) } else { Ok(()) }
    }

    /// Who wrote the log, up to its end and perhaps a term that has not written yet.
    pub(crate) fn terms(&self) -> TermHistory {
        self.terms.lock().clone()
    }

    pub(crate) fn set_terms(&self, terms: TermHistory) {
        *self.terms.lock() = terms;
    }

    pub(crate) fn published(&self) -> Arc<World> {
        self.published.load_full()
    }

    pub(crate) fn applied(&self) -> Arc<World> {
        self.applied.load_full()
    }

    pub(crate) fn set_published(&self, world: Arc<World>) {
        let (version, old) = (world.version(), self.published.load().version());
        match self.companion.get() {
            Some(companion) if version > old => {
                companion.publish(old, version, &mut || self.published.store(Arc::clone(&world)));
            }
            Some(_) | None => self.published.store(world),
        }
        if let Some(old) = self.serializable.note_published(version) {
            self.bury(vec![old]);
        }
    }

    /// A registration of a serializable transaction has ended, or a world was published: makes the safe world anew, if
    /// somebody wants one.
    pub(crate) fn keep_up_safe(&self) {
        let Some(before) = self.serializable.keep_up(&self.published) else { return };
        let newest = self.published.load().version().get();
        if newest.saturating_sub(before.world().version().get()) > VERSIONS_DROPPED_HERE {
            self.bury(vec![Arc::clone(before.world())]);
        }
    }

    pub(crate) fn set_applied(&self, world: Arc<World>) {
        self.applied.store(world);
    }

    /// The oldest version that anybody reads.
    pub(crate) fn oldest_active(&self) -> Version {
        self.reading.oldest_or(|| self.oldest_certified())
    }

    /// The oldest version that anybody reads who may still be certified against those that committed since.
    pub(crate) fn oldest_certified(&self) -> Version {
        self.writing.oldest_or(|| self.published.load().version())
    }

    pub(crate) fn held_snapshots(&self) -> Vec<(Version, usize)> {
        let mut held: BTreeMap<Version, usize> = BTreeMap::new();
        for (version, holders) in self.writing.list().into_iter().chain(self.reading.list()) {
            *held.entry(version).or_default() += holders;
        }
        held.into_iter().collect()
    }

    /// Of transactions that may write.
    #[inline]
    pub(crate) fn writing(&self) -> &ActiveSnapshots {
        &self.writing
    }

    /// Of those that only read.
    #[inline]
    pub(crate) fn reading(&self) -> &ActiveSnapshots {
        &self.reading
    }

    /// The highest version whose safe snapshot is final.
    pub(crate) fn final_version(&self) -> Version {
        self.serializable.final_version(|| self.published.load().version())
    }

    pub(crate) fn active_snapshots(&self) -> usize {
        self.writing.count() + self.reading.count()
    }

    /// The newest published world, to be read without leave to change it.
    pub(crate) fn published_slot(&self) -> &ArcSwap<World> {
        &self.published
    }

    /// Registers a version that is held already, for a reader that is going to be certified.
    pub(crate) fn register_reader(&self, version: Version) -> SnapshotGuard {
        self.serializable.register_reader(version)
    }

    /// Runs what may wait, as [`Store::set_run_aside`](crate::Store::set_run_aside) says.
    pub(crate) fn aside<T>(&self, wait: impl FnOnce() -> T) -> T {
        let Some(run_aside) = self.run_aside.get() else { return wait() };
        let (mut wait, mut outcome) = (Some(wait), None);
        run_aside(&mut || outcome = wait.take().map(|wait| wait()));
        outcome.expect("what is run aside is run once, before that returns")
    }

    pub(crate) fn set_run_aside(&self, run_aside: RunAside) {
        // Whoever shares the store has the same threads.
        let _ = self.run_aside.set(run_aside);
    }

    pub(crate) fn set_companion(&self, companion: Arc<dyn Companion>) {
        // Whoever shares the store has the same companion.
        let _ = self.companion.set(companion);
    }

    /// Takes worlds that others may still hold, to be dropped by the keeper.
    pub(crate) fn bury(&self, worlds: Vec<Arc<World>>) {
        let mut graves = self.graveyard.lock();
        for world in worlds {
            // A world that lies here twice would never be held by nobody else.
            if !graves.iter().any(|grave| Arc::ptr_eq(grave, &world)) {
                graves.push(world);
            }
        }
        drop(graves);
        self.keeper.note_graves();
    }

    /// Drops the buried worlds that nobody else holds; returns whether there are others.
    pub(crate) fn sweep_graves(&self) -> bool {
        let (free, held): (Vec<_>, Vec<_>) = {
            let mut graves = self.graveyard.lock();
            let worlds = std::mem::take(&mut *graves);
            let (free, held): (Vec<_>, Vec<_>) =
                worlds.into_iter().partition(|world| Arc::strong_count(world) == 1);
            graves.extend(held.iter().cloned());
            (free, held)
        };
        drop(free);
        !held.is_empty()
    }
}
