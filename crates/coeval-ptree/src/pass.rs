// SPDX-License-Identifier: Apache-2.0
//! Passes over all entries: map-reduce, for-each, filter, map (P-Trees paper, section 3.2 and Figures 2c to 2e).
//!
//! All of them fork at inner nodes until a subtree is down to the [`Grain`], and go through that on one thread,
//! block by block. Where they fork follows from the shape of the tree alone, so that a reduction which is not quite
//! associative (a sum of floats) still gives the same result on any number of threads.

use crate::balance::join;
use crate::grain::{Grain, both};
use crate::iter::fold_in_order;
use crate::node::{Block, DEFAULT_BLOCK, Inner, Leaf, Link};
use crate::summary::Summary;
use crate::tree::PTree;

use triomphe::Arc;

/// A tree about to be passed over with a certain grain; made by [`PTree::scan`].
///
/// `n` is the number of entries, work per entry counted as one; span adds one task of sequential work to what is given.
#[derive(Debug)]
pub struct Scan<'a, K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    tree: &'a PTree<K, V, S, B>,
    grain: Grain,
}

impl<K, V, S, const B: usize> PTree<K, V, S, B>
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    /// Passes over all entries with tasks of a size of the caller's choice; the methods of the tree itself assume
    /// that an entry takes some nanoseconds.
    ///
    /// ```
    /// use coeval_ptree::{Grain, PTree};
    /// let tables: PTree<u32, PTree<u32, u32>> = (0..10).map(|i| (i, (0..1000).map(|k| (k, 1)).collect())).collect();
    /// // Each entry stands for a thousand, so that a task is a few entries.
    /// let sums = tables.scan(Grain::for_work(1_000));
    /// assert_eq!(sums.map_reduce(|_, table| table.map_reduce(|_, v| *v, |a, b| a + b, 0), |a, b| a + b, 0), 10_000);
    /// ```
    #[must_use]
    pub fn scan(&self, grain: Grain) -> Scan<'_, K, V, S, B> {
        Scan { tree: self, grain }
    }

    /// `reduce` over `map(key, value)` of all entries in key order, in parallel; `identity` if there are none.
    ///
    /// `reduce` must be associative and `identity` neutral. Work `O(n)`, span `O(log n)` (P-Trees paper, Figure 2d).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.map_reduce(|key, value| key * value, |a, b| a + b, 0), 2850);
    /// ```
    pub fn map_reduce<R, M, F>(&self, map: M, reduce: F, identity: R) -> R
    where
        R: Clone + Send + Sync,
        M: Fn(&K, &V) -> R + Sync,
        F: Fn(R, R) -> R + Sync,
    {
        self.scan(Grain::SCAN).map_reduce(map, reduce, identity)
    }

    /// Folds runs of entries from `identity` with `fold`, in parallel, and the results of the runs, in key order,
    /// with `reduce`.
    ///
    /// The result is that of one fold over all entries if `reduce(x, fold(identity, e)) = fold(x, e)`. Cheaper than
    /// [`map_reduce`](Self::map_reduce) where a result is large, such as a hash table or an array of counts.
    /// Work `O(n)`, span `O(log n)` (PAM's `semi_map_reduce`).
    ///
    /// ```
    /// let ages: coeval_ptree::PTree<u32, usize> = (0..1000).map(|id| (id, id as usize % 7)).collect();
    /// let histogram = ages.semi_map_reduce(
    ///     [0; 7],
    ///     |mut counts, _, age| { counts[*age] += 1; counts },
    ///     |one, other| std::array::from_fn(|age| one[age] + other[age]),
    /// );
    /// assert_eq!(histogram, [143, 143, 143, 143, 143, 143, 142]);
    /// ```
    pub fn semi_map_reduce<R, M, F>(&self, identity: R, fold: M, reduce: F) -> R
    where
        R: Clone + Send + Sync,
        M: Fn(R, &K, &V) -> R + Sync,
        F: Fn(R, R) -> R + Sync,
    {
        self.scan(Grain::SCAN).semi_map_reduce(identity, fold, reduce)
    }

    /// Calls `visit` once for each entry, on several threads and in no particular order. Work `O(n)`, span `O(log n)`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let sum = AtomicU32::new(0);
    /// tens.par_for_each(|_, value| { sum.fetch_add(*value, Ordering::Relaxed); });
    /// assert_eq!(sum.into_inner(), 45);
    /// ```
    pub fn par_for_each<F>(&self, visit: F)
    where
        F: Fn(&K, &V) + Sync,
    {
        self.scan(Grain::SCAN).foreach_index(|_, key, value| visit(key, value));
    }

    /// Calls `visit` once for each entry, with its index in key order, on several threads and in no particular order.
    ///
    /// Work `O(n)`, span `O(log n)` (P-Trees paper, Figure 2e).
    ///
    /// ```
    /// use std::sync::Mutex;
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let third = Mutex::new(None);
    /// tens.foreach_index(|index, key, _| if index == 2 { *third.lock().unwrap() = Some(*key) });
    /// assert_eq!(third.into_inner().unwrap(), Some(30));
    /// ```
    pub fn foreach_index<F>(&self, visit: F)
    where
        F: Fn(usize, &K, &V) + Sync,
    {
        self.scan(Grain::SCAN).foreach_index(visit);
    }

    /// Writes `make(key, value)` of each entry to its index in `slice`, in parallel.
    ///
    /// Work `O(n)`, span `O(log n)` (P-Trees paper, section 3.2: the use of `foreach_index`).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=3).map(|i| (10 * i, i)).collect();
    /// let mut keys = [0; 3];
    /// tens.collect_into(&mut keys, |key, _| *key);
    /// assert_eq!(keys, [10, 20, 30]);
    /// ```
    ///
    /// # Panics
    /// If the slice is not exactly as long as the tree; then it is unchanged.
    pub fn collect_into<T, F>(&self, slice: &mut [T], make: F)
    where
        T: Send,
        F: Fn(&K, &V) -> T + Sync,
    {
        self.scan(Grain::SCAN).collect_into(slice, make);
    }

    /// The entries for which `keep` holds, in parallel; subtrees kept whole are shared.
    ///
    /// Work `O(n)`, span `O(log^2 n)` (P-Trees paper, Figure 2c).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.filter(|_, value| value % 2 == 0).len(), 4);
    /// ```
    #[must_use]
    pub fn filter<F>(&self, keep: F) -> Self
    where
        K: Clone,
        V: Clone,
        S: Summary<K, V>,
        F: Fn(&K, &V) -> bool + Sync,
    {
        self.scan(Grain::SCAN).filter(keep)
    }

    /// The same keys with `map(key, value)` as values, in parallel; a tree of the same shape.
    ///
    /// Work `O(n)`, span `O(log n)` (PAM's `map`).
    ///
    /// ```
    /// let prices: coeval_ptree::PTree<&str, u32> = [("nut", 2), ("bolt", 5)].into_iter().collect();
    /// let doubled: coeval_ptree::PTree<&str, u64> = prices.map_values(|_, price| 2 * u64::from(*price));
    /// assert_eq!(doubled.get("bolt"), Some(&10));
    /// ```
    #[must_use]
    pub fn map_values<W, T, F>(&self, map: F) -> PTree<K, W, T, B>
    where
        K: Clone,
        W: Send + Sync,
        T: Summary<K, W>,
        F: Fn(&K, &V) -> W + Sync,
    {
        self.scan(Grain::SCAN).map_values(map)
    }
}

impl<K, V, S, const B: usize> Scan<'_, K, V, S, B>
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    /// See [`PTree::map_reduce`].
    pub fn map_reduce<R, M, F>(&self, map: M, reduce: F, identity: R) -> R
    where
        R: Clone + Send + Sync,
        M: Fn(&K, &V) -> R + Sync,
        F: Fn(R, R) -> R + Sync,
    {
        let fold = |sum, key: &K, value: &V| reduce(sum, map(key, value));
        semi_map_reduce(&self.tree.root, &identity, &fold, &reduce, self.grain)
    }

    /// See [`PTree::semi_map_reduce`].
    pub fn semi_map_reduce<R, M, F>(&self, identity: R, fold: M, reduce: F) -> R
    where
        R: Clone + Send + Sync,
        M: Fn(R, &K, &V) -> R + Sync,
        F: Fn(R, R) -> R + Sync,
    {
        semi_map_reduce(&self.tree.root, &identity, &fold, &reduce, self.grain)
    }

    /// See [`PTree::foreach_index`].
    pub fn foreach_index<F>(&self, visit: F)
    where
        F: Fn(usize, &K, &V) + Sync,
    {
        foreach_index(&self.tree.root, 0, &visit, self.grain);
    }

    /// See [`PTree::collect_into`].
    ///
    /// # Panics
    /// If the slice is not exactly as long as the tree; then it is unchanged.
    pub fn collect_into<T, F>(&self, slice: &mut [T], make: F)
    where
        T: Send,
        F: Fn(&K, &V) -> T + Sync,
    {
        assert_eq!(slice.len(), self.tree.len(), "a slice of exactly as many elements as there are entries");
        collect_into(&self.tree.root, slice, &make, self.grain);
    }

    /// See [`PTree::filter`].
    #[must_use]
    pub fn filter<F>(&self, keep: F) -> PTree<K, V, S, B>
    where
        K: Clone,
        V: Clone,
        S: Summary<K, V>,
        F: Fn(&K, &V) -> bool + Sync,
    {
        PTree::from_root(filter(&self.tree.root, &keep, self.grain))
    }

    /// See [`PTree::map_values`].
    #[must_use]
    pub fn map_values<W, T, F>(&self, map: F) -> PTree<K, W, T, B>
    where
        K: Clone,
        W: Send + Sync,
        T: Summary<K, W>,
        F: Fn(&K, &V) -> W + Sync,
    {
        PTree::from_root(map_values(&self.tree.root, &map, self.grain))
    }
}

/// `reduce` over folds of runs of entries, in key order.
fn semi_map_reduce<K, V, R, M, F, S, const B: usize>(
    link: &Link<K, V, S, B>,
    identity: &R,
    fold: &M,
    reduce: &F,
    grain: Grain,
) -> R
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
    R: Clone + Send + Sync,
    M: Fn(R, &K, &V) -> R + Sync,
    F: Fn(R, R) -> R + Sync,
{
    match link {
        Link::Inner(node) if node.size > grain.count() => {
            let (left, right) = rayon::join(
                || semi_map_reduce(&node.left, identity, fold, reduce, grain),
                || semi_map_reduce(&node.right, identity, fold, reduce, grain),
            );
            reduce(left, right)
        }
        _ => fold_in_order(link, identity.clone(), &mut |sum, key, value| fold(sum, key, value)),
    }
}

/// Calls `visit` for each entry, the first of which has index `start`.
fn foreach_index<K, V, F, S, const B: usize>(link: &Link<K, V, S, B>, start: usize, visit: &F, grain: Grain)
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
    F: Fn(usize, &K, &V) + Sync,
{
    match link {
        Link::Inner(node) if node.size > grain.count() => {
            rayon::join(
                || foreach_index(&node.left, start, visit, grain),
                || foreach_index(&node.right, start + node.left_size, visit, grain),
            );
        }
        _ => {
            fold_in_order(link, start, &mut |index, key, value| {
                visit(index, key, value);
                index + 1
            });
        }
    }
}

/// Fills a slice of as many elements as `link` has entries.
fn collect_into<K, V, T, F, S, const B: usize>(
    link: &Link<K, V, S, B>,
    slice: &mut [T],
    make: &F,
    grain: Grain,
) where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
    T: Send,
    F: Fn(&K, &V) -> T + Sync,
{
    match link {
        Link::Empty => {}
        Link::Leaf(leaf) => {
            for (element, (key, value)) in slice.iter_mut().zip(leaf.iter()) {
                *element = make(key, value);
            }
        }
        Link::Inner(node) => {
            let (left, right) = slice.split_at_mut(node.left_size);
            both(
                node.size,
                grain.count(),
                || collect_into(&node.left, left, make, grain),
                || collect_into(&node.right, right, make, grain),
            );
        }
    }
}

/// The entries for which `keep` holds; subtrees that are kept whole are shared. Work `O(n)`, span `O(log^2 n)`.
fn filter<K, V, F, S, const B: usize>(link: &Link<K, V, S, B>, keep: &F, grain: Grain) -> Link<K, V, S, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
    F: Fn(&K, &V) -> bool + Sync,
{
    match link {
        Link::Empty => Link::Empty,
        Link::Leaf(leaf) => filter_leaf(link, leaf, keep),
        Link::Inner(node) => {
            let (left, right) = both(
                node.size,
                grain.count(),
                || filter(&node.left, keep, grain),
                || filter(&node.right, keep, grain),
            );
            relink(link, node, left, right)
        }
    }
}

/// The entries of a leaf for which `keep` holds; the leaf itself if these are all.
#[inline]
pub(crate) fn filter_leaf<K, V, F, S, const B: usize>(
    link: &Link<K, V, S, B>,
    leaf: &Leaf<K, V, S, B>,
    keep: &F,
) -> Link<K, V, S, B>
where
    K: Clone,
    V: Clone,
    S: Summary<K, V>,
    F: Fn(&K, &V) -> bool,
{
    // One call per entry, in order: the verdicts are kept, at most `B` of them.
    let verdicts: arrayvec::ArrayVec<bool, B> = leaf.iter().map(|(key, value)| keep(key, value)).collect();
    if verdicts.iter().all(|kept| *kept) {
        return link.clone();
    }
    let kept = leaf.iter().zip(verdicts).filter(|(_, kept)| *kept);
    Link::from_block(kept.map(|(entry, _)| entry.clone()).collect())
}

/// What is left of the children of `node` as one tree; `link`, which is the node, if that is everything.
#[inline]
pub(crate) fn relink<K, V, S, const B: usize>(
    link: &Link<K, V, S, B>,
    node: &Inner<K, V, S, B>,
    left: Link<K, V, S, B>,
    right: Link<K, V, S, B>,
) -> Link<K, V, S, B>
where
    K: Clone,
    V: Clone,
    S: Summary<K, V>,
{
    let size = left.size() + right.size();
    assert!(size <= node.size, "a filter leaves no more than there was");
    if size == node.size {
        return link.clone();
    }
    join(left, node.separator.clone(), right)
}

/// A tree of the same shape with other values.
fn map_values<K, V, W, F, S, T, const B: usize>(
    link: &Link<K, V, S, B>,
    map: &F,
    grain: Grain,
) -> Link<K, W, T, B>
where
    K: Clone + Send + Sync,
    V: Send + Sync,
    W: Send + Sync,
    S: Send + Sync,
    T: Summary<K, W>,
    F: Fn(&K, &V) -> W + Sync,
{
    match link {
        Link::Empty => Link::Empty,
        Link::Leaf(leaf) => {
            let block: Block<K, W, B> =
                leaf.iter().map(|(key, value)| (key.clone(), map(key, value))).collect();
            Link::from_block(block)
        }
        Link::Inner(node) => {
            let (left, right) = both(
                node.size,
                grain.count(),
                || map_values(&node.left, map, grain),
                || map_values(&node.right, map, grain),
            );
            Link::Inner(Arc::new(Inner::new(left, node.separator.clone(), right)))
        }
    }
}

#[cfg(test)]
mod tests;
