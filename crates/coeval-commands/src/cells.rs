// SPDX-License-Identifier: Apache-2.0
//! The rows of a result as text, cell by cell, in PostgreSQL's notation.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval::{ColumnType, RowSet, column_type_of_arrow, format_shown, format_value, value_at};
use std::fmt::Write;

/// Where a column's values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// NULL; no text.
    Null,
    /// A value; its text.
    Value,
}

/// What is done with each row: it is given a function that writes the text of a column.
pub(crate) type EachRow<'a> = dyn FnMut(&dyn Fn(usize, &mut String) -> Cell) -> std::io::Result<()> + 'a;

/// Rows and columns of text: a query's result, or a listing of our own.
pub(crate) trait Cells {
    /// The names of the columns with the side that their values stand on.
    fn columns(&self) -> Vec<(String, Alignment)>;

    /// Calls `each` for every row in order. It is given a function that puts the text of a column's value into an
    /// empty string.
    fn for_each_row(&self, each: &mut EachRow<'_>) -> std::io::Result<()>;

    /// How many rows there are.
    fn rows(&self) -> usize;
}

/// The rows that a statement gave.
pub(crate) struct ResultCells<'a> {
    rows: &'a RowSet,
    zone: Tz,
}

impl<'a> ResultCells<'a> {
    /// Rows, with timestamps shown in this zone.
    pub(crate) fn new(rows: &'a RowSet, zone: Tz) -> Self {
        Self { rows, zone }
    }
}

impl Cells for ResultCells<'_> {
    fn columns(&self) -> Vec<(String, Alignment)> {
        let fields = self.rows.schema.fields().iter();
        fields.map(|field| (field.name().clone(), alignment(field.data_type()))).collect()
    }

    fn for_each_row(&self, each: &mut EachRow<'_>) -> std::io::Result<()> {
        for batch in &self.rows.batches {
            let columns: Vec<ColumnText<'_>> = batch.columns().iter().map(ColumnText::new).collect();
            for row in 0..batch.num_rows() {
                each(&|column, text| columns[column].write(row, self.zone, text))?;
            }
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Numbers stand on the right, so that their digits stand below each other.
fn alignment(ty: &DataType) -> Alignment {
    if ty.is_numeric() { Alignment::Right } else { Alignment::Left }
}

/// How one column's values become text.
enum ColumnText<'a> {
    /// As values of this type.
    Sql(&'a ArrayRef, ColumnType),
    /// Of types that no table column has: rows, arrays of arrays.
    Shown(&'a ArrayRef),
}

impl<'a> ColumnText<'a> {
    fn new(array: &'a ArrayRef) -> Self {
        let has_physical_type = |ty: &ColumnType| same_kind(&ty.arrow(), array.data_type());
        if let Some(ty) = column_type_of_arrow(array.data_type()).filter(has_physical_type) {
            return Self::Sql(array, ty);
        }
        Self::Shown(array)
    }

    fn write(&self, row: usize, zone: Tz, text: &mut String) -> Cell {
        let (Self::Sql(array, _) | Self::Shown(array)) = self;
        // An array of nothing but NULLs has no list of them.
        if array.is_null(row) || matches!(array.data_type(), DataType::Null) {
            return Cell::Null;
        }
        match self {
            Self::Sql(array, ty) => format_value(value_at(array, row), *ty, zone, text),
            Self::Shown(array) => match format_shown(array, row, zone) {
                Ok(shown) => text.push_str(&shown.unwrap_or_default()),
                Err(_) => {
                    let _ = write!(text, "({})", array.data_type());
                }
            },
        }
        Cell::Value
    }
}

/// Whether values of one Arrow type are read as those of the other: decimals of any precision, timestamps of any
/// zone.
fn same_kind(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Decimal128(_, left), DataType::Decimal128(_, right)) => left == right,
        (DataType::Timestamp(left, _), DataType::Timestamp(right, _)) => left == right,
        _ => left == right,
    }
}

/// A listing that is not a query's result.
pub(crate) struct Listing {
    columns: Vec<(String, Alignment)>,
    rows: Vec<Vec<String>>,
}

impl Listing {
    /// No rows yet.
    pub(crate) fn new(columns: &[(&str, Alignment)]) -> Self {
        let columns = columns.iter().map(|(name, alignment)| ((*name).to_owned(), *alignment)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has another number of cells than there are columns.
    pub(crate) fn push<const N: usize>(&mut self, row: [String; N]) {
        assert_eq!(N, self.columns.len(), "a row has a cell for each column");
        self.rows.push(row.into());
    }
}

impl Cells for Listing {
    fn columns(&self) -> Vec<(String, Alignment)> {
        self.columns.clone()
    }

    fn for_each_row(&self, each: &mut EachRow<'_>) -> std::io::Result<()> {
        for row in &self.rows {
            each(&|column, text| {
                text.push_str(&row[column]);
                Cell::Value
            })?;
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }
}
