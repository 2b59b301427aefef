// SPDX-License-Identifier: Apache-2.0
//! The numbers of groups: a row's group stands for the row's values, and rows with the same values are in one group.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type};
use coeval_brick::{
    BrickSchema, BrickTable, BrickView, Column, Dimension, DimensionValues, Grouping, Metric, Nulls, Reader,
    Shards, TableView,
};
use coeval_txn::{Epoch, EpochSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DAY: usize = 0;
const REGION: usize = 1;
const NAME: usize = 2;
const SMALL: usize = 3;
const WIDE: usize = 4;
const GOOD: usize = 5;
const BORN: usize = 6;
const WEIGHT: usize = 7;

fn columns() -> Vec<Column> {
    let days = DimensionValues::Ordered { data_type: DataType::Int32, origin: -3 };
    let region = DimensionValues::String;
    vec![
        Column::Dimension(Dimension { name: "day".into(), values: days, cardinality: 10, range_size: 5 }),
        Column::Dimension(Dimension { name: "region".into(), values: region, cardinality: 4, range_size: 2 }),
        metric("name", DataType::Utf8, Nulls::Allowed),
        metric("small", DataType::Int16, Nulls::Allowed),
        metric("wide", DataType::Int64, Nulls::Refused),
        metric("good", DataType::Boolean, Nulls::Allowed),
        metric("born", DataType::Date32, Nulls::Allowed),
        metric("weight", DataType::Float64, Nulls::Allowed),
    ]
}

fn metric(name: &str, data_type: DataType, nulls: Nulls) -> Column {
    Column::Metric(Metric { name: name.into(), data_type, nulls })
}

fn table_of(columns: Vec<Column>) -> BrickTable {
    BrickTable::new(BrickSchema::new(columns).unwrap(), Arc::new(Shards::start(2, 4).unwrap()))
}

/// Rows with numbers on both sides of 0, the 64-bit ones far from it, and NULLs where there may be any.
fn rows(random: &mut StdRng, count: usize) -> RecordBatch {
    const FAR: i64 = -5_000_000_000;
    fn some<T>(random: &mut StdRng, value: T) -> Option<T> {
        (random.random_range(0..6) > 0).then_some(value)
    }
    let days: Int32Array = (0..count).map(|_| Some(random.random_range(-3_i32..7))).collect();
    let regions: StringArray =
        (0..count).map(|_| Some(["north", "south", "west"][random.random_range(0..3_usize)])).collect();
    let names = ["", "a", "b", "a longer name than fits into a view"];
    let names: StringArray = (0..count)
        .map(|_| {
            let name = names[random.random_range(0..4_usize)];
            some(random, name)
        })
        .collect();
    let small: Int16Array = (0..count)
        .map(|_| {
            let number = random.random_range(-9_i16..9);
            some(random, number)
        })
        .collect();
    let wide: Int64Array = (0..count).map(|_| Some(FAR + random.random_range(0..40_i64))).collect();
    let good: BooleanArray = (0..count)
        .map(|_| {
            let is_good = random.random_range(0..2) == 1;
            some(random, is_good)
        })
        .collect();
    let born: Date32Array = (0..count)
        .map(|_| {
            let day = random.random_range(-30_i32..30);
            some(random, day)
        })
        .collect();
    let weights: Float64Array = (0..count).map(|_| Some(0.5_f64)).collect();
    let columns: [(&str, ArrayRef, bool); 8] = [
        ("day", Arc::new(days), false),
        ("region", Arc::new(regions), false),
        ("name", Arc::new(names), true),
        ("small", Arc::new(small), true),
        ("wide", Arc::new(wide), false),
        ("good", Arc::new(good), true),
        ("born", Arc::new(born), true),
        ("weight", Arc::new(weights), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn append(table: &BrickTable, epoch: u64, batch: &RecordBatch) {
    let load = table.route(batch, 0).unwrap().load;
    table.append(Epoch::new(epoch), load).unwrap().wait().unwrap();
}

fn through(epoch: u64) -> Reader {
    Reader::of(EpochSet::through(Epoch::new(epoch)))
}

fn grouping(view: &TableView, columns: &[usize]) -> Option<Grouping> {
    view.grouping(&view.bricks().iter().collect::<Vec<&BrickView>>(), columns)
}

fn texts(column: &ArrayRef) -> ArrayRef {
    cast(column, &DataType::Utf8).unwrap()
}

/// Looks at all rows that the reader sees. How many they are.
fn check(table: &BrickTable, reader: &Reader, columns: &[usize]) -> usize {
    let view = table.view(&table.selection());
    let grouping = grouping(&view, columns).unwrap();
    let mut numbers: HashMap<Vec<Option<String>>, u32> = HashMap::new();
    let mut count = 0;
    for brick in view.bricks() {
        if grouping.is_of_brick() {
            numbers.clear();
        }
        for batch in view.batches_within(brick, reader, 0..brick.rows(), columns, Some(&grouping)) {
            let (groups, values) = batch.columns().split_last().unwrap();
            let groups = groups.as_primitive::<UInt32Type>().values();
            assert!(groups.iter().all(|group| (*group as usize) < grouping.groups()), "{columns:?}");
            let values: Vec<ArrayRef> = values.iter().map(texts).collect();
            let made = view.group_values(brick, &grouping, groups);
            assert_eq!(made.iter().map(texts).collect::<Vec<_>>(), values, "{columns:?}");
            for (row, group) in groups.iter().enumerate() {
                let cell = |column: &ArrayRef| {
                    let column = column.as_string::<i32>();
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                let known = *numbers.entry(values.iter().map(cell).collect()).or_insert(*group);
                assert_eq!(known, *group, "{columns:?}");
            }
            count += batch.num_rows();
        }
    }
    count
}

#[test]
fn a_group_stands_for_the_values_of_its_rows() {
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let table = table_of(columns());
        for epoch in 1..=4 {
            let count = random.random_range(1..2_000_usize);
            append(&table, epoch, &rows(&mut random, count));
        }
        let bricks: Vec<_> = table.view(&table.selection()).bricks().iter().map(BrickView::id).collect();
        table.roll_back(&[Epoch::new(2)], &bricks).unwrap().wait().unwrap();
        for grouped in [
            &[NAME][..],
            &[SMALL],
            &[WIDE],
            &[GOOD],
            &[BORN],
            &[DAY, NAME],
            &[NAME, REGION],
            &[GOOD, DAY, SMALL, REGION, BORN],
            &[WIDE, SMALL, NAME, GOOD],
            &[REGION, DAY],
        ] {
            // Rows that it does not see lie between those that it does.
            let seen = check(&table, &through(3), grouped);
            assert!(seen > 0 && check(&table, &through(4), grouped) > seen);
        }
    }
}

#[test]
fn only_metrics_stand_for_the_same_values_in_all_bricks() {
    let table = table_of(columns());
    append(&table, 1, &rows(&mut StdRng::seed_from_u64(7), 500));
    let view = table.view(&table.selection());
    let kind = |columns: &[usize]| {
        let grouping = grouping(&view, columns).unwrap();
        (grouping.has_metric(), grouping.is_of_brick(), grouping.columns())
    };
    assert_eq!(kind(&[DAY, REGION]), (false, true, 2));
    assert_eq!(kind(&[NAME, REGION]), (true, true, 2));
    assert_eq!(kind(&[NAME, SMALL, GOOD]), (true, false, 3));
}

#[test]
fn rows_that_came_without_a_column_are_in_the_group_of_its_value() {
    let old = table_of(columns());
    append(&old, 1, &rows(&mut StdRng::seed_from_u64(1), 300));
    let mut more = columns();
    more.push(metric("kind", DataType::Utf8, Nulls::Allowed));
    more.push(metric("level", DataType::Int32, Nulls::Refused));
    more.push(metric("note", DataType::Utf8, Nulls::Allowed));
    let kind: ArrayRef = Arc::new(StringArray::from(vec!["old"]));
    let level: ArrayRef = Arc::new(Int32Array::from(vec![77]));
    let schema = BrickSchema::new(more).unwrap().with_missing(8, &kind).with_missing(9, &level);
    let table = old.redeclared(schema);
    assert_eq!(check(&table, &through(1), &[8, 9, 10, SMALL]), 300);
    let before = rows(&mut StdRng::seed_from_u64(2), 300);
    let names = before.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let mut all: Vec<(String, ArrayRef, bool)> = names
        .into_iter()
        .zip(before.columns())
        .map(|(name, column)| (name, Arc::clone(column), column.null_count() > 0))
        .collect();
    let kinds: StringArray = (0..300).map(|row| [Some("new"), None, Some("old")][row % 3]).collect();
    let levels: Int32Array = (0..300).map(|row| Some(70_i32 + row % 9)).collect();
    let notes: StringArray = (0..300).map(|row| (row % 2 == 0).then_some("noted")).collect();
    all.push(("kind".into(), Arc::new(kinds), true));
    all.push(("level".into(), Arc::new(levels), false));
    all.push(("note".into(), Arc::new(notes), true));
    append(&table, 2, &RecordBatch::try_from_iter_with_nullable(all).unwrap());
    assert_eq!(check(&table, &through(2), &[8, 9, 10, SMALL]), 600);
    assert_eq!(check(&table, &through(1), &[9, DAY, 10]), 300);
}

#[test]
fn what_has_no_small_numbers_has_no_groups() {
    let table = table_of(columns());
    let view = table.view(&table.selection());
    assert!(grouping(&view, &[WEIGHT]).is_none() && grouping(&view, &[NAME, WEIGHT]).is_none());
    assert_eq!(grouping(&view, &[SMALL, NAME]).unwrap().groups(), 1, "of no rows there is NULL");
    let mut random = StdRng::seed_from_u64(3);
    append(&table, 1, &rows(&mut random, 50));
    let far = rows(&mut random, 50);
    let mut columns = far.columns().to_vec();
    columns[WIDE] = Arc::new(Int64Array::from_iter_values(0..50));
    append(&table, 2, &RecordBatch::try_new(far.schema(), columns).unwrap());
    let view = table.view(&table.selection());
    assert!(grouping(&view, &[WIDE]).is_none(), "they lie more than 2^32 apart");
    assert_eq!(check(&table, &through(2), &[SMALL, NAME]), 100);
}
