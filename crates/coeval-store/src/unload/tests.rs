// SPDX-License-Identifier: Apache-2.0
//! What is let go of is read again, and checked again; what is kept is counted; a file that fails is an error, never worse.

use super::unload;
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{DiskFiles, Fault, FileSystem, SimulatedFiles};
use crate::key::Key;
use crate::log::LogOptions;
use crate::model_workload::{Outcome, Workload};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::segment::segment_path;
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{KeyWriter, ValueRef};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use coeval_txn::Isolation;
use rand::Rng;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DIR: &str = "/db";
const ROWS: i64 = 200;

fn open_with(files: Arc<dyn FileSystem>, dir: &Path, data_memory: u64) -> Store {
    let checkpoint = CheckpointPolicy::Manual;
    let options = StoreOptions { checkpoint, data_memory: Some(data_memory), ..StoreOptions::default() };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(files, dir, options, LogOptions::default(), sizes).unwrap()
}

fn open(files: &SimulatedFiles, data_memory: u64) -> Store {
    open_with(Arc::new(files.clone()), Path::new(DIR), data_memory)
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn key(id: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Int64(id));
    writer.finish()
}

/// A table `(id, name)` of 200 rows in chunks of 16.
fn named(store: &Store, name: &str) -> TableDef {
    named_by(store, name, |id| format!("the name of row {id}, too long for a view"))
}

/// The same with these names.
fn named_by(store: &Store, name: &str, name_of: impl Fn(i64) -> String) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("name", ColumnType::Text)];
    let name = QualifiedName::new("public", name);
    let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    for id in 0..ROWS {
        let mut row = RowWriter::new(def.layout());
        row.push(ValueRef::Int64(id)).unwrap();
        row.push(ValueRef::Text(&name_of(id))).unwrap();
        tx.insert(def.id, row.finish()).unwrap();
    }
    tx.commit().unwrap();
    def
}

/// A store with one such table in its base, nothing of which has been read.
fn checkpointed(files: &SimulatedFiles, data_memory: u64) -> (Store, TableDef) {
    let store = open(files, data_memory);
    let def = named(&store, "things");
    store.checkpoint().unwrap();
    (store, def)
}

fn kept(store: &Store) -> u64 {
    store.shared.disk.as_ref().unwrap().chunk_memory().bytes()
}

/// What the chunks of the newest world keep.
fn kept_by_newest(store: &Store) -> u64 {
    let world = store.world();
    let spaces = world.tables().flat_map(|table| table.spaces());
    spaces.flat_map(|(_, space)| space.base().iter()).map(|(_, chunk)| chunk.loaded_bytes()).sum()
}

/// Waits until every byte that is counted is one of the newest world: nobody else holds chunks, but the keeper while it looks.
fn settle(store: &Store) {
    let begun = Instant::now();
    while store.shared.sweep_graves() || kept(store) != kept_by_newest(store) {
        let (all, newest) = (kept(store), kept_by_newest(store));
        assert!(begun.elapsed() < Duration::from_secs(60), "{all} bytes are counted, {newest} are there");
        std::thread::yield_now();
    }
}

fn scan(tx: &Transaction, def: &TableDef) -> Result<usize, StoreError> {
    let view = tx.view(def.id)?;
    let parts = view.partition(1);
    let batches = parts.into_iter().flat_map(|part| view.scan(part, &[0, 1], |_| true));
    batches.map(|batch| batch.map(|batch| batch.num_rows())).sum()
}

fn walk(tx: &Transaction, def: &TableDef) -> Result<usize, StoreError> {
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward)?;
    rows.map(|row| row.map(|(_, row)| usize::from(row.get(1) != ValueRef::Null))).sum()
}

fn damage(files: &SimulatedFiles, store: &Store, def: &TableDef) -> PathBuf {
    let world = store.world();
    let chunk = world.table(def.id).unwrap().rows().base().iter().next().unwrap().1;
    let path = segment_path(Path::new(DIR), chunk.place().unwrap().segment);
    // Keys and columns come before what describes them.
    (0..files.len(&path).unwrap() / 2).for_each(|offset| files.damage(&path, offset, 0x10));
    path
}

/// To break it: count codes as the views that they are in the place of.
#[test]
fn codes_of_texts_are_counted_as_what_they_take() {
    let files = SimulatedFiles::new(1);
    let store = open(&files, 1 << 20);
    let def = named_by(&store, "things", |id| format!("one of few names, the one with {}", id % 3));
    store.checkpoint().unwrap();
    let tx = begin(&store);
    let view = tx.view(def.id).unwrap();
    let scan_names = || -> usize {
        let parts = view.partition(1).into_iter();
        let batches = parts.flat_map(|part| view.scan(part, &[1], |_| true).with_codes(&[0]));
        batches.map(|batch| batch.unwrap().num_rows()).sum()
    };
    let before = kept(&store);
    assert_eq!(scan_names(), ROWS as usize);
    settle(&store);
    let with_codes = kept(&store);
    assert!(with_codes > before, "codes are kept");
    assert_eq!(scan_names(), ROWS as usize);
    assert_eq!(kept(&store), with_codes, "what is there is not read again");
    scan(&tx, &def).unwrap();
    settle(&store);
    assert!(kept(&store) > with_codes, "views are kept beside them");
    drop(view);
    drop(tx);
    store.data_memory().unwrap().let_go();
    settle(&store);
}

/// To break it: keep views for who does not group by them.
#[test]
fn few_texts_are_kept_once_for_all_scans() {
    let files = Arc::new(SimulatedFiles::new(1));
    let checkpoint = CheckpointPolicy::Manual;
    let options = StoreOptions { checkpoint, data_memory: Some(1 << 20), ..StoreOptions::default() };
    let sizes = Sizes { chunk_rows: 1_024, direct_load_rows_min: 8, ..Sizes::default() };
    let store = Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), sizes).unwrap();
    let name_of = |id: i64| format!("one of few names, the one with {}", id % 3);
    let def = named_by(&store, "things", name_of);
    store.checkpoint().unwrap();
    let tx = begin(&store);
    let view = tx.view(def.id).unwrap();
    assert!(view.has_few_texts(1));
    let scan_names = |coded: &[usize]| -> Vec<String> {
        let parts = view.partition(1).into_iter();
        let batches = parts.flat_map(|part| view.scan(part, &[1], |_| true).with_codes(coded));
        let texts = batches.map(|batch| cast(batch.unwrap().column(0), &DataType::Utf8View).unwrap());
        let owned = |name: Option<&str>| name.unwrap().to_owned();
        texts.flat_map(|texts| texts.as_string_view().iter().map(owned).collect::<Vec<_>>()).collect()
    };
    let expected: Vec<String> = (0..ROWS).map(name_of).collect();
    let before = kept(&store);
    assert_eq!(scan_names(&[]), expected);
    settle(&store);
    let with_codes = kept(&store);
    assert!((before + 1..before + ROWS as u64 * 16).contains(&with_codes), "views take more");
    assert_eq!((scan_names(&[0]), scan_names(&[])), (expected.clone(), expected));
    assert_eq!(kept(&store), with_codes);
}

/// To break it: count integers of few bytes as the array that they are in the place of.
#[test]
fn integers_of_few_bytes_are_counted_as_what_they_take() {
    let files = SimulatedFiles::new(1);
    let store = open(&files, 1 << 20);
    let price = ColumnType::Numeric { precision: 12, scale: 2 };
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("price", price)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "prices"), columns, vec![0]);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    for id in 0..ROWS {
        let mut row = RowWriter::new(def.layout());
        row.push(ValueRef::Int64(id)).unwrap();
        row.push(ValueRef::Decimal(i128::from(id) * 125)).unwrap();
        tx.insert(def.id, row.finish()).unwrap();
    }
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    let tx = begin(&store);
    let view = tx.view(def.id).unwrap();
    assert!(view.has_narrow_decimals(1) && !view.has_narrow_decimals(0));
    let scan_prices = |narrow: &[usize]| -> usize {
        let parts = view.partition(1).into_iter();
        let batches = parts.flat_map(|part| view.scan(part, &[1], |_| true).with_narrow(narrow));
        batches.map(|batch| batch.unwrap().num_rows()).sum()
    };
    let before = kept(&store);
    assert_eq!(scan_prices(&[0]), ROWS as usize);
    settle(&store);
    let packed = kept(&store);
    assert_eq!(packed - before, ROWS as u64 * 2, "the prices of a chunk are close to each other");
    assert_eq!((scan_prices(&[]), scan_prices(&[0])), (ROWS as usize, ROWS as usize));
    assert_eq!(kept(&store), packed, "decimals of both kinds are made of the same");
    assert_eq!(walk(&tx, &def).unwrap(), ROWS as usize);
    settle(&store);
    let with_arrays = kept(&store);
    assert!(with_arrays >= packed + ROWS as u64 * 16, "who reads rows has arrays beside them");
    assert_eq!((scan_prices(&[]), scan_prices(&[0])), (ROWS as usize, ROWS as usize));
    assert_eq!(kept(&store), with_arrays);
    drop(view);
    drop(tx);
    store.data_memory().unwrap().let_go();
    settle(&store);
}

/// To break it: make integers of few bytes for every scan, whatever is in memory.
#[test]
fn a_column_whose_rows_have_been_read_is_scanned_as_it_is() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1 << 20);
    assert_eq!(walk(&begin(&store), &def).unwrap(), ROWS as usize);
    settle(&store);
    let walked = kept(&store);
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize);
    assert_eq!(kept(&store), walked);
}

#[test]
fn who_needs_the_memory_has_half_of_it_let_go_of_once() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1 << 20);
    scan(&begin(&store), &def).unwrap();
    settle(&store);
    let all = kept(&store);
    let data = store.data_memory().unwrap();
    data.let_go();
    let begun = Instant::now();
    while kept(&store) > all / 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {all} bytes are left", kept(&store));
        store.shared.sweep_graves();
        std::thread::yield_now();
    }
    assert!(kept(&store) > 0, "half of it stays");
    // The limit is what it was.
    scan(&begin(&store), &def).unwrap();
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize);
    settle(&store);
    assert_eq!(kept(&store), all);
}

#[test]
fn scans_without_room_keep_nothing_and_those_with_room_keep_what_they_read() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 0);
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize);
    settle(&store);
    assert_eq!(kept(&store), 0);
    drop(store);
    let store = open(&files.restart(), 1 << 20);
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize);
    let after_one = kept(&store);
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize);
    assert!(after_one > 0 && kept(&store) == after_one, "{after_one} bytes, then {}", kept(&store));
}

#[test]
fn rows_stay_where_they_are_for_as_long_as_their_world_and_go_then() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1_000);
    let reader = begin(&store);
    let first = reader.get(def.id, &key(3)).unwrap().unwrap();
    assert_eq!(walk(&reader, &def).unwrap(), ROWS as usize);
    unload(&store.shared);
    assert!(kept_by_newest(&store) <= 1_000, "{} bytes", kept_by_newest(&store));
    assert_eq!(first.get(1), ValueRef::Text("the name of row 3, too long for a view"));
    assert_eq!(walk(&reader, &def).unwrap(), ROWS as usize);
    assert!(kept(&store) > 1_000, "the reader still holds them");
    drop(reader);
    settle(&store);
    // What was on its way into memory beside the first round goes with the next one.
    unload(&store.shared);
    settle(&store);
    assert!(kept(&store) <= 1_000, "{} bytes", kept(&store));
}

#[test]
fn the_keeper_lets_go_by_itself_of_what_is_too_much() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1_000);
    assert_eq!(walk(&begin(&store), &def).unwrap(), ROWS as usize);
    let begun = Instant::now();
    while kept(&store) > 1_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes are kept for ever", kept(&store));
        std::thread::yield_now();
    }
}

#[test]
fn what_was_let_go_of_is_checked_when_it_is_read_again() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1_000);
    assert_eq!(walk(&begin(&store), &def).unwrap(), ROWS as usize);
    damage(&files, &store, &def);
    unload(&store.shared);
    let error = walk(&begin(&store), &def).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let error = scan(&begin(&store), &def).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn a_disk_that_does_not_give_a_page_is_an_error_for_who_wants_it_and_only_then() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1 << 20);
    files.fail_from(0, Fault::Io);
    for error in [scan(&begin(&store), &def).unwrap_err(), walk(&begin(&store), &def).unwrap_err()] {
        assert!(matches!(error, StoreError::File(_)), "{error}");
    }
    files.heal();
    assert_eq!(walk(&begin(&store), &def).unwrap(), ROWS as usize);
    files.fail_from(0, Fault::Io);
    assert_eq!(scan(&begin(&store), &def).unwrap(), ROWS as usize, "it is in memory");
}

#[test]
fn a_file_that_was_cut_off_under_an_open_database_is_damage_of_its_table_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open_with(Arc::new(DiskFiles), directory.path(), 0);
    let cut = named(&store, "cut");
    let whole = named(&store, "whole");
    store.checkpoint().unwrap();
    assert_eq!(scan(&begin(&store), &cut).unwrap(), ROWS as usize);
    let world = store.world();
    let chunk = world.table(cut.id).unwrap().rows().base().iter().next().unwrap().1;
    let path = segment_path(directory.path(), chunk.place().unwrap().segment);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    for error in [scan(&begin(&store), &cut).unwrap_err(), walk(&begin(&store), &cut).unwrap_err()] {
        assert!(matches!(&error, StoreError::Corrupt { file, .. } if Path::new(file) == path), "{error}");
    }
    assert_eq!(scan(&begin(&store), &whole).unwrap(), ROWS as usize);
    let mut tx = begin(&store);
    assert!(tx.delete(whole.id, &key(1)).unwrap());
    tx.commit().unwrap();
}

#[test]
fn an_older_world_reads_files_whose_names_checkpoints_have_removed() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 0);
    let reader = begin(&store);
    let segments = || files.list(&Path::new(DIR).join("segments")).unwrap();
    let before = segments();
    // Which reads nothing of the table.
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::Truncate(def.id)).unwrap();
    tx.commit().unwrap();
    store.checkpoint().unwrap();
    assert!(segments().iter().all(|name| !before.contains(name)), "the old files are gone by name");
    assert_eq!(scan(&reader, &def).unwrap(), ROWS as usize);
    assert_eq!(walk(&reader, &def).unwrap(), ROWS as usize);
}

#[test]
fn a_checkpoint_keeps_nothing_of_the_chunks_that_it_merges() {
    let files = SimulatedFiles::new(1);
    let (store, def) = checkpointed(&files, 1 << 20);
    for id in (0..ROWS).step_by(20) {
        let mut tx = begin(&store);
        assert!(tx.delete(def.id, &key(id)).unwrap());
        tx.commit().unwrap();
    }
    drop(store);
    let store = open(&files.restart(), 1 << 20);
    let held = store.world();
    store.checkpoint().unwrap();
    assert_eq!(kept(&store), 0);
    drop(held);
}

#[test]
fn whatever_is_let_go_of_between_random_steps_contents_are_the_same() {
    let mut let_go = 0;
    for seed in 0..200 {
        let files = SimulatedFiles::new(seed);
        let mut workload = Workload::new(seed);
        let data_memory = [0, 500, 5_000][workload.dice.random_range(0..3)];
        let store = open(&files, data_memory);
        let mut readers = Vec::new();
        for step in 0..40 {
            let outcome = workload.step(&store);
            assert!(!matches!(outcome, Outcome::Unknown(_)), "the log has stopped: {outcome:?}");
            match workload.dice.random_range(0..6) {
                0 => drop(store.checkpoint().unwrap()),
                1 | 2 => {
                    let before = kept_by_newest(&store);
                    unload(&store.shared);
                    let_go += u64::from(kept_by_newest(&store) < before);
                }
                3 => readers
                    .push((store.begin(Isolation::Snapshot, AccessMode::ReadOnly), workload.model.clone())),
                _ => {}
            }
            let check = workload.model.check(&store.world());
            check.unwrap_or_else(|what| panic!("seed {seed}, step {step}: {what}"));
        }
        for (reader, seen) in readers {
            seen.check(reader.world()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        }
        settle(&store);
    }
    assert!(let_go > 500, "chunks were let go of too seldom: {let_go} times");
}
