// SPDX-License-Identifier: Apache-2.0
//! Statements that change definitions.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::Statement;

/// Runs a DDL statement; `None` if it is not one.
///
/// # Errors
/// None yet.
pub(crate) fn execute(
    _: &mut StatementContext<'_>,
    _: &Statement,
) -> Result<Option<StatementResult>, SqlError> {
    Ok(None)
}
