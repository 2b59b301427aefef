// SPDX-License-Identifier: Apache-2.0
//! What a load may bring, what is rejected and why, and that what was loaded comes back.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use coeval_brick::{
    BrickSchema, BrickTable, Column, Coverage, Dimension, DimensionValues, LoadError, Metric, Nulls, Number,
    Reader, RejectReason, Shards,
};
use coeval_txn::{EpochClock, Stride};

fn table() -> BrickTable {
    let metric =
        |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
    let region =
        Dimension { name: "region".into(), values: DimensionValues::String, cardinality: 4, range_size: 2 };
    let day = Dimension {
        name: "day".into(),
        values: DimensionValues::Ordered { data_type: DataType::Date32, origin: -10 },
        cardinality: 30,
        range_size: 7,
    };
    let columns = vec![
        metric("likes", DataType::Int64, Nulls::Refused),
        Column::Dimension(region),
        metric("score", DataType::Float64, Nulls::Allowed),
        Column::Dimension(day),
        metric("note", DataType::Utf8, Nulls::Allowed),
        metric("flag", DataType::Boolean, Nulls::Allowed),
    ];
    BrickTable::new(BrickSchema::new(columns).unwrap(), Arc::new(Shards::start(2, 4).unwrap()))
}

fn batch(rows: &[(Option<i64>, Option<&str>, Option<i32>)]) -> RecordBatch {
    let score = |row: usize| (row % 3 != 1).then_some(row as f64 / 2.0);
    let note = |row: usize| (row % 4 != 2).then(|| format!("note {}", row % 5));
    let flag = |row: usize| (row % 5 != 3).then_some(row % 2 == 1);
    let count = rows.len();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("likes", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()), true),
        ("region", Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()), true),
        ("score", Arc::new((0..count).map(score).collect::<Float64Array>()), true),
        ("day", Arc::new(rows.iter().map(|row| row.2).collect::<Date32Array>()), true),
        ("note", Arc::new((0..count).map(note).collect::<StringArray>()), true),
        ("flag", Arc::new((0..count).map(flag).collect::<BooleanArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn good_rows(count: usize) -> Vec<(Option<i64>, Option<&'static str>, Option<i32>)> {
    let regions = ["north", "south", "east", "west"];
    (0..count)
        .map(|row| (Some(row as i64), Some(regions[row % 4]), Some((row * 11 % 30) as i32 - 10)))
        .collect()
}

fn load(table: &BrickTable, clock: &EpochClock, batch: &RecordBatch) {
    let load = table.route(batch, 0).unwrap().load;
    let epoch = clock.begin().epoch;
    table.append(epoch, load).unwrap().wait().unwrap();
    clock.commit(&[epoch]);
}

/// All rows as text, in the order of `likes`.
fn rows_of(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8).unwrap());
    let columns: Vec<ArrayRef> = columns.collect();
    let cell = |column: &ArrayRef, row| {
        column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
    };
    let mut rows: Vec<Vec<Option<String>>> =
        (0..batch.num_rows()).map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect();
    rows.sort_by_key(|row| row[0].as_ref().map(|likes| likes.parse::<i64>().unwrap()));
    rows
}

fn read(table: &BrickTable, clock: &EpochClock) -> RecordBatch {
    let view = table.view(&table.selection());
    let reader = Reader::of(clock.committed());
    let batches: Vec<RecordBatch> =
        view.bricks().iter().flat_map(|brick| view.batches(brick, &reader, &[0, 1, 2, 3, 4, 5])).collect();
    concat_batches(table.schema().arrow(), &batches).unwrap()
}

#[test]
fn every_type_with_and_without_nulls_comes_back_as_it_was_loaded() {
    let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
    // More than a block in each brick.
    let batch = batch(&good_rows(20_000));
    load(&table, &clock, &batch);
    assert_eq!(rows_of(&read(&table, &clock)), rows_of(&batch));
    assert_eq!(table.view(&table.selection()).bricks().len(), 2 * 5, "two ranges of regions, five of days");
}

#[test]
fn strings_may_come_in_any_of_arrows_types() {
    let plain = batch(&good_rows(50));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    for data_type in [DataType::LargeUtf8, DataType::Utf8View, dictionary] {
        let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
        let names = plain.schema();
        let columns = plain.columns().iter().zip(names.fields()).map(|(column, field)| {
            let is_text = *column.data_type() == DataType::Utf8;
            let column = if is_text { cast(column, &data_type).unwrap() } else { Arc::clone(column) };
            (field.name().clone(), column, true)
        });
        load(&table, &clock, &RecordBatch::try_from_iter_with_nullable(columns).unwrap());
        assert_eq!(rows_of(&read(&table, &clock)), rows_of(&plain), "{data_type}");
    }
}

#[test]
fn bad_rows_are_left_out_and_named_with_their_reason() {
    let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
    load(&table, &clock, &batch(&good_rows(4)));
    let rows = [
        (Some(100), Some("north"), Some(0)),
        (Some(101), None, Some(0)),
        (None, Some("north"), Some(0)),
        (Some(103), Some("north"), Some(-11)),
        (Some(104), Some("north"), Some(20)),
        (Some(105), Some("nowhere"), Some(0)),
        (Some(106), Some("north"), None),
        (Some(107), Some("west"), Some(19)),
    ];
    let routed = table.route(&batch(&rows), 6).unwrap();
    let outside = |value| RejectReason::OutsideCardinality {
        column: "day".into(),
        value,
        origin: -10,
        cardinality: 30,
        data_type: DataType::Date32,
    };
    let expected = [
        (1, RejectReason::NullDimension { column: "region".into() }),
        (2, RejectReason::NullMetric { column: "likes".into() }),
        (3, outside(-11)),
        (4, outside(20)),
        (
            5,
            RejectReason::TooManyStrings { column: "region".into(), value: "nowhere".into(), cardinality: 4 },
        ),
        (6, RejectReason::NullDimension { column: "day".into() }),
    ];
    let found: Vec<(usize, RejectReason)> =
        routed.rejected.into_iter().map(|bad| (bad.row, bad.reason)).collect();
    assert_eq!(found, expected);
    assert_eq!(routed.load.rows(), 2);

    let refused = table.route(&batch(&rows), 5).unwrap_err();
    assert!(
        matches!(&refused, LoadError::TooManyRejected { rejected_max: 5, rejected } if rejected.len() == 6)
    );
    assert_eq!(read(&table, &clock).num_rows(), 4, "nothing of it is there");
}

/// Once the codes of a load's new strings were given row by row, so that a refused load used up a dimension's
/// cardinality for ever.
#[test]
fn a_refused_load_uses_up_no_cardinality() {
    let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
    let row = |region| (Some(1), Some(region), Some(0));
    for bad in [(Some(1), Some("u"), None), (Some(1), Some("v"), Some(100)), (None, Some("w"), Some(0))] {
        assert!(table.route(&batch(&[row("x"), row("y"), bad]), 0).is_err());
    }
    let five = ["a", "b", "c", "d", "e"].map(row);
    assert!(table.route(&batch(&five), 0).is_err());
    let later = table.route_all(&[&batch(&[row("p"), row("q")]), &batch(&[row("r"), row("s"), row("t")])], 0);
    assert!(matches!(later, Err(LoadError::TooManyRejected { rejected, .. }) if rejected[0].row == 4));
    assert_eq!(table.string_counts(), [0, 0]);
    let routed = table.route(&batch(&five), 1).unwrap();
    assert_eq!((routed.load.rows(), routed.rejected[0].row), (4, 4));
    assert_eq!(table.string_counts(), [4, 3], "the fifth row's note is not there either");
    load(&table, &clock, &batch(&["d", "c", "b", "a"].map(row)));
    assert_eq!(read(&table, &clock).num_rows(), 4);
}

/// Loads that begin together and fight for the last codes: each gets all that it needs or none.
#[test]
fn concurrent_loads_share_the_cardinality_without_losing_any() {
    let names: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
    for _ in 0..50 {
        let table = table();
        let wins: usize = std::thread::scope(|scope| {
            let loads = [0, 2, 4, 6].map(|first| {
                let (table, names) = (&table, &names);
                scope.spawn(move || {
                    let row = |n: usize| (Some(1), Some(names[n].as_str()), Some(0));
                    usize::from(table.route(&batch(&[row(first), row(first + 1)]), 0).is_ok())
                })
            });
            loads.into_iter().map(|load| load.join().unwrap()).sum()
        });
        assert_eq!((wins, table.string_counts()[0]), (2, 4));
    }
}

#[test]
fn a_string_longer_than_a_brick_takes_is_rejected() {
    let long = "x".repeat(70_000);
    let routed = table()
        .route(&batch(&[(Some(1), Some(&long), Some(0)), (Some(2), Some("north"), Some(0))]), 1)
        .unwrap();
    assert_eq!((routed.load.rows(), routed.rejected.len(), routed.rejected[0].row), (1, 1, 0));
    assert!(matches!(routed.rejected[0].reason, RejectReason::StringTooLong { bytes: 70_000, .. }));
}

#[test]
fn other_columns_or_types_refuse_the_whole_load() {
    let whole = batch(&good_rows(3));
    let fewer = whole.project(&[0, 1, 2]).unwrap();
    assert_eq!(table().route(&fewer, 9).unwrap_err(), LoadError::ColumnCount { expected: 6, found: 3 });
    let swapped = whole.project(&[0, 1, 3, 2, 4, 5]).unwrap();
    let error = table().route(&swapped, 9).unwrap_err();
    assert_eq!(error.to_string(), "column \"score\" is Float64, the load brings Date32");
}

#[test]
fn a_delete_that_would_cut_a_brick_names_it_and_whole_bricks_are_found() {
    let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
    load(&table, &clock, &batch(&good_rows(60)));
    let weeks = table.selection().within(1, &[-10..=3]);
    assert_eq!(table.whole_bricks(&weeks).unwrap().len(), 4, "two weeks, two ranges of regions");
    let cut = table.whole_bricks(&table.selection().within(1, &[-10..=0])).unwrap_err();
    assert!(
        cut.to_string().contains("region in ('north', 'south'), day from 1969-12-29 to 1970-01-04"),
        "{cut}"
    );
    let one = table.selection().among(0, &["north"]);
    assert!(table.whole_bricks(&one).is_err(), "a range of two regions");
    let both = table.selection().among(0, &["north", "south"]).within(1, &[-100..=100]);
    assert_eq!(table.whole_bricks(&both).unwrap().len(), 5);
    assert_eq!(table.view(&both).bricks().len(), 5, "others are pruned");
    let none = table.selection().within(1, &[0..=3]).within(1, &[10..=12]);
    let brick = table.view(&both).bricks()[0].id();
    assert_eq!(none.coverage(brick), Coverage::Outside);
}

#[test]
fn statistics_are_those_of_the_rows_and_zones_rule_bricks_out() {
    let (table, clock) = (table(), EpochClock::new(Stride::ALONE));
    load(&table, &clock, &batch(&good_rows(30_000)));
    let view = table.view(&table.selection());
    let reader = Reader::of(clock.committed());
    for brick in view.bricks() {
        let batches: Vec<RecordBatch> = view.batches(brick, &reader, &[0, 2]).collect();
        let likes = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values());
        let likes: Vec<i128> = likes.map(|value| i128::from(*value)).collect();
        let statistics = view.statistics(brick, 0).unwrap();
        let bounds =
            (Number::Integer(*likes.iter().min().unwrap()), Number::Integer(*likes.iter().max().unwrap()));
        assert_eq!((statistics.rows, statistics.bounds), (likes.len(), Some(bounds)));
        assert_eq!(statistics.sum, Some(Number::Integer(likes.iter().sum())));
        let nulls: usize = batches.iter().map(|batch| batch.column(1).null_count()).sum();
        assert_eq!(view.statistics(brick, 2).unwrap().null_count, nulls);
        assert!(view.may_hold(brick, 0, Number::Integer(0), Number::Integer(100)));
        assert_eq!(view.statistics(brick, 1), None, "a dimension");
    }
}
