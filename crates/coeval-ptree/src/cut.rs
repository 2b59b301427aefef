// SPDX-License-Identifier: Apache-2.0
//! Cutting a tree at keys: split and range (P-Trees paper, Figure 2b; split as in "Just Join").
//!
//! Both walk one path per cut and join what hangs off it. The sizes of the joined pieces grow along the path,
//! so the costs of the joins telescope: `O(log n + B)` altogether.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;

use crate::balance::join;
use crate::node::{Link, search, take_apart};
use crate::update::halve;

/// A tree cut at a key: everything below it, its entry if there was one, everything above it.
pub(crate) type Halves<K, V, const B: usize> = (Link<K, V, B>, Option<(K, V)>, Link<K, V, B>);

/// Cuts a tree at `key`. Work `O(log n + B)`.
pub(crate) fn split<K, V, Q, const B: usize>(link: Link<K, V, B>, key: &Q) -> Halves<K, V, B>
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    match link {
        Link::Empty => (Link::Empty, None, Link::Empty),
        Link::Leaf(mut block) => match search(&block, key) {
            Err(0) => (Link::Empty, None, Link::Leaf(block)),
            Err(at) if at == block.len() => (Link::Leaf(block), None, Link::Empty),
            Err(at) => {
                let (left, right) = halve(&mut block, at);
                (Link::from_block(left), None, Link::from_block(right))
            }
            Ok(at) => {
                let (left, mut right) = halve(&mut block, at);
                let hit = right.remove(0);
                (Link::from_block(left), Some(hit), Link::from_block(right))
            }
        },
        Link::Inner(node) => {
            let (left, entry, right) = take_apart(node);
            match key.cmp(entry.0.borrow()) {
                Ordering::Equal => (left, Some(entry), right),
                Ordering::Less => {
                    let (low, hit, high) = split(left, key);
                    (low, hit, join(high, entry, right))
                }
                Ordering::Greater => {
                    let (low, hit, high) = split(right, key);
                    (join(left, entry, low), hit, high)
                }
            }
        }
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
pub(crate) fn range<K, V, Q, const B: usize>(
    link: &Link<K, V, B>,
    lower: Bound<&Q>,
    upper: Bound<&Q>,
) -> Link<K, V, B>
where
    K: Borrow<Q> + Clone,
    V: Clone,
    Q: Ord + ?Sized,
{
    match (link, lower, upper) {
        (Link::Empty, _, _) | (_, Bound::Unbounded, Bound::Unbounded) => link.clone(),
        (Link::Leaf(block), _, _) => {
            let start = block.partition_point(|entry| is_below(entry.0.borrow(), lower));
            let end = block.partition_point(|entry| !is_above(entry.0.borrow(), upper));
            if start == 0 && end == block.len() {
                return link.clone();
            }
            // Bounds the wrong way round enclose nothing.
            Link::from_block(block[start..end.max(start)].iter().cloned().collect())
        }
        (Link::Inner(node), _, _) => {
            let key = node.entry.0.borrow();
            if is_below(key, lower) {
                range(&node.right, lower, upper)
            } else if is_above(key, upper) {
                range(&node.left, lower, upper)
            } else {
                let left = range(&node.left, lower, Bound::Unbounded);
                let right = range(&node.right, Bound::Unbounded, upper);
                join(left, node.entry.clone(), right)
            }
        }
    }
}
