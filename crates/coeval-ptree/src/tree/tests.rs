// SPDX-License-Identifier: Apache-2.0
//! Random histories of every operation against `BTreeMap`, with old versions held and checked again.

use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;
use rand::Rng;

use crate::model::{Census, Counted, Fingerprint, Model, assert_same, random, random_model, tree_of};
use crate::{Count, Fate, Grain, Max, Min, PTree, Sum, Summary};

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Remove(u32),
    MultiInsert(Model),
    MultiDelete(Vec<u32>),
    MultiUpdate(Vec<(u32, Option<u64>)>),
    KeepBelow(u32),
    KeepFrom(u32),
    Range(u32, u32),
    Rejoin(u32),
    Union(Model),
    Intersection(Model),
    Difference(Model),
    FilterMultiples(u32),
    MultiInsertUnsorted(Vec<(u32, u64)>),
    MultiModify(Vec<(u32, Option<u64>)>),
    Modify(u32, u64),
    Upsert(u32, u64),
    PopFirst,
    PopLast,
    Left(u32),
    Right(u32),
    MapValues(u64),
    Build(Vec<(u32, u64)>),
    Hold,
    DropHeld,
}

const KEYS: u32 = 400;

fn key() -> impl Strategy<Value = u32> {
    0..KEYS
}

fn batch(count: usize) -> impl Strategy<Value = Model> {
    proptest::collection::btree_map(key(), 0..1_000_000u64, 0..count)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value >> 32)),
        12 => key().prop_map(Step::Remove),
        4 => batch(300).prop_map(Step::MultiInsert),
        4 => batch(8).prop_map(Step::MultiInsert),
        2 => batch(200).prop_map(|batch| Step::MultiDelete(batch.into_keys().collect())),
        4 => proptest::collection::btree_map(key(), proptest::option::of(0..1_000_000u64), 0..200)
            .prop_map(|batch| Step::MultiUpdate(batch.into_iter().collect())),
        1 => key().prop_map(Step::KeepBelow),
        1 => key().prop_map(Step::KeepFrom),
        2 => (key(), key()).prop_map(|(one, other)| Step::Range(one, other)),
        2 => key().prop_map(Step::Rejoin),
        2 => batch(200).prop_map(Step::Union),
        1 => batch(300).prop_map(Step::Intersection),
        2 => batch(100).prop_map(Step::Difference),
        1 => (2u32..20).prop_map(Step::FilterMultiples),
        2 => vec((key(), 0..1_000_000u64), 0..200).prop_map(Step::MultiInsertUnsorted),
        2 => proptest::collection::btree_map(key(), proptest::option::of(0..1_000_000u64), 0..200)
            .prop_map(|batch| Step::MultiModify(batch.into_iter().collect())),
        4 => (key(), 0..1_000_000u64).prop_map(|(key, value)| Step::Modify(key, value)),
        4 => (key(), 0..1_000_000u64).prop_map(|(key, value)| Step::Upsert(key, value)),
        2 => Just(Step::PopFirst),
        2 => Just(Step::PopLast),
        1 => key().prop_map(Step::Left),
        1 => key().prop_map(Step::Right),
        1 => (0..100u64).prop_map(Step::MapValues),
        1 => vec((key(), 0..1_000_000u64), 0..400).prop_map(Step::Build),
        3 => Just(Step::Hold),
        1 => Just(Step::DropHeld),
    ]
}

fn combine(key: &u32, old: &u64, new: u64) -> u64 {
    (u64::from(*key) + 3 * old + new) & 0xFFFF_FFFF
}

/// What a change of `MultiModify` does to a value.
fn modify(value: &mut u64, change: Option<u64>) -> Fate {
    match change {
        Some(change) => {
            *value = (*value + change) & 0xFFFF_FFFF;
            Fate::Keep
        }
        None => Fate::Remove,
    }
}

/// Applies a step to a tree.
fn step_tree<S: Summary<u32, u64>, const B: usize>(
    mut tree: PTree<u32, u64, S, B>,
    step: &Step,
) -> PTree<u32, u64, S, B> {
    match step {
        Step::MultiInsertUnsorted(batch) => tree.multi_insert_unsorted(batch.clone(), combine),
        Step::MultiModify(batch) => {
            tree.multi_modify(batch.clone(), Grain::UPDATE, |_, value, change| modify(value, change));
        }
        Step::Modify(key, value) => drop(tree.modify(key, |old| *old = *value)),
        Step::Upsert(key, value) => tree.upsert(*key, |old| *old = (*old + value) & 0xFFFF_FFFF),
        Step::PopFirst => drop(tree.pop_first()),
        Step::PopLast => drop(tree.pop_last()),
        Step::Left(key) => return tree.left(key),
        Step::Right(key) => return tree.right(key),
        Step::MapValues(add) => return tree.map_values(|_, value| (value + add) & 0xFFFF_FFFF),
        Step::Build(entries) => return PTree::build(entries.clone(), combine),
        Step::Insert(key, value) => drop(tree.insert(*key, *value)),
        Step::Remove(key) => drop(tree.remove(key)),
        Step::MultiInsert(batch) => tree.multi_insert(batch.clone().into_iter().collect(), combine),
        Step::MultiDelete(keys) => tree.multi_delete(keys),
        Step::MultiUpdate(batch) => tree.multi_update(batch.clone()),
        Step::KeepBelow(key) => return tree.split(key).0,
        Step::KeepFrom(key) => {
            let (_, hit, mut high) = tree.split(key);
            high.extend(hit);
            return high;
        }
        Step::Range(low, high) => return tree.range((Bound::Excluded(low), Bound::Included(high))),
        Step::Rejoin(key) => {
            let (low, hit, high) = tree.split(key);
            let mut tree = PTree::concat(low, high);
            tree.extend(hit);
            return tree;
        }
        Step::Union(other) => return tree.union(tree_of(other), combine),
        Step::Intersection(other) => return tree.intersection(tree_of(other), combine),
        Step::Difference(other) => return tree.difference(&tree_of::<(), 6>(other)),
        Step::FilterMultiples(divisor) => return tree.filter(|key, _| key % divisor != 0),
        Step::Hold | Step::DropHeld => {}
    }
    tree
}

/// Puts pairs one after the other.
fn put(model: &mut Model, pairs: impl IntoIterator<Item = (u32, u64)>) {
    for (key, new) in pairs {
        let value = model.get(&key).map_or(new, |old| combine(&key, old, new));
        model.insert(key, value);
    }
}

/// Applies a step to a model.
fn step_model(model: &mut Model, step: &Step) {
    match step {
        Step::MultiInsertUnsorted(batch) => {
            let mut sorted = Model::new();
            put(&mut sorted, batch.iter().copied());
            put(model, sorted);
        }
        Step::MultiModify(batch) => {
            for (key, change) in batch {
                let value = model.entry(*key).or_default();
                if modify(value, *change) == Fate::Remove {
                    model.remove(key);
                }
            }
        }
        Step::Modify(key, value) => drop(model.get_mut(key).map(|old| *old = *value)),
        Step::Upsert(key, value) => {
            let old = model.entry(*key).or_default();
            *old = (*old + value) & 0xFFFF_FFFF;
        }
        Step::PopFirst => drop(model.pop_first()),
        Step::PopLast => drop(model.pop_last()),
        Step::Left(bound) => model.retain(|key, _| key <= bound),
        Step::Right(bound) => model.retain(|key, _| key >= bound),
        Step::MapValues(add) => {
            model.values_mut().for_each(|value| *value = (*value + add) & 0xFFFF_FFFF);
        }
        Step::Build(entries) => {
            model.clear();
            put(model, entries.iter().copied());
        }
        Step::Insert(key, value) => drop(model.insert(*key, *value)),
        Step::Remove(key) => drop(model.remove(key)),
        Step::MultiInsert(batch) | Step::Union(batch) => put(model, batch.clone()),
        Step::MultiDelete(keys) => model.retain(|key, _| !keys.contains(key)),
        Step::MultiUpdate(batch) => {
            for (key, value) in batch {
                match value {
                    Some(value) => drop(model.insert(*key, *value)),
                    None => drop(model.remove(key)),
                }
            }
        }
        Step::KeepBelow(bound) => model.retain(|key, _| key < bound),
        Step::KeepFrom(bound) => model.retain(|key, _| key >= bound),
        Step::Range(low, high) => model.retain(|key, _| key > low && key <= high),
        Step::Intersection(other) => {
            model.retain(|key, _| other.contains_key(key));
            model.iter_mut().for_each(|(key, value)| *value = combine(key, value, other[key]));
        }
        Step::Difference(other) => model.retain(|key, _| !other.contains_key(key)),
        Step::FilterMultiples(divisor) => model.retain(|key, _| key % divisor != 0),
        Step::Rejoin(_) | Step::Hold | Step::DropHeld => {}
    }
}

/// Runs a history; after each step the tree equals the model, and all held versions still equal theirs.
fn run_history<S: Summary<u32, u64>, const B: usize>(start: &Model, steps: &[Step]) {
    let mut model = start.clone();
    let mut tree: PTree<u32, u64, S, B> = tree_of(&model);
    let mut held = Vec::new();
    for step in steps {
        match step {
            Step::Hold => held.push((tree.clone(), model.clone())),
            Step::DropHeld => held.clear(),
            _ => {}
        }
        tree = step_tree(tree, step);
        step_model(&mut model, step);
        assert_same(&tree, &model);
        held.iter().for_each(|(tree, model)| assert_same(tree, model));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_history_with_blocks_of_4_equals_the_model(start in batch(400), steps in vec(step(), 0..60)) {
        run_history::<Fingerprint, 4>(&start, &steps);
    }

    #[test]
    fn any_history_with_blocks_of_6_equals_the_model(start in batch(400), steps in vec(step(), 0..60)) {
        run_history::<(Sum<u64>, (Min<u64>, (Max<u64>, Count))), 6>(&start, &steps);
    }

    #[test]
    fn any_history_with_blocks_of_16_equals_the_model(start in batch(400), steps in vec(step(), 0..60)) {
        run_history::<(), 16>(&start, &steps);
    }

    #[test]
    fn any_history_with_blocks_of_32_equals_the_model(start in batch(400), steps in vec(step(), 0..60)) {
        run_history::<Max<u64>, 32>(&start, &steps);
    }

    #[test]
    fn lookups_equal_the_model(model in batch(200), gone in batch(300), probe in key(), index in 0..250usize) {
        // Removed keys stay behind as separators, between keys that are all greater or all less.
        let mut tree: PTree<u32, u64, (), 4> = tree_of(&model);
        let gone: Vec<u32> = gone.into_keys().filter(|key| !model.contains_key(key)).collect();
        tree.multi_insert(gone.iter().map(|key| (*key, 0)).collect(), |_, _, new| new);
        tree.multi_delete(&gone);
        assert_same(&tree, &model);
        let below = || model.range(..probe);
        let above = || model.range((Bound::Excluded(probe), Bound::Unbounded));
        prop_assert_eq!(tree.get(&probe), model.get(&probe));
        prop_assert_eq!(tree.get_key_value(&probe), model.get_key_value(&probe));
        prop_assert_eq!(tree.contains_key(&probe), model.contains_key(&probe));
        prop_assert_eq!(tree.first(), model.first_key_value());
        prop_assert_eq!(tree.last(), model.last_key_value());
        prop_assert_eq!(tree.floor(&probe), model.range(..=probe).next_back());
        prop_assert_eq!(tree.ceiling(&probe), model.range(probe..).next());
        prop_assert_eq!(tree.previous(&probe), below().next_back());
        prop_assert_eq!(tree.next(&probe), above().next());
        prop_assert_eq!(tree.rank(&probe), below().count());
        prop_assert_eq!(tree.select(index), model.iter().nth(index));
        let probes = [probe, probe + 1, 0, probe / 2];
        let found: Vec<Option<&u64>> = probes.iter().map(|probe| model.get(probe)).collect();
        prop_assert_eq!(tree.multi_find(&probes), found);
        prop_assert!(tree.keys().rev().eq(model.keys().rev()));
        prop_assert!(tree.values().eq(model.values()));
    }
}

#[test]
fn long_runs_of_single_updates_equal_the_model() {
    let mut random = random(1);
    let mut tree: PTree<u32, u64, (), 8> = PTree::default();
    let mut model = Model::new();
    let mut held = Vec::new();
    for step in 0..30_000u64 {
        // The tree grows, then shrinks to nothing.
        let key = random.random_range(0..5_000);
        if random.random_range(0..30_000) > step {
            assert_eq!(tree.insert(key, step), model.insert(key, step));
        } else {
            assert_eq!(tree.remove(&key), model.remove(&key));
        }
        if step % 97 == 0 {
            assert_same(&tree, &model);
        }
        if step % 1_000 == 0 {
            held.push((tree.clone(), model.clone()));
        }
    }
    while let Some((key, value)) = model.pop_first() {
        assert_eq!(tree.remove(&key), Some(value));
    }
    assert_same(&tree, &model);
    held.iter().for_each(|(tree, model)| assert_same(tree, model));
}

#[test]
fn ascending_and_descending_inserts_leave_leaves_more_than_two_thirds_full() {
    let mut ascending: PTree<u32, u64> = PTree::new();
    let mut descending: PTree<u32, u64> = PTree::new();
    for key in 0..20_000 {
        ascending.insert(key, 0);
        descending.insert(20_000 - key, 0);
    }
    for tree in [ascending, descending] {
        tree.check_invariants().unwrap();
        let shape = tree.shape();
        assert!(shape.entries * 3 > shape.leaves * crate::DEFAULT_BLOCK * 2, "{shape:?}");
    }
}

#[test]
fn height_stays_logarithmic_under_any_order_of_inserts() {
    let mut random = random(2);
    let mut trees: [PTree<u32, u64, (), 8>; 3] = Default::default();
    for key in 0..50_000u32 {
        trees[0].insert(key, 0);
        trees[1].insert(random.random(), 0);
        trees[2].insert(key.reverse_bits(), 0);
    }
    for tree in &trees {
        // log(n / B) to base 1 / 0.71, plus the leaf: the worst that the balance condition allows.
        let worst = (50_000f64 / 2.0).ln() / (1.0 / 0.71f64).ln() + 2.0;
        assert!((tree.shape().height as f64) < worst, "{:?}", tree.shape());
    }
}

#[test]
fn nothing_leaks_and_nothing_is_dropped_twice() {
    let census = Census::default();
    let mut random = random(3);
    {
        let mut tree: PTree<u32, Counted, (), 4> = PTree::default();
        let mut held = Vec::new();
        for round in 0..300 {
            let batch = random_model(&mut random, 40, 500);
            let counted = |model: &Model| {
                model.iter().map(|(key, value)| (*key, census.value(*value))).collect::<Vec<_>>()
            };
            match round % 6 {
                0 => tree.multi_insert(counted(&batch), |_, _, new| new),
                1 => tree.multi_delete(&batch.keys().copied().collect::<Vec<_>>()),
                2 => tree = tree.union(PTree::from_sorted(counted(&batch)), |_, mine, _| mine.clone()),
                3 => tree.extend(counted(&batch)),
                4 => tree = tree.difference(&PTree::<u32, Counted, (), 4>::from_sorted(counted(&batch))),
                _ => {
                    let (low, hit, high) = tree.split(&random.random_range(0..500));
                    tree = PTree::concat(low, high);
                    tree.extend(hit);
                }
            }
            if round % 7 == 0 {
                held.push(tree.clone());
            }
            tree.check_invariants().unwrap();
            assert!(tree.iter().all(|(_, value)| value.content < 1_000_000));
        }
        assert!(census.living() > 0);
    }
    assert_eq!(census.living(), 0);
}

#[test]
fn a_sole_owner_updates_without_cloning_anything() {
    let census = Census::default();
    let mut tree: PTree<u32, Counted> = PTree::new();
    for key in 0..2_000u32 {
        tree.insert(key.wrapping_mul(7_919) % 10_007, census.value(0));
    }
    tree.multi_update((0..2_000).map(|key| (key, Some(census.value(1)))).collect());
    tree.multi_delete(&(500..900).collect::<Vec<_>>());
    for key in 1_000..1_900 {
        tree.remove(&key);
    }
    let (low, _, high) = tree.split(&1_950);
    let tree =
        PTree::concat(low, high).union(PTree::from_sorted(vec![(7, census.value(2))]), |_, _, new| new);
    assert_eq!(census.living(), tree.len() as isize);
    assert_eq!(census.clones(), 0);
}

#[test]
fn equality_looks_at_contents() {
    let mut random = random(4);
    let model = random_model(&mut random, 200, 1_000);
    let built: PTree<u32, u64, (), 4> = tree_of(&model);
    let mut inserted: PTree<u32, u64, (), 4> = model.iter().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(built, inserted);
    assert!(!built.ptr_eq(&inserted));
    assert!(built.ptr_eq(&built.clone()));
    inserted.insert(2_000, 0);
    assert_ne!(built, inserted);
}

#[test]
fn borrowed_keys_are_looked_up_without_building_an_owned_one() {
    let tree: PTree<String, u32> = ["b", "a", "c"].iter().map(|key| (String::from(*key), 1)).collect();
    assert_eq!(tree.get("b"), Some(&1));
    assert_eq!(tree.iter_range::<str, _>((Bound::Excluded("a"), Bound::Unbounded)).count(), 2);
    assert_eq!(tree.range::<str, _>((Bound::Unbounded, Bound::Excluded("b"))).len(), 1);
    assert_eq!(format!("{tree:?}"), r#"{"a": 1, "b": 1, "c": 1}"#);
}

#[test]
#[should_panic(expected = "keys must strictly increase")]
fn unsorted_entries_are_refused() {
    let _ = PTree::<u32, u32>::from_sorted(vec![(2, 0), (1, 0)]);
}

#[test]
#[should_panic(expected = "keys must strictly increase")]
fn equal_keys_in_a_sorted_run_are_refused() {
    let _ = PTree::<u32, u32>::from_sorted_iter([(1, 0), (1, 0)]);
}

#[test]
#[should_panic(expected = "must be less than")]
fn overlapping_trees_are_not_concatenated() {
    let one: PTree<u32, u32> = [(1, 0), (5, 0)].into_iter().collect();
    let _ = PTree::concat(one.clone(), one);
}
