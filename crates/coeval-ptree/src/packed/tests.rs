// SPDX-License-Identifier: Apache-2.0
//! Histories of the encoded tree against `BTreeMap`, and the encoding at the borders of its numbers.

use std::collections::BTreeMap;
use std::ops::Bound;

use rand::Rng;

use super::{BYTES_MAX, Delta, Encoding, Integer, PackedTree};
use crate::model::random;
use crate::{Memory, PTree};

#[track_caller]
fn assert_same<K: Integer + std::fmt::Debug, V: Integer + std::fmt::Debug>(
    tree: &PackedTree<K, V>,
    model: &BTreeMap<K, V>,
) {
    tree.check_invariants().unwrap();
    assert_eq!(tree.len(), model.len());
    assert!(tree.iter().eq(model.iter().map(|(key, value)| (*key, *value))), "{tree:?} is not {model:?}");
    assert!(tree.iter().rev().eq(model.iter().rev().map(|(key, value)| (*key, *value))));
}

/// Keys and values of all sizes, so that widths change from run to run.
fn random_entry(random: &mut impl Rng) -> (i64, u64) {
    let shift = random.random_range(0..64);
    let key = random.random::<i64>() >> random.random_range(40..64);
    (key, random.random::<u64>() >> shift)
}

#[test]
fn histories_equal_the_model_and_leave_held_versions_alone() {
    let mut random = random(41);
    for round in 0..12 {
        let start: BTreeMap<i64, u64> = (0..round * 300).map(|_| random_entry(&mut random)).collect();
        let mut tree: PackedTree<i64, u64> = PackedTree::from_sorted(start.clone().into_iter().collect());
        let mut model = start;
        let mut held = Vec::new();
        for step in 0..100 {
            match random.random_range(0..5) {
                0 => {
                    let (key, value) = random_entry(&mut random);
                    assert_eq!(tree.insert(key, value), model.insert(key, value));
                }
                1 => {
                    let key = model.keys().nth(step % model.len().max(1)).copied().unwrap_or(0);
                    assert_eq!(tree.remove(&key), model.remove(&key));
                    assert_eq!(tree.remove(&key), None);
                }
                2 => {
                    let batch: BTreeMap<i64, u64> = (0..200).map(|_| random_entry(&mut random)).collect();
                    tree.multi_insert(batch.clone().into_iter().collect(), |_, old, new| old ^ new);
                    for (key, new) in batch {
                        model.entry(key).and_modify(|old| *old ^= new).or_insert(new);
                    }
                }
                3 => {
                    // Long runs of removals leave small runs behind, which take in their neighbours.
                    let from = random.random_range(0..model.len() + 1);
                    let count = random.random_range(0..200);
                    let gone: Vec<i64> = model.keys().skip(from).take(count).copied().collect();
                    tree.multi_update(gone.iter().map(|key| (*key, None)).collect());
                    model.retain(|key, _| gone.binary_search(key).is_err());
                }
                _ => held.push((tree.clone(), model.clone())),
            }
            assert_same(&tree, &model);
        }
        held.iter().for_each(|(tree, model)| assert_same(tree, model));
    }
}

#[test]
fn lookups_equal_the_model() {
    let mut random = random(42);
    let model: BTreeMap<i64, u64> = (0..3_000).map(|_| random_entry(&mut random)).collect();
    let tree: PackedTree<i64, u64> = model.clone().into_iter().collect();
    assert_same(&tree, &model);
    let pair = |(key, value): (&i64, &u64)| (*key, *value);
    assert_eq!(tree.first(), model.first_key_value().map(pair));
    assert_eq!(tree.last(), model.last_key_value().map(pair));
    for index in 0..tree.len() + 1 {
        assert_eq!(tree.select(index), model.iter().nth(index).map(pair));
    }
    let sum = tree.map_reduce(|_, value| *value, u64::wrapping_add, 0);
    assert_eq!(sum, model.values().fold(0u64, |sum, value| sum.wrapping_add(*value)));
    for _ in 0..500 {
        let (one, other) = (random_entry(&mut random).0, random_entry(&mut random).0);
        assert_eq!(tree.get(&one), model.get(&one).copied());
        assert_eq!(tree.contains_key(&one), model.contains_key(&one));
        assert_eq!(tree.rank(&one), model.range(..one).count());
        let bounds = (Bound::Excluded(one.min(other)), Bound::Included(one.max(other)));
        if one != other {
            assert!(tree.iter_range(bounds).eq(model.range(bounds).map(pair)));
            assert!(tree.iter_range(bounds).rev().eq(model.range(bounds).rev().map(pair)));
        }
        assert_eq!(tree.iter_range((Bound::Included(5), Bound::Excluded(-5))).count(), 0);
    }
    let unpacked: PTree<i64, u64> = tree.unpack();
    assert!(unpacked.iter().eq(model.iter()));
    assert_same(&PackedTree::new(), &BTreeMap::<u8, i8>::new());
}

#[test]
fn the_borders_of_the_numbers_survive_encoding() {
    fn check<K: Integer + std::fmt::Debug, V: Integer + std::fmt::Debug>(entries: &[(K, V)]) {
        let bytes = <Delta as Encoding<K, V>>::encode(entries);
        let mut measure = Default::default();
        let measured = entries
            .iter()
            .map(|(key, value)| <Delta as Encoding<K, V>>::measure(&mut measure, key, value))
            .last();
        assert_eq!(measured, Some(bytes.len()));
        for (at, entry) in entries.iter().enumerate() {
            let read: (K, V) =
                (<Delta as Encoding<K, V>>::key(&bytes, at), <Delta as Encoding<K, V>>::value(&bytes, at));
            assert_eq!(read, *entry);
        }
    }
    check(&[(0u64, u64::MAX), (u64::MAX, 0)]);
    check(&[(u64::MAX, 7u8)]);
    check(&[(i64::MIN, i64::MAX), (-1, 0), (0, i64::MIN), (i64::MAX, -1)]);
    check(&[(i8::MIN, u16::MAX), (i8::MAX, 0)]);
    check(&[(1u32, -1i32), (2, -1), (3, -1)]);
    check(&(0..256u64).map(|key| (1 << 40 | key, key << 16)).collect::<Vec<_>>());
    // The bytes themselves: the format is fixed.
    let bytes = <Delta as Encoding<u64, u64>>::encode(&[(0x0102, 5), (0x0304, 6)]);
    assert_eq!(bytes[..4], [2, 0, 2, 1]);
    assert_eq!(bytes[4..12], 0x0102u64.to_le_bytes());
    assert_eq!(bytes[12..20], 5u64.to_le_bytes());
    assert_eq!(bytes[20..], [0, 0, 0x02, 0x02, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn row_numbers_by_scattered_keys_take_less_than_seven_tenths() {
    let count = 200_000u64;
    let entries: BTreeMap<u64, u64> =
        (0..count).map(|row| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15), row)).collect();
    let tree: PackedTree<u64, u64> = PackedTree::from_sorted(entries.into_iter().collect());
    tree.check_invariants().unwrap();
    let bytes_per_entry = tree.memory().bytes as f64 / count as f64;
    assert!(bytes_per_entry < 0.7 * 16.0, "{bytes_per_entry} bytes per entry");
    // A version after an update shares all runs but one.
    let mut changed = tree.clone();
    changed.insert(1, 1);
    let mut memory = tree.memory();
    let before = memory.bytes;
    changed.add_to(&mut memory);
    assert!(memory.bytes - before < 3 * BYTES_MAX + 16 * 100, "{} bytes more", memory.bytes - before);
    let mut twice = Memory::default();
    tree.add_to(&mut twice);
    tree.add_to(&mut twice);
    assert_eq!(twice.bytes, before);
}

#[test]
#[should_panic(expected = "keys must strictly increase")]
fn unsorted_entries_are_refused() {
    let _ = PackedTree::<u64, u64>::from_sorted(vec![(2, 0), (1, 0)]);
}

#[test]
#[should_panic(expected = "keys of a batch must strictly increase")]
fn equal_keys_in_a_batch_are_refused() {
    PackedTree::<u64, u64>::new().multi_insert(vec![(1, 0), (1, 0)], |_, _, new| new);
}
