// SPDX-License-Identifier: Apache-2.0
//! Selections beside sorting.

use super::*;
use arrow::array::{FixedSizeBinaryArray, Float64Array, Int32Array, IntervalMonthDayNanoArray};
use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::config::ConfigOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

fn meter() -> Meter {
    Meter::begin(&ConfigOptions::new(), "test")
}

/// A few ranks of each set, or many, against those of the sorted set.
#[test]
fn ranks_are_those_of_the_sorted_set() {
    let mut random = StdRng::seed_from_u64(28);
    let meter = meter();
    for count in [1_usize, 2, 3, 10, 100, 1_000] {
        let numbers: Vec<i32> =
            (0..3 * count).map(|_| random.random_range(-(count as i32)..=count as i32)).collect();
        let values: ArrayRef = Arc::new(Int32Array::from(numbers.clone()));
        let sets = [0..count, count..count, count..3 * count];
        for direction in DIRECTIONS {
            let order = Order::of(&values, Texts::Plain, direction, &meter).unwrap();
            for many in [1, SELECTIONS_MAX, SELECTIONS_MAX + 1] {
                let wanted: Vec<Rank> = [0, 2]
                    .into_iter()
                    .flat_map(|set| std::iter::repeat_n(set, many))
                    .map(|set| Rank { set, rank: random.random_range(0..sets[set].len()) })
                    .collect();
                let found = order.at_ranks(&sets, &wanted).unwrap();
                for (place, wanted) in found.into_iter().zip(wanted) {
                    let mut sorted = numbers[sets[wanted.set].clone()].to_vec();
                    sorted.sort_unstable();
                    if direction == Direction::Descending {
                        sorted.reverse();
                    }
                    assert!(sets[wanted.set].contains(&(place as usize)));
                    assert_eq!(numbers[place as usize], sorted[wanted.rank], "{count} {direction:?}");
                }
            }
        }
    }
}

/// To select one rank leaves those alone that were selected before.
#[test]
fn many_ranks_are_asked_for_at_once() {
    let mut random = StdRng::seed_from_u64(30);
    for count in 1..200_usize {
        let mut numbers: Vec<i32> = (0..count).map(|_| random.random_range(0..50)).collect();
        let values: ArrayRef = Arc::new(Int32Array::from(numbers.clone()));
        let meter = meter();
        let order = Order::of(&values, Texts::Plain, Direction::Ascending, &meter).unwrap();
        let last = count - 1;
        let ranks = [last / 10, (last / 10 + 1).min(last), last / 2, last, last, 0];
        let wanted = ranks.map(|rank| Rank { set: 0, rank });
        let found = order.at_ranks(std::slice::from_ref(&(0..count)), &wanted).unwrap();
        let found: Vec<i32> = found.into_iter().map(|place| numbers[place as usize]).collect();
        numbers.sort_unstable();
        assert_eq!(found, ranks.map(|rank| numbers[rank]), "{count}");
    }
}

#[test]
fn the_most_frequent_value_is_the_first_of_several() {
    let mut random = StdRng::seed_from_u64(29);
    let meter = meter();
    for count in [1_usize, 2, 7, 50, 500] {
        let numbers: Vec<i32> = (0..count).map(|_| random.random_range(0..20)).collect();
        let values: ArrayRef = Arc::new(Int32Array::from(numbers.clone()));
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        numbers.iter().for_each(|number| *counts.entry(*number).or_default() += 1);
        let most = counts.values().max().copied();
        let mut best = counts.iter().filter(|(_, count)| Some(**count) == most).map(|(number, _)| *number);
        let (first, last) = (best.next(), best.next_back());
        for (direction, wanted) in DIRECTIONS.into_iter().zip([first, last.or(first)]) {
            let order = Order::of(&values, Texts::Plain, direction, &meter).unwrap();
            let found = order.most_frequent(&[0..0, 0..count]).unwrap();
            assert_eq!(found[0], None);
            assert_eq!(found[1].map(|place| numbers[place as usize]), wanted, "{numbers:?}");
        }
    }
}

/// Looks for these values, which are in their order, where they stand the other way round.
fn assert_ordered(values: ArrayRef, texts: Texts) {
    let meter = meter();
    let reversed: Vec<Place> = (0..values.len() as Place).rev().collect();
    let turned = arrow::compute::take(&values, &arrow::array::UInt32Array::from(reversed.clone()), None);
    let order = Order::of(&turned.unwrap(), texts, Direction::Ascending, &meter).unwrap();
    let count = values.len();
    let wanted: Vec<Rank> = (0..count).map(|rank| Rank { set: 0, rank }).collect();
    assert_eq!(order.at_ranks(std::slice::from_ref(&(0..count)), &wanted).unwrap(), reversed, "{values:?}");
}

#[test]
fn each_type_has_its_order() {
    let floats = [f64::NEG_INFINITY, -2.0, -1e-300, 0.0, 1e-300, 1.0, f64::INFINITY, f64::NAN];
    assert_ordered(Arc::new(Float64Array::from(floats.to_vec())), Texts::Plain);
    let interval = IntervalMonthDayNano::new;
    let intervals = vec![interval(0, -1, 0), interval(0, 29, 0), interval(1, 0, 0), interval(0, 30, 1)];
    assert_ordered(Arc::new(IntervalMonthDayNanoArray::from(intervals)), Texts::Plain);
    let texts = vec!["", "1", "10", "2", "a text that is kept beside its view", "\u{e4}"];
    assert_ordered(Arc::new(StringViewArray::from(texts)), Texts::Plain);
    let documents = vec!["[]", "null", "\"a\"", "2", "10", "false", "true", "{}"];
    assert_ordered(Arc::new(StringViewArray::from(documents)), Texts::Documents);
    let bytes: Vec<&[u8]> = vec![b"", b"\x01", b"\x01\x00", b"\xff"];
    assert_ordered(Arc::new(BinaryViewArray::from(bytes)), Texts::Plain);
    let places = FixedSizeBinaryArray::try_from_iter([[0_u8, 9], [1, 0], [200, 0]].into_iter());
    assert_ordered(Arc::new(places.unwrap()), Texts::Plain);
}

#[test]
fn equal_values_are_counted_together() {
    let meter = meter();
    let most_frequent = |values: ArrayRef| {
        let order = Order::of(&values, Texts::Plain, Direction::Ascending, &meter).unwrap();
        order.most_frequent(std::slice::from_ref(&(0..values.len()))).unwrap()[0]
    };
    assert_eq!(most_frequent(Arc::new(Float64Array::from(vec![1.0, -0.0, 2.0, 0.0]))), Some(1));
    let interval = IntervalMonthDayNano::new;
    let intervals = vec![interval(0, 1, 0), interval(1, 0, 0), interval(0, 30, 0)];
    assert_eq!(most_frequent(Arc::new(IntervalMonthDayNanoArray::from(intervals))), Some(1));
}
