// SPDX-License-Identifier: Apache-2.0
//! Values of an engine's answers.

use crate::engine::integer;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use coeval_tique::Rows;

/// The column and the row in it that a row of the whole answer is.
fn place(rows: &Rows, mut row: usize, column: usize) -> (&ArrayRef, usize) {
    for batch in &rows.batches {
        if row < batch.num_rows() {
            return (batch.column(column), row);
        }
        row -= batch.num_rows();
    }
    panic!("the answer has this row")
}

/// A whole number or unscaled decimal; nothing for NULL.
pub(crate) fn number(rows: &Rows, row: usize, column: usize) -> Option<i64> {
    let (array, row) = place(rows, row, column);
    match array.data_type() {
        DataType::Int8 | DataType::Float64 => {
            let array = cast(&array.slice(row, 1), &DataType::Int64).ok()?;
            integer(&array, 0)
        }
        // PostgreSQL's driver gives decimals as texts, with all digits of their type.
        DataType::Utf8 if !array.is_null(row) => {
            array.as_string::<i32>().value(row).replace('.', "").parse().ok()
        }
        _ => integer(array, row),
    }
}

/// A text that is not NULL.
pub(crate) fn text(rows: &Rows, row: usize, column: usize) -> &str {
    let (array, row) = place(rows, row, column);
    assert!(!array.is_null(row), "the statement asked for text that is not NULL");
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        other => panic!("the statement asked for text, not {other}"),
    }
}
