// SPDX-License-Identifier: Apache-2.0
//! Iteration over borrowed entries, from both ends.
//!
//! An iterator is a pair of indices into the tree; each end finds its block when it is first asked. After that
//! it walks the block as a slice and climbs a stack of pending ancestors from block to block: `O(log n)` to
//! start, `O(1)` amortized per entry. Since the two ends only share the count of what remains, they cannot
//! run past each other.

use std::fmt;
use std::iter::FusedIterator;
use std::slice;

use smallvec::SmallVec;

use crate::node::{DEFAULT_BLOCK, Inner, Link};

/// Ancestors with something left to visit. Deeper trees (beyond some millions of entries) spill to the heap.
type Ancestors<'a, K, V, S, const B: usize> = SmallVec<[&'a Inner<K, V, S, B>; 24]>;

/// One end of an iterator: what is left of its block, and the ancestors to go on with.
struct Cursor<'a, K, V, S, const B: usize> {
    block: slice::Iter<'a, (K, V)>,
    ancestors: Ancestors<'a, K, V, S, B>,
}

impl<K, V, S, const B: usize> Clone for Cursor<'_, K, V, S, B> {
    fn clone(&self) -> Self {
        Cursor { block: self.block.clone(), ancestors: self.ancestors.clone() }
    }
}

impl<'a, K, V, S, const B: usize> Cursor<'a, K, V, S, B> {
    /// An end that goes up from the entry at `index` of `link`.
    fn upward(link: &'a Link<K, V, S, B>, index: usize) -> Self {
        let mut cursor = Cursor { block: [].iter(), ancestors: SmallVec::new() };
        cursor.descend_left(link, index);
        cursor
    }

    /// Makes the entry at `index` of `link` the next one; the right subtree of each ancestor in the stack comes
    /// after it.
    #[inline]
    fn descend_left(&mut self, mut link: &'a Link<K, V, S, B>, mut index: usize) {
        loop {
            match link {
                Link::Empty => return,
                Link::Leaf(block) => {
                    self.block = block[index..].iter();
                    return;
                }
                Link::Inner(node) if index < node.left_size => {
                    self.ancestors.push(node);
                    link = &node.left;
                }
                Link::Inner(node) => {
                    index -= node.left_size;
                    link = &node.right;
                }
            }
        }
    }

    /// Goes on with the right subtree of the nearest ancestor; the next entry.
    #[inline(never)]
    fn climb_up(&mut self) -> &'a (K, V) {
        let node = self.ancestors.pop().expect("the count says that entries remain");
        self.descend_left(&node.right, 0);
        // The load of the block after this one overlaps with the work on this one.
        if let Some(node) = self.ancestors.last() {
            node.right.touch();
        }
        self.block.next().expect("no leaf is empty")
    }

    /// An end that goes down from the entry before `index` of `link`.
    fn downward(link: &'a Link<K, V, S, B>, index: usize) -> Self {
        let mut cursor = Cursor { block: [].iter(), ancestors: SmallVec::new() };
        cursor.descend_right(link, index);
        cursor
    }

    /// Makes the entry before `index` of `link` the next one; the left subtree of each ancestor in the stack
    /// comes after it.
    #[inline]
    fn descend_right(&mut self, mut link: &'a Link<K, V, S, B>, mut index: usize) {
        loop {
            match link {
                Link::Empty => return,
                Link::Leaf(block) => {
                    self.block = block[..index].iter();
                    return;
                }
                Link::Inner(node) if index > node.left_size => {
                    self.ancestors.push(node);
                    index -= node.left_size;
                    link = &node.right;
                }
                Link::Inner(node) => link = &node.left,
            }
        }
    }

    /// Goes on with the left subtree of the nearest ancestor; the next entry.
    #[inline(never)]
    fn climb_down(&mut self) -> &'a (K, V) {
        let node = self.ancestors.pop().expect("the count says that entries remain");
        self.descend_right(&node.left, node.left_size);
        if let Some(node) = self.ancestors.last() {
            node.left.touch();
        }
        self.block.next_back().expect("no leaf is empty")
    }
}

/// The entries of a tree or of a range of it, in key order; made by [`PTree::iter`](crate::PTree::iter) and
/// [`PTree::iter_range`](crate::PTree::iter_range).
pub struct Iter<'a, K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    root: &'a Link<K, V, S, B>,
    /// Indices of the first entry and of the one after the last, as they were at the start.
    start: usize,
    end: usize,
    remaining: usize,
    front: Option<Cursor<'a, K, V, S, B>>,
    back: Option<Cursor<'a, K, V, S, B>>,
}

impl<'a, K, V, S, const B: usize> Iter<'a, K, V, S, B> {
    /// The entries from index `start` to before index `end`.
    pub(crate) fn new(root: &'a Link<K, V, S, B>, start: usize, end: usize) -> Self {
        assert!(end <= root.size(), "the range ends inside the tree");
        Iter { root, start, end, remaining: end.saturating_sub(start), front: None, back: None }
    }
}

impl<K, V, S, const B: usize> Clone for Iter<'_, K, V, S, B> {
    fn clone(&self) -> Self {
        Iter { front: self.front.clone(), back: self.back.clone(), ..*self }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S, const B: usize> fmt::Debug for Iter<'_, K, V, S, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.clone()).finish()
    }
}

impl<'a, K, V, S, const B: usize> Iterator for Iter<'a, K, V, S, B> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let front = self.front.get_or_insert_with(|| Cursor::upward(self.root, self.start));
        let (key, value) = match front.block.next() {
            Some(entry) => entry,
            None => front.climb_up(),
        };
        Some((key, value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }

    #[inline]
    fn count(self) -> usize {
        self.remaining
    }

    #[inline]
    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }

    fn fold<R, F>(mut self, start: R, mut step: F) -> R
    where
        F: FnMut(R, Self::Item) -> R,
    {
        if self.remaining == self.root.size() {
            // All of the tree: no stack of ancestors, which for a tree of one block would be most of the work.
            return fold_in_order(self.root, start, &mut |sum, key, value| step(sum, (key, value)));
        }
        let mut sum = start;
        if self.remaining == 0 {
            return sum;
        }
        let front = self.front.get_or_insert_with(|| Cursor::upward(self.root, self.start));
        loop {
            // Block by block: the inner loop is one over a slice.
            let block = front.block.as_slice();
            let block = &block[..block.len().min(self.remaining)];
            sum = block.iter().fold(sum, |sum, (key, value)| step(sum, (key, value)));
            self.remaining -= block.len();
            if self.remaining == 0 {
                return sum;
            }
            let (key, value) = front.climb_up();
            sum = step(sum, (key, value));
            self.remaining -= 1;
            if self.remaining == 0 {
                return sum;
            }
        }
    }
}

impl<K, V, S, const B: usize> DoubleEndedIterator for Iter<'_, K, V, S, B> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let back = self.back.get_or_insert_with(|| Cursor::downward(self.root, self.end));
        let (key, value) = match back.block.next_back() {
            Some(entry) => entry,
            None => back.climb_down(),
        };
        Some((key, value))
    }
}

impl<K, V, S, const B: usize> ExactSizeIterator for Iter<'_, K, V, S, B> {}

impl<K, V, S, const B: usize> FusedIterator for Iter<'_, K, V, S, B> {}

/// Folds all entries in key order, on this thread.
pub(crate) fn fold_in_order<'t, K, V, R, F, S, const B: usize>(
    link: &'t Link<K, V, S, B>,
    start: R,
    step: &mut F,
) -> R
where
    F: FnMut(R, &'t K, &'t V) -> R,
{
    match link {
        Link::Empty => start,
        Link::Leaf(leaf) => leaf.iter().fold(start, |sum, (key, value)| step(sum, key, value)),
        Link::Inner(node) => {
            // The load of the right side overlaps with the work on the left.
            node.right.touch();
            let sum = fold_in_order(&node.left, start, step);
            fold_in_order(&node.right, sum, step)
        }
    }
}

#[cfg(test)]
mod tests;
