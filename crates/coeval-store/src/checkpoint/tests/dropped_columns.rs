// SPDX-License-Identifier: Apache-2.0
//! What is left of dropped columns in rows and chunks that are written later.

use super::*;
use crate::column::constant_column;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;

/// Adds a column and drops it, so many times, each time in a transaction of its own.
fn add_and_drop(store: &Store, def: &mut TableDef, times: usize) {
    for _ in 0..times {
        let column = def.columns.len();
        let mut tx = begin(store);
        def.add_column(ColumnDef::new(format!("c{column}"), ColumnType::Text));
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        def.drop_column(column);
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        tx.commit().unwrap();
    }
}

/// A row with this id, and something for every other column, whether it is there or not.
fn put(tx: &mut Transaction, def: &TableDef, id: i64) -> usize {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    for _ in 1..def.columns.len() {
        writer.push(Value::from("something").borrow()).unwrap();
    }
    let row = writer.finish();
    let bytes = row.as_bytes().len();
    tx.put(def.id, row).unwrap();
    bytes
}

fn load(store: &Store, def: &TableDef, ids: std::ops::Range<i64>) {
    let rows = usize::try_from(ids.end - ids.start).unwrap();
    let mut builder = crate::column::ColumnBuilder::new(ColumnType::BigInt, rows);
    ids.for_each(|id| builder.push(Value::Int64(id).borrow()));
    let others = def.columns[1..].iter().map(|column| constant_column(column.ty, &Value::Null, rows));
    let columns: Vec<ArrayRef> = std::iter::once(builder.finish()).chain(others).collect();
    let mut tx = begin(store);
    let schema = tx.view(def.id).unwrap().schema();
    tx.bulk_insert(def.id, &[RecordBatch::try_new(schema, columns).unwrap()]).unwrap();
    tx.commit().unwrap();
}

fn check(store: &Store, def: &TableDef, rows: &[i64]) {
    assert_eq!(ids(store, def), rows);
    let world = store.world();
    let base = world.table(def.id).unwrap().rows().base().clone();
    let (mut chunks, mut bytes) = (0, 0);
    for (_, chunk) in base.iter() {
        for column in 1..def.columns.len() {
            assert_eq!(*chunk.column(column).unwrap().data_type(), DataType::Null);
            assert_eq!(chunk.stats().columns[column].null_count, chunk.rows() as u64);
        }
        chunks += 1;
        bytes += chunk.bytes();
    }
    assert!(chunks > 0);
    // A key and an id of eight bytes each, with what each array has for itself.
    assert!(bytes <= 64 * rows.len(), "{bytes} bytes for {} rows", rows.len());
}

#[test]
fn of_dropped_columns_later_rows_have_a_bit_and_later_chunks_nothing() {
    const TIMES: usize = 200;
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let mut def = things(&store, &(0..40).collect::<Vec<_>>());
    run(&store.shared).unwrap();
    add_and_drop(&store, &mut def, TIMES);
    let mut tx = begin(&store);
    for id in 0..40 {
        let bytes = put(&mut tx, &def, id);
        // The number of columns, their bits, the id; and the last column's slot, behind which none was added.
        assert_eq!(bytes, 2 + (TIMES + 1).div_ceil(8) + 8 + 4 + "something".len());
    }
    tx.commit().unwrap();
    load(&store, &def, 100..140);
    let rows: Vec<i64> = (0..40).chain(100..140).collect();
    run(&store.shared).unwrap();
    check(&store, &def, &rows);
    drop(store);
    let files = files.restart();
    let store = open(&files);
    check(&store, &def, &rows);
    drop(store);
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    assert_eq!(report.problems, []);
}
