// SPDX-License-Identifier: Apache-2.0
//! All row locks of a store, divided by the hash of their keys.

use super::deadlock::{BetterOrder, Deadlock, WaitGraph};
use super::entry::Entry;
use super::owner::LockOwner;
use super::owner_id::OwnerId;
use super::strength::LockStrength;
use super::turn::{Turn, Woken};
use hashbrown::hash_table::Entry as TableEntry;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// More than the threads that take locks at the same moment, so that two seldom meet; few enough that the
/// search for deadlocks locks all of them in a microsecond or two.
const SHARDS: usize = 64;

const _: () = assert!(SHARDS.is_power_of_two(), "a shard is chosen by bits of the hash");

/// A shard that is empty gives its memory back from this size on: less is not worth the moves.
const SHRINK_CAPACITY_MIN: usize = 1_024;

/// The locks of a key, found by key.
pub(super) struct Slot<K> {
    pub(super) hash: KeyHash,
    pub(super) key: K,
    pub(super) entry: Entry,
}

/// A key's hash, kept so that it is made once for a lock's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    pub(super) fn number(self) -> u64 {
        self.0
    }

    /// The hash table takes the low bits and the highest seven; the bits between choose the shard.
    pub(super) fn shard(self) -> usize {
        (self.0 >> 40) as usize % SHARDS
    }
}

pub(super) type Shard<K> = HashTable<Slot<K>>;

/// Each shard has cache lines of its own.
#[repr(align(128))]
struct Padded<T>(T);

/// Who waits, and for which key: an owner waits for one at a time.
pub(super) struct Wait<K> {
    pub(super) hash: KeyHash,
    pub(super) key: K,
    /// Which of the waits began first.
    pub(super) arrival: u64,
}

pub(super) struct Waits<K> {
    pub(super) by_owner: HashMap<OwnerId, Wait<K>>,
    next_arrival: u64,
    /// The order of queues closed a circle while there was a deadlock elsewhere: to be looked at when a request is
    /// taken back.
    is_order_left: bool,
    searches: DeadlockSearches,
}

/// How often deadlocks were looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlockSearches {
    /// Waits of owners that hold something, each looked at once.
    pub looks: u64,
    /// Those of them behind which all waits were looked at, because the holders alone left a circle possible.
    pub walks: u64,
}

/// All row locks of a store. A key is opaque: `Clone + Eq + Hash`.
///
/// # Locking
/// Shards in ascending order, then `waits`. Taking and ending a lock hold one shard; `waits` is taken by those
/// who wait or end a wait; the search for deadlocks holds everything. Nobody is woken under any of them.
pub struct RowLocks<K> {
    shards: Box<[Padded<Mutex<Shard<K>>>]>,
    hasher: DefaultHashBuilder,
    waits: Mutex<Waits<K>>,
    next_owner: Padded<AtomicU64>,
    /// How many keys are locked.
    key_count: Padded<AtomicUsize>,
}

/// What became of a request that was made to the table.
#[derive(Debug)]
pub(super) enum Answer {
    /// The owner holds as much already.
    Held,
    /// Granted; before, the owner held this.
    Granted(Option<LockStrength>),
    /// It conflicts, and was not queued.
    Busy,
    /// It is queued; at present the owner holds this.
    Queued(Arc<Turn>, Option<LockStrength>),
}

/// Whether a request that conflicts is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfBusy {
    Refuse,
    Queue,
}

/// A lock as it is shown to people: see [`RowLocks::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockListing<K> {
    /// What is locked.
    pub key: K,
    /// By whom.
    pub owner: OwnerId,
    /// How.
    pub strength: LockStrength,
    /// Whether it is there yet.
    pub state: LockState,
}

/// Whether a lock is there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Held.
    Granted,
    /// Waited for.
    Waiting,
}

impl<K: Clone + Eq + Hash> RowLocks<K> {
    /// No locks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Padded(Mutex::new(HashTable::new()))).collect(),
            hasher: DefaultHashBuilder::default(),
            waits: Mutex::new(Waits {
                by_owner: HashMap::new(),
                next_arrival: 0,
                is_order_left: false,
                searches: DeadlockSearches::default(),
            }),
            next_owner: Padded(AtomicU64::new(1)),
            key_count: Padded(AtomicUsize::new(0)),
        }
    }

    /// An owner without locks. Costs an atomic addition.
    #[must_use]
    pub fn owner(self: &Arc<Self>) -> LockOwner<K> {
        self.owner_of(None)
    }

    /// The same, of a session by its number, for views that show who holds and who waits.
    #[must_use]
    pub fn owner_of(self: &Arc<Self>, session: Option<i32>) -> LockOwner<K> {
        let id = OwnerId { number: self.next_owner.0.fetch_add(1, Ordering::Relaxed), session };
        LockOwner::new(Arc::clone(self), id)
    }

    /// Every lock that is held or waited for, each shard as it is at one moment: those of a key one behind the other, who waits
    /// in the order of the queue. For views: it holds up those
    /// who take locks meanwhile.
    #[must_use]
    pub fn list(&self) -> Vec<LockListing<K>> {
        let mut list = Vec::new();
        for shard in &self.shards {
            for Slot { key, entry, .. } in shard.0.lock().iter() {
                let mut push = |owner, strength, state| {
                    list.push(LockListing { key: key.clone(), owner, strength, state });
                };
                entry.holders().iter().for_each(|held| push(held.owner, held.strength, LockState::Granted));
                entry.queue().for_each(|waiter| push(waiter.owner, waiter.strength, LockState::Waiting));
            }
        }
        list
    }

    /// Whether a request of this owner, or of one without locks, would not be granted now.
    #[must_use]
    pub fn is_busy(&self, owner: Option<OwnerId>, key: &K, strength: LockStrength) -> bool {
        let hash = self.hash(key);
        let shard = self.shard(hash);
        let slot = shard.find(hash.0, |slot| slot.hash == hash && slot.key == *key);
        // Numbers of owners begin with one.
        let owner = owner.unwrap_or(OwnerId { number: 0, session: None });
        slot.is_some_and(|slot| {
            slot.entry.held_by(owner) < Some(strength) && !slot.entry.admits(owner, strength)
        })
    }

    /// Whether anybody holds a lock; whoever takes one at this very moment may be missed.
    #[inline]
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.key_count.0.load(Ordering::Relaxed) > 0
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.waits.lock().by_owner.len()
    }

    /// How often deadlocks were looked for since it was made.
    #[must_use]
    pub fn deadlock_searches(&self) -> DeadlockSearches {
        self.waits.lock().searches
    }

    #[inline]
    pub(super) fn hash(&self, key: &K) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    #[inline]
    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard<K>> {
        self.shards[hash.shard()].0.lock()
    }

    /// Asks for a lock.
    #[inline]
    pub(super) fn request(
        &self,
        owner: OwnerId,
        (hash, key): (KeyHash, &K),
        strength: LockStrength,
        if_busy: IfBusy,
    ) -> Answer {
        let mut shard = self.shard(hash);
        let is_key = |slot: &Slot<K>| slot.hash == hash && slot.key == *key;
        let mut occupied = match shard.entry(hash.0, is_key, |slot| slot.hash.0) {
            TableEntry::Vacant(vacant) => {
                let mut entry = Entry::default();
                entry.grant(owner, strength);
                vacant.insert(Slot { hash, key: key.clone(), entry });
                self.key_count.0.fetch_add(1, Ordering::Relaxed);
                return Answer::Granted(None);
            }
            TableEntry::Occupied(occupied) => occupied,
        };
        let entry = &mut occupied.get_mut().entry;
        let before = entry.held_by(owner);
        if before >= Some(strength) {
            return Answer::Held;
        }
        if entry.admits(owner, strength) {
            entry.grant(owner, strength);
            return Answer::Granted(before);
        }
        if if_busy == IfBusy::Refuse {
            return Answer::Busy;
        }
        let turn = Arc::new(Turn::default());
        entry.enqueue(owner, strength, Arc::clone(&turn));
        self.waits.lock().begin(owner, hash, key);
        Answer::Queued(turn, before)
    }

    /// Ends a lock, or makes it what it was before; those who can go on then do.
    #[inline]
    pub(super) fn release(
        &self,
        owner: OwnerId,
        (hash, key): (KeyHash, &K),
        before: Option<LockStrength>,
        woken: &mut Woken,
    ) {
        let mut shard = self.shard(hash);
        change((&mut shard, &self.key_count.0), hash, key, |entry| {
            entry.restore(owner, before);
            self.settle(entry, woken);
        });
    }

    /// Takes a request back. Returns false if it was granted meanwhile.
    pub(super) fn withdraw(&self, owner: OwnerId, (hash, key): (KeyHash, &K)) -> bool {
        let mut woken = Woken::default();
        let mut shard = self.shard(hash);
        let mut is_order_left = false;
        let was_waiting = change((&mut shard, &self.key_count.0), hash, key, |entry| {
            let was_waiting = entry.withdraw(owner);
            if was_waiting {
                let mut waits = self.waits.lock();
                drop(waits.end(owner));
                is_order_left = waits.is_order_left;
                drop(waits);
                self.settle(entry, &mut woken);
            }
            was_waiting
        });
        drop(shard);
        if is_order_left {
            let mut shards = self.all_shards();
            let mut waits = self.waits.lock();
            self.mend_order(&mut shards, &mut waits, &mut woken);
        }
        was_waiting
    }

    fn all_shards(&self) -> Vec<MutexGuard<'_, Shard<K>>> {
        self.shards.iter().map(|shard| shard.0.lock()).collect()
    }

    #[inline]
    fn settle(&self, entry: &mut Entry, woken: &mut Woken) {
        if entry.queue().len() > 0 {
            entry.settle(woken, |granted| drop(self.waits.lock().end(granted)));
        }
    }

    /// Looks for a deadlock that this waiting owner is in. If there is one its request is taken back, and the
    /// deadlock returned. If the order of queues makes anybody wait for itself, that is changed.
    pub(super) fn break_deadlock(&self, owner: OwnerId) -> Option<Deadlock<K>> {
        let mut woken = Woken::default();
        let mut shards = self.all_shards();
        let mut waits = self.waits.lock();
        if !waits.by_owner.contains_key(&owner) {
            return None;
        }
        waits.searches.looks += 1;
        if !WaitGraph::may_close_circle(&shards, &waits.by_owner, owner) {
            return None;
        }
        waits.searches.walks += 1;
        let deadlock = WaitGraph::new(&shards, &waits.by_owner).deadlock_of(owner);
        if deadlock.is_some() {
            let Wait { hash, key, .. } = waits.end(owner);
            change((&mut shards[hash.shard()], &self.key_count.0), hash, &key, |entry| {
                assert!(entry.withdraw(owner), "the victim of a deadlock waits");
                entry.settle(&mut woken, |granted| drop(waits.end(granted)));
            });
        }
        self.mend_order(&mut shards, &mut waits, &mut woken);
        deadlock
    }

    /// Changes the order of queues if that makes anybody wait for itself.
    fn mend_order(&self, shards: &mut [MutexGuard<'_, Shard<K>>], waits: &mut Waits<K>, woken: &mut Woken) {
        let order = WaitGraph::new(shards, &waits.by_owner).better_order();
        waits.is_order_left = matches!(order, BetterOrder::Later);
        let BetterOrder::Ranks(ranks) = order else { return };
        let keys: HashMap<_, _> = waits.by_owner.values().map(|wait| (wait.key.clone(), wait.hash)).collect();
        for (key, hash) in keys {
            change((&mut shards[hash.shard()], &self.key_count.0), hash, &key, |entry| {
                entry.reorder(&ranks);
                entry.settle(woken, |granted| drop(waits.end(granted)));
            });
        }
    }
}

impl<K: Clone> Waits<K> {
    fn begin(&mut self, owner: OwnerId, hash: KeyHash, key: &K) {
        let wait = Wait { hash, key: key.clone(), arrival: self.next_arrival };
        self.next_arrival += 1;
        let earlier = self.by_owner.insert(owner, wait);
        assert!(earlier.is_none(), "an owner waits for one key at a time");
    }

    fn end(&mut self, owner: OwnerId) -> Wait<K> {
        self.by_owner.remove(&owner).expect("who is in a queue is in the list of waits")
    }
}

/// Changes the entry of a key, and forgets it if it is not needed any more.
fn change<K: Eq, T>(
    (shard, key_count): (&mut Shard<K>, &AtomicUsize),
    hash: KeyHash,
    key: &K,
    change: impl FnOnce(&mut Entry) -> T,
) -> T {
    let is_key = |slot: &Slot<K>| slot.hash == hash && slot.key == *key;
    let Ok(mut occupied) = shard.find_entry(hash.0, is_key) else {
        unreachable!("a key that is locked or waited for has an entry");
    };
    let entry = &mut occupied.get_mut().entry;
    let outcome = change(entry);
    if entry.is_unused() {
        occupied.remove();
        key_count.fetch_sub(1, Ordering::Relaxed);
        if shard.is_empty() && shard.capacity() > SHRINK_CAPACITY_MIN {
            shard.shrink_to(SHRINK_CAPACITY_MIN / 2, |slot| slot.hash.0);
        }
    }
    outcome
}

impl<K> fmt::Debug for RowLocks<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: usize = self.shards.iter().map(|shard| shard.0.lock().len()).sum();
        formatter.debug_struct("RowLocks").field("keys", &keys).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> Default for RowLocks<K> {
    fn default() -> Self {
        Self::new()
    }
}
