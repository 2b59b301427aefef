// SPDX-License-Identifier: Apache-2.0
//! Writing rows: constraints of the row itself, uniqueness, index entries, footprint.

use super::cascade::Cascade;
use super::{Transaction, index_position};
use crate::catalog::IndexDef;
use crate::cursor::SpaceCursor;
use crate::delta::{BasePosition, DeltaEntry};
use crate::error::{ConstraintError, StoreError};
use crate::ids::SpaceId;
use crate::key::Key;
use crate::key_size::check_key_size;
use crate::range::{Direction, KeyRange};
use crate::row::Row;
use crate::space::{add_one, position_of};
use crate::table::{RowRef, Table, index_prefix};
use crate::taken_keys::{primary_key_taken, unique_key_taken};
use coeval_txn::Access;
use std::sync::Arc;

/// What happens to one index when a row changes.
struct EntryChange {
    position: usize,
    old: Option<Key>,
    new: Option<Key>,
    /// Length of the indexed columns in the old and the new entry, for unique indexes without a NULL in them.
    old_claim: Option<usize>,
    new_claim: Option<usize>,
}

impl Transaction {
    /// Adds a row and returns its primary key.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] if the primary key or a unique key has an owner, a NOT NULL column is NULL
    /// or a CHECK is false; [`StoreError::KeySize`] if one of its keys is too long; nothing is changed then. Foreign keys are checked by
    /// [`end_statement`](Self::end_statement).
    pub fn insert(&mut self, table: SpaceId, row: Row) -> Result<Key, StoreError> {
        self.writable("INSERT")?;
        let row = self.with_generated(table, row)?;
        if self.takes_locks() {
            self.lock_new_row(table, &row)?;
        }
        let table = Arc::clone(self.row_table(table)?);
        let key = self.check_row(&table, &row)?;
        self.note_key(table.id(), &key);
        if self.find(&table, &key)?.is_some() {
            let new = RowRef::of_row(table.def(), table.missing(), &row);
            return Err(primary_key_taken(table.def(), new).into());
        }
        let changes = self.entry_changes(&table, None, Some((&key, &row)))?;
        self.keep_change(table.def(), &key, Some(&row), None)?;
        self.check_parents(&table, None, &row);
        self.apply_entries(&table, changes);
        self.mark_row((table.id(), key.clone()), Access::Identity);
        self.child_lookups.note_written(&table, &key, &row);
        let writes = self.writes_mut(&table);
        add_one(&mut writes.rows, key.clone(), DeltaEntry::inserted(Some(row)));
        Ok(key)
    }

    /// Replaces the row with this key. The new row may have another key.
    ///
    /// # Errors
    /// [`StoreError::MissingRow`] if it is not there; [`StoreError::Constraint`] as for
    /// [`insert`](Self::insert), and if children refer to a key that changes. Nothing is changed then.
    pub fn update(&mut self, table: SpaceId, key: &Key, row: Row) -> Result<(), StoreError> {
        self.writable("UPDATE")?;
        self.with_children(|transaction, cascade| transaction.update_row(table, key, row, cascade))
    }

    /// Replaces a row; its children are left to the cascade.
    pub(super) fn update_row(
        &mut self,
        table: SpaceId,
        key: &Key,
        row: Row,
        cascade: &mut Cascade,
    ) -> Result<(), StoreError> {
        let row = self.with_generated(table, row)?;
        if self.takes_locks() {
            self.lock_old_row(table, key, Some(&row))?;
        }
        let table = Arc::clone(self.row_table(table)?);
        let new_key = self.check_row(&table, &row)?;
        self.note_key(table.id(), key);
        let found = self.find(&table, key)?.ok_or(StoreError::MissingRow)?;
        if new_key != *key {
            return self.move_row(&table, key, &new_key, row, cascade);
        }
        let position = position_of(found);
        let old = table.row_ref(found);
        let old_row = (!table.def().foreign_keys.is_empty() || self.is_parent(&table)).then(|| old.to_row());
        let changes = self.entry_changes(&table, Some((key, old)), Some((key, &row)))?;
        // Most changes concern no child, and need nothing to come back to.
        let parent = old_row
            .as_ref()
            .is_some_and(|old_row| self.concerns_children(&table, old_row, &row))
            .then(|| row.clone());
        if parent.is_some() {
            cascade.begin(self);
        }
        self.keep_change(table.def(), key, Some(&row), old_row.as_ref())?;
        if let Some(old_row) = &old_row {
            self.check_parents(&table, Some(old_row), &row);
        }
        self.apply_entries(&table, changes);
        self.mark_row((table.id(), key.clone()), Access::Update);
        self.child_lookups.note_written(&table, key, &row);
        let writes = self.writes_mut(&table);
        add_one(&mut writes.rows, key.clone(), DeltaEntry::replaced(row, position));
        // The row goes first: it may be a child of itself, and is changed as the children are.
        if let (Some(old), Some(new)) = (old_row, parent) {
            cascade.push(&table, old, Some(new));
        }
        Ok(())
    }

    /// A row whose primary key changes goes and comes back under the new one.
    fn move_row(
        &mut self,
        table: &Arc<Table>,
        old: &Key,
        new: &Key,
        row: Row,
        cascade: &mut Cascade,
    ) -> Result<(), StoreError> {
        self.note_key(table.id(), new);
        if self.find(table, new)?.is_some() {
            let new = RowRef::of_row(table.def(), table.missing(), &row);
            return Err(primary_key_taken(table.def(), new).into());
        }
        cascade.begin(self);
        let found = self.find(table, old)?.ok_or(StoreError::MissingRow)?;
        let old_row = table.row_ref(found).to_row();
        self.remove_row(table, old, Some(&old_row))?;
        self.insert(table.id(), row.clone())?;
        // The row goes first: it may be a child of itself, and is changed as the children are.
        if self.concerns_children(table, &old_row, &row) {
            let table = Arc::clone(self.table(table.id())?);
            cascade.push(&table, old_row, Some(row));
        }
        Ok(())
    }

    /// Adds the row, or replaces the one with its primary key.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`update`](Self::update).
    pub fn put(&mut self, table: SpaceId, row: Row) -> Result<(), StoreError> {
        let row = self.with_generated(table, row)?;
        let table_now = self.row_table(table)?;
        let new = RowRef::of_row(table_now.def(), table_now.missing(), &row);
        check_not_null(new)?;
        let key = new.key();
        if self.get(table, &key)?.is_some() {
            self.update(table, &key, row)
        } else {
            self.insert(table, row).map(drop)
        }
    }

    /// Removes the row with this key, and what its foreign keys' ON DELETE says; returns whether it was
    /// there.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] if children refer to it and what is to become of them may not be; nothing is changed
    /// then. Whether children are left that are not to be left is checked by [`end_statement`](Self::end_statement).
    pub fn delete(&mut self, table: SpaceId, key: &Key) -> Result<bool, StoreError> {
        self.writable("DELETE")?;
        self.with_children(|transaction, cascade| transaction.delete_row(table, key, cascade))
    }

    /// Removes a row, if it is there; its children are left to the cascade.
    pub(super) fn delete_row(
        &mut self,
        table: SpaceId,
        key: &Key,
        cascade: &mut Cascade,
    ) -> Result<bool, StoreError> {
        if self.takes_locks() {
            self.lock_old_row(table, key, None)?;
        }
        let table = Arc::clone(self.row_table(table)?);
        self.note_key(table.id(), key);
        let Some(found) = self.find(&table, key)? else { return Ok(false) };
        if !self.is_parent(&table) {
            self.remove_row(&table, key, None)?;
            return Ok(true);
        }
        let old_row = table.row_ref(found).to_row();
        cascade.begin(self);
        // The row goes first, so that a cycle of cascades finds it gone.
        self.remove_row(&table, key, Some(&old_row))?;
        cascade.push(&table, old_row, None);
        Ok(true)
    }

    /// Removes a row that is there, without a look at children; `old_row` is its copy, if that is kept for them.
    fn remove_row(&mut self, table: &Arc<Table>, key: &Key, old_row: Option<&Row>) -> Result<(), StoreError> {
        let found = self.find(table, key)?.ok_or(StoreError::MissingRow)?;
        let position = position_of(found);
        let old = table.row_ref(found);
        let changes = self.entry_changes(table, Some((key, old)), None)?;
        self.keep_change(table.def(), key, None, old_row)?;
        self.apply_entries(table, changes);
        self.mark_row((table.id(), key.clone()), Access::Identity);
        let writes = self.writes_mut(table);
        add_one(&mut writes.rows, key.clone(), DeltaEntry::deleted(position));
        Ok(())
    }

    /// Checks what concerns a row alone that is not written, since one of its keys has an owner.
    ///
    /// # Errors
    /// [`StoreError::Constraint`] for NOT NULL and CHECK.
    pub fn check_proposed(&self, table: SpaceId, row: &Row) -> Result<(), StoreError> {
        self.check_row(self.row_table(table)?, row).map(drop)
    }

    /// Checks what concerns the row alone and returns its key.
    fn check_row(&self, table: &Table, row: &Row) -> Result<Key, StoreError> {
        let new = RowRef::of_row(table.def(), table.missing(), row);
        check_not_null(new)?;
        if table.def().has_checks() {
            self.shared.row_checks(table)?.check(table.def(), row)?;
        }
        let key = new.key();
        check_key_size(&table.def().primary_key_name, key.as_slice())?;
        Ok(key)
    }

    /// What the change of a row from `old` to `new` does to the indexes; refuses a second owner.
    fn entry_changes(
        &self,
        table: &Table,
        old: Option<(&Key, RowRef<'_>)>,
        new: Option<(&Key, &Row)>,
    ) -> Result<Vec<EntryChange>, StoreError> {
        let def = table.def();
        let mut changes = Vec::new();
        let new = new.map(|(key, row)| (key, RowRef::of_row(def, table.missing(), row)));
        for (position, index) in def.indexes.iter().enumerate() {
            if let (Some((old_key, old)), Some((new_key, new))) = (old, new)
                && old_key == new_key
                && index.columns.iter().all(|&column| old.has_same(&new, column))
            {
                continue;
            }
            let (old, old_claim) = entry_of(index, old).unzip();
            let (new_entry, new_claim) = entry_of(index, new).unzip();
            if let Some(entry) = &new_entry {
                check_key_size(&index.name, entry.as_slice())?;
            }
            let change = EntryChange {
                position,
                old,
                new: new_entry,
                old_claim: old_claim.flatten(),
                new_claim: new_claim.flatten(),
            };
            if let (Some((_, row)), Some(entry), Some(length)) = (new, &change.new, change.new_claim) {
                let prefix = &entry.as_slice()[..length];
                let own = change.old.as_ref().is_some_and(|old| old.as_slice().starts_with(prefix));
                if !own && self.has_prefix(table, position, prefix)? {
                    return Err(unique_key_taken(def, index, row).into());
                }
            }
            changes.push(change);
        }
        Ok(changes)
    }

    fn has_prefix(&self, table: &Table, position: usize, prefix: &[u8]) -> Result<bool, StoreError> {
        let private = self.writes_of(table.id()).map(|writes| &writes.indexes[position]);
        let range = KeyRange::prefix(prefix);
        self.note_range(table.id(), table.def().indexes[position].id, &range);
        let mut entries = SpaceCursor::new(&table.indexes()[position], private, &range, Direction::Forward);
        Ok(entries.next().transpose()?.is_some())
    }

    fn apply_entries(&mut self, table: &Arc<Table>, changes: Vec<EntryChange>) {
        for change in changes {
            let index = table.def().indexes[change.position].id;
            for (entry, claim) in [(&change.old, change.old_claim), (&change.new, change.new_claim)] {
                if let (Some(entry), Some(length)) = (entry, claim) {
                    self.mark_row((index, Key::from_slice(&entry.as_slice()[..length])), Access::Identity);
                }
            }
            let entries = &mut self.writes_mut(table).indexes[change.position];
            if change.old == change.new {
                continue;
            }
            if let Some(old) = change.old {
                add_one(entries, old, DeltaEntry::deleted(BasePosition::UNKNOWN));
            }
            if let Some(new) = change.new {
                add_one(entries, new, DeltaEntry::inserted(None));
            }
        }
    }

    /// Whether an index of the table has entries that start with these columns' values.
    pub(super) fn index_has(&self, table: &Table, index: SpaceId, prefix: &[u8]) -> Result<bool, StoreError> {
        let position = index_position(table.def(), index)?;
        self.has_prefix(table, position, prefix)
    }
}

/// The entry of a row in an index, and the length of its claim if the index is unique and no indexed column
/// is NULL.
fn entry_of(index: &IndexDef, row: Option<(&Key, RowRef<'_>)>) -> Option<(Key, Option<usize>)> {
    let (key, row) = row?;
    let mut writer = index_prefix(index, |column| row.get(column));
    let length = writer.as_slice().len();
    writer.push_raw(key.as_slice());
    let claims =
        index.uniqueness.is_unique() && index.columns.iter().all(|&column| !row.get(column).is_null());
    Some((writer.finish(), claims.then_some(length)))
}

fn check_not_null(row: RowRef<'_>) -> Result<(), ConstraintError> {
    let def = row.def();
    // From the NULLs of the row and not from the columns of the definition: most rows have none.
    match row.null_columns().find(|&column| def.columns[column].not_null) {
        None => Ok(()),
        Some(column) => Err(ConstraintError::NotNull {
            table: Box::new(def.name.clone()),
            column: def.columns[column].name.clone(),
        }),
    }
}
