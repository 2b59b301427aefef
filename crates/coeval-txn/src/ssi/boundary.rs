// SPDX-License-Identifier: Apache-2.0
//! The active read-write serializable transactions, and the boundary of safe snapshots that they hold back.
//!
//! # Terms
//!
//! The *boundary* is the smallest snapshot of any active read-write serializable transaction, or the
//! published version if there is none. Nobody who is active or begins later can have an antidependency to a
//! commit at or below it. It never moves back.
//!
//! A transaction is active until its batch is *published* or it has been given up. So whoever stands beyond
//! the boundary with an out-edge at or below it is published: it began below the boundary. One whose batch was certified
//! and never will be published, because commits have stopped, has not been given up: its guard is kept for good.
//!
//! # Bounded age
//!
//! The boundary may pass a transaction that has been running for longer than a bound. Certification then
//! refuses it if its first out-edge is at or below the boundary, which must not move in between: from
//! [`BoundaryGuard::enter_certification`] on, the transaction holds the boundary where it is.
//!
//! | state | holds the boundary at | may be passed |
//! |---|---|---|
//! | running | its snapshot | once it is old enough |
//! | passed | nothing | - |
//! | certifying | its snapshot, or where the boundary was when it entered | no |

mod waits;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
pub use waits::HeldBack;
use waits::Waiting;

use crate::{TransactionId, Version};

/// The registry of active read-write serializable transactions. A clone is another handle to the same one.
///
/// `W` is what comes with a version: the world itself, so that the boundary's world is at hand when it moves.
///
/// Declared read-only transactions and blind writers are not here: they do not hold the boundary back.
pub struct Boundary<W> {
    /// # Locking
    ///
    /// Guards the registry. A leaf lock: while it is held only the caller's closure runs, which reads an
    /// atomic pointer or registers in [`ActiveSnapshots`](crate::ActiveSnapshots); nothing is held across I/O.
    registry: Arc<Mutex<Registry<W>>>,
    held: Arc<AtomicU64>,
}

struct Registry<W> {
    /// The snapshot of who holds the boundary; [`NOBODY`] if nobody does. Written under the registry's lock, after each
    /// change of who that is; read without.
    held: Arc<AtomicU64>,
    /// By snapshot, then by age in the registry.
    holders: VecDeque<Holder<W>>,
    boundary: Version,
    /// When the boundary's version was known to be the published one.
    fresh: Instant,
    next: u64,
    waiting: Waiting,
}

/// No transaction's snapshot.
const NOBODY: u64 = u64::MAX;

struct Holder<W> {
    begin: Version,
    number: u64,
    transaction: TransactionId,
    since: Instant,
    /// When it took its snapshot: later than `since` if that has moved.
    taken: Instant,
    state: State,
    world: W,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Passed,
    Certifying,
}

/// The boundary has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved<W> {
    /// Where it is now.
    pub boundary: Version,
    /// The world of that version.
    pub world: W,
}

/// An active read-write serializable transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryHolder {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its snapshot.
    pub begin: Version,
    /// Since when it has been active.
    pub since: Instant,
}

impl BoundaryHolder {
    fn of<W>(holder: &Holder<W>) -> Self {
        Self { transaction: holder.transaction, begin: holder.begin, since: holder.since }
    }
}

impl<W: Clone> Boundary<W> {
    /// A registry without transactions, with the boundary at the version that was recovered.
    #[must_use]
    pub fn new(published: Version) -> Self {
        let (holders, waiting) = (VecDeque::new(), Waiting::default());
        let held = Arc::new(AtomicU64::new(NOBODY));
        let (fresh, next) = (Instant::now(), 0);
        let registry =
            Registry { held: Arc::clone(&held), holders, boundary: published, fresh, next, waiting };
        Self { registry: Arc::new(Mutex::new(registry)), held }
    }

    /// Registers a transaction with the version and world that `current` chooses, until the guard is dropped.
    ///
    /// `current` runs under the registry's lock, so the boundary never passes a version that somebody is about
    /// to take. It may register in an [`ActiveSnapshots`](crate::ActiveSnapshots) too, and must not block.
    ///
    /// Cost: an uncontended lock, and a search if a younger snapshot than this is held.
    ///
    /// # Panics
    /// If `current` chooses a version below the boundary: it must be published, or newer.
    pub fn register(
        &self,
        transaction: TransactionId,
        now: Instant,
        current: impl FnOnce() -> (Version, W),
    ) -> BoundaryGuard<W> {
        let mut registry = self.registry.lock();
        let (begin, world) = current();
        assert!(begin >= registry.boundary, "snapshot {begin} is behind the boundary {}", registry.boundary);
        let number = registry.next;
        registry.next += 1;
        let state = State::Running;
        registry.insert(Holder { begin, number, transaction, since: now, taken: now, state, world });
        registry.note_held();
        drop(registry);
        BoundaryGuard {
            registry: Arc::clone(&self.registry),
            begin,
            number,
            has_ended: AtomicBool::new(false),
        }
    }

    /// Moves the boundary to where it may be now, and returns that if it is further than before. Call it when
    /// a batch was published or a transaction has ended.
    ///
    /// `published` runs under the registry's lock and returns the lowest version that a later
    /// [`register`](Self::register) can still choose, with its world. `lag_max` bounds how long a running
    /// transaction may hold the boundary back; `None` is for ever.
    ///
    /// Cost: a step for each transaction that the boundary passes or has passed.
    pub fn advance(
        &self,
        now: Instant,
        lag_max: Option<Duration>,
        published: impl FnOnce() -> (Version, W),
    ) -> Option<Moved<W>> {
        let mut registry = self.registry.lock();
        let is_late = |holder: &Holder<W>| {
            holder.state == State::Running
                && lag_max.is_some_and(|max| now.saturating_duration_since(holder.since) > max)
        };
        for holder in
            registry.holders.iter_mut().take_while(|holder| holder.state == State::Passed || is_late(holder))
        {
            holder.state = State::Passed;
        }
        registry.note_held();
        let (published, world) = published();
        let (boundary, fresh, world) = match registry.first_holder() {
            Some(holder) if holder.begin < published => (holder.begin, holder.taken, holder.world.clone()),
            _ => (published, now, world),
        };
        if boundary <= registry.boundary {
            return None;
        }
        registry.boundary = boundary;
        registry.fresh = fresh;
        Some(Moved { boundary, world })
    }

    /// Whether [`advance`](Self::advance) would move the boundary without passing anybody who is late, while
    /// `published` is the published version.
    #[must_use]
    pub fn would_advance(&self, published: Version) -> bool {
        let registry = self.registry.lock();
        let held_at = registry.first_holder().map_or(published, |holder| holder.begin.min(published));
        held_at > registry.boundary
    }

    /// Whether the boundary, once it has come to `version`, would stay there while `published` is the published version
    /// and nobody is passed who is late. An answer of a moment, for who wants to know whether what was made for `version`
    /// is still the newest there can be: whoever has heard of a transaction's end hears of it here.
    ///
    /// Cost: one atomic load; no lock.
    #[must_use]
    #[inline]
    pub fn rests_at(&self, version: Version, published: Version) -> bool {
        self.held.load(Ordering::Acquire).min(published.get()) <= version.get()
    }

    /// Where the boundary is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.registry.lock().boundary
    }

    /// When the boundary's version was the published one for the last time that is known: what was published since
    /// then is all that a safe snapshot lacks.
    #[must_use]
    pub fn fresh(&self) -> Instant {
        let registry = self.registry.lock();
        match registry.first_holder() {
            Some(holder) if holder.begin == registry.boundary => registry.fresh.max(holder.taken),
            _ => registry.fresh,
        }
    }

    /// Who holds the boundary where it is: the oldest transaction that it has not passed.
    #[must_use]
    pub fn holder(&self) -> Option<BoundaryHolder> {
        self.registry.lock().first_holder().map(BoundaryHolder::of)
    }

    /// All registered transactions, by snapshot. Cost: a step for each, under the registry's lock.
    #[must_use]
    pub fn active(&self) -> Vec<BoundaryHolder> {
        self.registry.lock().holders.iter().map(BoundaryHolder::of).collect()
    }

    /// The version up to which read marks may be forgotten: the oldest snapshot held, by transactions that
    /// the boundary has passed too, or `published` if that is smaller.
    ///
    /// `published` is the lowest version that any later [`register`](Self::register) can still choose; it runs
    /// under the registry's lock. For [`Ssi::prune`](super::Ssi::prune), after the bound for all transactions.
    #[must_use]
    pub fn oldest_or(&self, published: impl FnOnce() -> Version) -> Version {
        let registry = self.registry.lock();
        let published = published();
        registry.holders.front().map_or(published, |oldest| oldest.begin.min(published))
    }

    /// Runs `begin` with the oldest snapshot held, while nobody is added to the registry or taken out of it. For
    /// readers, which take their snapshot there: one that is not behind any snapshot held has no part in an
    /// anomaly, whatever it reads (`README.md`, *Readers that need no marks*).
    ///
    /// `begin` must neither block nor call this registry.
    pub fn with_oldest<R>(&self, begin: impl FnOnce(Option<Version>) -> R) -> R {
        let registry = self.registry.lock();
        begin(registry.holders.front().map(|oldest| oldest.begin))
    }

    /// The highest version whose safe snapshot is final, whatever becomes of the boundary here: nobody who is active or
    /// begins later can have an antidependency to a commit at or below it and still commit. For the log, from which
    /// others make safe snapshots without asking. `published` as in [`oldest_or`](Self::oldest_or).
    #[must_use]
    pub fn final_version(&self, published: impl FnOnce() -> Version) -> Version {
        let registry = self.registry.lock();
        let published = published();
        // One that the boundary has passed may commit with an antidependency to what lies beyond the boundary.
        let held = registry.holders.front().map_or(published, |oldest| oldest.begin.min(published));
        held.max(registry.boundary)
    }

    /// Whether the boundary may yet come to rest in `first..end`: at the snapshot of an active transaction.
    /// Versions from the published one on are not asked for here.
    #[must_use]
    pub fn may_rest_in(&self, first: Version, end: Version) -> bool {
        let registry = self.registry.lock();
        let at = registry.holders.partition_point(|holder| holder.begin < first);
        registry.holders.get(at).is_some_and(|holder| holder.begin < end)
    }

    /// How many transactions are registered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.registry.lock().holders.len()
    }
}

impl<W> Clone for Boundary<W> {
    fn clone(&self) -> Self {
        Self { registry: Arc::clone(&self.registry), held: Arc::clone(&self.held) }
    }
}

impl<W> fmt::Debug for Boundary<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = self.registry.lock();
        formatter
            .debug_struct("Boundary")
            .field("version", &registry.boundary)
            .field("count", &registry.holders.len())
            .finish()
    }
}

impl<W> Registry<W> {
    /// The oldest transaction that holds the boundary. One that certifies behind the boundary holds it where
    /// it is, and as the boundary does not move back, by its snapshot as well.
    fn first_holder(&self) -> Option<&Holder<W>> {
        self.holders.iter().find(|holder| holder.state != State::Passed)
    }

    /// Says to those who look without the lock who holds the boundary.
    fn note_held(&self) {
        let held = self.first_holder().map_or(NOBODY, |holder| holder.begin.get());
        self.held.store(held, Ordering::Release);
    }

    /// Those who no longer wait because somebody has ended or moved: to be woken without the lock.
    fn take_released(&mut self) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let held_at = self.first_holder().map(|holder| holder.begin);
        self.waiting.take_released(held_at)
    }

    fn insert(&mut self, holder: Holder<W>) {
        let key = (holder.begin, holder.number);
        match self.holders.back() {
            Some(newest) if (newest.begin, newest.number) > key => {
                let at = self.holders.partition_point(|other| (other.begin, other.number) < key);
                self.holders.insert(at, holder);
            }
            _ => self.holders.push_back(holder),
        }
    }

    fn position(&self, begin: Version, number: u64) -> usize {
        self.holders
            .binary_search_by_key(&(begin, number), |holder| (holder.begin, holder.number))
            .expect("a guard's transaction stays in the registry until the guard is dropped")
    }
}

/// Keeps a transaction registered as active; [`end`](Self::end) ends that, and so does dropping it.
///
/// Keep it until the batch is published, or the transaction has been refused or rolled back.
///
/// # Locking
/// `has_ended` changes under the registry's lock alone.
#[must_use = "dropping the guard ends the registration"]
pub struct BoundaryGuard<W> {
    registry: Arc<Mutex<Registry<W>>>,
    begin: Version,
    number: u64,
    has_ended: AtomicBool,
}

/// What a registration that has ended leaves behind: to be dropped outside of all locks. It may hold a world that nobody
/// else does, and wakes those who waited for the end.
#[must_use = "it is dropped where that may take long"]
pub struct EndedRegistration<W> {
    _holder: Holder<W>,
    released: Vec<Waker>,
}

impl<W> Drop for EndedRegistration<W> {
    fn drop(&mut self) {
        self.released.drain(..).for_each(Waker::wake);
    }
}

impl<W> BoundaryGuard<W> {
    /// The transaction's snapshot.
    #[must_use]
    pub fn begin(&self) -> Version {
        self.begin
    }

    /// To be called before [`Ssi::certify`](super::Ssi::certify), under the commit lock: the boundary if it has
    /// passed the transaction, which it does not from here on.
    ///
    /// # Panics
    /// If it is called twice.
    pub fn enter_certification(&self) -> Option<Version> {
        let mut registry = self.registry.lock();
        let (boundary, at) = (registry.boundary, registry.position(self.begin, self.number));
        let holder = &mut registry.holders[at];
        let is_passed = holder.state == State::Passed;
        assert!(holder.state != State::Certifying, "a transaction is certified once");
        assert!(is_passed || self.begin >= boundary, "the boundary has passed a transaction that holds it");
        holder.state = State::Certifying;
        registry.note_held();
        is_passed.then_some(boundary)
    }

    /// Moves the transaction's snapshot to `begin`, which is published or newer, with its world. The caller has
    /// checked under the commit lock that nothing it read was overwritten up to there
    /// ([`Ssi::first_overwrite`](super::Ssi::first_overwrite)), and moves it in the registry of all certifying
    /// transactions afterwards. It holds the boundary again if that has not passed the new snapshot, which was taken at
    /// `now`.
    ///
    /// # Panics
    /// If that version is older than the snapshot, or the transaction is being certified. The registry is as before
    /// then.
    pub fn refresh(&mut self, begin: Version, world: W, now: Instant) {
        assert!(begin >= self.begin, "a snapshot moves forward");
        let (old, released) = {
            let mut registry = self.registry.lock();
            let at = registry.position(self.begin, self.number);
            let is_certifying = registry.holders[at].state == State::Certifying;
            assert!(!is_certifying, "a transaction is refreshed before it is certified");
            let old = registry.holders.remove(at).expect("the position was just found");
            let state = if begin < registry.boundary { State::Passed } else { State::Running };
            let Holder { number, transaction, since, .. } = old;
            registry.insert(Holder { begin, number, transaction, since, taken: now, state, world });
            registry.note_held();
            self.begin = begin;
            (old.world, registry.take_released())
        };
        // The world is let go outside of the lock: it may be its last holder.
        drop(old);
        released.into_iter().for_each(Waker::wake);
    }
}

impl<W> BoundaryGuard<W> {
    /// Ends the registration, whoever else holds the guard; nothing if it has ended before. The registry is held for
    /// moments, and what takes longer is left to the caller.
    pub fn end(&self) -> Option<EndedRegistration<W>> {
        let mut registry = self.registry.lock();
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return None;
        }
        let at = registry.position(self.begin, self.number);
        let holder = registry.holders.remove(at)?;
        registry.note_held();
        Some(EndedRegistration { _holder: holder, released: registry.take_released() })
    }
}

impl<W> Drop for BoundaryGuard<W> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl<W> fmt::Debug for BoundaryGuard<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("BoundaryGuard").field(&self.begin).finish()
    }
}
