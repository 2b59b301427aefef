// SPDX-License-Identifier: Apache-2.0
//! Parallel iteration: a tree as an indexed parallel iterator of rayon, with everything that comes with that.
//!
//! A run of entries is a pair of indices; halving it is arithmetic, and each piece finds its first block when it is
//! walked, in one descent.

use std::fmt;

use rayon::iter::plumbing::{Consumer, Producer, ProducerCallback, UnindexedConsumer, bridge};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::grain::Grain;
use crate::iter::Iter;
use crate::node::{DEFAULT_BLOCK, Link};
use crate::tree::PTree;

/// The entries of a tree in key order, for several threads; made by [`PTree::par_iter`].
pub struct ParIter<'a, K, V, S = (), const B: usize = DEFAULT_BLOCK> {
    run: Run<'a, K, V, S, B>,
}

impl<K: fmt::Debug, V: fmt::Debug, S, const B: usize> fmt::Debug for ParIter<'_, K, V, S, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(Iter::new(self.run.root, self.run.start, self.run.end)).finish()
    }
}

/// A run of entries, by index.
struct Run<'a, K, V, S, const B: usize> {
    root: &'a Link<K, V, S, B>,
    start: usize,
    end: usize,
}

impl<K, V, S, const B: usize> PTree<K, V, S, B>
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    /// All entries in key order, for several threads: an indexed parallel iterator of rayon.
    ///
    /// Work `O(n)`, span `O(log n)` and what the consumer adds.
    ///
    /// ```
    /// use rayon::iter::{IndexedParallelIterator, ParallelIterator};
    /// let tens: coeval_ptree::PTree<u32, u32> = (1..=9).map(|i| (10 * i, i)).collect();
    /// let keys: Vec<u32> = tens.par_iter().map(|(key, _)| *key).collect(); // In order.
    /// assert_eq!(keys, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
    /// assert_eq!(tens.par_iter().rev().skip(2).map(|(_, value)| *value).max(), Some(7));
    /// ```
    #[must_use]
    pub fn par_iter(&self) -> ParIter<'_, K, V, S, B> {
        ParIter { run: Run { root: &self.root, start: 0, end: self.len() } }
    }
}

impl<'a, K, V, S, const B: usize> IntoParallelIterator for &'a PTree<K, V, S, B>
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    type Item = (&'a K, &'a V);
    type Iter = ParIter<'a, K, V, S, B>;

    fn into_par_iter(self) -> Self::Iter {
        self.par_iter()
    }
}

impl<'a, K: Send + Sync, V: Send + Sync, S: Send + Sync, const B: usize> ParallelIterator
    for ParIter<'a, K, V, S, B>
{
    type Item = (&'a K, &'a V);

    fn drive_unindexed<C: UnindexedConsumer<Self::Item>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }

    fn opt_len(&self) -> Option<usize> {
        Some(self.len())
    }
}

impl<K: Send + Sync, V: Send + Sync, S: Send + Sync, const B: usize> IndexedParallelIterator
    for ParIter<'_, K, V, S, B>
{
    fn len(&self) -> usize {
        self.run.end - self.run.start
    }

    fn drive<C: Consumer<Self::Item>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }

    fn with_producer<C: ProducerCallback<Self::Item>>(self, callback: C) -> C::Output {
        callback.callback(self.run)
    }
}

impl<'a, K: Send + Sync, V: Send + Sync, S: Send + Sync, const B: usize> Producer for Run<'a, K, V, S, B> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V, S, B>;

    fn into_iter(self) -> Self::IntoIter {
        Iter::new(self.root, self.start, self.end)
    }

    fn min_len(&self) -> usize {
        // Finding the first block of a piece is a descent, to be paid for by the piece.
        Grain::SCAN.count() / 8
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let middle = self.start + index;
        assert!(middle <= self.end, "a run is cut inside");
        (Run { end: middle, ..self }, Run { start: middle, ..self })
    }
}
