// SPDX-License-Identifier: Apache-2.0
//! Generated columns: their values are computed for every row that is written, in whatever way it is written, and replace values
//! that came with the row.

use super::Transaction;
use crate::column::ColumnBuilder;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::row::{Row, RowWriter};
use crate::table::{RowRef, Table};
use crate::value::{Value, value_at};
use arrow::array::RecordBatch;

impl Transaction {
    /// The row with the values of the table's generated columns.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table; [`StoreError::Constraint`] if one cannot be computed.
    pub fn with_generated(&self, table: SpaceId, row: Row) -> Result<Row, StoreError> {
        let table = self.row_table(table)?;
        if !table.generates() {
            return Ok(row);
        }
        let values = self.shared.row_checks(table)?.generated(table.def(), &row)?;
        Ok(RowRef::of_row(table.def(), table.missing(), &row).with(&values))
    }

    /// Rows for a load, with the values of the table's generated columns.
    pub(super) fn batches_with_generated(
        &self,
        table: &Table,
        batches: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        if !table.generates() {
            return Ok(batches);
        }
        batches.iter().map(|batch| self.batch_with_generated(table, batch)).collect()
    }

    fn batch_with_generated(&self, table: &Table, batch: &RecordBatch) -> Result<RecordBatch, StoreError> {
        let def = table.def();
        if batch.num_columns() != def.columns.len() {
            // The load says what is wrong with it.
            return Ok(batch.clone());
        }
        let compiled = self.shared.row_checks(table)?;
        let mut builders: Vec<Option<ColumnBuilder>> = def
            .columns
            .iter()
            .map(|column| {
                let is_generated = column.generated.is_some();
                is_generated.then(|| ColumnBuilder::new(column.ty, batch.num_rows()))
            })
            .collect();
        for index in 0..batch.num_rows() {
            let mut writer = RowWriter::new(def.layout());
            for array in batch.columns() {
                writer.push(value_at(array, index))?;
            }
            let mut values: Vec<(usize, Value)> = compiled.generated(def, &writer.finish())?;
            for (column, value) in values.drain(..) {
                if let Some(builder) = &mut builders[column] {
                    builder.push(value.borrow());
                }
            }
        }
        let columns = batch.columns().iter().zip(&mut builders);
        let columns = columns.map(|(given, builder)| match builder {
            Some(builder) => builder.finish(),
            None => given.clone(),
        });
        Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
    }
}
