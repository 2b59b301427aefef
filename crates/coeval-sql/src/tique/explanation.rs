// SPDX-License-Identifier: Apache-2.0
//! Why a server's engine refused a statement, in the statement's own words.
//!
//! An engine speaks of the statement that it got, which nobody wrote, and in its own way. What is wrong with names and types is
//! known here as well: the statement is planned over the definitions, and if that fails, this is what the client is told,
//! with its SQLSTATE and its position.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::query;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, Query, Select, SelectItem, SetExpr, Statement, TableWithJoins, UpdateTableFromKind,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// What is wrong with a statement by its names and types; nothing if they are right, and the engine had reasons of its own.
pub(super) fn of(context: &mut StatementContext<'_>, statement: &Statement) -> Option<SqlError> {
    let query = read_by(statement)?;
    let types: Vec<Option<ColumnType>> = context.parameter_types.iter().copied().map(Some).collect();
    let error = query::plan(context, &query, &types).err()?;
    // Syntax error or access rule violation: everything else may be the planner's own limit.
    error.state.code().starts_with("42").then_some(error)
}

/// The query that a statement reads its rows by.
fn read_by(statement: &Statement) -> Option<Query> {
    match statement {
        Statement::Query(body) => Some((**body).clone()),
        Statement::Insert(insert) => insert.source.as_deref().cloned(),
        Statement::Update(update) => {
            let values = update.assignments.iter().map(|assignment| assignment.value.clone());
            let mut from = vec![update.table.clone()];
            match &update.from {
                Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                    from.extend(more.iter().cloned());
                }
                None => {}
            }
            select(values, from, update.selection.clone())
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let from = from.iter().chain(delete.using.iter().flatten()).cloned().collect();
            select(std::iter::empty(), from, delete.selection.clone())
        }
        _ => None,
    }
}

/// `SELECT 1, values FROM ... WHERE ...`, each part where it stands in the statement.
fn select(
    values: impl Iterator<Item = Expr>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Option<Query> {
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT 1");
    let mut query = parsed.and_then(|mut parser| parser.parse_query()).ok()?;
    let SetExpr::Select(body) = &mut *query.body else { return None };
    let body: &mut Select = body;
    body.projection.extend(values.filter(|value| !is_default(value)).map(SelectItem::UnnamedExpr));
    (body.from, body.selection) = (from, selection);
    Some(*query)
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}
