// SPDX-License-Identifier: Apache-2.0
//! The children of a parent row: by the primary key, by an index, or by all rows of the child table.
//!
//! A statement that removes many parents looks for the children of each. Where no index leads to them, the first look
//! reads all rows, and the second one notes all rows by their parents, so that the others find them at once: the
//! statement costs two scans, not one for each parent.
//!
//! # Why the noted rows are right
//! They belong to one world, and to what the transaction had written by then. Rows that it writes later are noted as
//! they are written; a row that is noted is looked at again before it counts as a child. When the transaction moves to
//! another world, goes back to a savepoint or ends its statement, the notes are thrown away.

use super::Transaction;
use crate::catalog::{ForeignKeyDef, TableDef};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::range::{Direction, KeyRange};
use crate::row::Row;
use crate::row_lock_error::RowLockError;
use crate::table::{RowRef, Table};
use crate::transaction::foreign_key::in_width_of;
use crate::value::{KeyWriter, Value};
use crate::world::World;
use coeval_txn::Interrupt;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows of a child table that are noted at most, some hundred bytes each; larger tables are read for each parent.
const NOTED_CHILDREN_MAX: usize = 1 << 20;

/// After so many rows of a walk it looks whether the statement is to end.
const ROWS_BETWEEN_LOOKS: usize = 1 << 10;

/// What the looks for children without an index have noted in this statement.
#[derive(Debug, Default)]
pub(super) struct ChildLookups {
    lookups: Vec<ChildLookup>,
}

/// The rows of a child table by the values of some of its columns.
#[derive(Debug)]
struct ChildLookup {
    child: SpaceId,
    columns: Vec<usize>,
    /// The world that was read.
    world: Arc<World>,
    noted: Noted,
}

#[derive(Debug)]
enum Noted {
    /// Nothing: a single look was made so far.
    Nothing,
    /// Nothing: there are too many rows.
    TooMany,
    /// The primary keys of the rows with these values, and of some that had them.
    Rows(HashMap<Key, Vec<Key>>),
}

impl ChildLookups {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.lookups.clear();
    }

    /// The lookup by these columns, if it was made in this world.
    fn get(&self, child: SpaceId, columns: &[usize], world: &Arc<World>) -> Option<usize> {
        let is_meant = |lookup: &ChildLookup| {
            lookup.child == child && lookup.columns == columns && Arc::ptr_eq(&lookup.world, world)
        };
        self.lookups.iter().position(is_meant)
    }

    fn put(&mut self, lookup: ChildLookup) {
        self.lookups.retain(|other| other.child != lookup.child || other.columns != lookup.columns);
        self.lookups.push(lookup);
    }

    /// A row of a table was written. Costs nothing where no lookup was made.
    #[inline]
    pub(super) fn note_written(&mut self, table: &Table, key: &Key, row: &Row) {
        if self.lookups.is_empty() {
            return;
        }
        let row = RowRef::of_row(table.def(), table.missing(), row);
        for lookup in self.lookups.iter_mut().filter(|lookup| lookup.child == table.id()) {
            if let (Noted::Rows(rows), Some(values)) = (&mut lookup.noted, values_of(row, &lookup.columns)) {
                rows.entry(values).or_default().push(key.clone());
            }
        }
    }
}

impl Transaction {
    /// The keys of the children of a parent row.
    ///
    /// # Errors
    /// [`StoreError::RowLock`] if the transaction is asked to stop meanwhile.
    pub(super) fn children_of(
        &mut self,
        child: &Arc<Table>,
        foreign_key: &ForeignKeyDef,
        parent: RowRef<'_>,
    ) -> Result<Vec<Key>, StoreError> {
        let def = child.def();
        let value_of = |column: usize| {
            let position = foreign_key.columns.iter().position(|&candidate| candidate == column)?;
            let value = parent.get(foreign_key.parent_columns[position]);
            in_width_of(value, def.columns[column].ty.physical())
        };
        if foreign_key.columns.iter().any(|&column| value_of(column).is_none()) {
            return Ok(Vec::new());
        }
        let width = foreign_key.columns.len();
        let covers = |columns: &[usize]| {
            columns.len() >= width && columns[..width].iter().all(|&column| value_of(column).is_some())
        };
        if covers(&def.primary_key) {
            let mut writer = KeyWriter::new();
            let values = def.primary_key[..width].iter().filter_map(|&column| value_of(column));
            values.for_each(|value| writer.push(value.borrow()));
            let range = KeyRange::prefix(writer.as_slice());
            let rows = self.scan(def.id, &range, Direction::Forward)?;
            return rows.map(|row| row.map(|(key, _)| key)).collect();
        }
        if let Some(index) = def.indexes.iter().find(|index| covers(&index.columns)) {
            let range = KeyRange::prefix(&encoded(&index.columns[..width], value_of));
            let entries = self.scan_index(def.id, index.id, &range, Direction::Forward)?;
            return entries.map(|entry| entry.map(|entry| entry.primary_key)).collect();
        }
        let values = Key::from_slice(&encoded(&foreign_key.columns, value_of));
        self.children_without_index(child, &foreign_key.columns, &values)
    }

    /// The keys of the rows of a table that have these values in these columns.
    fn children_without_index(
        &mut self,
        child: &Arc<Table>,
        columns: &[usize],
        values: &Key,
    ) -> Result<Vec<Key>, StoreError> {
        let Some(place) = self.child_lookups.get(child.id(), columns, &self.world) else {
            let lookup = ChildLookup {
                child: child.id(),
                columns: columns.to_vec(),
                world: Arc::clone(&self.world),
                noted: Noted::Nothing,
            };
            self.child_lookups.put(lookup);
            return self.children_among_all(child.def(), columns, values);
        };
        if matches!(self.child_lookups.lookups[place].noted, Noted::Nothing) {
            self.child_lookups.lookups[place].noted = self.note_children(child.def(), columns)?;
        }
        match &self.child_lookups.lookups[place].noted {
            Noted::Nothing | Noted::TooMany => self.children_among_all(child.def(), columns, values),
            Noted::Rows(rows) => {
                let mut keys = Vec::new();
                for key in rows.get(values).into_iter().flatten() {
                    let found = self.find(child, key)?.map(|found| child.row_ref(found));
                    if found.and_then(|row| values_of(row, columns)).is_some_and(|now| now == *values) {
                        keys.push(key.clone());
                    }
                }
                // A row that was written again with the same values was noted again.
                keys.sort_unstable();
                keys.dedup();
                Ok(keys)
            }
        }
    }

    fn children_among_all(
        &self,
        child: &TableDef,
        columns: &[usize],
        values: &Key,
    ) -> Result<Vec<Key>, StoreError> {
        let mut keys = Vec::new();
        for (place, found) in self.scan(child.id, &KeyRange::all(), Direction::Forward)?.enumerate() {
            if place % ROWS_BETWEEN_LOOKS == 0 {
                self.stop_if_asked()?;
            }
            let (key, row) = found?;
            if values_of(row, columns).is_some_and(|found| found == *values) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// All rows of a child table by their parents.
    fn note_children(&self, child: &TableDef, columns: &[usize]) -> Result<Noted, StoreError> {
        let mut rows: HashMap<Key, Vec<Key>> = HashMap::new();
        for (place, found) in self.scan(child.id, &KeyRange::all(), Direction::Forward)?.enumerate() {
            if place >= NOTED_CHILDREN_MAX {
                return Ok(Noted::TooMany);
            }
            if place % ROWS_BETWEEN_LOOKS == 0 {
                self.stop_if_asked()?;
            }
            let (key, row) = found?;
            if let Some(values) = values_of(row, columns) {
                rows.entry(values).or_default().push(key);
            }
        }
        Ok(Noted::Rows(rows))
    }

    /// For loops over what a statement has to do: whether it is to end.
    ///
    /// # Errors
    /// [`StoreError::RowLock`] if it is, as a wait for a row lock would end.
    #[inline]
    pub(super) fn stop_if_asked(&self) -> Result<(), StoreError> {
        interrupted(self.lock_waits.interrupt.as_deref())
    }

    /// The same for work on several threads.
    pub(super) fn stop(&self) -> impl Fn() -> Result<(), StoreError> + Sync + use<> {
        let interrupt = self.lock_waits.interrupt.clone();
        move || interrupted(interrupt.as_deref())
    }
}

fn interrupted(interrupt: Option<&(dyn Interrupt + Send + Sync)>) -> Result<(), StoreError> {
    match interrupt {
        Some(interrupt) if interrupt.is_set() => Err(RowLockError::Interrupted.into()),
        _ => Ok(()),
    }
}

/// The values of these columns of a row as an index would hold them; none if one is NULL, since such a row refers to
/// nothing.
fn values_of(row: RowRef<'_>, columns: &[usize]) -> Option<Key> {
    let mut writer = KeyWriter::new();
    for &column in columns {
        let value = row.get(column);
        if value.is_null() {
            return None;
        }
        writer.push_nullable(value);
    }
    Some(writer.finish())
}

/// Whether a row refers by a foreign key to a parent that has, or had, these values.
pub(super) fn refers_to(
    child: &TableDef,
    foreign_key: &ForeignKeyDef,
    row: &RowRef<'_>,
    parent: RowRef<'_>,
) -> bool {
    let parent_of = |column: usize| {
        let position = foreign_key.columns.iter().position(|&candidate| candidate == column)?;
        let value = parent.get(foreign_key.parent_columns[position]);
        in_width_of(value, child.columns[column].ty.physical())
    };
    encoded(&foreign_key.columns, |column| Some(row.get(column).to_owned()))
        == encoded(&foreign_key.columns, parent_of)
}

fn encoded(columns: &[usize], value_of: impl Fn(usize) -> Option<Value>) -> Vec<u8> {
    let mut writer = KeyWriter::new();
    columns
        .iter()
        .filter_map(|&column| value_of(column))
        .for_each(|value| writer.push_nullable(value.borrow()));
    writer.as_slice().to_vec()
}
