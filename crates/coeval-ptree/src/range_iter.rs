// SPDX-License-Identifier: Apache-2.0
//! Iteration that owns its tree: entries by value, free of lifetimes.
//!
//! A block at a time is held at each end; the next one is found by index, in one descent.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use triomphe::Arc;

use crate::iter::Iter;
use crate::node::{DEFAULT_BLOCK, Leaf, Link};

/// A block and the positions in it that are left to visit.
struct Window<K, V, S, const B: usize> {
    leaf: Arc<Leaf<K, V, S, B>>,
    left: Range<usize>,
}

/// The block of the entry at `index`, which must exist, and its position there. Work `O(log n)`.
fn locate<K, V, S, const B: usize>(
    mut link: &Link<K, V, S, B>,
    mut index: usize,
) -> (&Arc<Leaf<K, V, S, B>>, usize) {
    loop {
        match link {
            Link::Empty => unreachable!("the index lies inside the tree"),
            Link::Leaf(leaf) => return (leaf, index),
            Link::Inner(node) if index < node.left_size => link = &node.left,
            Link::Inner(node) => {
                index -= node.left_size;
                link = &node.right;
            }
        }
    }
}

/// The entries of a tree or of a range of it by value, in key order; made by
/// [`PTree::into_range_iter`](crate::PTree::into_range_iter) and by `into_iter`.
///
/// It holds its version of the tree until it is dropped.
pub struct RangeIter<K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    root: Link<K, V, S, B>,
    /// Indices not yet handed out.
    left: Range<usize>,
    front: Option<Window<K, V, S, B>>,
    back: Option<Window<K, V, S, B>>,
}

impl<K, V, S, const B: usize> RangeIter<K, V, S, B> {
    /// The entries from index `start` to before index `end`.
    pub(crate) fn new(root: Link<K, V, S, B>, start: usize, end: usize) -> Self {
        assert!(end <= root.size(), "the range ends inside the tree");
        RangeIter { root, left: start..end.max(start), front: None, back: None }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S, const B: usize> fmt::Debug for RangeIter<K, V, S, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(Iter::new(&self.root, self.left.start, self.left.end)).finish()
    }
}

impl<K: Clone, V: Clone, S, const B: usize> Iterator for RangeIter<K, V, S, B> {
    type Item = (K, V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.left.next()?;
        if let Some(window) = &mut self.front
            && let Some(at) = window.left.next()
        {
            return Some(window.leaf[at].clone());
        }
        let (leaf, at) = locate(&self.root, index);
        self.front = Some(Window { leaf: Arc::clone(leaf), left: at + 1..leaf.len() });
        Some(leaf[at].clone())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<K: Clone, V: Clone, S, const B: usize> DoubleEndedIterator for RangeIter<K, V, S, B> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let index = self.left.next_back()?;
        if let Some(window) = &mut self.back
            && let Some(at) = window.left.next_back()
        {
            return Some(window.leaf[at].clone());
        }
        let (leaf, at) = locate(&self.root, index);
        self.back = Some(Window { leaf: Arc::clone(leaf), left: 0..at });
        Some(leaf[at].clone())
    }
}

impl<K: Clone, V: Clone, S, const B: usize> ExactSizeIterator for RangeIter<K, V, S, B> {}

impl<K: Clone, V: Clone, S, const B: usize> FusedIterator for RangeIter<K, V, S, B> {}
