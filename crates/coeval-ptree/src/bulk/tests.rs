// SPDX-License-Identifier: Apache-2.0
//! Batches of all sizes on trees of all sizes, on one thread and on several.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::Rng;

use crate::PTree;
use crate::model::{Census, Counted, Model, assert_same, random, random_model, tree_of};

type Batch = BTreeMap<u32, Option<u64>>;

/// Applies a batch to a model.
fn update_model(model: &mut Model, batch: &Batch) {
    for (key, value) in batch {
        match value {
            Some(value) => drop(model.insert(*key, *value)),
            None => drop(model.remove(key)),
        }
    }
}

fn random_batch(random: &mut impl Rng, count: usize, limit: u32) -> Batch {
    (0..count)
        .map(|_| {
            (random.random_range(0..limit), random.random::<bool>().then(|| random.random_range(0..1_000)))
        })
        .collect()
}

#[test]
fn batches_of_any_size_equal_single_updates() {
    let mut random = random(6);
    for round in 0..400 {
        let (size, count) = (random.random_range(0..600), random.random_range(0..600));
        let mut model = random_model(&mut random, size, 1_000);
        let mut tree: PTree<u32, u64, (), 6> = tree_of(&model);
        // Every other tree is shared, so that both ways of changing a node are taken.
        let held = (round % 2 == 0).then(|| (tree.clone(), model.clone()));
        let batch = random_batch(&mut random, count, 1_000);
        tree.multi_update(batch.clone().into_iter().collect());
        update_model(&mut model, &batch);
        assert_same(&tree, &model);
        if let Some((tree, model)) = held {
            assert_same(&tree, &model);
        }
    }
}

#[test]
fn a_long_run_of_new_keys_between_two_old_ones_fits() {
    let mut tree: PTree<u32, u64, (), 4> = PTree::from_sorted(vec![(0, 0), (1_000_000, 0)]);
    tree.multi_insert((1..100_000).map(|key| (key, 1)).collect(), |_, _, new| new);
    tree.check_invariants().unwrap();
    assert_eq!(tree.len(), 100_001);
    tree.multi_delete(&(0..=99_999).collect::<Vec<_>>());
    assert_eq!(tree.into_iter().collect::<Vec<_>>(), [(1_000_000, 0)]);
}

#[test]
fn empty_batches_and_batches_that_remove_all_are_fine() {
    let model: Model = (0..500).map(|key| (key, 1)).collect();
    let mut tree: PTree<u32, u64> = tree_of(&model);
    let same = tree.clone();
    tree.multi_insert(Vec::new(), |_, _, new| new);
    tree.multi_delete(&[]);
    assert!(tree.ptr_eq(&same));
    tree.multi_delete(&(0..500).collect::<Vec<_>>());
    assert!(tree.is_empty());
    tree.multi_delete(&[1, 2, 3]);
    tree.check_invariants().unwrap();
}

#[test]
fn altering_decides_for_each_key_with_the_old_value_at_hand() {
    let mut random = random(7);
    for _ in 0..100 {
        let mut model = random_model(&mut random, 300, 600);
        let mut tree: PTree<u32, u64, (), 7> = tree_of(&model);
        let changes = random_model(&mut random, 200, 600);
        let alter = |old: Option<&u64>, change: u64| match old {
            Some(old) if change.is_multiple_of(3) => Some(old + change),
            Some(_) => None,
            None => change.is_multiple_of(2).then_some(change),
        };
        tree.alter_many(changes.clone().into_iter().collect(), alter);
        for (key, change) in changes {
            match alter(model.get(&key), change) {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
        assert_same(&tree, &model);
    }
}

#[test]
fn touching_is_for_what_a_shared_block_holds_and_changes_nothing() {
    let entries: Vec<(u32, u64)> = (0..300).map(|key| (key, u64::from(key))).collect();
    let mut tree: PTree<u32, u64, (), 8> = PTree::from_sorted(entries.clone());
    let touched = std::sync::Mutex::new(Vec::new());
    let touch = |value: &u64| touched.lock().unwrap().push(*value);
    tree.alter_many_touching(vec![(150, 1)], |old, change| old.map(|old| old + change), touch);
    assert!(touched.lock().unwrap().is_empty(), "nobody else holds the block, so it is not copied");
    let snapshot = tree.clone();
    tree.alter_many_touching(vec![(150, 1)], |old, change| old.map(|old| old + change), touch);
    let touched = touched.into_inner().unwrap();
    assert!(touched.len() <= 8 && touched.contains(&151), "the values of one block: {touched:?}");
    assert_eq!((snapshot.get(&150), tree.get(&150)), (Some(&151), Some(&152)));
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut random = random(8);
            let mut tree: PTree<u32, u64, (), 4> = tree_of(&random_model(&mut random, 20_000, 100_000));
            for _ in 0..5 {
                tree.multi_update(random_batch(&mut random, 10_000, 100_000).into_iter().collect());
                tree = tree.union(tree_of(&random_model(&mut random, 5_000, 100_000)), |_, a, b| a ^ b);
                tree = tree.difference(&tree_of::<(), 4>(&random_model(&mut random, 1_000, 100_000)));
            }
            tree.check_invariants().unwrap();
            // Joins in text order show that reduction keeps the order of keys.
            let text = tree.map_reduce(|key, _| key.to_string(), |a, b| a + &b, String::new());
            (tree.filter(|key, _| key % 3 == 0), text)
        })
    };
    let (one, many) = (run(1), run(4));
    assert_eq!(one, many);
    assert_eq!(one.0.shape(), many.0.shape());
}

#[test]
fn a_panic_in_combine_leaves_held_versions_intact_and_leaks_nothing() {
    let census = Census::default();
    {
        let entries = (0..2_000u32).map(|key| (key, census.value(u64::from(key)))).collect();
        let mut tree: PTree<u32, Counted, (), 4> = PTree::from_sorted(entries);
        let held = tree.clone();
        let batch: Vec<(u32, Counted)> = (0..1_500).map(|key| (key, census.value(0))).collect();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            tree.multi_insert(batch, |key, _, new| {
                assert!(*key != 777, "on purpose");
                new
            });
        }));
        assert!(outcome.is_err());
        assert!(tree.is_empty());
        tree.insert(1, census.value(1));
        tree.check_invariants().unwrap();
        held.check_invariants().unwrap();
        assert!(held.iter().all(|(key, value)| value.content == u64::from(*key)));
        assert_eq!(held.len(), 2_000);
    }
    assert_eq!(census.living(), 0);
}

#[test]
#[should_panic(expected = "keys of a batch must strictly increase")]
fn unsorted_batches_are_refused() {
    PTree::<u32, u32>::new().multi_insert(vec![(2, 0), (1, 0)], |_, _, new| new);
}

#[test]
fn a_refused_batch_changes_nothing() {
    let mut tree: PTree<u32, u64> = [(1, 1), (2, 2)].into_iter().collect();
    let before = tree.clone();
    for keys in [vec![2, 1], vec![1, 1]] {
        assert!(catch_unwind(AssertUnwindSafe(|| tree.multi_delete(&keys))).is_err());
        assert!(tree.ptr_eq(&before));
    }
}
