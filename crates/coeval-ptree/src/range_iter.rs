// SPDX-License-Identifier: Apache-2.0
//! Iteration that owns its tree: entries by value, free of lifetimes.
//!
//! A block at a time is held at each end; the next one is found by index, in one descent.

use std::iter::FusedIterator;
use std::ops::Range;

use triomphe::Arc;

use crate::node::{Block, Link};

/// A block and the positions in it that are left to visit.
struct Window<K, V, const B: usize> {
    block: Arc<Block<K, V, B>>,
    left: Range<usize>,
}

/// The block of the entry at `index`, which must exist, and its position there. Work `O(log n)`.
fn locate<K, V, const B: usize>(mut link: &Link<K, V, B>, mut index: usize) -> (&Arc<Block<K, V, B>>, usize) {
    loop {
        match link {
            Link::Empty => unreachable!("the index lies inside the tree"),
            Link::Leaf(block) => return (block, index),
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
pub struct RangeIter<K, V, const B: usize> {
    root: Link<K, V, B>,
    /// Indices not yet handed out.
    left: Range<usize>,
    front: Option<Window<K, V, B>>,
    back: Option<Window<K, V, B>>,
}

impl<K, V, const B: usize> RangeIter<K, V, B> {
    /// The entries from index `start` to before index `end`.
    pub(crate) fn new(root: Link<K, V, B>, start: usize, end: usize) -> Self {
        assert!(end <= root.size(), "the range ends inside the tree");
        RangeIter { root, left: start..end.max(start), front: None, back: None }
    }
}

impl<K: Clone, V: Clone, const B: usize> Iterator for RangeIter<K, V, B> {
    type Item = (K, V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.left.next()?;
        if let Some(window) = &mut self.front
            && let Some(at) = window.left.next()
        {
            return Some(window.block[at].clone());
        }
        let (block, at) = locate(&self.root, index);
        self.front = Some(Window { block: Arc::clone(block), left: at + 1..block.len() });
        Some(block[at].clone())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<K: Clone, V: Clone, const B: usize> DoubleEndedIterator for RangeIter<K, V, B> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let index = self.left.next_back()?;
        if let Some(window) = &mut self.back
            && let Some(at) = window.left.next_back()
        {
            return Some(window.block[at].clone());
        }
        let (block, at) = locate(&self.root, index);
        self.back = Some(Window { block: Arc::clone(block), left: 0..at });
        Some(block[at].clone())
    }
}

impl<K: Clone, V: Clone, const B: usize> ExactSizeIterator for RangeIter<K, V, B> {}

impl<K: Clone, V: Clone, const B: usize> FusedIterator for RangeIter<K, V, B> {}
