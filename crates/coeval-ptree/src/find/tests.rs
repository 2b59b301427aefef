// SPDX-License-Identifier: Apache-2.0
//! Blocks of all lengths; many descents side by side: with fewer keys than lanes, as many, and many times as many.

use rand::Rng;

use super::{LANES, find_in_block, find_many};
use crate::PTree;
use crate::model::{random, random_model, tree_of};

#[test]
fn any_number_of_descents_side_by_side_finds_what_single_ones_find() {
    let mut random = random(41);
    for size in [0, 1, 3, 200, 3_000] {
        let model = random_model(&mut random, size, 5_000);
        let tree: PTree<u32, u64, (), 4> = tree_of(&model);
        for count in [0, 1, LANES - 1, LANES, LANES + 1, 10 * LANES + 3] {
            let keys: Vec<u32> = (0..count).map(|_| random.random_range(0..5_000)).collect();
            let mut found = vec![None; count];
            find_many(&tree.root, &keys, &mut found);
            assert!(found.iter().copied().eq(keys.iter().map(|key| model.get(key))));
            assert_eq!(tree.multi_find(&keys), found);
        }
    }
}

/// Looks for each key of blocks of all lengths, and for those between them.
fn find_in_all_lengths<K: Ord + std::fmt::Debug, const B: usize>(key: impl Fn(usize) -> K) {
    for length in 0..=B {
        let entries: Vec<(K, usize)> = (0..length).map(|at| (key(2 * at + 1), at)).collect();
        for number in 0..=2 * length + 1 {
            let found = find_in_block::<K, usize, K, B>(&entries, &key(number));
            let expected = (number % 2 == 1 && number / 2 < length).then_some(number / 2);
            assert_eq!(found.map(|(_, at)| *at), expected, "key {number} in {length} of {B} entries");
        }
    }
}

#[test]
fn every_key_of_a_block_of_any_length_is_found_and_no_other_one() {
    find_in_all_lengths::<u64, 4>(|number| number as u64);
    find_in_all_lengths::<u64, 7>(|number| number as u64);
    find_in_all_lengths::<(u32, u8), 16>(|number| (number as u32 / 5, number as u8 % 5));
    find_in_all_lengths::<u64, 30>(|number| number as u64);
    find_in_all_lengths::<u16, 62>(|number| number as u16);
    find_in_all_lengths::<u64, 126>(|number| number as u64);
    find_in_all_lengths::<u64, 254>(|number| number as u64);
    find_in_all_lengths::<u64, 300>(|number| number as u64);
    // Keys that are not compared where they lie, and such as are large.
    find_in_all_lengths::<String, 30>(|number| format!("{number:04}"));
    find_in_all_lengths::<[u64; 3], 16>(|number| [0, number as u64, 7]);
}
