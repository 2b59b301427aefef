// SPDX-License-Identifier: Apache-2.0
//! Tests of read sets: what was read stays covered, whatever becomes of it, and memory stays bounded.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TIGHT: ReadLimits =
    ReadLimits { keys_max: 8, ranges_max: 4, joins_max: 6, spaces_max: 3, heap_bytes_max: 100 };

#[test]
fn few_reads_are_held_exactly() {
    let mut reads = ReadSet::<u8, u32>::new();
    assert!(reads.is_empty());
    reads.read_key(1, &10);
    reads.read_key(2, &10);
    reads.read_key(1, &12);
    reads.read_range(1, Bound::Excluded(&20), Bound::Included(&22));
    let covered: Vec<_> = (0..30).filter(|key| reads.covers(1, key)).collect();
    assert_eq!(covered, [10, 12, 21, 22]);
    assert_eq!((reads.len(), reads.covers(2, &12), reads.covers(3, &10)), (4, false, false));
}

#[test]
fn a_range_without_bounds_is_the_whole_space() {
    let mut reads = ReadSet::<u8, u32>::new();
    reads.read_key(1, &10);
    reads.read_range(1, Bound::Unbounded, Bound::Unbounded);
    assert_eq!(reads.len(), 1);
    assert!(reads.covers(1, &77) && !reads.covers(2, &77));
}

#[test]
fn the_same_keys_read_again_and_again_stay_keys() {
    let mut reads = ReadSet::with_limits(TIGHT);
    for round in 0..1000_u32 {
        reads.read_key(1, &(round % 4 * 10));
    }
    let covered: Vec<_> = (0..40).filter(|key| reads.covers(1, key)).collect();
    assert_eq!(covered, [0, 10, 20, 30]);
}

#[test]
fn many_keys_become_ranges_before_the_space_counts_as_read() {
    let mut reads = ReadSet::with_limits(ReadLimits { keys_max: 64, ranges_max: 64, ..TIGHT });
    (0..65_u32).for_each(|key| reads.read_key(1, &(key * 10)));
    assert!(reads.covers(1, &15), "keys between neighbours are covered now");
    assert!(!reads.covers(1, &155), "between two ranges they are not");
    assert!(!reads.covers(1, &700), "beyond the last key they are not");
}

#[test]
fn a_scan_by_keys_of_any_length_takes_bounded_memory() {
    let mut reads = ReadSet::<u8, u64>::new();
    let mut most = 0;
    for number in 0..1_000_000_u64 {
        reads.read_key(1, &number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        most = most.max(reads.len());
    }
    let limits = ReadLimits::default();
    assert!(most <= limits.keys_max + limits.ranges_max, "{most}");
    assert!(!reads.covers(2, &7));
}

/// Keys were counted and not weighed: 5,120 of the longest, for each of 128 spaces.
#[test]
fn long_keys_take_bounded_memory() {
    const LENGTH: usize = 8_000;
    let limits = ReadLimits::default();
    let mut reads = ReadSet::<u8, String>::weighing(limits, String::len);
    let key = |number: u64| format!("{:0>LENGTH$}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..2_000 {
        reads.read_key(1, &key(number));
        reads.read_range(2, Bound::Included(&key(number)), Bound::Included(&key(number)));
        assert!(reads.heap_bytes() <= 2 * limits.heap_bytes_max, "{}", reads.heap_bytes());
    }
    assert!((0..2_000).all(|number| reads.covers(1, &key(number)) && reads.covers(2, &key(number))));
    assert!(!reads.covers(3, &key(0)));
}

#[test]
fn ranges_that_were_joined_too_often_are_the_whole_space() {
    let mut reads = ReadSet::<u8, u64>::new();
    for number in 0..20_000 {
        reads.read_range(1, Bound::Included(&(number * 10)), Bound::Included(&(number * 10)));
    }
    assert_eq!(reads.len(), 1);
    assert!(reads.covers(1, &1_000_000) && !reads.covers(2, &7));
}

#[test]
fn too_many_spaces_are_everything() {
    let mut reads = ReadSet::with_limits(TIGHT);
    (0..4_u8).for_each(|space| reads.read_key(space, &0_u32));
    assert!(reads.covers(200, &5));
    reads.read_key(9, &1);
    reads.read_space(9);
    assert_eq!(reads.len(), 1);
}

#[test]
fn whatever_is_read_is_covered_afterwards() {
    for seed in 0..3_000 {
        let random = &mut StdRng::seed_from_u64(seed);
        // Every third time with keys of some length.
        let heap_bytes_of = if seed % 3 == 0 { |key: &u32| (key % 40) as usize } else { |_: &u32| 0 };
        let mut reads = ReadSet::weighing(TIGHT, heap_bytes_of);
        let mut read = Vec::new();
        for _ in 0..random.random_range(1..120) {
            let space = random.random_range(0..4_u8);
            let key = random.random_range(0..200_u32);
            if random.random_bool(0.7) {
                reads.read_key(space, &key);
                read.push((space, key));
            } else {
                let end = key + random.random_range(0..5);
                reads.read_range(space, Bound::Included(&key), Bound::Excluded(&end));
                read.extend((key..end).map(|key| (space, key)));
            }
            if random.random_bool(0.1) {
                reads.settle();
            }
            assert!(reads.heap_bytes() <= TIGHT.spaces_max * TIGHT.heap_bytes_max, "seed {seed}");
        }
        for (space, key) in read {
            assert!(reads.covers(space, &key), "seed {seed}: space {space}, key {key}");
        }
        assert!(reads.len() <= TIGHT.spaces_max * (TIGHT.keys_max + TIGHT.ranges_max), "seed {seed}");
    }
}
