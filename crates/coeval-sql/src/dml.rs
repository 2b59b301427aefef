// SPDX-License-Identifier: Apache-2.0
//! INSERT, UPDATE, DELETE and row locks that the point path does not take.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::{Query, Statement};

/// Runs a DML statement.
///
/// # Errors
/// `0A000`: not there yet.
pub(crate) fn execute(
    _: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    Err(SqlError::unsupported(crate::statement::statement_name(statement)))
}

/// Runs SELECT ... FOR UPDATE: the rows found join the write set.
///
/// # Errors
/// `0A000`: not there yet.
pub(crate) fn select_for_update(
    _: &mut StatementContext<'_>,
    _: &Query,
) -> Result<StatementResult, SqlError> {
    Err(SqlError::unsupported("SELECT ... FOR UPDATE"))
}
