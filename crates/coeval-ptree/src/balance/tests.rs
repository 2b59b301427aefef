// SPDX-License-Identifier: Apache-2.0
//! The join primitive on trees of all sizes: whatever is joined, the result is balanced.

use rand::Rng;

use super::{balanced, least, may_link, small_weight};
use crate::PTree;
use crate::model::{Model, assert_same, random, tree_of};

/// Joins trees of these sizes and checks the result.
fn join_sizes<const B: usize>(left: u32, right: u32) {
    let model: Model = (0..left + right).map(|key| (key, 0)).collect();
    let low: PTree<u32, u64, (), B> = PTree::from_sorted((0..left).map(|key| (key, 0)).collect());
    let high: PTree<u32, u64, (), B> = PTree::from_sorted((left..left + right).map(|key| (key, 0)).collect());
    assert_same(&PTree::concat(low, high), &model);
}

#[test]
fn joins_of_all_small_sizes_are_balanced() {
    for left in 0..90 {
        for right in 0..90 {
            join_sizes::<4>(left, right);
            join_sizes::<5>(left, right);
            join_sizes::<6>(left, right);
            join_sizes::<7>(left, right);
            join_sizes::<16>(left, right);
        }
    }
}

#[test]
fn joins_of_very_different_sizes_are_balanced() {
    for exponent in 0..14 {
        for offset in 0..3 {
            join_sizes::<4>(1 << exponent, offset);
            join_sizes::<4>(offset, (1 << exponent) + offset);
            join_sizes::<8>((1 << exponent) + offset, 1 << (exponent / 2));
            join_sizes::<16>(1 << (exponent / 3), (1 << exponent) - offset.min(1));
        }
    }
}

#[test]
fn trees_worn_by_cuts_and_joins_stay_balanced() {
    let mut random = random(5);
    let model: Model = (0..3_000).map(|key| (key, u64::from(key))).collect();
    let mut tree: PTree<u32, u64, (), 4> = tree_of(&model);
    for _ in 0..2_000 {
        // Cut into three uneven pieces and join them in either order of association.
        let (one, other) = (random.random_range(0..3_000), random.random_range(0..3_000));
        let (first, hit, rest) = tree.split(&one.min(other));
        let mut first = first;
        first.extend(hit);
        let (middle, last) = (rest.range(..one.max(other)), rest.range(one.max(other)..));
        for piece in [&first, &middle, &last] {
            piece.check_invariants().unwrap();
        }
        tree = if random.random() {
            PTree::concat(PTree::concat(first, middle), last)
        } else {
            PTree::concat(first, PTree::concat(middle, last))
        };
        tree.check_invariants().unwrap();
    }
    assert_same(&tree, &model);
}

#[test]
fn a_full_leaf_can_be_split_at_the_last_place_that_balance_allows() {
    for block in 4..200 {
        let few = least(block);
        assert!(may_link(few, block + 1 - few, block), "{block}");
        assert!(!balanced(few - 1, block + 2 - few), "{block}: fewer would do");
    }
}

#[test]
fn what_is_balanced_but_not_grown_is_small() {
    for block in 4..200 {
        for size in 1..least(block) {
            let heaviest = (1..).take_while(|other| balanced(size, *other)).last().unwrap_or(0);
            assert!(size + heaviest <= small_weight(block), "{block}: {size} and {heaviest}");
        }
    }
}
