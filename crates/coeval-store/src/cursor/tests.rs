// SPDX-License-Identifier: Apache-2.0
//! Walks over random layers, both ways and over random ranges, against a set of keys.

use super::*;
use crate::delta::BasePosition;
use crate::key_column::KeyColumnBuilder;
use crate::space::add_one;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;

const KEYS: u16 = 300;

fn key(number: u16) -> Key {
    Key::from_slice(&number.to_be_bytes())
}

fn base(keys: &BTreeSet<u16>) -> Space {
    let keys: Vec<u16> = keys.iter().copied().collect();
    Space::from_chunks(keys.chunks(16).map(|keys| {
        let mut builder = KeyColumnBuilder::with_capacity(keys.len());
        keys.iter().for_each(|number| builder.push(&number.to_be_bytes()));
        Arc::new(Chunk::new(builder.finish(), Vec::new()))
    }))
}

/// Inserts and deletes keys, in runs, and says so in a delta.
fn change(random: &mut StdRng, keys: &mut BTreeSet<u16>) -> Delta {
    let mut delta = Delta::default();
    for _ in 0..random.random_range(0..6) {
        let first = random.random_range(0..KEYS);
        let deletes = random.random_ratio(2, 3);
        for number in first..(first + random.random_range(1..60)).min(KEYS) {
            if deletes && keys.remove(&number) {
                add_one(&mut delta, key(number), DeltaEntry::deleted(BasePosition::UNKNOWN));
            } else if !deletes && keys.insert(number) {
                add_one(&mut delta, key(number), DeltaEntry::inserted(None));
            }
        }
    }
    delta
}

fn random_range(random: &mut StdRng) -> KeyRange {
    let mut bound = || {
        let key = key(random.random_range(0..KEYS));
        match random.random_range(0..4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    };
    KeyRange { lower: bound(), upper: bound() }
}

#[test]
fn a_walk_meets_each_key_that_is_there_and_no_other() {
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..500 {
        let mut keys: BTreeSet<u16> = (0..KEYS).filter(|_| random.random_ratio(2, 3)).collect();
        let mut space = base(&keys);
        let changes = change(&mut random, &mut keys);
        space.apply(&changes, None);
        let private = random.random::<bool>().then(|| change(&mut random, &mut keys));
        for _ in 0..10 {
            let range = random_range(&mut random);
            let in_range = |number: &u16| std::ops::RangeBounds::contains(&range, &key(*number));
            let expected: Vec<Key> = keys.iter().copied().filter(in_range).map(key).collect();
            let walk = |direction| {
                SpaceCursor::new(&space, private.as_ref(), &range, direction).map(|entry| entry.unwrap().0)
            };
            assert_eq!(walk(Direction::Forward).collect::<Vec<_>>(), expected, "round {round}, {range:?}");
            let mut backward: Vec<Key> = walk(Direction::Backward).collect();
            backward.reverse();
            assert_eq!(backward, expected, "round {round}, {range:?}");
        }
    }
}
