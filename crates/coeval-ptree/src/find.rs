// SPDX-License-Identifier: Apache-2.0
//! Lookups: one descent, no allocation, no writes.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::node::{Link, search};

/// The entry of `key`. Work `O(log n)`.
#[inline]
pub(crate) fn find<'a, K, V, Q, const B: usize>(mut link: &'a Link<K, V, B>, key: &Q) -> Option<&'a (K, V)>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => return search(block, key).ok().map(|at| &block[at]),
            Link::Inner(node) => match key.cmp(node.entry.0.borrow()) {
                Ordering::Less => link = &node.left,
                Ordering::Greater => link = &node.right,
                Ordering::Equal => return Some(&node.entry),
            },
        }
    }
}

/// Whether `key` is present. Work `O(log n)`.
#[inline]
pub(crate) fn is_present<K, V, Q, const B: usize>(link: &Link<K, V, B>, key: &Q) -> bool
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    find(link, key).is_some()
}

/// The last entry for which `before` holds; `before` must hold for a prefix of the keys. Work `O(log n)`.
#[inline]
pub(crate) fn last_before<K, V, F, const B: usize>(mut link: &Link<K, V, B>, before: F) -> Option<&(K, V)>
where
    F: Fn(&K) -> bool,
{
    let mut best = None;
    loop {
        match link {
            Link::Empty => return best,
            Link::Leaf(block) => {
                let count = block.partition_point(|entry| before(&entry.0));
                return block[..count].last().or(best);
            }
            Link::Inner(node) if before(&node.entry.0) => {
                best = Some(&node.entry);
                link = &node.right;
            }
            Link::Inner(node) => link = &node.left,
        }
    }
}

/// The first entry for which `before` does not hold. Work `O(log n)`.
#[inline]
pub(crate) fn first_after<K, V, F, const B: usize>(mut link: &Link<K, V, B>, before: F) -> Option<&(K, V)>
where
    F: Fn(&K) -> bool,
{
    let mut best = None;
    loop {
        match link {
            Link::Empty => return best,
            Link::Leaf(block) => {
                let count = block.partition_point(|entry| before(&entry.0));
                return block[count..].first().or(best);
            }
            Link::Inner(node) if before(&node.entry.0) => link = &node.right,
            Link::Inner(node) => {
                best = Some(&node.entry);
                link = &node.left;
            }
        }
    }
}

/// The number of entries for which `before` holds. Work `O(log n)`; touches no node beside the path.
#[inline]
pub(crate) fn count_before<K, V, F, const B: usize>(mut link: &Link<K, V, B>, before: F) -> usize
where
    F: Fn(&K) -> bool,
{
    let mut count = 0;
    loop {
        match link {
            Link::Empty => return count,
            Link::Leaf(block) => return count + block.partition_point(|entry| before(&entry.0)),
            Link::Inner(node) if before(&node.entry.0) => {
                count += node.left_size + 1;
                link = &node.right;
            }
            Link::Inner(node) => link = &node.left,
        }
    }
}

/// The entry with `index` entries before it. Work `O(log n)`.
pub(crate) fn select<K, V, const B: usize>(mut link: &Link<K, V, B>, mut index: usize) -> Option<&(K, V)> {
    loop {
        match link {
            Link::Empty => return None,
            Link::Leaf(block) => return block.get(index),
            Link::Inner(node) => match index.cmp(&node.left_size) {
                Ordering::Less => link = &node.left,
                Ordering::Equal => return Some(&node.entry),
                Ordering::Greater => {
                    index -= node.left_size + 1;
                    link = &node.right;
                }
            },
        }
    }
}
