// SPDX-License-Identifier: Apache-2.0
//! Which module runs which statement. What none of them takes is refused by name.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names::statement_name;
use crate::result::StatementResult;
use crate::{copy, ddl, dml, explain, tique};
use datafusion::sql::sqlparser::ast::Statement;
use std::borrow::Cow;

/// Runs a statement that works inside a transaction. The point path has been tried before.
///
/// # Errors
/// Whatever the statement's module refuses, `0A000` for statements that Coeval does not have.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    dml::refuse_read_only(context, statement)?;
    let resolved = match statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_) => {
            crate::user_types::resolved(statement, context.settings, context.transaction)
        }
        // Definitions keep the names as they are written.
        other => Cow::Borrowed(other),
    };
    let statement: &Statement = &resolved;
    if let Some(result) = tique::run(context, statement)? {
        return Ok(result);
    }
    crate::foreign::refuse_change(context, statement)?;
    let in_parts = dml::with_locks_in_front(statement).or_else(|| dml::with_parts_in_front(statement));
    if let Some(in_parts) = in_parts {
        return dml::execute_in_parts(context, &in_parts);
    }
    match statement {
        Statement::Query(body) if dml::is_in_parts(body) => dml::execute_in_parts(context, body),
        Statement::Query(body) => match dml::statement_of(body) {
            Some(inner) => dml::execute_with(context, inner, body.with.as_ref()),
            None => dml::execute_query(context, body),
        },
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            dml::execute(context, statement)
        }
        Statement::Copy { .. } => copy::execute(context, statement, execute),
        Statement::Explain { .. } => explain::execute(context, statement, execute),
        other => match ddl::execute(context, other)? {
            Some(result) => Ok(result),
            None => Err(SqlError::unsupported(statement_name(other))),
        },
    }
}
