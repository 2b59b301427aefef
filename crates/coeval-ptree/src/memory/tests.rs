// SPDX-License-Identifier: Apache-2.0
//! Memory reports of versions that share nodes, and parallel drops.

use rand::Rng;

use crate::model::{Census, Counted, random};
use crate::{Memory, PTree};

#[test]
fn nodes_that_versions_share_count_once() {
    let mut random = random(21);
    let mut tree: PTree<u32, u64, 8> = (0..5_000).map(|key| (key, 0)).collect();
    let whole = tree.memory();
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
fn nested_trees_that_outer_versions_share_count_once() {
    let mut outer: PTree<u32, PTree<u32, u64, 4>, 4> =
        (0..100).map(|key| (key, (0..20).map(|key| (key, 0)).collect())).collect();
    let old = outer.clone();
    outer.modify(&50, |inner| inner.insert(10, 1));
    let add = |memory: &mut Memory, outer: &PTree<u32, PTree<u32, u64, 4>, 4>| {
        memory.add_with(outer, |memory, _, inner| memory.add(inner));
    };
    let mut memory = Memory::default();
    add(&mut memory, &old);
    let before = memory.clone();
    add(&mut memory, &outer);
    // One leaf of each level is new; the new outer leaf points to its old neighbours' inner trees.
    assert_eq!(memory.leaves - before.leaves, 2);
    assert_eq!(memory.entries - before.entries, outer_leaf_entries(&memory, &before));
}

fn outer_leaf_entries(memory: &Memory, before: &Memory) -> usize {
    let new = memory.entries - before.entries;
    assert!(new <= 8, "{new} entries in two leaves of at most 4");
    new
}

#[test]
fn a_parallel_drop_frees_what_nobody_else_holds_and_nothing_else() {
    let census = Census::default();
    let tree: PTree<u32, Counted, 4> =
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
    changed.drop_parallel();
    assert_eq!(census.living(), 3_000);
    held.drop_parallel();
    assert_eq!(census.living(), 0);
}

#[test]
fn two_threads_may_drop_the_last_two_holders_at_once() {
    let census = Census::default();
    for _ in 0..50 {
        let tree: PTree<u32, Counted, 4> =
            PTree::from_sorted((0..500).map(|key| (key, census.value(u64::from(key)))).collect());
        let other = tree.clone();
        rayon::join(|| tree.drop_parallel(), || other.drop_parallel());
        assert_eq!(census.living(), 0);
    }
}
