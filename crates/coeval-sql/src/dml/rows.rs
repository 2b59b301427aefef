// SPDX-License-Identifier: Apache-2.0
//! Rows on their way into and out of a table: keys out of query results.

use crate::error::SqlError;
use arrow::array::{ArrayRef, RecordBatch};
use coeval_store::{
    ColumnDef, Key, KeyWriter, Row, RowRef, RowWriter, StoreError, TableDef, Transaction, Value, ValueRef,
    value_at,
};
use std::collections::HashSet;

/// A row found by a query: its primary key, and where the query's other columns for it are.
#[derive(Clone, Debug)]
pub(super) struct FoundRow {
    pub(super) key: Key,
    pub(super) batch: usize,
    pub(super) row: usize,
}

/// The rows that the first columns of the batches name by primary key, in key order, each once: a row that
/// a join meets several times counts with the first match.
///
/// # Errors
/// If the key columns cannot be read as the table's.
pub(super) fn found_rows(def: &TableDef, batches: &[RecordBatch]) -> Result<Vec<FoundRow>, SqlError> {
    let mut found = found_pairs(def, batches)?;
    found.dedup_by(|later, first| later.key == first.key);
    Ok(found)
}

/// As [`found_rows`], each as often as it is met.
///
/// # Errors
/// As [`found_rows`].
pub(super) fn found_pairs(def: &TableDef, batches: &[RecordBatch]) -> Result<Vec<FoundRow>, SqlError> {
    let mut found = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for (batch, columns) in batches.iter().enumerate() {
        let keys = key_arrays(def, columns, 0)?;
        for row in 0..columns.num_rows() {
            if let Some(key) = key_at(&keys, row) {
                found.push(FoundRow { key, batch, row });
            }
        }
    }
    // Stable, so that the first match stays first among its equals.
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// The columns of a batch from `start` on that hold a table's primary key, as the table's types.
pub(super) fn key_arrays(
    def: &TableDef,
    batch: &RecordBatch,
    start: usize,
) -> Result<Vec<ArrayRef>, SqlError> {
    let array = |(position, &column): (usize, &usize)| {
        let wanted = def.columns[column].ty.arrow();
        let array = batch.column(start + position);
        if *array.data_type() == wanted {
            Ok(array.clone())
        } else {
            Ok(arrow::compute::cast(array, &wanted)?)
        }
    };
    def.primary_key.iter().enumerate().map(array).collect()
}

/// The key in this row; `None` if it is NULL, as on the outer side of a join.
pub(super) fn key_at(keys: &[ArrayRef], row: usize) -> Option<Key> {
    let mut writer = KeyWriter::new();
    for array in keys {
        match value_at(array, row) {
            ValueRef::Null => return None,
            value => writer.push(value),
        }
    }
    Some(writer.finish())
}

/// All values of a row, hidden columns included.
pub(super) fn values_of(row: RowRef<'_>) -> Vec<Value> {
    (0..row.def().columns.len()).map(|column| row.get(column).to_owned()).collect()
}

/// The row with these values.
///
/// # Errors
/// If a value is of another type than its column: a bug.
pub(super) fn encode(def: &TableDef, values: &[Value]) -> Result<Row, SqlError> {
    let mut writer = RowWriter::new(def.layout());
    for value in values {
        writer.push(value.borrow()).map_err(StoreError::from)?;
    }
    Ok(writer.finish())
}

/// The row with these values, and all its values as the table keeps them: those of generated columns are computed, times rounded
/// to the digits of their columns.
///
/// # Errors
/// As [`encode`]; `23514` and the like if one cannot be computed.
pub(super) fn encoded(
    transaction: &Transaction,
    def: &TableDef,
    mut values: Vec<Value>,
) -> Result<(Row, Vec<Value>), SqlError> {
    let row = encode(def, &values)?;
    if !def.columns.iter().any(ColumnDef::is_made_on_write) {
        return Ok((row, values));
    }
    let row = transaction.with_generated(def.id, row)?;
    for (index, value) in values.iter_mut().enumerate() {
        *value = row.get(def.layout(), index).unwrap_or(ValueRef::Null).to_owned();
    }
    Ok((row, values))
}

/// The rows that one statement has inserted or changed, for what must not happen to a row twice.
pub(super) type TouchedRows = HashSet<Key>;
