// SPDX-License-Identifier: Apache-2.0
//! A panic at each step of a commit, in the keeper, the syncer and a checkpoint. It used to leave a version that was
//! given twice: every later commit panicked, and those who waited waited for ever, while the store said that it was well.
//!
//! Whatever the step: commits stop with the reason, everybody who waits is told, reads go on, and after the next open
//! all that was acknowledged is there, and nothing half.

use super::lives::{DIR, SMALL};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::LogOptions;
use crate::model_workload::{End, Outcome, Workload};
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::trap::{Step, Trap};
use crate::types::ColumnType;
use crate::value::Value;
use crate::verify::verify;
use coeval_txn::Isolation;
use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Nobody who waits is told by the clock; this is when a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), SMALL).unwrap()
}

fn assert_says_so(reason: &str, step: Step) {
    assert!(reason.contains("panic"), "{step:?}: {reason}");
}

/// Waits for what another thread does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never so: {what}");
        std::thread::yield_now();
    }
}

/// Brings somebody to the step, if it is none of a commit's. Whether it was.
fn go_there(store: &Store, step: Step) -> bool {
    match step {
        Step::Keep => {
            store.shared.keeper.poke();
            until("the keeper's panic has stopped commits", || store.check_running().is_err());
        }
        Step::Merge | Step::PutInPlace => {
            let error = store.checkpoint().unwrap_err();
            assert_says_so(&error.to_string(), step);
        }
        _ => return false,
    }
    true
}

fn one_life(step: Step, end: End, seed: u64) {
    let files = SimulatedFiles::new(seed);
    let store = open(&files);
    let mut workload = Workload::new(seed);
    (0..12).for_each(|_| drop(workload.step(&store)));
    store.shared.trap.arm(step);
    if go_there(&store, step) {
        workload.has_stopped = true;
    }
    let told = (0..200).find_map(|_| match workload.step(&store) {
        Outcome::Unknown(reason) => Some(reason),
        Outcome::Committed | Outcome::Refused => None,
    });
    assert_says_so(&told.expect("no commit came to the step"), step);
    assert_says_so(&store.check_running().unwrap_err().to_string(), step);
    // Nobody panics or commits, and reads go on.
    (0..10).for_each(|_| drop(workload.step(&store)));
    assert_says_so(&store.checkpoint().unwrap_err().to_string(), step);
    workload.model.check(&store.world()).unwrap();
    drop(store);
    workload.note_end(end);
    let files = if end == End::Machine { files.crash() } else { files.restart() };
    assert_eq!(verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap().problems, []);
    let store = open(&files);
    workload.take_recovered(&store.world()).unwrap_or_else(|what| panic!("{step:?}, seed {seed}: {what}"));
    assert!((0..20).any(|_| workload.step(&store) == Outcome::Committed), "{step:?}: commits go on");
    store.checkpoint().unwrap();
    workload.model.check(&store.world()).unwrap();
}

#[test]
fn after_a_panic_at_any_step_commits_stop_with_the_reason_and_the_next_open_has_what_was_acknowledged() {
    for step in Trap::ALL {
        for seed in 0..10 {
            one_life(step, if seed % 2 == 0 { End::Machine } else { End::Process }, seed);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn commit_one(store: &Store, def: &TableDef, id: u64) -> Result<(), StoreError> {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int64(id as i64).borrow()).unwrap();
    tx.insert(def.id, writer.finish())?;
    if id.is_multiple_of(2) {
        return tx.commit().map(drop);
    }
    let committed = tx.commit_applied()?;
    match store.publication(committed.version) {
        Some(publication) => block_on(publication),
        None => Ok(()),
    }
}

/// Inserts numbers until it is told that commits have stopped. What was acknowledged, and the one of unknown fate.
fn insert_until_told(store: &Store, def: &TableDef, numbers: &AtomicU64) -> (Vec<u64>, u64, StoreError) {
    let mut acknowledged = Vec::new();
    loop {
        let id = numbers.fetch_add(1, Ordering::Relaxed);
        match commit_one(store, def, id) {
            Ok(()) => acknowledged.push(id),
            Err(error) => return (acknowledged, id, error),
        }
    }
}

fn threads_meet(step: Step) {
    const THREADS: usize = 6;
    let files = SimulatedFiles::new(step as u64);
    let store = open(&files);
    let name = QualifiedName::new("public", "t");
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt)];
    let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let numbers = Arc::new(AtomicU64::new(0));
    let (told, hear) = mpsc::channel();
    for _ in 0..THREADS {
        let (store, def, numbers, told) = (store.clone(), def.clone(), Arc::clone(&numbers), told.clone());
        std::thread::spawn(move || told.send(insert_until_told(&store, &def, &numbers)));
    }
    until("the threads commit", || numbers.load(Ordering::Relaxed) > 200);
    store.shared.trap.arm(step);
    go_there(&store, step);
    let (mut acknowledged, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..THREADS {
        let (ids, lost, error) = hear.recv_timeout(PATIENCE).expect("everybody is told");
        // Who came later is told that nothing was done, who was under way that nobody knows.
        let is_told = matches!(error, StoreError::Stopped(_) | StoreError::OutcomeUnknown(_));
        assert!(is_told, "{step:?}: {error}");
        assert_says_so(&error.to_string(), step);
        acknowledged.extend(ids);
        unknown.insert(lost);
    }
    let files = files.crash();
    drop(store);
    let store = open(&files);
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let rows = tx.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    let found: BTreeSet<u64> = rows.map(|row| row.unwrap().1.get(0).as_i64().unwrap() as u64).collect();
    assert!(found.is_superset(&acknowledged), "{step:?}: something acknowledged is lost");
    let told: BTreeSet<u64> = acknowledged.union(&unknown).copied().collect();
    assert!(told.is_superset(&found), "{step:?}: something is there that nobody was told of");
    commit_one(&store, &def, u64::from(u32::MAX)).unwrap();
}

#[test]
fn everybody_who_waits_when_a_panic_stops_commits_is_told_so() {
    Trap::ALL.into_iter().for_each(threads_meet);
}
