// SPDX-License-Identifier: Apache-2.0
//! Values that go into keys and come back.

use super::super::expected::{Bounds, Expected};
use super::{Layout, WIDE};
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int16Array, Int32Array, Int64Array};
use arrow::array::{Time64MicrosecondArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, UInt64Type};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

fn layout(columns: &[ArrayRef], nullable: &[bool]) -> Option<Layout> {
    Layout::of(columns.iter().map(|column| column.data_type().clone()).zip(nullable.iter().copied()))
}

#[test]
fn all_values_come_back_with_their_types() {
    let wide: ArrayRef =
        Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None, Some(0), Some(-1), None]));
    let small: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX, 0, -1, 1, 0]));
    let tiny: ArrayRef =
        Arc::new(Int16Array::from(vec![None, Some(i16::MIN), Some(i16::MAX), Some(0), None, Some(-1)]));
    let date: ArrayRef = Arc::new(Date32Array::from(vec![Some(i32::MAX), None, Some(0), None, None, None]));
    let moment: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN, 0, 1, -1, 7]).with_timezone("UTC"));
    let time: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![5, 0, 1, 2, 3, 86_399_999_999]));
    for (columns, nullable, bits) in [
        (vec![Arc::clone(&wide), Arc::clone(&small)], vec![true, false], 97),
        (vec![Arc::clone(&small), Arc::clone(&wide)], vec![true, true], 98),
        (vec![Arc::clone(&small), Arc::clone(&small)], vec![false, false], 64),
        (vec![Arc::clone(&tiny), Arc::clone(&date)], vec![true, true], 50),
        (vec![Arc::clone(&date), Arc::clone(&tiny), Arc::clone(&small)], vec![true, true, true], 83),
        (vec![moment, time], vec![false, false], 128),
        (vec![wide.slice(2, 3), tiny.slice(1, 3)], vec![true, true], 82),
        (vec![wide.slice(0, 0), tiny.slice(0, 0)], vec![true, true], 82),
    ] {
        let layout = layout(&columns, &nullable).unwrap();
        assert_eq!(layout.bits(), bits);
        let keys = layout.pack(&columns, columns[0].len()).unwrap();
        assert_eq!(keys.data_type(), &layout.data_type());
        assert_eq!(keys.data_type() == &WIDE, bits > 64);
        assert_eq!(layout.unpack(&keys).unwrap(), columns);
    }
}

#[test]
fn keys_are_equal_where_rows_are() {
    // What stands below a NULL in memory does not count.
    let nulls = arrow::buffer::NullBuffer::from(vec![false, false, true]);
    let one: ArrayRef = Arc::new(Int32Array::new(vec![5, 6, 0].into(), Some(nulls)));
    let other: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1]));
    let columns = [one, other];
    let keys = layout(&columns, &[true, true]).unwrap().pack(&columns, 3).unwrap();
    let row = |row: usize| format!("{:?}", keys.slice(row, 1));
    assert_eq!(row(0), row(1));
    assert_eq!(HashSet::from([row(0), row(2)]).len(), 2);
}

#[test]
fn what_does_not_fit_has_no_layout() {
    let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
    for columns in [
        vec![(DataType::Int32, false)],
        vec![(DataType::Int32, false), (DataType::Utf8View, false)],
        vec![(DataType::Float64, false), (DataType::Int32, false)],
        vec![(DataType::Int64, true), (moment.clone(), false)],
        vec![(DataType::Int64, false), (moment, false), (DataType::Int8, false)],
    ] {
        assert!(Layout::of(columns.clone()).is_none(), "{columns:?}");
    }
}

#[test]
fn nulls_where_there_are_none_are_refused() {
    let columns: [ArrayRef; 2] =
        [Arc::new(Int32Array::from(vec![None, Some(1)])), Arc::new(Int32Array::from(vec![1, 2]))];
    assert!(layout(&columns, &[false, false]).unwrap().pack(&columns, 2).is_err());
    let others: [ArrayRef; 2] = [Arc::clone(&columns[1]), Arc::new(Int64Array::from(vec![1, 2]))];
    assert!(layout(&columns, &[true, true]).unwrap().pack(&others, 2).is_err());
}

/// Values of which most are between the bounds; these are where the values of a type end, too.
fn random_numbers(random: &mut SmallRng, bounds: Bounds, type_bits: u32, rows: usize) -> Vec<Option<i64>> {
    let (least, most) = (i64::MIN >> (64 - type_bits), i64::MAX >> (64 - type_bits));
    let below = bounds.least.saturating_sub(1).max(least);
    let edges = [least, below, 0, bounds.most.saturating_add(1).min(most), most];
    let outside = [0.0, 0.01, 0.5][random.random_range(0..3)];
    let number = |_| {
        if random.random_bool(outside) {
            return Some(edges[random.random_range(0..edges.len())]);
        }
        random.random_bool(0.9).then(|| random.random_range(bounds.least..=bounds.most))
    };
    (0..rows).map(number).collect()
}

fn random_bounds(random: &mut SmallRng, least: i64, most: i64) -> Bounds {
    let least = random.random_range(least..=most);
    let most = least.saturating_add(random.random_range(0..5_000)).min(most);
    Bounds { least, most }
}

#[test]
fn values_beyond_the_expected_ones_come_back_too() {
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let bounds = [
            random_bounds(&mut random, i32::MIN.into(), i32::MAX.into()),
            random_bounds(&mut random, i64::MIN, i64::MAX),
            random_bounds(&mut random, i16::MIN.into(), i16::MAX.into()),
        ];
        let expected: Expected = bounds.into_iter().map(Some).collect();
        let kinds = [DataType::Int32, DataType::Int64, DataType::Int16].map(|ty| (ty, true));
        assert!(Layout::can_be_shorter(&kinds));
        let layout = Layout::within(kinds, &expected).unwrap();
        assert!(layout.bits() < 64 && layout.data_type() == DataType::UInt64);
        let mut row_of_key = HashMap::new();
        let mut key_of_row = HashMap::new();
        for rows in [0, 1, 7, 300] {
            let numbers =
                [0, 1, 2].map(|place| random_numbers(&mut random, bounds[place], [32, 64, 16][place], rows));
            let small = numbers[0].iter().map(|number| number.map(|number| number as i32));
            let tiny = numbers[2].iter().map(|number| number.map(|number| number as i16));
            let columns: [ArrayRef; 3] = [
                Arc::new(small.collect::<Int32Array>()),
                Arc::new(numbers[1].iter().copied().collect::<Int64Array>()),
                Arc::new(tiny.collect::<Int16Array>()),
            ];
            let keys = layout.pack(&columns, rows).unwrap();
            assert_eq!(layout.unpack(&keys).unwrap(), columns, "seed {seed}");
            for (at, key) in keys.as_primitive::<UInt64Type>().values().iter().enumerate() {
                let row = [0, 1, 2].map(|place| numbers[place][at]);
                assert_eq!(row_of_key.entry(*key).or_insert(row), &row, "seed {seed}");
                assert_eq!(key_of_row.entry(row).or_insert(*key), key, "seed {seed}");
            }
        }
    }
}

#[test]
fn keys_have_room_for_the_expected_values_and_share_what_is_left() {
    let of = |bounds: [Option<(i64, i64)>; 2], nullable: bool| {
        let bounds = bounds.map(|bounds| bounds.map(|(least, most)| Bounds { least, most }));
        let expected: Expected = bounds.into_iter().collect();
        Layout::within([(DataType::Int64, nullable), (DataType::Int32, nullable)], &expected)
    };
    let bits = |layout: Option<Layout>| layout.map(|layout| layout.bits());
    assert_eq!(bits(of([Some((100, 131)), Some((1, 8000))], true)), Some(26 + 32 + 2));
    assert_eq!(bits(of([Some((7, 7)), Some((-1, 0))], false)), Some(31 + 32));
    // The second column has room for all of its values.
    assert_eq!(bits(of([Some((0, 1)), None], true)), Some(15 + 32 + 2));
    assert_eq!(bits(of([None, Some((0, 1))], false)), None);
    assert_eq!(bits(of([Some((0, (1 << 31) - 1)), None], false)), Some(63));
    assert_eq!(bits(of([Some((0, 1 << 31)), None], false)), None);
}
