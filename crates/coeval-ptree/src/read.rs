// SPDX-License-Identifier: Apache-2.0
//! The map's reads: of one key, of its neighbours, of ranks and indices, and of runs of entries in order.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use crate::cut::{is_above, is_below};
use crate::find::{count_before, find, first, first_after, is_present, last, last_before, select};
use crate::iter::Iter;
use crate::range_iter::RangeIter;
use crate::tree::PTree;

/// A stored entry as callers see it.
#[inline]
fn pair<K, V>(entry: &(K, V)) -> (&K, &V) {
    (&entry.0, &entry.1)
}

impl<K, V, S, const B: usize> PTree<K, V, S, B> {
    /// The value of `key`. `O(log n)`, no allocation, no write to memory.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.get(&40), tens.get(&45)), (Some(&4), None));
    /// ```
    #[must_use]
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        find(&self.root, key).map(|(_, value)| value)
    }

    /// The stored key that equals `key`, and its value. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.get_key_value(&40), Some((&40, &4)));
    /// ```
    #[must_use]
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        find(&self.root, key).map(pair)
    }

    /// Whether `key` is present. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert!(tens.contains_key(&40) && !tens.contains_key(&45));
    /// ```
    #[must_use]
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        is_present(&self.root, key)
    }

    /// The entry with the smallest key. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.first(), Some((&10, &1)));
    /// ```
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<(&K, &V)> {
        first(&self.root).map(pair)
    }

    /// The entry with the largest key. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.last(), Some((&90, &9)));
    /// ```
    #[must_use]
    #[inline]
    pub fn last(&self) -> Option<(&K, &V)> {
        last(&self.root).map(pair)
    }

    /// The entry with the largest key that is not greater than `key`. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// assert_eq!(tens.floor(&25), Some((&20, &())));
    /// assert_eq!(tens.ceiling(&25), Some((&30, &())));
    /// assert_eq!(tens.previous(&20), Some((&10, &())));
    /// assert_eq!(tens.next(&90), None);
    /// ```
    #[must_use]
    #[inline]
    pub fn floor<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        last_before(&self.root, |other| other.borrow() <= key).map(pair)
    }

    /// The entry with the smallest key that is not less than `key`. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.ceiling(&40), tens.ceiling(&41)), (Some((&40, &4)), Some((&50, &5))));
    /// ```
    #[must_use]
    #[inline]
    pub fn ceiling<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        first_after(&self.root, |other| other.borrow() < key).map(pair)
    }

    /// The entry with the smallest key greater than `key`. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.next(&40), tens.next(&90)), (Some((&50, &5)), None));
    /// ```
    #[must_use]
    #[inline]
    pub fn next<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        first_after(&self.root, |other| other.borrow() <= key).map(pair)
    }

    /// The entry with the largest key less than `key`. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.previous(&40), tens.previous(&10)), (Some((&30, &3)), None));
    /// ```
    #[must_use]
    #[inline]
    pub fn previous<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        last_before(&self.root, |other| other.borrow() < key).map(pair)
    }

    /// The entry with `index` smaller keys before it. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!((tens.select(0), tens.select(9)), (Some((&10, &1)), None));
    /// ```
    #[must_use]
    #[inline]
    pub fn select(&self, index: usize) -> Option<(&K, &V)> {
        select(&self.root, index).map(pair)
    }

    /// The number of keys less than `key`. `O(log n)`.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// assert_eq!(tens.rank(&35), 3);
    /// assert_eq!(tens.select(3), Some((&40, &())));
    /// ```
    #[must_use]
    #[inline]
    pub fn rank<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        count_before(&self.root, |other| other.borrow() < key)
    }

    /// All entries in key order, from both ends. `O(log n)` to start, `O(1)` amortized per entry.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let mut entries = tens.iter();
    /// assert_eq!((entries.next(), entries.next_back()), (Some((&10, &1)), Some((&90, &9))));
    /// assert_eq!(entries.len(), 7);
    /// ```
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V, S, B> {
        Iter::new(&self.root, 0, self.len())
    }

    /// All keys in order. Cost as [`iter`](Self::iter).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.keys().rev().take(2).collect::<Vec<_>>(), [&90, &80]);
    /// ```
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator {
        self.iter().map(|(key, _)| key)
    }

    /// All values in the order of their keys. Cost as [`iter`](Self::iter).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.values().sum::<u32>(), 45);
    /// ```
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator {
        self.iter().map(|(_, value)| value)
    }

    /// The entries within `bounds` in key order, from both ends. `O(log n)` to start, `O(1)` amortized per entry.
    ///
    /// Bounds the wrong way round enclose nothing.
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, ()> = (1..=9).map(|i| (10 * i, ())).collect();
    /// let keys: Vec<u32> = tens.iter_range(25..=50).rev().map(|(key, _)| *key).collect();
    /// assert_eq!(keys, [50, 40, 30]);
    /// ```
    #[must_use]
    #[inline]
    pub fn iter_range<Q, R>(&self, bounds: R) -> Iter<'_, K, V, S, B>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        let (start, end) = self.indices(&bounds);
        Iter::new(&self.root, start, end)
    }

    /// The entries within `bounds` by value; holds this version of the tree, and is `'static` if its entries are.
    /// `O(log n)` to start and per block.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let entries = tens.clone().into_range_iter(70..);
    /// tens.remove(&80);
    /// assert_eq!(entries.collect::<Vec<_>>(), [(70, 7), (80, 8), (90, 9)]);
    /// ```
    #[must_use]
    pub fn into_range_iter<Q, R>(self, bounds: R) -> RangeIter<K, V, S, B>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        let (start, end) = self.indices(&bounds);
        RangeIter::new(self.root, start, end)
    }

    /// Indices of the first entry within `bounds` and of the first one after them.
    #[inline]
    fn indices<Q, R>(&self, bounds: &R) -> (usize, usize)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        let start = match bounds.start_bound() {
            Bound::Unbounded => 0,
            lower => count_before(&self.root, |key| is_below(key.borrow(), lower)),
        };
        let end = match bounds.end_bound() {
            Bound::Unbounded => self.len(),
            upper => count_before(&self.root, |key| !is_above(key.borrow(), upper)),
        };
        (start, end)
    }
}
