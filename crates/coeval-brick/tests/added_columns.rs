// SPDX-License-Identifier: Apache-2.0
//! Metrics that are added to a table with rows: nobody's rows change, and each reader has its own columns.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use coeval_brick::{
    BrickSchema, BrickTable, Column, Deletion, Dimension, DimensionValues, Metric, Nulls, Number, Reader,
    Shards,
};
use coeval_txn::{Epoch, EpochSet};

fn columns() -> Vec<Column> {
    let values = DimensionValues::Ordered { data_type: DataType::Int32, origin: 0 };
    vec![
        Column::Dimension(Dimension { name: "day".into(), values, cardinality: 10, range_size: 5 }),
        metric("id", DataType::Int64, Nulls::Refused),
    ]
}

fn metric(name: &str, data_type: DataType, nulls: Nulls) -> Column {
    Column::Metric(Metric { name: name.into(), data_type, nulls })
}

fn wide_schema() -> BrickSchema {
    let mut columns = columns();
    columns.push(metric("score", DataType::Int64, Nulls::Refused));
    columns.push(metric("note", DataType::Utf8, Nulls::Allowed));
    columns.push(metric("good", DataType::Boolean, Nulls::Refused));
    columns.push(metric("more", DataType::Utf8, Nulls::Allowed));
    let value = |array: ArrayRef| array;
    BrickSchema::new(columns)
        .unwrap()
        .with_missing(2, &value(Arc::new(Int64Array::from(vec![7]))))
        .with_missing(3, &value(Arc::new(StringArray::from(vec!["old"]))))
        .with_missing(4, &value(Arc::new(BooleanArray::from(vec![true]))))
}

fn narrow_table() -> BrickTable {
    BrickTable::new(BrickSchema::new(columns()).unwrap(), Arc::new(Shards::start(2, 4).unwrap()))
}

fn narrow(ids: &[i64]) -> RecordBatch {
    let days: Int32Array = ids.iter().map(|id| Some((*id % 10) as i32)).collect();
    RecordBatch::try_from_iter([
        ("day", Arc::new(days) as ArrayRef),
        ("id", Arc::new(Int64Array::from(ids.to_vec()))),
    ])
    .unwrap()
}

fn wide(ids: &[i64]) -> RecordBatch {
    let narrow = narrow(ids);
    let notes: StringArray = ids.iter().map(|id| (id % 2 == 0).then_some("new")).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("day", Arc::clone(narrow.column(0)), false),
        ("id", Arc::clone(narrow.column(1)), false),
        ("score", Arc::new(Int64Array::from(ids.to_vec())), false),
        ("note", Arc::new(notes), true),
        ("good", Arc::new(BooleanArray::from(vec![false; ids.len()])), false),
        ("more", Arc::new(StringArray::from(vec!["more"; ids.len()])), true),
    ])
    .unwrap()
}

fn append(table: &BrickTable, epoch: u64, batch: &RecordBatch) {
    let load = table.route(batch, 0).unwrap().load;
    table.append(Epoch::new(epoch), load).unwrap().wait().unwrap();
}

fn through(epoch: u64) -> Reader {
    Reader::of(EpochSet::through(Epoch::new(epoch)))
}

/// The rows that `reader` sees as lines, by `id`.
fn rows(table: &BrickTable, reader: &Reader) -> Vec<String> {
    let view = table.view(&table.selection());
    let columns: Vec<usize> = (1..table.schema().columns().len()).collect();
    let batches: Vec<_> =
        view.bricks().iter().flat_map(|brick| view.batches(brick, reader, &columns)).collect();
    let schema = Arc::new(table.schema().arrow().project(&columns).unwrap());
    let whole = concat_batches(&schema, &batches).unwrap();
    let text = pretty_format_batches(&[whole]).unwrap().to_string();
    let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
    let words = |line: &str| {
        let cells = line.split('|').map(str::trim);
        cells.collect::<Vec<_>>()[1..].join(" ").trim_end().to_owned()
    };
    let mut rows: Vec<String> = lines.map(words).collect();
    rows.sort_by_key(|row| row.split(' ').next().unwrap().parse::<i64>().unwrap());
    rows
}

#[test]
fn rows_that_came_before_a_column_have_its_value_and_readers_of_before_do_not_see_it() {
    let old = narrow_table();
    append(&old, 1, &narrow(&[1, 2]));
    let new = old.redeclared(wide_schema());
    assert!(new.shares_rows_with(&old) && !new.shares_rows_with(&narrow_table()));
    append(&new, 2, &wide(&[3, 4]));
    assert_eq!(
        rows(&new, &through(2)),
        ["1 7 old true", "2 7 old true", "3 3  false more", "4 4 new false more"]
    );
    assert_eq!(rows(&old, &through(2)), ["1", "2", "3", "4"]);
    let view = new.view(&new.selection());
    let scores: Vec<_> = view.bricks().iter().map(|brick| view.statistics(brick, 2).unwrap()).collect();
    let all = scores.iter().fold(coeval_brick::ColumnStatistics::default(), |all, one| all.with(one));
    assert_eq!((all.rows, all.null_count), (4, 0));
    assert_eq!(all.sum, Some(Number::Integer(21)));
    assert_eq!(all.bounds, Some((Number::Integer(3), Number::Integer(7))));
}

#[test]
fn loads_of_both_kinds_by_turns_lose_nothing_in_purge_and_rollback() {
    let old = narrow_table();
    let new = old.redeclared(wide_schema());
    for turn in 0..40 {
        let ids = [turn * 2, turn * 2 + 1];
        let epoch = turn as u64 + 1;
        if turn % 2 == 0 { append(&old, epoch, &narrow(&ids)) } else { append(&new, epoch, &wide(&ids)) }
    }
    let bricks: Vec<_> = new.view(&new.selection()).bricks().iter().map(|brick| brick.id()).collect();
    let gone: Vec<Epoch> = (31..=40).map(Epoch::new).collect();
    new.roll_back(&gone, &bricks).unwrap().wait().unwrap();
    let before = rows(&new, &through(30));
    assert_eq!(before.len(), 60);
    assert_eq!(before[5..8], ["5 7 old true", "6 6 new false more", "7 7  false more"]);
    old.purge(Epoch::new(20)).unwrap().wait().unwrap();
    append(&old, 41, &narrow(&[60]));
    new.purge(Epoch::new(41)).unwrap().wait().unwrap();
    append(&new, 42, &wide(&[61]));
    let after = rows(&new, &through(42));
    assert_eq!(after[..60], before);
    assert_eq!(after[60..], ["60 7 old true", "61 61  false more"]);
    let deletion = Deletion {
        epoch: Epoch::new(43),
        covered: EpochSet::through(Epoch::new(41)),
        own: vec![Epoch::new(43)],
    };
    old.delete(deletion, &bricks).unwrap().wait().unwrap();
    new.purge(Epoch::new(43)).unwrap().wait().unwrap();
    assert_eq!(rows(&new, &through(43)), ["61 61  false more"]);
}

#[test]
fn what_was_kept_without_a_column_comes_back_with_its_value() {
    let old = narrow_table();
    let load = old.route(&narrow(&[1, 2]), 0).unwrap().load;
    let mut bytes = Vec::new();
    old.encode_strings(&[], &mut bytes);
    load.encode(&mut bytes);

    let copy = narrow_table().redeclared(wide_schema());
    let (load, rest) = copy.decode(copy.restore_strings(&bytes).unwrap()).unwrap();
    assert!(rest.is_empty());
    copy.append(Epoch::new(1), load).unwrap().wait().unwrap();
    assert_eq!(rows(&copy, &through(1)), ["1 7 old true", "2 7 old true"]);

    // A flush of rows of both kinds holds whole rows.
    append(&old, 1, &narrow(&[1, 2]));
    let new = old.redeclared(wide_schema());
    append(&new, 2, &wide(&[3, 11]));
    let again = BrickTable::new(wide_schema(), Arc::new(Shards::start(2, 4).unwrap()));
    let mut strings = Vec::new();
    new.encode_strings(&[0, 0], &mut strings);
    again.restore_strings(&strings).unwrap();
    let view = new.view(&new.selection());
    for brick in view.bricks() {
        let flush = view.unflushed(brick, &Reader::of(EpochSet::none()), &through(2));
        let mut bytes = Vec::new();
        flush.encode(&mut bytes);
        let (load, _) = again.decode(&bytes).unwrap();
        again.restore(&flush.epochs, load).unwrap().wait().unwrap();
    }
    assert_eq!(rows(&again, &through(2)), rows(&new, &through(2)));
    assert_eq!(rows(&again, &through(1)), ["1 7 old true", "2 7 old true"]);
}

#[test]
fn a_table_is_not_declared_anew_with_other_columns() {
    let schema = BrickSchema::new(columns()).unwrap();
    assert!(wide_schema().extends(&schema) && schema.extends(&schema) && !schema.extends(&wide_schema()));
    let mut renamed = columns();
    renamed[1] = metric("number", DataType::Int64, Nulls::Refused);
    assert!(BrickSchema::new(renamed).unwrap().extends(&schema));
    let mut retyped = columns();
    retyped[1] = metric("id", DataType::Int32, Nulls::Refused);
    assert!(!BrickSchema::new(retyped).unwrap().extends(&schema));
}

/// Whoever loads rows of before anew gives them what readers of the old ones see.
#[test]
fn what_rows_came_without_can_be_asked_for() {
    let schema = wide_schema();
    assert!(schema.missing_column(0, 2).is_none(), "a dimension is in all rows");
    let column = |place| schema.missing_column(place, 2).unwrap();
    assert_eq!(column(2).as_ref(), &Int64Array::from(vec![7, 7]) as &dyn Array);
    assert_eq!(column(3).as_ref(), &StringArray::from(vec!["old", "old"]) as &dyn Array);
    assert_eq!(column(4).as_ref(), &BooleanArray::from(vec![true, true]) as &dyn Array);
    assert_eq!(column(5).as_ref(), &StringArray::from(vec![None::<&str>, None]) as &dyn Array);
}
