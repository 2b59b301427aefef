// SPDX-License-Identifier: Apache-2.0
//! Rows as the text of an INSERT.

use super::EngineError;
use crate::names::quoted;
use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;

/// `INSERT INTO table VALUES ...`, each value written by `given`, as statements of so many bytes or a row more.
pub(super) fn insertions(
    table: &str,
    rows: &RecordBatch,
    given: fn(&ScalarValue) -> String,
    bytes: usize,
) -> Result<Vec<String>, EngineError> {
    let (start, mut statements) = (format!("INSERT INTO {} VALUES ", quoted(table)), Vec::new());
    let mut statement = start.clone();
    for row in 0..rows.num_rows() {
        if statement.len() >= bytes {
            statements.push(std::mem::replace(&mut statement, start.clone()));
        }
        let mut values = Vec::with_capacity(rows.num_columns());
        for column in rows.columns() {
            let value = ScalarValue::try_from_array(column, row);
            let value = value.map_err(|error| EngineError::refused(error.to_string()))?;
            values.push(given(&value));
        }
        let comma = if statement.len() > start.len() { ", " } else { "" };
        statement += &format!("{comma}({})", values.join(", "));
    }
    statements.extend(Some(statement).filter(|statement| statement.len() > start.len()));
    Ok(statements)
}

/// As [`insertions`], of one statement; there are rows.
pub(super) fn insertion(
    table: &str,
    rows: &RecordBatch,
    given: fn(&ScalarValue) -> String,
) -> Result<String, EngineError> {
    Ok(insertions(table, rows, given, usize::MAX)?.pop().expect("there are rows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    #[test]
    fn rows_that_are_many_are_several_statements() {
        let numbers = Arc::new(Int64Array::from_iter_values(10..15)) as ArrayRef;
        let rows = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let of = |bytes| insertions("t", &rows, |value| value.to_string(), bytes).unwrap();
        let whole = "INSERT INTO \"t\" VALUES (10), (11), (12), (13), (14)";
        assert_eq!(of(usize::MAX), [whole]);
        let parts: Vec<_> = ["(10), (11)", "(12), (13)", "(14)"]
            .map(|part| format!("INSERT INTO \"t\" VALUES {part}"))
            .into();
        assert_eq!(of(parts[2].len() + 1), parts);
        assert!(insertions("t", &rows.slice(0, 0), |value| value.to_string(), 1).unwrap().is_empty());
    }
}
