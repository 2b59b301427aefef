// SPDX-License-Identifier: Apache-2.0
//! Building a tree from entries that are already in key order.

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::balance::{concat, link};
use crate::find::first;
use crate::grain::{BUILD_GRAIN, both};
use crate::node::{Block, Link};

/// The fill of a fresh leaf: seven eighths, so that the first inserts after a load find room.
const fn fill(block: usize) -> usize {
    block - block / 8
}

/// A tree of the next `count` entries of a sorted iterator. Work `O(count)`.
///
/// The leaves are as even as can be, the larger ones first.
pub(crate) fn from_exact_iter<K, V, I, const B: usize>(entries: &mut I, count: usize) -> Link<K, V, B>
where
    K: Clone,
    I: Iterator<Item = (K, V)>,
{
    if count <= B {
        return leaf(entries, count);
    }
    grow(entries, count, count.div_ceil(fill(B)))
}

/// A tree of `count` entries over `leaves` leaves.
fn grow<K, V, I, const B: usize>(entries: &mut I, count: usize, leaves: usize) -> Link<K, V, B>
where
    K: Clone,
    I: Iterator<Item = (K, V)>,
{
    if leaves == 1 {
        return leaf(entries, count);
    }
    let left_leaves = leaves / 2;
    let (each, extra) = (count / leaves, count % leaves);
    let left_count = left_leaves * each + left_leaves.min(extra);
    let left = grow(entries, left_count, left_leaves);
    let right = grow(entries, count - left_count, leaves - left_leaves);
    let separator = first(&right).expect("each leaf gets entries").0.clone();
    link(left, separator, right)
}

/// A leaf of the next `count` entries.
fn leaf<K, V, I, const B: usize>(entries: &mut I, count: usize) -> Link<K, V, B>
where
    I: Iterator<Item = (K, V)>,
{
    let block: Block<K, V, B> = entries.take(count).collect();
    assert_eq!(block.len(), count, "the iterator holds as many entries as it said");
    Link::from_block(block)
}

/// A tree of a sorted vector, in parallel when it is long. Work `O(n)`, span `O(grain + log n)`.
pub(crate) fn from_sorted_vec<K, V, const B: usize>(mut entries: Vec<(K, V)>) -> Link<K, V, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
{
    if entries.len() <= 2 * BUILD_GRAIN {
        return from_sorted_small(entries);
    }
    // Cut from the back, so that each entry moves once more and no further.
    let mut pieces = Vec::with_capacity(entries.len() / BUILD_GRAIN + 1);
    while entries.len() > 2 * BUILD_GRAIN {
        pieces.push(entries.split_off(entries.len() - BUILD_GRAIN));
    }
    pieces.push(entries);
    pieces.reverse();
    let mut trees: Vec<Link<K, V, B>> = pieces.into_par_iter().map(from_sorted_small).collect();
    concat_all(&mut trees)
}

/// A tree of a sorted vector, on this thread.
pub(crate) fn from_sorted_small<K: Clone, V, const B: usize>(entries: Vec<(K, V)>) -> Link<K, V, B> {
    let count = entries.len();
    from_exact_iter(&mut entries.into_iter(), count)
}

/// Concatenates neighbouring trees, as a balanced binary tree of joins.
fn concat_all<K: Clone, V: Clone, const B: usize>(trees: &mut [Link<K, V, B>]) -> Link<K, V, B> {
    match trees {
        [] => Link::Empty,
        [tree] => std::mem::take(tree),
        _ => {
            let (left, right) = trees.split_at_mut(trees.len() / 2);
            concat(concat_all(left), concat_all(right))
        }
    }
}

/// Sorts by key and folds equal keys together with `combine(key, earlier, later)`.
///
/// Work `O(n log n)`, in parallel when there are many.
pub(crate) fn sort_and_combine<K, V, F>(mut entries: Vec<(K, V)>, combine: F) -> Vec<(K, V)>
where
    K: Ord + Send,
    V: Send,
    F: Fn(&K, &V, V) -> V,
{
    if entries.len() > BUILD_GRAIN {
        entries.par_sort_by(|one, other| one.0.cmp(&other.0));
    } else {
        entries.sort_by(|one, other| one.0.cmp(&other.0));
    }
    let mut unique: Vec<(K, V)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match unique.last_mut() {
            Some(last) if last.0 == key => last.1 = combine(&last.0, &last.1, value),
            _ => unique.push((key, value)),
        }
    }
    unique
}

/// Whether keys strictly increase; in parallel when there are many.
pub(crate) fn is_strictly_sorted<K: Ord + Sync, T: Sync>(items: &[T], key: fn(&T) -> &K) -> bool {
    if items.len() <= BUILD_GRAIN {
        return items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]));
    }
    let middle = items.len() / 2;
    let (low, high) = both(
        items.len(),
        BUILD_GRAIN,
        || is_strictly_sorted(&items[..=middle], key),
        || is_strictly_sorted(&items[middle..], key),
    );
    low && high
}
