// SPDX-License-Identifier: Apache-2.0
//! Those who wait for a version without a thread.

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::ids::SpaceId;
use crate::options::StoreOptions;
use crate::replicas::{ReplicaChoice, SynchronousReplicas};
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Committed};
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

fn open(files: &SimulatedFiles) -> (Store, TableDef) {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    let store = Store::open_with(files, Path::new("/db"), StoreOptions::default()).unwrap();
    let columns = vec![ColumnDef::new("id", ColumnType::Int)];
    let def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    (store, def)
}

fn row(def: &TableDef, id: i32) -> Row {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int32(id).borrow()).unwrap();
    writer.finish()
}

fn apply(store: &Store, def: &TableDef, id: i32, isolation: Isolation) -> Committed {
    let mut tx = store.begin(isolation, AccessMode::ReadWrite);
    tx.insert(def.id, row(def, id)).unwrap();
    tx.commit_applied().unwrap()
}

fn rows(store: &Store, table: SpaceId) -> usize {
    store.world().table(table).unwrap().row_count() as usize
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn await_here<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn what_is_applied_is_seen_when_its_publication_is_ready_and_not_before() {
    let (store, def) = open(&SimulatedFiles::new(1));
    let committed = apply(&store, &def, 1, Isolation::Snapshot);
    assert_eq!(rows(&store, def.id), 0, "nobody has synced its record");
    await_here(store.publication(committed.version).unwrap()).unwrap();
    assert_eq!(rows(&store, def.id), 1);
    assert!(store.publication(committed.version).is_none(), "it is published already");
}

#[test]
fn what_is_asked_for_is_published_even_if_nobody_waits_any_more() {
    let (store, def) = open(&SimulatedFiles::new(2));
    let committed = apply(&store, &def, 1, Isolation::Snapshot);
    drop(store.publication(committed.version).unwrap());
    while rows(&store, def.id) == 0 {
        std::thread::yield_now();
    }
    let committed = apply(&store, &def, 2, Isolation::Snapshot);
    let publication = store.publication(committed.version).unwrap();
    // Closing the store waits for it.
    drop(store);
    await_here(publication).unwrap();
}

#[test]
fn threads_that_wait_and_those_that_ask_sync_for_each_other() {
    let (store, def) = open(&SimulatedFiles::new(3));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, def) = (&store, &def);
            scope.spawn(move || {
                for turn in 0..200 {
                    let committed = apply(store, def, thread * 1_000 + turn, Isolation::Snapshot);
                    match (thread + turn) % 3 {
                        0 => store.wait_published(committed.version).unwrap(),
                        1 => drop(store.publication(committed.version)),
                        _ => {
                            if let Some(publication) = store.publication(committed.version) {
                                await_here(publication).unwrap();
                            }
                            assert!(store.world().version() >= committed.version);
                        }
                    }
                }
            });
        }
    });
    let newest = apply(&store, &def, 9_999, Isolation::Snapshot);
    store.wait_published(newest.version).unwrap();
    assert_eq!(rows(&store, def.id), 1_601);
}

#[test]
fn a_sync_that_fails_is_told_to_whoever_asked_and_nothing_of_it_is_seen() {
    let files = SimulatedFiles::new(4);
    let (store, def) = open(&files);
    let committed = apply(&store, &def, 1, Isolation::Serializable);
    files.fail_from(0, Fault::Io);
    let outcome = await_here(store.publication(committed.version).unwrap());
    assert!(matches!(outcome, Err(StoreError::OutcomeUnknown(_))), "{outcome:?}");
    assert_eq!(rows(&store, def.id), 0);
    // Its record may be on the disk: until the store is opened again, no safe snapshot may come to have it.
    assert_eq!(store.active_serializable().len(), 1, "it is neither published nor given up");
    let again = store.publication(committed.version).unwrap();
    assert!(matches!(await_here(again), Err(StoreError::OutcomeUnknown(_))));
    let waited = store.wait_published(committed.version);
    assert!(matches!(waited, Err(StoreError::OutcomeUnknown(_))), "{waited:?}");
}

/// A reader that begins between the application and the publication of a commit does not see it, and must know that it
/// is beside it.
#[test]
fn a_serializable_transaction_is_active_until_its_commit_is_published() {
    let (store, def) = open(&SimulatedFiles::new(5));
    let committed = apply(&store, &def, 1, Isolation::Serializable);
    assert_eq!(store.active_serializable().len(), 1);
    await_here(store.publication(committed.version).unwrap()).unwrap();
    while !store.active_serializable().is_empty() {
        std::thread::yield_now();
    }
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each look went through the wakers of all, under the lock that the leader needs: ten thousand waiters, of whom each
/// looks twice, were two hundred million comparisons.
#[test]
fn ten_thousand_waiters_have_a_place_each_however_often_they_look_and_are_woken_once() {
    const WAITERS: usize = 10_000;
    let files = SimulatedFiles::new(11);
    let (store, def) = open(&files);
    let first = apply(&store, &def, 1, Isolation::Snapshot).version;
    if let Some(publication) = store.publication(first) {
        await_here(publication).unwrap();
    }
    let publishing = &store.shared.pipeline.publishing;
    store.wait_published(first).unwrap();
    while publishing.state.lock().is_syncing {
        std::thread::yield_now();
    }
    // As if somebody were at a sync, so that nothing is published yet.
    publishing.state.lock().is_syncing = true;
    let version = apply(&store, &def, 2, Isolation::Snapshot).version;
    let mut waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let count = Arc::new(Count(AtomicUsize::new(0)));
            (store.publication(version).expect("it is not published"), count)
        })
        .collect();
    for _ in 0..2 {
        for (publication, count) in &mut waiters {
            let waker = Waker::from(Arc::clone(count));
            assert!(Pin::new(publication).poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(publishing.state.lock().pending_of(version).wakers.len(), WAITERS);
    publishing.state.lock().is_syncing = false;
    store.wait_published(version).unwrap();
    for (publication, count) in &mut waiters {
        let waker = Waker::from(Arc::clone(count));
        assert!(Pin::new(publication).poll(&mut Context::from_waker(&waker)).is_ready());
    }
    let woken = || waiters.iter().all(|(_, count)| count.0.load(Ordering::Relaxed) == 1);
    while !woken() {
        std::thread::yield_now();
    }
}

/// A checkpoint and a feed sync the log without publishing anything.
#[test]
fn what_somebody_else_has_synced_is_published_by_who_waits_for_it() {
    let (store, def) = open(&SimulatedFiles::new(12));
    for id in [1, 2] {
        let committed = apply(&store, &def, id, Isolation::Snapshot);
        let (end, _) = store.log_position().unwrap();
        store.shared.pipeline.log().unwrap().sync(end).unwrap();
        match id {
            1 => store.wait_published(committed.version).unwrap(),
            _ => await_here(store.publication(committed.version).unwrap()).unwrap(),
        }
        assert_eq!(rows(&store, def.id), usize::try_from(id).unwrap());
    }
}

/// What waits for a replica when commits stop is of unknown fate: its readers are not shown it by an answer that comes later.
#[test]
fn nothing_is_published_by_an_answer_behind_a_stop() {
    let files = SimulatedFiles::new(13);
    let (store, def) = open(&files);
    let names = vec!["*".to_owned()];
    let (primary, before) = Default::default();
    let required = SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before };
    store.require_replicas(Some(required)).unwrap();
    let session = store.replica_session("copy");
    let committed = apply(&store, &def, 1, Isolation::Snapshot);
    let (end, _) = store.log_position().unwrap();
    store.shared.pipeline.log().unwrap().sync(end).unwrap();
    let _next = apply(&store, &def, 2, Isolation::Snapshot);
    files.fail_from(0, Fault::Io);
    let waited = store.wait_published(committed.version);
    assert!(matches!(waited, Err(StoreError::OutcomeUnknown(_))), "{waited:?}");
    session.note(|progress| progress.flushed = end);
    assert_eq!(rows(&store, def.id), 0);
}
