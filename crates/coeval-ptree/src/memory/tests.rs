// SPDX-License-Identifier: Apache-2.0
//! Memory reports of versions that share nodes, and parallel drops.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;

use crate::model::{Census, Counted, Meeting, on_two_threads, random};
use crate::{Grain, Memory, PTree};

#[test]
fn nodes_that_versions_share_count_once() {
    let mut random = random(21);
    let mut tree: PTree<u32, u64, (), 8> = (0..5_000).map(|key| (key, 0)).collect();
    let start = tree.clone();
    let whole = start.memory();
    let shape = tree.shape();
    assert_eq!((whole.trees, whole.entries, whole.leaves), (1, 5_000, shape.leaves));
    assert_eq!((whole.inner_nodes, whole.bytes), (shape.inner_nodes, shape.bytes));

    let mut versions = vec![tree.clone()];
    for _ in 0..20 {
        tree.insert(random.random_range(0..5_000), 1);
        versions.push(tree.clone());
    }
    let mut memory = Memory::default();
    versions.iter().for_each(|version| memory.add(version));
    memory.add(&tree);
    assert_eq!(memory.trees, 22);
    // Each update of a value copies one path of inner nodes and one leaf, as the paper estimates.
    let copied = memory.inner_nodes + memory.leaves - whole.inner_nodes - whole.leaves;
    assert!(copied <= 20 * shape.height, "{copied} nodes copied, trees are {} high", shape.height);
    assert_eq!(memory.leaves - whole.leaves, 20);
}

#[test]
fn a_tree_added_again_or_cloned_meanwhile_counts_once() {
    let tree: PTree<u32, u64, (), 8> = (0..5_000).map(|key| (key, 0)).collect();
    let mut memory = Memory::default();
    memory.add(&tree);
    let once = memory.clone();
    memory.add(&tree);
    let copy = tree.clone();
    memory.add(&copy);
    assert_eq!((memory.trees, memory.bytes, memory.entries), (3, once.bytes, once.entries));
    // A node that had one holder when it was counted has two now.
    let mut changed = copy.clone();
    changed.insert(2_500, 1);
    memory.add(&changed);
    assert_eq!(memory.leaves, once.leaves + 1);
    assert!(memory.inner_nodes - once.inner_nodes < tree.shape().height);
}

#[test]
fn nested_trees_that_outer_versions_share_count_once() {
    let mut outer: PTree<u32, PTree<u32, u64, (), 4>, (), 4> =
        (0..100).map(|key| (key, (0..20).map(|key| (key, 0)).collect())).collect();
    let old = outer.clone();
    outer.modify(&50, |inner| inner.insert(10, 1));
    let mut memory = Memory::default();
    memory.add_with(&old, |memory, _, inner| memory.add(inner));
    let before = memory.clone();
    memory.add_with(&outer, |memory, _, inner| memory.add(inner));
    // One leaf of each level is new; the new outer leaf points to its old neighbours' inner trees.
    assert_eq!(memory.leaves - before.leaves, 2);
    let outer_leaf = changed_leaf(&old, &outer);
    let inner_leaf = changed_leaf(old.get(&50).unwrap(), outer.get(&50).unwrap());
    assert_eq!(memory.entries - before.entries, outer_leaf + inner_leaf);
}

/// The size of the only leaf of `new` that `old` does not have.
fn changed_leaf<K, V>(old: &PTree<K, V, (), 4>, new: &PTree<K, V, (), 4>) -> usize {
    let mut memory = Memory::default();
    memory.add(old);
    let before = memory.clone();
    memory.add(new);
    assert_eq!(memory.leaves - before.leaves, 1);
    memory.entries - before.entries
}

#[test]
fn inner_trees_behind_reference_counts_of_their_own_count_once() {
    let inner: std::sync::Arc<PTree<u32, u64>> =
        std::sync::Arc::new((0..1_000).map(|key| (key, 0)).collect());
    let alone = inner.memory().bytes;
    let outer: PTree<u32, std::sync::Arc<PTree<u32, u64>>> =
        (0..10).map(|key| (key, inner.clone())).collect();
    let mut memory = Memory::default();
    memory.add_with(&outer, |memory, _, inner| memory.add(inner));
    assert_eq!(memory.bytes, outer.memory().bytes + alone);
}

#[test]
fn bytes_are_those_of_the_allocations() {
    #[repr(align(16))]
    #[derive(Clone)]
    struct Wide(#[expect(dead_code, reason = "only its size counts")] [u8; 16]);
    // A count of eight bytes, eight of padding, a length of four and twelve of padding, then the pairs.
    let leaf_of_wide = 16 + 16 + 4 * 32;
    let tree: PTree<u32, Wide, (), 4> = PTree::from_sorted(vec![(1, Wide([0; 16]))]);
    assert_eq!(tree.memory().bytes, leaf_of_wide);
    // A count of eight bytes, a length of four, pairs of one and one byte.
    let tree: PTree<u8, u8, (), 4> = PTree::from_sorted(vec![(1, 1)]);
    assert_eq!(tree.memory().bytes, (8 + 4 + 4 * 2usize).next_multiple_of(8));
}

/// A value that waits for another one where it is dropped.
#[derive(Clone)]
struct Last(std::sync::Arc<Meeting>, std::sync::Arc<AtomicUsize>);

impl Drop for Last {
    fn drop(&mut self) {
        if self.0.wait() {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn large_values_of_a_small_tree_are_dropped_at_once() {
    let (meeting, met) = (std::sync::Arc::new(Meeting::default()), std::sync::Arc::new(AtomicUsize::new(0)));
    let entries = (0..2).map(|key| (key, Last(meeting.clone(), met.clone())));
    let tree: PTree<u32, Last, (), 4> = PTree::from_sorted(entries.collect());
    on_two_threads(|| tree.drop_by(Grain::entries(1)));
    assert_eq!(met.load(Ordering::Relaxed), 2);
}

#[test]
fn a_parallel_drop_frees_what_nobody_else_holds_and_nothing_else() {
    let census = Census::default();
    let tree: PTree<u32, Counted, (), 4> =
        PTree::from_sorted((0..3_000).map(|key| (key, census.value(u64::from(key)))).collect());
    let mut changed = tree.clone();
    for key in (0..3_000).step_by(100) {
        changed.insert(key, census.value(0));
    }
    tree.drop_parallel();
    assert!(changed.iter().all(|(key, value)| value.content == u64::from(*key) || value.content == 0));
    assert_eq!(census.living(), 3_000);
    changed.check_invariants().unwrap();
    let held = changed.clone();
    changed.drop_by(Grain::entries(1));
    assert_eq!(census.living(), 3_000);
    held.drop_by(Grain::entries(1));
    assert_eq!(census.living(), 0);
}

#[test]
fn two_threads_may_drop_the_last_two_holders_at_once() {
    let census = Census::default();
    for _ in 0..50 {
        let tree: PTree<u32, Counted, (), 4> =
            PTree::from_sorted((0..500).map(|key| (key, census.value(u64::from(key)))).collect());
        let other = tree.clone();
        rayon::join(|| tree.drop_parallel(), || other.drop_parallel());
        assert_eq!(census.living(), 0);
    }
}
