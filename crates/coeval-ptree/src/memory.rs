// SPDX-License-Identifier: Apache-2.0
//! What trees take in memory, shared nodes counted once; and giving it back on several threads.

use std::collections::{HashSet, VecDeque};
use std::marker::PhantomData;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use triomphe::Arc;

use crate::grain::Grain;
use crate::node::{Inner, Link, inner_bytes, leaf_bytes};
use crate::tree::PTree;

/// The memory of any number of trees, in which every node counts once, however many trees reach it.
///
/// It borrows the trees added, since a node is known by its place in memory. Nested trees, which live in values, are
/// added by the caller, who alone knows where they are.
///
/// ```
/// use coeval_ptree::{Memory, PTree};
///
/// let old: PTree<u64, u64> = (0..10_000).map(|key| (key, key)).collect();
/// let mut new = old.clone();
/// new.insert(5_000, 0);
///
/// let mut memory = Memory::default();
/// memory.add(&old);
/// let alone = memory.bytes;
/// memory.add(&new); // One path, of inner nodes and a leaf.
/// assert!(memory.bytes - alone < 2_000);
/// assert_eq!(memory.trees, 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory<'t> {
    /// Trees added.
    pub trees: usize,
    /// Entries in the leaves counted; an entry of which several leaves hold copies counts for each.
    pub entries: usize,
    /// Inner nodes counted.
    pub inner_nodes: usize,
    /// Leaf blocks counted.
    pub leaves: usize,
    /// Bytes of these nodes with their reference counts; not what keys and values own elsewhere, nor what the
    /// allocator adds.
    pub bytes: usize,
    /// Where the nodes counted lie. While they are borrowed nothing else can lie there. A node that has one holder now
    /// may get another one later, so all of them are kept.
    seen: HashSet<usize>,
    borrowed: PhantomData<&'t ()>,
}

impl<'t> Memory<'t> {
    /// Adds the nodes of a tree that were not added yet. `O(new nodes)`, and as many words of memory.
    ///
    /// ```
    /// use coeval_ptree::{Memory, PTree};
    /// let tree: PTree<u32, u32> = (0..100).map(|key| (key, key)).collect();
    /// let mut memory = Memory::default();
    /// memory.add(&tree);
    /// let once = memory.bytes;
    /// let copy = tree.clone();
    /// memory.add(&copy);
    /// assert_eq!(memory.bytes, once);
    /// ```
    pub fn add<K, V, S, const B: usize>(&mut self, tree: &'t PTree<K, V, S, B>) {
        self.add_with(tree, |_, _, _| {});
    }

    /// As [`add`](Self::add), and calls `visit` with each entry of each leaf that was not added yet, for what its
    /// value owns: other trees, for instance.
    ///
    /// ```
    /// use coeval_ptree::{Memory, PTree};
    /// let lines = |_| (0..4).map(|line| (line, 1)).collect();
    /// let orders: PTree<u32, PTree<u32, u32>> = (0..10).map(|order| (order, lines(order))).collect();
    /// let mut memory = Memory::default();
    /// memory.add_with(&orders, |memory, _, lines| memory.add(lines));
    /// assert_eq!((memory.trees, memory.entries), (11, 50));
    /// ```
    pub fn add_with<K, V, F, S, const B: usize>(&mut self, tree: &'t PTree<K, V, S, B>, mut visit: F)
    where
        F: FnMut(&mut Self, &'t K, &'t V),
    {
        self.trees += 1;
        self.add_link(&tree.root, &mut visit);
    }

    /// Adds a block of memory that several leaves may hold, unless it was added already.
    pub(crate) fn add_block(&mut self, block: &'t [u8], bytes: usize) {
        assert!(!block.is_empty(), "a block has a place of its own");
        if self.seen.insert(block.as_ptr() as usize) {
            self.bytes += bytes;
        }
    }

    fn add_link<K, V, F, S, const B: usize>(&mut self, link: &'t Link<K, V, S, B>, visit: &mut F)
    where
        F: FnMut(&mut Self, &'t K, &'t V),
    {
        if link.is_empty() || !self.seen.insert(link.address()) {
            return;
        }
        match link {
            Link::Empty => {}
            Link::Leaf(leaf) => {
                assert!(!leaf.is_empty(), "no leaf is empty");
                self.leaves += 1;
                self.entries += leaf.len();
                self.bytes += leaf_bytes::<K, V, S, B>();
                leaf.iter().for_each(|(key, value)| visit(self, key, value));
            }
            Link::Inner(node) => {
                self.inner_nodes += 1;
                self.bytes += inner_bytes::<K, V, S, B>();
                self.add_link(&node.left, visit);
                self.add_link(&node.right, visit);
            }
        }
    }
}

impl<K, V, S, const B: usize> PTree<K, V, S, B> {
    /// What this tree takes by itself, nodes shared with other trees included. `O(n / B)`.
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u64, u64> = (0..1_000).map(|key| (key, key)).collect();
    /// let memory = tree.memory();
    /// assert!(memory.entries == 1_000 && memory.bytes < 1_000 * 16 * 2);
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory<'_> {
        let mut memory = Memory::default();
        memory.add(self);
        memory
    }

    /// Drops the tree on several threads: what nobody else holds is freed. An ordinary drop does the same on one.
    ///
    /// Work `O(nodes freed)`, span `O(log n)`; the recursion is as deep as the tree is high, in both kinds of drop. Where it pays most is an old version whose neighbours
    /// hold most of it: nodes are fetched before references to them are counted.
    /// Returns when all is done (P-Trees paper, section 6).
    ///
    /// ```
    /// let tree: coeval_ptree::PTree<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
    /// let snapshot = tree.clone();
    /// tree.drop_parallel(); // The other holder keeps everything.
    /// assert_eq!(snapshot.len(), 100_000);
    /// ```
    pub fn drop_parallel(self)
    where
        K: Send + Sync,
        V: Send + Sync,
        S: Send + Sync,
    {
        self.drop_by(Grain::entries(DROP_GRAIN));
    }

    /// As [`drop_parallel`](Self::drop_parallel), with tasks of a size of the caller's choice: where values are large
    /// trees themselves, few of them make a task.
    ///
    /// ```
    /// use coeval_ptree::{Grain, PTree};
    /// let tables: PTree<u32, PTree<u32, u32>> = (0..8).map(|i| (i, (0..1000).map(|k| (k, 1)).collect())).collect();
    /// tables.drop_by(Grain::entries(1));
    /// ```
    pub fn drop_by(self, grain: Grain)
    where
        K: Send + Sync,
        V: Send + Sync,
        S: Send + Sync,
    {
        drop_link(self.root, grain);
    }
}

/// Entries of a subtree that one thread drops.
const DROP_GRAIN: usize = if cfg!(test) { 16 } else { 16_384 };

/// Nodes that are on their way into the cache while others are dropped.
const AHEAD: usize = 16;

/// Drops a subtree, as an ordinary drop does, but looks at nodes some time before it takes its reference from them: counts
/// are changed one after the other, and each change would wait for memory if the versions before and after this one hold
/// most of its nodes and nobody has looked at them for long.
fn drop_ahead<K, V, S, const B: usize>(link: Link<K, V, S, B>) {
    let mut coming = VecDeque::with_capacity(AHEAD);
    let mut rest = vec![link];
    loop {
        while coming.len() < AHEAD
            && let Some(link) = rest.pop()
        {
            link.touch();
            coming.push_back(link);
        }
        match coming.pop_front() {
            None => return,
            Some(Link::Inner(node)) => {
                if let Ok(Inner { left, right, .. }) = Arc::try_unwrap(node) {
                    rest.extend([right, left]);
                }
            }
            Some(Link::Leaf(_) | Link::Empty) => {}
        }
    }
}

/// Drops a subtree on several threads.
fn drop_link<K, V, S, const B: usize>(link: Link<K, V, S, B>, grain: Grain)
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    if link.size() <= grain.count() {
        drop_ahead(link);
        return;
    }
    // A node that somebody else holds, too, is left to him. Two last holders who let go of it at the same moment may leave
    // it to each other: then the ordinary drop of the later one frees what lies below.
    match link {
        Link::Empty => {}
        Link::Leaf(leaf) => {
            if let Ok(leaf) = Arc::try_unwrap(leaf) {
                let entries: Vec<(K, V)> = leaf.entries.into_iter().collect();
                entries.into_par_iter().with_min_len(grain.count()).for_each(drop);
            }
        }
        Link::Inner(node) => {
            if let Ok(node) = Arc::try_unwrap(node) {
                let Inner { left, right, .. } = node;
                rayon::join(|| drop_link(left, grain), || drop_link(right, grain));
            }
        }
    }
}

#[cfg(test)]
mod tests;
