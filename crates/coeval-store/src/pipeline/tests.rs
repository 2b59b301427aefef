// SPDX-License-Identifier: Apache-2.0
//! Commit batches against the limit of a log record; what certification remembers beside those who stay open.

mod held_bytes;

use crate::build_index::build_index;
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::column::ColumnBuilder;
use crate::cursor::SpaceCursor;
use crate::error::StoreError;
use crate::files::{DiskFiles, Fault, FileSystem, SimulatedFiles};
use crate::key::Key;
use crate::log::{LogError, LogOptions};
use crate::options::{Durability, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::space::Space;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use coeval_txn::ssi::SessionFloor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BATCH_BYTES_MAX: usize = 4_000;

/// When a test gives up on what other threads are to do.
const PATIENCE: Duration = Duration::from_secs(60);

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

fn row(def: &TableDef, id: i32, bytes: usize) -> Row {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int32(id).borrow()).unwrap();
    writer.push(Value::from("x".repeat(bytes).as_str()).borrow()).unwrap();
    writer.finish()
}

fn insert(store: &Store, def: &TableDef, id: i32, bytes: usize) -> Result<(), StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.insert(def.id, row(def, id, bytes))?;
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
fn a_large_transaction_is_certified_by_its_keys_and_let_go_of_when_nobody_is_older() {
    let sizes = Sizes { large_footprint_min: 8, ..Sizes::default() };
    let store = Store::in_memory_tuned(StoreOptions::default(), sizes);
    let def = make_table(&store);
    let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let (mut first, mut same, mut other) = (begin(), begin(), begin());
    for (tx, ids) in [(&mut first, 0..100), (&mut same, 99..120), (&mut other, 100..120)] {
        ids.for_each(|id| drop(tx.insert(def.id, row(&def, id, 1)).unwrap()));
    }
    first.commit().unwrap();
    let refused = same.commit().unwrap_err();
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused}");
    other.commit().unwrap();
    let idle = begin();
    insert(&store, &def, 1_000, 1).unwrap();
    assert!(remembered_keys(&store) <= 2, "nobody is older: {} keys", remembered_keys(&store));
    drop(idle);
}

#[test]
fn beside_a_writer_that_stays_open_certification_remembers_so_many_keys_and_refuses_it_for_the_rest() {
    // Nothing of an index that is built anew is made under the leader's lock.
    let sizes = Sizes { certified_keys_max: 100, leader_rows_max: 8, ..Sizes::default() };
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
    let changed = with_index(&store, &def);
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

/// The definition with an index on the texts of its rows.
/// A transaction with more changes than are kept unmarked used to get its marks from whoever committed next, one for each key
/// and under the leader's lock, though everybody saw it.
#[test]
fn behind_a_large_transaction_that_everybody_sees_nobody_makes_marks_of_it() {
    const CHANGES: i32 = (1 << 18) + 1;
    let store = open_with(&SimulatedFiles::new(10), Sizes::default());
    let def = make_table(&store);
    let large = |first: i32| {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        (first..first + CHANGES).for_each(|id| drop(tx.insert(def.id, row(&def, id, 1)).unwrap()));
        tx.commit().unwrap();
    };
    let sizes = || store.shared.pipeline.leader.lock().certifications.sizes();
    large(0);
    assert_eq!(sizes(), (0, CHANGES as usize), "its own leader does not know yet that it is published");
    insert(&store, &def, -1, 1).unwrap();
    assert_eq!(sizes(), (0, 1));
    // Beside somebody who does not see it they are needed.
    let old = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    large(CHANGES);
    insert(&store, &def, -2, 1).unwrap();
    let (marked, waiting) = sizes();
    assert!(marked > 0 && waiting == 1, "{marked} marked, {waiting} waiting");
    drop(old);
}

fn with_index(store: &Store, def: &TableDef) -> TableDef {
    let mut changed = def.clone();
    changed.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: "by_text".to_owned(),
        columns: vec![1],
        uniqueness: Uniqueness::Any,
        declared_order: Vec::new(),
    });
    changed
}

fn entries(space: &Space) -> Vec<Key> {
    let all = SpaceCursor::new(space, None, &KeyRange::all(), Direction::Forward);
    all.map(|entry| entry.unwrap().0).collect()
}

/// A transaction that has built an index, which `beside` does not wait for. The index behind its commit is compared with
/// one that is built over the rows that are there then.
fn index_beside(store: &Store, def: &TableDef, beside: impl FnOnce()) -> Result<(), StoreError> {
    let changed = with_index(store, def);
    let mut indexing = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    indexing.change_catalog(CatalogChange::PutTable(Box::new(changed.clone()))).unwrap();
    beside();
    indexing.commit()?;
    let world = store.world();
    let table = world.table(def.id).unwrap();
    let (_, index) = table.index(changed.indexes[0].id).unwrap();
    assert_eq!(entries(index), entries(&build_index(table, &changed, 0).unwrap()));
    Ok(())
}

#[test]
fn what_many_others_write_beside_a_new_index_is_taken_in_before_its_commit_leads() {
    let sizes = Sizes { leader_rows_max: 8, ..Sizes::default() };
    let store = Store::in_memory_tuned(StoreOptions::default(), sizes);
    let def = make_table(&store);
    (0..500).for_each(|id| insert(&store, &def, id, id as usize % 50).unwrap());
    let beside = || {
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        for id in 0..200 {
            assert!(tx.delete(def.id, &def.key_of(|_| crate::value::ValueRef::Int32(id))).unwrap());
        }
        tx.commit().unwrap();
        (1_000..1_500).for_each(|id| insert(&store, &def, id, id as usize % 50).unwrap());
        (0..100).for_each(|id| insert(&store, &def, id, 60).unwrap());
    };
    index_beside(&store, &def, beside).unwrap();
}

/// The entries of what a transaction had loaded were put between those of other rows one by one, under the leader's lock, however
/// many there were: one row in the table was enough.
#[test]
fn entries_of_many_rows_that_are_loaded_are_merged_with_a_new_index_before_its_commit_leads() {
    const LOADED: i32 = 1_000;
    let sizes = Sizes { leader_rows_max: 8, direct_load_rows_min: 8, ..Sizes::default() };
    let store = Store::in_memory_tuned(StoreOptions::default(), sizes);
    for beside in [0, 100] {
        let def = make_table(&store);
        insert(&store, &def, -1, 3).unwrap();
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let mut columns = [0, 1].map(|at| ColumnBuilder::new(def.columns[at].ty, 0));
        for id in 0..LOADED {
            columns[0].push(Value::Int32(id).borrow());
            columns[1].push(Value::from("x".repeat(id as usize % 7).as_str()).borrow());
        }
        let schema = tx.view(def.id).unwrap().schema();
        let arrays = columns.into_iter().map(|mut column| column.finish()).collect();
        let batch = arrow::array::RecordBatch::try_new(schema, arrays).unwrap();
        tx.bulk_insert(def.id, &[batch]).unwrap();
        let changed = with_index(&store, &def);
        tx.change_catalog(CatalogChange::PutTable(Box::new(changed.clone()))).unwrap();
        // Others are taken in, too.
        (1..=beside).for_each(|id| insert(&store, &def, -1 - id, 3).unwrap());
        tx.commit().unwrap();
        let world = store.world();
        let table = world.table(def.id).unwrap();
        let (_, index) = table.index(changed.indexes[0].id).unwrap();
        assert_eq!(
            (table.row_count(), index.len()),
            ((LOADED + beside + 1) as u64, (LOADED + beside + 1) as u64)
        );
        assert!(index.delta().is_empty(), "nothing was put between others one by one");
        assert_eq!(entries(index), entries(&build_index(table, &changed, 0).unwrap()));
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::RemoveTable(def.id)).unwrap();
        tx.commit().unwrap();
    }
}

#[test]
fn an_index_that_others_run_away_from_is_refused_and_nobody_waits_for_it() {
    let sizes = Sizes { leader_rows_max: 0, ..Sizes::default() };
    let store = Store::in_memory_tuned(StoreOptions::default(), sizes);
    let def = make_table(&store);
    (0..2_000).for_each(|id| insert(&store, &def, id, 10).unwrap());
    let is_over = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        for thread in 1..7 {
            let (store, def, is_over) = (&store, &def, &is_over);
            scope.spawn(move || {
                let mut id = thread * 1_000_000;
                while !is_over.load(Ordering::Relaxed) {
                    // Whoever meets the change of a definition is refused, and goes on.
                    let inserted = insert(store, def, id, 10);
                    assert!(matches!(inserted, Ok(()) | Err(StoreError::Conflict(_))), "{inserted:?}");
                    id += 1;
                }
            });
        }
        let begun = Instant::now();
        let refused = loop {
            match index_beside(&store, &def, || ()) {
                Err(StoreError::Conflict(conflict)) => break Some(conflict),
                Err(error) => panic!("{error}"),
                Ok(()) => {
                    // Made between two commits of the others; it goes, for the next attempt.
                    let remove = || {
                        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
                        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
                        tx.commit()
                    };
                    while let Err(error) = remove() {
                        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
                    }
                }
            }
            if begun.elapsed() > PATIENCE {
                break None;
            }
        };
        is_over.store(true, Ordering::Relaxed);
        refused
    });
    let refused = refused.expect("whoever writes all the time is faster once");
    assert_eq!(refused.what, "concurrent change of many rows");
    assert!(refused.detail.contains("by_text"), "{}", refused.detail);
    index_beside(&store, &def, || ()).unwrap();
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
    let kinds = [Fault::Io, Fault::DiskFull].into_iter();
    for (fault, durability) in
        kinds.flat_map(|fault| [Durability::Fsync, Durability::None].map(|kind| (fault, kind)))
    {
        for call in 0.. {
            let files = SimulatedFiles::new(call);
            let options = StoreOptions { durability, ..StoreOptions::default() };
            let all: Arc<dyn FileSystem> = Arc::new(files.clone());
            let store =
                Store::open_tuned(all, Path::new("/db"), options, LogOptions::default(), Sizes::default())
                    .unwrap();
            let def = make_table(&store);
            files.fail_from(call, fault);
            let outcome = insert(&store, &def, 1, 2 << 20);
            let calls_failed = insert(&store, &def, 2, 10).is_err();
            files.heal();
            // Where nobody waits for a sync only the process may end.
            let files = if durability == Durability::Fsync { files.crash() } else { files.restart() };
            drop(store);
            let store = open_with(&files, Sizes::default());
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

/// For how long everybody else waits for one transaction with many keys, and for those that come behind it: the figures of
/// `bench/results/leader-stays.md`. Nothing is asserted of times.
#[test]
#[ignore = "a measurement, of half a minute: run it with --ignored --nocapture"]
fn longest_stays_beside_a_transaction_of_many_keys() {
    for durability in [Durability::Fsync, Durability::None] {
        for keys in [10_000, 100_000, 1_000_000] {
            let dir = tempfile::tempdir().unwrap();
            let options = StoreOptions { durability, ..StoreOptions::default() };
            let store = Store::open_with(Arc::new(DiskFiles), dir.path(), options).unwrap();
            let def = make_table(&store);
            let rows: Vec<Row> = (0..keys).map(|id| row(&def, id, 20)).collect();
            let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            rows.into_iter().for_each(|row| drop(tx.insert(def.id, row).unwrap()));
            let before = store.leader_stays().longest;
            let begun = Instant::now();
            tx.commit().unwrap();
            let (took, of_commit) = (begun.elapsed(), store.leader_stays().longest);
            // What it leaves behind is forgotten by who commits when nobody can conflict with it any more.
            for id in 0..100 {
                insert(&store, &def, keys + id, 20).unwrap();
            }
            let behind = store.leader_stays().longest;
            println!(
                "{durability:?}, {keys} keys: commit {took:.1?}, longest stay of it {of_commit:.1?} \
                 (before: {before:.1?}; with 100 commits behind it: {behind:.1?})"
            );
        }
    }
}
