// SPDX-License-Identifier: Apache-2.0
//! Encoded blocks: a tree of runs of bytes (PaC-trees, PLDI 2022, section on compression).
//!
//! **Why.** A pair of integers takes sixteen bytes in a leaf, but keys that lie next to each other differ by little, and
//! a table's row numbers do not need eight bytes.
//!
//! **How.** The entries are cut into runs of about a kilobyte, each encoded by an [`Encoding`]; a [`PTree`] maps the
//! first key of each run to its bytes and keeps the number of entries as its summary, so that ranks and indices are
//! known without a look at any run. A run is never changed: an update decodes it, writes one or two new ones, and
//! path-copies the tree above.
//!
//! **Edges.** A run that falls below `ENTRIES_LEAST` entries takes in the next one; only the last run may be smaller.
//!
//! **Cost.** Lookups as in any tree, plus reading numbers of odd width. An update handles all entries of its run, some
//! hundred, so single updates cost several times those of a plain tree; batches pay once per run.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use triomphe::Arc;

use crate::build::is_strictly_sorted;
use crate::cut::{is_above, is_below};
use crate::grain::Grain;
use crate::invariants::BrokenInvariant;
use crate::memory::Memory;
use crate::summary::Summary;
use crate::tree::PTree;

mod encoding;

pub use encoding::{Delta, DeltaMeasure, Encoding, Integer};

/// Bytes of a run: with its reference count and its length a kilobyte, which is a size that allocators keep ready.
const BYTES_MAX: usize = 1008;

/// Entries of a run, however small they are: an update handles all of them.
const ENTRIES_MAX: usize = 256;

/// Entries that every run but the last has. The halves of any run that is too large have more: the largest entries
/// take sixteen bytes.
const ENTRIES_LEAST: usize = 16;

const _: () = assert!(BYTES_MAX / 16 / 2 > ENTRIES_LEAST && ENTRIES_MAX / 2 > ENTRIES_LEAST);

type Decoder<K, V, E> = fn(E) -> (K, V);

/// What becomes of the run that starts at a key.
type Change<K, V, E> = (K, Option<Run<K, V, E>>);

/// An encoded run of entries.
struct Run<K, V, E> {
    bytes: Arc<[u8]>,
    count: usize,
    encoding: PhantomData<Decoder<K, V, E>>,
}

impl<K, V, E> Clone for Run<K, V, E> {
    fn clone(&self) -> Self {
        Run { bytes: Arc::clone(&self.bytes), count: self.count, encoding: PhantomData }
    }
}

impl<K: Ord, V, E: Encoding<K, V>> Run<K, V, E> {
    fn of(entries: &[(K, V)]) -> Self {
        let bytes = E::encode(entries);
        assert_eq!(E::count(&bytes), entries.len(), "an encoding keeps every entry");
        Run { bytes: Arc::from(bytes), count: entries.len(), encoding: PhantomData }
    }

    fn key(&self, index: usize) -> K {
        E::key(&self.bytes, index)
    }

    fn entry(&self, index: usize) -> (K, V) {
        (self.key(index), E::value(&self.bytes, index))
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (K, V)> + '_ {
        (0..self.count).map(|index| self.entry(index))
    }

    /// The number of keys for which `before` holds.
    fn partition_point(&self, before: impl Fn(&K) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if before(&self.key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Entries in runs.
#[derive(Clone, Copy, PartialEq)]
struct Entries(usize);

impl<K, V, E> Summary<K, Run<K, V, E>> for Entries {
    fn empty() -> Self {
        Entries(0)
    }

    fn of(_key: &K, run: &Run<K, V, E>) -> Self {
        Entries(run.count)
    }

    fn combine(&self, later: &Self) -> Self {
        Entries(self.0 + later.0)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }
}

/// Runs by their first key.
type Runs<K, V, E> = PTree<K, Run<K, V, E>, Entries>;

/// A persistent ordered map whose entries are kept encoded: a clone costs one reference count, and no update of one
/// clone is seen by another.
///
/// It has the operations that a table of numbers needs; for others, [`unpack`](Self::unpack) it.
///
/// ```
/// use coeval_ptree::PackedTree;
///
/// let mut rows: PackedTree<u64, u32> = (0..100_000).map(|key| (3 * key, key as u32)).collect();
/// let snapshot = rows.clone(); // O(1)
/// rows.insert(7, 70);
/// assert_eq!((rows.get(&7), snapshot.get(&7)), (Some(70), None));
/// assert_eq!(rows.select(3), Some((7, 70)));
/// assert!(snapshot.memory().bytes < 100_000 * 4); // Of 12 bytes each.
/// ```
pub struct PackedTree<K, V, E = Delta> {
    runs: Runs<K, V, E>,
}

impl<K, V, E> Clone for PackedTree<K, V, E> {
    fn clone(&self) -> Self {
        PackedTree { runs: self.runs.clone() }
    }
}

impl<K, V, E> Default for PackedTree<K, V, E> {
    fn default() -> Self {
        PackedTree { runs: PTree::default() }
    }
}

impl<K, V, E> PackedTree<K, V, E>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Encoding<K, V>,
{
    /// An empty map.
    ///
    /// ```
    /// let mut tree = coeval_ptree::PackedTree::<u32, u32>::new();
    /// tree.insert(1, 10);
    /// assert_eq!(tree.len(), 1);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A map of entries in strictly increasing key order. `O(n)`.
    ///
    /// ```
    /// let tree = coeval_ptree::PackedTree::<u32, u32>::from_sorted(vec![(1, 10), (2, 20)]);
    /// assert_eq!(tree.get(&2), Some(20));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase.
    #[must_use]
    pub fn from_sorted(entries: Vec<(K, V)>) -> Self {
        assert!(is_strictly_sorted(&entries, |entry| &entry.0), "keys must strictly increase");
        let (mut runs, mut rest) = (Vec::new(), &entries[..]);
        while let Some((key, _)) = rest.first() {
            let (run, later) = rest.split_at(fitting::<K, V, E>(rest));
            runs.push((key.clone(), Run::of(run)));
            rest = later;
        }
        PackedTree { runs: PTree::from_sorted(runs) }
    }

    /// The number of entries. `O(1)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.len(), 1_000);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.summary().0
    }

    /// Whether there are no entries. `O(1)`.
    ///
    /// ```
    /// assert!(coeval_ptree::PackedTree::<u32, u32>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The value of `key`. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!((squares.get(&30), squares.get(&1_000)), (Some(900), None));
    /// ```
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        let (_, run) = self.runs.floor(key)?;
        let index = run.partition_point(|other| other < key);
        let (found, value) = (index < run.count).then(|| run.entry(index))?;
        (found == *key).then_some(value)
    }

    /// Whether `key` is present. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert!(squares.contains_key(&999) && !squares.contains_key(&1_000));
    /// ```
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The entry with the smallest key. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.first(), Some((0, 0)));
    /// ```
    #[must_use]
    pub fn first(&self) -> Option<(K, V)> {
        self.runs.first().map(|(_, run)| run.entry(0))
    }

    /// The entry with the largest key. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.last(), Some((999, 998_001)));
    /// ```
    #[must_use]
    pub fn last(&self) -> Option<(K, V)> {
        self.runs.last().map(|(_, run)| run.entry(run.count - 1))
    }

    /// The number of keys less than `key`. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!((squares.rank(&500), squares.rank(&5_000)), (500, 1_000));
    /// ```
    #[must_use]
    pub fn rank(&self, key: &K) -> usize {
        let Some((start, run)) = self.runs.floor(key) else { return 0 };
        self.runs.aggregate(..start).0 + run.partition_point(|other| other < key)
    }

    /// The entry with `index` smaller keys before it. `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.select(30), Some((30, 900)));
    /// ```
    #[must_use]
    pub fn select(&self, index: usize) -> Option<(K, V)> {
        let (before, _, run) = self.runs.select_by(|entries| entries.0 <= index)?;
        Some(run.entry(index - before.0))
    }

    /// All entries in key order, from both ends. `O(log n)` to start.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.iter().rev().take(2).map(|(key, _)| key).collect::<Vec<_>>(), [999, 998]);
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, V)> + '_ {
        self.runs.values().flat_map(Run::iter)
    }

    /// The entries within `bounds` in key order, from both ends; bounds the wrong way round enclose nothing. `O(log n)`
    /// to start.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.iter_range(10..12).collect::<Vec<_>>(), [(10, 100), (11, 121)]);
    /// ```
    pub fn iter_range<R: RangeBounds<K>>(&self, bounds: R) -> impl DoubleEndedIterator<Item = (K, V)> + '_ {
        let (lower, upper) = (bounds.start_bound().cloned(), bounds.end_bound().cloned());
        let first = match &lower {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => {
                self.runs.floor(key).map(|(start, _)| start.clone())
            }
        };
        let runs = (first.map_or(Bound::Unbounded, Bound::Included), upper.clone());
        self.runs.iter_range(runs).flat_map(move |(_, run)| {
            let start = run.partition_point(|key| is_below(key, lower.as_ref()));
            let end = run.partition_point(|key| !is_above(key, upper.as_ref()));
            (start..end.max(start)).map(|index| run.entry(index))
        })
    }

    /// `reduce` over `map(key, value)` of all entries in key order, in parallel; `identity` if there are none.
    ///
    /// `reduce` must be associative and `identity` neutral. Work `O(n)`, span `O(log n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.map_reduce(|key, _| *key, |a, b| a + b, 0), 499_500);
    /// ```
    pub fn map_reduce<R, M, F>(&self, map: M, reduce: F, identity: R) -> R
    where
        R: Clone + Send + Sync,
        M: Fn(&K, &V) -> R + Sync,
        F: Fn(R, R) -> R + Sync,
    {
        let of_run = |sum, _: &K, run: &Run<K, V, E>| {
            run.iter().fold(sum, |sum, (key, value)| reduce(sum, map(&key, &value)))
        };
        self.runs.scan(Grain::entries(Grain::SCAN.count() / 128)).semi_map_reduce(identity, of_run, &reduce)
    }

    /// Puts `value` at `key` and returns the value that it replaces. `O(log n)` and a run.
    ///
    /// ```
    /// let mut squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!((squares.insert(30, 0), squares.insert(2_000, 0)), (Some(900), None));
    /// ```
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.get(&key);
        self.multi_update(vec![(key, Some(value))]);
        replaced
    }

    /// Removes `key` and returns its value. `O(log n)` and a run; copies nothing if the key is absent.
    ///
    /// ```
    /// let mut squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!((squares.remove(&30), squares.remove(&30)), (Some(900), None));
    /// ```
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.get(key)?;
        self.multi_update(vec![(key.clone(), None)]);
        Some(removed)
    }

    /// Puts all pairs of a batch with strictly increasing keys: `combine(key, old, new)` where the key is present.
    /// `O(m log n)` and the runs met.
    ///
    /// ```
    /// let mut squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// squares.multi_insert(vec![(30, 1), (2_000, 1)], |_, old, new| old + new);
    /// assert_eq!((squares.get(&30), squares.get(&2_000)), (Some(901), Some(1)));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase, or `combine` panics; then the tree is unchanged.
    pub fn multi_insert<F>(&mut self, batch: Vec<(K, V)>, combine: F)
    where
        F: Fn(&K, &V, V) -> V,
    {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        let batch = batch.into_iter().map(|(key, value)| (key, Some(value)));
        self.edit(batch.collect(), |key, old, new| combine(key, &old, new));
    }

    /// Puts `Some` values and removes the keys with `None`, in one pass over a batch with strictly increasing keys.
    /// `O(m log n)` and the runs met.
    ///
    /// ```
    /// let mut squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// squares.multi_update(vec![(30, None), (2_000, Some(1))]);
    /// assert_eq!((squares.get(&30), squares.len()), (None, 1_000));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged.
    pub fn multi_update(&mut self, batch: Vec<(K, Option<V>)>) {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        self.edit(batch, |_, _, new| new);
    }

    /// The same entries, not encoded. `O(n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// let plain: coeval_ptree::PTree<u32, u32> = squares.unpack();
    /// assert_eq!(plain.get(&30), Some(&900));
    /// ```
    #[must_use]
    pub fn unpack<S: Summary<K, V>, const B: usize>(&self) -> PTree<K, V, S, B> {
        PTree::from_sorted(self.iter().collect())
    }

    /// What this tree takes, encoded runs included. `O(number of runs)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert!(squares.memory().bytes < 1_000 * 8);
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        let mut memory = Memory::default();
        self.add_to(&mut memory);
        memory
    }

    /// Adds what this tree takes to what others do; runs and nodes that they share count once.
    ///
    /// ```
    /// use coeval_ptree::{Memory, PackedTree};
    /// let squares: PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// let copy = squares.clone();
    /// let mut memory = Memory::default();
    /// squares.add_to(&mut memory);
    /// copy.add_to(&mut memory);
    /// assert_eq!(memory.bytes, squares.memory().bytes);
    /// ```
    pub fn add_to<'t>(&'t self, memory: &mut Memory<'t>) {
        memory.add_with(&self.runs, |memory, _, run| {
            // A run's allocation starts with its reference count and its length.
            memory.add_block(&run.bytes, run.bytes.len() + 2 * size_of::<usize>());
        });
    }

    /// Visits every run and checks all invariants. `O(n)`.
    ///
    /// ```
    /// let squares: coeval_ptree::PackedTree<u32, u32> = (0..1_000).map(|i| (i, i * i)).collect();
    /// assert_eq!(squares.check_invariants(), Ok(()));
    /// ```
    ///
    /// # Errors
    /// The first broken invariant found: one of the tree of runs, a run without entries or with too few, a count that
    /// is wrong, or keys that do not increase or lie outside of their run's range. The tree is not changed.
    pub fn check_invariants(&self) -> Result<(), BrokenInvariant> {
        self.runs.check_invariants()?;
        let mut index = 0;
        let mut last: Option<K> = None;
        for (at, (start, run)) in self.runs.iter().enumerate() {
            let is_last = at + 1 == self.runs.len();
            if run.count == 0 || run.key(0) != *start {
                return Err(BrokenInvariant::Separator { index });
            }
            if run.count != E::count(&run.bytes) || run.count > ENTRIES_MAX || run.bytes.len() > BYTES_MAX {
                return Err(BrokenInvariant::Size { index });
            }
            if run.count < ENTRIES_LEAST && !is_last {
                return Err(BrokenInvariant::Balance { index });
            }
            for (key, _) in run.iter() {
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(BrokenInvariant::Order { index });
                }
                last = Some(key);
                index += 1;
            }
        }
        Ok(())
    }

    /// Applies a sorted batch, run by run, and then to the tree of runs.
    fn edit<F>(&mut self, batch: Vec<(K, Option<V>)>, combine: F)
    where
        F: Fn(&K, V, V) -> V,
    {
        let mut changed: Vec<Change<K, V, E>> = Vec::new();
        let mut items = batch.into_iter().peekable();
        while let Some((key, _)) = items.peek() {
            // Keys below the first run belong to it, too.
            let mut next = self.runs.floor(key).or_else(|| self.runs.first());
            let (mut merged, mut region) = (Vec::new(), BTreeMap::new());
            loop {
                let after = next.and_then(|(start, _)| self.runs.next(start));
                let old = next.map(|(start, run)| {
                    region.insert(start.clone(), None);
                    run.iter()
                });
                merge(
                    &mut merged,
                    old.into_iter().flatten(),
                    &mut items,
                    after.map(|(start, _)| start),
                    &combine,
                );
                if merged.len() >= ENTRIES_LEAST || after.is_none() {
                    break;
                }
                next = after;
            }
            write(&merged, &mut region);
            changed.extend(region);
        }
        self.runs.multi_update(changed);
    }
}

/// How many of the first entries fit into one run.
fn fitting<K, V, E: Encoding<K, V>>(entries: &[(K, V)]) -> usize {
    let mut measure = E::Measure::default();
    let fits = |(key, value): &&(K, V)| E::measure(&mut measure, key, value) <= BYTES_MAX;
    entries.iter().take(ENTRIES_MAX).take_while(fits).count()
}

/// Encodes entries as one run, or in halves, and so on; puts the runs into `region` by their first keys.
fn write<K: Ord + Clone, V, E: Encoding<K, V>>(
    entries: &[(K, V)],
    region: &mut BTreeMap<K, Option<Run<K, V, E>>>,
) {
    let Some((key, _)) = entries.first() else { return };
    if fitting::<K, V, E>(entries) == entries.len() {
        region.insert(key.clone(), Some(Run::of(entries)));
        return;
    }
    let (left, right) = entries.split_at(entries.len() / 2);
    write(left, region);
    write(right, region);
}

/// Appends the merge of a run's entries and of the batch's items below `end`.
fn merge<K: Ord, V, F>(
    merged: &mut Vec<(K, V)>,
    old: impl Iterator<Item = (K, V)>,
    items: &mut Peekable<impl Iterator<Item = (K, Option<V>)>>,
    end: Option<&K>,
    combine: &F,
) where
    F: Fn(&K, V, V) -> V,
{
    let put = |(key, value): (K, Option<V>)| value.map(|value| (key, value));
    for (key, value) in old {
        while let Some(item) = items.next_if(|item| item.0 < key) {
            merged.extend(put(item));
        }
        match items.next_if(|item| item.0 == key) {
            None => merged.push((key, value)),
            Some((_, new)) => {
                if let Some(new) = new {
                    let value = combine(&key, value, new);
                    merged.push((key, value));
                }
            }
        }
    }
    while let Some(item) = items.next_if(|item| end.is_none_or(|end| item.0 < *end)) {
        merged.extend(put(item));
    }
}

impl<K, V, E> FromIterator<(K, V)> for PackedTree<K, V, E>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    E: Encoding<K, V>,
{
    /// A map of entries in any order; the last one of each key counts. `O(n log n)`.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: Vec<(K, V)> = entries.into_iter().collect();
        Self::from_sorted(crate::build::sort_and_combine(entries, &|_, _, later| later))
    }
}

impl<K, V, E> fmt::Debug for PackedTree<K, V, E>
where
    K: Ord + Clone + Send + Sync + fmt::Debug,
    V: Clone + Send + Sync + fmt::Debug,
    E: Encoding<K, V>,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
