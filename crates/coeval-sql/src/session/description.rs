// SPDX-License-Identifier: Apache-2.0
//! The columns of statements whose result is otherwise known only when they have run.

use super::Session;
use super::parse::Parsed;
use crate::context::StatementContext;
use crate::dml;
use crate::names::fold;
use crate::query;
use arrow::datatypes::SchemaRef;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::Statement;

impl Session {
    /// The columns of a statement about the session; `None` if it returns no rows.
    pub(super) fn columns_of_session_statement(&self, parsed: &Parsed) -> Option<SchemaRef> {
        let statement = match parsed {
            Parsed::Statement(statement) => statement,
            Parsed::Utility(utility) => return self.fetched_columns(utility),
            Parsed::Definition(_) | Parsed::Checkpoint => return None,
        };
        match &**statement {
            Statement::ShowVariable { variable } => {
                Some(super::variables::columns_of_show(&variable.iter().map(fold).collect::<Vec<_>>()))
            }
            Statement::Execute { name: Some(name), .. } => {
                let name = crate::names::fold_parts(name).ok()?.join(".");
                self.named(&name).ok()?.prepared()?.columns().cloned()
            }
            _ => None,
        }
    }
}

/// The columns of a statement that neither path has planned; `None` if it returns no rows, or if it is wrong, which
/// is said when it runs.
pub(super) fn columns_of(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    types: &[ColumnType],
) -> Option<SchemaRef> {
    let known: Vec<_> = types.iter().copied().map(Some).collect();
    match statement {
        Statement::Explain { .. } => Some(crate::explain::columns(statement)),
        Statement::Query(body) if dml::is_in_parts(body) => dml::columns_of_parts(context, body, &known),
        Statement::Query(body) if dml::statement_of(body).is_none() => {
            let unlocked = dml::without_locks(body);
            Some(query::plan(context, &unlocked, &known).ok()?.columns().clone())
        }
        other => {
            let returned = dml::returned(other)?;
            Some(query::plan(context, &returned, &known).ok()?.columns().clone())
        }
    }
}
