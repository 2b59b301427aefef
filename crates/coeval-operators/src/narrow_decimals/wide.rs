// SPDX-License-Identifier: Apache-2.0
//! Columns that were planned as decimals of 128 bits and come as 64-bit integers, `Decimal64`, as scans of row tables give those of few
//! digits.
//!
//! Such a column is never planned for: a late rule asks a scan for it where all that reads the column takes it. So what it was planned as
//! follows from what it is, and whoever needs that has it made.

use super::NarrowDecimals;
use super::values::NarrowValues;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::error::ArrowError;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// The columns that an expression reads as they were planned. What it computes by 64-bit integers may come as such.
#[must_use]
pub fn wide_columns(expression: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns = Vec::new();
    let mut left = vec![expression];
    while let Some(part) = left.pop() {
        if !part.is::<NarrowDecimals>() {
            columns.extend(part.downcast_ref::<Column>().map(Column::index));
            left.extend(part.children());
        }
    }
    columns
}

/// What a column of 64-bit integers was planned as; `None` of one of another type.
pub(crate) fn planned_type(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Decimal64(precision, scale) => Some(DataType::Decimal128(*precision, *scale)),
        _ => None,
    }
}

/// What columns were planned as; `None` if they are so.
pub(crate) fn planned_schema(schema: &Schema) -> Option<Schema> {
    let mut is_other = false;
    let field = |field: &FieldRef| match planned_type(field.data_type()) {
        Some(ty) => {
            is_other = true;
            Arc::new(field.as_ref().clone().with_data_type(ty))
        }
        None => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(field).collect();
    is_other.then(|| Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A column as it was planned.
pub(crate) fn wide(column: &ArrayRef) -> ArrayRef {
    match (NarrowValues::as_they_are(column), planned_type(column.data_type())) {
        (Some(narrow), Some(ty)) => narrow.widened(&ty),
        _ => Arc::clone(column),
    }
}

/// Rows as they were planned; `None` if they are so.
pub(super) fn wide_rows(rows: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
    let Some(schema) = planned_schema(rows.schema_ref()) else { return Ok(None) };
    let columns = rows.columns().iter().map(wide).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map(Some)
}
