// SPDX-License-Identifier: Apache-2.0
//! Directories of all small trees and of some with three levels find what the trees find; and let go of what they hold.

use rand::Rng;

use super::FAN;
use crate::PTree;
use crate::find::LANES;
use crate::model::{Census, random, random_model, tree_of};

/// Looks for all keys from before the first one to behind the last one, present or not.
#[track_caller]
fn assert_finds_all<const B: usize>(tree: &PTree<u32, u64, (), B>, limit: u32) {
    let directory = tree.directory();
    assert!(directory.tree().ptr_eq(tree));
    for key in 0..=limit {
        assert_eq!(directory.get(&key), tree.get(&key), "key {key} of {} entries", tree.len());
    }
    // Upwards and downwards, so that a group of descents is not in one place of the tree alone; and too few for a group.
    let keys: Vec<u32> = (0..=limit).flat_map(|key| [key, limit - key]).collect();
    for keys in [&keys[..], &keys[..keys.len().min(LANES - 1)], &[]] {
        let mut found = vec![None; keys.len()];
        directory.find_many(keys, &mut found);
        assert!(found.iter().copied().eq(keys.iter().map(|key| tree.get(key))), "{} entries", tree.len());
        assert_eq!(directory.multi_find(keys), found);
    }
}

#[test]
fn a_directory_finds_what_its_tree_finds_at_every_small_size() {
    // Up to some groups, the last one with one block and more, and the level above them full and not.
    for size in 0..=(4 * FAN * 5) as u32 {
        let tree: PTree<u32, u64, (), 4> = (0..size).map(|at| (2 * at + 1, u64::from(at))).collect();
        assert_finds_all(&tree, 2 * size + 2);
    }
}

#[test]
fn a_directory_of_any_number_of_levels_finds_what_its_tree_finds() {
    let mut random = random(43);
    // Four entries to a block at most: a run of blocks, of groups, of runs of groups, and more than that.
    for size in [4 * FAN, 4 * FAN * FAN, 4 * FAN * FAN + 1, 2 * FAN * FAN * FAN, 5 * FAN * FAN * FAN] {
        let limit = 3 * size as u32;
        let model = random_model(&mut random, size, limit);
        assert_finds_all::<4>(&tree_of(&model), limit);
        let mut tree: PTree<u32, u64, (), 30> = PTree::default();
        model.iter().for_each(|(key, value)| assert_eq!(tree.insert(*key, *value), None));
        assert_finds_all(&tree, limit);
    }
}

#[test]
fn keys_that_are_not_compared_where_they_lie_are_found_too() {
    let word = |number: u32| format!("{number:05}");
    let tree: PTree<String, u32> = (0..9_000).map(|number| (word(2 * number), number)).collect();
    let directory = tree.directory();
    for number in 0..18_000 {
        let expected = (number % 2 == 0).then_some(number / 2);
        assert_eq!(directory.get(word(number).as_str()).copied(), expected);
    }
    let words: Vec<String> = (0..18_000).map(word).collect();
    let found = directory.multi_find::<str, _>(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(found.iter().copied().eq(words.iter().map(|word| tree.get(word))));
}

#[test]
fn a_directory_keeps_its_version_and_lets_go_of_all_of_it() {
    let mut random = random(44);
    let census = Census::default();
    let mut tree: PTree<u32, _, (), 4> = (0..2_000u32).map(|key| (key, census.value(1))).collect();
    let directory = tree.directory();
    for _ in 0..500 {
        let key = random.random_range(0..2_500);
        tree.insert(key, census.value(2));
        tree.remove(&random.random_range(0..2_000));
    }
    assert!((0..2_000).all(|key| directory.get(&key).is_some_and(|value| value.content == 1)));
    assert!(directory.get(&2_000).is_none());
    tree.check_invariants().unwrap();
    drop(tree);
    assert_eq!(directory.tree().len(), 2_000);
    drop(directory);
    assert_eq!(census.living(), 0, "nothing leaked");
}
