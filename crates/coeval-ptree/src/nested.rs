// SPDX-License-Identifier: Apache-2.0
//! Nested and paired indexes (P-Trees paper, section 4).
//!
//! **Why.** An index whose values are indexes is a join that is never written down: the orders of a customer lie below
//! the customer, the line items of an order below the order. A condition on the outer key rules whole inner trees out,
//! and an update copies one path per level.
//!
//! **Terms.** [`primary`] maps a table's primary keys to its rows. [`secondary`] turns an index around another key: it
//! maps that key to the part of the index that has it. [`pairing`] puts two indexes on the same key side by side.
//!
//! ```
//! use coeval_ptree::{PTree, pairing_outer, primary, secondary};
//!
//! # #[derive(Clone)] struct Customer; #[derive(Clone)] struct Order { customer: u32 }
//! # #[derive(Clone)] struct Line { order: u32, number: u32 }
//! let lines = (0..40).map(|i| Line { order: i / 4, number: i % 4 }).collect();
//! let orders = (0..10).map(|i| (i, Order { customer: i % 3 }));
//! let customers: PTree<u32, Customer> = (0..5).map(|i| (i, Customer)).collect();
//!
//! let lines: PTree<(u32, u32), Line> = primary(lines, |line: &Line| (line.order, line.number));
//! let lines_of_order: PTree<u32, PTree<(u32, u32), Line>> = secondary(&lines, |_, line| line.order);
//! let orders: PTree<u32, (Order, PTree<(u32, u32), Line>)> =
//!     pairing_outer(&orders.collect::<PTree<u32, Order>>(), &lines_of_order);
//! let orders_of_customer: PTree<u32, PTree<u32, _>> = secondary(&orders, |_, (order, _)| order.customer);
//! let customers: PTree<u32, (Customer, PTree<u32, _>)> = pairing_outer(&customers, &orders_of_customer);
//!
//! let (_, orders) = customers.get(&2).unwrap();
//! assert_eq!(orders.map_reduce(|_, (_, lines)| lines.len(), |a, b| a + b, 0), 12);
//! assert!(customers.get(&4).unwrap().1.is_empty());
//! ```
//!
//! **Updates** go through the levels by [`PTree::modify`] and [`PTree::upsert`] (one key) and [`PTree::multi_modify`]
//! (a batch), whose closures get the inner tree by `&mut`. For the plain case of trees in trees there are
//! [`insert_nested`](PTree::insert_nested), [`remove_nested`](PTree::remove_nested) and
//! [`multi_insert_nested`](PTree::multi_insert_nested), which also see to it that no inner tree is empty, so that an
//! outer key is there exactly as long as something has it.
//!
//! **Cost.** An update of one entry: `O(log n)` of the outer tree and `O(log n)` of the inner one. Memory: an entry of
//! the outer tree holds a pointer to the inner one; rows are copied into each index they appear in, so large ones
//! belong behind a reference count.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::build::{from_sorted_vec, is_strictly_sorted};
use crate::bulk::Fate;
use crate::grain::{BATCH_GRAIN, Grain};
use crate::sets::{Span, pair_all, pair_common};
use crate::summary::Summary;
use crate::tree::PTree;

/// The rows of a table by their primary key, in parallel; of rows with the same key the last one counts.
///
/// Work `O(n log n)`, span that of sorting (P-Trees paper, 4.1).
///
/// ```
/// use coeval_ptree::{PTree, primary};
/// let index: PTree<u32, (u32, &str)> = primary(vec![(7, "nut"), (3, "bolt")], |row: &(u32, &str)| row.0);
/// assert_eq!(index.first(), Some((&3, &(3, "bolt"))));
/// ```
#[must_use]
pub fn primary<K, R, F, S, const B: usize>(table: Vec<R>, key: F) -> PTree<K, R, S, B>
where
    K: Ord + Clone + Send + Sync,
    R: Clone + Send + Sync,
    F: Fn(&R) -> K + Sync,
    S: Summary<K, R>,
{
    let rows = table.into_par_iter().with_min_len(Grain::SCAN.count()).map(|row| (key(&row), row));
    PTree::build(rows.collect(), |_, _, later| later)
}

/// The entries of an index grouped by another key: a tree per value of that key, in parallel.
///
/// Work `O(n log n)`, span that of sorting and one group (P-Trees paper, 4.1).
///
/// ```
/// use coeval_ptree::{PTree, secondary};
/// let cities: PTree<u32, &str> = [(1, "Bonn"), (2, "Rome"), (3, "Bonn")].into_iter().collect();
/// let by_city: PTree<&str, PTree<u32, &str>> = secondary(&cities, |_, city| *city);
/// assert_eq!(by_city.get("Bonn").unwrap().keys().collect::<Vec<_>>(), [&1, &3]);
/// ```
#[must_use]
pub fn secondary<K, V, G, F, S, T, const B: usize, const C: usize>(
    index: &PTree<K, V, S, B>,
    key: F,
) -> PTree<G, PTree<K, V, S, B>, T, C>
where
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    G: Ord + Clone + Send + Sync,
    F: Fn(&K, &V) -> G + Sync,
    S: Summary<K, V>,
    T: Summary<G, PTree<K, V, S, B>>,
{
    let keyed = index.par_iter().with_min_len(Grain::SCAN.count());
    let mut entries: Vec<(G, &K, &V)> =
        keyed.map(|(primary, value)| (key(primary, value), primary, value)).collect();
    if entries.len() > BATCH_GRAIN {
        // A stable sort keeps the order of primary keys within a group.
        entries.par_sort_by(|one, other| one.0.cmp(&other.0));
    } else {
        entries.sort_by(|one, other| one.0.cmp(&other.0));
    }
    let groups: Vec<&[(G, &K, &V)]> = entries.chunk_by(|one, other| one.0 == other.0).collect();
    let inner = |group: &[(G, &K, &V)]| {
        let entries = group.iter().map(|(_, key, value)| ((*key).clone(), (*value).clone()));
        PTree::from_root(from_sorted_vec(entries.collect()))
    };
    let trees: Vec<(G, PTree<K, V, S, B>)> = if entries.len() > BATCH_GRAIN {
        let per_task = (Grain::SCAN.count() * groups.len() / entries.len()).max(1);
        let groups = groups.into_par_iter().with_min_len(per_task);
        groups.map(|group| (group[0].0.clone(), inner(group))).collect()
    } else {
        groups.into_iter().map(|group| (group[0].0.clone(), inner(group))).collect()
    };
    PTree::from_root(from_sorted_vec(trees))
}

/// The keys that both indexes have, with both values, in parallel.
///
/// Work `O(m log(n / m + 1))`, span `O(log m log n)` for `m <= n` entries, whichever side is the smaller one (P-Trees
/// paper, 4.1).
///
/// ```
/// use coeval_ptree::{PTree, pairing};
/// let names: PTree<u32, &str> = [(1, "ann"), (2, "bob")].into_iter().collect();
/// let ages: PTree<u32, u32> = [(2, 50), (3, 60)].into_iter().collect();
/// let both: PTree<u32, (&str, u32)> = pairing(&names, &ages);
/// assert_eq!(both.into_iter().collect::<Vec<_>>(), [(2, ("bob", 50))]);
/// ```
#[must_use]
pub fn pairing<K, Y, Z, S, T, U, const B: usize, const C: usize>(
    left: &PTree<K, Y, S, B>,
    right: &PTree<K, Z, T, C>,
) -> PTree<K, (Y, Z), U, B>
where
    K: Ord + Clone + Send + Sync,
    Y: Clone + Send + Sync,
    Z: Clone + Send + Sync,
    S: Summary<K, Y>,
    T: Summary<K, Z>,
    U: Summary<K, (Y, Z)>,
{
    PTree::from_root(pair_common(&left.root, &right.root, Span::ALL))
}

/// The keys of `left`, each with its value and that of `right`, or the default where `right` has none: customers and
/// their orders, if any. Work as [`pairing`] and `O(n)` of `left`.
///
/// ```
/// use coeval_ptree::{PTree, pairing_outer};
/// let names: PTree<u32, &str> = [(1, "ann"), (2, "bob")].into_iter().collect();
/// let debts: PTree<u32, u32> = [(2, 50), (3, 60)].into_iter().collect();
/// let all: PTree<u32, (&str, u32)> = pairing_outer(&names, &debts);
/// assert_eq!(all.into_iter().collect::<Vec<_>>(), [(1, ("ann", 0)), (2, ("bob", 50))]);
/// ```
#[must_use]
pub fn pairing_outer<K, Y, Z, S, T, U, const B: usize, const C: usize>(
    left: &PTree<K, Y, S, B>,
    right: &PTree<K, Z, T, C>,
) -> PTree<K, (Y, Z), U, B>
where
    K: Ord + Clone + Send + Sync,
    Y: Clone + Send + Sync,
    Z: Clone + Default + Send + Sync,
    S: Summary<K, Y>,
    T: Summary<K, Z>,
    U: Summary<K, (Y, Z)>,
{
    PTree::from_root(pair_all(&left.root, &right.root, Span::ALL))
}

impl<G, K, V, S, T, const B: usize, const C: usize> PTree<G, PTree<K, V, S, B>, T, C>
where
    G: Ord + Clone,
    K: Ord + Clone,
    V: Clone,
    S: Summary<K, V>,
    T: Summary<G, PTree<K, V, S, B>>,
{
    /// Puts an entry into the inner tree of `group`, and returns the value that it replaces. `O(log n)` of both
    /// (P-Trees paper, Figure 5). Other clones of both trees keep their contents.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mut by_day: PTree<u32, PTree<u32, &str>> = PTree::new();
    /// by_day.insert_nested(20, 7, "order 7");
    /// assert_eq!(by_day.get_nested(&20, &7), Some(&"order 7"));
    /// by_day.remove_nested(&20, &7);
    /// assert!(by_day.is_empty());
    /// ```
    pub fn insert_nested(&mut self, group: G, key: K, value: V) -> Option<V> {
        self.upsert(group, |inner| inner.insert(key, value))
    }

    /// The value of `key` in the inner tree of `group`. `O(log n)` of both.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mut by_day: PTree<u32, PTree<u32, &str>> = PTree::new();
    /// by_day.insert_nested(20, 7, "order 7");
    /// assert_eq!((by_day.get_nested(&20, &7), by_day.get_nested(&21, &7)), (Some(&"order 7"), None));
    /// ```
    #[must_use]
    pub fn get_nested(&self, group: &G, key: &K) -> Option<&V> {
        self.get(group)?.get(key)
    }

    /// Removes `key` from the inner tree of `group`, and the group with its last entry; returns the value. `O(log n)`
    /// of both; copies nothing if the key is absent.
    ///
    /// ```
    /// use coeval_ptree::PTree;
    /// let mut by_day: PTree<u32, PTree<u32, &str>> = PTree::new();
    /// by_day.insert_nested(20, 7, "order 7");
    /// assert_eq!(by_day.remove_nested(&20, &7), Some("order 7"));
    /// assert!(!by_day.contains_key(&20));
    /// ```
    pub fn remove_nested(&mut self, group: &G, key: &K) -> Option<V> {
        if !self.get(group)?.contains_key(key) {
            return None;
        }
        let (removed, is_empty) = self.modify(group, |inner| (inner.remove(key), inner.is_empty()))?;
        if is_empty {
            self.remove(group);
        }
        removed
    }

    /// The number of entries in all inner trees. `O(n)` of the outer tree.
    ///
    /// ```
    /// use coeval_ptree::{PTree, group_batch};
    /// let mut by_day: PTree<u32, PTree<u32, u32>> = PTree::new();
    /// by_day.multi_insert_nested(group_batch(vec![((1, 7), 1), ((1, 8), 1), ((2, 7), 1)]), |_, _, new| new);
    /// assert_eq!((by_day.len(), by_day.len_nested()), (2, 3));
    /// ```
    #[must_use]
    pub fn len_nested(&self) -> usize {
        self.values().map(PTree::len).sum()
    }
}

/// A batch for a tree of trees: groups with strictly increasing keys, each a batch of its own.
pub type NestedBatch<G, K, C> = Vec<(G, Vec<(K, C)>)>;

/// Groups a batch with strictly increasing pairs of keys by the first one. `O(m)`.
///
/// ```
/// use coeval_ptree::group_batch;
/// let groups = group_batch(vec![((1, 7), 'a'), ((1, 8), 'b'), ((2, 7), 'c')]);
/// assert_eq!(groups, [(1, vec![(7, 'a'), (8, 'b')]), (2, vec![(7, 'c')])]);
/// ```
///
/// # Panics
/// If the pairs of keys do not strictly increase.
#[must_use]
pub fn group_batch<G: Ord, K: Ord, C>(batch: Vec<((G, K), C)>) -> NestedBatch<G, K, C> {
    assert!(batch.windows(2).all(|two| two[0].0 < two[1].0), "keys of a batch must strictly increase");
    let mut groups: NestedBatch<G, K, C> = Vec::new();
    for ((group, key), change) in batch {
        match groups.last_mut() {
            Some((last, changes)) if *last == group => changes.push((key, change)),
            _ => groups.push((group, vec![(key, change)])),
        }
    }
    groups
}

impl<G, K, V, S, T, const B: usize, const C: usize> PTree<G, PTree<K, V, S, B>, T, C>
where
    G: Ord + Clone + Send + Sync,
    K: Ord + Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
    T: Summary<G, PTree<K, V, S, B>>,
{
    /// Puts all pairs of all groups in one pass over both levels: `combine(key, old, new)` where a key is present.
    ///
    /// Work `O(m log(n / m + 1))` on each level, in parallel on both, from some hundreds of pairs on. Other clones keep
    /// their contents.
    ///
    /// ```
    /// use coeval_ptree::{PTree, group_batch};
    /// let mut by_day: PTree<u32, PTree<u32, u32>> = PTree::new();
    /// let batch = group_batch(vec![((1, 7), 1), ((1, 8), 1), ((2, 7), 1)]);
    /// by_day.multi_insert_nested(batch.clone(), |_, old, new| old + new);
    /// by_day.multi_insert_nested(batch, |_, old, new| old + new);
    /// assert_eq!((by_day.len(), by_day.get_nested(&1, &8)), (2, Some(&2)));
    /// ```
    ///
    /// # Panics
    /// If the keys of the groups, or those of a group, do not strictly increase; then the tree is unchanged. If `combine`
    /// panics, so does this, and this tree is left empty; clones made before are intact.
    pub fn multi_insert_nested<F>(&mut self, batch: NestedBatch<G, K, V>, combine: F)
    where
        F: Fn(&K, &V, V) -> V + Sync,
    {
        let grain = checked_grain(&batch);
        self.multi_modify(batch, grain, |_, inner, pairs| {
            inner.multi_insert(pairs, &combine);
            if inner.is_empty() { Fate::Remove } else { Fate::Keep }
        });
    }

    /// Puts `Some` values and removes the keys with `None`, in one pass over both levels; groups that become empty
    /// are removed. Cost as [`multi_insert_nested`](Self::multi_insert_nested).
    ///
    /// ```
    /// use coeval_ptree::{PTree, group_batch};
    /// let mut by_day: PTree<u32, PTree<u32, u32>> = PTree::new();
    /// by_day.insert_nested(1, 7, 1);
    /// by_day.multi_update_nested(group_batch(vec![((1, 7), None), ((2, 7), Some(5))]));
    /// assert_eq!((by_day.get(&1), by_day.get_nested(&2, &7)), (None, Some(&5)));
    /// ```
    ///
    /// # Panics
    /// If the keys of the groups, or those of a group, do not strictly increase; then the tree is unchanged.
    pub fn multi_update_nested(&mut self, batch: NestedBatch<G, K, Option<V>>) {
        let grain = checked_grain(&batch);
        self.multi_modify(batch, grain, |_, inner, changes| {
            inner.multi_update(changes);
            if inner.is_empty() { Fate::Remove } else { Fate::Keep }
        });
    }
}

/// Groups per task, so that a task holds as many changes as one of a flat batch would.
///
/// # Panics
/// If the keys of a group do not strictly increase: nothing of the batch may be applied then.
fn checked_grain<G, K: Ord + Sync, C: Sync>(batch: &NestedBatch<G, K, C>) -> Grain {
    for (_, changes) in batch {
        assert!(is_strictly_sorted(changes, |item| &item.0), "keys of a batch must strictly increase");
    }
    let changes: usize = batch.iter().map(|(_, changes)| changes.len()).sum();
    let groups = Grain::entries(BATCH_GRAIN * batch.len() / changes.max(1));
    assert!(groups.count() >= 1, "a task has something to do");
    groups
}

#[cfg(test)]
mod tests;
