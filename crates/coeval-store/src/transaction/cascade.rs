// SPDX-License-Identifier: Apache-2.0
//! What becomes of the children of parent rows that go or change: CASCADE, SET NULL, SET DEFAULT, and the checks of
//! those that refuse.
//!
//! A child that goes may be a parent itself, and so on, as deep as there are rows. So nothing here calls itself: a row
//! that has changed is put at the end of a list, and the list is worked off, the oldest first, as PostgreSQL does it.
//! Whoever began takes everything back if a step fails; until then each step costs the same, however many came before.

use super::children::refers_to;
use super::foreign_key::{PendingCheck, in_width_of};
use super::{IfLocked, RowLock, Savepoint, Transaction};
use crate::catalog::{ForeignKeyDef, ReferentialAction, TableDef};
use crate::error::{ConstraintError, StoreError};
use crate::footprint::definition_key;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::row::Row;
use crate::table::{RowRef, Table};
use crate::value::Value;
use coeval_txn::{Access, LockStrength};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows that have changed because one was changed, and are not followed yet to their children.
#[derive(Debug, Default)]
pub(super) struct Cascade {
    changed: VecDeque<ChangedParent>,
    /// Where to go back to if a step fails; none as long as nothing has changed that would have to be taken back.
    before: Option<Savepoint>,
}

/// A parent row that has gone (`new` is `None`) or changed.
#[derive(Debug)]
struct ChangedParent {
    table: Arc<Table>,
    old: Row,
    new: Option<Row>,
}

impl Cascade {
    /// Notes where to go back to, before the first change.
    pub(super) fn begin(&mut self, transaction: &Transaction) {
        if self.before.is_none() {
            self.before = Some(transaction.savepoint());
        }
    }

    /// A row has gone or changed: its children are next.
    pub(super) fn push(&mut self, table: &Arc<Table>, old: Row, new: Option<Row>) {
        self.changed.push_back(ChangedParent { table: Arc::clone(table), old, new });
    }
}

impl Transaction {
    /// Makes a change of rows with all that follows from it for children; nothing of it stays if a step fails.
    pub(super) fn with_children<T>(
        &mut self,
        change: impl FnOnce(&mut Self, &mut Cascade) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut cascade = Cascade::default();
        let outcome = change(self, &mut cascade).and_then(|value| {
            while let Some(changed) = cascade.changed.pop_front() {
                self.parent_changed(&changed, &mut cascade)?;
            }
            Ok(value)
        });
        if let (Err(_), Some(before)) = (&outcome, &cascade.before) {
            self.rollback_to(before);
        }
        outcome
    }

    /// Whether a row that changes so has to be followed to its children.
    pub(super) fn concerns_children(&self, parent: &Table, old: &Row, new: &Row) -> bool {
        self.catalog().children(parent.id()).filter_map(|child| self.table(child).ok()).any(|child| {
            let mut foreign_keys = child.def().foreign_keys.iter().filter(|key| key.parent == parent.id());
            foreign_keys.any(|foreign_key| is_given_up(parent, foreign_key, old, Some(new)))
        })
    }

    /// Does what the foreign keys of the children say about a row that has gone, or that has changed columns that they
    /// refer to.
    fn parent_changed(&mut self, changed: &ChangedParent, cascade: &mut Cascade) -> Result<(), StoreError> {
        let parent = &changed.table;
        let children: Vec<SpaceId> = self.catalog().children(parent.id()).collect();
        for child in children {
            let child = Arc::clone(self.table(child)?);
            for foreign_key in child.def().foreign_keys.iter().filter(|key| key.parent == parent.id()) {
                if is_given_up(parent, foreign_key, &changed.old, changed.new.as_ref()) {
                    self.stop_if_asked()?;
                    if self.takes_locks() {
                        self.look_at_children(child.id())?;
                    }
                    self.mark(definition_key(child.id()), Access::Reference);
                    self.follow(changed, &child, foreign_key, cascade)?;
                }
            }
        }
        Ok(())
    }

    /// Does what one foreign key says.
    fn follow(
        &mut self,
        changed: &ChangedParent,
        child: &Arc<Table>,
        foreign_key: &ForeignKeyDef,
        cascade: &mut Cascade,
    ) -> Result<(), StoreError> {
        let action = if changed.new.is_some() { foreign_key.on_update } else { foreign_key.on_delete };
        let (name, parent_row) = (|| foreign_key.name.clone(), || changed.old.clone());
        let check =
            || PendingCheck::Children { child: child.id(), foreign_key: name(), parent_row: parent_row() };
        match action {
            ReferentialAction::NoAction => {
                self.check_later(foreign_key, check());
                return Ok(());
            }
            ReferentialAction::Restrict => {
                // Not put off any further, but children that go in this very statement do not count.
                let (foreign_key, parent_row) = (name(), parent_row());
                self.pending.push(PendingCheck::Restricted { child: child.id(), foreign_key, parent_row });
                return Ok(());
            }
            ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => {}
        }
        let old = RowRef::of_row(changed.table.def(), changed.table.missing(), &changed.old);
        let keys = self.children_of(child, foreign_key, old)?;
        let has_children = !keys.is_empty();
        for key in keys {
            self.stop_if_asked()?;
            self.change_child(changed, child, foreign_key, &key, cascade)?;
        }
        if has_children && action == ReferentialAction::SetDefault {
            // The default may be the very parent that goes.
            self.check_later(foreign_key, check());
        }
        Ok(())
    }

    /// Changes or removes one child as the foreign key says.
    fn change_child(
        &mut self,
        changed: &ChangedParent,
        child: &Arc<Table>,
        foreign_key: &ForeignKeyDef,
        key: &Key,
        cascade: &mut Cascade,
    ) -> Result<(), StoreError> {
        if self.takes_locks() {
            let lock = RowLock { table: child.id(), key: key.clone(), strength: LockStrength::Update };
            self.lock_rows(&[lock], IfLocked::Wait)?;
        }
        // An earlier step may have taken the row already, and who was waited for may have given it to another parent.
        let Some(row) = self.get(child.id(), key)? else { return Ok(()) };
        let old = RowRef::of_row(changed.table.def(), changed.table.missing(), &changed.old);
        if !refers_to(child.def(), foreign_key, &row, old) {
            return Ok(());
        }
        match (&changed.new, foreign_key.on_delete, foreign_key.on_update) {
            (None, ReferentialAction::Cascade, _) => self.delete_row(child.id(), key, cascade).map(drop),
            (Some(new), _, ReferentialAction::Cascade) => {
                let new = RowRef::of_row(changed.table.def(), changed.table.missing(), new);
                let row = row.with(&cascaded(child.def(), foreign_key, new)?);
                self.update_row(child.id(), key, row, cascade)
            }
            (None, action, _) | (Some(_), _, action) => {
                let changes = self.set_values(child, foreign_key, action)?;
                let row = row.with(&changes);
                self.update_row(child.id(), key, row, cascade)
            }
        }
    }

    /// What SET NULL or SET DEFAULT puts into the columns of a foreign key.
    fn set_values(
        &self,
        child: &Table,
        foreign_key: &ForeignKeyDef,
        action: ReferentialAction,
    ) -> Result<Vec<(usize, Value)>, StoreError> {
        let columns = foreign_key.columns.iter().copied();
        if action == ReferentialAction::SetNull {
            return Ok(columns.map(|column| (column, Value::Null)).collect());
        }
        let expressions = self.shared.row_checks(child)?;
        let defaults = columns.map(|column| Ok((column, expressions.default_value(child.def(), column)?)));
        defaults.collect::<Result<_, ConstraintError>>().map_err(StoreError::from)
    }
}

/// What ON UPDATE CASCADE puts into the columns of a foreign key.
fn cascaded(
    child: &TableDef,
    foreign_key: &ForeignKeyDef,
    parent: RowRef<'_>,
) -> Result<Vec<(usize, Value)>, ConstraintError> {
    let pairs = foreign_key.columns.iter().zip(&foreign_key.parent_columns);
    let changes = pairs.map(|(&column, &of)| {
        let ty = child.columns[column].ty;
        let value = in_width_of(parent.get(of), ty.physical());
        let out_of_range =
            || ConstraintError::Expression { state: "22003", message: format!("{ty} out of range") };
        Ok((column, value.ok_or_else(out_of_range)?))
    });
    changes.collect()
}

/// Whether a parent row that is deleted or changed had a key that children can refer to, and no longer has it.
fn is_given_up(parent: &Table, foreign_key: &ForeignKeyDef, old: &Row, new: Option<&Row>) -> bool {
    let (def, missing) = (parent.def(), parent.missing());
    let old = RowRef::of_row(def, missing, old);
    let columns = &foreign_key.parent_columns;
    let is_kept = new.is_some_and(|new| {
        let new = RowRef::of_row(def, missing, new);
        columns.iter().all(|&column| new.get(column) == old.get(column))
    });
    !is_kept && columns.iter().all(|&column| !old.get(column).is_null())
}
