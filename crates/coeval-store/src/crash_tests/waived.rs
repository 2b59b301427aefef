// SPDX-License-Identifier: Apache-2.0
//! Transactions that are acknowledged before they are durable, beside others. `random.rs` has them too, in every third
//! seed: what survives there is a prefix, with everything up to the last commit that waived nothing.

use super::lives::{DIR, SMALL};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::LogOptions;
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::trap::Step;
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Far more than the bound: this machine may have other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), SMALL).unwrap()
}

fn table(store: &Store) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    On,
    Off,
}

/// Inserts a number; returns its version.
fn insert(store: &Store, def: &TableDef, id: i64, commit: Commit) -> Result<u64, StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id).borrow()).unwrap();
    tx.insert(def.id, writer.finish())?;
    if commit == Commit::Off {
        store.set_synchronous_commit(&mut tx, crate::replicas::SynchronousCommit::Off);
    }
    Ok(tx.commit()?.version.get())
}

fn found(store: &Store, def: &TableDef) -> Vec<i64> {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|row| row.unwrap().1.get(0).as_i64().unwrap()).collect()
}

#[test]
fn one_that_waives_durability_is_acknowledged_and_seen_without_a_sync() {
    let files = SimulatedFiles::new(1);
    let store = open(&files);
    let def = table(&store);
    // Whoever syncs for commits panics: nobody has, when these are acknowledged.
    store.shared.trap.arm(Step::Sync);
    for id in 0..3 {
        let version = insert(&store, &def, id, Commit::Off).unwrap();
        assert_eq!(store.world().version().get(), version);
    }
    assert_eq!(found(&store, &def), [0, 1, 2]);
    // The thread that syncs behind them is the one.
    let begun = Instant::now();
    while store.check_running().is_ok() {
        assert!(begun.elapsed() < PATIENCE, "nobody syncs what was acknowledged");
        std::thread::yield_now();
    }
    assert!(matches!(insert(&store, &def, 3, Commit::Off), Err(StoreError::Stopped(_))));
}

#[test]
fn what_was_acknowledged_before_it_was_durable_is_durable_soon_though_nobody_asks() {
    let files = SimulatedFiles::new(2);
    let store = open(&files);
    let def = table(&store);
    for round in 0..3 {
        insert(&store, &def, round, Commit::Off).unwrap();
        let log = store.shared.pipeline.log().unwrap().clone();
        let (begun, end) = (Instant::now(), log.end_lsn());
        while log.durable_lsn() < end {
            assert!(begun.elapsed() < PATIENCE, "nobody syncs what was acknowledged");
            std::thread::yield_now();
        }
    }
    let files = files.crash();
    drop(store);
    assert_eq!(found(&open(&files), &def), [0, 1, 2]);
}

#[test]
fn one_that_waives_nothing_makes_durable_what_was_acknowledged_before() {
    for seed in 0..20 {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let def = table(&store);
        for id in 0..5 {
            insert(&store, &def, id, Commit::Off).unwrap();
        }
        insert(&store, &def, 5, Commit::On).unwrap();
        let files = files.crash();
        drop(store);
        assert_eq!(found(&open(&files), &def), [0, 1, 2, 3, 4, 5], "seed {seed}");
    }
}

#[test]
fn of_threads_that_waive_and_others_a_crash_leaves_a_prefix_with_all_that_waived_nothing() {
    let mut lost = 0;
    for seed in 0..40 {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let def = table(&store);
        let numbers = AtomicI64::new(0);
        let work = |thread: i64| {
            let mut told = Vec::new();
            loop {
                let id = numbers.fetch_add(1, Ordering::Relaxed);
                let commit = if thread == 0 && id % 7 == 0 { Commit::On } else { Commit::Off };
                match insert(&store, &def, id, commit) {
                    Ok(version) => told.push((id, version, commit)),
                    Err(_) => return told,
                }
            }
        };
        let (told, files) = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || work(thread))).collect();
            while numbers.load(Ordering::Relaxed) < 50 + 10 * seed as i64 {
                std::thread::yield_now();
            }
            let after = files.crash();
            let told: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            (told, after)
        });
        drop(store);
        let found = found(&open(&files), &def);
        let versions: BTreeMap<i64, u64> = told.iter().map(|(id, version, _)| (*id, *version)).collect();
        let newest = found.iter().filter_map(|id| versions.get(id)).max().copied().unwrap_or(0);
        for (id, version, commit) in told {
            let is_there = found.binary_search(&id).is_ok();
            assert!(is_there || version > newest, "{id} is lost, and a later one is there: no prefix");
            assert!(is_there || commit == Commit::Off, "{id} waived nothing and is lost");
            lost += usize::from(!is_there);
        }
    }
    assert!(lost > 0, "a crash takes something of what was not durable, else this shows nothing");
}
