// SPDX-License-Identifier: Apache-2.0
//! 65,536 keys of 32 KiB made a chunk of 2 GiB of keys, at which the keeper panicked, at every checkpoint anew.

use super::*;
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::options::{Sizes, StoreOptions};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use coeval_txn::Isolation;
use std::sync::Arc;

const FITS: usize = KEY_BYTES_MAX - 20;
const TOO_LONG: usize = KEY_BYTES_MAX + 1;

fn store() -> Store {
    Store::in_memory_tuned(StoreOptions::default(), Sizes { direct_load_rows_min: 4, ..Sizes::default() })
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

/// `t (id bigint, text text)` with this primary key.
fn table(store: &Store, primary_key: Vec<usize>) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("text", ColumnType::Text)];
    TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, primary_key)
}

fn index(store: &Store) -> IndexDef {
    IndexDef {
        id: store.new_space_id(),
        name: "by_text".into(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    }
}

fn put(store: &Store, def: &TableDef) {
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
}

fn row(def: &TableDef, id: i64, bytes: usize) -> Row {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    writer.push(Value::from("x".repeat(bytes).as_str()).borrow()).unwrap();
    writer.finish()
}

fn batch(rows: usize, bytes: usize) -> RecordBatch {
    let field = |name, ty| Field::new(name, ty, true);
    let schema = Schema::new(vec![field("id", DataType::Int64), field("text", DataType::Utf8View)]);
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let texts = (0..rows).map(|row| format!("{row}{}", "x".repeat(bytes)));
    let texts = StringViewArray::from_iter_values(texts);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(texts)]).unwrap()
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, name: &str) {
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, StoreError::KeySize { index, bytes, max: KEY_BYTES_MAX } if index == name && *bytes >= TOO_LONG),
        "{error}"
    );
}

#[test]
fn a_key_that_is_too_long_is_refused_by_every_way_of_writing_rows_and_nothing_is_changed() {
    for (primary_key, is_indexed, name) in [(vec![1], false, "t_pkey"), (vec![0], true, "by_text")] {
        let store = store();
        let mut def = table(&store, primary_key);
        def.indexes.extend(is_indexed.then(|| index(&store)));
        put(&store, &def);
        let mut tx = begin(&store);
        let key = tx.insert(def.id, row(&def, 1, FITS)).unwrap();
        assert_refused(tx.insert(def.id, row(&def, 2, TOO_LONG)), name);
        assert_refused(tx.update(def.id, &key, row(&def, 1, TOO_LONG)), name);
        assert_refused(tx.put(def.id, row(&def, 1, TOO_LONG)), name);
        for rows in [2, 10] {
            assert_refused(tx.bulk_insert(def.id, &[batch(rows, TOO_LONG)]), name);
        }
        assert_eq!(tx.view(def.id).unwrap().row_count(), 1);
        tx.commit().unwrap();
        store.checkpoint().unwrap();
        assert_eq!(store.world().table(def.id).unwrap().row_count(), 1);
    }
}

#[test]
fn an_index_over_values_that_are_too_long_is_refused_also_if_they_came_while_it_was_made() {
    let store = store();
    let def = table(&store, vec![0]);
    put(&store, &def);
    let mut indexed = def.clone();
    indexed.indexes.push(index(&store));
    let change = || CatalogChange::PutTable(Box::new(indexed.clone()));
    let mut maker = begin(&store);
    maker.change_catalog(change()).unwrap();
    let mut writer = begin(&store);
    writer.insert(def.id, row(&def, 1, TOO_LONG)).unwrap();
    writer.commit().unwrap();
    assert_refused(maker.commit(), "by_text");
    assert_refused(begin(&store).change_catalog(change()), "by_text");
    let mut loader = begin(&store);
    loader.change_catalog(CatalogChange::Truncate(def.id)).unwrap();
    loader.bulk_insert(def.id, &[batch(10, TOO_LONG)]).unwrap();
    assert_refused(loader.change_catalog(change()), "by_text");
    let mut writer = begin(&store);
    writer.insert(def.id, row(&def, 2, FITS)).unwrap();
    writer.commit().unwrap();
}
