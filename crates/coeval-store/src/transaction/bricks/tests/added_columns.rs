// SPDX-License-Identifier: Apache-2.0
//! Columns that are added to a brick table with rows: beside other transactions, over checkpoints and recovery.

use super::{DIR, append, begin, events, ids, options, try_open};
use crate::catalog::{CatalogChange, ColumnDef, TableDef};
use crate::error::StoreError;
use crate::files::SimulatedFiles;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use crate::verify::verify;
use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use std::path::Path;
use std::sync::Arc;

/// `def` with `count bigint DEFAULT 7` and `kind text DEFAULT 'old'`.
fn widened(def: &TableDef) -> TableDef {
    let mut def = def.clone();
    for (name, ty, value) in
        [("count", ColumnType::BigInt, Value::Int64(7)), ("kind", ColumnType::Text, Value::from("old"))]
    {
        let mut writer = KeyWriter::new();
        writer.push(value.borrow());
        let missing = Some(writer.as_slice().to_vec());
        def.add_column(ColumnDef { missing, ..ColumnDef::new(name, ty) });
    }
    def
}

fn put(tx: &mut Transaction, def: &TableDef) {
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
}

fn append_wide(tx: &mut Transaction, def: &TableDef, rows: &[(i64, i64, &str)]) {
    let regions: StringArray = rows.iter().map(|_| Some("a")).collect();
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values));
    let kinds: StringArray = rows.iter().map(|row| Some(row.2)).collect();
    let batch = RecordBatch::try_from_iter([
        ("region", Arc::new(regions) as _),
        ("day", column(vec![1; rows.len()]) as _),
        ("id", column(rows.iter().map(|row| row.0).collect()) as _),
        ("count", column(rows.iter().map(|row| row.1).collect()) as _),
        ("kind", Arc::new(kinds) as _),
    ]);
    assert_eq!(tx.append(def.id, &batch.unwrap(), 0).unwrap().rows, rows.len() as u64);
}

/// (id, count, kind) of the rows that a transaction sees, by id.
fn wide_rows(tx: &Transaction, def: &TableDef) -> Vec<(i64, i64, String)> {
    let snapshot = tx.brick_view(def.id, |all| all).unwrap();
    let mut rows = Vec::new();
    for brick in snapshot.bricks() {
        for batch in snapshot.batches(brick, &[2, 3, 4]) {
            let (ids, counts) = (batch.column(0), batch.column(1));
            let kinds = arrow::compute::cast(batch.column(2), &arrow::datatypes::DataType::Utf8).unwrap();
            for row in 0..batch.num_rows() {
                let number = |column: &arrow::array::ArrayRef| column.as_primitive::<Int64Type>().value(row);
                rows.push((number(ids), number(counts), kinds.as_string::<i32>().value(row).to_owned()));
            }
        }
    }
    rows.sort();
    rows
}

fn old(id: i64) -> (i64, i64, String) {
    (id, 7, "old".to_owned())
}

fn new(id: i64, count: i64, kind: &str) -> (i64, i64, String) {
    (id, count, kind.to_owned())
}

#[test]
fn a_column_is_added_beside_readers_and_refused_to_writers_that_do_not_know_it() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 1)]);
    tx.commit().unwrap();
    let (reader, mut writer) = (begin(&store), begin(&store));
    append(&mut writer, &def, &[("a", 1, 2)]);
    let wide = widened(&def);
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 3)]);
    put(&mut tx, &wide);
    append_wide(&mut tx, &wide, &[(4, 40, "new")]);
    assert_eq!(wide_rows(&tx, &wide), [old(1), old(3), new(4, 40, "new")]);
    tx.commit().unwrap();
    assert_eq!(ids(&reader, &def), [1]);
    assert_eq!(ids(&writer, &def), [1, 2]);
    assert!(matches!(writer.commit(), Err(StoreError::Conflict(_))));
    store.shared.purge_bricks();
    assert_eq!(wide_rows(&begin(&store), &wide), [old(1), old(3), new(4, 40, "new")]);
}

#[test]
fn a_column_whose_transaction_is_rolled_back_leaves_nothing() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let wide = widened(&def);
    let mut tx = begin(&store);
    append(&mut tx, &def, &[("a", 1, 1)]);
    let savepoint = tx.savepoint();
    put(&mut tx, &wide);
    append_wide(&mut tx, &wide, &[(2, 20, "gone")]);
    tx.rollback_to(&savepoint);
    assert_eq!(ids(&tx, &def), [1]);
    let mut other = def.clone();
    other.add_column(ColumnDef::new("flag", ColumnType::Boolean));
    put(&mut tx, &other);
    tx.commit().unwrap();
    let snapshot = begin(&store);
    let view = snapshot.brick_view(def.id, |all| all).unwrap();
    let batches: Vec<_> = view.bricks().iter().flat_map(|brick| view.batches(brick, &[2, 3])).collect();
    assert_eq!((batches.len(), batches[0].num_rows(), batches[0].column(1).null_count()), (1, 1, 1));
}

#[test]
fn rows_of_before_and_behind_an_added_column_are_recovered_from_the_log_and_from_rounds() {
    for checkpoints in 0..8_u32 {
        let files = SimulatedFiles::new(9);
        let store = try_open(&files).unwrap();
        let def = events(&store, "e");
        let wide = widened(&def);
        let checkpoint = |step: u32| {
            if checkpoints & (1 << step) != 0 {
                store.checkpoint().unwrap();
            }
        };
        let mut tx = begin(&store);
        append(&mut tx, &def, &[("a", 1, 1), ("b", 50, 2)]);
        tx.commit().unwrap();
        checkpoint(0);
        let mut tx = begin(&store);
        append(&mut tx, &def, &[("c", 1, 3)]);
        put(&mut tx, &wide);
        append_wide(&mut tx, &wide, &[(4, 40, "new")]);
        tx.commit().unwrap();
        checkpoint(1);
        let mut tx = begin(&store);
        append_wide(&mut tx, &wide, &[(5, 50, "old"), (6, 60, "newer")]);
        tx.commit().unwrap();
        checkpoint(2);
        drop(store);
        let expected = [old(1), old(2), old(3), new(4, 40, "new"), new(5, 50, "old"), new(6, 60, "newer")];
        let copy = files.copy();
        assert_eq!(verify(Arc::new(copy.clone()), Path::new(DIR), None).unwrap().problems, []);
        let store = try_open(&copy).unwrap();
        assert_eq!(wide_rows(&begin(&store), &wide), expected, "checkpoints {checkpoints:b}");
        let mut tx = begin(&store);
        append_wide(&mut tx, &wide, &[(7, 70, "last")]);
        tx.commit().unwrap();
        store.checkpoint().unwrap();
        drop(store);
        let store = try_open(&copy.copy()).unwrap();
        assert_eq!(wide_rows(&begin(&store), &wide).len(), 7);
    }
}

#[test]
fn what_columns_a_table_has_stays_as_it_was_declared() {
    let store = Store::in_memory(options());
    let def = events(&store, "e");
    let mut tx = begin(&store);
    let mut refused = |change: &dyn Fn(&mut TableDef)| {
        let mut changed = def.clone();
        change(&mut changed);
        let error = tx.change_catalog(CatalogChange::PutTable(Box::new(changed))).unwrap_err();
        assert!(matches!(error, StoreError::BrickDefinition { .. }), "{error}");
    };
    refused(&|def| def.columns[2].ty = ColumnType::Int);
    refused(&|def| def.drop_column(2));
    refused(&|def| def.columns[2].not_null = true);
    refused(&|def| def.bricks.as_mut().unwrap().dimensions[0].range_size = 1);
}
