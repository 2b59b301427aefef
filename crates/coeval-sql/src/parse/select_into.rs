// SPDX-License-Identifier: Apache-2.0
//! `SELECT ... INTO table`, which is `CREATE TABLE table AS SELECT ...`.

use crate::error::{SqlError, SqlState};
use crate::walk::any_select;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{CopySource, Query, Select, SelectInto, SetExpr, Statement};

/// Makes a definition of a query that names a table to put its rows into.
///
/// # Errors
/// `42601` where there is no such table: in subqueries, in parts of other statements, and behind the first SELECT of a UNION; `0A000` in
/// COPY and views.
pub(super) fn as_definition(statement: &mut Statement) -> Result<(), SqlError> {
    if let Statement::Prepare { statement, .. } = statement {
        return as_definition(statement);
    }
    if let Some((query, first_refused)) = part(statement) {
        return refuse(query, first_refused);
    }
    let Statement::Query(query) = statement else { return Ok(()) };
    let into = first_select(query).and_then(|select| select.into.take());
    if any_select(query, |select| select.into.is_some()) {
        return Err(not_allowed());
    }
    let Some(SelectInto { temporary, unlogged, name, .. }) = into else { return Ok(()) };
    if unlogged {
        return Err(SqlError::unsupported("UNLOGGED table"));
    }
    let definition = CreateTableBuilder::new(name).temporary(temporary).query(Some(query.clone())).build();
    *statement = Statement::CreateTable(definition);
    Ok(())
}

fn not_allowed() -> SqlError {
    SqlError::syntax("SELECT ... INTO is not allowed here")
}

fn not_copied() -> SqlError {
    SqlError::unsupported("COPY (SELECT INTO)")
}

fn not_viewed() -> SqlError {
    SqlError::new(SqlState::FeatureNotSupported, "views must not contain SELECT INTO")
}

/// A query, and what is said if its first SELECT names a table for its rows.
type Part<'s> = (&'s mut Query, fn() -> SqlError);

/// The query that is a part of a statement which does something else with its rows.
fn part(statement: &mut Statement) -> Option<Part<'_>> {
    match statement {
        Statement::Copy { source: CopySource::Query(query), .. } => Some((query.as_mut(), not_copied)),
        Statement::CreateView(view) => Some((view.query.as_mut(), not_viewed)),
        Statement::CreateTable(table) => Some((table.query.as_deref_mut()?, not_allowed)),
        Statement::Insert(insert) => Some((insert.source.as_deref_mut()?, not_allowed)),
        _ => None,
    }
}

/// Refuses a query that names a table for its rows.
fn refuse(query: &mut Query, first_refused: fn() -> SqlError) -> Result<(), SqlError> {
    if matches!(query.body.as_ref(), SetExpr::Values(_)) && query.with.is_none() {
        // Of a long list each value would be looked at.
        return Ok(());
    }
    if first_select(query).is_some_and(|select| select.into.is_some()) {
        return Err(first_refused());
    }
    if any_select(query, |select| select.into.is_some()) { Err(not_allowed()) } else { Ok(()) }
}

/// The first SELECT of a query, however many there are.
fn first_select(query: &mut Query) -> Option<&mut Select> {
    let mut body = query.body.as_mut();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(query) => query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => left.as_mut(),
            _ => return None,
        };
    }
}
