// SPDX-License-Identifier: Apache-2.0
//! Trees of trees against maps of maps: construction, updates through the levels, and what versions share.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;

use crate::model::{
    Census, Counted, Fingerprint, Meeting, Model, Tallied, Tally, assert_same, on_two_threads, random,
    random_model, tree_of,
};
use crate::{
    Count, Fate, Grain, NestedBatch, PTree, Sum, group_batch, pairing, pairing_outer, primary, secondary,
};

type Outer = PTree<u32, PTree<u32, u64, Fingerprint, 4>, (), 6>;
type OuterModel = BTreeMap<u32, Model>;

#[track_caller]
fn assert_same_nested(tree: &Outer, model: &OuterModel) {
    tree.check_invariants().unwrap();
    assert!(tree.keys().eq(model.keys()));
    for (inner, model) in tree.values().zip(model.values()) {
        assert!(!inner.is_empty(), "a group is there as long as something has it");
        assert_same(inner, model);
    }
    assert_eq!(tree.len_nested(), model.values().map(Model::len).sum::<usize>());
}

#[test]
fn a_secondary_index_groups_the_primary_one() {
    let mut random = random(31);
    for _ in 0..100 {
        let size = random.random_range(0..600);
        let model = random_model(&mut random, size, 2_000);
        let tree: PTree<u32, u64, Fingerprint, 4> = tree_of(&model);
        let index: Outer = secondary(&tree, |key, value| ((u64::from(*key) + value) % 37) as u32);
        let mut groups = OuterModel::new();
        for (key, value) in &model {
            let group = ((u64::from(*key) + value) % 37) as u32;
            groups.entry(group).or_default().insert(*key, *value);
        }
        assert_same_nested(&index, &groups);
    }
}

#[test]
fn a_primary_index_has_the_last_row_of_each_key() {
    let rows = vec![(3, 'a'), (1, 'b'), (3, 'c')];
    let index: PTree<u32, (u32, char)> = primary(rows, |row: &(u32, char)| row.0);
    assert_eq!(index.into_iter().collect::<Vec<_>>(), [(1, (1, 'b')), (3, (3, 'c'))]);
}

#[test]
fn pairings_are_joins_on_the_key() {
    let mut random = random(32);
    for _ in 0..200 {
        let sizes = (random.random_range(0..400), random.random_range(0..400));
        let (mine, theirs) =
            (random_model(&mut random, sizes.0, 500), random_model(&mut random, sizes.1, 500));
        let left: PTree<u32, u64, (), 4> = tree_of(&mine);
        let right: PTree<u32, u64, Sum<u64>, 8> = tree_of(&theirs);
        let inner: PTree<u32, (u64, u64), Count, 4> = pairing(&left, &right);
        inner.check_invariants().unwrap();
        assert_eq!(inner.summary(), Count(inner.len()));
        let expected = mine.iter().filter_map(|(key, one)| Some((*key, (*one, *theirs.get(key)?))));
        assert!(inner.into_iter().eq(expected));
        let outer: PTree<u32, (u64, u64), (), 4> = pairing_outer(&left, &right);
        outer.check_invariants().unwrap();
        let expected = mine.iter().map(|(key, one)| (*key, (*one, theirs.get(key).copied().unwrap_or(0))));
        assert!(outer.into_iter().eq(expected));
    }
}

#[test]
fn histories_of_nested_updates_equal_maps_of_maps_and_leave_held_versions_alone() {
    let mut random = random(33);
    for _ in 0..20 {
        let (mut tree, mut model) = (Outer::default(), OuterModel::new());
        let mut held = Vec::new();
        for step in 0..120 {
            let (group, key) = (random.random_range(0..30), random.random_range(0..60));
            match random.random_range(0..6) {
                0 | 1 => {
                    let value = random.random_range(0..1_000);
                    let replaced = model.entry(group).or_default().insert(key, value);
                    assert_eq!(tree.insert_nested(group, key, value), replaced);
                }
                2 => {
                    let removed = model.get_mut(&group).and_then(|inner| inner.remove(&key));
                    assert_eq!(tree.remove_nested(&group, &key), removed);
                }
                3 => {
                    let batch = random_pairs(&mut random);
                    for (pair, new) in &batch {
                        let inner = model.entry(pair.0).or_default();
                        let value = inner.get(&pair.1).map_or(*new, |old| old + new);
                        inner.insert(pair.1, value);
                    }
                    let batch = group_batch(batch.into_iter().collect());
                    tree.multi_insert_nested(batch, |_, old, new| old + new);
                }
                4 => {
                    let batch: BTreeMap<(u32, u32), Option<u64>> = random_pairs(&mut random)
                        .into_iter()
                        .map(|(pair, value)| (pair, (value % 3 == 0).then_some(value)))
                        .collect();
                    for (pair, value) in &batch {
                        let inner = model.entry(pair.0).or_default();
                        match value {
                            Some(value) => drop(inner.insert(pair.1, *value)),
                            None => drop(inner.remove(&pair.1)),
                        }
                    }
                    tree.multi_update_nested(group_batch(batch.into_iter().collect()));
                }
                _ => assert_eq!(
                    tree.get_nested(&group, &key),
                    model.get(&group).and_then(|inner| inner.get(&key))
                ),
            }
            model.retain(|_, inner| !inner.is_empty());
            assert_same_nested(&tree, &model);
            if step % 20 == 0 {
                held.push((tree.clone(), model.clone()));
            }
            held.iter().for_each(|(tree, model)| assert_same_nested(tree, model));
        }
    }
}

fn random_pairs(random: &mut impl Rng) -> BTreeMap<(u32, u32), u64> {
    let count = random.random_range(0..80);
    let mut pair = || (random.random_range(0..30), random.random_range(0..60));
    let pairs: Vec<(u32, u32)> = (0..count).map(|_| pair()).collect();
    pairs.into_iter().enumerate().map(|(at, pair)| (pair, at as u64)).collect()
}

#[test]
fn a_nested_update_copies_the_path_and_shares_the_other_inner_trees() {
    let mut tree: Outer = (0..50).map(|group| (group, (0..50).map(|key| (key, 0)).collect())).collect();
    let old = tree.clone();
    tree.insert_nested(20, 7, 1);
    for (group, inner) in &tree {
        let before = old.get(group).unwrap();
        assert_eq!(inner.ptr_eq(before), *group != 20, "group {group}");
    }
    assert_eq!((old.get_nested(&20, &7), tree.get_nested(&20, &7)), (Some(&0), Some(&1)));
    // What is not there is not copied for.
    let same = tree.clone();
    assert_eq!(tree.remove_nested(&20, &99), None);
    assert_eq!(tree.remove_nested(&99, &7), None);
    assert!(tree.ptr_eq(&same));
}

#[test]
fn a_sole_owner_updates_through_all_levels_without_cloning() {
    let census = Census::default();
    type Middle = PTree<u32, PTree<u32, Counted, (), 4>, (), 4>;
    let mut tree: PTree<u32, Middle, (), 4> = PTree::default();
    for key in 0..1_000u32 {
        tree.upsert(key % 10, |middle| {
            middle.upsert(key % 7, |inner| inner.insert(key, census.value(u64::from(key))))
        });
    }
    let batch: NestedBatch<u32, u32, Vec<(u32, Counted)>> = (0..10)
        .map(|outer| (outer, (0..7).map(|middle| (middle, vec![(5_000, census.value(1))])).collect()))
        .collect();
    tree.multi_modify(batch, Grain::entries(1), |_, middle, batch| {
        middle.multi_modify(batch, Grain::UPDATE, |_, inner, pairs| {
            inner.multi_insert(pairs, |_, _, new| new);
            Fate::Keep
        });
        Fate::Keep
    });
    assert_eq!(census.living(), 1_070);
    assert_eq!(census.clones(), 0);
    drop(tree);
    assert_eq!(census.living(), 0);
}

#[test]
#[should_panic(expected = "keys of a batch must strictly increase")]
fn an_unsorted_nested_batch_is_refused() {
    let _ = group_batch(vec![((2, 1), ()), ((1, 1), ())]);
}

#[test]
fn a_nested_batch_with_an_unsorted_group_changes_nothing() {
    let mut tree: Outer = (0..20).map(|group| (group, (0..20).map(|key| (key, 0)).collect())).collect();
    let before = tree.clone();
    let refused = |change: &mut dyn FnMut()| {
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
    };
    refused(&mut || {
        tree.multi_insert_nested(vec![(3, vec![(1, 1)]), (7, vec![(2, 1), (1, 1)])], |_, _, new| new)
    });
    refused(&mut || tree.multi_update_nested(vec![(3, vec![(1, None)]), (7, vec![(2, None), (2, None)])]));
    refused(&mut || tree.multi_update_nested(vec![(7, vec![(1, None)]), (3, vec![(2, None)])]));
    assert!(tree.ptr_eq(&before));
    assert_eq!(tree.len_nested(), 400);
}

/// Whether two groups of a batch are worked on at the same time.
fn groups_meet(mut tree: PTree<u32, u64, (), 4>, keys: [u32; 2]) -> bool {
    let (meeting, met) = (Meeting::default(), AtomicUsize::new(0));
    on_two_threads(|| {
        tree.multi_modify(keys.map(|key| (key, ())).into(), Grain::entries(1), |_, _, ()| {
            met.fetch_add(usize::from(meeting.wait()), Ordering::Relaxed);
            Fate::Keep
        });
    });
    assert!(keys.iter().all(|key| tree.contains_key(key)));
    tree.check_invariants().unwrap();
    met.into_inner() == 2
}

#[test]
fn groups_of_an_empty_outer_tree_and_of_one_block_are_worked_on_at_once() {
    assert!(groups_meet(PTree::default(), [1, 2]));
    let block: PTree<u32, u64, (), 4> = (0..3).map(|key| (key, 0)).collect();
    assert!(groups_meet(block.clone(), [1, 2]), "one that somebody else holds, too");
    assert!(groups_meet(block, [1, 7]), "one of its own");
    assert!(groups_meet((0..100).map(|key| (key, 0)).collect(), [7, 90]));
}

/// A pairing once visited every leaf of its left side, however small the right one was, and copied paths of the right one.
#[test]
fn a_pairing_costs_what_the_smaller_side_costs() {
    let tally = Tally::default();
    let tree = |step: usize| -> PTree<Tallied, u32> {
        PTree::from_sorted((0..100_000).step_by(step).map(|key| (tally.key(key), key)).collect())
    };
    let (large, small) = (tree(1), tree(1_000));
    let (one, paired): (_, PTree<Tallied, (u32, u32)>) = tally.count(|| pairing(&large, &small));
    assert_eq!(paired.len(), 100);
    let (other, paired): (_, PTree<Tallied, (u32, u32)>) = tally.count(|| pairing(&small, &large));
    assert_eq!(paired.len(), 100);
    // A hundred searches in a tree of a hundred thousand, and as much for finding out where to look.
    assert!(one < 6_000 && other < 6_000, "{one} and {other} comparisons");
    let (none, paired): (_, PTree<Tallied, (u32, u32)>) =
        tally.count(|| pairing(&large, &PTree::<_, u32>::new()));
    assert_eq!((none, paired.len()), (0, 0));
}
