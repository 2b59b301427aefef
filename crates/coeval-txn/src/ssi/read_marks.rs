// SPDX-License-Identifier: Apache-2.0
//! What committed transactions read, for those that may still overwrite it.
//!
//! # Why
//!
//! The pivot rule asks whether a committed reader of what I write stands at or behind my first out-edge. So
//! the latest reader answers for all of them, and a mark holds the latest that wrote something and the latest
//! that wrote nothing, each with its name for the error.
//!
//! Only a transaction that has an out-edge asks, which is rare; every transaction records, and what is recorded
//! is soon of no use. So marks live in two *generations*: new ones go into the young; when nobody can ask for
//! the old any more it is emptied as a whole, and the young one becomes the old. A mark that stays longer than
//! needed changes no answer.
//!
//! # Cost
//!
//! To record: a hash lookup for each key, a push for each range. To ask: two hash lookups for a key, and a look
//! at each range of its space. Memory: at most twice [`SsiLimits::marks_max`] keys and ranges, and twice
//! [`SsiLimits::mark_heap_bytes_max`] for long keys; beyond, a generation knows only which spaces were read.

use std::hash::{BuildHasher, Hash};
use std::ops::{Bound, RangeBounds};

use hashbrown::hash_table::Entry as TableEntry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::limits::SsiLimits;
use super::range_set::KeyBounds;
use super::read_set::{ReadSet, SpaceReads};
use super::rules::Rules;
use super::space_writes::Written;
use crate::{CommitOrder, TransactionId, Version};

/// A committed reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It wrote something.
    Writer { transaction: TransactionId, order: CommitOrder },
    /// It wrote nothing and stands where its snapshot does.
    ReadOnly { transaction: TransactionId, begin: Version },
}

impl Reader {
    /// The version behind which no snapshot asks for this reader.
    fn version(self) -> Version {
        match self {
            Self::Writer { order, .. } => order.version,
            Self::ReadOnly { begin, .. } => begin,
        }
    }
}

/// The latest readers of something. The default is nobody: no commit has order zero, and no first out-edge is
/// at or below version zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Marks {
    writer: (CommitOrder, TransactionId),
    read_only: (Version, TransactionId),
}

impl Marks {
    fn of(reader: Reader) -> Self {
        let mut marks = Self::default();
        marks.add(reader);
        marks
    }

    #[inline]
    fn add(&mut self, reader: Reader) {
        match reader {
            Reader::Writer { transaction, order } => self.writer = self.writer.max((order, transaction)),
            Reader::ReadOnly { transaction, begin } => {
                self.read_only = self.read_only.max((begin, transaction));
            }
        }
    }

    fn pivot(&self, first_out: CommitOrder, rules: &Rules) -> Option<Reader> {
        let (order, transaction) = self.writer;
        if order != CommitOrder::default() && (rules.is_pivot)(first_out, order) {
            return Some(Reader::Writer { transaction, order });
        }
        let (begin, transaction) = self.read_only;
        let is_pivot = begin != Version::ZERO && (rules.is_pivot_of_reader)(first_out, begin);
        is_pivot.then_some(Reader::ReadOnly { transaction, begin })
    }
}

/// The marks of one space in one generation.
struct SpaceMarks<K> {
    keys: HashTable<(K, Marks)>,
    ranges: Vec<(KeyBounds<K>, Marks)>,
    /// Readers of the whole space.
    whole: Marks,
    /// Readers of anything in it.
    any: Marks,
}

struct Generation<S, K> {
    spaces: HashMap<S, SpaceMarks<K>>,
    /// Readers of everything.
    everything: Marks,
    /// Keys and ranges, and what they have on the heap.
    count: usize,
    heap_bytes: usize,
    /// The version behind which no snapshot asks for any mark here.
    newest: Version,
}

impl<S, K> Generation<S, K> {
    fn new() -> Self {
        let (spaces, everything) = (HashMap::new(), Marks::default());
        Self { spaces, everything, count: 0, heap_bytes: 0, newest: Version::ZERO }
    }

    fn is_empty(&self) -> bool {
        self.newest == Version::ZERO
    }

    fn clear(&mut self) {
        // A space that nobody read in this generation may be gone.
        self.spaces.retain(|_, marks| marks.any != Marks::default());
        for marks in self.spaces.values_mut() {
            marks.keys.clear();
            marks.ranges.clear();
            marks.whole = Marks::default();
            marks.any = Marks::default();
        }
        self.everything = Marks::default();
        self.count = 0;
        self.heap_bytes = 0;
        self.newest = Version::ZERO;
    }

    /// Forgets keys and ranges; the spaces stay.
    fn coarsen(&mut self) {
        for marks in self.spaces.values_mut() {
            marks.keys = HashTable::new();
            marks.ranges = Vec::new();
            marks.whole = marks.any;
        }
        self.count = 0;
        self.heap_bytes = 0;
    }
}

/// What committed transactions read.
pub(crate) struct ReadMarks<S, K> {
    hasher: DefaultHashBuilder,
    young: Generation<S, K>,
    old: Generation<S, K>,
    limits: SsiLimits,
    /// What a key has on the heap.
    heap_bytes_of: fn(&K) -> usize,
}

impl<S: Copy + Eq + Hash, K: Clone + Ord + Hash> ReadMarks<S, K> {
    pub(crate) fn new(limits: SsiLimits, heap_bytes_of: fn(&K) -> usize) -> Self {
        let (young, old) = (Generation::new(), Generation::new());
        Self { hasher: DefaultHashBuilder::default(), young, old, limits, heap_bytes_of }
    }

    /// How many keys and ranges are remembered.
    pub(crate) fn len(&self) -> usize {
        self.young.count + self.old.count
    }

    /// What they have on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.young.heap_bytes + self.old.heap_bytes
    }

    /// Records what a transaction that commits now has read.
    pub(crate) fn record(&mut self, reader: Reader, reads: &ReadSet<S, K>) {
        self.young.newest = self.young.newest.max(reader.version());
        if reads.reads_everything() {
            self.young.everything.add(reader);
        }
        for reads in reads.spaces() {
            self.record_space(reader, reads);
        }
        if self.young.count > self.limits.marks_max || self.young.heap_bytes > self.limits.mark_heap_bytes_max
        {
            self.young.coarsen();
        }
        assert!(self.young.count <= self.limits.marks_max, "what grows past its bound becomes coarser");
    }

    fn record_space(&mut self, reader: Reader, reads: &SpaceReads<S, K>) {
        let marks = self.young.spaces.entry(reads.space).or_insert_with(|| SpaceMarks {
            keys: HashTable::new(),
            ranges: Vec::new(),
            whole: Marks::default(),
            any: Marks::default(),
        });
        let before = marks.keys.len() + marks.ranges.len();
        marks.any.add(reader);
        if reads.is_whole {
            marks.whole.add(reader);
        }
        for key in &reads.keys {
            let hash = self.hasher.hash_one(key);
            match marks.keys.entry(hash, |(held, _)| held == key, |(held, _)| self.hasher.hash_one(held)) {
                TableEntry::Occupied(mut occupied) => occupied.get_mut().1.add(reader),
                TableEntry::Vacant(vacant) => {
                    vacant.insert((key.clone(), Marks::of(reader)));
                    self.young.heap_bytes += (self.heap_bytes_of)(key);
                }
            }
        }
        for bound in reads.ranges.iter().flat_map(|(lower, upper)| [lower, upper]) {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.young.heap_bytes += (self.heap_bytes_of)(key);
            }
        }
        marks.ranges.extend(reads.ranges.iter().map(|range| (range.clone(), Marks::of(reader))));
        self.young.count += marks.keys.len() + marks.ranges.len() - before;
    }

    /// A committed reader of what is written here that makes a pivot of a transaction with this first out-edge.
    /// Of `examinable` it takes the ranges that it looks at; if there are not as many left, the latest reader of
    /// the space answers.
    pub(crate) fn pivot(
        &self,
        space: S,
        written: Written<'_, K>,
        first_out: CommitOrder,
        rules: &Rules,
        examinable: &mut usize,
    ) -> Option<Reader> {
        [&self.young, &self.old]
            .into_iter()
            .filter(|generation| generation.newest >= first_out.version)
            .find_map(|generation| self.pivot_in(generation, space, written, first_out, rules, examinable))
    }

    fn pivot_in(
        &self,
        generation: &Generation<S, K>,
        space: S,
        written: Written<'_, K>,
        first_out: CommitOrder,
        rules: &Rules,
        examinable: &mut usize,
    ) -> Option<Reader> {
        let pivot = |marks: &Marks| marks.pivot(first_out, rules);
        let of_everything = pivot(&generation.everything);
        let Some(marks) = generation.spaces.get(&space) else { return of_everything };
        // Most writers with an out-edge write where nobody reads: this ends the search for all of them.
        let Some(of_any) = pivot(&marks.any) else { return of_everything };
        let Written::Key(key) = written else { return Some(of_any) };
        let Some(left) = examinable.checked_sub(marks.ranges.len()) else { return Some(of_any) };
        *examinable = left;
        let of_key = || {
            let found = marks.keys.find(self.hasher.hash_one(key), |(held, _)| held == key);
            found.and_then(|(_, marks)| pivot(marks))
        };
        let of_range = || {
            let mut ranges = marks.ranges.iter().filter(|(range, _)| range.contains(key));
            ranges.find_map(|(_, marks)| pivot(marks))
        };
        of_everything.or_else(|| pivot(&marks.whole)).or_else(of_key).or_else(of_range)
    }

    /// Allows to forget the readers that nobody can make an in-edge of: writers that committed at or below
    /// `oldest`, and others whose snapshot is there.
    pub(crate) fn forget_through(&mut self, oldest: Version) {
        if self.young.count < self.limits.generation_min && !self.old.is_empty() {
            return;
        }
        if self.old.newest > oldest {
            return;
        }
        self.old.clear();
        std::mem::swap(&mut self.old, &mut self.young);
        assert!(self.young.is_empty(), "the young generation begins empty");
    }
}
