// SPDX-License-Identifier: Apache-2.0
//! What a transaction read: keys, key ranges and whole spaces, in bounded memory.
//!
//! # Why
//!
//! Serializability needs to know what each transaction read, and reads are the hottest path there is. So a
//! point read costs a comparison and a push, and nothing is sorted or looked up before the commit. What
//! grows past a limit is made coarser instead of refused: it then holds more than was read, which can cost a
//! needless abort and never a wrong commit (`README.md`, *What is conservative*).
//!
//! # Steps
//!
//! ```text
//! keys  --too many distinct ones-->  ranges of neighbours  --too many-->  pairs of ranges joined, again
//!       and again  --too often-->  the whole space  --too many spaces-->  everything
//! ```
//!
//! Keys and bounds that have too much on the heap are too many.
//!
//! # Cost
//!
//! A read of a key: some nanoseconds. A read of a range: a clone of its bounds. Making coarser sorts what is
//! held and at least halves it, so each read pays for a constant number of places in a sort. Memory: at most
//! [`ReadLimits`] allows, whatever is read.

use std::ops::Bound;

use super::range_set::{KeyBounds, RangeSet};

/// How much a [`ReadSet`] holds before it becomes coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Keys of one space.
    pub keys_max: usize,
    /// Ranges of one space.
    pub ranges_max: usize,
    /// What keys and bounds of one space have on the heap.
    pub heap_bytes_max: usize,
    /// How often ranges of one space are joined before the space counts as read as a whole.
    pub joins_max: usize,
    /// Spaces.
    pub spaces_max: usize,
}

impl Default for ReadLimits {
    /// At 32 bytes for a key some 200 KB for each space that is read much, and 25 MB in the worst case; with long keys a
    /// megabyte more for each.
    fn default() -> Self {
        Self { keys_max: 4096, ranges_max: 512, heap_bytes_max: 1 << 20, joins_max: 32, spaces_max: 128 }
    }
}

/// How many neighbouring keys make one range.
const KEYS_PER_RANGE: usize = 16;

/// What a transaction read.
///
/// A space is an ordered set of keys: a table's rows, an index's entries, a table's bricks. A key that was
/// looked for and not found was read as well: its absence is what somebody may overwrite.
///
/// ```
/// use coeval_txn::ssi::ReadSet;
/// use std::ops::Bound;
///
/// let mut reads = ReadSet::<u32, &str>::new();
/// reads.read_key(1, &"anna");
/// reads.read_range(2, Bound::Included(&"b"), Bound::Excluded(&"c"));
/// assert!(reads.covers(1, &"anna") && reads.covers(2, &"bob"));
/// assert!(!reads.covers(1, &"bob"));
/// ```
#[derive(Clone, Debug)]
pub struct ReadSet<S, K> {
    spaces: Vec<SpaceReads<S, K>>,
    /// Where the last read went: most reads follow one of the same space.
    recent: usize,
    reads_everything: bool,
    limits: ReadLimits,
    /// What a key has on the heap.
    heap_bytes_of: fn(&K) -> usize,
}

/// What was read of one space.
#[derive(Clone, Debug)]
pub(crate) struct SpaceReads<S, K> {
    pub(crate) space: S,
    /// In the order they were read, doubles included.
    pub(crate) keys: Vec<K>,
    pub(crate) ranges: RangeSet<K>,
    /// The whole space was read; keys and ranges are empty then.
    pub(crate) is_whole: bool,
    join_count: usize,
    /// What keys and bounds have on the heap, doubles included.
    heap_bytes: usize,
}

impl<S: Copy + Eq, K: Clone + Ord> ReadSet<S, K> {
    /// Nothing read so far. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(ReadLimits::default())
    }

    /// Nothing read so far, with other limits.
    ///
    /// # Panics
    /// If a limit is zero: at least one key, range and space must fit.
    #[must_use]
    pub fn with_limits(limits: ReadLimits) -> Self {
        Self::weighing(limits, |_| 0)
    }

    /// Nothing read so far. `heap_bytes_of` says what a key has on the heap, always the same: without it the bound on that
    /// means nothing.
    ///
    /// # Panics
    /// As [`with_limits`](Self::with_limits).
    #[must_use]
    pub fn weighing(limits: ReadLimits, heap_bytes_of: fn(&K) -> usize) -> Self {
        assert!(limits.keys_max > 0 && limits.ranges_max > 0 && limits.spaces_max > 0);
        Self { spaces: Vec::new(), recent: 0, reads_everything: false, limits, heap_bytes_of }
    }

    /// Notes that a key was looked for, found or not.
    #[inline]
    pub fn read_key(&mut self, space: S, key: &K) {
        let (limits, heap_bytes_of) = (self.limits, self.heap_bytes_of);
        if let Some(reads) = self.spaces.get_mut(self.recent)
            && reads.space == space
        {
            reads.add_key(key, limits, heap_bytes_of);
        } else if let Some(reads) = self.space_mut(space) {
            reads.add_key(key, limits, heap_bytes_of);
        }
    }

    /// Notes that the keys of a range were looked at, or that there are none.
    pub fn read_range(&mut self, space: S, lower: Bound<&K>, upper: Bound<&K>) {
        if matches!((lower, upper), (Bound::Unbounded, Bound::Unbounded)) {
            return self.read_space(space);
        }
        let (limits, heap_bytes_of) = (self.limits, self.heap_bytes_of);
        if let Some(reads) = self.space_mut(space)
            && !reads.is_whole
        {
            reads.heap_bytes += heap_bytes_of_bound(lower, heap_bytes_of);
            reads.heap_bytes += heap_bytes_of_bound(upper, heap_bytes_of);
            reads.ranges.add((lower.cloned(), upper.cloned()));
            if reads.heap_bytes > limits.heap_bytes_max {
                reads.join_keys(limits, heap_bytes_of);
            } else if reads.ranges.len() > limits.ranges_max {
                reads.join_ranges(limits, heap_bytes_of);
            }
        }
    }

    /// Notes that a whole space was read.
    pub fn read_space(&mut self, space: S) {
        if let Some(reads) = self.space_mut(space) {
            reads.make_whole();
        }
    }

    /// Adds what another set holds. Cost: as reading that again.
    pub fn absorb(&mut self, other: Self) {
        if other.reads_everything {
            self.spaces = Vec::new();
            self.reads_everything = true;
        }
        for SpaceReads { space, keys, ranges, is_whole, .. } in other.spaces {
            if is_whole {
                self.read_space(space);
            }
            for key in &keys {
                self.read_key(space, key);
            }
            for (lower, upper) in ranges.iter() {
                self.read_range(space, lower.as_ref(), upper.as_ref());
            }
        }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty() && !self.reads_everything
    }

    /// Forgets what was read of other spaces than these. If it is not known any more of which spaces something was read, it forgets all.
    pub fn retain_spaces(&mut self, is_kept: impl Fn(S) -> bool) {
        self.spaces.retain(|reads| is_kept(reads.space) && !self.reads_everything);
        self.recent = 0;
        self.reads_everything = false;
    }

    /// How many keys and ranges are held at the moment; a space that was read as a whole counts as one.
    #[must_use]
    pub fn len(&self) -> usize {
        let of_space =
            |reads: &SpaceReads<S, K>| reads.keys.len() + reads.ranges.len() + usize::from(reads.is_whole);
        self.spaces.iter().map(of_space).sum::<usize>() + usize::from(self.reads_everything)
    }

    /// What its keys and bounds have on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.spaces.iter().map(|reads| reads.heap_bytes).sum()
    }

    /// Whether a write of this key changes what was read, as far as the set still knows.
    #[must_use]
    pub fn covers(&self, space: S, key: &K) -> bool {
        let holds = |reads: &SpaceReads<S, K>| {
            reads.space == space && (reads.is_whole || reads.keys.contains(key) || reads.ranges.contains(key))
        };
        self.reads_everything || self.spaces.iter().any(holds)
    }

    /// Brings the ranges into order, so that certification finds a key in them by binary search. Call it
    /// before the commit lock is taken; certification is right without.
    pub fn settle(&mut self) {
        self.spaces.iter_mut().for_each(|reads| reads.ranges.settle());
    }

    /// Whether so many spaces were read that the set holds everything.
    pub(crate) fn reads_everything(&self) -> bool {
        self.reads_everything
    }

    pub(crate) fn spaces(&self) -> &[SpaceReads<S, K>] {
        &self.spaces
    }

    /// The reads of a space, made if there are none; `None` if everything counts as read.
    fn space_mut(&mut self, space: S) -> Option<&mut SpaceReads<S, K>> {
        if self.reads_everything {
            return None;
        }
        self.recent = match self.spaces.iter().position(|reads| reads.space == space) {
            Some(position) => position,
            None if self.spaces.len() == self.limits.spaces_max => {
                self.spaces = Vec::new();
                self.reads_everything = true;
                return None;
            }
            None => {
                self.spaces.push(SpaceReads::new(space));
                self.spaces.len() - 1
            }
        };
        assert!(self.spaces.len() <= self.limits.spaces_max);
        Some(&mut self.spaces[self.recent])
    }
}

impl<S: Copy + Eq, K: Clone + Ord> Default for ReadSet<S, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Copy + Eq, K: Clone + Ord> SpaceReads<S, K> {
    fn new(space: S) -> Self {
        let (keys, ranges) = (Vec::new(), RangeSet::new());
        Self { space, keys, ranges, is_whole: false, join_count: 0, heap_bytes: 0 }
    }

    #[inline]
    fn add_key(&mut self, key: &K, limits: ReadLimits, heap_bytes_of: fn(&K) -> usize) {
        if self.is_whole || self.keys.last() == Some(key) {
            return;
        }
        self.keys.push(key.clone());
        self.heap_bytes += heap_bytes_of(key);
        if self.keys.len() > limits.keys_max || self.heap_bytes > limits.heap_bytes_max {
            self.join_keys(limits, heap_bytes_of);
        }
    }

    /// Makes ranges of the keys, unless enough of them are doubles or in a range already.
    #[cold]
    fn join_keys(&mut self, limits: ReadLimits, heap_bytes_of: fn(&K) -> usize) {
        self.ranges.settle();
        self.keys.sort_unstable();
        self.keys.dedup();
        self.keys.retain(|key| !self.ranges.contains(key));
        self.weigh(heap_bytes_of);
        if self.keys.len() <= limits.keys_max / 2 && self.heap_bytes <= limits.heap_bytes_max / 2 {
            return;
        }
        for keys in self.keys.chunks(KEYS_PER_RANGE) {
            let (first, last) = (keys[0].clone(), keys[keys.len() - 1].clone());
            self.ranges.add((Bound::Included(first), Bound::Included(last)));
        }
        self.keys.clear();
        self.weigh(heap_bytes_of);
        if self.ranges.len() > limits.ranges_max || self.heap_bytes > limits.heap_bytes_max / 2 {
            self.join_ranges(limits, heap_bytes_of);
        }
    }

    /// Joins ranges until half of their limit is free, and half of the bytes if there are no keys.
    #[cold]
    fn join_ranges(&mut self, limits: ReadLimits, heap_bytes_of: fn(&K) -> usize) {
        self.ranges.settle();
        self.weigh(heap_bytes_of);
        while self.ranges.len() > (limits.ranges_max / 2).max(1)
            || (self.keys.is_empty() && self.ranges.len() > 1 && self.heap_bytes > limits.heap_bytes_max / 2)
        {
            self.ranges.halve();
            self.join_count += 1;
            self.weigh(heap_bytes_of);
        }
        if self.join_count > limits.joins_max || self.heap_bytes > limits.heap_bytes_max {
            self.make_whole();
        }
        assert!(self.ranges.len() <= limits.ranges_max);
        assert!(self.heap_bytes <= limits.heap_bytes_max);
    }

    /// Counts anew what keys and bounds have on the heap.
    fn weigh(&mut self, heap_bytes_of: fn(&K) -> usize) {
        let of_range = |(lower, upper): &KeyBounds<K>| {
            heap_bytes_of_bound(lower.as_ref(), heap_bytes_of)
                + heap_bytes_of_bound(upper.as_ref(), heap_bytes_of)
        };
        self.heap_bytes = self.keys.iter().map(heap_bytes_of).sum::<usize>()
            + self.ranges.iter().map(of_range).sum::<usize>();
    }

    fn make_whole(&mut self) {
        self.is_whole = true;
        self.keys = Vec::new();
        self.ranges = RangeSet::new();
        self.heap_bytes = 0;
    }
}

fn heap_bytes_of_bound<K>(bound: Bound<&K>, heap_bytes_of: fn(&K) -> usize) -> usize {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => heap_bytes_of(key),
        Bound::Unbounded => 0,
    }
}

#[cfg(test)]
mod tests;
