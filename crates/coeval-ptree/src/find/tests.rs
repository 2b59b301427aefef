// SPDX-License-Identifier: Apache-2.0
//! Many descents side by side: with fewer keys than lanes, as many, and many times as many.

use rand::Rng;

use super::{LANES, find_many};
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
