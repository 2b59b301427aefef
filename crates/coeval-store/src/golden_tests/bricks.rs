// SPDX-License-Identifier: Apache-2.0
//! The golden files of a brick table, `tests/golden/bricks`: a manifest of version 3, flush rounds with and without
//! deletes before them, and records of appends, deletes and an added column.
//!
//! A load in the log lists its bricks by shard, of which there are as many as the machine has cores; so each has one.

use super::{
    assert_same_files, begin, contents, files_of, name, open, put_table, stored_contents, write_golden,
};
use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::{CatalogChange, ColumnDef, ColumnState, TableDef};
use crate::files::SimulatedFiles;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use crate::verify::verify;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int32Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::Int32Type;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden_dir() -> PathBuf {
    PathBuf::from("tests/golden/bricks")
}

/// Partitioned by region (4 of 2) and day (30 of 10, from the 100th day on).
fn events(store: &Store) -> TableDef {
    let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
    hidden.state = ColumnState::Hidden;
    let columns = vec![
        ColumnDef::new("region", ColumnType::Text).not_null(),
        ColumnDef::new("day", ColumnType::Date).not_null(),
        ColumnDef::new("likes", ColumnType::Int).not_null(),
        ColumnDef::new("note", ColumnType::Text),
        ColumnDef::new("good", ColumnType::Boolean),
        ColumnDef::new("price", ColumnType::Numeric { precision: 10, scale: 2 }),
        hidden,
    ];
    let mut def = TableDef::new(store.new_space_id(), name("events"), columns, vec![6]);
    let region = BrickDimension { column: 0, cardinality: 4, range_size: 2, origin: 0 };
    let day = BrickDimension { column: 1, cardinality: 30, range_size: 10, origin: 100 };
    def.bricks = Some(BrickDef { dimensions: vec![region, day], retention: None, replicas: None });
    def
}

fn with_count(def: &TableDef) -> TableDef {
    let mut def = def.clone();
    let mut missing = KeyWriter::new();
    missing.push(Value::Int32(77).borrow());
    let missing = Some(missing.as_slice().to_vec());
    def.add_column(ColumnDef { missing, ..ColumnDef::new("count", ColumnType::Int) });
    def
}

/// Appends rows with these likes, every third of which has NULLs.
fn append(tx: &mut Transaction, def: &TableDef, (region, day): (&str, i32), likes: &[i32]) {
    let value = |likes: &i32| likes % 3 != 0;
    let note = |likes: &i32| value(likes).then(|| format!("note {}", likes % 4));
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![region; likes.len()])),
        Arc::new(Date32Array::from(vec![day; likes.len()])),
        Arc::new(Int32Array::from(likes.to_vec())),
        Arc::new(likes.iter().map(note).collect::<StringArray>()),
        Arc::new(likes.iter().map(|likes| value(likes).then_some(likes % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(
            likes
                .iter()
                .map(|likes| value(likes).then_some(i128::from(*likes) * 100))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(10, 2)
                .unwrap(),
        ),
    ];
    if def.live_columns().count() > columns.len() {
        columns.push(Arc::new(Int32Array::from(vec![1; likes.len()])));
    }
    let names = def.live_columns().map(|(_, column)| column.name.as_str());
    let batch = RecordBatch::try_from_iter_with_nullable(
        names.zip(columns).map(|(name, column)| (name, column, true)),
    );
    assert_eq!(tx.append(def.id, &batch.unwrap(), 0).unwrap().rows, likes.len() as u64);
}

fn build(files: &SimulatedFiles) -> SimulatedFiles {
    let store = open(files);
    let def = events(&store);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutSchema("house".into())).unwrap();
    put_table(&mut tx, &def);
    tx.commit().unwrap();
    let load = |def: &TableDef, place: (&str, i32), likes: &[i32]| {
        let mut tx = begin(&store);
        append(&mut tx, def, place, likes);
        tx.commit().unwrap();
    };
    let delete = |days: std::ops::RangeInclusive<i64>| {
        let mut tx = begin(&store);
        assert!(tx.delete_bricks(def.id, |all| all.within(1, &[days])).unwrap() > 0);
        tx.commit().unwrap();
    };
    load(&def, ("north", 100), &[1, 2, 3]);
    load(&def, ("south", 115), &[4]);
    let mut tx = begin(&store);
    append(&mut tx, &def, ("north", 101), &[5]);
    let savepoint = tx.savepoint();
    append(&mut tx, &def, ("north", 102), &[6]);
    tx.rollback_to(&savepoint);
    append(&mut tx, &def, ("east", 129), &[7, 8]);
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    delete(110..=119);
    load(&def, ("south", 116), &[9, 10]);
    load(&def, ("west", 120), &[11]);
    store.checkpoint().unwrap();

    load(&def, ("west", 121), &[12, 13]);
    delete(100..=109);
    let wide = with_count(&def);
    let mut tx = begin(&store);
    put_table(&mut tx, &wide);
    tx.commit().unwrap();
    load(&wide, ("north", 103), &[14, 15]);
    // As a process leaves them that ends without closing the store.
    let written = files.copy();
    drop(store);
    written
}

/// (likes, note, count) of all rows, by likes.
fn rows(store: &Store) -> Vec<(i32, Option<String>, i32)> {
    let tx = begin(store);
    let def = tx.resolve_table(&name("events")).unwrap();
    let snapshot = tx.brick_view(def.id, |all| all).unwrap();
    let mut rows = Vec::new();
    for batch in snapshot.bricks().iter().flat_map(|brick| snapshot.batches(brick, &[2, 3, 6])) {
        let notes = arrow::compute::cast(batch.column(1), &arrow::datatypes::DataType::Utf8).unwrap();
        for row in 0..batch.num_rows() {
            let number = |column: usize| batch.column(column).as_primitive::<Int32Type>().value(row);
            let note = notes.is_valid(row).then(|| notes.as_string::<i32>().value(row).to_owned());
            rows.push((number(0), note, number(2)));
        }
    }
    rows.sort();
    rows
}

#[test]
fn the_golden_bricks_are_written_byte_for_byte() {
    let written = contents(&build(&SimulatedFiles::new(1)));
    write_golden(&golden_dir(), &written);
    assert_same_files(written, &stored_contents(&golden_dir()));
}

#[test]
fn the_golden_bricks_are_read_as_what_they_hold() {
    let files = files_of(stored_contents(&golden_dir()));
    assert_eq!(verify(Arc::new(files.clone()), Path::new(super::DIR), None).unwrap().problems, []);
    let store = open(&files);
    let row =
        |(likes, count): (i32, i32)| (likes, (likes % 3 != 0).then(|| format!("note {}", likes % 4)), count);
    let old = [7, 8, 9, 10, 11, 12, 13].map(|likes| (likes, 77));
    let expected: Vec<_> = old.into_iter().chain([(14, 1), (15, 1)]).map(row).collect();
    assert_eq!(rows(&store), expected);
}
