// SPDX-License-Identifier: Apache-2.0
//! Loads of brick tables that a source can repeat without harm.
//!
//! A program that loads into a table and is killed does not know whether its last load was committed. So a load may carry the name of
//! its source and an offset, which commit with its rows: one with an offset at or below the last one is a repetition
//! and changes nothing. The offsets are rows of an ordinary table, made with the first of them. So they are durable,
//! recovered and seen exactly as the rows they stand for, and of two loads of one source only one is first.

use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::range::{Direction, KeyRange};
use crate::row::RowWriter;
use crate::store::Store;
use crate::table::RowRef;
use crate::transaction::{AccessMode, Appended, Transaction};
use crate::types::ColumnType;
use crate::value::{KeyWriter, ValueRef};
use arrow::array::RecordBatch;
use coeval_txn::Isolation;

/// The schema of the table of offsets.
const SCHEMA: &str = "coeval";
/// Its name there.
const TABLE: &str = "ingest_offsets";

/// How far a source has come with a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOffset {
    /// Its name; offsets of a table are told apart by it.
    pub source: String,
    /// Where the load ends. Those of one source grow from load to load.
    pub offset: i64,
}

/// What became of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ingested {
    /// It is committed.
    Appended(Appended),
    /// It had been committed before: nothing was changed now.
    Repeated,
}

/// The last offset of a source, as a transaction sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestOffset {
    /// The table that was fed.
    pub table: SpaceId,
    /// The source.
    pub source: String,
    /// Its last offset.
    pub offset: i64,
    /// How many rows its loads had, without rejected ones.
    pub rows: i64,
}

impl Store {
    /// Appends batches as one load, in a transaction of its own; see
    /// [`Transaction::append_all`](crate::Transaction::append_all). With a source, the offset is committed with the
    /// rows. Visible to everyone who begins afterwards, durable as the options say.
    ///
    /// # Errors
    /// As [`Transaction::append_all`](crate::Transaction::append_all), and what a commit answers but conflicts, after
    /// which it is run again. [`StoreError::Brick`] if the table of offsets is not as it was made. Nothing is appended
    /// then (after a failed log, whether it is becomes known at the next open).
    pub fn ingest(
        &self,
        table: SpaceId,
        batches: &[RecordBatch],
        rejected_max: usize,
        from: Option<&SourceOffset>,
    ) -> Result<Ingested, StoreError> {
        loop {
            let offsets = match from {
                Some(from) => Some((from, self.offsets_table()?)),
                None => None,
            };
            match self.try_ingest(table, batches, rejected_max, offsets) {
                Err(StoreError::Conflict(_)) => {}
                outcome => return outcome,
            }
        }
    }

    fn try_ingest(
        &self,
        table: SpaceId,
        batches: &[RecordBatch],
        rejected_max: usize,
        offsets: Option<(&SourceOffset, TableDef)>,
    ) -> Result<Ingested, StoreError> {
        let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let before = match &offsets {
            None => None,
            Some((from, def)) => {
                let mut key = KeyWriter::new();
                key.push(ValueRef::Int64(table.get().into()));
                key.push(ValueRef::Text(&from.source));
                let row = transaction.get(def.id, &key.finish())?;
                row.map(|row| read(&row)).transpose()?
            }
        };
        if let (Some((from, _)), Some(before)) = (&offsets, &before)
            && from.offset <= before.offset
        {
            return Ok(Ingested::Repeated);
        }
        let appended = transaction.append_all(table, batches, rejected_max)?;
        if let Some((from, def)) = &offsets {
            let rows = before.map_or(0, |before| before.rows) + appended.rows as i64;
            let mut row = RowWriter::new(def.layout());
            row.push(ValueRef::Int64(table.get().into()))?;
            row.push(ValueRef::Text(&from.source))?;
            row.push(ValueRef::Int64(from.offset))?;
            row.push(ValueRef::Int64(rows))?;
            transaction.put(def.id, row.finish())?;
        }
        transaction.commit()?;
        Ok(Ingested::Appended(appended))
    }

    /// The table of offsets, made if it is not there.
    fn offsets_table(&self) -> Result<TableDef, StoreError> {
        loop {
            if let Some(table) = self.world().table_named(&QualifiedName::new(SCHEMA, TABLE)) {
                return checked(table.def());
            }
            let mut transaction = self.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            // Somebody else may have made it in between, whose table would be lost.
            if let Some(def) = transaction.resolve_table(&QualifiedName::new(SCHEMA, TABLE)) {
                return checked(&def);
            }
            if !transaction.catalog().has_schema(SCHEMA) {
                transaction.change_catalog(CatalogChange::PutSchema(SCHEMA.to_owned()))?;
            }
            let def = TableDef::new(
                self.new_space_id(),
                QualifiedName::new(SCHEMA, TABLE),
                vec![
                    ColumnDef::new("table_id", ColumnType::BigInt).not_null(),
                    ColumnDef::new("source", ColumnType::Text).not_null(),
                    ColumnDef::new("last_offset", ColumnType::BigInt).not_null(),
                    ColumnDef::new("rows", ColumnType::BigInt).not_null(),
                ],
                vec![0, 1],
            );
            transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
            match transaction.commit() {
                Ok(_) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Transaction {
    /// The last offset of each source of each table.
    ///
    /// # Errors
    /// If rows lie in a damaged file, or the table of offsets is not as it was made.
    pub fn ingest_offsets(&self) -> Result<Vec<IngestOffset>, StoreError> {
        let Some(table) = self.resolve_table(&QualifiedName::new(SCHEMA, TABLE)) else {
            return Ok(Vec::new());
        };
        let def = checked(&table)?;
        let rows = self.scan(def.id, &KeyRange::all(), Direction::Forward)?;
        rows.map(|row| read(&row?.1)).collect()
    }
}

fn checked(def: &TableDef) -> Result<TableDef, StoreError> {
    let types: Vec<ColumnType> = def.columns.iter().map(|column| column.ty).collect();
    let is_as_made = types == [ColumnType::BigInt, ColumnType::Text, ColumnType::BigInt, ColumnType::BigInt]
        && def.primary_key == [0, 1];
    if !is_as_made {
        let message = format!("table {SCHEMA}.{TABLE} is not the one that keeps the offsets of sources");
        return Err(StoreError::Brick(message));
    }
    Ok(def.clone())
}

fn read(row: &RowRef<'_>) -> Result<IngestOffset, StoreError> {
    let malformed = || StoreError::Brick(format!("a row of {SCHEMA}.{TABLE} is malformed"));
    let (ValueRef::Int64(table), ValueRef::Text(source), ValueRef::Int64(offset), ValueRef::Int64(rows)) =
        (row.get(0), row.get(1), row.get(2), row.get(3))
    else {
        return Err(malformed());
    };
    let table = SpaceId::new(u32::try_from(table).map_err(|_| malformed())?);
    Ok(IngestOffset { table, source: source.to_owned(), offset, rows })
}
