// SPDX-License-Identifier: Apache-2.0
//! What sessions do by themselves: a panic there is that session's alone. And a large transaction, whose body is written when
//! others append behind it.

use super::super::lives::{DIR, SMALL};
use super::{assert_says_so, block_on, commit_one, open};
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::SimulatedFiles;
use crate::log::LogOptions;
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::trap::Step;
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

fn table(store: &Store, columns: Vec<ColumnDef>) -> TableDef {
    let name = QualifiedName::new("public", "t");
    let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn numbers_in(store: &Store, def: &TableDef) -> Vec<i64> {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|row| row.unwrap().1.get(0).as_i64().unwrap()).collect()
}

/// Others write while an index is built, and who builds it panics when it takes that in. It is as if it had been rolled back.
#[test]
fn a_panic_of_who_makes_an_index_is_that_sessions_alone() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store, vec![ColumnDef::new("id", ColumnType::BigInt)]);
    (0..50).for_each(|id| commit_one(&store, &def, id).unwrap());
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut with_index = def.clone();
    with_index.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: "by_id".to_owned(),
        columns: vec![0],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    tx.change_catalog(CatalogChange::PutTable(Box::new(with_index.clone()))).unwrap();
    (50..100).for_each(|id| commit_one(&store, &def, id).unwrap());
    store.shared.trap.arm(Step::CatchUp);
    assert!(catch_unwind(AssertUnwindSafe(|| tx.commit())).is_err());
    store.check_running().unwrap();
    // Neither locks nor reservations of it are left.
    (100..110).for_each(|id| commit_one(&store, &def, id).unwrap());
    assert!(store.world().table(def.id).unwrap().indexes().is_empty());
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(with_index))).unwrap();
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    let files = files.crash();
    drop(store);
    let store = open(&files);
    assert_eq!(numbers_in(&store, &def), (0..110).collect::<Vec<_>>());
    assert_eq!(store.world().table(def.id).unwrap().indexes().len(), 1);
}

/// Where transactions of more than a megabyte are possible.
fn open_roomy(files: &SimulatedFiles) -> Store {
    let sizes = Sizes { batch_bytes_max: 8 << 20, ..SMALL };
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, LogOptions::default(), sizes).unwrap()
}

/// A row that takes more than a megabyte in the log.
fn commit_large(store: &Store, def: &TableDef, id: i64) -> Result<(), StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    writer.push(Value::from("x".repeat(1_200_000)).borrow()).unwrap();
    tx.insert(def.id, writer.finish())?;
    tx.commit().map(drop)
}

fn commit_small(store: &Store, def: &TableDef, id: i64) -> Result<(), StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    writer.push(Value::from("small").borrow()).unwrap();
    tx.insert(def.id, writer.finish())?;
    let committed = tx.commit_applied()?;
    store.publication(committed.version).map_or(Ok(()), block_on)
}

#[test]
fn a_panic_between_the_record_of_a_large_transaction_and_its_body_leaves_nothing_of_it_nor_of_those_behind() {
    for spared in [0, 2] {
        let files = SimulatedFiles::new(u64::from(spared));
        let store = open_roomy(&files);
        let columns =
            vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("text", ColumnType::Text)];
        let def = table(&store, columns);
        store.shared.trap.arm_behind(Step::Fill, spared);
        let mut acknowledged = Vec::new();
        for id in 0..=i64::from(spared) {
            commit_small(&store, &def, 100 + id).unwrap();
            acknowledged.push(100 + id);
            match commit_large(&store, &def, id) {
                Ok(()) => acknowledged.push(id),
                Err(error) => {
                    assert!(matches!(error, StoreError::OutcomeUnknown(_)), "{error}");
                    assert_says_so(&error.to_string(), Step::Fill);
                }
            }
        }
        assert_eq!(acknowledged.len() as u32, 2 * spared + 1);
        assert!(matches!(commit_small(&store, &def, 999), Err(StoreError::Stopped(_))));
        let files = files.crash();
        drop(store);
        let store = open_roomy(&files);
        acknowledged.sort_unstable();
        assert_eq!(numbers_in(&store, &def), acknowledged, "its record was never whole");
        commit_large(&store, &def, 500).unwrap();
    }
}
