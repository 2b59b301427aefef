// SPDX-License-Identifier: Apache-2.0
//! Commit batches against the limit of a log record; what certification remembers beside those who stay open.

use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::log::{LogError, LogOptions};
use crate::options::{Sizes, StoreOptions};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use coeval_txn::ssi::SessionFloor;
use std::path::Path;
use std::sync::Arc;

const BATCH_BYTES_MAX: usize = 4_000;

fn open(files: &SimulatedFiles) -> Store {
    open_with(files, Sizes { batch_bytes_max: BATCH_BYTES_MAX, ..Sizes::default() })
}

fn open_with(files: &SimulatedFiles, sizes: Sizes) -> Store {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
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

fn remembered_keys(store: &Store) -> usize {
    store.shared.pipeline.leader.lock().certifier.len()
}

#[test]
fn whoever_only_reads_and_stays_open_makes_certification_remember_nothing() {
    let store = Store::in_memory(StoreOptions::default());
    let def = make_table(&store);
    let _readers = [
        store.begin_safe(&SessionFloor::default()).unwrap(),
        store.begin(Isolation::Snapshot, AccessMode::ReadOnly),
        store.begin(Isolation::ReadCommitted, AccessMode::Query),
        store.begin(Isolation::Serializable, AccessMode::ReadOnly),
    ];
    let begin = store.oldest_active();
    for id in 0..1_000 {
        insert(&store, &def, id, 1).unwrap();
    }
    // Its table and its row, of the last one, which was active itself.
    assert!(remembered_keys(&store) <= 2, "{} keys", remembered_keys(&store));
    assert_eq!(store.oldest_active(), begin, "they are seen to hold their snapshots all the same");
    assert_eq!((store.active_snapshots(), store.held_snapshots()), (4, vec![(begin, 4)]));
}

#[test]
fn beside_a_writer_that_stays_open_certification_remembers_so_many_keys_and_refuses_it_for_the_rest() {
    let sizes = Sizes { certified_keys_max: 100, ..Sizes::default() };
    let store = Store::in_memory_tuned(StoreOptions::default(), sizes);
    let def = make_table(&store);
    insert(&store, &def, -1, 1).unwrap();
    let other = TableDef::new(
        store.new_space_id(),
        QualifiedName::new("public", "other"),
        def.columns.clone(),
        vec![0],
    );
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(other.clone()))).unwrap();
    tx.commit().unwrap();
    let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let (mut idle, mut elsewhere, mut indexing) = (begin(), begin(), begin());
    for id in 0..1_000 {
        insert(&store, &def, id, 1).unwrap();
        assert!(remembered_keys(&store) <= 100);
    }
    let put = |tx: &mut crate::transaction::Transaction, def: &TableDef, id: i32| {
        let mut writer = RowWriter::new(def.layout());
        writer.push(Value::Int32(id).borrow()).unwrap();
        writer.push(Value::from("x").borrow()).unwrap();
        tx.insert(def.id, writer.finish()).unwrap();
    };
    // A table that nobody changed is as it was.
    put(&mut elsewhere, &other, 1);
    elsewhere.commit().unwrap();
    // One that was changed is not known key by key.
    put(&mut idle, &def, 5_000);
    let refused = idle.commit().unwrap_err().to_string();
    assert!(refused.contains("concurrent"), "{refused}");
    // An index that was built meanwhile is built anew.
    let mut changed = def.clone();
    changed.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: "by_text".to_owned(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    indexing.change_catalog(CatalogChange::PutTable(Box::new(changed.clone()))).unwrap();
    indexing.commit().unwrap();
    let world = store.world();
    let (_, index) = world.table(def.id).unwrap().index(changed.indexes[0].id).unwrap();
    assert_eq!(index.len(), 1_001);
    // Whoever begins now is certified exactly.
    let mut next = begin();
    put(&mut next, &changed, 6_000);
    next.commit().unwrap();
}

/// A body of a gibibyte used to be copied, and read for its checksum, while the leader's lock was held.
#[test]
fn large_transactions_among_small_ones_have_records_of_their_own_and_are_found_again() {
    const LARGE: usize = 3 << 19;
    let files = SimulatedFiles::new(9);
    let open = || open_with(&files, Sizes::default());
    let def = {
        let store = open();
        let def = make_table(&store);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, def) = (&store, &def);
                scope.spawn(move || {
                    for row in 0..6 {
                        let bytes = if (thread + row) % 2 == 0 { LARGE } else { 100 };
                        insert(store, def, thread * 6 + row, bytes).unwrap();
                    }
                });
            }
        });
        def
    };
    let store = open();
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    for id in 0..24 {
        let key = def.key_of(|_| crate::value::ValueRef::Int32(id));
        let row = tx.get(def.id, &key).unwrap().expect("what was acknowledged is there");
        let crate::value::ValueRef::Text(text) = row.get(1) else { panic!("a text") };
        assert_eq!(text.len(), if (id / 6 + id % 6) % 2 == 0 { LARGE } else { 100 });
    }
}

/// The last bytes of a large transaction are written without the leader's lock, when its world is installed already. Each
/// call of the disk fails in turn: what was acknowledged is found again, and what was refused is not.
#[test]
fn a_large_transaction_whose_bytes_cannot_be_written_is_not_acknowledged() {
    let (mut unknown, mut refused) = (0, 0);
    for fault in [Fault::Io, Fault::DiskFull] {
        for call in 0.. {
            let files = SimulatedFiles::new(call);
            let store = open_with(&files, Sizes::default());
            let def = make_table(&store);
            files.fail_from(call, fault);
            let outcome = insert(&store, &def, 1, 2 << 20);
            let calls_failed = insert(&store, &def, 2, 10).is_err();
            files.heal();
            drop(store);
            let store = open_with(&files.crash(), Sizes::default());
            let key = def.key_of(|_| crate::value::ValueRef::Int32(1));
            let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
            let is_found = tx.get(def.id, &key).unwrap().is_some();
            match outcome {
                Ok(()) => assert!(is_found, "call {call}"),
                Err(StoreError::OutcomeUnknown(_) | StoreError::Stopped(_)) => unknown += 1,
                Err(StoreError::Log(LogError::NoRoom(_))) => {
                    refused += 1;
                    assert!(!is_found, "call {call}");
                }
                Err(error) => panic!("call {call}: {error}"),
            }
            if !calls_failed {
                break;
            }
        }
    }
    assert!(unknown >= 3 && refused >= 1, "{unknown} {refused}");
}
