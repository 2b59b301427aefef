// SPDX-License-Identifier: Apache-2.0
//! The unique keys of a table, and the rows that own those of a row which ON CONFLICT proposes.

use coeval_store::{
    Direction, IndexDef, Key, KeyRange, KeyWriter, LockedState, Row, StoreError, TableDef, Transaction,
    Uniqueness, ValueRef,
};
use coeval_txn::LockStrength;

/// A unique key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UniqueKey {
    /// Its primary key.
    Primary,
    /// The unique index at this place of the definition.
    Index(usize),
}

impl UniqueKey {
    /// All that a table has.
    pub(crate) fn all(def: &TableDef) -> Vec<Self> {
        let primary = def.has_declared_primary_key().then_some(Self::Primary);
        let unique = def.indexes.iter().enumerate().filter(|(_, index)| index.uniqueness.is_unique());
        primary.into_iter().chain(unique.map(|(place, _)| Self::Index(place))).collect()
    }

    /// That of the constraint with this name.
    pub(crate) fn of_constraint(def: &TableDef, name: &str) -> Option<Self> {
        if def.has_declared_primary_key() && def.primary_key_name == name {
            return Some(Self::Primary);
        }
        let constraint = |index: &IndexDef| index.uniqueness == Uniqueness::Constraint && index.name == name;
        def.indexes.iter().position(constraint).map(Self::Index)
    }

    /// Its columns.
    pub(crate) fn columns(self, def: &TableDef) -> &[usize] {
        match self {
            Self::Primary => &def.primary_key,
            Self::Index(place) => &def.indexes[place].columns,
        }
    }

    /// The row that has this key's columns in common with the values, own writes included. NULLs have nothing in common.
    ///
    /// # Errors
    /// If the table or index is gone: a bug.
    fn owner<'v>(
        self,
        transaction: &Transaction,
        def: &TableDef,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<Option<Key>, StoreError> {
        let columns = self.columns(def);
        if columns.iter().any(|&column| value(column).is_null()) {
            return Ok(None);
        }
        let Self::Index(place) = self else {
            let key = def.key_of(value);
            return Ok(transaction.get(def.id, &key)?.is_some().then_some(key));
        };
        let mut prefix = KeyWriter::new();
        columns.iter().for_each(|&column| prefix.push_nullable(value(column)));
        let range = KeyRange::prefix(prefix.as_slice());
        let mut entries =
            transaction.scan_index(def.id, def.indexes[place].id, &range, Direction::Forward)?;
        Ok(entries.next().transpose()?.map(|entry| entry.primary_key))
    }
}

/// The unique keys that an ON CONFLICT clause means.
#[derive(Debug)]
pub(crate) struct Arbiters {
    pub(crate) keys: Vec<UniqueKey>,
    /// How the row that owns one is locked, if it is going to be updated.
    pub(crate) update: Option<LockStrength>,
}

impl Arbiters {
    fn found_owner<'v>(
        &self,
        transaction: &Transaction,
        def: &TableDef,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<Option<Key>, StoreError> {
        let mut owners = self.keys.iter().map(|key| key.owner(transaction, def, value));
        owners.find_map(Result::transpose).transpose()
    }

    /// The owner of one of the row's keys. Where writes take locks it is the newest one, and locked if it is going
    /// to be updated; if there is none, the keys are locked.
    ///
    /// # Errors
    /// As those of locks.
    pub(crate) fn owner<'v>(
        &self,
        transaction: &mut Transaction,
        def: &TableDef,
        row: &Row,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<Option<Key>, StoreError> {
        loop {
            let owner = self.found_owner(transaction, def, value)?;
            let state = match (&owner, self.update) {
                (Some(key), Some(strength)) => transaction.lock_for_update(def.id, key, strength)?,
                (Some(_), None) => LockedState::AsRead,
                (None, _) => transaction.lock_for_insert(def.id, row)?,
            };
            if state == LockedState::AsRead {
                return Ok(owner);
            }
        }
    }

    /// Locks what the row is going to write, where that is worth while before anything is written.
    ///
    /// # Errors
    /// As those of locks.
    pub(crate) fn lock_ahead<'v>(
        &self,
        transaction: &mut Transaction,
        def: &TableDef,
        row: &Row,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<(), StoreError> {
        match (self.found_owner(transaction, def, value)?, self.update) {
            (Some(_), None) => Ok(()),
            (Some(key), Some(strength)) => transaction.lock_ahead(def.id, Some((&key, strength)), row),
            (None, _) => transaction.lock_ahead(def.id, None, row),
        }
    }
}
