// SPDX-License-Identifier: Apache-2.0
//! How many rows a query takes and skips, where that is found out while it runs.

use super::choice::{Form, Takes};
use super::{Entry, called};
use crate::error::{SqlError, SqlState};
use crate::parse::WITH_TIES;
use coeval_store::{ColumnType, Value};

const BIGINT: Takes = Takes::Type(ColumnType::BigInt);

/// How many rows LIMIT takes: NULL is all of them.
pub(crate) const ROWS_TAKEN: &str = "coeval_rows_taken";
/// How many rows OFFSET skips: NULL is none.
pub(crate) const ROWS_SKIPPED: &str = "coeval_rows_skipped";

pub(super) const ENTRIES: &[Entry] = &[
    called(
        ROWS_TAKEN,
        &[Form::new(&[BIGINT], ColumnType::BigInt, |call| {
            let count = if call.has(0) { call.int(0) } else { i64::MAX };
            not_negative(count, SqlState::InvalidRowCountInLimitClause, "LIMIT")
        })],
    ),
    called(
        ROWS_SKIPPED,
        &[Form::new(&[BIGINT], ColumnType::BigInt, |call| {
            not_negative(call.int(0), SqlState::InvalidRowCountInResultOffsetClause, "OFFSET")
        })],
    ),
    called(
        WITH_TIES,
        &[Form::new(&[BIGINT], ColumnType::BigInt, |call| {
            if !call.has(0) {
                let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
                return Err(SqlError::new(SqlState::InvalidRowCountInLimitClause, message));
            }
            not_negative(call.int(0), SqlState::InvalidRowCountInLimitClause, "LIMIT")
        })],
    ),
];

fn not_negative(count: i64, state: SqlState, clause: &str) -> Result<Value, SqlError> {
    if count < 0 {
        return Err(SqlError::new(state, format!("{clause} must not be negative")));
    }
    Ok(Value::Int64(count))
}
