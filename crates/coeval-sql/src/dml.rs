// SPDX-License-Identifier: Apache-2.0
//! INSERT, UPDATE, DELETE and row locks that the point path does not take.
//!
//! Each statement stands on a query of the same snapshot, own writes included, that runs to its end before
//! the first row is written; then the rows go through the transaction in key order, which enforces the
//! constraints. [`insert`], [`update`], [`delete`], [`merge`] and [`row_locks`] are the statements,
//! [`parts`] runs those with others in their WITH. What they share:
//! [`target`] (the table that is changed), [`crate::select`] (putting the query together), [`expressions`] (values
//! made row by row), [`selected`] (values out of the query), [`generated`] (defaults), [`returning`].

mod assignments;
mod bricks;
mod check_options;
mod conflict;
mod current_rows;
mod delete;
mod environment;
mod expressions;
mod generated;
mod insert;
mod joined;
mod locks_in_front;
mod merge;
mod parameters;
mod part_values;
mod parts;
mod parts_described;
mod parts_in_front;
mod returning;
mod row_locks;
mod rows;
mod selected;
mod subqueries;
mod target;
mod target_view;
mod underlying;
mod update;

pub(crate) use locks_in_front::{with_locks_in_front, without_locks};
pub(crate) use parameters::{parameter_types, with_assigned_types};
pub(crate) use parts::{execute_in_parts, first_change, is_in_parts, is_plain_query};
pub(crate) use parts_described::columns_of_parts;
pub(crate) use parts_in_front::with_parts_in_front;
pub(crate) use underlying::returned;

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::query;
use crate::result::StatementResult;
use datafusion::sql::sqlparser::ast::{
    CopySource, Delete, FromTable, Insert, Query, SetExpr, Statement, TableFactor, TableObject, With,
};

/// Runs a DML statement.
///
/// # Errors
/// What it refuses; nothing of it remains once the caller has rolled back to where it began.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    execute_with(context, statement, None)
}

/// Runs a query, and locks its rows if it says so.
///
/// # Errors
/// As [`query::execute`]; what a lock meets.
pub(crate) fn execute_query(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<StatementResult, SqlError> {
    if query::locks_rows(query) {
        return row_locks::execute(context, query);
    }
    query::execute(context, query)
}

/// The DML statement that a query with common table expressions in front of it is, if it is one.
pub(crate) fn statement_of(query: &Query) -> Option<&Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

/// Whether a change has RETURNING.
pub(crate) fn returns_rows(change: &Statement) -> bool {
    match change {
        Statement::Insert(insert) => insert.returning.is_some(),
        Statement::Update(update) => update.returning.is_some(),
        Statement::Delete(delete) => delete.returning.is_some(),
        _ => false,
    }
}

/// Runs a DML statement with common table expressions in front of it.
///
/// # Errors
/// As [`execute`].
pub(crate) fn execute_with(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    crate::foreign::refuse_change(context, statement)?;
    let current = current_rows::resolved(context, statement)?;
    let statement = current.as_ref().unwrap_or(statement);
    let evaluated = subqueries::evaluated(context, statement, with)?;
    match evaluated.as_ref().unwrap_or(statement) {
        Statement::Insert(insert) => insert::run(context, insert, with),
        Statement::Update(update) => update::run(context, update, with),
        Statement::Delete(delete) => delete::run(context, delete, with),
        Statement::Merge(merge) => merge::run(context, merge, with),
        other => Err(SqlError::unsupported(crate::names::statement_name(other))),
    }
}

/// Refuses a statement that changes rows in a read-only transaction, even if it would find no row.
///
/// # Errors
/// `25006` for such a statement.
pub(crate) fn refuse_read_only(
    context: &StatementContext<'_>,
    statement: &Statement,
) -> Result<(), SqlError> {
    let inner = match statement {
        Statement::Query(body) => first_change(body),
        // Of one that returns nothing COPY says so.
        Statement::Copy { source: CopySource::Query(body), .. } => {
            first_change(body).filter(|change| returns_rows(change))
        }
        other => Some(other),
    };
    let verb = match inner {
        Some(Statement::Insert(_)) => "INSERT",
        Some(Statement::Update(_)) => "UPDATE",
        Some(Statement::Delete(_)) => "DELETE",
        Some(Statement::Merge(_)) => "MERGE",
        Some(Statement::Copy { to: false, .. }) => "COPY FROM",
        _ => return Ok(()),
    };
    if !context.transaction.is_read_only() || inner.is_some_and(|inner| changes_spread_table(context, inner))
    {
        return Ok(());
    }
    let message = format!("cannot execute {verb} in a read-only transaction");
    Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message))
}

/// Whether a statement loads into a table that is spread over a cluster, or deletes from one, and its transaction was not declared
/// READ ONLY: a replica writes nothing of its own, and such rows are none of its.
fn changes_spread_table(context: &StatementContext<'_>, statement: &Statement) -> bool {
    let name = match statement {
        Statement::Insert(Insert { table: TableObject::TableName(name), .. }) => Some(name),
        Statement::Copy { source: CopySource::Table { table_name, .. }, to: false, .. } => Some(table_name),
        Statement::Delete(Delete {
            from: FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables),
            ..
        }) => match tables.first().map(|table| &table.relation) {
            Some(TableFactor::Table { name, .. }) => Some(name),
            _ => None,
        },
        _ => None,
    };
    // A table that is not there is refused where it is looked for.
    let found = name.and_then(|name| names::table(name, context.settings, context.transaction).ok());
    found.is_some_and(|def| def.is_spread()) && context.spread.lock().may_change()
}

/// `0A000` for the first clause that is there.
fn refuse_any(clauses: &[(bool, &str)]) -> Result<(), SqlError> {
    match clauses.iter().find(|(present, _)| *present) {
        None => Ok(()),
        Some((_, clause)) => Err(SqlError::unsupported(clause)),
    }
}
