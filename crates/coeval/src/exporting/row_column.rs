// SPDX-License-Identifier: Apache-2.0
//! Rows of a table that come one by one, as one column of structs.

use super::{Exporter, TextForm};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use coeval_sql::field_of_column;
use coeval_store::{ColumnBuilder, ListRef, TableDef, ValueRef};
use std::sync::Arc;

/// What a value takes beside its own bytes, about.
const VALUE_BYTES: usize = 16;

/// Makes one column of rows that come one by one: a struct with a field for each column of their table, of the types in which
/// results of queries go out ([`Exporter`]). Where there is no row, the struct is NULL.
#[derive(Debug)]
pub struct RowColumn {
    /// By their index in the definition.
    columns: Vec<(usize, ColumnBuilder)>,
    /// For each row so far, whether it is there.
    are_there: Vec<bool>,
    /// As queries have the columns, except that each may be NULL: it is where there is no row.
    queried: SchemaRef,
    exporter: Exporter,
}

impl RowColumn {
    /// For these columns of a table, by their indexes in its definition.
    ///
    /// # Panics
    /// If the definition has no such column.
    #[must_use]
    pub fn new(table: &TableDef, columns: &[usize], form: TextForm) -> Self {
        let field = |&index: &usize| field_of_column(&table.columns[index]).with_nullable(true);
        let queried = Schema::new(columns.iter().map(field).collect::<Vec<Field>>());
        let builder = |&index: &usize| (index, ColumnBuilder::new(table.columns[index].ty, 0));
        Self {
            columns: columns.iter().map(builder).collect(),
            are_there: Vec::new(),
            exporter: Exporter::new(&queried, form),
            queried: Arc::new(queried),
        }
    }

    /// The type of the column.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        DataType::Struct(self.exporter.schema().fields().clone())
    }

    /// Appends a row, whose value of column `i` is `value(i)`. Returns how many bytes it takes, about.
    ///
    /// # Panics
    /// If a value is not of its column's physical type.
    pub fn push<'a>(&mut self, value: impl Fn(usize) -> ValueRef<'a>) -> usize {
        let mut bytes = 0;
        for (index, builder) in &mut self.columns {
            let value = value(*index);
            bytes += VALUE_BYTES + own_bytes(value);
            builder.push(value);
        }
        self.are_there.push(true);
        bytes
    }

    /// Appends that there is no row.
    pub fn push_none(&mut self) {
        self.columns.iter_mut().for_each(|(_, builder)| builder.push(ValueRef::Null));
        self.are_there.push(false);
    }

    /// The column; it is empty again then.
    ///
    /// # Errors
    /// If a value has no place in Arrow's arrays, as an enum without the label has none.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let are_there = std::mem::take(&mut self.are_there);
        let columns = self.columns.iter_mut().map(|(_, builder)| builder.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(are_there.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.queried), columns, &options)?;
        let (schema, columns, rows) = self.exporter.batch(&batch)?.into_parts();
        let are_there = Some(NullBuffer::from(are_there));
        let fields = schema.fields().clone();
        Ok(Arc::new(StructArray::try_new_with_length(fields, columns, are_there, rows)?))
    }
}

fn own_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Bytes(bytes) => bytes.len(),
        ValueRef::Number(number) => number.as_bytes().len(),
        ValueRef::List(ListRef::Encoded(bytes)) => bytes.len(),
        ValueRef::List(list) => list.encoded().len(),
        _ => 0,
    }
}
