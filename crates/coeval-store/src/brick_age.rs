// SPDX-License-Identifier: Apache-2.0
//! The age of rows: up to which epoch of a cluster bricks belong to them.
//!
//! Bricks that are spread over the nodes of a cluster are in no world of this store. Who reads both, at SERIALIZABLE, reads bricks up to
//! the age that its world names; why that has a serial order is proven in `coeval-txn`'s `epochs/cluster/README.md`, "Rows and
//! bricks". The age is a row of an ordinary table, made with the first one. So it is durable, recovered, followed and seen exactly as the
//! rows that it belongs to, and a safe snapshot has that of its boundary: whoever writes it reads nothing that counts, or nothing that
//! was overwritten before it commits ([`Transaction::name_brick_age`](crate::Transaction::name_brick_age)).

#[cfg(test)]
mod tests;

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::conflicts::{ConflictCause, ConflictError, ConflictPlace, ConflictReason};
use crate::error::StoreError;
use crate::ids::CATALOG_SPACE;
use crate::key::Key;
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::table::Table;
use crate::transaction::AccessMode;
use crate::types::ColumnType;
use crate::value::{KeyWriter, ValueRef};
use crate::world::World;
use coeval_txn::{Epoch, Isolation, Version};
use std::sync::Arc;

/// The schema of the table.
const SCHEMA: &str = "coeval";
/// Its name there.
const TABLE: &str = "cluster_age";
/// The key of its row.
const ONLY: i64 = 0;

impl World {
    /// Its age; nothing if none was noted yet.
    ///
    /// Cost: a row by its key.
    ///
    /// # Errors
    /// If the row lies in a damaged file, or the table is not as it was made.
    pub fn brick_age(&self) -> Result<Option<Epoch>, StoreError> {
        let Some(table) = self.table_named(&QualifiedName::new(SCHEMA, TABLE)) else { return Ok(None) };
        check(table.def())?;
        table.check_undamaged()?;
        let Some(row) = table.get(&only_key())? else { return Ok(None) };
        let epoch = row.get(1).as_i64().and_then(|epoch| u64::try_from(epoch).ok());
        epoch.map(Epoch::new).map(Some).ok_or_else(|| not_as_made("has a malformed row"))
    }

    /// Why a transaction with this world names no age: what ages are kept in was made later.
    pub(crate) fn made_meanwhile(&self) -> StoreError {
        StoreError::Conflict(ConflictError {
            what: "concurrent change of a definition",
            space: CATALOG_SPACE,
            detail: format!("Table {SCHEMA}.{TABLE} was made after this transaction began."),
            version: self.version(),
            cause: ConflictCause::new(ConflictReason::Definition, ConflictPlace::default()),
        })
    }
}

/// The table with the age.
///
/// # Errors
/// [`StoreError::Conflict`] if it is not there yet; if it is damaged, or not as it was made.
pub(crate) fn ages_of(world: &World) -> Result<&Arc<Table>, StoreError> {
    let table =
        world.table_named(&QualifiedName::new(SCHEMA, TABLE)).ok_or_else(|| world.made_meanwhile())?;
    check(table.def())?;
    table.check_undamaged()?;
    Ok(table)
}

/// Its row.
///
/// # Errors
/// For an epoch that it cannot have.
pub(crate) fn age_row(def: &TableDef, age: Epoch) -> Result<Row, StoreError> {
    let number = i64::try_from(age.get()).map_err(|_| not_as_made("cannot have so late an epoch"))?;
    let mut row = RowWriter::new(def.layout());
    row.push(ValueRef::Int64(ONLY))?;
    row.push(ValueRef::Int64(number))?;
    Ok(row.finish())
}

impl Store {
    /// Has worlds name this age from the next version on. Does nothing if they name it, or a later one, already. Returns when they do, and it is
    /// durable: also with `synchronous_commit = off` nobody sees an age that a crash could take back.
    ///
    /// # Errors
    /// What a commit answers but conflicts, after which it is tried again; if the table is not as it was made. Worlds name then what they
    /// did (after a failed log, what they name is known at the next open).
    pub fn note_brick_age(&self, age: Epoch) -> Result<(), StoreError> {
        if self.world().brick_age()?.is_some_and(|noted| noted >= age) {
            return Ok(());
        }
        self.change_brick_age(|noted| noted.is_none_or(|noted| noted < age).then_some(age))
    }

    /// The cluster is a new one, whose epochs begin anew: ages that were noted of another one mean nothing in it.
    ///
    /// # Errors
    /// As [`note_brick_age`](Self::note_brick_age).
    pub fn begin_brick_ages(&self) -> Result<(), StoreError> {
        if self.world().brick_age()?.is_none() {
            return Ok(());
        }
        self.change_brick_age(|noted| noted.is_some_and(|noted| noted > Epoch::ZERO).then_some(Epoch::ZERO))
    }

    fn change_brick_age(&self, change: impl Fn(Option<Epoch>) -> Option<Epoch>) -> Result<(), StoreError> {
        loop {
            let def = self.ages_table()?;
            match self.try_change_age(&def, &change) {
                // Who was first may wait for replicas before the next attempt sees it.
                Err(StoreError::Conflict(conflict)) => self.wait_published(conflict.version)?,
                outcome => return outcome,
            }
        }
    }

    fn try_change_age(
        &self,
        def: &TableDef,
        change: impl Fn(Option<Epoch>) -> Option<Epoch>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let Some(age) = change(transaction.world().brick_age()?) else { return Ok(()) };
        transaction.put(def.id, age_row(def, age)?)?;
        transaction.commit().map(drop)
    }

    /// The table, made if it is not there.
    fn ages_table(&self) -> Result<TableDef, StoreError> {
        loop {
            let name = QualifiedName::new(SCHEMA, TABLE);
            let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            if let Some(def) = transaction.resolve_table(&name) {
                check(&def)?;
                return Ok(TableDef::clone(&def));
            }
            if !transaction.catalog().has_schema(SCHEMA) {
                transaction.change_catalog(CatalogChange::PutSchema(SCHEMA.to_owned()))?;
            }
            let columns = vec![
                ColumnDef::new("id", ColumnType::BigInt).not_null(),
                ColumnDef::new("epoch", ColumnType::BigInt).not_null(),
            ];
            let def = TableDef::new(self.new_space_id(), name, columns, vec![0]);
            transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
            match transaction.commit() {
                Ok(_) => {}
                Err(StoreError::Conflict(conflict)) => self.wait_published(conflict.version)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The oldest version of which somebody here reads a world at SERIALIZABLE, or who begins now may: that of the safe snapshot or
    /// of an open transaction, at whatever level. Nothing while this store follows another one and has no safe snapshot yet.
    ///
    /// Cost: that of [`snapshot_lag`](Self::snapshot_lag).
    #[must_use]
    pub fn oldest_readable(&self) -> Option<Version> {
        // In this order: who begins in between begins at the boundary or later.
        let active = self.oldest_active();
        let boundary = self.snapshot_lag().boundary;
        self.has_safe_snapshot().then(|| active.min(boundary))
    }
}

/// The key of the row.
pub(crate) fn only_key() -> Key {
    let mut key = KeyWriter::new();
    key.push(ValueRef::Int64(ONLY));
    key.finish()
}

fn check(def: &TableDef) -> Result<(), StoreError> {
    let types: Vec<ColumnType> = def.columns.iter().map(|column| column.ty).collect();
    let is_as_made = types == [ColumnType::BigInt; 2] && def.primary_key == [0] && def.bricks.is_none();
    if is_as_made { Ok(()) } else { Err(not_as_made("is not the one that keeps the age of rows")) }
}

fn not_as_made(what: &str) -> StoreError {
    StoreError::Brick(format!("table {SCHEMA}.{TABLE} {what}"))
}
