// SPDX-License-Identifier: Apache-2.0
//! The memory layout: links, inner nodes and leaf blocks, and how to take them apart.
//!
//! A leaf holds a sorted block of entries; an inner node holds two subtrees and a key that separates them. Both
//! sit behind a reference count. Values live in leaves only: so copying an inner node touches no value, which
//! for reference-counted values would be a cache miss per node of the path. Who holds the only reference may
//! change a node in place; who does not copies it (path copying). `Arc::make_mut` and `Arc::try_unwrap` make
//! that decision, so no function needs a flag.
//!
//! Both kinds of node keep a summary of their entries (see [`Summary`]). Whoever changes a node in place has to
//! call `refresh` on it afterwards, from the leaf upwards; for `()`, the summary that says nothing, that is no code.

use std::borrow::Borrow;
use std::ops::Deref;

use arrayvec::ArrayVec;
use triomphe::Arc;

use crate::summary::{Summary, is_kept, of_entries};

/// Entries per leaf at most, unless a tree says otherwise.
///
/// Chosen by `examples/peers` (`find`, `blocks`) at ten million `u64` pairs: lookups are at 0.94 of `BTreeMap`'s rate with 16
/// and at 1.15 with 30, no update is slower for it, and a leaf of 30 fills half a kilobyte. Copying a leaf touches the
/// reference count of every value in it, so where values are reference-counted and updates matter, 16 is better.
pub const DEFAULT_BLOCK: usize = 30;

/// The entries of a leaf, in key order, at most `B` of them.
pub(crate) type Block<K, V, const B: usize> = ArrayVec<(K, V), B>;

/// A block and what is known about it as a whole. Reads go to the entries directly.
#[derive(Clone)]
pub(crate) struct Leaf<K, V, S, const B: usize> {
    pub(crate) entries: Block<K, V, B>,
    pub(crate) summary: S,
}

impl<K, V, S, const B: usize> Deref for Leaf<K, V, S, B> {
    type Target = [(K, V)];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<K, V, S: Summary<K, V>, const B: usize> Leaf<K, V, S, B> {
    /// A leaf of these entries.
    #[inline]
    pub(crate) fn new(entries: Block<K, V, B>) -> Self {
        let summary = of_entries(&entries);
        Leaf { entries, summary }
    }

    /// Brings the summary up to date after a change of the entries.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if is_kept::<S>() {
            self.summary = of_entries(&self.entries);
        }
    }
}

/// A subtree: empty, one block, or an inner node.
///
/// Every function that takes or returns a `Link` accepts and yields a *standalone* tree: all invariants hold,
/// except that a single block or nothing may be smaller than a block below an inner node has to be.
pub(crate) enum Link<K, V, S, const B: usize> {
    /// No entries.
    Empty,
    /// One block of entries.
    Leaf(Arc<Leaf<K, V, S, B>>),
    /// Two subtrees that are not empty.
    Inner(Arc<Inner<K, V, S, B>>),
}

/// Two subtrees and the key between them: all keys of `left` < `separator` <= all keys of `right`.
///
/// The separator need not be present (any more).
///
/// Both counts are kept: `size` for the parent, `left_size` so that ranks and balance are known without
/// touching the children, which would be a cache miss each.
pub(crate) struct Inner<K, V, S, const B: usize> {
    pub(crate) separator: K,
    pub(crate) left: Link<K, V, S, B>,
    pub(crate) right: Link<K, V, S, B>,
    pub(crate) size: usize,
    pub(crate) left_size: usize,
    pub(crate) summary: S,
}

/// An inner node taken apart: left subtree, separator, right subtree.
pub(crate) type Parts<K, V, S, const B: usize> = (Link<K, V, S, B>, K, Link<K, V, S, B>);

impl<K, V, S, const B: usize> Inner<K, V, S, B> {
    /// The number of entries in the right subtree.
    #[inline]
    pub(crate) fn right_size(&self) -> usize {
        self.size - self.left_size
    }
}

impl<K, V, S: Summary<K, V>, const B: usize> Inner<K, V, S, B> {
    /// An inner node over two subtrees. Balance is up to the caller.
    #[inline]
    pub(crate) fn new(left: Link<K, V, S, B>, separator: K, right: Link<K, V, S, B>) -> Self {
        let sizes = (left.size(), right.size());
        Self::with_sizes(left, separator, right, sizes)
    }

    /// As [`new`](Self::new), for children whose sizes the caller knows without looking at them.
    #[inline]
    pub(crate) fn with_sizes(
        left: Link<K, V, S, B>,
        separator: K,
        right: Link<K, V, S, B>,
        (left_size, right_size): (usize, usize),
    ) -> Self {
        assert!(left_size > 0 && right_size > 0, "an inner node has two children that are not empty");
        let summary = combined(&left, &right);
        Inner { separator, left, right, size: left_size + right_size, left_size, summary }
    }

    /// Brings the summary up to date after a change of a child; the counts are the caller's business.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if is_kept::<S>() {
            self.summary = combined(&self.left, &self.right);
        }
    }
}

impl<K: Clone, V, S: Clone, const B: usize> Clone for Inner<K, V, S, B> {
    fn clone(&self) -> Self {
        Inner {
            separator: self.separator.clone(),
            left: self.left.clone(),
            right: self.right.clone(),
            size: self.size,
            left_size: self.left_size,
            summary: self.summary.clone(),
        }
    }
}

impl<K, V, S, const B: usize> Clone for Link<K, V, S, B> {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Link::Empty => Link::Empty,
            Link::Leaf(leaf) => Link::Leaf(Arc::clone(leaf)),
            Link::Inner(node) => Link::Inner(Arc::clone(node)),
        }
    }
}

impl<K, V, S, const B: usize> Default for Link<K, V, S, B> {
    #[inline]
    fn default() -> Self {
        Link::Empty
    }
}

impl<K, V, S, const B: usize> Link<K, V, S, B> {
    /// The number of entries.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Link::Empty => 0,
            Link::Leaf(leaf) => leaf.len(),
            Link::Inner(node) => node.size,
        }
    }

    /// Whether nobody else holds the node; true of no node.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        match self {
            Link::Empty => true,
            Link::Leaf(leaf) => Arc::is_unique(leaf),
            Link::Inner(node) => Arc::is_unique(node),
        }
    }

    /// Whether there are no entries.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Link::Empty)
    }

    /// Where the node lies in memory: two living nodes at one place are the same. Zero for no node.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self {
            Link::Empty => 0,
            Link::Leaf(leaf) => Arc::as_ptr(leaf) as usize,
            Link::Inner(node) => Arc::as_ptr(node) as usize,
        }
    }

    /// Whether both are the same node in memory (or both empty).
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<K, V, S: Summary<K, V>, const B: usize> Link<K, V, S, B> {
    /// A leaf of these entries, or nothing if there are none.
    #[inline]
    pub(crate) fn from_block(block: Block<K, V, B>) -> Self {
        if block.is_empty() { Link::Empty } else { Link::Leaf(Arc::new(Leaf::new(block))) }
    }
}

impl<K, V, S, const B: usize> Link<K, V, S, B> {
    /// The summary that the node keeps; no node keeps none.
    #[inline]
    pub(crate) fn kept_summary(&self) -> Option<&S> {
        match self {
            Link::Empty => None,
            Link::Leaf(leaf) => Some(&leaf.summary),
            Link::Inner(node) => Some(&node.summary),
        }
    }
}

/// The summary of all entries.
#[inline]
pub(crate) fn summary_of<K, V, S: Summary<K, V>, const B: usize>(link: &Link<K, V, S, B>) -> S {
    link.kept_summary().map_or_else(S::empty, S::clone)
}

/// The summary of the entries of two neighbouring subtrees, neither of them cloned.
#[inline]
pub(crate) fn combined<K, V, S: Summary<K, V>, const B: usize>(
    left: &Link<K, V, S, B>,
    right: &Link<K, V, S, B>,
) -> S {
    if !is_kept::<S>() {
        return S::empty();
    }
    match (left.kept_summary(), right.kept_summary()) {
        (Some(left), Some(right)) => left.combine(right),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => S::empty(),
    }
}

/// Bytes of a value behind a reference count.
const fn counted_bytes<T>() -> usize {
    let (word, align) = (size_of::<usize>(), align_of::<T>());
    let align = if align < word { word } else { align };
    (size_of::<T>() + align).next_multiple_of(align)
}

/// Bytes of a leaf with its reference count, full or not.
pub(crate) const fn leaf_bytes<K, V, S, const B: usize>() -> usize {
    counted_bytes::<Leaf<K, V, S, B>>()
}

/// Bytes of an inner node with its reference count.
pub(crate) const fn inner_bytes<K, V, S, const B: usize>() -> usize {
    counted_bytes::<Inner<K, V, S, B>>()
}

/// Takes an inner node apart: moves its parts out when nobody else holds it, else clones them.
#[inline]
pub(crate) fn take_apart<K: Clone, V, S, const B: usize>(node: Arc<Inner<K, V, S, B>>) -> Parts<K, V, S, B> {
    match Arc::try_unwrap(node) {
        Ok(node) => (node.left, node.separator, node.right),
        Err(node) => (node.left.clone(), node.separator.clone(), node.right.clone()),
    }
}

/// Takes a leaf's entries: moves them out when nobody else holds it, else clones them.
#[inline]
pub(crate) fn take_block<K: Clone, V: Clone, S, const B: usize>(
    leaf: Arc<Leaf<K, V, S, B>>,
) -> Block<K, V, B> {
    match Arc::try_unwrap(leaf) {
        Ok(leaf) => leaf.entries,
        Err(leaf) => leaf.entries.clone(),
    }
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

/// The number of entries for which `before` holds; it must hold for a prefix of them.
#[inline]
pub(crate) fn position<K, V>(entries: &[(K, V)], before: impl Fn(&K) -> bool) -> usize {
    entries.partition_point(|entry| before(&entry.0))
}
