// SPDX-License-Identifier: Apache-2.0
//! What a large transaction accessed, found by key: made before the commit lock is held, so that under it nothing is done for
//! each key.

use crate::recent_keys::{Mark, Marks};
use crate::{Access, Version};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many transactions at most are remembered by their lists; the keys of one that comes then are recorded one by one. Who began
/// before all of them looks up each of its keys in each list, under the commit lock.
pub(super) const LISTS_MAX: usize = 16;

/// The accesses of one transaction to one key, or to one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccessSet([bool; Access::ALL.len()]);

impl AccessSet {
    fn of(access: Access) -> Self {
        let mut set = Self::default();
        set.0[access.index()] = true;
        set
    }

    fn merge(&mut self, other: Self) {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine |= other;
        }
    }

    fn accesses(self) -> impl Iterator<Item = Access> {
        Access::ALL.into_iter().filter(move |access| self.0[access.index()])
    }

    /// These accesses by one commit.
    fn marks(self, mark: Mark) -> Marks {
        let mut marks = Marks::NEVER;
        self.accesses().for_each(|access| marks.set(access, mark));
        marks
    }
}

/// What a transaction accessed: each key once, and the groups that the keys belong to.
///
/// It takes the place of the accesses in [`Certifier::admit_large`](crate::Certifier::admit_large), by reference.
#[derive(Debug)]
pub struct LargeFootprint<K> {
    /// Ascending.
    keys: Vec<(K, AccessSet)>,
    /// Ascending.
    groups: Vec<(u32, AccessSet)>,
    heap_bytes: usize,
}

impl<K: Ord> LargeFootprint<K> {
    /// The footprint of these accesses, in any order. `group` and `heap_bytes` as the certifier has them.
    ///
    /// Cost: that of sorting the accesses; little if they are in order.
    pub fn new(
        accesses: impl IntoIterator<Item = (K, Access)>,
        group: fn(&K) -> u32,
        heap_bytes: fn(&K) -> usize,
    ) -> Self {
        let keys = accesses.into_iter().map(|(key, access)| (key, AccessSet::of(access)));
        let keys = merged(keys.collect());
        // Keys of a group mostly stand together.
        let mut groups: Vec<(u32, AccessSet)> = Vec::new();
        for (key, set) in &keys {
            match groups.last_mut() {
                Some((last, sets)) if *last == group(key) => sets.merge(*set),
                _ => groups.push((group(key), *set)),
            }
        }
        let heap_bytes = keys.iter().map(|(key, _)| heap_bytes(key)).sum();
        Self { keys, groups: merged(groups), heap_bytes }
    }

    /// Each access to each key.
    pub(super) fn accesses(&self) -> impl Iterator<Item = (&K, Access)> {
        self.keys.iter().flat_map(|(key, set)| set.accesses().map(move |access| (key, access)))
    }

    fn of_key(&self, key: &K) -> Option<AccessSet> {
        let place = self.keys.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some(self.keys[place].1)
    }
}

/// Each key once, in ascending order.
fn merged<K: Ord>(mut sets: Vec<(K, AccessSet)>) -> Vec<(K, AccessSet)> {
    sets.sort_by(|(one, _), (next, _)| one.cmp(next));
    sets.dedup_by(|(next, set), (first, sets)| {
        let is_same = next == first;
        if is_same {
            sets.merge(*set);
        }
        is_same
    });
    sets
}

/// A large footprint that has committed.
struct Admitted<K> {
    mark: Mark,
    footprint: Arc<LargeFootprint<K>>,
}

/// The large footprints that are remembered, the oldest first.
pub(super) struct LargeFootprints<K> {
    admitted: VecDeque<Admitted<K>>,
    keys: usize,
    heap_bytes: usize,
    /// Nobody asks for these any more. Letting go of one takes as long as it has keys, so that is up to the caller.
    forgotten: Vec<Arc<LargeFootprint<K>>>,
}

impl<K> LargeFootprints<K> {
    pub(super) const fn new() -> Self {
        Self { admitted: VecDeque::new(), keys: 0, heap_bytes: 0, forgotten: Vec::new() }
    }

    /// How many keys they have, each list counted by itself.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// What those keys have on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    pub(super) fn count(&self) -> usize {
        self.admitted.len()
    }

    /// The version of the oldest.
    pub(super) fn oldest(&self) -> Option<Version> {
        self.admitted.front().map(|admitted| admitted.mark.version)
    }

    pub(super) fn push(&mut self, mark: Mark, footprint: Arc<LargeFootprint<K>>) {
        self.keys += footprint.keys.len();
        self.heap_bytes += footprint.heap_bytes;
        self.admitted.push_back(Admitted { mark, footprint });
    }

    /// Forgets the oldest; the marks of its groups.
    pub(super) fn forget_oldest(&mut self) -> impl Iterator<Item = (u32, Marks)> {
        let Admitted { mark, footprint } = self.admitted.pop_front().expect("there is an oldest one");
        self.keys -= footprint.keys.len();
        self.heap_bytes -= footprint.heap_bytes;
        let groups: Vec<_> = footprint.groups.iter().map(|(group, set)| (*group, set.marks(mark))).collect();
        self.forgotten.push(footprint);
        groups.into_iter()
    }

    /// Forgets those whose commits are at or below `version`.
    pub(super) fn forget_through(&mut self, version: Version) {
        while self.oldest().is_some_and(|oldest| oldest <= version) {
            drop(self.forget_oldest());
        }
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<Arc<LargeFootprint<K>>> {
        std::mem::take(&mut self.forgotten)
    }

    fn since(&self, begin: Version) -> impl Iterator<Item = &Admitted<K>> {
        self.admitted.iter().rev().take_while(move |admitted| admitted.mark.version > begin)
    }
}

impl<K: Ord> LargeFootprints<K> {
    /// A commit after `begin` that conflicts with `mine`, and how it accessed the key.
    #[inline]
    pub(super) fn conflict_after(&self, key: &K, begin: Version, mine: Access) -> Option<(Access, Mark)> {
        self.since(begin).find_map(|Admitted { mark, footprint }| {
            footprint.of_key(key)?.marks(*mark).conflict_after(begin, mine)
        })
    }

    /// The keys that commits after `begin` accessed, each once.
    pub(super) fn keys_since(&self, begin: Version) -> impl Iterator<Item = &K> {
        self.since(begin).enumerate().flat_map(move |(place, admitted)| {
            let is_new = move |key: &&K| {
                self.since(begin).take(place).all(|newer| newer.footprint.of_key(key).is_none())
            };
            admitted.footprint.keys.iter().map(|(key, _)| key).filter(is_new)
        })
    }
}
