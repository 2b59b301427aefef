// SPDX-License-Identifier: Apache-2.0
//! A directory: what lies above the blocks of one version, in flat arrays, for a version that is read much.
//!
//! **Why.** A lookup goes down a binary tree, and below the levels that the caches hold each step waits for memory. Wider
//! nodes would wait less, but copying one for an update counts a reference to each child, a wait for memory each. So the
//! wide nodes stand beside the tree: updates know nothing of them, and who reads one version for long makes them for it.
//!
//! **Layout.** The separators before all blocks, sixteen to a run, each run beside the references to its blocks; above
//! them the first separators of all runs, again sixteen to a run, and so on up to a single run:
//!
//! ```text
//! levels[0]   [ .  ..  .. ]                     one run
//! levels[1]   [ . . . ][ . . . ][ . . ]         sixteen times as many
//! groups      [ s s s | b b b ][ s s s | b b b ][ ...
//! ```
//!
//! A run is searched in two rounds of three comparisons, where comparing is cheap: the loads of a round come together.
//! Comparing with all of it at once takes so many instructions that the processor no longer sees the next lookup while this
//! one waits for its block: measured, nearly twice the time. The references to a group's blocks are fetched together with
//! its separators, because which one is needed is known only when those are there.
//!
//! **Memory.** A separator and a word per block: 5 MB for ten million `u64` pairs in blocks of 30, and a thirtieth of that for
//! the levels above. So mostly a lookup waits for one block.
//!
//! **Cost.** `O(n / B)` to make, a lookup is `O(log n)`. It pays from about a hundred thousand lookups of one version on.

use std::borrow::Borrow;
use std::hint::black_box;

use arrayvec::ArrayVec;
use triomphe::Arc;

use crate::find::{LANES, find_in_block, find_in_pieces, first, is_cheap};
use crate::node::{DEFAULT_BLOCK, Leaf, Link};
use crate::tree::PTree;
use crate::warm::LINE;

/// Separators of a run: for `u64` two cache lines, which come together.
const FAN: usize = 16;

/// A run of separators. Unused places at the end of the last run of a level repeat the last separator. Nothing is compared
/// with the first one: whoever gets to the run is not before it.
type Run<K> = [K; FAN];

/// Neighbouring blocks and their separators, a block's one being not greater than any key in it.
///
/// Aligned, so that it lies in as few cache lines as possible.
#[repr(align(64))] // `LINE`
struct Group<K, V, S, const B: usize> {
    separators: Run<K>,
    blocks: [Arc<Leaf<K, V, S, B>>; FAN],
}

impl<K, V, S, const B: usize> Group<K, V, S, B> {
    /// Looks at all counts: changed one after the other, their lines would come one after the other, too.
    fn touch<'b>(blocks: impl Iterator<Item = &'b Arc<Leaf<K, V, S, B>>>)
    where
        Leaf<K, V, S, B>: 'b,
    {
        black_box(blocks.map(Arc::strong_count).sum::<usize>());
    }

    /// Starts to load the references without waiting for them: each that begins a line.
    #[inline]
    fn touch_references(&self) {
        for block in self.blocks.iter().step_by(LINE / size_of::<usize>()) {
            black_box(Arc::as_ptr(block));
        }
    }

    /// The block that `key` would be in.
    #[inline]
    fn block<Q>(&self, key: &Q) -> &Arc<Leaf<K, V, S, B>>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        &self.blocks[passed(&self.separators, key)]
    }
}

impl<K, V, S, const B: usize> Drop for Group<K, V, S, B> {
    fn drop(&mut self) {
        Self::touch(self.blocks.iter());
    }
}

/// A version of a tree with a faster way to its entries, from [`PTree::directory`].
///
/// It keeps the version as any clone does, and takes the memory of a separator and a word per block beside it.
///
/// ```
/// let mut stock: coeval_ptree::PTree<u32, u32> = (0..10_000).map(|part| (part, 10)).collect();
/// let yesterday = stock.directory();
/// stock.insert(7, 3);
/// assert_eq!((stock.get(&7), yesterday.get(&7), yesterday.tree().get(&7)), (Some(&3), Some(&10), Some(&10)));
/// ```
pub struct Directory<K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    tree: PTree<K, V, S, B>,
    /// Separators of runs, the topmost run first; none where there is one group at most.
    levels: Vec<Vec<Run<K>>>,
    groups: Vec<Group<K, V, S, B>>,
}

/// A block and the separator before it.
type Found<'t, K, V, S, const B: usize> = (&'t K, &'t Arc<Leaf<K, V, S, B>>);

impl<K: Clone, V, S, const B: usize> PTree<K, V, S, B> {
    /// A directory of this version, for who looks up much in it before it reads another one.
    ///
    /// Where the tree is larger than the caches a lookup takes about half the time, and as a directory takes as long to
    /// make as some fifty thousand lookups, it is of use only for versions that change seldom. `O(n / B)`; blocks get one
    /// more reference each, what is in them is not looked at.
    ///
    /// ```
    /// let words: coeval_ptree::PTree<String, u32> = [("one".to_owned(), 1)].into_iter().collect();
    /// let directory = words.directory();
    /// assert_eq!((directory.get("one"), directory.get("two")), (Some(&1), None));
    /// ```
    #[must_use]
    pub fn directory(&self) -> Directory<K, V, S, B> {
        let mut blocks = Vec::with_capacity(2 * self.len() / B + 1);
        if let Some((first, _)) = first(&self.root) {
            collect(&self.root, first, &mut blocks);
        }
        let group = |run: &[Found<'_, K, V, S, B>]| {
            Group::touch(run.iter().map(|(_, block)| *block));
            Group {
                separators: padded(run, |(separator, _)| (*separator).clone()),
                blocks: padded(run, |(_, block)| Arc::clone(block)),
            }
        };
        let groups: Vec<Group<K, V, S, B>> = blocks.chunks(FAN).map(group).collect();
        let mut levels: Vec<Vec<Run<K>>> = Vec::new();
        let mut firsts: Vec<K> = groups.iter().map(|group| group.separators[0].clone()).collect();
        while firsts.len() > 1 {
            let level: Vec<Run<K>> = firsts.chunks(FAN).map(|run| padded(run, K::clone)).collect();
            firsts = level.iter().map(|run| run[0].clone()).collect();
            levels.push(level);
        }
        levels.reverse();
        Directory { tree: self.clone(), levels, groups }
    }
}

/// A run of what is there, the last one repeated in unused places.
fn padded<T, R>(items: &[T], of: impl Fn(&T) -> R) -> [R; FAN] {
    assert!(!items.is_empty() && items.len() <= FAN, "a run has some places and all can be used");
    std::array::from_fn(|place| of(&items[place.min(items.len() - 1)]))
}

/// Appends all blocks in order, each with the separator before it. Blocks are not looked at.
fn collect<'t, K, V, S, const B: usize>(
    link: &'t Link<K, V, S, B>,
    before: &'t K,
    blocks: &mut Vec<Found<'t, K, V, S, B>>,
) {
    match link {
        Link::Empty => {}
        Link::Leaf(leaf) => blocks.push((before, leaf)),
        Link::Inner(node) => {
            if matches!(node.right, Link::Inner(_)) {
                // It comes while the left side is walked.
                node.right.touch();
            }
            collect(&node.left, before, blocks);
            collect(&node.right, &node.separator, blocks);
        }
    }
}

/// How many separators after the first one are not greater than `key`.
#[inline]
fn passed<K, Q>(run: &Run<K>, key: &Q) -> usize
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    if !is_cheap::<K>() {
        return run[1..].partition_point(|separator| separator.borrow() <= key);
    }
    let is_passed = |place: usize| usize::from(run[place].borrow() <= key);
    let start = PART * (is_passed(PART) + is_passed(2 * PART) + is_passed(3 * PART));
    start + (1..PART).map(|place| is_passed(start + place)).sum::<usize>()
}

/// Separators between two of the first round's probes; the second round looks at those in between.
const PART: usize = 4;

const _: () = assert!(FAN == 4 * PART, "two rounds of comparisons decide among all");

impl<K, V, S, const B: usize> Directory<K, V, S, B> {
    /// The version that this is a directory of.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert!(tens.directory().tree().ptr_eq(&tens));
    /// ```
    #[must_use]
    #[inline]
    pub fn tree(&self) -> &PTree<K, V, S, B> {
        &self.tree
    }

    /// The value of `key`. `O(log n)`, no allocation, no write to memory.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let directory = tens.directory();
    /// assert_eq!((directory.get(&40), directory.get(&45)), (Some(&4), None));
    /// ```
    #[must_use]
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        find_in_block::<K, V, Q, B>(self.block(key)?, key).map(|(_, value)| value)
    }

    /// The value of each key, in the order of `keys`, which may be any: [`PTree::multi_find`] with this directory.
    ///
    /// Several descents run side by side, so that their cache misses overlap. Work `O(m log n)`, span `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.directory().multi_find(&[40, 5, 10]), [Some(&4), None, Some(&1)]);
    /// ```
    #[must_use]
    pub fn multi_find<Q, T>(&self, keys: &[T]) -> Vec<Option<&V>>
    where
        K: Borrow<Q> + Send + Sync,
        V: Send + Sync,
        S: Send + Sync,
        T: Borrow<Q> + Sync,
        Q: Ord + ?Sized,
    {
        find_in_pieces(keys, |keys, found| self.find_many(keys, found))
    }

    /// As [`multi_find`](Self::multi_find), on this thread.
    fn find_many<'d, Q, T>(&'d self, keys: &[T], found: &mut [Option<&'d V>])
    where
        K: Borrow<Q>,
        T: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if self.groups.is_empty() {
            return;
        }
        for (keys, found) in keys.chunks(LANES).zip(found.chunks_mut(LANES)) {
            let mut lanes: ArrayVec<usize, LANES> = keys.iter().map(|_| 0).collect();
            for level in &self.levels {
                lanes.iter_mut().zip(keys).for_each(|(lane, key)| *lane = below(level, *lane, key.borrow()));
            }
            let groups: ArrayVec<&Group<K, V, S, B>, LANES> =
                lanes.iter().map(|lane| &self.groups[(*lane).min(self.groups.len() - 1)]).collect();
            groups.iter().for_each(|group| group.touch_references());
            let blocks: ArrayVec<&Leaf<K, V, S, B>, LANES> =
                groups.iter().zip(keys).map(|(group, key)| &**group.block(key.borrow())).collect();
            for ((block, key), found) in blocks.iter().zip(keys).zip(found) {
                *found = find_in_block::<K, V, Q, B>(block, key.borrow()).map(|(_, value)| value);
            }
        }
    }

    /// The block that `key` would be in; none in an empty tree.
    #[inline]
    fn block<Q>(&self, key: &Q) -> Option<&Leaf<K, V, S, B>>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let place = self.levels.iter().fold(0, |place, level| below(level, place, key));
        let group = self.groups.get(place.min(self.groups.len().checked_sub(1)?))?;
        group.touch_references();
        Some(group.block(key))
    }
}

/// Where to go on for `key`, from a run of a level to one of the next.
#[inline]
fn below<K, Q>(level: &[Run<K>], place: usize, key: &Q) -> usize
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    // Behind the last run of a level is none, whatever the repeated separators above it say.
    let place = place.min(level.len() - 1);
    place * FAN + passed(&level[place], key)
}

#[cfg(test)]
mod tests;
