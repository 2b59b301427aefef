// SPDX-License-Identifier: Apache-2.0
//! Commit batches against the limit of a log record.

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::LogOptions;
use crate::options::{Sizes, StoreOptions};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use std::path::Path;
use std::sync::Arc;

const BATCH_BYTES_MAX: usize = 4_000;

fn open(files: &SimulatedFiles) -> Store {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    let sizes = Sizes { batch_bytes_max: BATCH_BYTES_MAX, ..Sizes::default() };
    Store::open_tuned(files, Path::new("/db"), StoreOptions::default(), LogOptions::default(), sizes).unwrap()
}

fn make_table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("text", ColumnType::Text)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn insert(store: &Store, def: &TableDef, id: i32, bytes: usize) -> Result<(), StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int32(id).borrow()).unwrap();
    writer.push(Value::from("x".repeat(bytes).as_str()).borrow()).unwrap();
    tx.insert(def.id, writer.finish())?;
    tx.commit().map(drop)
}

#[test]
fn a_transaction_that_does_not_fit_in_a_log_record_is_refused_and_the_others_go_on() {
    let files = SimulatedFiles::new(7);
    let def = {
        let store = open(&files);
        let def = make_table(&store);
        insert(&store, &def, 1, 10).unwrap();
        let refused = insert(&store, &def, 2, BATCH_BYTES_MAX);
        assert!(matches!(refused, Err(StoreError::TransactionSize { .. })), "{refused:?}");
        insert(&store, &def, 3, 10).unwrap();
        def
    };
    let store = open(&files);
    let world = store.world();
    assert_eq!(world.table(def.id).unwrap().row_count(), 2, "what was refused left nothing behind");
}

#[test]
fn waiting_transactions_that_do_not_fit_in_one_log_record_take_several() {
    let files = SimulatedFiles::new(8);
    let (threads, rows_each) = (8, 50);
    let def = {
        let store = open(&files);
        let def = make_table(&store);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (store, def) = (&store, &def);
                scope.spawn(move || {
                    for row in 0..rows_each {
                        insert(store, def, thread * rows_each + row, BATCH_BYTES_MAX / 2).unwrap();
                    }
                });
            }
        });
        def
    };
    let store = open(&files);
    let rows = (threads * rows_each) as u64;
    assert_eq!(store.world().table(def.id).unwrap().row_count(), rows);
}
