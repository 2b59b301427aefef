// SPDX-License-Identifier: Apache-2.0
//! Trees built of any number of entries, with blocks smaller and larger than the grain.

use crate::PTree;
use crate::model::{Model, assert_same};

/// Builds a tree in each way.
fn build_all<const B: usize>(count: u32) {
    let model: Model = (0..count).map(|key| (key, u64::from(key))).collect();
    let entries = || model.iter().map(|(key, value)| (*key, *value));
    assert_same(&PTree::<u32, u64, (), B>::from_sorted(entries().collect()), &model);
    assert_same(&PTree::<u32, u64, (), B>::from_sorted_iter(entries()), &model);
    let twice = entries().rev().map(|(key, _)| (key, 7)).chain(entries());
    assert_same(&PTree::<u32, u64, (), B>::build(twice.collect(), |_, _, later| later), &model);
    let mut tree = PTree::<u32, u64, (), B>::default();
    tree.multi_insert(entries().collect(), |_, _, new| new);
    assert_same(&tree, &model);
}

/// A block that is larger than the grain of the parallel build once made it cut a single leaf in two, which is refused.
#[test]
fn blocks_around_the_grain_and_larger_ones_are_built_at_every_size() {
    for count in 0..200 {
        build_all::<4>(count);
        build_all::<16>(count);
        build_all::<20>(count);
        build_all::<32>(count);
        build_all::<64>(count);
        build_all::<150>(count);
    }
}
