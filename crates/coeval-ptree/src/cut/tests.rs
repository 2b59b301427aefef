// SPDX-License-Identifier: Apache-2.0
//! Cuts at every key, and ranges with every kind of bounds.

use std::ops::Bound;

use crate::PTree;
use crate::model::{Model, assert_same, tree_of};

/// Even keys below `limit`.
fn even(limit: u32) -> Model {
    (0..limit / 2).map(|half| (2 * half, u64::from(half))).collect()
}

#[test]
fn a_split_at_any_key_gives_both_sides_and_the_hit() {
    for size in [0, 1, 5, 40, 300] {
        let model = even(2 * size);
        let tree: PTree<u32, u64, (), 4> = tree_of(&model);
        for key in 0..=2 * size + 1 {
            let (low, hit, high) = tree.clone().split(&key);
            assert_same(&low, &model.range(..key).map(|(key, value)| (*key, *value)).collect());
            assert_eq!(hit, model.get_key_value(&key).map(|(key, value)| (*key, *value)));
            assert_same(&high, &model.range(key + 1..).map(|(key, value)| (*key, *value)).collect());
        }
        assert_same(&tree, &model);
    }
}

/// All kinds of bounds around some keys, in and out of the tree.
fn bounds() -> Vec<Bound<u32>> {
    let keys = [0, 1, 2, 57, 58, 99, 118, 119, 120, 500];
    let included = keys.iter().map(|key| Bound::Included(*key));
    included.chain(keys.iter().map(|key| Bound::Excluded(*key))).chain([Bound::Unbounded]).collect()
}

/// Whether a key lies within bounds, said once more in the plainest way.
fn lies_within(key: u32, lower: Bound<u32>, upper: Bound<u32>) -> bool {
    let above = match lower {
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
        Bound::Unbounded => true,
    };
    let below = match upper {
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
        Bound::Unbounded => true,
    };
    above && below
}

#[test]
fn ranges_with_any_bounds_even_the_wrong_way_round_hold_what_lies_within() {
    for size in [0, 1, 3, 60] {
        let model = even(2 * size);
        let mut tree: PTree<u32, u64, (), 4> = tree_of(&model);
        // Removed keys stay behind as separators; they must not matter.
        let gone: Vec<u32> = model.keys().copied().filter(|key| key % 10 == 8).collect();
        tree.multi_delete(&gone);
        for lower in bounds() {
            for upper in bounds() {
                let mut expected = model.clone();
                expected.retain(|key, _| key % 10 != 8 && lies_within(*key, lower, upper));
                assert_same(&tree.range((lower, upper)), &expected);
                assert!(tree.iter_range((lower, upper)).eq(&expected));
                assert!(tree.iter_range((lower, upper)).rev().eq(expected.iter().rev()));
                assert_eq!(tree.iter_range((lower, upper)).len(), expected.len());
                assert!(tree.clone().into_range_iter((lower, upper)).eq(expected.clone()));
            }
        }
    }
}

#[test]
fn a_range_shares_all_but_its_edges() {
    let tree: PTree<u32, u64> = tree_of(&even(200_000));
    let range = tree.range(1_000..150_000);
    range.check_invariants().unwrap();
    assert_eq!(range.len(), 74_500);
    assert!(tree.range::<u32, _>(..).ptr_eq(&tree));
}
