// SPDX-License-Identifier: Apache-2.0
//! Batches into a table: missing columns get their defaults, then the store takes all rows at once.

use crate::cancel;
use crate::context::StatementContext;
use crate::ddl;
use crate::error::SqlError;
use crate::types::assign_array;
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{ColumnState, TableDef};
use std::sync::Arc;

/// Appends the batches, whose columns are these columns of the table, in this order. Returns how many rows.
/// Every constraint is enforced.
///
/// # Errors
/// What casting the values to the columns' types, defaults and constraints answer; no row is added then,
/// once the caller rolls back to where the statement began.
pub(crate) fn append(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    batches: Vec<RecordBatch>,
) -> Result<u64, SqlError> {
    let fields: Vec<Field> =
        def.columns.iter().map(|column| Field::new(&column.name, column.ty.arrow(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut complete = Vec::with_capacity(batches.len());
    for batch in batches {
        cancel::check()?;
        complete.push(complete_batch(context, def, columns, &batch, &schema)?);
    }
    Ok(context.transaction.bulk_insert(def.id, &complete)?)
}

/// The batch with every column of the table.
fn complete_batch(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    columns: &[usize],
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, SqlError> {
    let zone = context.settings.zone();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(def.columns.len());
    for (index, column) in def.columns.iter().enumerate() {
        let given = columns.iter().position(|&given| given == index);
        arrays.push(match given {
            Some(place) => {
                let assigned = assign_array(batch.column(place), column.ty, zone);
                assigned.map_err(|error| name_column(error, &column.name))?
            }
            None if column.state == ColumnState::Dropped => {
                new_null_array(&column.ty.arrow(), batch.num_rows())
            }
            None => ddl::default_column(context, column, batch.num_rows())?,
        });
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays)?)
}

fn name_column(error: SqlError, column: &str) -> SqlError {
    if error.detail.is_some() { error } else { error.with_detail(format!("column \"{column}\"")) }
}
