// SPDX-License-Identifier: Apache-2.0
use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

fn column(keys: &BTreeSet<Vec<u8>>) -> KeyColumn {
    let mut builder = KeyColumnBuilder::with_capacity(keys.len());
    keys.iter().for_each(|key| builder.push(key));
    builder.finish()
}

/// Bytes of few values, so that keys share prefixes of every length.
fn random_key(random: &mut StdRng, width: usize) -> Vec<u8> {
    (0..width).map(|_| [0x00, 0x01, 0x7F, 0x80, 0xFF][random.random_range(0..5)]).collect()
}

#[test]
fn every_width_finds_each_key_and_each_gap() {
    let mut random = StdRng::seed_from_u64(1);
    for width in 1..=20 {
        for count in [1, 2, 3, 7, 100] {
            let keys: BTreeSet<Vec<u8>> = (0..count).map(|_| random_key(&mut random, width)).collect();
            let column = column(&keys);
            assert!(matches!(column, KeyColumn::Fixed(_)));
            for (index, key) in keys.iter().enumerate() {
                assert_eq!(column.search(key), Ok(index), "width {width}, key {key:02x?}");
            }
            for _ in 0..100 {
                let length = if random.random() { width } else { random.random_range(0..=20) };
                let wanted = random_key(&mut random, length);
                let smaller = keys.iter().filter(|key| **key < wanted).count();
                let expected = if keys.contains(&wanted) { Ok(smaller) } else { Err(smaller) };
                assert_eq!(column.search(&wanted), expected, "width {width}, key {wanted:02x?}");
            }
        }
    }
}

#[test]
fn keys_of_different_lengths_are_found_too() {
    let mut random = StdRng::seed_from_u64(2);
    let keys: BTreeSet<Vec<u8>> = (1..=12).map(|width| random_key(&mut random, width)).collect();
    let column = column(&keys);
    assert!(matches!(column, KeyColumn::Variable(_)));
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(column.search(key), Ok(index));
    }
}
