// SPDX-License-Identifier: Apache-2.0
//! The entries of a new index of many rows lie in a file that its record names, with all that others commit meanwhile; whatever
//! happens, there is the whole index or none, and no file that nobody names.

use crate::build_index::build_index;
use crate::catalog::{CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, Uniqueness};
use crate::cursor::SpaceCursor;
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::id_value::{key, row, table};
use crate::key::Key;
use crate::log::{LogError, LogOptions, Lsn, read};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::record::{IndexPlace, MalformedRecord, Record, decode};
use crate::row::RowWriter;
use crate::segment::{SEGMENT_DIR, parse_segment_name};
use crate::space::Space;
use crate::store::Store;
use crate::submission::LoadedEntries;
use crate::transaction::{AccessMode, Transaction};
use crate::trap::Step;
use crate::types::ColumnType;
use crate::value::Value;
use crate::verify::verify;
use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use coeval_txn::Isolation;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Where eight rows are many.
const SIZES: fn() -> Sizes =
    || Sizes { chunk_rows: 16, direct_load_rows_min: 8, leader_rows_max: 8, ..Sizes::default() };

fn open_with(files: &SimulatedFiles, sizes: Sizes) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), sizes).unwrap()
}

fn open(files: &SimulatedFiles) -> Store {
    open_with(files, SIZES())
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn put_table(store: &Store, def: &TableDef) -> Result<(), StoreError> {
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))?;
    tx.commit().map(drop)
}

fn insert(store: &Store, def: &TableDef, ids: Range<i32>) {
    let mut tx = begin(store);
    ids.for_each(|id| drop(tx.insert(def.id, row(def, id, id * 7 % 1_000)).unwrap()));
    tx.commit().unwrap();
}

/// A table with so many rows.
fn filled(store: &Store, rows: i32) -> TableDef {
    let def = table(store, "items");
    put_table(store, &def).unwrap();
    insert(store, &def, 0..rows);
    def
}

fn with_index(store: &Store, def: &TableDef, uniqueness: Uniqueness) -> TableDef {
    let mut changed = def.clone();
    changed.indexes.push(IndexDef {
        id: store.new_space_id(),
        name: format!("by_value_{}", def.indexes.len()),
        columns: vec![1],
        uniqueness,
        declared_order: Vec::new(),
    });
    changed
}

/// The table with the new index, which is committed.
fn make_index(store: &Store, def: &TableDef) -> Result<TableDef, StoreError> {
    let changed = with_index(store, def, Uniqueness::Any);
    put_table(store, &changed).map(|()| changed)
}

fn entries(space: &Space) -> Vec<Key> {
    let all = SpaceCursor::new(space, None, &KeyRange::all(), Direction::Forward);
    all.map(|entry| entry.unwrap().0).collect()
}

/// Each index of the table has an entry of each row, and no other.
#[track_caller]
fn assert_whole(store: &Store, def: &TableDef) {
    let world = store.world();
    let table = world.table(def.id).unwrap();
    assert_eq!(table.def().indexes.len(), def.indexes.len());
    for (position, index) in table.indexes().iter().enumerate() {
        let built = build_index(table, table.def(), position).unwrap();
        assert_eq!(entries(index), entries(&built));
        assert_eq!(index.len(), table.row_count());
    }
}

/// The new indexes in files that the records of a log name which has lost nothing yet.
fn places(files: &SimulatedFiles) -> Vec<IndexPlace> {
    let mut found = Vec::new();
    let mut note = |_: Lsn, payload: &[u8]| {
        if let Record::Batch { transactions, .. } = decode(payload)? {
            found.extend(transactions.into_iter().flat_map(|transaction| transaction.indexes));
        }
        Ok::<(), MalformedRecord>(())
    };
    read(&files.copy(), &Path::new(DIR).join("log"), Lsn::START, &mut note).unwrap();
    found
}

/// The numbers of the segment files.
fn segments(files: &SimulatedFiles) -> Vec<u64> {
    let dir = Path::new(DIR).join(SEGMENT_DIR);
    let names = if files.exists(&dir).unwrap() { files.list(&dir).unwrap() } else { Vec::new() };
    let mut numbers: Vec<u64> = names.iter().map(|name| parse_segment_name(name).unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// In which files the first index of a table lies, its changes aside; none for a chunk that is in no file.
fn files_of_index(store: &Store, def: &TableDef) -> Vec<Option<u64>> {
    let world = store.world();
    let space = &world.table(def.id).unwrap().indexes()[0];
    space.base().iter().map(|(_, chunk)| chunk.place().map(|place| place.segment)).collect()
}

/// The contents are whole after the process and the machine have ended, with nothing that a check complains about. Returns the
/// store of behind that.
fn reopened(store: Store, files: &SimulatedFiles, def: &TableDef) -> (Store, SimulatedFiles) {
    assert_whole(&store, def);
    let files = files.crash();
    drop(store);
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let store = open(&files);
    assert_whole(&store, def);
    (store, files)
}

/// What others do, each time that the thread of a test lets others run.
type Others = Box<dyn FnMut()>;

/// One of these things, in a table as they know it.
type Part = fn(&Store, &TableDef);

thread_local! {
    static OTHERS: RefCell<Option<Others>> = const { RefCell::new(None) };
}

fn with_others(wait: &mut dyn FnMut()) {
    wait();
    // They do not wait for themselves.
    if let Some(mut others) = OTHERS.take() {
        others();
        OTHERS.set(Some(others));
    }
}

/// Commits the definition, whose new index is built. While its file is written others do the first of these things, when that is
/// synced the second one, and so on.
fn commit_beside(store: &Store, def: &TableDef, parts: Vec<Part>) -> Result<(), StoreError> {
    commit_beside_with(store, def, parts, |_| ())
}

/// The same, of a transaction that does something before.
fn commit_beside_with(
    store: &Store,
    def: &TableDef,
    parts: Vec<Part>,
    before: impl FnOnce(&mut Transaction),
) -> Result<(), StoreError> {
    let old = Arc::clone(store.world().table(def.id).unwrap().def());
    let mut tx = begin(store);
    before(&mut tx);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))?;
    store.set_run_aside(with_others);
    let (beside, mut parts) = (store.clone(), parts.into_iter());
    OTHERS.set(Some(Box::new(move || {
        if let Some(part) = parts.next() {
            part(&beside, &old);
        }
    })));
    let outcome = tx.commit().map(drop);
    OTHERS.set(None);
    outcome
}

/// Fails if an open builds the index: its chunks are in no file then.
#[test]
fn an_index_of_many_rows_is_opened_from_the_file_that_its_record_names() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = filled(&store, 100);
    let def = make_index(&store, &def).unwrap();
    let named = places(&files);
    assert_eq!((named.len(), named[0].index), (1, def.indexes[0].id));
    assert!(named[0].changes.as_ref().unwrap().iter().all(|list| list.is_empty()), "nobody wrote beside it");
    assert_eq!(segments(&files), [named[0].segment.number]);
    assert_eq!(files_of_index(&store, &def), [Some(named[0].segment.number)]);
    let (store, files) = reopened(store, &files, &def);
    assert_eq!(files_of_index(&store, &def), [Some(named[0].segment.number)]);
    // And so behind a checkpoint, for which the log is not read.
    insert(&store, &def, 100..130);
    store.checkpoint().unwrap();
    drop(reopened(store, &files, &def));
}

#[test]
fn an_index_of_few_rows_is_in_no_file() {
    let files = SimulatedFiles::new(2);
    let store = open(&files);
    let def = filled(&store, 7);
    let def = make_index(&store, &def).unwrap();
    assert!(places(&files).is_empty() && segments(&files).is_empty());
    drop(reopened(store, &files, &def));
}

#[test]
fn an_index_of_a_table_that_the_transaction_writes_and_one_of_two_that_goes_again_are_whole() {
    let files = SimulatedFiles::new(3);
    let store = open(&files);
    let def = filled(&store, 50);
    let mut tx = begin(&store);
    (100..120).for_each(|id| drop(tx.insert(def.id, row(&def, id, -id)).unwrap()));
    assert!(tx.delete(def.id, &key(3)).unwrap());
    let one = with_index(&store, &def, Uniqueness::Any);
    let mut two = with_index(&store, &one, Uniqueness::Any);
    for def in [&one, &two] {
        tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    }
    two.indexes.remove(0);
    tx.change_catalog(CatalogChange::PutTable(Box::new(two.clone()))).unwrap();
    (200..220).for_each(|id| drop(tx.insert(def.id, row(&def, id, -id)).unwrap()));
    tx.commit().unwrap();
    let named = places(&files);
    assert_eq!(named.iter().map(|place| place.index).collect::<Vec<_>>(), [two.indexes[0].id]);
    drop(reopened(store, &files, &two));
}

/// Fails without the changes beside the file, and without those of the leader: then an open finds an index of other rows.
#[test]
fn what_others_commit_while_the_file_is_written_and_before_the_leader_takes_it_is_in_the_record() {
    let files = SimulatedFiles::new(4);
    let store = open(&files);
    let def = with_index(&store, &filled(&store, 100), Uniqueness::Any);
    let beside_the_file: Part = |store, old| {
        insert(store, old, 1_000..1_020);
        let mut tx = begin(store);
        (0..5).for_each(|id| assert!(tx.delete(old.id, &key(id)).unwrap()));
        tx.commit().unwrap();
    };
    let nothing: Part = |_, _| ();
    let beside_the_first_round: Part = |store, old| insert(store, old, 2_000..2_020);
    let beside_the_second_round: Part = |store, old| insert(store, old, 3_000..3_003);
    let parts = vec![beside_the_file, nothing, beside_the_first_round, beside_the_second_round];
    commit_beside(&store, &def, parts).unwrap();
    let named = places(&files);
    let changes = named[0].changes.as_ref().unwrap();
    // The last ones are the leader's.
    assert_eq!(changes.iter().map(|list| list.len()).collect::<Vec<_>>(), [25, 20, 3]);
    assert_eq!(segments(&files), [named[0].segment.number]);
    let (store, _) = reopened(store, &files, &def);
    assert_eq!(store.world().table(def.id).unwrap().row_count(), 138);
    assert_eq!(files_of_index(&store, &def), [Some(named[0].segment.number)]);
}

fn load(tx: &mut Transaction, def: &TableDef, ids: Range<i32>) {
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(ids));
    let columns = [("id", Arc::clone(&column)), ("value", column)];
    tx.bulk_insert(def.id, &[RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
}

/// Fails if whoever reads the log puts the entries of the load into an index that has them.
#[test]
fn an_index_of_a_table_with_rows_into_which_the_transaction_loads_many_is_in_a_file_with_their_entries() {
    // Nobody writes beside it; somebody does while it is built, and while its file is written.
    let write: Part = |store, old| insert(store, old, 1_000..1_020);
    let nothing: Part = |_, _| ();
    for (seed, parts) in (10..).zip([vec![], vec![write], vec![nothing, write]]) {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let plain = filled(&store, 100);
        let rows = if parts.is_empty() { 350 } else { 370 };
        let def = with_index(&store, &plain, Uniqueness::Any);
        commit_beside_with(&store, &def, parts, |tx| {
            load(tx, &plain, 5_000..5_200);
            load(tx, &plain, 4_000..4_050);
        })
        .unwrap();
        let named = places(&files);
        assert_eq!((named.len(), named[0].loaded), (1, LoadedEntries::Merged));
        // Those of the loads, of rows alone or with entries, and that.
        assert!(segments(&files).contains(&named[0].segment.number));
        let (store, files) = reopened(store, &files, &def);
        assert_eq!(files_of_index(&store, &def), [Some(named[0].segment.number)]);
        assert_eq!(store.world().table(def.id).unwrap().row_count(), rows);
        store.checkpoint().unwrap();
        drop(reopened(store, &files, &def));
    }
}

/// The entries of few rows are put into the index by the leader, and by whoever reads the log.
#[test]
fn an_index_of_a_table_with_rows_into_which_the_transaction_loads_few_is_in_a_file_without_their_entries() {
    let write: Part = |store, old| insert(store, old, 1_000..1_020);
    let nothing: Part = |_, _| ();
    for (seed, parts) in (20..).zip([vec![], vec![nothing, write]]) {
        let files = SimulatedFiles::new(seed);
        let store = open_with(&files, Sizes { leader_rows_max: 60, ..SIZES() });
        let plain = filled(&store, 100);
        let rows = if parts.is_empty() { 150 } else { 170 };
        let def = with_index(&store, &plain, Uniqueness::Any);
        commit_beside_with(&store, &def, parts, |tx| load(tx, &plain, 5_000..5_050)).unwrap();
        let named = places(&files);
        assert_eq!((named.len(), named[0].loaded), (1, LoadedEntries::Apart));
        let (store, files) = reopened(store, &files, &def);
        assert_eq!(files_of_index(&store, &def), [Some(named[0].segment.number)]);
        assert_eq!(store.world().table(def.id).unwrap().row_count(), rows);
        store.checkpoint().unwrap();
        drop(reopened(store, &files, &def));
    }
}

/// Nobody knows which entries those are, so the index is built anew; the file without them goes at once.
#[test]
fn a_file_beside_which_others_load_many_rows_goes_and_another_one_is_written() {
    let files = SimulatedFiles::new(5);
    let store = open(&files);
    let def = with_index(&store, &filled(&store, 100), Uniqueness::Any);
    let part: Part = |store, old| {
        let mut tx = begin(store);
        load(&mut tx, old, 5_000..5_050);
        tx.commit().unwrap();
    };
    commit_beside(&store, &def, vec![part]).unwrap();
    let named = places(&files);
    assert_eq!(named.len(), 1);
    // The load's, of its rows, and the second one of the index.
    let there = segments(&files);
    assert!(there.len() == 2 && there.contains(&named[0].segment.number), "{there:?}");
    let (store, _) = reopened(store, &files, &def);
    assert_eq!(store.world().table(def.id).unwrap().row_count(), 150);
}

/// Rows of `(id int, value text)` with texts of three thousand letters.
fn insert_texts(store: &Store, def: &TableDef, ids: Range<i32>) {
    let mut tx = begin(store);
    for id in ids {
        let mut writer = RowWriter::new(def.layout());
        writer.push(Value::Int32(id).borrow()).unwrap();
        writer.push(Value::from(format!("{id}{}", "x".repeat(3_000))).borrow()).unwrap();
        tx.insert(def.id, writer.finish()).unwrap();
    }
    tx.commit().unwrap();
}

/// Changes that would hold everybody up under the leader's lock are not written; whoever reads the log builds the index.
#[test]
fn what_is_too_much_for_the_head_of_a_record_is_built_of_the_rows() {
    let files = SimulatedFiles::new(6);
    let sizes = Sizes { leader_rows_max: 1_000, ..SIZES() };
    let store = open_with(&files, sizes);
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("value", ColumnType::Text)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "items"), columns, vec![0]);
    put_table(&store, &def).unwrap();
    insert_texts(&store, &def, 0..20);
    let def = with_index(&store, &def, Uniqueness::Any);
    let part: Part = |store, old| insert_texts(store, old, 100..400);
    commit_beside(&store, &def, vec![part]).unwrap();
    let named = places(&files);
    assert!(named.len() == 1 && named[0].changes.is_none());
    let (store, _) = reopened(store, &files, &def);
    assert_eq!(files_of_index(&store, &def), [None], "built in memory");
    store.checkpoint().unwrap();
    assert_whole(&store, &def);
}

#[test]
fn a_second_owner_of_a_key_that_comes_while_the_file_is_written_is_found_and_no_file_is_left() {
    // For the rounds, and for the leader.
    let few: Part = |store, old| insert(store, old, 1_000..1_003);
    let many: Part = |store, old| insert(store, old, 1_000..1_030);
    for part in [few, many] {
        let files = SimulatedFiles::new(7);
        let store = open(&files);
        // A thousand rows further there is the same value.
        let plain = filled(&store, 100);
        let def = with_index(&store, &plain, Uniqueness::Unique);
        let refused = commit_beside(&store, &def, vec![part]);
        assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
        assert!(places(&files).is_empty() && segments(&files).is_empty());
        insert(&store, &plain, 200..210);
        drop(reopened(store, &files, &plain));
    }
}

/// Fails if files that are not in the log are left, or those of an index of which the log knows are not there.
#[test]
fn whichever_call_of_the_disk_fails_there_is_the_whole_index_or_none_and_no_file_too_many() {
    let (mut unknown, mut refused) = (0, 0);
    for fault in [Fault::Io, Fault::Writing, Fault::DiskFull] {
        for call in 0.. {
            let files = SimulatedFiles::new(call);
            let store = open(&files);
            let def = filled(&store, 40);
            files.fail_from(call, fault);
            let outcome = make_index(&store, &def);
            let goes_on = catch_unwind(AssertUnwindSafe(|| insert(&store, &def, 100..101))).is_ok();
            files.heal();
            let files = files.crash();
            drop(store);
            let store = open(&files);
            let world = store.world();
            let found = Arc::clone(world.table(def.id).unwrap().def());
            match &outcome {
                Ok(made) => assert_eq!(found.indexes.len(), made.indexes.len(), "call {call}"),
                Err(StoreError::OutcomeUnknown(_) | StoreError::Stopped(_)) => unknown += 1,
                Err(StoreError::File(_) | StoreError::Log(LogError::NoRoom(_))) => {
                    refused += 1;
                    assert!(found.indexes.is_empty(), "call {call}");
                }
                Err(error) => panic!("call {call}: {error}"),
            }
            assert_whole(&store, &found);
            let named: Vec<u64> = places(&files).iter().map(|place| place.segment.number).collect();
            assert_eq!(segments(&files), named, "{fault:?}, call {call}: {outcome:?}");
            assert_eq!(named.len(), found.indexes.len(), "{fault:?}, call {call}");
            if outcome.is_ok() && goes_on {
                break;
            }
        }
    }
    assert!(unknown > 2 && refused > 4, "{unknown} {refused}");
}

#[test]
fn a_panic_of_who_has_written_the_file_is_that_sessions_alone_and_the_next_open_removes_the_file() {
    let files = SimulatedFiles::new(8);
    let store = open(&files);
    let def = filled(&store, 40);
    store.shared.trap.arm(Step::Load);
    assert!(catch_unwind(AssertUnwindSafe(|| make_index(&store, &def))).is_err());
    store.check_running().unwrap();
    insert(&store, &def, 100..110);
    // It counts as on its way into the log as long as the process runs.
    store.checkpoint().unwrap();
    assert!(store.world().table(def.id).unwrap().indexes().is_empty());
    drop(store);
    let files = files.restart();
    let left = segments(&files).len();
    let store = open(&files);
    assert_eq!(segments(&files).len(), left - 1);
    let def = make_index(&store, &def).unwrap();
    assert_whole(&store, &def);
}

#[test]
fn the_file_of_an_index_that_is_dropped_goes_with_the_next_checkpoint() {
    for checkpoints_before in [false, true] {
        let files = SimulatedFiles::new(9);
        let store = open(&files);
        let plain = filled(&store, 100);
        let def = make_index(&store, &plain).unwrap();
        let file = places(&files)[0].segment.number;
        if checkpoints_before {
            store.checkpoint().unwrap();
            assert_whole(&store, &def);
        }
        let (store, files) = reopened(store, &files, &def);
        assert!(checkpoints_before || segments(&files).contains(&file));
        put_table(&store, &plain).unwrap();
        store.checkpoint().unwrap();
        assert!(!segments(&files).contains(&file));
        drop(reopened(store, &files, &plain));
    }
}
