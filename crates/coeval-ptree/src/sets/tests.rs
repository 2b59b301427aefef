// SPDX-License-Identifier: Apache-2.0
//! Set operations on pairs of all relative sizes.

use rand::Rng;

use crate::PTree;
use crate::model::{Model, assert_same, random, random_model, tree_of};

/// Not commutative, so that a swap of the sides shows.
fn combine(key: &u32, mine: &u64, theirs: u64) -> u64 {
    u64::from(*key) + 2 * mine + 3 * theirs
}

fn check_pair<const B: usize>(mine: &Model, theirs: &Model) {
    let (my_tree, their_tree): (PTree<u32, u64, B>, PTree<u32, u64, B>) = (tree_of(mine), tree_of(theirs));
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
