// SPDX-License-Identifier: Apache-2.0
//! Set operations on pairs of all relative sizes.

use rand::Rng;

use crate::PTree;
use crate::model::{Model, Tallied, Tally, assert_same, random, random_model, tree_of};

/// Not commutative, so that a swap of the sides shows.
fn combine(key: &u32, mine: &u64, theirs: u64) -> u64 {
    u64::from(*key) + 2 * mine + 3 * theirs
}

fn check_pair<const B: usize>(mine: &Model, theirs: &Model) {
    let (my_tree, their_tree): (PTree<u32, u64, (), B>, PTree<u32, u64, (), B>) =
        (tree_of(mine), tree_of(theirs));
    let common: Model =
        mine.iter().filter_map(|(key, value)| Some((*key, combine(key, value, *theirs.get(key)?)))).collect();
    let mut all: Model = theirs.clone();
    all.extend(mine);
    all.extend(&common);
    let mut only = mine.clone();
    only.retain(|key, _| !theirs.contains_key(key));
    assert_same(&my_tree.clone().union(their_tree.clone(), combine), &all);
    assert_same(&my_tree.clone().intersection(their_tree.clone(), combine), &common);
    assert_same(&my_tree.clone().difference(&their_tree), &only);
    assert_same(&my_tree, mine);
    assert_same(&their_tree, theirs);
    // Once more with sole owners, which are changed in place.
    assert_same(&my_tree.union(their_tree, combine), &all);
}

#[test]
fn random_pairs_of_all_relative_sizes_equal_the_model() {
    let mut random = random(9);
    for _ in 0..300 {
        let (mine, theirs) = (1 << random.random_range(0..11), 1 << random.random_range(0..11));
        let (mine, theirs) =
            (random_model(&mut random, mine, 2_000), random_model(&mut random, theirs, 2_000));
        check_pair::<4>(&mine, &theirs);
        check_pair::<16>(&mine, &theirs);
    }
}

#[test]
fn empty_equal_and_disjoint_pairs_equal_the_model() {
    let some: Model = (0..200).map(|key| (key, 1)).collect();
    let above: Model = (200..300).map(|key| (key, 2)).collect();
    let between: Model = (0..200).map(|key| (2 * key + 1, 3)).collect();
    for (mine, theirs) in
        [(&some, &some), (&some, &above), (&above, &some), (&some, &between), (&some, &Model::new())]
    {
        check_pair::<4>(mine, theirs);
        check_pair::<4>(theirs, mine);
    }
}

#[test]
fn the_difference_of_two_versions_is_found_without_a_look_at_what_they_share() {
    let mut random = random(10);
    let tally = Tally::default();
    for _ in 0..20 {
        let old: PTree<Tallied, u64> =
            PTree::from_sorted((0..50_000).map(|key| (tally.key(2 * key), 0)).collect());
        let mut new = old.clone();
        let added: Model =
            random_model(&mut random, 10, 50_000).into_keys().map(|key| (2 * key + 1, 1)).collect();
        let removed: Model =
            random_model(&mut random, 10, 50_000).into_keys().map(|key| (2 * key, 0)).collect();
        added.keys().for_each(|key| assert_eq!(new.insert(tally.key(*key), 1), None));
        removed.keys().for_each(|key| assert_eq!(new.remove(&tally.key(*key)), Some(0)));
        for (mine, theirs, expected) in [(&new, &old, &added), (&old, &new, &removed)] {
            let (count, only) = tally.count(|| mine.clone().difference(theirs));
            only.check_invariants().unwrap();
            assert!(only.keys().map(|key| key.key).eq(expected.keys().copied()));
            // Twenty paths, and the pieces of one tree that the other one cuts.
            assert!(count < 20_000, "{count} comparisons");
        }
        assert!(old.clone().difference(&old).is_empty());
    }
}
