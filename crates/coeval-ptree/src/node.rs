// SPDX-License-Identifier: Apache-2.0
//! The memory layout: links, inner nodes and leaf blocks, and how to take them apart.
//!
//! A leaf holds a sorted block of entries; an inner node holds two subtrees and a key that separates them. Both
//! sit behind a reference count. Values live in leaves only: so copying an inner node touches no value, which
//! for reference-counted values would be a cache miss per node of the path. Who holds the only reference may change a node in place; who does not copies it
//! (path copying). `Arc::make_mut` and `Arc::try_unwrap` make that decision, so no function needs a flag.

use std::borrow::Borrow;

use arrayvec::ArrayVec;
use triomphe::Arc;

/// The entries of a leaf, in key order, at most `B` of them.
pub(crate) type Block<K, V, const B: usize> = ArrayVec<(K, V), B>;

/// A subtree: empty, one block, or an inner node.
///
/// Every function that takes or returns a `Link` accepts and yields a *standalone* tree: all invariants hold,
/// except that a single block or nothing may be smaller than a block below an inner node has to be.
pub(crate) enum Link<K, V, const B: usize> {
    /// No entries.
    Empty,
    /// One block of entries.
    Leaf(Arc<Block<K, V, B>>),
    /// Two subtrees that are not empty.
    Inner(Arc<Inner<K, V, B>>),
}

/// Two subtrees and the key between them: all keys of `left` < `separator` <= all keys of `right`.
///
/// The separator need not be present (any more).
///
/// Both counts are kept: `size` for the parent, `left_size` so that ranks and balance are known without
/// touching the children, which would be a cache miss each.
pub(crate) struct Inner<K, V, const B: usize> {
    pub(crate) separator: K,
    pub(crate) left: Link<K, V, B>,
    pub(crate) right: Link<K, V, B>,
    pub(crate) size: usize,
    pub(crate) left_size: usize,
}

/// An inner node taken apart: left subtree, separator, right subtree.
pub(crate) type Parts<K, V, const B: usize> = (Link<K, V, B>, K, Link<K, V, B>);

impl<K, V, const B: usize> Inner<K, V, B> {
    /// The number of entries in the right subtree.
    #[inline]
    pub(crate) fn right_size(&self) -> usize {
        self.size - self.left_size
    }
}

impl<K: Clone, V, const B: usize> Clone for Inner<K, V, B> {
    fn clone(&self) -> Self {
        Inner {
            separator: self.separator.clone(),
            left: self.left.clone(),
            right: self.right.clone(),
            size: self.size,
            left_size: self.left_size,
        }
    }
}

impl<K, V, const B: usize> Clone for Link<K, V, B> {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Link::Empty => Link::Empty,
            Link::Leaf(block) => Link::Leaf(Arc::clone(block)),
            Link::Inner(node) => Link::Inner(Arc::clone(node)),
        }
    }
}

impl<K, V, const B: usize> Default for Link<K, V, B> {
    #[inline]
    fn default() -> Self {
        Link::Empty
    }
}

impl<K, V, const B: usize> Link<K, V, B> {
    /// The number of entries.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Link::Empty => 0,
            Link::Leaf(block) => block.len(),
            Link::Inner(node) => node.size,
        }
    }

    /// Whether there are no entries.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Link::Empty)
    }

    /// A leaf of these entries, or nothing if there are none.
    #[inline]
    pub(crate) fn from_block(block: Block<K, V, B>) -> Self {
        if block.is_empty() { Link::Empty } else { Link::Leaf(Arc::new(block)) }
    }

    /// Whether both are the same node in memory (or both empty).
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Link::Empty, Link::Empty) => true,
            (Link::Leaf(mine), Link::Leaf(theirs)) => Arc::ptr_eq(mine, theirs),
            (Link::Inner(mine), Link::Inner(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

/// Takes an inner node apart: moves its parts out when nobody else holds it, else clones them.
#[inline]
pub(crate) fn take_apart<K: Clone, V, const B: usize>(node: Arc<Inner<K, V, B>>) -> Parts<K, V, B> {
    match Arc::try_unwrap(node) {
        Ok(node) => (node.left, node.separator, node.right),
        Err(node) => (node.left.clone(), node.separator.clone(), node.right.clone()),
    }
}

/// Takes a leaf's entries: moves them out when nobody else holds it, else clones them.
#[inline]
pub(crate) fn take_block<K: Clone, V: Clone, const B: usize>(block: Arc<Block<K, V, B>>) -> Block<K, V, B> {
    Arc::unwrap_or_clone(block)
}

/// The position of `key` in a sorted run: `Ok(at)` if it is there, `Err(at)` where it would stand.
///
/// Halves a fixed number of times for a given length, with a conditional move instead of a branch, because
/// the outcome of each comparison is a coin toss that no predictor learns.
#[inline]
pub(crate) fn search<K, V, Q>(entries: &[(K, V)], key: &Q) -> Result<usize, usize>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    entries.binary_search_by(|entry| entry.0.borrow().cmp(key))
}
