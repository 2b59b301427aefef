// SPDX-License-Identifier: Apache-2.0
//! Loads that come in groups.

use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::error::{ConstraintError, StoreError};
use crate::files::SimulatedFiles;
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use coeval_txn::Isolation;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 100_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

/// `t (id bigint primary key)`, in a store of its own.
fn table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn batch(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(ids))]).unwrap()
}

#[test]
fn groups_in_order_are_chunks_and_outlive_a_crash() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store);
    let mut tx = begin(&store);
    for group in 0..5 {
        let ids = group * 1_000..group * 1_000 + 700;
        assert!(tx.bulk_append(def.id, &[batch(ids.clone().take(300)), batch(ids.skip(300))]).unwrap());
        assert_eq!(tx.view(def.id).unwrap().row_count(), (group as u64 + 1) * 700);
    }
    // A group between two others has its place too.
    assert!(tx.bulk_append(def.id, &[batch(800..900)]).unwrap());
    assert_eq!(tx.loads.len(), 6);
    tx.commit().unwrap();
    let files = files.crash();
    drop(store);
    let store = open(&files);
    let tx = begin(&store);
    let table = tx.table(def.id).unwrap();
    assert_eq!((table.row_count(), table.delta_rows()), (3_600, 0));
}

#[test]
fn groups_that_are_not_in_order_change_nothing() {
    let store = open(&SimulatedFiles::new(1));
    let def = table(&store);
    let mut tx = begin(&store);
    assert!(tx.bulk_append(def.id, &[batch(100..200)]).unwrap());
    let descending = batch((0..50).rev());
    let twice = batch([1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
    let overlapping = batch(150..250);
    for rows in [descending, twice, overlapping] {
        assert!(!tx.bulk_append(def.id, &[rows]).unwrap());
        assert_eq!((tx.loads.len(), tx.view(def.id).unwrap().row_count()), (1, 100));
    }
    let refused = tx.bulk_insert(def.id, &[batch(150..250)]).unwrap_err();
    assert!(matches!(refused, StoreError::Constraint(ConstraintError::Unique { .. })), "{refused}");
    let mut indexed = def.clone();
    let (id, uniqueness) = (store.new_space_id(), Uniqueness::Any);
    indexed.indexes.push(IndexDef {
        id,
        name: "by_id".into(),
        columns: vec![0],
        uniqueness,
        declared_order: Vec::new(),
    });
    tx.change_catalog(CatalogChange::PutTable(Box::new(indexed))).unwrap();
    assert!(!tx.bulk_append(def.id, &[batch(300..400)]).unwrap(), "an index is sorted as a whole");
}
