// SPDX-License-Identifier: Apache-2.0
//! Foreign keys over many rows: as deep and as many as there are.

use crate::catalog::{
    CatalogChange, Deferral, ForeignKeyDef, IndexDef, ReferentialAction, TableDef, Uniqueness,
};
use crate::error::{ConstraintError, StoreError};
use crate::id_value::{key, row, table};
use crate::options::StoreOptions;
use crate::range::{Direction, KeyRange};
use crate::row_lock_error::RowLockError;
use crate::store::Store;
use crate::transaction::{AccessMode, LockWaits, Transaction};
use coeval_txn::{Interrupt, Isolation};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// Far above what work takes that grows with the rows, far below what work takes that grows with their square.
const NOT_QUADRATIC: Duration = Duration::from_secs(20);

/// Whether the children of a row can be looked up.
#[derive(Clone, Copy, PartialEq)]
enum Lookup {
    Index,
    None,
}

fn refer(store: &Store, child: &mut TableDef, parent: &TableDef, action: ReferentialAction, lookup: Lookup) {
    child.foreign_keys.push(ForeignKeyDef {
        name: format!("{}_value_fkey", child.name.name),
        columns: vec![1],
        parent: parent.id,
        parent_columns: vec![0],
        on_delete: action,
        on_update: action,
        deferral: Deferral::Never,
        validity: Default::default(),
    });
    if lookup == Lookup::Index {
        child.indexes.push(IndexDef {
            id: store.new_space_id(),
            name: format!("{}_value", child.name.name),
            columns: vec![1],
            uniqueness: Uniqueness::Any,
            declared_order: Vec::new(),
        });
    }
}

fn put_tables(store: &Store, tables: &[&TableDef]) {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for table in tables {
        tx.change_catalog(CatalogChange::PutTable(Box::new((*table).clone()))).unwrap();
    }
    tx.commit().unwrap();
}

fn insert(store: &Store, table: &TableDef, rows: impl IntoIterator<Item = (i32, i32)>) {
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    for (id, value) in rows {
        tx.insert(table.id, row(table, id, value)).unwrap();
    }
    tx.commit().unwrap();
}

/// `chain (id, value)`: each row refers to the one before it, the first to itself.
fn chain(store: &Store, rows: i32, action: ReferentialAction, lookup: Lookup) -> TableDef {
    let mut chain = table(store, "chain");
    let parent = chain.clone();
    refer(store, &mut chain, &parent, action, lookup);
    put_tables(store, &[&chain]);
    insert(store, &chain, (0..rows).map(|id| (id, (id - 1).max(0))));
    chain
}

fn count(tx: &Transaction, table: &TableDef) -> usize {
    tx.scan(table.id, &KeyRange::all(), Direction::Forward).unwrap().count()
}

fn on_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(512 << 10).spawn(body).unwrap().join().unwrap();
}

#[test]
fn a_cascade_goes_down_a_chain_however_long_it_is() {
    on_small_stack(|| {
        for (level, lookup) in
            LEVELS.into_iter().flat_map(|level| [(level, Lookup::Index), (level, Lookup::None)])
        {
            let store = Store::in_memory(StoreOptions::default());
            let chain = chain(&store, 20_000, ReferentialAction::Cascade, lookup);
            let mut tx = store.begin(level, AccessMode::ReadWrite);
            let began = Instant::now();
            assert!(tx.delete(chain.id, &key(0)).unwrap());
            tx.end_statement().unwrap();
            assert!(began.elapsed() < NOT_QUADRATIC, "{:?}", began.elapsed());
            assert_eq!(count(&tx, &chain), 0);
            tx.commit().unwrap();
        }
    });
}

#[test]
fn cascades_in_a_circle_of_tables_end_when_every_row_is_gone() {
    on_small_stack(|| {
        let store = Store::in_memory(StoreOptions::default());
        let (mut left, mut right) = (table(&store, "left"), table(&store, "right"));
        let (left_before, right_before) = (left.clone(), right.clone());
        put_tables(&store, &[&left, &right]);
        insert(&store, &left, (0..10_000).map(|id| (id, id)));
        insert(&store, &right, (0..10_000).map(|id| (id, (id + 1) % 10_000)));
        refer(&store, &mut left, &right_before, ReferentialAction::Cascade, Lookup::None);
        refer(&store, &mut right, &left_before, ReferentialAction::Cascade, Lookup::None);
        put_tables(&store, &[&left, &right]);
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.delete(left.id, &key(7)).unwrap();
        tx.commit().unwrap();
        let tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        assert_eq!((count(&tx, &left), count(&tx, &right)), (0, 0));
    });
}

#[test]
fn a_cascade_that_meets_a_row_that_may_not_go_changes_nothing() {
    for level in LEVELS {
        let store = Store::in_memory(StoreOptions::default());
        let mut chain = chain(&store, 500, ReferentialAction::Cascade, Lookup::Index);
        let mut needs = table(&store, "needs");
        refer(&store, &mut needs, &chain, ReferentialAction::SetNull, Lookup::None);
        needs.columns[1].not_null = true;
        put_tables(&store, &[&needs]);
        insert(&store, &needs, [(1, 400)]);
        let mut tx = store.begin(level, AccessMode::ReadWrite);
        tx.insert(chain.id, row(&chain, 900, 0)).unwrap();
        tx.end_statement().unwrap();
        let refused = tx.delete(chain.id, &key(0));
        assert!(
            matches!(refused, Err(StoreError::Constraint(ConstraintError::NotNull { .. }))),
            "{refused:?}"
        );
        assert_eq!(count(&tx, &chain), 501);
        tx.commit().unwrap();
        chain.foreign_keys.clear();
    }
}

#[test]
fn parents_that_go_cost_the_same_each_however_many_there_are() {
    for (level, action) in LEVELS.into_iter().flat_map(|level| {
        [ReferentialAction::NoAction, ReferentialAction::Restrict, ReferentialAction::Cascade]
            .map(|action| (level, action))
    }) {
        let store = Store::in_memory(StoreOptions::default());
        let (parents, mut children) = (table(&store, "parents"), table(&store, "children"));
        refer(&store, &mut children, &parents, action, Lookup::None);
        put_tables(&store, &[&parents, &children]);
        insert(&store, &parents, (0..60_000).map(|id| (id, 0)));
        insert(&store, &children, (0..30_000).map(|id| (id, 30_000 + id)));
        let mut tx = store.begin(level, AccessMode::ReadWrite);
        let began = Instant::now();
        for id in 0..30_000 {
            assert!(tx.delete(parents.id, &key(id)).unwrap());
        }
        tx.end_statement().unwrap();
        assert!(began.elapsed() < NOT_QUADRATIC, "{level:?} {action:?}: {:?}", began.elapsed());
        tx.commit().unwrap();
    }
}

#[test]
fn children_that_come_or_change_within_the_statement_are_found_without_an_index() {
    for level in LEVELS {
        let store = Store::in_memory(StoreOptions::default());
        let (parents, mut children) = (table(&store, "parents"), table(&store, "children"));
        refer(&store, &mut children, &parents, ReferentialAction::Cascade, Lookup::None);
        put_tables(&store, &[&parents, &children]);
        insert(&store, &parents, (0..10).map(|id| (id, 0)));
        insert(&store, &children, (0..10).map(|id| (id, id)));
        let mut tx = store.begin(level, AccessMode::ReadWrite);
        for id in 0..3 {
            tx.delete(parents.id, &key(id)).unwrap();
        }
        assert_eq!(count(&tx, &children), 7);
        // One comes, one changes to another parent, one is undone.
        tx.insert(children.id, row(&children, 20, 5)).unwrap();
        tx.update(children.id, &key(6), row(&children, 6, 4)).unwrap();
        let savepoint = tx.savepoint();
        tx.update(children.id, &key(7), row(&children, 7, 5)).unwrap();
        tx.rollback_to(&savepoint);
        for id in [4, 5] {
            tx.delete(parents.id, &key(id)).unwrap();
        }
        tx.delete(parents.id, &key(6)).unwrap();
        tx.end_statement().unwrap();
        let left: Vec<i64> = tx
            .scan(children.id, &KeyRange::all(), Direction::Forward)
            .unwrap()
            .map(|found| found.unwrap().1.get(0).as_i64().unwrap())
            .collect();
        assert_eq!(left, [3, 7, 8, 9]);
    }
}

/// A request that has come already.
struct Asked;

impl Interrupt for Asked {
    fn is_set(&self) -> bool {
        true
    }

    fn notify(&self, _: Waker) {}
}

#[test]
fn a_cascade_and_the_checks_behind_it_end_when_they_are_asked_to() {
    for action in [ReferentialAction::Cascade, ReferentialAction::NoAction] {
        let store = Store::in_memory(StoreOptions::default());
        let chain = chain(&store, 5_000, action, Lookup::None);
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.set_lock_waits(LockWaits { interrupt: Some(Arc::new(Asked)), ..LockWaits::default() });
        let savepoint = tx.savepoint();
        let outcome = tx.delete(chain.id, &key(0)).and_then(|_| tx.end_statement());
        assert!(
            matches!(outcome, Err(StoreError::RowLock(RowLockError::Interrupted))),
            "{action:?}: {outcome:?}"
        );
        tx.rollback_to(&savepoint);
        assert_eq!(count(&tx, &chain), 5_000);
    }
}
