// SPDX-License-Identifier: Apache-2.0
//! The map itself: what callers see of the tree.

use std::borrow::Borrow;
use std::fmt;
use std::mem::take;
use std::ops::{Bound, RangeBounds};

use crate::balance::{self, from_exact_iter};
use crate::build::{build, from_sorted_vec, is_strictly_sorted};
use crate::cut::{range, split};
use crate::find::is_present;
use crate::invariants::{BrokenInvariant, Shape, Visited, check, check_summaries, shape};
use crate::iter::Iter;
use crate::node::{DEFAULT_BLOCK, Link};
use crate::range_iter::RangeIter;
use crate::summary::{Summary, is_kept};
use crate::update::{insert, modify_present, remove_first, remove_last, remove_present};
use crate::warm::warm_path;

/// A persistent ordered map: a clone costs one reference count, and no update of one clone is seen by another.
///
/// The tree is weight-balanced, with all entries in leaf blocks of at most `B` entries, and every node keeps a summary
/// `S` of its entries (see [`Summary`]; none by default, which costs nothing). Operations that take `self` or
/// `&mut self` change nodes in place when no other tree holds them and copy the path otherwise. `B` must be at
/// least 4.
///
/// In the costs given, `n` is the number of entries; every operation that changes a tree also spends `O(B)` on
/// copying a leaf.
///
/// ```
/// use coeval_ptree::PTree;
///
/// let mut stock: PTree<&str, u32> = PTree::new();
/// stock.insert("bolt", 10);
/// stock.insert("nut", 12);
///
/// let yesterday = stock.clone(); // O(1)
/// stock.insert("bolt", 7);
/// stock.remove("nut");
///
/// assert_eq!(stock.get("bolt"), Some(&7));
/// assert_eq!(yesterday.get("bolt"), Some(&10));
/// assert_eq!(yesterday.len(), 2);
/// ```
pub struct PTree<K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    pub(crate) root: Link<K, V, S, B>,
}

impl<K, V> PTree<K, V> {
    /// An empty map with the default block size; [`Default`] makes one of any block size.
    ///
    /// ```
    /// let mut tree = coeval_ptree::PTree::new();
    /// tree.insert("key", 1);
    /// assert_eq!(tree.len(), 1);
    /// ```
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K, V, S, const B: usize> PTree<K, V, S, B> {
    const BLOCK_IS_SOUND: () = assert!(B >= 4, "B must be at least 4");

    /// Wraps a standalone subtree.
    #[inline]
    pub(crate) fn from_root(root: Link<K, V, S, B>) -> Self {
        let () = Self::BLOCK_IS_SOUND;
        PTree { root }
    }

    /// The number of entries. `O(1)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.len(), 9);
    /// ```
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.root.size()
    }

    /// Whether there are no entries. `O(1)`.
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u32, u32> = coeval_ptree::PTree::new();
    /// assert!(tree.is_empty());
    /// ```
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Whether both are the same tree in memory: then they have the same contents; if not, nothing is said.
    /// `O(1)`.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let snapshot = tens.clone();
    /// assert!(tens.ptr_eq(&snapshot));
    /// tens.insert(10, 1);
    /// assert!(!tens.ptr_eq(&snapshot) && tens == snapshot);
    /// ```
    #[must_use]
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.root.ptr_eq(&other.root)
    }

    /// How the tree is laid out in memory. `O(n / B)`.
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
    /// let shape = tree.shape();
    /// assert_eq!((shape.entries, shape.leaves), (10_000, shape.inner_nodes + 1));
    /// ```
    #[must_use]
    pub fn shape(&self) -> Shape {
        shape(&self.root)
    }

    /// Visits every node and checks all invariants. `O(n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.check_invariants(), Ok(()));
    /// ```
    ///
    /// # Errors
    /// The first broken invariant found, if keys do not strictly increase, a count is wrong, siblings are out
    /// of balance, or a block is too small. The tree is not changed. Unless `Ord` of the keys contradicts
    /// itself, no operation of this crate leads there.
    pub fn check_invariants(&self) -> Result<(), BrokenInvariant>
    where
        K: Ord,
        S: Summary<K, V>,
    {
        check(&self.root, &mut Visited::nothing())?;
        check_summaries(&self.root, 0)
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize, S: Summary<K, V>> PTree<K, V, S, B> {
    /// A tree of entries in strictly increasing key order. `O(n)`.
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u32, u32> = coeval_ptree::PTree::from_sorted_iter((0..100).map(|key| (key, 1)));
    /// assert_eq!(tree.len(), 100);
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase.
    #[must_use]
    pub fn from_sorted_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: Vec<(K, V)> = entries.into_iter().collect();
        assert!(entries.windows(2).all(|two| two[0].0 < two[1].0), "keys must strictly increase");
        let count = entries.len();
        Self::from_root(from_exact_iter(&mut entries.into_iter(), count))
    }

    /// Changes the tree by one key. Where summaries are kept, the root is taken out meanwhile, so that a panic of theirs
    /// leaves an empty tree and not one with wrong counts.
    #[inline]
    fn change<R>(&mut self, change: impl FnOnce(&mut Link<K, V, S, B>) -> R) -> R {
        if !is_kept::<S>() {
            return change(&mut self.root);
        }
        let mut root = take(&mut self.root);
        let result = change(&mut root);
        self.root = root;
        result
    }

    /// Puts `value` at `key` and returns the value that it replaces; the stored key stays.
    ///
    /// `O(log n)`: one descent. Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.insert(40, 0), tens.insert(45, 0)), (Some(4), None));
    /// ```
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let () = Self::BLOCK_IS_SOUND;
        warm_path(&self.root, &key);
        self.change(|root| insert(root, key, value))
    }

    /// Removes `key` and returns its value, if it was there.
    ///
    /// `O(log n)`; copies nothing if the key is absent. Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.remove(&40), tens.remove(&40)), (Some(4), None));
    /// ```
    #[inline]
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if !is_present(&self.root, key) {
            return None;
        }
        warm_path(&self.root, key);
        Some(self.change(|root| remove_present(root, key)).1)
    }

    /// Changes the value of `key` in place and returns what `change` returns; `None` if the key is absent, then
    /// nothing is copied.
    ///
    /// The value is cloned first if another tree holds its leaf; so where values are trees themselves, the path copy
    /// goes on through them (P-Trees paper, Figure 5). `O(log n)` and `change`.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mut baskets: PTree<&str, PTree<&str, u32>> = PTree::new();
    /// baskets.upsert("ann", |basket| basket.insert("apple", 1));
    /// let before = baskets.clone();
    /// assert_eq!(baskets.modify("ann", |basket| basket.insert("apple", 2)), Some(Some(1)));
    /// assert_eq!(before.get("ann").unwrap().get("apple"), Some(&1));
    /// assert_eq!(baskets.modify("bob", |basket| basket.len()), None);
    /// ```
    ///
    /// # Panics
    /// If `change` does. Without summaries the value is then as it left it, in this tree alone; with them the tree is
    /// left empty, since they cannot be brought up to date. Clones made before are intact.
    pub fn modify<Q, R, F>(&mut self, key: &Q, change: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        F: FnOnce(&mut V) -> R,
    {
        if !is_present(&self.root, key) {
            return None;
        }
        warm_path(&self.root, key);
        Some(self.change(|root| modify_present(root, key, change)))
    }

    /// Changes the value of `key` in place, or puts the default value and changes that. Cost and behaviour as
    /// [`modify`](Self::modify).
    ///
    /// ```
    /// let mut counts: coeval_ptree::PTree<char, u32> = coeval_ptree::PTree::new();
    /// "abracadabra".chars().for_each(|letter| counts.upsert(letter, |count| *count += 1));
    /// assert_eq!(counts.get(&'a'), Some(&5));
    /// ```
    ///
    /// # Panics
    /// As [`modify`](Self::modify); if the key is absent, the tree stays as it was.
    pub fn upsert<R, F>(&mut self, key: K, change: F) -> R
    where
        V: Default,
        F: FnOnce(&mut V) -> R,
    {
        if is_present(&self.root, &key) {
            warm_path(&self.root, &key);
            return self.change(|root| modify_present(root, &key, change));
        }
        let mut value = V::default();
        let result = change(&mut value);
        self.insert(key, value);
        result
    }

    /// Removes and returns the entry with the smallest key. `O(log n)`.
    ///
    /// ```
    /// let mut queue: coeval_ptree::PTree<u32, char> = [(2, 'b'), (1, 'a')].into_iter().collect();
    /// assert_eq!(queue.pop_first(), Some((1, 'a')));
    /// assert_eq!(queue.pop_last(), Some((2, 'b')));
    /// assert_eq!(queue.pop_first(), None);
    /// ```
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.change(remove_first)
    }

    /// Removes and returns the entry with the largest key. `O(log n)`.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.pop_last(), Some((90, 9)));
    /// ```
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.change(remove_last)
    }

    /// The entries below `key`, its own entry if there is one, and the entries above. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// let (low, hit, high) = tens.split(&40);
    /// assert_eq!((low.len(), hit, high.len()), (3, Some((40, ())), 5));
    /// ```
    #[must_use]
    pub fn split<Q>(self, key: &Q) -> (Self, Option<(K, V)>, Self)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (low, hit, high) = split(self.root, key);
        (Self::from_root(low), hit, Self::from_root(high))
    }

    /// All entries of `left`, then all of `right`. `O(log n)`.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let [low, high]: [PTree<u32, u32>; 2] = [0, 100].map(|from| (from..from + 100).map(|key| (key, 1)).collect());
    /// assert_eq!(PTree::concat(low, high).len(), 200);
    /// ```
    ///
    /// # Panics
    /// If a key of `left` is not less than all keys of `right`.
    #[must_use]
    pub fn concat(left: Self, right: Self) -> Self {
        if let (Some((low, _)), Some((high, _))) = (left.last(), right.first()) {
            assert!(low < high, "all keys of the left tree must be less than those of the right one");
        }
        Self::from_root(balance::concat(left.root, right.root))
    }

    /// The entries up to `key`, with it, as a tree that shares all whole subtrees. `O(log n)` (P-Trees paper, the
    /// `left` of Figure 2b).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.left(&45).last(), Some((&40, &4)));
    /// ```
    #[must_use]
    pub fn left<Q>(&self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        Self::from_root(range(&self.root, Bound::Unbounded, Bound::Included(key)))
    }

    /// The entries from `key` on, with it, as a tree that shares all whole subtrees. `O(log n)` (P-Trees paper, the
    /// `right` of Figure 2b).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// assert_eq!((tens.left(&40).len(), tens.right(&40).len()), (4, 6));
    /// ```
    #[must_use]
    pub fn right<Q>(&self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        Self::from_root(range(&self.root, Bound::Included(key), Bound::Unbounded))
    }

    /// The entries within `bounds` as a tree that shares all whole subtrees between them.
    ///
    /// `O(log n)`, however many entries there are (P-Trees paper, Figure 2b). Bounds the wrong way round enclose
    /// nothing.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// assert_eq!(tens.range(25..75).len(), 5);
    /// ```
    #[must_use]
    pub fn range<Q, R>(&self, bounds: R) -> Self
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        Self::from_root(range(&self.root, bounds.start_bound(), bounds.end_bound()))
    }
}

impl<K, V, S, const B: usize> PTree<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
{
    /// A tree of entries in strictly increasing key order, built in parallel. Work `O(n)`.
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u32, u32> = coeval_ptree::PTree::from_sorted(vec![(1, 10), (2, 20)]);
    /// assert_eq!(tree.get(&2), Some(&20));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase.
    #[must_use]
    pub fn from_sorted(entries: Vec<(K, V)>) -> Self {
        assert!(is_strictly_sorted(&entries, |entry| &entry.0), "keys must strictly increase");
        Self::from_root(from_sorted_vec(entries))
    }

    /// A tree of entries in any order, sorted and built in parallel; equal keys are folded in their order with
    /// `combine(key, earlier, later)`. Work `O(n log n)`.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let letters: PTree<char, u32> = PTree::build("abracadabra".chars().map(|c| (c, 1)).collect(), |_, a, b| a + b);
    /// assert_eq!(letters.get(&'a'), Some(&5));
    /// ```
    #[must_use]
    pub fn build<F>(entries: Vec<(K, V)>, combine: F) -> Self
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        Self::from_root(build(entries, &combine))
    }
}

impl<K, V, S, const B: usize> Clone for PTree<K, V, S, B> {
    /// The same contents for one reference count. `O(1)`.
    #[inline]
    fn clone(&self) -> Self {
        Self::from_root(self.root.clone())
    }
}

impl<K, V, S, const B: usize> Default for PTree<K, V, S, B> {
    #[inline]
    fn default() -> Self {
        Self::from_root(Link::Empty)
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S, const B: usize> fmt::Debug for PTree<K, V, S, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq, S, const B: usize> PartialEq for PTree<K, V, S, B> {
    /// Same entries; `O(1)` if they are the same tree in memory.
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other) || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl<K: Eq, V: Eq, S, const B: usize> Eq for PTree<K, V, S, B> {}

impl<K, V, S, const B: usize> FromIterator<(K, V)> for PTree<K, V, S, B>
where
    K: Ord + Clone,
    V: Clone,
    S: Summary<K, V>,
{
    /// A tree of entries in any order; the last one of each key counts. `O(n log n)`.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut tree = Self::default();
        tree.extend(entries);
        tree
    }
}

impl<K, V, S, const B: usize> Extend<(K, V)> for PTree<K, V, S, B>
where
    K: Ord + Clone,
    V: Clone,
    S: Summary<K, V>,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'a, K, V, S, const B: usize> IntoIterator for &'a PTree<K, V, S, B> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V, S, B>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Clone, V: Clone, S, const B: usize> IntoIterator for PTree<K, V, S, B> {
    type Item = (K, V);
    type IntoIter = RangeIter<K, V, S, B>;

    fn into_iter(self) -> Self::IntoIter {
        let end = self.len();
        RangeIter::new(self.root, 0, end)
    }
}

#[cfg(test)]
mod tests;
