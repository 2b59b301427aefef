// SPDX-License-Identifier: Apache-2.0
//! Generated columns: their values are computed for every row that is written, in whatever way it is written, and replace values
//! that came with the row. So do rounded ones in columns with fewer digits of seconds, before anything is computed of them.

use super::Transaction;
use crate::catalog::ColumnDef;
use crate::column::ColumnBuilder;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::row::{Row, RowWriter};
use crate::second_digits::{rounded_batch, rounded_row};
use crate::table::{RowRef, Table};
use crate::value::{Value, value_at};
use arrow::array::RecordBatch;

impl Transaction {
    /// The row as the table keeps it: with the values of its generated columns, times rounded to the digits of theirs.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table; [`StoreError::Constraint`] if one cannot be computed.
    pub fn with_generated(&self, table: SpaceId, row: Row) -> Result<Row, StoreError> {
        let table = self.row_table(table)?;
        if !table.generates() {
            return Ok(row);
        }
        let row = rounded_row(table, row);
        if !has_generated(&table.def().columns) {
            return Ok(row);
        }
        let values = self.shared.row_checks(table)?.generated(table.def(), &row)?;
        let values: Vec<(usize, Value)> = values
            .into_iter()
            .map(|(column, value)| (column, table.def().columns[column].rounded(value)))
            .collect();
        Ok(RowRef::of_row(table.def(), table.missing(), &row).with(&values))
    }

    /// Rows for a load, as [`with_generated`](Self::with_generated) makes each.
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
        let batch = rounded_batch(def, batch.clone())?;
        if !has_generated(&def.columns) {
            return Ok(batch);
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
                    builder.push(def.columns[column].rounded(value).borrow());
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

fn has_generated(columns: &[ColumnDef]) -> bool {
    columns.iter().any(|column| column.generated.is_some())
}
