// SPDX-License-Identifier: Apache-2.0
//! Cutting a tree at keys: split and range (P-Trees paper, Figure 2b; split as in "Just Join").
//!
//! Both walk one path per cut and join what hangs off it. The sizes of the joined pieces grow along the path,
//! so the costs of the joins telescope: `O(log n + B)` altogether.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;

use crate::balance::join;
use crate::find::first;
use crate::node::{Link, position, take_apart};
use crate::summary::Summary;
use crate::update::{halve, remove_first};

/// Cuts a tree into the entries below `key` and those from it on. Work `O(log n + B)`.
pub(crate) fn divide<K, V, Q, S: Summary<K, V>, const B: usize>(
    link: Link<K, V, S, B>,
    key: &Q,
) -> (Link<K, V, S, B>, Link<K, V, S, B>)
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    match link {
        Link::Empty => (Link::Empty, Link::Empty),
        Link::Leaf(mut leaf) => match position(&leaf, |other: &K| other.borrow() < key) {
            0 => (Link::Empty, Link::Leaf(leaf)),
            at if at == leaf.len() => (Link::Leaf(leaf), Link::Empty),
            at => {
                let (left, right) = halve(&mut leaf, at);
                (Link::from_block(left), Link::from_block(right))
            }
        },
        Link::Inner(node) => {
            let (left, separator, right) = take_apart(node);
            match key.cmp(separator.borrow()) {
                Ordering::Equal => (left, right),
                Ordering::Less => {
                    let (low, high) = divide(left, key);
                    (low, join(high, separator, right))
                }
                Ordering::Greater => {
                    let (low, high) = divide(right, key);
                    (join(left, separator, low), high)
                }
            }
        }
    }
}

/// A tree cut at a key: everything below it, its entry if there was one, everything above it.
pub(crate) type Halves<K, V, S, const B: usize> = (Link<K, V, S, B>, Option<(K, V)>, Link<K, V, S, B>);

/// Cuts a tree around `key`. Work `O(log n + B)`.
pub(crate) fn split<K, V, Q, S: Summary<K, V>, const B: usize>(
    link: Link<K, V, S, B>,
    key: &Q,
) -> Halves<K, V, S, B>
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    let (low, mut high) = divide(link, key);
    match first(&high) {
        Some(entry) if entry.0.borrow() == key => {
            let hit = remove_first(&mut high);
            (low, hit, high)
        }
        _ => (low, None, high),
    }
}

/// Whether all keys less than `separator` lie before everything that starts at `lower`.
#[inline]
pub(crate) fn starts_from<Q: Ord + ?Sized>(separator: &Q, lower: Bound<&Q>) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) | Bound::Excluded(bound) => separator <= bound,
    }
}

/// Whether `key` lies before everything that starts at `lower`.
#[inline]
pub(crate) fn is_below<Q: Ord + ?Sized>(key: &Q, lower: Bound<&Q>) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) => key < bound,
        Bound::Excluded(bound) => key <= bound,
    }
}

/// Whether `key` lies after everything that ends at `upper`.
#[inline]
pub(crate) fn is_above<Q: Ord + ?Sized>(key: &Q, upper: Bound<&Q>) -> bool {
    match upper {
        Bound::Unbounded => false,
        Bound::Included(bound) => key > bound,
        Bound::Excluded(bound) => key >= bound,
    }
}

/// The entries between two bounds, sharing all subtrees that lie between them whole. Work `O(log n + B)`.
pub(crate) fn range<K, V, Q, S: Summary<K, V>, const B: usize>(
    link: &Link<K, V, S, B>,
    lower: Bound<&Q>,
    upper: Bound<&Q>,
) -> Link<K, V, S, B>
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    match (link, lower, upper) {
        (Link::Empty, _, _) | (_, Bound::Unbounded, Bound::Unbounded) => link.clone(),
        (Link::Leaf(leaf), _, _) => {
            let start = position(leaf, |key| is_below(key.borrow(), lower));
            let end = position(leaf, |key| !is_above(key.borrow(), upper));
            if start == 0 && end == leaf.len() {
                return link.clone();
            }
            // Bounds the wrong way round enclose nothing.
            Link::from_block(leaf[start..end.max(start)].iter().cloned().collect())
        }
        (Link::Inner(node), _, _) => {
            let separator = node.separator.borrow();
            if starts_from(separator, lower) {
                range(&node.right, lower, upper)
            } else if is_above(separator, upper) {
                range(&node.left, lower, upper)
            } else {
                let left = range(&node.left, lower, Bound::Unbounded);
                let right = range(&node.right, Bound::Unbounded, upper);
                join(left, node.separator.clone(), right)
            }
        }
    }
}

#[cfg(test)]
mod tests;
