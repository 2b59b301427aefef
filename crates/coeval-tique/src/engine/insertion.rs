// SPDX-License-Identifier: Apache-2.0
//! Rows as the text of an INSERT.

use super::EngineError;
use crate::schema::quoted;
use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;

/// `INSERT INTO table VALUES ...`, each value written by `given`.
pub(super) fn insertion(
    table: &str,
    rows: &RecordBatch,
    given: fn(&ScalarValue) -> String,
) -> Result<String, EngineError> {
    let mut list = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        let mut values = Vec::with_capacity(rows.num_columns());
        for column in rows.columns() {
            let value = ScalarValue::try_from_array(column, row);
            let value = value.map_err(|error| EngineError::refused(error.to_string()))?;
            values.push(given(&value));
        }
        list.push(format!("({})", values.join(", ")));
    }
    Ok(format!("INSERT INTO {} VALUES {}", quoted(table), list.join(", ")))
}
