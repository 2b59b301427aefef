// SPDX-License-Identifier: Apache-2.0
//! The map's operations on many keys at once: sorted batches and other trees.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::mem::take;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::build::{is_strictly_sorted, sort_and_combine};
use crate::bulk::{Alter, Delete, Edit, Fate, Insert, Modify, Update, apply};
use crate::find::{find_in_pieces, find_many};
use crate::grain::{BUILD_GRAIN, Grain};
use crate::sets;
use crate::summary::Summary;
use crate::tree::PTree;

/// Each change in a place that it can be taken from, once its key is found.
fn edits<K: Send, C: Send>(batch: Vec<(K, C)>) -> Vec<(K, Option<C>)> {
    if batch.len() <= BUILD_GRAIN {
        return batch.into_iter().map(|(key, change)| (key, Some(change))).collect();
    }
    let batch = batch.into_par_iter().with_min_len(BUILD_GRAIN);
    batch.map(|(key, change)| (key, Some(change))).collect()
}

impl<K, V, S, const B: usize> PTree<K, V, S, B>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
{
    /// Puts all pairs of a batch with strictly increasing keys: `combine(key, old, new)` where the key is present,
    /// the new value where it is not.
    ///
    /// Work `O(m log(n / m + 1))`, span `O(log m log n)` for `m` pairs, in parallel from some hundreds of pairs on
    /// (P-Trees paper, section 3.1). Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut totals: coeval_ptree::PTree<&str, u32> = [("a", 1), ("b", 2)].into_iter().collect();
    /// totals.multi_insert(vec![("b", 40), ("c", 3)], |_, old, new| old + new);
    /// assert_eq!(totals.into_iter().collect::<Vec<_>>(), [("a", 1), ("b", 42), ("c", 3)]);
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged. If `combine` panics, so does this, and
    /// this tree is left empty; clones made before are intact.
    pub fn multi_insert<F>(&mut self, batch: Vec<(K, V)>, combine: F)
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        self.edit(&mut edits(batch), &Insert(combine));
    }

    /// Puts `Some` values and removes the keys with `None`, in one pass over a batch with strictly increasing keys.
    ///
    /// Cost as [`multi_insert`](Self::multi_insert). Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut tree: coeval_ptree::PTree<&str, u32> = [("a", 1), ("b", 2)].into_iter().collect();
    /// tree.multi_update(vec![("a", None), ("b", Some(5)), ("c", Some(6)), ("d", None)]);
    /// assert_eq!(tree.into_iter().collect::<Vec<_>>(), [("b", 5), ("c", 6)]);
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged.
    pub fn multi_update(&mut self, mut batch: Vec<(K, Option<V>)>) {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        self.edit(&mut batch, &Update);
    }

    /// Lets `alter(old, change)` say what becomes of each key of a batch with strictly increasing keys: a value
    /// puts it, `None` removes it.
    ///
    /// Cost as [`multi_insert`](Self::multi_insert). Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut stock: coeval_ptree::PTree<&str, i32> = [("a", 1), ("b", 2)].into_iter().collect();
    /// stock.alter_many(vec![("a", -1), ("b", 5), ("c", 3)], |old, change| {
    ///     Some(old.unwrap_or(&0) + change).filter(|left| *left != 0)
    /// });
    /// assert_eq!(stock.into_iter().collect::<Vec<_>>(), [("b", 7), ("c", 3)]);
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged. If `alter` panics, so does this, and
    /// this tree is left empty; clones made before are intact.
    pub fn alter_many<C, F>(&mut self, batch: Vec<(K, C)>, alter: F)
    where
        C: Send + Sync,
        F: Fn(Option<&V>, C) -> Option<V> + Sync,
    {
        self.alter_many_touching(batch, alter, |_| {});
    }

    /// As [`alter_many`](Self::alter_many), with a hint: `touch` is called with each value of a block that is about
    /// to be copied. Where a clone changes memory that the value points to, such as a reference count, and `touch`
    /// reads that memory, the processor fetches it for all values of the block at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let row = |number: u32| Arc::new([number; 16]);
    /// let mut rows: coeval_ptree::PTree<u32, Arc<[u32; 16]>> = (0..100).map(|key| (key, row(key))).collect();
    /// let snapshot = rows.clone();
    /// // Copying the block of the key counts a reference to each of its rows.
    /// rows.alter_many_touching(vec![(7, 70)], |_, new| Some(row(new)), |row| {
    ///     std::hint::black_box(Arc::strong_count(row));
    /// });
    /// assert_eq!((rows.get(&7).unwrap()[0], snapshot.get(&7).unwrap()[0]), (70, 7));
    /// ```
    ///
    /// # Panics
    /// As [`alter_many`](Self::alter_many).
    pub fn alter_many_touching<C, F, T>(&mut self, batch: Vec<(K, C)>, alter: F, touch: T)
    where
        C: Send + Sync,
        F: Fn(Option<&V>, C) -> Option<V> + Sync,
        T: Fn(&V) + Sync,
    {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        self.edit(&mut edits(batch), &Alter(alter, touch, PhantomData));
    }

    /// As [`multi_insert`](Self::multi_insert), for pairs in any order: equal keys are first folded in their order
    /// with `combine(key, earlier, later)`. Work `O(m log n)` (P-Trees paper, Figure 2a).
    ///
    /// ```
    /// let mut counts: coeval_ptree::PTree<char, u32> = coeval_ptree::PTree::new();
    /// counts.multi_insert_unsorted("abracadabra".chars().map(|letter| (letter, 1)).collect(), |_, a, b| a + b);
    /// assert_eq!(counts.get(&'a'), Some(&5));
    /// ```
    ///
    /// # Panics
    /// If `combine` does; then this tree is left empty or as it was, and clones made before are intact.
    pub fn multi_insert_unsorted<F>(&mut self, batch: Vec<(K, V)>, combine: F)
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        let batch = sort_and_combine(batch, &combine);
        self.edit(&mut edits(batch), &Insert(combine));
    }

    /// Calls `modify(key, value, change)` for each change of a batch with strictly increasing keys; where a key is
    /// absent, the value is the default one. Entries that `modify` does not keep are removed.
    ///
    /// Values are changed in place: where they are trees themselves, a batch of batches goes down through all levels
    /// and copies no more than the paths (P-Trees paper, Figure 5). `grain` says how many changes make a task.
    /// Cost as [`multi_insert`](Self::multi_insert), plus that of `modify`.
    ///
    /// ```
    /// use coeval_ptree::{Fate, Grain, PTree};
    /// let mut orders: PTree<u32, PTree<u32, &str>> = PTree::new();
    /// let lines = vec![(1, vec![(1, "nut"), (2, "bolt")]), (2, vec![(1, "nail")])];
    /// orders.multi_modify(lines, Grain::UPDATE, |_, order, lines| {
    ///     order.multi_insert(lines, |_, _, new| new);
    ///     Fate::Keep
    /// });
    /// assert_eq!(orders.get(&1).unwrap().get(&2), Some(&"bolt"));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged. If `modify` panics, so does this, and
    /// this tree is left empty; clones made before are intact.
    pub fn multi_modify<C, F>(&mut self, batch: Vec<(K, C)>, grain: Grain, modify: F)
    where
        V: Default,
        C: Send + Sync,
        F: Fn(&K, &mut V, C) -> Fate + Sync,
    {
        assert!(is_strictly_sorted(&batch, |item| &item.0), "keys of a batch must strictly increase");
        self.edit(&mut edits(batch), &Modify { modify, grain: grain.count(), changes: PhantomData });
    }

    /// The value of each key, in the order of `keys`, which may be any. They may be given in any form that a key can be
    /// borrowed in.
    ///
    /// Several descents run side by side, so that their cache misses overlap: in a large tree this is some times as
    /// fast as as many calls of [`get`](Self::get), even on one thread. Sorted keys are faster still. Work
    /// `O(m log n)`, span `O(log n)` (PAM's `multi_find`).
    ///
    /// ```
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// assert_eq!(tens.multi_find(&[40, 5, 10]), [Some(&4), None, Some(&1)]);
    ///
    /// let words: coeval_ptree::PTree<String, u32> = [("one".to_owned(), 1)].into_iter().collect();
    /// assert_eq!(words.multi_find::<str, _>(&["one", "two"]), [Some(&1), None]);
    /// ```
    #[must_use]
    pub fn multi_find<Q, T>(&self, keys: &[T]) -> Vec<Option<&V>>
    where
        K: Borrow<Q>,
        T: Borrow<Q> + Sync,
        Q: Ord + ?Sized,
    {
        find_in_pieces(keys, |keys, found| find_many(&self.root, keys, found))
    }

    /// Removes all keys of a batch with strictly increasing keys; absent ones do not matter.
    ///
    /// Cost as [`multi_insert`](Self::multi_insert). Other clones of the tree keep their contents.
    ///
    /// ```
    /// let mut tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// tens.multi_delete(&[10, 15, 90]);
    /// assert_eq!((tens.len(), tens.first()), (7, Some((&20, &2))));
    /// ```
    ///
    /// # Panics
    /// If the keys do not strictly increase; then the tree is unchanged.
    pub fn multi_delete(&mut self, keys: &[K]) {
        assert!(is_strictly_sorted(keys, |key| key), "keys of a batch must strictly increase");
        let mut keys: Vec<&K> = if keys.len() <= BUILD_GRAIN {
            keys.iter().collect()
        } else {
            keys.par_iter().with_min_len(BUILD_GRAIN).collect()
        };
        self.edit(&mut keys, &Delete(PhantomData));
    }

    /// Applies a batch. The root is taken out meanwhile, so that a panic in the middle leaves an empty tree and
    /// not one with wrong counts.
    fn edit<E: Edit<K, V>>(&mut self, batch: &mut [E::Item], edit: &E) {
        let mut root = take(&mut self.root);
        apply(&mut root, batch, edit);
        self.root = root;
    }

    /// All entries of both; where both have a key, `combine(key, mine, theirs)`.
    ///
    /// Work `O(m log(n / m + 1))`, span `O(log m log n)` for trees of `m <= n` entries, in parallel ("Just Join").
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mine: PTree<u32, u32> = [(1, 1), (2, 2)].into_iter().collect();
    /// let theirs: PTree<u32, u32> = [(2, 20), (3, 30)].into_iter().collect();
    /// let all = mine.clone().union(theirs.clone(), |_, mine, theirs| mine + theirs);
    /// assert_eq!(all.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 22), (3, 30)]);
    /// let common = mine.clone().intersection(theirs.clone(), |_, mine, theirs| mine + theirs);
    /// assert_eq!(common.into_iter().collect::<Vec<_>>(), [(2, 22)]);
    /// assert_eq!(mine.difference(&theirs).into_iter().collect::<Vec<_>>(), [(1, 1)]);
    /// ```
    #[must_use]
    pub fn union<F>(self, other: Self, combine: F) -> Self
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        Self::from_root(sets::union(self.root, other.root, &combine))
    }

    /// The entries whose keys both have, with `combine(key, mine, theirs)` as values. Cost as [`union`](Self::union).
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mine: PTree<u32, u32> = [(1, 1), (2, 2)].into_iter().collect();
    /// let theirs: PTree<u32, u32> = [(2, 20), (3, 30)].into_iter().collect();
    /// let common = mine.intersection(theirs, |_, mine, theirs| mine + theirs);
    /// assert_eq!(common.into_iter().collect::<Vec<_>>(), [(2, 22)]);
    /// ```
    #[must_use]
    pub fn intersection<F>(self, other: Self, combine: F) -> Self
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        Self::from_root(sets::intersection(self.root, other.root, &combine))
    }

    /// The entries whose keys `other` does not have; its values and block size may be others. Cost as
    /// [`union`](Self::union).
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let old: PTree<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
    /// let mut new = old.clone();
    /// new.insert(100_000, 0);
    /// // What the two versions share is not visited.
    /// assert_eq!(new.difference(&old).into_iter().collect::<Vec<_>>(), [(100_000, 0)]);
    /// ```
    #[must_use]
    pub fn difference<W, T, const C: usize>(self, other: &PTree<K, W, T, C>) -> Self
    where
        W: Send + Sync,
        T: Send + Sync,
    {
        Self::from_root(sets::difference(self.root, &other.root))
    }
}
