// SPDX-License-Identifier: Apache-2.0
//! Questions that summaries answer: the aggregate of a range, searches by aggregate, filters that prune (PAM, PPoPP
//! 2018, section 4; P-Trees paper, section 2).

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use crate::cut::{is_above, is_below, starts_from};
use crate::grain::{BATCH_GRAIN, both};
use crate::node::{Link, position, summary_of};
use crate::pass::{filter_leaf, relink};
use crate::summary::{Summary, of_entries};
use crate::tree::PTree;

impl<K, V, const B: usize, S: Summary<K, V>> PTree<K, V, S, B> {
    /// The summary of all entries. `O(1)`.
    ///
    /// ```
    /// use coeval_ptree::{Max, PTree};
    /// let mut heat: PTree<u32, u32, Max<u32>> = (0..100).map(|at| (at, at * 7 % 10)).collect();
    /// heat.insert(50, 99);
    /// assert_eq!(heat.summary(), Max(Some(99)));
    /// ```
    #[must_use]
    #[inline]
    pub fn summary(&self) -> S {
        summary_of(&self.root)
    }

    /// The summary of the entries within `bounds`. `O(log n + B)` (PAM's `aug_range`).
    ///
    /// Bounds the wrong way round enclose nothing.
    ///
    /// ```
    /// use coeval_ptree::{Max, PTree, Sum};
    /// let sales = (0..365).map(|day| (day, u64::from(day % 30)));
    /// let sales: PTree<u32, u64, (Sum<u64>, Max<u64>)> = sales.collect();
    /// assert_eq!(sales.aggregate(60..90), (Sum(435), Max(Some(29))));
    /// ```
    #[must_use]
    pub fn aggregate<Q, R>(&self, bounds: R) -> S
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        aggregate(&self.root, bounds.start_bound(), bounds.end_bound())
    }

    /// The first entry at which `within` no longer holds for the summary of all entries up to it, and the summary
    /// of those before it. `O(log n + B)` (PAM's `aug_select`).
    ///
    /// `within` must hold for a prefix of the entries. Where `combine` rounds, as sums of floats do, whole subtrees are
    /// added at once, so that the entry found may be one beside that of a loop over all entries.
    ///
    /// ```
    /// use coeval_ptree::{PTree, Sum};
    /// // Fill an order of 25 from the best prices.
    /// let asks: PTree<u32, u64, Sum<u64>> = [(100, 10), (101, 10), (102, 10)].into_iter().collect();
    /// let (before, price, _) = asks.select_by(|quantity| quantity.0 < 25).unwrap();
    /// assert_eq!((before, *price), (Sum(20), 102));
    /// ```
    #[must_use]
    pub fn select_by<F>(&self, within: F) -> Option<(S, &K, &V)>
    where
        F: Fn(&S) -> bool,
    {
        let mut before = S::empty();
        let (key, value) = select_by(&self.root, &mut before, &within)?;
        Some((before, key, value))
    }

    /// The entries whose own summary satisfies `holds`, in parallel; subtrees whose summary does not are passed over,
    /// and subtrees kept whole are shared.
    ///
    /// `holds` must be true of a combination if it is true of a part. Work `O(k log(n / k + 1))` for `k` entries found,
    /// span `O(log^2 n)` (PAM's `aug_filter`).
    ///
    /// ```
    /// use coeval_ptree::{Max, PTree};
    /// let heat: PTree<u32, u32, Max<u32>> = (0..10_000).map(|i| (i, i * 7919 % 1000)).collect();
    /// assert_eq!(heat.aug_filter(|max| max.0 >= Some(998)).len(), 20);
    /// ```
    #[must_use]
    pub fn aug_filter<F>(&self, holds: F) -> Self
    where
        K: Clone + Send + Sync,
        V: Clone + Send + Sync,
        F: Fn(&S) -> bool + Sync,
    {
        Self::from_root(aug_filter(&self.root, &holds))
    }
}

/// The summary of the entries between two bounds.
fn aggregate<K, V, Q, S, const B: usize>(link: &Link<K, V, S, B>, lower: Bound<&Q>, upper: Bound<&Q>) -> S
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
    S: Summary<K, V>,
{
    match (link, lower, upper) {
        (Link::Empty, _, _) | (_, Bound::Unbounded, Bound::Unbounded) => summary_of(link),
        (Link::Leaf(leaf), _, _) => {
            let start = position(leaf, |key| is_below(key.borrow(), lower));
            let end = position(leaf, |key| !is_above(key.borrow(), upper));
            of_entries(&leaf[start..end.max(start)])
        }
        (Link::Inner(node), _, _) => {
            let separator = node.separator.borrow();
            if starts_from(separator, lower) {
                aggregate(&node.right, lower, upper)
            } else if is_above(separator, upper) {
                aggregate(&node.left, lower, upper)
            } else {
                let left = aggregate(&node.left, lower, Bound::Unbounded);
                left.combine(&aggregate(&node.right, Bound::Unbounded, upper))
            }
        }
    }
}

/// The first entry with which the summary of all up to it leaves `within`; `before` becomes the summary of what comes
/// before that entry, or of all.
fn select_by<'t, K, V, F, S, const B: usize>(
    link: &'t Link<K, V, S, B>,
    before: &mut S,
    within: &F,
) -> Option<&'t (K, V)>
where
    F: Fn(&S) -> bool,
    S: Summary<K, V>,
{
    match link {
        Link::Empty => None,
        Link::Leaf(leaf) => leaf.iter().find(|(key, value)| {
            let up_to = before.combine(&S::of(key, value));
            let is_within = within(&up_to);
            if is_within {
                *before = up_to;
            }
            !is_within
        }),
        Link::Inner(node) => {
            let up_to = node.left.kept_summary().map_or_else(|| before.clone(), |left| before.combine(left));
            if within(&up_to) {
                *before = up_to;
            } else if let Some(entry) = select_by(&node.left, before, within) {
                return Some(entry);
            }
            // Where `combine` rounds, entry by entry may stay within where all at once do not: then go on here.
            select_by(&node.right, before, within)
        }
    }
}

/// The entries whose own summary satisfies `holds`.
fn aug_filter<K, V, F, S, const B: usize>(link: &Link<K, V, S, B>, holds: &F) -> Link<K, V, S, B>
where
    K: Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: Summary<K, V>,
    F: Fn(&S) -> bool + Sync,
{
    if !link.kept_summary().is_some_and(holds) {
        return Link::Empty;
    }
    match link {
        Link::Empty => Link::Empty,
        Link::Leaf(leaf) => filter_leaf(link, leaf, &|key: &K, value: &V| holds(&S::of(key, value))),
        Link::Inner(node) => {
            let (left, right) = both(
                node.size,
                BATCH_GRAIN,
                || aug_filter(&node.left, holds),
                || aug_filter(&node.right, holds),
            );
            relink(link, node, left, right)
        }
    }
}

#[cfg(test)]
mod tests;
