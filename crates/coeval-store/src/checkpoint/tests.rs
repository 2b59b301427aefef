// SPDX-License-Identifier: Apache-2.0
//! Checkpoints with everything that can commit between their steps: contents never change, nothing is seen
//! twice or not at all, in memory and after the directory is opened again.

mod damage;
mod dropped_columns;

use super::{Checkpoint, run};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::crash_tests::seeds_or;
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::log::LogOptions;
use crate::model_workload::{Outcome, Workload};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions, Trials};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use crate::verify::verify;
use coeval_txn::Isolation;
use rand::Rng;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// So many seeds take a core some forty seconds; `tests/crash/long` runs more.
const SEEDS: u64 = 60;

const SMALL: Sizes = Sizes {
    chunk_rows: 16,
    direct_load_rows_min: 8,
    batch_bytes_max: 1 << 20,
    certified_keys_max: 1 << 22,
    large_footprint_min: 4,
    leader_rows_max: 8,
    heartbeat: None,
    brick_rounds_max: 3,
    begins_terms: true,
    trials: Trials::NONE,
    expiry: Duration::from_secs(60),
};
const DIR: &str = "/db";

fn manual() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn open(files: &SimulatedFiles) -> Store {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), manual(), LogOptions::default(), SMALL).unwrap()
}

fn in_memory() -> Store {
    Store::in_memory_tuned(manual(), SMALL)
}

fn steps(workload: &mut Workload, store: &Store, most: usize) {
    for _ in 0..workload.dice.random_range(0..=most) {
        let outcome = workload.step(store);
        assert!(!matches!(outcome, Outcome::Unknown(_)), "the log has stopped: {outcome:?}");
        workload.model.check(&store.world()).unwrap();
    }
}

/// Runs random steps before, between and after the steps of checkpoints.
fn run_with_steps_between(workload: &mut Workload, store: &Store) {
    for _ in 0..4 {
        steps(workload, store, 10);
        let mut checkpoint = Checkpoint::freeze(&store.shared);
        steps(workload, store, 5);
        let reader = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        let seen = workload.model.clone();
        checkpoint.write().unwrap();
        steps(workload, store, 5);
        if workload.dice.random_ratio(1, 5) {
            drop(checkpoint);
        } else {
            checkpoint.install().unwrap();
        }
        workload.model.check(&store.world()).unwrap();
        seen.check(reader.world()).unwrap();
    }
    steps(workload, store, 3);
}

#[test]
fn whatever_commits_between_the_steps_of_a_checkpoint_is_seen_once_in_memory() {
    for seed in seeds_or(SEEDS) {
        let store = in_memory();
        let mut workload = Workload::new(seed);
        run_with_steps_between(&mut workload, &store);
        run(&store.shared).unwrap();
        workload.model.check(&store.world()).unwrap();
        for (_, space) in store.world().tables().flat_map(|table| table.spaces()) {
            assert!(space.delta().is_empty(), "seed {seed}: a checkpoint leaves nothing in the delta");
        }
    }
}

#[test]
fn whatever_commits_between_the_steps_of_a_checkpoint_is_found_again_on_disk() {
    let mut met = std::collections::BTreeMap::<&str, u64>::new();
    let seeds = seeds_or(SEEDS);
    for seed in seeds.clone() {
        let mut files = SimulatedFiles::new(seed);
        let mut workload = Workload::new(seed);
        for _ in 0..3 {
            let store = open(&files);
            workload.take_recovered(&store.world()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            run_with_steps_between(&mut workload, &store);
            drop(store);
            files = files.restart();
            let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
            assert_eq!(report.problems, [], "seed {seed}");
        }
        workload.met.into_iter().for_each(|(kind, count)| *met.entry(kind).or_default() += count);
    }
    if seeds.end - seeds.start < SEEDS {
        return;
    }
    for kind in ["rows", "bulk load", "create index", "drop index", "add column", "truncate", "drop table"] {
        assert!(met[kind] > 20, "{kind} was met too seldom: {met:?}");
    }
}

#[test]
fn a_checkpoint_that_fails_at_any_call_leaves_everything_as_it_was() {
    for seed in 0..40 {
        let mut failures = 0;
        for calls in 0.. {
            let files = SimulatedFiles::new(seed);
            let store = open(&files);
            let mut workload = Workload::new(seed);
            steps(&mut workload, &store, 12);
            let mut checkpoint = Checkpoint::freeze(&store.shared);
            steps(&mut workload, &store, 3);
            files.fail_after(calls, if seed % 2 == 0 { Fault::DiskFull } else { Fault::Reading });
            let outcome = checkpoint.write().and_then(|()| checkpoint.install().map(drop));
            drop(checkpoint);
            files.heal();
            workload.model.check(&store.world()).unwrap();
            steps(&mut workload, &store, 3);
            run(&store.shared).unwrap();
            steps(&mut workload, &store, 3);
            drop(store);
            let store = open(&files.restart());
            workload.take_recovered(&store.world()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            if outcome.is_ok() {
                break;
            }
            failures += 1;
        }
        assert!(failures > 0 || seed > 0, "no call failed");
    }
}

/// `things (id bigint primary key)` with these ids in the delta.
fn things(store: &Store, ids: &[i64]) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let name = QualifiedName::new("public", "things");
    let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    for &id in ids {
        insert(&mut tx, &def, id);
    }
    tx.commit().unwrap();
    def
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn insert(tx: &mut Transaction, def: &TableDef, id: i64) {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    tx.insert(def.id, writer.finish()).unwrap();
}

fn load(store: &Store, def: &TableDef, ids: std::ops::Range<i64>) {
    let mut builder = crate::column::ColumnBuilder::new(ColumnType::BigInt, 0);
    ids.for_each(|id| builder.push(Value::Int64(id).borrow()));
    let mut tx = begin(store);
    let schema = tx.view(def.id).unwrap().schema();
    let batch = arrow::array::RecordBatch::try_new(schema, vec![builder.finish()]).unwrap();
    tx.bulk_insert(def.id, &[batch]).unwrap();
    tx.commit().unwrap();
}

fn ids(store: &Store, def: &TableDef) -> Vec<i64> {
    let tx = begin(store);
    let rows = tx.scan(def.id, &crate::range::KeyRange::all(), crate::range::Direction::Forward).unwrap();
    rows.map(|row| row.unwrap().1.get(0).as_i64().unwrap()).collect()
}

fn key(id: i64) -> crate::key::Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int64(id).borrow());
    writer.finish()
}

#[test]
fn a_load_between_two_keys_of_a_chunk_that_is_just_being_merged_splits_it() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = things(&store, &[1, 2, 1_000, 1_001]);
    let mut checkpoint = Checkpoint::freeze(&store.shared);
    load(&store, &def, 10..40);
    assert_eq!(store.world().table(def.id).unwrap().base_chunks(), 1, "the load became a chunk");
    checkpoint.write().unwrap();
    checkpoint.install().unwrap();
    let expected: Vec<i64> = [1, 2].into_iter().chain(10..40).chain([1_000, 1_001]).collect();
    assert_eq!(ids(&store, &def), expected);
    assert_eq!(store.world().table(def.id).unwrap().base_chunks(), 3);
    assert!(begin(&store).get(def.id, &key(1_000)).unwrap().is_some());
    drop(checkpoint);
    drop(store);
    let files = files.restart();
    let store = open(&files);
    assert_eq!(ids(&store, &def), expected);
    assert!(begin(&store).get(def.id, &key(1_000)).unwrap().is_some());
    run(&store.shared).unwrap();
    drop(store);
    assert_eq!(ids(&open(&files.restart()), &def), expected);
}

#[test]
fn a_damaged_chunk_that_a_load_would_split_is_an_error() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = things(&store, &[1, 2, 1_000, 1_001]);
    run(&store.shared).unwrap();
    let chunk = Arc::clone(store.world().table(def.id).unwrap().rows().base().iter().next().unwrap().1);
    drop(store);
    let files = files.restart();
    let (segment, place) = (chunk.segment().unwrap(), chunk.place().unwrap());
    files.damage(segment.path(), segment.chunk(place.batch).part_offset(0), 0x10);
    let store = open(&files);
    let other = in_memory();
    let loaded = things(&other, &[]);
    load(&other, &loaded, 10..40);
    let world = other.world();
    let chunk = world.table(loaded.id).unwrap().rows().base().iter().next().unwrap().1;
    let mut space = store.world().table(def.id).unwrap().rows().clone();
    let error = space.add_chunks(&[Arc::clone(chunk)]).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn keys_that_were_deleted_since_the_freeze_are_loaded_row_by_row() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = things(&store, &[1, 2, 3]);
    let mut checkpoint = Checkpoint::freeze(&store.shared);
    let mut tx = begin(&store);
    for id in [1, 2, 3] {
        assert!(tx.delete(def.id, &key(id)).unwrap());
    }
    tx.commit().unwrap();
    load(&store, &def, 0..20);
    assert_eq!(store.world().table(def.id).unwrap().base_chunks(), 0, "the load did not become a chunk");
    checkpoint.write().unwrap();
    checkpoint.install().unwrap();
    assert_eq!(ids(&store, &def), (0..20).collect::<Vec<_>>());
    drop(checkpoint);
    drop(store);
    assert_eq!(ids(&open(&files.restart()), &def), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_manifest_that_came_to_be_though_its_checkpoint_failed_does_no_harm() {
    // The rename of the manifest is durable, the sync of the directory fails: the checkpoint is abandoned, and
    // what commits then was made on the old base.
    let mut came_to_be = 0;
    for seed in 0..60 {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let def = things(&store, &[1, 2, 3]);
        let mut checkpoint = Checkpoint::freeze(&store.shared);
        let mut tx = begin(&store);
        for id in [1, 2, 3] {
            assert!(tx.delete(def.id, &key(id)).unwrap());
        }
        tx.commit().unwrap();
        let before = files.call_count();
        let calls = {
            let files = SimulatedFiles::new(seed);
            let store = open(&files);
            things(&store, &[1, 2, 3]);
            let mut checkpoint = Checkpoint::freeze(&store.shared);
            let before = files.call_count();
            checkpoint.write().unwrap();
            files.call_count() - before
        };
        assert!(before > 0 && calls > 1);
        files.fail_after(calls - 1, Fault::Io);
        assert!(checkpoint.write().is_err(), "the last call of writing is the sync of the directory");
        drop(checkpoint);
        files.heal();
        load(&store, &def, 0..20);
        assert_eq!(store.world().table(def.id).unwrap().base_chunks(), 1, "the load became a chunk");
        let files = files.crash();
        drop(store);
        let store = open(&files);
        came_to_be += u64::from(
            store.world().table(def.id).unwrap().base_chunks() == 1
                && store.world().table(def.id).unwrap().delta_rows() > 0,
        );
        assert_eq!(ids(&store, &def), (0..20).collect::<Vec<_>>(), "seed {seed}");
    }
    assert!(came_to_be > 0, "the new manifest was found at least once");
}
