// SPDX-License-Identifier: Apache-2.0
//! Foreign keys: parents of new children, and what waits for the end of the statement. What becomes of the children of a
//! parent that goes is in `cascade.rs`.
//!
//! A child notes a *reference* to its parent's key in the footprint, a parent that goes or changes its key
//! notes an *identity* change of it; certification lets only one of two such concurrent transactions commit.
//! So the checks here, which read the snapshot and own writes, hold at commit too.

use super::{GlobalKey, Transaction};
use crate::catalog::{ForeignKeyDef, TableDef};
use crate::chunk::Chunk;
use crate::error::{ConstraintError, StoreError};
use crate::footprint::definition_key;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::row::Row;
use crate::space::Found;
use crate::table::{RowRef, Table, describe_columns};
use crate::types::Physical;
use crate::value::{KeyWriter, Value, ValueRef};
use coeval_txn::Access;
use std::collections::HashSet;
use std::sync::Arc;

/// A check that waits for the end of the statement, or of the transaction.
#[derive(Clone, Debug)]
pub(crate) enum PendingCheck {
    /// This child row's parent must be there, if the row still is.
    Parent { child: SpaceId, foreign_key: String, key: Key },
    /// No child may refer to these values of the parent, unless the parent is there again.
    Children { child: SpaceId, foreign_key: String, parent_row: Row },
    /// The same of RESTRICT: not even if the parent is there again.
    Restricted { child: SpaceId, foreign_key: String, parent_row: Row },
}

impl PendingCheck {
    /// The child table and the name of its foreign key.
    pub(super) fn constraint(&self) -> (SpaceId, &str) {
        match self {
            Self::Parent { child, foreign_key, .. }
            | Self::Children { child, foreign_key, .. }
            | Self::Restricted { child, foreign_key, .. } => (*child, foreign_key),
        }
    }
}

/// What a parent means that is there again, its key taken by another row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfThereAgain {
    Allowed,
    Refused,
}

/// Where a parent key is looked up.
enum ParentKey {
    /// The primary key.
    Primary(Key),
    /// The prefix of an entry of this unique index.
    Unique(SpaceId, Key),
    /// No row can have it: a number beyond the range of its column.
    Nowhere,
}

impl Transaction {
    /// Checks what waits for the end of the statement.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] for a foreign key that does not hold, [`StoreError::RowLock`] if the transaction is
    /// asked to stop ([`LockWaits`](super::LockWaits)); the caller rolls back to where the statement began.
    pub fn end_statement(&mut self) -> Result<(), StoreError> {
        while let Some(check) = self.pending.pop() {
            self.stop_if_asked()?;
            self.check_now(check)?;
        }
        self.child_lookups.clear();
        Ok(())
    }

    /// Makes one check.
    pub(super) fn check_now(&mut self, check: PendingCheck) -> Result<(), StoreError> {
        match check {
            PendingCheck::Parent { child, foreign_key, key } => {
                self.check_parent_now(child, &foreign_key, &key)
            }
            PendingCheck::Children { child, foreign_key, parent_row } => {
                self.check_children_now(child, &foreign_key, &parent_row, IfThereAgain::Allowed)
            }
            PendingCheck::Restricted { child, foreign_key, parent_row } => {
                self.check_children_now(child, &foreign_key, &parent_row, IfThereAgain::Refused)
            }
        }
    }

    /// Notes a check for the end of the statement or, if the constraint is deferred now, of the transaction.
    pub(super) fn check_later(&mut self, foreign_key: &ForeignKeyDef, check: PendingCheck) {
        if self.deferred.puts_off(check.constraint().0, foreign_key) {
            self.deferred.push(check);
        } else {
            self.pending.push(check);
        }
    }

    /// Whether other rows may refer to rows of this table.
    pub(super) fn is_parent(&self, table: &Table) -> bool {
        self.catalog().children(table.id()).next().is_some()
    }

    /// Notes the checks of a new or changed row's parents.
    pub(super) fn check_parents(&mut self, table: &Arc<Table>, old: Option<&Row>, new: &Row) {
        let def = table.def();
        let new = RowRef::of_row(def, table.missing(), new);
        for foreign_key in &def.foreign_keys {
            let unchanged = old.is_some_and(|old| {
                let old = RowRef::of_row(def, table.missing(), old);
                foreign_key.columns.iter().all(|&column| old.get(column) == new.get(column))
            });
            if !unchanged && foreign_key.columns.iter().all(|&column| !new.get(column).is_null()) {
                let name = foreign_key.name.clone();
                let check = PendingCheck::Parent { child: def.id, foreign_key: name, key: new.key() };
                self.check_later(foreign_key, check);
            }
        }
    }

    /// Looks up the parents of rows that have become chunks, each once, and notes that they are referred to.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] for the first row without a parent.
    pub(super) fn reference_parents(
        &mut self,
        table: &Arc<Table>,
        chunks: &[Arc<Chunk>],
    ) -> Result<(), StoreError> {
        let def = table.def();
        for foreign_key in &def.foreign_keys {
            let parent = Arc::clone(self.table(foreign_key.parent)?);
            let mut found = HashSet::new();
            for chunk in chunks {
                for index in 0..chunk.rows() {
                    let row = RowRef::new(def, table.missing(), Found::Base(chunk, index));
                    if foreign_key.columns.iter().any(|&column| row.get(column).is_null()) {
                        continue;
                    }
                    let value = |position: usize| row.get(foreign_key.columns[position]);
                    let (ParentKey::Primary(key) | ParentKey::Unique(_, key)) =
                        parent_key(parent.def(), foreign_key, value)?
                    else {
                        return Err(parent_missing(def, foreign_key, parent.def(), row).into());
                    };
                    if found.contains(&key) {
                        continue;
                    }
                    let mark = self.find_parent(&parent, foreign_key, value)?;
                    let mark = mark.ok_or_else(|| parent_missing(def, foreign_key, parent.def(), row))?;
                    self.mark_row(mark, Access::Reference);
                    found.insert(key);
                }
            }
            self.mark(definition_key(parent.id()), Access::Reference);
        }
        Ok(())
    }

    fn check_parent_now(&mut self, child: SpaceId, name: &str, key: &Key) -> Result<(), StoreError> {
        // The table or the row may be gone again by the end of the statement.
        let Ok(table) = self.table(child) else { return Ok(()) };
        let table = Arc::clone(table);
        let def = table.def();
        let Some(foreign_key) = def.foreign_keys.iter().find(|candidate| candidate.name == name) else {
            return Ok(());
        };
        let Some(row) = self.get(child, key)?.map(|row| row.to_row()) else { return Ok(()) };
        let row = RowRef::of_row(def, table.missing(), &row);
        if foreign_key.columns.iter().any(|&column| row.get(column).is_null()) {
            return Ok(());
        }
        let value = |position: usize| row.get(foreign_key.columns[position]);
        if self.takes_locks()
            && let Some(key) = global_parent_key(self.table_def(foreign_key.parent)?, foreign_key, value)?
        {
            self.lock_parent(foreign_key.parent, &key)?;
        }
        let parent = Arc::clone(self.table(foreign_key.parent)?);
        let found = self.find_parent(&parent, foreign_key, value)?;
        let Some(mark) = found else {
            return Err(parent_missing(def, foreign_key, parent.def(), row).into());
        };
        self.mark_row(mark, Access::Reference);
        self.mark(definition_key(parent.id()), Access::Reference);
        Ok(())
    }

    /// The key to certify the parent with these values by; `None` if it is not there.
    fn find_parent<'v>(
        &self,
        parent: &Table,
        foreign_key: &ForeignKeyDef,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<Option<GlobalKey>, StoreError> {
        Ok(match parent_key(parent.def(), foreign_key, value)? {
            ParentKey::Primary(key) => {
                let is_there = self.find(parent, &key)?.is_some();
                if !is_there {
                    // That a parent is there is certified as a reference; that none is, is a read.
                    self.note_key(parent.id(), &key);
                }
                is_there.then(|| (parent.id(), key))
            }
            ParentKey::Unique(index, prefix) => {
                self.index_has(parent, index, prefix.as_slice())?.then_some((index, prefix))
            }
            ParentKey::Nowhere => None,
        })
    }

    fn check_children_now(
        &mut self,
        child: SpaceId,
        name: &str,
        row: &Row,
        if_there_again: IfThereAgain,
    ) -> Result<(), StoreError> {
        if self.takes_locks() {
            self.look_at_children(child)?;
        }
        let Ok(child) = self.table(child) else { return Ok(()) };
        let child = Arc::clone(child);
        let Some(foreign_key) = child.def().foreign_keys.iter().find(|key| key.name == name) else {
            return Ok(());
        };
        let parent = Arc::clone(self.table(foreign_key.parent)?);
        let row = RowRef::of_row(parent.def(), parent.missing(), row);
        let value = |position: usize| row.get(foreign_key.parent_columns[position]);
        let is_allowed = if_there_again == IfThereAgain::Allowed
            && self.find_parent(&parent, foreign_key, value)?.is_some();
        if is_allowed || self.children_of(&child, foreign_key, row)?.is_empty() {
            return Ok(());
        }
        Err(still_referenced(parent.def(), child.def(), foreign_key, row).into())
    }
}

/// The key of the parent whose referred columns have these values (by position in the foreign key).
fn parent_key<'v>(
    parent: &TableDef,
    foreign_key: &ForeignKeyDef,
    value: impl Fn(usize) -> ValueRef<'v>,
) -> Result<ParentKey, StoreError> {
    let value_of = |column: usize| -> Result<Option<Value>, StoreError> {
        let position = foreign_key.parent_columns.iter().position(|&candidate| candidate == column);
        let position = position.ok_or(StoreError::UnknownSpace(parent.id))?;
        Ok(in_width_of(value(position), parent.columns[column].ty.physical()))
    };
    let same_columns = |columns: &[usize]| {
        columns.len() == foreign_key.parent_columns.len()
            && columns.iter().all(|column| foreign_key.parent_columns.contains(column))
    };
    let mut writer = KeyWriter::new();
    if same_columns(&parent.primary_key) {
        for &column in &parent.primary_key {
            let Some(value) = value_of(column)? else { return Ok(ParentKey::Nowhere) };
            writer.push(value.borrow());
        }
        return Ok(ParentKey::Primary(writer.finish()));
    }
    let unique =
        parent.indexes.iter().find(|index| index.uniqueness.is_unique() && same_columns(&index.columns));
    let index = unique.ok_or(StoreError::UnknownSpace(parent.id))?;
    for &column in &index.columns {
        let Some(value) = value_of(column)? else { return Ok(ParentKey::Nowhere) };
        writer.push_nullable(value.borrow());
    }
    Ok(ParentKey::Unique(index.id, writer.finish()))
}

/// The key that the parent with these values is certified and locked by, if there can be one.
fn global_parent_key<'v>(
    parent: &TableDef,
    foreign_key: &ForeignKeyDef,
    value: impl Fn(usize) -> ValueRef<'v>,
) -> Result<Option<GlobalKey>, StoreError> {
    Ok(match parent_key(parent, foreign_key, value)? {
        ParentKey::Primary(key) => Some((parent.id, key)),
        ParentKey::Unique(index, prefix) => Some((index, prefix)),
        ParentKey::Nowhere => None,
    })
}

/// An integer in the width of the column that it is compared with, `None` if it does not fit, so that nothing there
/// is equal to it. Other types are the same on both sides (checked when the constraint is made).
pub(crate) fn in_width_of(value: ValueRef<'_>, physical: Physical) -> Option<Value> {
    let Some(number) = value.as_i64() else { return Some(value.to_owned()) };
    match physical {
        Physical::Int16 => i16::try_from(number).ok().map(Value::Int16),
        Physical::Int32 => i32::try_from(number).ok().map(Value::Int32),
        _ => Some(Value::Int64(number)),
    }
}

fn parent_missing(
    child: &TableDef,
    foreign_key: &ForeignKeyDef,
    parent: &TableDef,
    row: RowRef<'_>,
) -> ConstraintError {
    ConstraintError::ForeignKeyMissing {
        table: Box::new(child.name.clone()),
        constraint: foreign_key.name.clone(),
        parent: Box::new(parent.name.clone()),
        key: describe_columns(child, &foreign_key.columns, |column| row.get(column)),
    }
}

fn still_referenced(
    parent: &TableDef,
    child: &TableDef,
    foreign_key: &ForeignKeyDef,
    row: RowRef<'_>,
) -> ConstraintError {
    ConstraintError::ForeignKeyReferenced {
        table: Box::new(child.name.clone()),
        constraint: foreign_key.name.clone(),
        parent: Box::new(parent.name.clone()),
        key: describe_columns(parent, &foreign_key.parent_columns, |column| row.get(column)),
    }
}

#[cfg(test)]
mod tests;
