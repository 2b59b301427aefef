// SPDX-License-Identifier: Apache-2.0
//! How many rows of a table pass a filter: tried on a sample of the rows that the plan will read.
//!
//! The rows are in memory or about to be read, so a look at two thousand of them costs less than keeping
//! histograms, is never out of date, and knows of correlated columns and of `LIKE`.

use coeval_store::TableView;
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// Rows that a filter is tried on.
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
    let filter = conjunction(filters.iter().cloned());
    let mut read: Vec<usize> = collect_columns(&filter).iter().map(Column::index).collect();
    read.sort_unstable();
    let projection: Vec<usize> =
        read.iter().map(|&column| columns.get(column).copied()).collect::<Option<_>>()?;
    let sample = view.sample(&projection, SAMPLE_ROWS).ok()?;
    let rows = sample.batch.num_rows();
    if rows == 0 {
        return Some(0.0);
    }
    let filter = reassign_expr_columns(filter, &sample.batch.schema()).ok()?;
    let hits = match filter.evaluate(&sample.batch).ok()? {
        ColumnarValue::Scalar(value) if super::batches::is_true(&value) => rows,
        ColumnarValue::Scalar(_) => 0,
        ColumnarValue::Array(array) => as_boolean_array(&array).ok()?.true_count(),
    };
    // No hit in a sample says "rare", not "none".
    let hits = if sample.is_whole { hits as f64 } else { (hits as f64).max(0.5) };
    Some(hits / rows as f64)
}
