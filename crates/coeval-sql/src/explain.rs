// SPDX-License-Identifier: Apache-2.0
//! EXPLAIN and EXPLAIN ANALYZE: which path runs a statement, and what it reads.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::Statement;

/// Runs EXPLAIN.
///
/// # Errors
/// `0A000`: not there yet.
pub(crate) fn execute(
    _: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    Err(SqlError::unsupported(crate::statement::statement_name(statement)))
}
