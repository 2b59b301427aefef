// SPDX-License-Identifier: Apache-2.0
//! Collects the rows of a relation.

use crate::error::SqlError;
use crate::relations::{CatalogType, Column, Relation, RelationKind};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNano, Schema};
use coeval_store::log::Lsn;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::ScalarValue;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a place in a log.
const PLACE_BYTES: i32 = 8;

/// A value on its way into a column, which gives it its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any integer, object id or time in microseconds.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text, a name, a letter.
    Text(String),
    /// A time that has passed.
    Interval(Duration),
    /// Seconds, of which there may be less than none.
    Seconds(i64),
    /// A place in a log.
    Place(Lsn),
    /// An array of integers.
    Ints(Vec<i64>),
    /// An array of texts.
    Texts(Vec<String>),
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or(Self::Null, Self::Int)
    }
}

impl From<Duration> for Cell {
    fn from(value: Duration) -> Self {
        Self::Interval(value)
    }
}

impl From<Lsn> for Cell {
    fn from(value: Lsn) -> Self {
        Self::Place(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Cell {
    /// The value as one of this type.
    ///
    /// # Errors
    /// If it is none: a bug.
    pub(super) fn scalar(&self, ty: &DataType) -> Result<ScalarValue, SqlError> {
        let plain = match self {
            Self::Null => ScalarValue::Null,
            Self::Bool(value) => ScalarValue::Boolean(Some(*value)),
            Self::Int(value) => ScalarValue::Int64(Some(*value)),
            Self::Float(value) => ScalarValue::Float64(Some(*value)),
            Self::Text(value) => ScalarValue::Utf8View(Some(value.clone())),
            Self::Seconds(value) => {
                let nanos = value.saturating_mul(1_000_000_000);
                ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, nanos)))
            }
            Self::Interval(value) => {
                // To the microsecond, as PostgreSQL has them.
                let nanos = i64::try_from(value.as_micros()).unwrap_or(i64::MAX).saturating_mul(1_000);
                ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, nanos)))
            }
            Self::Place(value) => {
                let bytes = value.get().to_be_bytes();
                ScalarValue::FixedSizeBinary(PLACE_BYTES, Some(bytes.to_vec()))
            }
            Self::Ints(values) => {
                let values: Vec<_> = values.iter().map(|value| ScalarValue::Int64(Some(*value))).collect();
                ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))
            }
            Self::Texts(values) => {
                let values: Vec<_> =
                    values.iter().map(|value| ScalarValue::Utf8View(Some(value.clone()))).collect();
                ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8View))
            }
        };
        Ok(plain.cast_to(ty)?)
    }
}

/// The rows of a relation so far.
pub(super) struct Table {
    relation: &'static Relation,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// No rows yet.
    pub(super) fn new(relation: &'static Relation) -> Self {
        Self { relation, rows: Vec::new() }
    }

    /// The relation's name.
    pub(super) fn name(&self) -> &'static str {
        self.relation.name
    }

    /// Appends a row. Columns that are not named are zero, false, empty or NULL.
    ///
    /// # Panics
    /// If the relation has no column of a name.
    pub(super) fn push<const N: usize>(&mut self, cells: [(&str, Cell); N]) {
        self.push_all(cells);
    }

    /// As [`Self::push`].
    ///
    /// # Panics
    /// As [`Self::push`].
    pub(super) fn push_all<'n>(&mut self, cells: impl IntoIterator<Item = (&'n str, Cell)>) {
        let relation = self.relation;
        let mut row: Vec<Cell> = relation.columns.iter().map(|column| default(relation, column)).collect();
        for (name, cell) in cells {
            let place = relation.columns.iter().position(|column| column.name == name);
            let place = place.unwrap_or_else(|| panic!("{} has no column {name}", relation.name));
            row[place] = cell;
        }
        self.rows.push(row);
    }

    /// The rows as a batch; none if there are no rows.
    ///
    /// # Errors
    /// If a value is not of its column's type: a bug.
    pub(super) fn finish(self) -> Result<Option<RecordBatch>, SqlError> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let schema = self.relation.arrow();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            let cells = self.rows.iter().map(|row| row[place].scalar(field.data_type()));
            arrays.push(ScalarValue::iter_to_array(cells.collect::<Result<Vec<_>, _>>()?)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        Ok(Some(RecordBatch::try_new_with_options(schema, arrays, &options)?))
    }
}

/// Columns that are zero in a view, where they would be NULL otherwise; there is a blank between their names.
pub(super) fn zeros(names: &'static str) -> impl Iterator<Item = (&'static str, Cell)> {
    names.split(' ').map(|name| (name, Cell::Int(0)))
}

fn default(relation: &Relation, column: &Column) -> Cell {
    if relation.kind == RelationKind::View || !column.is_never_null() {
        return Cell::Null;
    }
    match column.arrow() {
        DataType::Boolean => Cell::Bool(false),
        DataType::Utf8View => Cell::Text(String::new()),
        DataType::Float32 => Cell::Float(0.0),
        _ => Cell::Int(0),
    }
}

/// The relation with these rows, for queries.
///
/// # Errors
/// If the batches are not of the relation's schema: a bug.
pub(super) fn provider_of(
    relation: &Relation,
    batches: Vec<RecordBatch>,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    Ok(Arc::new(MemTable::try_new(relation.arrow(), vec![batches])?))
}

/// The relation with these rows and the column `tableoid`.
///
/// # Errors
/// As [`provider_of`].
pub(super) fn with_table_ids(
    relation: &Relation,
    batches: &[RecordBatch],
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let field = CatalogType::ObjectId.mark(Field::new("tableoid", DataType::Int32, false));
    let plain = relation.arrow();
    let fields = plain.fields().iter().map(Arc::clone).chain([Arc::new(field)]);
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    let wider = |batch: &RecordBatch| {
        let ids: ArrayRef = Arc::new(Int32Array::from_value(relation.oid, batch.num_rows()));
        let columns = batch.columns().iter().map(Arc::clone).chain([ids]).collect();
        RecordBatch::try_new(Arc::clone(&schema), columns)
    };
    let batches = batches.iter().map(wider).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
}
