// SPDX-License-Identifier: Apache-2.0
//! A panic at each step of a commit, in the keeper, the syncer and a checkpoint. It used to leave a version that was
//! given twice: every later commit panicked, and those who waited waited for ever, while the store said that it was well.
//!
//! Whatever the step: commits stop with the reason, everybody who waits is told, reads go on, and after the next open
//! all that was acknowledged is there, and nothing half. A step at its later passes, with a keeper that runs by itself:
//! `panics/busy.rs`; what sessions do before anybody else depends on it, and large transactions: `panics/sessions.rs`; replicas:
//! `following/tests/panics.rs`.

mod busy;
mod sessions;

use super::lives::{DIR, SMALL};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::{LogError, LogOptions};
use crate::model_workload::{End, Outcome, Workload};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::Store;
use crate::transaction::AccessMode;
use crate::trap::Step;
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
    let sizes = Sizes { heartbeat: Some(HEARTBEAT), ..SMALL };
    Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), sizes).unwrap()
}

/// Far enough apart that they seldom disturb a test of another step.
const HEARTBEAT: Duration = Duration::from_millis(30);

/// Those whom a test without a large transaction brings to a step, if they do not come by themselves.
fn steps() -> Vec<Step> {
    let all = [&Step::OF_COMMITS[..], &Step::OF_KEEPER, &Step::OF_CHECKPOINTS].concat();
    all.into_iter().filter(|step| *step != Step::Fill).collect()
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
    let keeper = &store.shared.keeper;
    match step {
        Step::Beat | Step::Attest => keeper.note_commit(0, None),
        Step::Unload => keeper.note_full(),
        step if Step::OF_KEEPER.contains(&step) => keeper.poke(),
        step if Step::OF_CHECKPOINTS.contains(&step) => {
            let error = store.checkpoint().unwrap_err();
            assert_says_so(&error.to_string(), step);
            return true;
        }
        _ => {
            // The time is written down when it has gone on.
            std::thread::sleep(Duration::from_millis(12));
            return false;
        }
    }
    until("the keeper's panic has stopped commits", || store.check_running().is_err());
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
    assert_has_stopped(&store, &mut workload, step);
    drop(store);
    let store = open_again(&files, &mut workload, step, end);
    assert_goes_on(&store, &mut workload, step);
}

/// Nobody panics or commits, and reads go on.
fn assert_has_stopped(store: &Store, workload: &mut Workload, step: Step) {
    assert_says_so(&store.check_running().unwrap_err().to_string(), step);
    workload.take_shown(&store.world()).unwrap();
    (0..10).for_each(|_| drop(workload.step(store)));
    assert_says_so(&store.checkpoint().unwrap_err().to_string(), step);
    workload.model.check(&store.world()).unwrap();
}

/// What was acknowledged is there, and nothing half.
fn open_again(files: &SimulatedFiles, workload: &mut Workload, step: Step, end: End) -> Store {
    workload.note_end(end);
    let files = if end == End::Machine { files.crash() } else { files.restart() };
    assert_eq!(verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap().problems, [], "{step:?}");
    let store = open(&files);
    workload.take_recovered(&store.world()).unwrap_or_else(|what| panic!("{step:?}: {what}"));
    store
}

fn assert_goes_on(store: &Store, workload: &mut Workload, step: Step) {
    assert!((0..20).any(|_| workload.step(store) == Outcome::Committed), "{step:?}: commits go on");
    store.checkpoint().unwrap();
    workload.model.check(&store.world()).unwrap();
}

#[test]
fn after_a_panic_at_any_step_commits_stop_with_the_reason_and_the_next_open_has_what_was_acknowledged() {
    for step in steps() {
        for seed in 0..6 {
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
    steps().into_iter().for_each(threads_meet);
}

/// A second panic while one is on its way ends the process.
/// A panic stops the log, and then commits. A thread in between hears of it from the log, and is the first to say so: a checkpoint
/// was made of what the panic had left half done. Seen in one run of some hundreds of the threads of `busy.rs`.
#[test]
fn after_a_panic_that_a_commit_has_heard_of_from_the_log_there_is_no_checkpoint() {
    let files = SimulatedFiles::new(6);
    let mut workload = Workload::new(6);
    let store = open(&files);
    (0..12).for_each(|_| drop(workload.step(&store)));
    let panic = LogError::Panicked { during: "in a test", text: "a bug".to_owned() };
    let publishing = &store.shared.pipeline.publishing;
    publishing.stop(LogError::Stopped { first: Arc::new(panic) });
    let error = store.checkpoint().unwrap_err();
    assert!(matches!(error, StoreError::Stopped(_)) && error.to_string().contains("a bug"), "{error}");
}

#[test]
fn a_panic_of_who_closes_the_store_reaches_nobody() {
    let files = SimulatedFiles::new(5);
    let mut workload = Workload::new(5);
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let open_silent = |files: &SimulatedFiles| {
        let files: Arc<dyn FileSystem> = Arc::new(files.clone());
        Store::open_tuned(files, Path::new(DIR), options, LogOptions::default(), SMALL).unwrap()
    };
    let store = open_silent(&files);
    (0..12).for_each(|_| drop(workload.step(&store)));
    store.shared.trap.arm(Step::Attest);
    let shared = Arc::clone(&store.shared);
    drop(store);
    assert!(!shared.trap.is_armed(), "a close attests the end of the log");
    drop(shared);
    let store = open_silent(&files.crash());
    workload.note_end(End::Machine);
    workload.take_recovered(&store.world()).unwrap();
}
