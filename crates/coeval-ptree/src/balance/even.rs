// SPDX-License-Identifier: Apache-2.0
//! Trees of entries that are in order already: their leaves are as even as can be, which makes them balanced.

use super::link;
use crate::find::first;
use crate::node::{Block, Link};
use crate::summary::Summary;

/// The fill of a fresh leaf: fifteen sixteenths, so that the first inserts after a load find room.
pub(crate) const fn fill(block: usize) -> usize {
    block - block.div_ceil(16)
}

/// A tree of the next `count` entries of a sorted iterator. Work `O(count)`.
///
/// The leaves are as even as can be, the larger ones first.
pub(crate) fn from_exact_iter<K, V, I, S: Summary<K, V>, const B: usize>(
    entries: &mut I,
    count: usize,
) -> Link<K, V, S, B>
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
pub(crate) fn grow<K, V, I, S: Summary<K, V>, const B: usize>(
    entries: &mut I,
    count: usize,
    leaves: usize,
) -> Link<K, V, S, B>
where
    K: Clone,
    I: Iterator<Item = (K, V)>,
{
    if leaves == 1 {
        return leaf(entries, count);
    }
    let (left_count, left_leaves) = left_part(count, leaves);
    let left = grow(entries, left_count, left_leaves);
    let right = grow(entries, count - left_count, leaves - left_leaves);
    let separator = first(&right).expect("each leaf gets entries").0.clone();
    link(left, separator, right)
}

/// How many of `count` entries and of `leaves` leaves go to the left.
pub(crate) fn left_part(count: usize, leaves: usize) -> (usize, usize) {
    assert!(leaves >= 2 && count >= leaves, "two parts, and an entry for each leaf");
    let left_leaves = leaves / 2;
    let (each, extra) = (count / leaves, count % leaves);
    (left_leaves * each + left_leaves.min(extra), left_leaves)
}

/// A leaf of the next `count` entries.
fn leaf<K, V, I, S: Summary<K, V>, const B: usize>(entries: &mut I, count: usize) -> Link<K, V, S, B>
where
    I: Iterator<Item = (K, V)>,
{
    let block: Block<K, V, B> = entries.take(count).collect();
    assert_eq!(block.len(), count, "the iterator holds as many entries as it said");
    Link::from_block(block)
}
