// SPDX-License-Identifier: Apache-2.0
//! The two atomic pointers of the commit pipeline, and the registries that decide what may be read, in every
//! interleaving of two or three threads.
//!
//! The registries are coeval-txn's own code, compiled with loom's locks. The steps around them are those of
//! `coeval-store/src/{pipeline,publishing,serializable,shared}.rs` with worlds that are numbers: a world is a cell that
//! is written once, before a pointer to it is stored, so loom sees whoever reads it without the store having come first.
//!
//! ```text
//! commit    certify, note the out-edge -> write the world -> store the pointer -> end the registration
//! begin     under the registry's lock: load the pointer, register what it points to
//! read      under the safe lock: move the boundary, choose members; each must be published
//! keep up   behind a publication or another end: look whether what lies ready is the newest; if not, and nobody is making
//!           one, make it (the same as above; write the safe world, store the pointer to it), and look again
//! take      load that pointer; if it does not lead to the newest, and nobody older is active, the published world
//! told      a commit is acknowledged behind the end of its registration, before the safe world is kept up
//! ```
//!
//! Each step out of its order, and the pointer's store without its ordering, is seen to fail.

use coeval_txn::ssi::{Boundary, BoundaryGuard, Member, SafeSnapshots};
use coeval_txn::{CommitOrder, TransactionId, Version};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::time::Instant;

/// What a test breaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The pointer is stored without releasing what it points to.
    RelaxedPublication,
    /// A registration ends before its transaction is published.
    EndsBeforePublication,
    /// A snapshot is taken before it is registered.
    RegistersAfterLoad,
    /// The pointer to the safe world is stored without releasing what it points to.
    RelaxedSafeWorld,
    /// Who has made a safe world does not look again.
    LooksOnce,
    /// Who rolls back leaves the safe world as it is.
    EndsSilently,
    /// A commit is acknowledged while its transaction is still registered.
    TellsEarly,
    /// Readers take what lies ready without a look.
    ReadsBlindly,
}

const VERSIONS: usize = 4;

struct Store {
    fault: Fault,
    /// World `v` says `v`, and each points to its own cell.
    worlds: [UnsafeCell<usize>; VERSIONS],
    published: AtomicUsize,
    boundary: Boundary<()>,
    /// Held while one leads.
    leader: Mutex<()>,
    making: Mutex<()>,
    safe: Mutex<SafeSnapshots<()>>,
    /// Safe world `b` says `b`.
    safe_worlds: [UnsafeCell<usize>; VERSIONS],
    newest_safe: AtomicUsize,
    /// The newest version whose committer was told.
    acknowledged: AtomicUsize,
}

fn version(number: usize) -> Version {
    Version::new(number as u64)
}

impl Store {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            worlds: std::array::from_fn(|_| UnsafeCell::new(0)),
            published: AtomicUsize::new(0),
            boundary: Boundary::new(Version::ZERO),
            leader: Mutex::new(()),
            making: Mutex::new(()),
            safe: Mutex::new(SafeSnapshots::new(Version::ZERO)),
            safe_worlds: std::array::from_fn(|_| UnsafeCell::new(0)),
            newest_safe: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
        }
    }

    /// Follows the pointer.
    fn load(&self) -> usize {
        let number = self.published.load(Ordering::Acquire);
        // SAFETY: loom checks that nobody writes the cell meanwhile; it was written before the pointer to it was stored.
        let world = self.worlds[number].with(|world| unsafe { *world });
        assert_eq!(world, number, "a world that is read is finished");
        number
    }

    fn begin(&self, transaction: u64) -> BoundaryGuard<()> {
        let id = TransactionId::new(transaction);
        if self.fault == Fault::RegistersAfterLoad {
            let taken = version(self.load());
            return self.boundary.register(id, Instant::now(), || (taken, ()));
        }
        self.boundary.register(id, Instant::now(), || (version(self.load()), ()))
    }

    /// Commits a transaction whose first out-edge leads to `first_out`, and ends its registration.
    fn commit(&self, transaction: u64, guard: BoundaryGuard<()>, first_out: Option<usize>) {
        let _leader = self.leader.lock().unwrap();
        let next = self.published.load(Ordering::Relaxed) + 1;
        assert!(guard.enter_certification().is_none(), "nobody runs for longer than a bound here");
        let order = CommitOrder { version: version(next), position: 0 };
        if let Some(first_out) = first_out {
            let first_out = CommitOrder { version: version(first_out), position: 0 };
            let transaction = TransactionId::new(transaction);
            self.safe.lock().unwrap().note_commit(Member { order, transaction, first_out, writes: () });
        }
        let mut guard = Some(guard);
        if self.fault == Fault::EndsBeforePublication {
            guard = None;
        }
        // SAFETY: loom checks that nobody reads the cell meanwhile; only the leader writes, and each cell once.
        self.worlds[next].with_mut(|world| unsafe { *world = next });
        let ordering =
            if self.fault == Fault::RelaxedPublication { Ordering::Relaxed } else { Ordering::Release };
        self.published.store(next, ordering);
        if self.fault == Fault::TellsEarly {
            self.acknowledged.store(next, Ordering::Release);
        }
        drop(guard);
        self.acknowledged.store(next, Ordering::Release);
    }

    /// Gives a transaction up.
    fn roll_back(&self, guard: BoundaryGuard<()>) {
        drop(guard);
        if self.fault != Fault::EndsSilently {
            self.keep_up();
        }
    }

    /// Makes the safe world anew until it is the newest; leaves it to who is at it.
    fn keep_up(&self) {
        loop {
            fence(Ordering::SeqCst);
            let ready = version(self.newest_safe.load(Ordering::Acquire));
            let published = version(self.published.load(Ordering::Acquire));
            if self.boundary.rests_at(ready, published) {
                return;
            }
            let Ok(making) = self.making.try_lock() else { return };
            let is_new = self.make();
            drop(making);
            if !is_new || self.fault == Fault::LooksOnce {
                return;
            }
        }
    }

    /// Makes the safe world anew, if the boundary has moved. Says whether it has.
    fn make(&self) -> bool {
        let mut safe = self.safe.lock().unwrap();
        self.boundary.advance(Instant::now(), None, || (version(self.load()), ()));
        let boundary = self.boundary.version();
        let is_new = safe.boundary() < boundary;
        drop(safe.advance(boundary));
        if is_new {
            let made = boundary.get() as usize;
            // SAFETY: loom checks that nobody reads the cell meanwhile; a boundary comes once, under the lock.
            self.safe_worlds[made].with_mut(|world| unsafe { *world = made });
            let is_relaxed = self.fault == Fault::RelaxedSafeWorld;
            let ordering = if is_relaxed { Ordering::Relaxed } else { Ordering::Release };
            self.newest_safe.store(made, ordering);
        }
        is_new
    }

    /// Takes the safe world that lies ready.
    fn take_safe(&self) -> usize {
        let ready = self.newest_safe.load(Ordering::Acquire);
        // SAFETY: loom checks that nobody writes the cell meanwhile; it was written before the pointer to it was stored.
        let world = self.safe_worlds[ready].with(|world| unsafe { *world });
        assert_eq!(world, ready, "a safe world that is taken is finished");
        ready
    }

    /// A reader of the newest safe snapshot there is; returns its version.
    fn begin_safe(&self) -> usize {
        let ready = self.take_safe();
        let published = version(self.published.load(Ordering::Acquire));
        if self.fault == Fault::ReadsBlindly || self.boundary.rests_at(version(ready), published) {
            return ready;
        }
        let alone = self.boundary.with_oldest(|oldest| {
            let world = self.load();
            oldest.is_none_or(|oldest| oldest >= version(world)).then_some(world)
        });
        alone.unwrap_or_else(|| {
            if let Ok(_making) = self.making.try_lock() {
                self.make();
            }
            self.take_safe()
        })
    }

    /// A reader on a safe snapshot; returns the boundary.
    fn read_safe(&self) -> Version {
        let mut safe = self.safe.lock().unwrap();
        self.boundary.advance(Instant::now(), None, || (version(self.load()), ()));
        let snapshot = safe.advance(self.boundary.version());
        let published = version(self.load());
        assert!(snapshot.boundary <= published, "the boundary is published");
        for member in &snapshot.members {
            assert!(member.order.version <= published, "what belongs to a safe snapshot is published");
        }
        snapshot.boundary
    }
}

/// Runs a model with at most three switches away from a thread that could go on: enough for each fault.
fn in_every_order(fault: Fault, run: fn(Arc<Store>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || run(Arc::new(Store::new(fault))));
}

/// One commits what the other has read; both have the same snapshot. A reader looks twice meanwhile.
fn an_out_edge_beside_a_reader(store: Arc<Store>) {
    let (first, second) = (store.begin(1), store.begin(2));
    let writers = Arc::clone(&store);
    let writers = thread::spawn(move || {
        writers.commit(1, first, None);
        writers.commit(2, second, Some(1));
    });
    let boundary = store.read_safe();
    assert!(store.read_safe() >= boundary, "the boundary does not move back");
    writers.join().unwrap();
    assert_eq!(store.read_safe(), version(2));
}

/// One commits, one begins and looks whether the boundary has passed it, one moves the boundary.
fn a_beginning_beside_a_commit(store: Arc<Store>) {
    let first = store.begin(1);
    let (committer, beginner) = (Arc::clone(&store), Arc::clone(&store));
    let committer = thread::spawn(move || committer.commit(1, first, None));
    let beginner = thread::spawn(move || {
        let guard = beginner.begin(2);
        assert!(guard.begin() >= beginner.boundary.version(), "the boundary waits for who is active");
        drop(guard);
    });
    store.read_safe();
    committer.join().unwrap();
    beginner.join().unwrap();
}

/// One commits, one who holds the boundary rolls back, and each keeps the safe world up; a reader takes it twice meanwhile,
/// and once behind both.
fn a_reader_beside_two_who_end(store: Arc<Store>) {
    let (first, held) = (store.begin(1), store.begin(2));
    let (writer, holder) = (Arc::clone(&store), Arc::clone(&store));
    let writer = thread::spawn(move || {
        writer.commit(1, first, None);
        writer.keep_up();
    });
    let holder = thread::spawn(move || holder.roll_back(held));
    // Loom looks at orders in which what was published is taken only if it is told to.
    thread::yield_now();
    let taken = store.take_safe();
    assert!(store.take_safe() >= taken, "safe snapshots do not go back");
    writer.join().unwrap();
    holder.join().unwrap();
    assert_eq!(store.take_safe(), 1, "what lies ready is the newest");
}

/// Two begin, commit, and keep the safe world up.
fn two_who_commit(store: Arc<Store>) {
    let run = |transaction| {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            store.commit(transaction, store.begin(transaction), None);
            store.keep_up();
        })
    };
    let (first, second) = (run(1), run(2));
    first.join().unwrap();
    second.join().unwrap();
    assert_eq!(store.take_safe(), 2, "what lies ready is the newest");
}

/// Two commit, neither of which began before the other's commit; one who has heard of a commit reads.
fn a_reader_behind_an_acknowledgement(store: Arc<Store>) {
    let writer = Arc::clone(&store);
    let writer = thread::spawn(move || {
        for transaction in [1, 2] {
            writer.commit(transaction, writer.begin(transaction), None);
            writer.keep_up();
        }
    });
    for _ in 0..2 {
        thread::yield_now();
        let told = store.acknowledged.load(Ordering::Acquire);
        // Who begins behind it has a snapshot that is not older than it.
        assert!(store.begin_safe() >= told, "what was acknowledged is read");
    }
    writer.join().unwrap();
}

#[test]
fn who_begins_behind_an_acknowledgement_reads_what_was_acknowledged() {
    in_every_order(Fault::None, a_reader_behind_an_acknowledgement);
}

#[test]
#[should_panic(expected = "what was acknowledged is read")]
fn a_commit_that_is_acknowledged_while_it_is_registered_is_missed() {
    in_every_order(Fault::TellsEarly, a_reader_behind_an_acknowledgement);
}

#[test]
#[should_panic(expected = "what was acknowledged is read")]
fn a_reader_that_takes_what_lies_ready_misses_what_was_acknowledged_a_moment_ago() {
    in_every_order(Fault::ReadsBlindly, a_reader_behind_an_acknowledgement);
}

#[test]
fn the_safe_world_that_lies_ready_is_finished_and_the_newest() {
    in_every_order(Fault::None, a_reader_beside_two_who_end);
    in_every_order(Fault::None, two_who_commit);
}

#[test]
#[should_panic(expected = "what lies ready is the newest")]
fn without_a_second_look_who_found_the_lock_taken_is_forgotten() {
    in_every_order(Fault::LooksOnce, two_who_commit);
}

#[test]
#[should_panic(expected = "what lies ready is the newest")]
fn without_a_look_at_a_rollback_what_it_held_back_is_forgotten() {
    in_every_order(Fault::EndsSilently, a_reader_beside_two_who_end);
}

#[test]
#[should_panic]
fn a_pointer_to_the_safe_world_that_is_stored_without_release_shows_unfinished_ones() {
    in_every_order(Fault::RelaxedSafeWorld, a_reader_beside_two_who_end);
}

#[test]
fn members_of_safe_snapshots_are_published_and_worlds_finished() {
    in_every_order(Fault::None, an_out_edge_beside_a_reader);
}

#[test]
fn nobody_begins_behind_the_boundary() {
    in_every_order(Fault::None, a_beginning_beside_a_commit);
}

#[test]
#[should_panic]
fn a_pointer_that_is_stored_without_release_shows_unfinished_worlds() {
    in_every_order(Fault::RelaxedPublication, an_out_edge_beside_a_reader);
}

#[test]
#[should_panic(expected = "what belongs to a safe snapshot is published")]
fn a_registration_that_ends_too_early_gives_away_what_is_not_published() {
    in_every_order(Fault::EndsBeforePublication, an_out_edge_beside_a_reader);
}

#[test]
#[should_panic]
fn a_snapshot_that_is_registered_late_is_behind_the_boundary() {
    in_every_order(Fault::RegistersAfterLoad, a_beginning_beside_a_commit);
}
