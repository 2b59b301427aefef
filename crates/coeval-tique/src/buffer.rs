// SPDX-License-Identifier: Apache-2.0
//! What a transaction wrote and has not committed (3.2.3): one version for each row, sent to the cache when a read needs it.
//!
//! A version that was sent has no commit timestamp there, so others do not see it. A second write of the row is sent with
//! a higher sequence number and hides the first.

use crate::catalog::Table;
use crate::counters::Txid;
use crate::error::{Result, SqlState, TiqueError};
use crate::literal::{Row, joined};
use crate::lookups::FoundBy;
use crate::packed::packed;
use crate::schema::KeyColumns;
use crate::write_set::WriteSet;
use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion::common::ScalarValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table, versions of its rows, and the texts of their keys.
pub(crate) type TableRows = (Arc<Table>, RecordBatch, Vec<String>);

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Live,
    Deleted,
}

#[derive(Clone)]
struct Version {
    row: Row,
    fate: Fate,
    sequence: i64,
    is_sent: bool,
}

#[derive(Clone)]
struct Versions {
    table: Arc<Table>,
    /// By the text of the key.
    of_rows: BTreeMap<String, Version>,
    /// Whether the cache has any of them.
    are_sent: bool,
}

/// The writes of one transaction.
#[derive(Clone, Default)]
pub(crate) struct Buffer {
    tables: BTreeMap<String, Versions>,
    next_sequence: i64,
    pub(crate) write_set: WriteSet,
}

impl Buffer {
    /// Notes what becomes of a row; replaces what was noted of it before.
    pub(crate) fn put(&mut self, table: &Arc<Table>, row: Row, fate: Fate) {
        assert_eq!(row.len(), table.definition.columns.len(), "a row has its table's columns");
        let key = joined(&row, &table.definition.key);
        let versions = self.tables.entry(table.definition.name.clone()).or_insert_with(|| Versions {
            table: Arc::clone(table),
            of_rows: BTreeMap::new(),
            are_sent: false,
        });
        self.next_sequence += 1;
        let version = Version { row, fate, sequence: self.next_sequence, is_sent: false };
        versions.of_rows.insert(key, version);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.write_set.is_empty()
    }

    /// Marks the ranges of all rows that were written.
    pub(crate) fn note_ranges(&mut self) {
        for versions in self.tables.values() {
            for version in versions.of_rows.values() {
                self.write_set.ranges(&versions.table.definition, &version.row);
            }
        }
    }

    /// What became of the row with this key, if anything.
    pub(crate) fn fate(&self, table: &Table, key: &str) -> Option<Fate> {
        Some(self.tables.get(&table.definition.name)?.of_rows.get(key)?.fate)
    }

    /// The rows of a table that were written and are not deleted.
    pub(crate) fn live<'a>(&'a self, table: &Table) -> impl Iterator<Item = &'a Row> + use<'a> {
        let versions = self.tables.get(&table.definition.name);
        let of_rows = versions.into_iter().flat_map(|versions| versions.of_rows.values());
        of_rows.filter(|version| version.fate == Fate::Live).map(|version| &version.row)
    }

    /// Whether a look-up of a table could find a row that was written.
    pub(crate) fn may_have(&self, table: &Table, found_by: &FoundBy) -> bool {
        let Some(versions) = self.tables.get(&table.definition.name) else { return false };
        match &found_by.key {
            Some(key) => versions.of_rows.contains_key(key),
            None => versions.of_rows.values().any(|version| found_by.may_find(&version.row)),
        }
    }

    /// Whether the cache has versions of this transaction of a table.
    pub(crate) fn is_sent(&self, table: &Table) -> bool {
        self.tables.get(&table.definition.name).is_some_and(|versions| versions.are_sent)
    }

    /// The versions of a table that the cache lacks, as rows of it without commit timestamp; they count as sent then.
    pub(crate) fn take_unsent(&mut self, table: &Table, txid: Txid) -> Result<Option<RecordBatch>> {
        let Some(versions) = self.tables.get_mut(&table.definition.name) else { return Ok(None) };
        let unsent: Vec<_> = versions.of_rows.values_mut().filter(|version| !version.is_sent).collect();
        if unsent.is_empty() {
            return Ok(None);
        }
        versions.are_sent = true;
        let mut list: Vec<&Version> = Vec::with_capacity(unsent.len());
        for version in unsent {
            version.is_sent = true;
            list.push(version);
        }
        batch(&versions.table, &list, txid).map(Some)
    }

    /// The tables of which the cache has versions of this transaction.
    pub(crate) fn sent(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().filter(|versions| versions.are_sent).map(|versions| &versions.table)
    }

    /// The caches have lost all versions of this transaction.
    pub(crate) fn note_taken_back(&mut self) {
        for versions in self.tables.values_mut() {
            versions.are_sent = false;
            versions.of_rows.values_mut().for_each(|version| version.is_sent = false);
        }
    }

    /// All versions, as rows of their caches without commit timestamp.
    pub(crate) fn rows(&self, txid: Txid) -> Result<Vec<TableRows>> {
        let each = self.tables.values().map(|versions| {
            let list: Vec<_> = versions.of_rows.values().collect();
            let keys = versions.of_rows.keys().cloned().collect();
            Ok((Arc::clone(&versions.table), batch(&versions.table, &list, txid)?, keys))
        });
        each.collect()
    }
}

fn batch(table: &Table, versions: &[&Version], txid: Txid) -> Result<RecordBatch> {
    let internal = |error: String| TiqueError::new(SqlState::EngineRefused, error);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(table.rows.fields().len());
    for place in 0..table.definition.columns.len() {
        // The engine computes some values and others are written out: they may differ in how a type is kept.
        let kind = table.rows.field(place).data_type();
        let of_kind = |value: &ScalarValue| match value.data_type() == *kind {
            true => Ok(value.clone()),
            false => value.cast_to(kind),
        };
        let values: std::result::Result<Vec<_>, _> =
            versions.iter().map(|version| of_kind(&version.row[place])).collect();
        let values = values.map_err(|error| internal(error.strip_backtrace()))?;
        columns.push(ScalarValue::iter_to_array(values).map_err(|error| internal(error.to_string()))?);
    }
    match table.definition.key_columns {
        KeyColumns::Separate => {}
        KeyColumns::Concatenated => {
            let keys = versions.iter().map(|version| joined(&version.row, &table.definition.key));
            columns.push(Arc::new(StringArray::from_iter_values(keys)));
        }
        KeyColumns::Packed => columns.push(packed_keys(table, versions)?),
    }
    let deleted: Vec<_> = versions.iter().map(|version| version.fate == Fate::Deleted).collect();
    columns.push(Arc::new(BooleanArray::from(deleted)));
    columns.push(Arc::new(Int64Array::from(vec![txid.0; versions.len()])));
    columns.push(Arc::new(Int64Array::from(vec![None::<i64>; versions.len()])));
    columns.push(Arc::new(Int64Array::from_iter_values(versions.iter().map(|version| version.sequence))));
    let columns: std::result::Result<Vec<_>, _> = columns
        .iter()
        .zip(table.rows.fields())
        .map(|(column, field)| cast(column, field.data_type()))
        .collect();
    let columns = columns.map_err(|error| internal(error.to_string()))?;
    RecordBatch::try_new(Arc::clone(&table.rows), columns).map_err(|error| internal(error.to_string()))
}

/// The numbers of the keys of rows.
fn packed_keys(table: &Table, versions: &[&Version]) -> Result<ArrayRef> {
    let number = |version: &&Version| {
        packed(&table.definition, &version.row).ok_or_else(|| {
            let message =
                format!("a key of table {} is out of the range of its columns", table.definition.name);
            TiqueError::new(SqlState::OutOfRange, message)
        })
    };
    let numbers = versions.iter().map(number).collect::<Result<Vec<_>>>()?;
    let array = Decimal128Array::from(numbers).with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0);
    Ok(Arc::new(array.map_err(|error| TiqueError::new(SqlState::EngineRefused, error.to_string()))?))
}

/// The same rows with a commit timestamp.
pub(crate) fn stamped(rows: &RecordBatch, cts: i64) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    let place = columns.len() - 2;
    columns[place] = Arc::new(Int64Array::from(vec![cts; rows.num_rows()]));
    RecordBatch::try_new(rows.schema(), columns)
        .map_err(|error| TiqueError::new(SqlState::EngineRefused, error.to_string()))
}
