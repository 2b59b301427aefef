// SPDX-License-Identifier: Apache-2.0
//! Filters against each row asked by itself, for rows of which some are not to be asked.

use super::*;
use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::Schema;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};

const ROWS: i64 = 1_000;

/// `a` goes up to [`ROWS`], `b` up to 6.
fn rows() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 7)));
    RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap()
}

fn with(
    left: Arc<dyn PhysicalExpr>,
    operator: Operator,
    right: i64,
    schema: &Schema,
) -> Arc<dyn PhysicalExpr> {
    binary(left, operator, lit(right), schema).unwrap()
}

/// `a < 900`, which is compared, and what DataFusion evaluates: `a % 10 < 3` and `100 / b > 20`, which fails where `b` is 0.
fn filters(schema: &SchemaRef) -> RowFilters {
    let (a, b) = (col("a", schema).unwrap(), col("b", schema).unwrap());
    let below = with(Arc::clone(&a), Operator::Lt, 900, schema);
    let last_digit = with(with(a, Operator::Modulo, 10, schema), Operator::Lt, 3, schema);
    let quotient = with(binary(lit(100_i64), Operator::Divide, b, schema).unwrap(), Operator::Gt, 20, schema);
    let filters = Filter::required(vec![below, last_digit, quotient], schema);
    assert_eq!(filters.len(), 3);
    RowFilters::new(filters, Arc::clone(schema))
}

fn uncounted() -> WithoutPartner {
    WithoutPartner::default()
}

#[test]
fn rows_that_pass_are_known_by_their_places_in_what_was_asked() {
    let rows = rows();
    // Many rows, some, and so few that the others are let go of at once; never one that the last filter fails by.
    for every in [1, 2, 9, 100] {
        let is_marked = |row: usize| row.is_multiple_of(every) && !row.is_multiple_of(7);
        let passes = |row: usize| {
            let (a, b) = (row, row % 7);
            is_marked(row) && a < 900 && a % 10 < 3 && 100 / b > 20
        };
        let marked = BooleanBuffer::collect_bool(rows.num_rows(), is_marked);
        let expected = BooleanBuffer::collect_bool(rows.num_rows(), passes);
        let passing = filters(&rows.schema()).passing(rows.clone(), Some(marked), &uncounted()).unwrap();
        let passing = passing.expect("there are such rows");
        assert_eq!(passing.of_all(), expected, "one of {every}");
        assert_eq!(passing.rows(), expected.count_set_bits());
        let left = match passing.mask() {
            Some(mask) => filter_record_batch(passing.batch(), mask).unwrap(),
            None => passing.batch().clone(),
        };
        assert_eq!(left, filter_record_batch(&rows, &BooleanArray::new(expected, None)).unwrap());
    }
}

#[test]
fn a_row_that_is_marked_can_fail_a_filter() {
    let rows = rows();
    let failed = filters(&rows.schema()).passing(rows, None, &uncounted());
    assert!(failed.is_err(), "b is 0 in a row that the other filters leave");
}

#[test]
fn without_filters_the_marked_rows_pass() {
    let rows = rows();
    let mut none = RowFilters::new(Vec::new(), rows.schema());
    let marked = BooleanBuffer::collect_bool(rows.num_rows(), |row| row % 3 == 1);
    let passing = none.passing(rows.clone(), Some(marked.clone()), &uncounted()).unwrap().unwrap();
    assert_eq!(passing.of_all(), marked);
    let all = none.passing(rows.clone(), None, &uncounted()).unwrap().unwrap();
    assert_eq!((all.rows(), all.of_all()), (rows.num_rows(), BooleanBuffer::new_set(rows.num_rows())));
    let nothing = BooleanBuffer::new_unset(rows.num_rows());
    assert!(none.passing(rows, Some(nothing), &uncounted()).unwrap().is_none());
}
