// SPDX-License-Identifier: Apache-2.0
//! What is found out of a table by looking at a sample of the rows that the plan will read: how many pass a filter, and
//! how many values an expression has.
//!
//! The rows are in memory or about to be read, so a look at two thousand of them costs less than keeping
//! histograms, is never out of date, and knows of correlated columns and of `LIKE`.

use super::batches::with_schema;
use super::column_field::field_of_column;
use super::distinct_values::distinct_of_sample;
use super::row_filters::is_true;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use coeval_store::TableView;
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// Rows that are looked at.
const SAMPLE_ROWS: usize = 2_048;

/// What share of a view's rows passes all these filters, between 0 and 1. They are over columns that stand at
/// `columns` of the definition. `None` if it cannot be found out: a filter fails on some row, or a chunk is
/// damaged; whoever runs the query will be told.
pub(crate) fn selectivity(
    view: &TableView,
    columns: &[usize],
    filters: &[Arc<dyn PhysicalExpr>],
) -> Option<f64> {
    if filters.is_empty() {
        return Some(1.0);
    }
    let sample = Tried::of(view, columns, conjunction(filters.iter().cloned()))?;
    if sample.rows == 0 {
        return Some(0.0);
    }
    let hits = match sample.value {
        ColumnarValue::Scalar(value) if is_true(&value) => sample.rows,
        ColumnarValue::Scalar(_) => 0,
        ColumnarValue::Array(array) => as_boolean_array(&array).ok()?.true_count(),
    };
    // No hit in a sample says "rare", not "none".
    let hits = if sample.is_whole { hits as f64 } else { (hits as f64).max(0.5) };
    Some(hits / sample.rows as f64)
}

/// Roughly how many different values an expression has over the `rows` rows of a view; at least one. `None` as in
/// [`selectivity`].
pub(crate) fn distinct_results(
    view: &TableView,
    columns: &[usize],
    expression: Arc<dyn PhysicalExpr>,
    rows: f64,
) -> Option<f64> {
    let sample = Tried::of(view, columns, expression)?;
    match sample.value {
        ColumnarValue::Scalar(_) => Some(1.0),
        ColumnarValue::Array(array) => {
            distinct_of_sample(&array, None, if sample.is_whole { 0.0 } else { rows })
        }
    }
}

/// The same of a column.
pub(crate) fn distinct_in_column(view: &TableView, column: usize) -> Option<f64> {
    let (sample, neighbours) = view.sample_with_neighbours(&[column], SAMPLE_ROWS).ok()?;
    let rows = if sample.is_whole { 0.0 } else { view.row_count() as f64 };
    distinct_of_sample(sample.batch.column(0), Some(neighbours.column(0)), rows)
}

/// An expression's values over a sample.
struct Tried {
    value: ColumnarValue,
    rows: usize,
    /// Whether the sample is all there is.
    is_whole: bool,
}

impl Tried {
    fn of(view: &TableView, columns: &[usize], expression: Arc<dyn PhysicalExpr>) -> Option<Self> {
        let mut read: Vec<usize> = collect_columns(&expression).iter().map(Column::index).collect();
        read.sort_unstable();
        let projection: Vec<usize> =
            read.iter().map(|&column| columns.get(column).copied()).collect::<Option<_>>()?;
        let sample = view.sample(&projection, SAMPLE_ROWS).ok()?;
        let batch = with_marks(view, &projection, &sample.batch)?;
        let expression = reassign_expr_columns(expression, &batch.schema()).ok()?;
        let value = expression.evaluate(&batch).ok()?;
        Some(Self { value, rows: batch.num_rows(), is_whole: sample.is_whole })
    }
}

/// The rows with the [marks](crate::types::marks) of types that Arrow does not tell apart: functions of documents go by them.
fn with_marks(view: &TableView, projection: &[usize], batch: &RecordBatch) -> Option<RecordBatch> {
    let columns = &view.def().columns;
    let fields: Vec<_> = projection.iter().map(|&column| field_of_column(&columns[column])).collect();
    with_schema(&Arc::new(Schema::new(fields)), batch.columns().to_vec(), batch.num_rows()).ok()
}

#[cfg(test)]
mod tests;
