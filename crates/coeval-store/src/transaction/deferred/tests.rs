// SPDX-License-Identifier: Apache-2.0
//! Foreign keys that are checked at commit.

use crate::catalog::{CatalogChange, Deferral, ForeignKeyDef, ReferentialAction, TableDef};
use crate::error::{ConstraintError, StoreError};
use crate::id_value::{key, row, table};
use crate::options::StoreOptions;
use crate::store::Store;
use crate::transaction::{AccessMode, CheckTime, ConstraintChoice, Transaction};
use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use coeval_txn::Isolation;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// `parents (id, value)` with row 1; `children (id, value)`, whose value refers to a parent.
struct Family {
    store: Store,
    parents: TableDef,
    children: TableDef,
}

impl Family {
    fn new(deferral: Deferral) -> Self {
        let store = Store::in_memory(StoreOptions::default());
        let (parents, mut children) = (table(&store, "parents"), table(&store, "children"));
        children.foreign_keys.push(ForeignKeyDef {
            name: "children_value_fkey".to_owned(),
            columns: vec![1],
            parent: parents.id,
            parent_columns: vec![0],
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
            deferral,
            validity: Default::default(),
        });
        let family = Self { store, parents, children };
        let mut tx = family.begin(Isolation::Snapshot);
        for def in [&family.parents, &family.children] {
            tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        }
        tx.insert(family.parents.id, row(&family.parents, 1, 0)).unwrap();
        tx.commit().unwrap();
        family
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        self.store.begin(isolation, AccessMode::ReadWrite)
    }

    fn child(&self, tx: &mut Transaction, id: i32, parent: i32) -> Result<(), StoreError> {
        tx.insert(self.children.id, row(&self.children, id, parent))?;
        tx.end_statement()
    }

    fn parent(&self, tx: &mut Transaction, id: i32) {
        tx.insert(self.parents.id, row(&self.parents, id, 0)).unwrap();
        tx.end_statement().unwrap();
    }
}

fn is_missing_parent<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Constraint(ConstraintError::ForeignKeyMissing { .. })))
}

#[test]
fn a_deferred_child_may_come_before_its_parent() {
    for level in LEVELS {
        let family = Family::new(Deferral::Deferred);
        let mut tx = family.begin(level);
        family.child(&mut tx, 1, 7).unwrap();
        family.parent(&mut tx, 7);
        tx.commit().unwrap();
    }
}

#[test]
fn a_deferred_child_without_a_parent_fails_at_commit_and_nothing_of_it_stays() {
    for level in LEVELS {
        let family = Family::new(Deferral::Deferred);
        let mut tx = family.begin(level);
        family.child(&mut tx, 1, 7).unwrap();
        assert!(is_missing_parent(&tx.commit()), "{level:?}");
        assert!(family.begin(level).get(family.children.id, &key(1)).unwrap().is_none());
    }
}

#[test]
fn others_are_checked_when_the_statement_ends() {
    for deferral in [Deferral::Never, Deferral::Immediate] {
        let family = Family::new(deferral);
        let mut tx = family.begin(Isolation::Snapshot);
        assert!(is_missing_parent(&family.child(&mut tx, 1, 7)));
    }
}

#[test]
fn a_transaction_may_choose_for_deferrable_constraints_only() {
    let named = |family: &Family| {
        ConstraintChoice::Named(vec![(family.children.id, "children_value_fkey".to_owned())])
    };
    for all in [true, false] {
        let family = Family::new(Deferral::Immediate);
        let mut tx = family.begin(Isolation::Snapshot);
        let which = if all { ConstraintChoice::All } else { named(&family) };
        tx.set_constraints(&which, CheckTime::Deferred).unwrap();
        family.child(&mut tx, 1, 7).unwrap();
        assert!(is_missing_parent(&tx.set_constraints(&which, CheckTime::Immediate)));
        // A refused choice has not been made.
        family.child(&mut tx, 2, 8).unwrap();
        for id in [7, 8] {
            family.parent(&mut tx, id);
        }
        tx.set_constraints(&which, CheckTime::Immediate).unwrap();
        assert!(is_missing_parent(&family.child(&mut tx, 3, 9)));
    }
    let family = Family::new(Deferral::Never);
    let mut tx = family.begin(Isolation::Snapshot);
    tx.set_constraints(&ConstraintChoice::All, CheckTime::Deferred).unwrap();
    assert!(is_missing_parent(&family.child(&mut tx, 1, 7)));
}

#[test]
fn a_deferred_parent_may_go_and_come_back_or_its_children_may_follow() {
    for (comes_back, level) in [true, false].into_iter().flat_map(|back| LEVELS.map(|level| (back, level))) {
        let family = Family::new(Deferral::Deferred);
        let mut tx = family.begin(level);
        family.child(&mut tx, 1, 1).unwrap();
        tx.commit().unwrap();
        let mut tx = family.begin(level);
        assert!(tx.delete(family.parents.id, &key(1)).unwrap());
        tx.end_statement().unwrap();
        if comes_back {
            family.parent(&mut tx, 1);
        } else {
            tx.delete(family.children.id, &key(1)).unwrap();
        }
        tx.commit().unwrap();
        let mut tx = family.begin(level);
        if comes_back {
            assert!(tx.delete(family.parents.id, &key(1)).unwrap());
            let outcome = tx.commit();
            let is_refused =
                matches!(outcome, Err(StoreError::Constraint(ConstraintError::ForeignKeyReferenced { .. })));
            assert!(is_refused, "{level:?}: {outcome:?}");
        }
    }
}

#[test]
fn rollback_to_a_savepoint_forgets_the_checks_and_the_choices_made_since() {
    let family = Family::new(Deferral::Deferred);
    let mut tx = family.begin(Isolation::Snapshot);
    family.child(&mut tx, 1, 7).unwrap();
    family.parent(&mut tx, 7);
    let savepoint = tx.savepoint();
    family.child(&mut tx, 2, 8).unwrap();
    tx.rollback_to(&savepoint);
    tx.set_constraints(&ConstraintChoice::All, CheckTime::Immediate).unwrap();
    tx.rollback_to(&savepoint);
    family.child(&mut tx, 3, 9).unwrap();
    family.parent(&mut tx, 9);
    tx.commit().unwrap();
}

#[test]
fn a_parent_that_another_transaction_deletes_meanwhile_is_found_at_commit() {
    for level in LEVELS {
        let family = Family::new(Deferral::Deferred);
        let mut child = family.begin(level);
        family.child(&mut child, 1, 1).unwrap();
        let mut parent = family.begin(level);
        assert!(parent.delete(family.parents.id, &key(1)).unwrap());
        parent.commit().unwrap();
        assert!(child.commit().is_err(), "{level:?}");
    }
}

#[test]
fn a_bulk_load_with_a_deferred_constraint_is_checked_at_commit() {
    let family = Family::new(Deferral::Deferred);
    let mut tx = family.begin(Isolation::Snapshot);
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5_000));
    let parents: ArrayRef = Arc::new(Int32Array::from(vec![7; 5_000]));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("value", parents, true)]).unwrap();
    assert_eq!(tx.bulk_insert(family.children.id, &[batch]).unwrap(), 5_000);
    tx.end_statement().unwrap();
    family.parent(&mut tx, 7);
    tx.commit().unwrap();
    assert!(family.begin(Isolation::Snapshot).get(family.children.id, &key(4_999)).unwrap().is_some());
}

#[test]
fn checks_that_were_made_are_not_made_again_each_time_constraints_become_immediate() {
    let family = Family::new(Deferral::Deferred);
    let mut tx = family.begin(Isolation::Snapshot);
    let began = Instant::now();
    for id in 0..20_000 {
        tx.set_constraints(&ConstraintChoice::All, CheckTime::Deferred).unwrap();
        family.child(&mut tx, id, 1).unwrap();
        tx.set_constraints(&ConstraintChoice::All, CheckTime::Immediate).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // What is undone has to be checked again.
    let savepoint = tx.savepoint();
    tx.set_constraints(&ConstraintChoice::All, CheckTime::Deferred).unwrap();
    family.child(&mut tx, 30_000, 8).unwrap();
    let before_parent = tx.savepoint();
    family.parent(&mut tx, 8);
    tx.set_constraints(&ConstraintChoice::All, CheckTime::Immediate).unwrap();
    tx.rollback_to(&before_parent);
    let outcome = tx.set_constraints(&ConstraintChoice::All, CheckTime::Immediate);
    assert!(is_missing_parent(&outcome), "{outcome:?}");
    tx.rollback_to(&savepoint);
    tx.commit().unwrap();
}
