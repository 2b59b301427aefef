// SPDX-License-Identifier: Apache-2.0
//! What is found out of a table by looking at a sample of the rows that the plan will read: how many pass a filter, and
//! how many values an expression has.
//!
//! The rows are in memory or about to be read, so a look at two thousand of them costs less than keeping
//! histograms, is never out of date, and knows of correlated columns and of `LIKE`.

use super::batches::with_schema;
use super::distinct_values::distinct_of_sample;
use super::row_filters::is_true;
use super::table::field_of_column;
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
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::session::Session;
    use coeval_store::{AccessMode, CheckpointPolicy, ObjectRef, QualifiedName, Store, StoreOptions};
    use coeval_txn::Isolation;

    /// Of the table `t`, the values of its second column.
    fn values(store: &Store) -> f64 {
        let transaction = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        let table = transaction.catalog().resolve(&QualifiedName::new("public", "t"));
        let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
        distinct_in_column(&transaction.view(table).unwrap(), 1).unwrap()
    }

    /// A table `t` of so many rows, of which so many have texts, every third of them the same. Those of the others are NULL.
    fn with_texts(rows: usize, texts: usize) -> (Store, Session) {
        let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
        let store = Store::in_memory(options);
        let mut session = Engine::new(store.clone()).unwrap().session();
        session
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, name text);
                 INSERT INTO t SELECT i, CASE WHEN i > {texts} THEN NULL WHEN i % 3 = 0 THEN 'same' ELSE 'text ' || i END
                     FROM generate_series(1, {rows}) i"
            ))
            .unwrap();
        (store, session)
    }

    /// Few rows are in no chunk before a checkpoint.
    #[test]
    fn columns_have_their_values_in_chunks_and_before() {
        for rows in [4_000, 30_000] {
            let (store, mut session) = with_texts(rows, rows / 5 * 4);
            let expected = (rows / 5 * 4 * 2 / 3 + 1) as f64;
            for then in ["SELECT 1", "CHECKPOINT"] {
                session.execute(then).unwrap();
                let found = values(&store);
                assert!((0.9..1.1).contains(&(found / expected)), "{found} in the place of {expected}");
            }
        }
    }

    #[test]
    fn new_rows_count_though_the_sample_has_none_of_them() {
        let (store, mut session) = with_texts(10_000, 10_000);
        session.execute("CHECKPOINT").unwrap();
        let before = values(&store);
        session.execute("INSERT INTO t SELECT i, 'new ' || i FROM generate_series(10001, 14000) i").unwrap();
        let more = values(&store) / before;
        assert!((1.3..1.5).contains(&more), "{more} times as many values as before");
    }

    #[test]
    fn equal_values_that_stand_together_are_not_taken_for_different_ones() {
        let (store, mut session) = with_texts(0, 0);
        session
            .execute("INSERT INTO t SELECT i, 'order ' || i / 10 FROM generate_series(1, 50000) i")
            .unwrap();
        let found = values(&store);
        assert!((4_000.0..6_200.0).contains(&found), "{found} in the place of 5001");
    }

    #[test]
    fn small_tables_have_no_more_values_than_are_there() {
        let (store, mut session) = with_texts(3_000, 0);
        assert_eq!(values(&store), 1.0, "all are NULL");
        session
            .execute("DELETE FROM t; INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL)")
            .unwrap();
        session.execute("CHECKPOINT").unwrap();
        assert_eq!(values(&store), 2.0);
        session.execute("DELETE FROM t").unwrap();
        session.execute("CHECKPOINT").unwrap();
        assert_eq!(values(&store), 1.0, "there are no rows");
    }
}
