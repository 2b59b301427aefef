// SPDX-License-Identifier: Apache-2.0
//! The memory that transactions keep: asked for before it is taken, given back by whoever ends.

use super::{FREE_BYTES, LOCK_OVERHEAD_BYTES};
use crate::catalog::{CatalogChange, TableDef};
use crate::error::StoreError;
use crate::id_value::{key, row, table};
use crate::memory_accounts::{MemoryAccount, MemoryAccounts};
use crate::options::StoreOptions;
use crate::store::Store;
use crate::transaction::{AccessMode, IfLocked, LockedState, RowLock, Transaction};
use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use coeval_txn::{Isolation, LockStrength};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of a size, and what of it is taken.
#[derive(Debug)]
struct Memory {
    size: usize,
    taken: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Account {
    size: usize,
    taken: Arc<AtomicUsize>,
    own: usize,
}

impl MemoryAccounts for Memory {
    fn open(&self) -> Box<dyn MemoryAccount> {
        Box::new(Account { size: self.size, taken: Arc::clone(&self.taken), own: 0 })
    }
}

impl MemoryAccount for Account {
    fn grow(&mut self, bytes: usize) -> Result<(), String> {
        if self.taken.load(Ordering::Relaxed) + bytes > self.size {
            return Err(format!("{bytes} bytes more"));
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.own += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.own -= bytes;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.own, Ordering::Relaxed);
    }
}

const SIZE: usize = 8 << 20;

struct Database {
    store: Store,
    rows: TableDef,
    taken: Arc<AtomicUsize>,
}

impl Database {
    fn new() -> Self {
        let store = Store::in_memory(StoreOptions::default());
        let rows = table(&store, "rows");
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(rows.clone()))).unwrap();
        for id in 0..20_000 {
            tx.insert(rows.id, row(&rows, id, id)).unwrap();
        }
        tx.commit().unwrap();
        let taken = Arc::default();
        store.set_memory_accounts(Arc::new(Memory { size: SIZE, taken: Arc::clone(&taken) }));
        Self { store, rows, taken }
    }

    fn begin(&self) -> Transaction {
        self.store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Makes changes of one kind until there is no memory; returns how many were made.
fn until_refused(mut change: impl FnMut(i32) -> Result<(), StoreError>) -> i32 {
    for number in 0..1_000_000 {
        match change(number) {
            Ok(()) => {}
            Err(StoreError::OutOfMemory(_)) => return number,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("all of them had room");
}

#[test]
fn changes_of_every_kind_end_at_the_limit_and_give_everything_back() {
    let database = Database::new();
    let rows = &database.rows;
    for kind in ["insert", "update", "delete", "load", "define", "lock", "rely"] {
        let mut tx = database.begin();
        let made = until_refused(|number| match kind {
            "insert" => tx.insert(rows.id, row(rows, 1_000_000 + number, 0)).map(drop),
            // Each change of a row keeps a mark of its own, also of one row again and again.
            "update" => tx.update(rows.id, &key(number % 20_000), row(rows, number % 20_000, -number)),
            "delete" => {
                let id = number % 20_000;
                tx.delete(rows.id, &key(id))?;
                tx.insert(rows.id, row(rows, id, 0)).map(drop)
            }
            // A row that is locked once more keeps a further mark.
            "lock" => {
                let strength = LockStrength::Update;
                let lock = RowLock { table: rows.id, key: key(number % 20_000), strength };
                tx.lock_rows(&[lock], IfLocked::Wait).map(drop)
            }
            "rely" => tx.rely_on_row(rows.id, &key(number % 20_000)),
            "define" => {
                let mut def = rows.clone();
                def.comment = Some(format!("{number}{}", "x".repeat(30_000)));
                tx.change_catalog(CatalogChange::PutTable(Box::new(def)))
            }
            _ => {
                let ids =
                    Int32Array::from_iter_values((0..10_000).map(|id| 1_000_000 + number * 10_000 + id));
                let ids: ArrayRef = Arc::new(ids);
                let columns = [("id", Arc::clone(&ids)), ("value", ids)];
                tx.bulk_insert(rows.id, &[RecordBatch::try_from_iter(columns).unwrap()]).map(drop)
            }
        });
        assert!(made > 10, "{kind}: {made}");
        assert!(database.taken() > SIZE / 2 && database.taken() <= SIZE, "{kind}: {}", database.taken());
        drop(tx);
        assert_eq!(database.taken(), 0, "{kind}");
    }
}

#[test]
fn a_transaction_goes_on_from_a_savepoint_with_the_memory_it_had_there() {
    let database = Database::new();
    let rows = &database.rows;
    let mut tx = database.begin();
    tx.insert(rows.id, row(rows, 1_000_000, 0)).unwrap();
    let savepoint = tx.savepoint();
    for _ in 0..5 {
        let made = until_refused(|number| tx.insert(rows.id, row(rows, 2_000_000 + number, 0)).map(drop));
        assert!(made > 1_000);
        tx.rollback_to(&savepoint);
        assert_eq!(database.taken(), 0);
    }
    tx.insert(rows.id, row(rows, 3_000_000, 0)).unwrap();
    tx.commit().unwrap();
    let tx = database.begin();
    assert!(tx.get(rows.id, &key(1_000_000)).unwrap().is_some());
    assert!(tx.get(rows.id, &key(2_000_000)).unwrap().is_none());
    assert!(tx.get(rows.id, &key(3_000_000)).unwrap().is_some());
}

#[test]
fn a_commit_gives_its_memory_back_and_small_transactions_take_none() {
    let database = Database::new();
    let rows = &database.rows;
    let mut tx = database.begin();
    tx.insert(rows.id, row(rows, 1_000_000, 0)).unwrap();
    assert_eq!(database.taken(), 0);
    for number in 0..10_000 {
        tx.insert(rows.id, row(rows, 2_000_000 + number, 0)).unwrap();
    }
    assert!(database.taken() > 0);
    tx.commit().unwrap();
    assert_eq!(database.taken(), 0);
}

/// Whether the snapshot of a statement has moved when it runs again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Snapshot {
    Same,
    Moved,
}

/// A READ COMMITTED statement of several parts that runs again keeps its locks, and was given back what they take: each further
/// run could lock others for nothing. Fails if `undo_writes_since` goes back to what the savepoint has noted.
#[test]
fn locks_that_stay_when_a_statement_runs_again_stay_counted() {
    const LOCKS: i32 = 10_000;
    for snapshot in [Snapshot::Same, Snapshot::Moved] {
        let database = Database::new();
        let rows = &database.rows;
        let lock = |id: i32| RowLock { table: rows.id, key: key(id), strength: LockStrength::Update };
        let mut tx = database.store.begin(Isolation::ReadCommitted, AccessMode::ReadWrite);
        tx.begin_statement().unwrap();
        let began = tx.savepoint();
        let locks: Vec<RowLock> = (0..LOCKS).map(lock).collect();
        tx.lock_rows(&locks, IfLocked::Wait).unwrap();
        for id in 0..2_000 {
            tx.insert(rows.id, row(rows, 1_000_000 + id, 0)).unwrap();
        }
        if snapshot == Snapshot::Moved {
            let mut other = database.begin();
            other.update(rows.id, &key(LOCKS), row(rows, LOCKS, 1)).unwrap();
            other.commit().unwrap();
            let locked = tx.lock_rows(&[lock(LOCKS)], IfLocked::Wait).unwrap();
            assert_eq!(locked.state, LockedState::Changed);
        }
        let before = database.taken();
        for _ in 0..3 {
            tx.undo_writes_since(&began);
            let locks = database.store.row_locks().len();
            assert!(locks >= LOCKS as usize, "{snapshot:?}: {locks} locks stay");
            let counted = database.taken() + FREE_BYTES;
            assert!(counted >= locks * LOCK_OVERHEAD_BYTES, "{snapshot:?}: {counted} for {locks} locks");
            assert!(database.taken() < before, "{snapshot:?}: what was written is given back");
        }
        tx.rollback_to(&began);
        assert!(database.store.row_locks().is_empty(), "{snapshot:?}");
        assert_eq!(database.taken(), 0, "{snapshot:?}");
    }
}
