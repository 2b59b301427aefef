// SPDX-License-Identifier: Apache-2.0
//! The table with the age of rows: what it is like, and what a world has in it.
//!
//! It is an ordinary table of the database, made with the first age (`brick_age.rs`), with one row.

use crate::catalog::{ColumnDef, QualifiedName, TableDef};
use crate::conflicts::{ConflictCause, ConflictError, ConflictPlace, ConflictReason};
use crate::error::StoreError;
use crate::ids::{CATALOG_SPACE, SpaceId};
use crate::key::Key;
use crate::row::{Row, RowWriter};
use crate::table::Table;
use crate::types::ColumnType;
use crate::value::{KeyWriter, ValueRef};
use crate::world::World;
use coeval_txn::Epoch;
use std::sync::Arc;

/// The schema of the table.
pub(crate) const SCHEMA: &str = "coeval";
/// Its name there.
const TABLE: &str = "cluster_age";
/// The key of its row.
const ONLY: i64 = 0;

impl World {
    /// The age of its rows: up to which epoch of a cluster bricks belong to them. Nothing if none was noted yet.
    ///
    /// Cost: a row by its key.
    ///
    /// # Errors
    /// If the row lies in a damaged file, or the table is not as it was made.
    pub fn brick_age(&self) -> Result<Option<Epoch>, StoreError> {
        let Some(table) = self.table_named(&name()) else { return Ok(None) };
        check(table.def())?;
        table.check_undamaged()?;
        let Some(row) = table.get(&only_key())? else { return Ok(None) };
        let epoch = row.get(1).as_i64().and_then(|epoch| u64::try_from(epoch).ok());
        epoch.map(Epoch::new).map(Some).ok_or_else(|| not_as_made("has a malformed row"))
    }
}

/// The table of this world.
///
/// # Errors
/// [`StoreError::Conflict`] if it is not there yet; if it is damaged, or not as it was made.
pub(crate) fn ages_of(world: &World) -> Result<&Arc<Table>, StoreError> {
    let table = world.table_named(&name()).ok_or_else(|| made_after(world))?;
    check(table.def())?;
    table.check_undamaged()?;
    Ok(table)
}

/// Why a transaction with this world names no age: what ages are kept in was made later.
pub(crate) fn made_after(world: &World) -> StoreError {
    StoreError::Conflict(ConflictError {
        what: "concurrent change of a definition",
        space: CATALOG_SPACE,
        detail: format!("Table {SCHEMA}.{TABLE} was made after this transaction began."),
        version: world.version(),
        cause: ConflictCause::new(ConflictReason::Definition, ConflictPlace::default()),
    })
}

/// Its name.
pub(crate) fn name() -> QualifiedName {
    QualifiedName::new(SCHEMA, TABLE)
}

/// The definition of a new one.
pub(crate) fn definition(id: SpaceId) -> TableDef {
    let columns = vec![
        ColumnDef::new("id", ColumnType::BigInt).not_null(),
        ColumnDef::new("epoch", ColumnType::BigInt).not_null(),
    ];
    TableDef::new(id, name(), columns, vec![0])
}

/// The row with an age.
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

/// The key of the row.
pub(crate) fn only_key() -> Key {
    let mut key = KeyWriter::new();
    key.push(ValueRef::Int64(ONLY));
    key.finish()
}

/// Sees that it is as it was made.
///
/// # Errors
/// If it is not.
pub(crate) fn check(def: &TableDef) -> Result<(), StoreError> {
    let types: Vec<ColumnType> = def.columns.iter().map(|column| column.ty).collect();
    let is_as_made = types == [ColumnType::BigInt; 2] && def.primary_key == [0] && def.bricks.is_none();
    if is_as_made { Ok(()) } else { Err(not_as_made("is not the one that keeps the age of rows")) }
}

fn not_as_made(what: &str) -> StoreError {
    StoreError::Brick(format!("table {SCHEMA}.{TABLE} {what}"))
}
