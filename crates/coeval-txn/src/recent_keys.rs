// SPDX-License-Identifier: Apache-2.0
//! The keys that recent commits accessed, found by key and forgotten by age.
//!
//! Each key has one entry with the latest commit of each [`Access`]. That is enough: certification asks
//! "was there one after my snapshot", and the latest answers for all.
//!
//! ```text
//! index (hash, place)          entries (dense)               ages
//!   [ . 2 . 0 . 1 . ]   ->   0: key b, marks, links    oldest  1 <-> 0 <-> 2  newest
//!                            1: key a, marks, links
//!                            2: key c, marks, links
//! ```
//!
//! A commit moves the entries that it touches to the newest end, and commits come in order, so the links
//! are sorted by age at no cost and pruning takes entries off the oldest end. A key that every transaction
//! touches (a table's definition) is one entry however often that happens.
//!
//! Cost: one hash lookup for a find, a record or a removal; memory by the number of distinct keys. Removing
//! fills the gap with the last entry, so the memory can be given back when most entries are gone. Worst
//! case: one call in many moves the whole index, because it grows or shrinks. The index holds the hashes, so
//! that this reads it from one end to the other and does not follow each place into the entries.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

use hashbrown::hash_table::Entry as TableEntry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{Access, TransactionId, Version};

/// Below this many entries memory is never given back: a few pages are not worth the moves.
const SHRINK_CAPACITY_MIN: usize = 1024;

/// Entries shrink when they fill no more than this part of their memory...
const SHRINK_AT_FRACTION: usize = 8;

/// ... to twice what they need, so that a shrink is paid by at least as many removals, and the next growth
/// by at least as many records.
const SHRINK_TO_FACTOR: usize = 2;

const _: () = assert!(SHRINK_TO_FACTOR * 2 <= SHRINK_AT_FRACTION, "a shrink must free half of the memory");

/// The latest commit that accessed a key in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) version: Version,
    pub(crate) transaction: TransactionId,
}

impl Mark {
    /// No commit did. [`Version::ZERO`] is not after any snapshot, so it needs no test of its own.
    const NEVER: Self = Self { version: Version::ZERO, transaction: TransactionId::new(0) };
}

/// The latest commit that accessed a key, for each [`Access`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks([Mark; Access::ALL.len()]);

impl Marks {
    pub(crate) const NEVER: Self = Self([Mark::NEVER; Access::ALL.len()]);

    /// A commit after `begin` that conflicts with `mine`, and how it accessed the key.
    #[inline]
    pub(crate) fn conflict_after(&self, begin: Version, mine: Access) -> Option<(Access, Mark)> {
        Access::ALL.into_iter().find_map(|committed| {
            let mark = self.0[committed.index()];
            (mark.version > begin && mine.conflicts_with(committed)).then_some((committed, mark))
        })
    }

    /// Notes a commit that is later than those before.
    #[inline]
    pub(crate) fn set(&mut self, access: Access, mark: Mark) {
        self.0[access.index()] = mark;
    }

    /// Takes in what happened to another key.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            if other.version > mine.version {
                *mine = *other;
            }
        }
    }

    /// The latest commit that accessed the key in any way.
    #[inline]
    pub(crate) fn latest(&self) -> Version {
        self.0[0].version.max(self.0[1].version).max(self.0[2].version)
    }
}

/// Keys with their [`Marks`], found by key and forgotten by age.
pub(crate) struct RecentKeys<K> {
    /// Seeded at random, so that nobody can choose keys that all fall into one place.
    hasher: DefaultHashBuilder,
    index: HashTable<Indexed>,
    entries: Vec<Entry<K>>,
    oldest: Option<Place>,
    newest: Option<Place>,
    /// What a key has on the heap, and what all of them have.
    heap_bytes_of: fn(&K) -> usize,
    heap_bytes: usize,
}

struct Entry<K> {
    key: K,
    hash: KeyHash,
    older: Option<Place>,
    newer: Option<Place>,
    marks: Marks,
}

/// What the index holds for each entry.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    hash: KeyHash,
    place: Place,
}

/// Half of a key's hash: enough for every key that a [`Place`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyHash(u32);

impl KeyHash {
    #[inline]
    fn of<K: Hash>(hasher: &DefaultHashBuilder, key: &K) -> Self {
        Self((hasher.hash_one(key) >> 32) as u32)
    }

    /// The hash as the index wants it: it takes the position from the low bits and a tag from the highest
    /// seven, so both halves must be filled.
    #[inline]
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// A place in `entries`, counted from one so that `Option<Place>` is four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(NonZeroU32);

impl Place {
    fn of_index(index: usize) -> Self {
        let place = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(place.expect("memory ends before 2^32 - 1 keys are remembered"))
    }

    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl<K: Clone + Eq + Hash> RecentKeys<K> {
    pub(crate) fn new(heap_bytes_of: fn(&K) -> usize) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            index: HashTable::new(),
            entries: Vec::new(),
            oldest: None,
            newest: None,
            heap_bytes_of,
            heap_bytes: 0,
        }
    }

    /// How many keys are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What they have on the heap.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The marks of `key`, if it is remembered.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<&Marks> {
        let hash = KeyHash::of(&self.hasher, key);
        let is_key =
            |indexed: &Indexed| indexed.hash == hash && self.entries[indexed.place.index()].key == *key;
        let found = self.index.find(hash.spread(), is_key)?;
        Some(&self.entries[found.place.index()].marks)
    }

    /// Remembers that the commit of `mark` accessed `key`. Commits must come in ascending order.
    #[inline]
    pub(crate) fn record(&mut self, key: &K, access: Access, mark: Mark) {
        let hash = KeyHash::of(&self.hasher, key);
        let entries = &mut self.entries;
        let is_key = |indexed: &Indexed| indexed.hash == hash && entries[indexed.place.index()].key == *key;
        let place = match self.index.entry(hash.spread(), is_key, |indexed| indexed.hash.spread()) {
            TableEntry::Occupied(occupied) => occupied.get().place,
            TableEntry::Vacant(vacant) => {
                let place = Place::of_index(entries.len());
                vacant.insert(Indexed { hash, place });
                let marks = Marks::NEVER;
                entries.push(Entry { key: key.clone(), hash, older: None, newer: None, marks });
                self.heap_bytes += (self.heap_bytes_of)(key);
                self.link_newest(place);
                place
            }
        };
        let marks = &mut self.entries[place.index()].marks;
        assert!(marks.latest() <= mark.version, "commits are recorded in ascending order");
        marks.set(access, mark);
        if self.newest != Some(place) {
            self.unlink(place);
            self.link_newest(place);
        }
    }

    /// The keys that commits after `version` accessed, the newest first.
    pub(crate) fn since(&self, version: Version) -> impl Iterator<Item = &K> {
        let entry = |place: Place| &self.entries[place.index()];
        let ages = std::iter::successors(self.newest.map(entry), move |newer| newer.older.map(entry));
        ages.take_while(move |entry| entry.marks.latest() > version).map(|entry| &entry.key)
    }

    /// The last commit that accessed the key which was accessed least lately.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.oldest.map(|place| self.entries[place.index()].marks.latest())
    }

    /// Forgets keys whose commits are all at or below `version`, the oldest first, at most `limit` of them.
    pub(crate) fn forget_through(&mut self, version: Version, limit: usize) {
        for _ in 0..limit {
            let Some(place) = self.oldest else { break };
            if self.entries[place.index()].marks.latest() > version {
                break;
            }
            self.remove(place);
        }
        if self.entries.capacity() > SHRINK_CAPACITY_MIN
            && self.entries.len() <= self.entries.capacity() / SHRINK_AT_FRACTION
        {
            let capacity = self.entries.len() * SHRINK_TO_FACTOR;
            self.entries.shrink_to(capacity);
            self.index.shrink_to(capacity, |indexed| indexed.hash.spread());
        }
    }

    /// Forgets the key that was accessed least lately, and tells what is known of it.
    pub(crate) fn forget_oldest(&mut self) -> Option<(K, Marks)> {
        let place = self.oldest?;
        let Entry { key, marks, .. } = &self.entries[place.index()];
        let oldest = (key.clone(), *marks);
        self.remove(place);
        Some(oldest)
    }

    /// Removes the entry at `place` and moves the last entry there.
    fn remove(&mut self, place: Place) {
        self.unlink(place);
        let hash = self.entries[place.index()].hash;
        self.index
            .find_entry(hash.spread(), |indexed| indexed.place == place)
            .expect("each entry is in the index under its hash")
            .remove();
        let last = Place::of_index(self.entries.len() - 1);
        let removed = self.entries.swap_remove(place.index());
        self.heap_bytes -= (self.heap_bytes_of)(&removed.key);
        if last != place {
            self.moved(last, place);
        }
    }

    /// Makes index and neighbours name `to` for the entry that stood at `from`.
    fn moved(&mut self, from: Place, to: Place) {
        let Entry { hash, older, newer, .. } = self.entries[to.index()];
        self.index
            .find_mut(hash.spread(), |indexed| indexed.place == from)
            .expect("each entry is in the index under its hash")
            .place = to;
        match older {
            Some(older) => self.entries[older.index()].newer = Some(to),
            None => self.oldest = Some(to),
        }
        match newer {
            Some(newer) => self.entries[newer.index()].older = Some(to),
            None => self.newest = Some(to),
        }
    }

    /// Takes the entry out of the ages.
    #[inline]
    fn unlink(&mut self, place: Place) {
        let entry = &mut self.entries[place.index()];
        let (older, newer) = (entry.older.take(), entry.newer.take());
        match older {
            Some(older) => self.entries[older.index()].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.entries[newer.index()].older = older,
            None => self.newest = older,
        }
    }

    /// Puts an entry that is not among the ages at their newest end.
    #[inline]
    fn link_newest(&mut self, place: Place) {
        self.entries[place.index()].older = self.newest;
        match self.newest.replace(place) {
            Some(older) => self.entries[older.index()].newer = Some(place),
            None => self.oldest = Some(place),
        }
    }
}

#[cfg(test)]
mod tests;
