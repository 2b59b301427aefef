// SPDX-License-Identifier: Apache-2.0
//! What serializability needs beside snapshots: who is active, what was read and written, the safe world.
//!
//! The rules are those of `coeval_txn::ssi`, proven in its README; here stands who calls them, and when.
//!
//! ```text
//! begin     a read-write transaction registers in the boundary, with its world; a reader looks whether it must be
//!           certified at all
//! commit    under the leader's lock: Certifications::certify, then admit
//! end       the transaction's guard goes when its version is published, or it was refused
//! behind it keep_up(): the boundary moves, and the safe world is made anew if somebody has asked for one lately
//! read      safe(): one load of the pointer to it
//! ```
//!
//! # Made when wanted
//! While nobody asks for safe worlds, none is made: a database without safe readers pays nothing for them. Once somebody has
//! asked, they are *kept up* for a while: a thread that moves the boundary, by a publication or the end of a transaction, makes
//! the safe world before it goes on, and stores it behind an atomic pointer. One thread makes it at a time; a second one leaves it to
//! the first, which looks again before it stops. So the stored world lacks only what ended at this moment. It is always right to
//! read, since a boundary's safe snapshot is final.
//! (`coeval_txn::ssi`'s README has the proof, and `tests/loom` every interleaving.)
//!
//! # What a reader finds
//! Every commit that was acknowledged before it began, if no SERIALIZABLE writer with an older snapshot than the published
//! world is open. A commit is acknowledged behind three steps: its world is published, the registrations of its batch end,
//! and only then are those told who wait for it. The safe world is made behind that, so that nobody waits for it. A reader
//! in between sees that what lies ready is not the newest; while no older writer is open it then reads the published world
//! itself, which is as good as a safe one (README, *Readers that need no marks*). While an older writer is open, it takes
//! what lies ready: that lacks what the next one has for as long as somebody makes that, some microseconds.
//!
//! Likewise the write sets of commits below SERIALIZABLE become marks only when somebody is certified who did not see them.
//!
//! # Locking
//! The leader's lock, then `making`, then `safe`, then the boundary's registry, then those of snapshots. Each but the
//! leader's is held for moments, `making` and `safe` for as long as it takes to apply the few write sets behind the boundary.

mod certifications;

use crate::certification::ActiveGuard;
use crate::error::StoreError;
use crate::options::Trials;
use crate::safe_counts::SafeCounters;
use crate::world::World;
use crate::write_set::WriteSet;
use arc_swap::{ArcSwap, ArcSwapOption};
pub(crate) use certifications::{Certifications, SHOWN_WRITES_MAX};
use coeval_txn::ssi::{
    Boundary, BoundaryHolder, Deferral, FollowedSnapshots, HeldBack, Member, Moved, SafeSnapshot,
    SafeSnapshots, SessionFloor,
};
use coeval_txn::{ActiveSnapshots, Interrupt, SnapshotGuard, TransactionId, Version};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// The serializable side of a store, outside of the leader.
pub(crate) struct Serializable {
    boundary: Boundary<Arc<World>>,
    /// Readers that are going to be certified.
    readers: ActiveSnapshots,
    /// Held by the thread that makes a safe world. After releasing it that thread looks again, as others have left their part to it.
    making: Mutex<()>,
    safe: Mutex<SafeState>,
    /// The safe world that was made last; none if nobody wants one. Changed under the lock of `safe`.
    newest: ArcSwapOption<SafeWorld>,
    /// The published version.
    published: AtomicU64,
    /// With how many more publications a safe world is made. Leaves zero only behind the making of one, under `making`.
    wanted: AtomicU64,
    /// The last version with a commit that had an out-edge.
    newest_with_out: AtomicU64,
    /// How long a transaction may hold the boundary back, in microseconds; [`NO_BOUND`] for ever.
    lag_max_micros: AtomicU64,
    next_transaction: AtomicU64,
    pub(crate) counters: SafeCounters,
    trials: Trials,
    /// Of a store that follows another one's log, by which its safe worlds are made.
    followed: Option<Mutex<FollowedSnapshots<Arc<World>, Arc<WriteSet>>>>,
}

/// See [`Serializable`].
struct SafeState {
    snapshots: SafeSnapshots<Arc<WriteSet>>,
    /// Commits of the boundary's world.
    boundary_commits: u64,
    /// Commits beyond the boundary that the safe snapshot has.
    members: u64,
    /// When a follower's safe world was last put in place.
    put: Instant,
}

/// With how many publications a safe world is made after somebody has asked for one.
const WANTED_PUBLICATIONS: u64 = 1_024;

const NO_BOUND: u64 = u64::MAX;

/// How long to leave a certification alone before it is asked whether it has ended.
const CERTIFICATION_LOOK: Duration = Duration::from_micros(100);

/// Why a `DEFERRABLE` transaction has got no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum DeferralError {
    /// Its wait was interrupted.
    #[error("the wait for a safe snapshot was interrupted")]
    Interrupted,
    /// Commits have stopped, and one that may be lost holds the boundary for good: no later snapshot becomes safe here.
    #[error(transparent)]
    Stopped(#[from] StoreError),
}

/// A read safe snapshot as a world: what declared read-only transactions read.
#[derive(Debug)]
pub struct SafeWorld {
    world: Arc<World>,
    holds: SafeSnapshot<Arc<WriteSet>>,
}

impl SafeWorld {
    pub(crate) fn new(world: Arc<World>, holds: SafeSnapshot<Arc<WriteSet>>) -> Self {
        Self { world, holds }
    }

    /// The world: that of the boundary's version, with the commits behind it that belong to the snapshot.
    #[must_use]
    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The version that it holds all of.
    pub(crate) fn boundary(&self) -> Version {
        self.holds.boundary
    }

    /// Whether a session that must find what `floor` says may read it.
    pub(crate) fn satisfies(&self, floor: &SessionFloor) -> bool {
        floor.admits(&self.holds)
    }
}

/// How far safe snapshots are behind, and because of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLag {
    /// The newest published version.
    pub published: Version,
    /// The version that a safe snapshot is made from now.
    pub boundary: Version,
    /// How many of the published commits it lacks.
    pub commits: u64,
    /// For how long there has been something that it lacks, at most; nothing if it lacks nothing.
    pub age: Duration,
    /// Who holds it back, if it is.
    pub holder: Option<BoundaryHolder>,
}

/// What came of making a safe world.
struct Made {
    /// The newest one, if there is one.
    newest: Option<Arc<SafeWorld>>,
    /// It was not there before.
    is_new: bool,
    /// What it took the place of.
    replaced: Option<Arc<SafeWorld>>,
}

/// What a reader of the current world has to do.
pub(crate) enum ReaderDuty {
    /// Nothing: it is part of no anomaly.
    None,
    /// To note what it reads and to be certified.
    Certified(SnapshotGuard),
}

impl Serializable {
    pub(crate) fn new(world: Arc<World>, trials: Trials) -> Self {
        let published = world.version();
        let holds = SafeSnapshot { boundary: published, members: Vec::new() };
        let boundary_commits = world.commits();
        let newest = ArcSwapOption::from_pointee(SafeWorld { world, holds });
        Self {
            boundary: Boundary::new(published),
            readers: ActiveSnapshots::new(),
            making: Mutex::new(()),
            safe: Mutex::new(SafeState {
                snapshots: SafeSnapshots::new(published),
                boundary_commits,
                members: 0,
                put: Instant::now(),
            }),
            newest,
            published: AtomicU64::new(published.get()),
            wanted: AtomicU64::new(0),
            newest_with_out: AtomicU64::new(0),
            lag_max_micros: AtomicU64::new(NO_BOUND),
            next_transaction: AtomicU64::new(1),
            counters: SafeCounters::default(),
            trials,
            followed: None,
        }
    }

    /// Of a store that follows another one: there is no safe world before the log allows one.
    pub(crate) fn following(world: Arc<World>, trials: Trials) -> Self {
        let followed = FollowedSnapshots::new(world.version(), Arc::clone(&world));
        let serializable = Self { followed: Some(Mutex::new(followed)), ..Self::new(world, trials) };
        serializable.newest.store(None);
        serializable
    }

    /// Whether safe worlds are made of another store's log.
    #[inline]
    pub(crate) fn is_following(&self) -> bool {
        self.followed.is_some()
    }

    /// What was followed.
    ///
    /// # Panics
    /// If nobody is followed.
    pub(crate) fn lock_followed(&self) -> MutexGuard<'_, FollowedSnapshots<Arc<World>, Arc<WriteSet>>> {
        self.followed.as_ref().expect("only a follower takes records").lock()
    }

    /// Puts a safe world in place that was made of the log, over a world with so many commits. Returns the one before.
    #[must_use = "dropping the last reference to a world takes long"]
    pub(crate) fn put_followed(&self, safe: SafeWorld, boundary_commits: u64) -> Option<Arc<World>> {
        let mut state = self.safe.lock();
        if self.newest.load().as_ref().is_some_and(|newest| newest.boundary() >= safe.boundary()) {
            return None;
        }
        state.boundary_commits = boundary_commits;
        state.members = safe.holds.members.len() as u64;
        state.put = Instant::now();
        self.newest.swap(Some(Arc::new(safe))).map(|old| Arc::clone(&old.world))
    }

    /// A name for a transaction that begins.
    pub(crate) fn new_transaction(&self) -> TransactionId {
        TransactionId::new(self.next_transaction.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a read-write transaction with the world that `current` chooses.
    pub(crate) fn begin(
        &self,
        transaction: TransactionId,
        current: impl FnOnce() -> (Version, Arc<World>),
    ) -> ActiveGuard {
        self.boundary.register(transaction, Instant::now(), current)
    }

    /// Begins a reader of the current world.
    pub(crate) fn begin_reader<R>(&self, begin: impl FnOnce() -> (Version, R)) -> (R, ReaderDuty) {
        self.boundary.with_oldest(|oldest| {
            let (version, result) = begin();
            let duty = match oldest {
                Some(oldest) if oldest < version => ReaderDuty::Certified(self.readers.register(|| version)),
                _ => ReaderDuty::None,
            };
            (result, duty)
        })
    }

    /// Registers a version that is held already, for a reader whose snapshot has moved.
    pub(crate) fn register_reader(&self, version: Version) -> SnapshotGuard {
        self.readers.register(|| version)
    }

    /// Whether who only read a snapshot need not be certified as things have come out: nobody who is active began
    /// before, and nobody behind it had an out-edge.
    pub(crate) fn is_harmless(&self, begin: Version, published: impl FnOnce() -> Version) -> bool {
        self.boundary.oldest_or(published) >= begin
            && self.newest_with_out.load(Ordering::Acquire) <= begin.get()
    }

    /// The newest read safe snapshot there is, or, beside a writer with an older snapshot, the one before if somebody is
    /// making the newest; none for the moments in which a transaction is being certified that the boundary has passed.
    /// Does not wait, except for a thread that makes the first one after a time in which nobody asked.
    ///
    /// Cost: an atomic load or two. In the moments behind a publication: the registry's lock. With a bound on its age, or if
    /// nobody has asked lately: the locks, and applying the write sets of those commits behind the boundary that belong to
    /// the snapshot, which are few.
    pub(crate) fn safe(&self, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        if self.is_following() {
            return self.newest.load_full();
        }
        if self.trials.safe_is_newest {
            let world = published.load_full();
            let holds = SafeSnapshot { boundary: world.version(), members: Vec::new() };
            return Some(Arc::new(SafeWorld { world, holds }));
        }
        // Before the pointer: what is found there was made after the first one that made it wanted.
        let wanted = self.wanted.load(Ordering::Acquire);
        if wanted == 0 {
            return self.begin_keeping_up(published);
        }
        if wanted < WANTED_PUBLICATIONS / 2 {
            self.set_wanted(|wanted| (wanted > 0).then_some(WANTED_PUBLICATIONS));
        }
        match self.newest.load_full() {
            Some(ready) if self.is_newest(&ready) => Some(ready),
            // Something has ended just now, or the clock can move the boundary, and nobody does it.
            Some(ready) => self.published_if_safe(published).or_else(|| match self.making.try_lock() {
                Some(making) if self.is_bounded() => self.make_one(making, published),
                Some(making) => self.make_one(making, published).or(Some(ready)),
                // Another one may have been made since that was looked at.
                None => self.newest.load_full().or(Some(ready)),
            }),
            None => self.make_one(self.making.lock(), published),
        }
    }

    /// The published world, if nobody is active whose snapshot is older: then it is safe as it is, whatever comes.
    fn published_if_safe(&self, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        let (world, is_safe) = self.boundary.with_oldest(|oldest| {
            let world = published.load_full();
            let is_safe = oldest.is_none_or(|oldest| oldest >= world.version());
            (world, is_safe)
        });
        let holds = SafeSnapshot { boundary: world.version(), members: Vec::new() };
        is_safe.then(|| Arc::new(SafeWorld { world, holds }))
    }

    /// The newest one, for callers that need exactly that one, or that only look at it.
    pub(crate) fn current(&self, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        if self.is_following() {
            return self.newest.load_full();
        }
        if let Some(safe) = self.newest.load_full().filter(|safe| self.is_newest(safe)) {
            return Some(safe);
        }
        self.make_one(self.making.lock(), published)
    }

    /// Makes a safe world, and has new ones made from now on.
    fn begin_keeping_up(&self, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        let making = self.making.lock();
        let made = self.make(published);
        // Only now: a reader that finds safe worlds wanted takes the stored one. What ended since it was made is found by looking again.
        self.set_wanted(|_| Some(WANTED_PUBLICATIONS));
        self.give_back(making, made, published)
    }

    fn make_one(&self, making: MutexGuard<'_, ()>, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        let made = self.make(published);
        self.give_back(making, made, published)
    }

    /// Gives back the lock, and looks again: others have left to its holder what they ended meanwhile.
    fn give_back(
        &self,
        making: MutexGuard<'_, ()>,
        made: Made,
        published: &ArcSwap<World>,
    ) -> Option<Arc<SafeWorld>> {
        drop(making);
        drop(made.replaced);
        drop(self.keep_up(published));
        made.newest
    }

    /// Changes for how long it is kept up.
    fn set_wanted(&self, change: impl FnMut(u64) -> Option<u64>) -> bool {
        self.wanted.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).is_ok()
    }

    /// Called when the boundary may have moved, or when a maker has released the lock: if safe worlds are wanted, makes a new one until
    /// it is the newest, unless another thread is doing that. Returns a world that was replaced.
    #[must_use = "dropping the last reference to a world may take long"]
    pub(crate) fn keep_up(&self, published: &ArcSwap<World>) -> Option<Arc<SafeWorld>> {
        let mut replaced = None;
        loop {
            // Either who makes one sees what was done before, or it is seen here that nobody does; and either who begins
            // to want one sees it, or it is seen here that one is wanted.
            fence(Ordering::SeqCst);
            let is_wanted = self.wanted.load(Ordering::Relaxed) > 0;
            if !is_wanted || self.newest.load().as_ref().is_some_and(|newest| self.is_newest(newest)) {
                return replaced;
            }
            let Some(making) = self.making.try_lock() else { return replaced };
            let made = self.make(published);
            drop(making);
            replaced = replaced.or(made.replaced);
            if !made.is_new {
                return replaced;
            }
        }
    }

    /// Somebody makes a safe world while this runs.
    #[cfg(test)]
    pub(crate) fn while_making<R>(&self, published: &ArcSwap<World>, run: impl FnOnce() -> R) -> R {
        let making = self.making.lock();
        let result = run();
        drop(self.make_one(making, published));
        result
    }

    /// Whether nobody who asked now would get a newer one.
    #[inline]
    fn is_newest(&self, safe: &SafeWorld) -> bool {
        let published = Version::new(self.published.load(Ordering::Acquire));
        // With a bound on its age, the clock can move the boundary.
        self.boundary.rests_at(safe.holds.boundary, published) && !self.is_bounded()
    }

    fn is_bounded(&self) -> bool {
        self.lag_max_micros.load(Ordering::Relaxed) != NO_BOUND
    }

    /// Moves the boundary, and makes its safe world if it has moved. By who holds `making`.
    fn make(&self, published: &ArcSwap<World>) -> Made {
        let mut safe = self.safe.lock();
        let newest = || {
            let world = published.load_full();
            (world.version(), world)
        };
        let (boundary, world) = match self.boundary.advance(Instant::now(), self.lag_max(), newest) {
            Some(Moved { boundary, world }) => (boundary, world),
            None => {
                let boundary = self.boundary.version();
                let made = self.newest.load_full();
                if let Some(made) = made.filter(|made| made.holds.boundary == boundary) {
                    return Made { newest: Some(made), is_new: false, replaced: None };
                }
                let world = published.load_full();
                if world.version() != boundary {
                    return Made { newest: None, is_new: false, replaced: None };
                }
                (boundary, world)
            }
        };
        let started = Instant::now();
        let holds = safe.snapshots.advance(boundary);
        safe.boundary_commits = world.commits();
        safe.members = holds.members.len() as u64;
        let made = Arc::new(SafeWorld { world: with_members(world, &holds), holds });
        let replaced = self.newest.swap(Some(Arc::clone(&made)));
        self.counters.made(started.elapsed());
        Made { newest: Some(made), is_new: true, replaced }
    }

    /// The safe snapshot of a boundary that has reached what `deferral` says. Blocks the thread while somebody holds the
    /// boundary before, and makes nobody else wait. Once `check_running` fails, commits have stopped, and it waits for nothing.
    ///
    /// # Errors
    /// [`DeferralError`].
    pub(crate) fn deferred(
        &self,
        published: &ArcSwap<World>,
        deferral: Deferral,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
        check_running: impl Fn() -> Result<(), StoreError>,
    ) -> Result<Arc<SafeWorld>, DeferralError> {
        loop {
            if let Some(safe) = self.newest.load_full().filter(|_| self.is_following()) {
                // Whoever follows cannot know what is current where commits are made.
                return Ok(safe);
            }
            let safe = self.current(published).filter(|safe| deferral.is_over(safe.boundary()));
            if let Some(safe) = safe {
                return Ok(safe);
            }
            check_running()?;
            if interrupt.is_some_and(Interrupt::is_set) {
                return Err(DeferralError::Interrupted);
            }
            match self.boundary.wait_while_held(deferral.version(), self.lag_max(), interrupt) {
                HeldBack::Was => {}
                // One that was passed is being certified further on, and holds the boundary still until it has ended.
                HeldBack::No => std::thread::sleep(CERTIFICATION_LOOK),
            }
        }
    }

    /// How many wait in [`deferred`](Self::deferred).
    pub(crate) fn deferred_count(&self) -> usize {
        self.boundary.waiting_count()
    }

    /// A world of this version was published: one less with which a safe world is made. If none is made any more, gives up
    /// what lies ready once the next one who asks gets a newer one: the caller lets go of it where that may take long.
    #[must_use = "dropping the last reference to a world takes long"]
    pub(crate) fn note_published(&self, published: Version) -> Option<Arc<World>> {
        self.published.store(published.get(), Ordering::Release);
        if self.is_following() {
            return None;
        }
        if self.set_wanted(|wanted| wanted.checked_sub(1)) || self.newest.load().is_none() {
            return None;
        }
        let _safe = self.safe.lock();
        if self.wanted.load(Ordering::Relaxed) > 0 || !self.boundary.would_advance(published) {
            return None;
        }
        self.newest.swap(None).map(|made| Arc::clone(&made.world))
    }

    /// Puts the published world in the place of the safe world that lies ready, if they have the same contents: while nobody
    /// commits no other is made. Returns the old one.
    pub(crate) fn refresh_safe(&self, published: &ArcSwap<World>) -> Option<Arc<World>> {
        let _safe = self.safe.lock();
        let (old, world) = (self.newest.load_full()?, published.load_full());
        let is_published = old.holds.members.is_empty() && old.holds.boundary == world.version();
        if !is_published || Arc::ptr_eq(&old.world, &world) {
            return None;
        }
        self.newest.store(Some(Arc::new(SafeWorld { world, holds: old.holds.clone() })));
        Some(Arc::clone(&old.world))
    }

    /// Where safe snapshots stand.
    pub(crate) fn lag(&self, published: &ArcSwap<World>) -> SnapshotLag {
        drop(self.current(published));
        let safe = self.safe.lock();
        let boundary = match &self.followed {
            Some(_) => self.newest.load().as_ref().map_or(Version::ZERO, |newest| newest.boundary()),
            None => self.boundary.version(),
        };
        let has = safe.boundary_commits + safe.members;
        let newest = published.load();
        let is_behind = newest.version() > boundary;
        // A follower's boundary moves with the log, and not in the registry of its own transactions.
        let fresh = if self.is_following() { safe.put } else { self.boundary.fresh() };
        let age = if is_behind { fresh.elapsed() } else { Duration::ZERO };
        // Members may be published that the world which was just loaded has not yet.
        let commits = newest.commits().saturating_sub(has);
        SnapshotLag { published: newest.version(), boundary, commits, age, holder: self.boundary.holder() }
    }

    /// The oldest snapshot of a read-write transaction, or the published version if that is smaller.
    pub(crate) fn oldest_writer(&self, published: impl FnOnce() -> Version) -> Version {
        self.boundary.oldest_or(published)
    }

    /// The read-write serializable transactions, by snapshot.
    pub(crate) fn active(&self) -> Vec<BoundaryHolder> {
        self.boundary.active()
    }

    /// The highest version whose safe snapshot is final.
    pub(crate) fn final_version(&self, published: impl FnOnce() -> Version) -> Version {
        self.boundary.final_version(published)
    }

    /// Bounds how long a transaction may hold the boundary back.
    pub(crate) fn set_lag_max(&self, lag_max: Option<Duration>) {
        let micros = lag_max.map_or(NO_BOUND, |lag| u64::try_from(lag.as_micros()).unwrap_or(NO_BOUND));
        self.lag_max_micros.store(micros, Ordering::Relaxed);
    }

    /// How long a transaction may hold the boundary back.
    pub(crate) fn lag_max(&self) -> Option<Duration> {
        let micros = self.lag_max_micros.load(Ordering::Relaxed);
        (micros != NO_BOUND).then(|| Duration::from_micros(micros))
    }

    /// The bounds for what certification may forget: of everyone who is certified, and of those who write.
    fn oldest(&self, published: impl Fn() -> Version) -> (Version, Version) {
        let writers = self.boundary.oldest_or(&published);
        (self.readers.oldest_or(&published).min(writers), writers)
    }

    /// Notes a commit that had an out-edge, and whose write set keeps so many bytes.
    fn note_out_edge(&self, commit: Member<Arc<WriteSet>>, bytes: usize, published: Version) {
        self.newest_with_out.store(commit.order.version.get(), Ordering::Release);
        let mut safe = self.safe.lock();
        safe.snapshots.note_commit(commit);
        safe.snapshots.note_bytes(bytes);
        safe.snapshots.review(published, |first, end| self.boundary.may_rest_in(first, end));
    }
}

/// The boundary's world with the write sets of the commits behind it that belong to the snapshot.
///
/// They fit there: each began below the boundary, so whatever it relied on (the owner of a key, a definition) nobody
/// changed up to its commit, and the boundary lies in between.
pub(crate) fn with_members(world: Arc<World>, holds: &SafeSnapshot<Arc<WriteSet>>) -> Arc<World> {
    if holds.members.is_empty() {
        return world;
    }
    let mut world = World::clone(&world);
    for member in &holds.members {
        for (_, writes) in &member.writes.tables {
            world.update_table(writes.table, |table| table.apply(writes, None));
        }
        if !member.writes.epochs.is_empty() {
            world.add_epochs(&member.writes.epochs);
        }
    }
    Arc::new(world)
}
