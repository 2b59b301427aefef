// SPDX-License-Identifier: Apache-2.0
//! Those who wait for a version without a thread.

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, SimulatedFiles};
use crate::ids::SpaceId;
use crate::options::StoreOptions;
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, Committed};
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::Isolation;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
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
    assert!(matches!(outcome, Err(StoreError::Stopped(_))), "{outcome:?}");
    assert_eq!(rows(&store, def.id), 0);
    assert_eq!(store.active_serializable(), [], "it has ended all the same");
    let again = store.publication(committed.version).unwrap();
    assert!(matches!(await_here(again), Err(StoreError::Stopped(_))));
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
