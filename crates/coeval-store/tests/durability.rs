// SPDX-License-Identifier: Apache-2.0
//! Stores on disk: what is there after they are opened again.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

use coeval_store::{
    AccessMode, CatalogChange, CheckpointPolicy, ColumnDef, ColumnType, Direction, IndexDef, KeyRange,
    QualifiedName, RowWriter, Store, StoreOptions, TableDef, Uniqueness, Value,
};
use coeval_txn::Isolation;
use std::path::Path;

fn manual() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn open(dir: &Path) -> Store {
    Store::open(dir, manual()).unwrap()
}

fn make_table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("name", ColumnType::Text)];
    let name = QualifiedName::new("public", "things");
    let mut def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let id = store.new_space_id();
    def.indexes.push(IndexDef {
        id,
        name: "by_name".into(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn put(store: &Store, def: &TableDef, id: i64, name: &str) {
    let mut writer = RowWriter::new(def.layout());
    for value in [Value::Int64(id), Value::from(name)] {
        writer.push(value.borrow()).unwrap();
    }
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.put(def.id, writer.finish()).unwrap();
    tx.commit().unwrap();
}

fn contents(store: &Store) -> Vec<(i64, String)> {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let def = tx.resolve_table(&QualifiedName::new("public", "things")).unwrap();
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    let rows: Vec<_> = rows
        .map(|row| row.unwrap().1)
        .map(|row| (row.get(0).as_i64().unwrap(), row.get(1).as_str().unwrap().to_owned()))
        .collect();
    let entries = tx.scan_index(def.id, def.indexes[0].id, &KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(entries.count(), rows.len(), "each row has its index entry");
    rows
}

#[test]
fn what_was_committed_is_there_after_the_store_is_opened_again_with_or_without_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let def = make_table(&store);
    for id in 0..1_000 {
        put(&store, &def, id, &format!("name {}", id * 7 % 1_000));
    }
    let expected = contents(&store);
    drop(store);
    let store = open(dir.path());
    assert_eq!(contents(&store), expected);
    let report = store.checkpoint().unwrap();
    assert_eq!((report.spaces, report.rows), (2, 2_000));
    assert_eq!(contents(&store), expected);
    drop(store);
    let store = open(dir.path());
    assert_eq!(contents(&store), expected);
    put(&store, &def, 5, "five");
    put(&store, &def, 5_000, "far");
    let expected = contents(&store);
    store.checkpoint().unwrap();
    assert_eq!(contents(&store), expected);
    drop(store);
    let store = open(dir.path());
    assert_eq!(contents(&store), expected);
    assert_eq!(store.checkpoint().unwrap().spaces, 0);
    assert_eq!(std::fs::read_dir(dir.path().join("segments")).unwrap().count(), 2);
}
