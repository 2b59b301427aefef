// SPDX-License-Identifier: Apache-2.0
//! A set of key ranges that is cheap to add to, quick to ask once settled, and can be made coarser.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// A range of keys.
pub(crate) type KeyBounds<K> = (Bound<K>, Bound<K>);

/// Ranges of keys: those before `settled` are sorted and apart from each other, the others as they came.
#[derive(Clone, Debug)]
pub(crate) struct RangeSet<K> {
    ranges: Vec<KeyBounds<K>>,
    settled: usize,
}

impl<K: Clone + Ord> RangeSet<K> {
    pub(crate) fn new() -> Self {
        Self { ranges: Vec::new(), settled: 0 }
    }

    /// How many ranges are held.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyBounds<K>> {
        self.ranges.iter()
    }

    /// Adds a range. Cost: a push.
    pub(crate) fn add(&mut self, range: KeyBounds<K>) {
        if self.ranges.last() != Some(&range) {
            self.ranges.push(range);
        }
    }

    /// Whether a range holds the key. Cost: a binary search, and a look at each range added since the last
    /// [`settle`](Self::settle).
    pub(crate) fn contains(&self, key: &K) -> bool {
        let (settled, added) = self.ranges.split_at(self.settled);
        let end = settled.partition_point(|range| admits_from_below(&range.0, key));
        settled[..end].last().is_some_and(|range| range.contains(key))
            || added.iter().any(|range| range.contains(key))
    }

    /// Sorts the ranges and joins those that overlap or touch. The keys they hold stay the same.
    pub(crate) fn settle(&mut self) {
        if self.settled == self.ranges.len() {
            return;
        }
        self.ranges.sort_unstable_by(|one, other| compare_lower(&one.0, &other.0));
        self.join_neighbours(|left, right| meets(&left.1, &right.0));
        self.settled = self.ranges.len();
        assert!(self.settled > 0, "joining ranges leaves at least one");
    }

    /// Joins every second range with the one before it, keys in between included: half as many ranges.
    pub(crate) fn halve(&mut self) {
        self.settle();
        let mut is_second = true;
        self.join_neighbours(|_, _| {
            is_second = !is_second;
            !is_second
        });
        self.settled = self.ranges.len();
    }

    /// Joins each range with the one kept before it where `joins` says so.
    fn join_neighbours(&mut self, mut joins: impl FnMut(&KeyBounds<K>, &KeyBounds<K>) -> bool) {
        self.ranges.dedup_by(|next, kept| {
            let is_joined = joins(kept, next);
            if is_joined && compare_upper(&kept.1, &next.1) == Ordering::Less {
                std::mem::swap(&mut kept.1, &mut next.1);
            }
            is_joined
        });
    }
}

/// Whether a range that begins at `lower` may hold the key.
fn admits_from_below<K: Ord>(lower: &Bound<K>, key: &K) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => lower <= key,
        Bound::Excluded(lower) => lower < key,
    }
}

fn compare_lower<K: Ord>(one: &Bound<K>, other: &Bound<K>) -> Ordering {
    compare(one, other, Ordering::Less)
}

fn compare_upper<K: Ord>(one: &Bound<K>, other: &Bound<K>) -> Ordering {
    compare(one, other, Ordering::Greater)
}

/// Compares two bounds of the same side; an open one is `open` to every other, and at one key the included
/// one is `open` to the excluded one.
fn compare<K: Ord>(one: &Bound<K>, other: &Bound<K>, open: Ordering) -> Ordering {
    match (one, other) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => open,
        (_, Bound::Unbounded) => open.reverse(),
        (Bound::Included(one), Bound::Included(other)) | (Bound::Excluded(one), Bound::Excluded(other)) => {
            one.cmp(other)
        }
        (Bound::Included(one), Bound::Excluded(other)) => one.cmp(other).then(open),
        (Bound::Excluded(one), Bound::Included(other)) => one.cmp(other).then(open.reverse()),
    }
}

/// Whether no key lies between the end of one range and the beginning of a later one.
fn meets<K: Ord>(upper: &Bound<K>, lower: &Bound<K>) -> bool {
    match (upper, lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(upper), Bound::Excluded(lower)) => lower < upper,
        (
            Bound::Included(upper) | Bound::Excluded(upper),
            Bound::Included(lower) | Bound::Excluded(lower),
        ) => lower <= upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn bound(random: &mut StdRng, key: u8) -> Bound<u8> {
        match random.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    #[test]
    fn settling_changes_no_answer_and_halving_only_adds_keys() {
        for seed in 0..20_000 {
            let random = &mut StdRng::seed_from_u64(seed);
            let mut set = RangeSet::new();
            let mut all = Vec::new();
            for _ in 0..random.random_range(1..9) {
                let (low, high) = (random.random_range(0..12), random.random_range(0..12));
                let range = (bound(random, low), bound(random, high));
                all.push(range);
                set.add(range);
                if random.random_bool(0.2) {
                    set.settle();
                }
            }
            let held = |key: &u8| all.iter().any(|range| range.contains(key));
            let agrees = |set: &RangeSet<u8>| (0..13).all(|key| set.contains(&key) == held(&key));
            assert!(agrees(&set), "seed {seed}: {all:?} as they came");
            set.settle();
            assert!(agrees(&set), "seed {seed}: {all:?} settled as {set:?}");
            let before = set.len();
            set.halve();
            assert_eq!(set.len(), before.div_ceil(2), "seed {seed}");
            assert!((0..13).all(|key| set.contains(&key) || !held(&key)), "seed {seed}: {all:?} as {set:?}");
        }
    }

    #[test]
    fn ranges_that_touch_become_one_and_a_hole_of_one_key_stays() {
        let mut set = RangeSet::new();
        set.add((Bound::Included(1), Bound::Excluded(5)));
        set.add((Bound::Included(5), Bound::Included(7)));
        set.add((Bound::Excluded(9), Bound::Unbounded));
        set.add((Bound::Included(8), Bound::Excluded(9)));
        set.settle();
        assert_eq!(set.len(), 3);
        assert!(!set.contains(&9) && set.contains(&8) && set.contains(&10));
    }
}
