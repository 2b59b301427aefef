// SPDX-License-Identifier: Apache-2.0
//! Checking a tree from root to leaves, and measuring its shape.

use std::error::Error;
use std::fmt;

use crate::balance::may_link;
use crate::node::{Link, combined, inner_bytes, leaf_bytes};
use crate::summary::{Summary, is_kept, of_entries};

/// An invariant that does not hold: what is wrong and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenInvariant {
    /// The entry at this index does not have a larger key than the one before it, or a smaller one than the
    /// separator before it.
    Order {
        /// Index of the later of the two entries.
        index: usize,
    },
    /// A separator is not greater than all keys to its left.
    Separator {
        /// Index of the first entry to its right.
        index: usize,
    },
    /// An inner node's counts differ from what its children hold.
    Size {
        /// Index of the first entry of its right child.
        index: usize,
    },
    /// Two siblings differ too much in weight, or one of them is a leaf with too few entries.
    Balance {
        /// Index of the first entry of the right one.
        index: usize,
    },
    /// A node's summary is not what its entries add up to.
    Summary {
        /// Index of its first entry.
        index: usize,
    },
    /// A leaf block without entries, or an inner node without a child.
    Empty {
        /// Index at which entries were expected.
        index: usize,
    },
}

impl fmt::Display for BrokenInvariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { index } => write!(formatter, "keys do not increase at index {index}"),
            Self::Separator { index } => write!(formatter, "wrong separator before index {index}"),
            Self::Size { index } => write!(formatter, "wrong count in the inner node around index {index}"),
            Self::Balance { index } => write!(formatter, "siblings out of balance at index {index}"),
            Self::Summary { index } => write!(formatter, "wrong summary in the node from index {index} on"),
            Self::Empty { index } => write!(formatter, "empty subtree at index {index}"),
        }
    }
}

impl Error for BrokenInvariant {}

/// How a tree is laid out in memory. Nodes that other trees share are counted in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Number of entries.
    pub entries: usize,
    /// Number of inner nodes.
    pub inner_nodes: usize,
    /// Number of leaf blocks.
    pub leaves: usize,
    /// Nodes on the longest path from the root to a leaf.
    pub height: usize,
    /// Bytes of all nodes with their reference counts; not what keys and values own elsewhere.
    pub bytes: usize,
}

/// What has been visited so far.
pub(crate) struct Visited<'a, K> {
    last: Option<&'a K>,
    /// The separator that the next key must not be less than.
    separator: Option<&'a K>,
    count: usize,
}

impl<K> Visited<'_, K> {
    /// Nothing yet.
    pub(crate) fn nothing() -> Self {
        Visited { last: None, separator: None, count: 0 }
    }
}

/// Checks everything below `link` and records it as visited.
pub(crate) fn check<'a, K: Ord, V, S, const B: usize>(
    link: &'a Link<K, V, S, B>,
    visited: &mut Visited<'a, K>,
) -> Result<(), BrokenInvariant> {
    match link {
        Link::Empty => Ok(()),
        Link::Leaf(leaf) if leaf.is_empty() => Err(BrokenInvariant::Empty { index: visited.count }),
        Link::Leaf(leaf) => leaf.iter().try_for_each(|(key, _)| {
            let index = visited.count;
            let follows = visited.last.is_none_or(|last| last < key)
                && visited.separator.is_none_or(|separator| separator <= key);
            visited.last = Some(key);
            visited.count += 1;
            if follows { Ok(()) } else { Err(BrokenInvariant::Order { index }) }
        }),
        Link::Inner(node) => {
            let first = visited.count;
            check(&node.left, visited)?;
            let index = visited.count;
            if visited.last.is_none_or(|last| last >= &node.separator) {
                return Err(BrokenInvariant::Separator { index });
            }
            visited.separator = Some(&node.separator);
            check(&node.right, visited)?;
            if node.left.is_empty() || node.right.is_empty() {
                return Err(BrokenInvariant::Empty { index });
            }
            if node.left_size != index - first || node.size != visited.count - first {
                return Err(BrokenInvariant::Size { index });
            }
            if !may_link(node.left_size, node.right_size(), B) {
                return Err(BrokenInvariant::Balance { index });
            }
            Ok(())
        }
    }
}

/// Checks that every node's summary is what its children's add up to; `start` is the index of the first entry.
pub(crate) fn check_summaries<K, V, S: Summary<K, V>, const B: usize>(
    link: &Link<K, V, S, B>,
    start: usize,
) -> Result<(), BrokenInvariant> {
    if !is_kept::<S>() {
        return Ok(());
    }
    let is_right = match link {
        Link::Empty => true,
        Link::Leaf(leaf) => leaf.summary.agrees_with(&of_entries(leaf)),
        Link::Inner(node) => {
            check_summaries(&node.left, start)?;
            check_summaries(&node.right, start + node.left_size)?;
            node.summary.agrees_with(&combined(&node.left, &node.right))
        }
    };
    if is_right { Ok(()) } else { Err(BrokenInvariant::Summary { index: start }) }
}

/// Measures everything below `link`.
pub(crate) fn shape<K, V, S, const B: usize>(link: &Link<K, V, S, B>) -> Shape {
    match link {
        Link::Empty => Shape::default(),
        Link::Leaf(leaf) => Shape {
            entries: leaf.len(),
            inner_nodes: 0,
            leaves: 1,
            height: 1,
            bytes: leaf_bytes::<K, V, S, B>(),
        },
        Link::Inner(node) => {
            let (left, right) = (shape(&node.left), shape(&node.right));
            Shape {
                entries: left.entries + right.entries,
                inner_nodes: left.inner_nodes + right.inner_nodes + 1,
                leaves: left.leaves + right.leaves,
                height: left.height.max(right.height) + 1,
                bytes: left.bytes + right.bytes + inner_bytes::<K, V, S, B>(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
