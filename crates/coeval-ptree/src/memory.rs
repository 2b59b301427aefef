// SPDX-License-Identifier: Apache-2.0
//! What trees take in memory, shared nodes counted once; and giving it back on several threads.

use std::collections::HashSet;
use std::mem::size_of;

use triomphe::Arc;

use crate::grain::Grain;
use crate::node::{Inner, Leaf, Link};
use crate::tree::PTree;

/// The memory of any number of trees, in which every node counts once, however many trees reach it.
///
/// Nested trees, which live in values, are added by the caller, who alone knows where they are.
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
pub struct Memory {
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
    /// Where the nodes lie that more than one tree might reach.
    seen: HashSet<usize>,
}

impl Memory {
    /// Adds the nodes of a tree that were not added yet. `O(new nodes)`.
    pub fn add<K, V, S, const B: usize>(&mut self, tree: &PTree<K, V, B, S>) {
        self.add_with(tree, |_, _, _| {});
    }

    /// As [`add`](Self::add), and calls `visit` with each entry of each leaf that was not added yet, for what its
    /// value owns: other trees, for instance.
    ///
    /// ```
    /// use coeval_ptree::{Memory, PTree};
    /// let orders: PTree<u32, PTree<u32, u32>> = (0..10).map(|o| (o, (0..4).map(|line| (line, 1)).collect())).collect();
    /// let mut memory = Memory::default();
    /// memory.add_with(&orders, |memory, _, lines| memory.add(lines));
    /// assert_eq!((memory.trees, memory.entries), (11, 50));
    /// ```
    pub fn add_with<K, V, F, S, const B: usize>(&mut self, tree: &PTree<K, V, B, S>, mut visit: F)
    where
        F: FnMut(&mut Self, &K, &V),
    {
        self.trees += 1;
        // One tree may be added twice, in which case nothing says so but its root.
        if tree.root.count() <= 1 && !self.seen.insert(tree.root.address()) {
            return;
        }
        self.add_link(&tree.root, &mut visit);
    }

    /// Adds a block of memory that several leaves may hold, unless it was added already.
    pub(crate) fn add_block(&mut self, address: usize, holders: usize, bytes: usize) {
        assert!(holders >= 1, "somebody holds what is added");
        if holders == 1 || self.seen.insert(address) {
            self.bytes += bytes;
        }
    }

    fn add_link<K, V, F, S, const B: usize>(&mut self, link: &Link<K, V, S, B>, visit: &mut F)
    where
        F: FnMut(&mut Self, &K, &V),
    {
        // A node with one reference is reached once, as long as its parent is.
        if link.count() > 1 && !self.seen.insert(link.address()) {
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

/// Bytes of a leaf with its reference count, full or not.
pub(crate) const fn leaf_bytes<K, V, S, const B: usize>() -> usize {
    size_of::<Leaf<K, V, S, B>>() + size_of::<usize>()
}

/// Bytes of an inner node with its reference count.
pub(crate) const fn inner_bytes<K, V, S, const B: usize>() -> usize {
    size_of::<Inner<K, V, S, B>>() + size_of::<usize>()
}

impl<K, V, const B: usize, S> PTree<K, V, B, S> {
    /// What this tree takes by itself, nodes shared with other trees included. `O(n / B)`.
    ///
    /// For several trees, or nested ones, add them to one [`Memory`].
    #[must_use]
    pub fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        memory.add(self);
        memory
    }

    /// Drops the tree on several threads: what nobody else holds is freed. An ordinary drop does the same on one.
    ///
    /// Work `O(nodes freed)`, span `O(log n)`; the recursion is as deep as the tree is high, in both kinds of drop.
    /// Returns when all is done (P-Trees paper, section 6).
    pub fn drop_parallel(self)
    where
        K: Send + Sync,
        V: Send + Sync,
        S: Send + Sync,
    {
        drop_link(self.root);
    }
}

/// Drops a subtree on several threads.
fn drop_link<K, V, S, const B: usize>(link: Link<K, V, S, B>)
where
    K: Send + Sync,
    V: Send + Sync,
    S: Send + Sync,
{
    if link.size() <= Grain::SCAN.count() {
        return;
    }
    let Link::Inner(node) = link else { return };
    // Whoever holds the last reference goes on below; the others leave it to him.
    if let Ok(node) = Arc::try_unwrap(node) {
        let Inner { left, right, .. } = node;
        rayon::join(|| drop_link(left), || drop_link(right));
    }
}

#[cfg(test)]
mod tests;
