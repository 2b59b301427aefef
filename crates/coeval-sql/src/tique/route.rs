// SPDX-License-Identifier: Apache-2.0
//! Which statements go to a server, and what is sent.
//!
//! | the statement | how it runs |
//! |---|---|
//! | names tables of one server alone, and nothing that is not [bound](super::bound) here | there, whole: its optimizer plans it |
//! | INSERT into a server's table from elsewhere | the query here; its rows are sent |
//! | a query, or a change here, over tables of servers and others | each foreign table is read, and joined here |
//! | any other change of a server's table | refused (0A000) |

use super::bound::{Bound, bind};
use super::definitions::named;
use super::rows::{lines_of, put_parameters, result_of, row_set, values_of};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::foreign::{changed, first_foreign, foreign_def};
use crate::needs::{needs_of_delete, needs_of_insert, needs_of_update};
use crate::provider::{CoevalTable, HiddenColumns, Keys};
use crate::query;
use crate::result::{RowSet, StatementResult};
use crate::rights::Object;
use crate::server_part::require_noted;
use coeval_store::{Privilege, TableDef};
use coeval_tique::Outcome;
use datafusion::sql::sqlparser::ast::{Insert, Query, SetExpr, Statement, TableObject};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;

/// A statement as its server gets it, and the tables that it names, each as often as it does.
struct Whole {
    server: String,
    bound: Bound,
}

/// The statement as a server gets it to which it goes whole, if it does: with the values of its parameters.
///
/// # Errors
/// What the server says when it is opened; `42P19` for a recursion that PostgreSQL refuses, and engines may run without an end.
fn whole(context: &StatementContext<'_>, statement: &Statement) -> Result<Option<Whole>, SqlError> {
    let is_fitting = match statement {
        Statement::Query(body) => crate::dml::is_plain_query(body) && !is_values(body),
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => true,
        _ => false,
    };
    if !is_fitting || !context.engine.servers().are_there() {
        return Ok(None);
    }
    match first_foreign(context, statement).and_then(|def| def.foreign.clone()) {
        Some(foreign) => {
            query::check_recursions(statement)?;
            bound(context, statement.clone(), foreign.server)
        }
        None => Ok(None),
    }
}

/// A statement as a server gets it; `None` if it names anything that is not there.
fn bound(
    context: &StatementContext<'_>,
    statement: Statement,
    server: String,
) -> Result<Option<Whole>, SqlError> {
    let opened = context.engine.servers().get(context.engine, &server)?;
    let is_there = |def: &Arc<TableDef>| def.foreign.as_ref().is_some_and(|foreign| foreign.server == server);
    let bound = bind(statement, &opened.kind, |name| foreign_def(context, name).filter(is_there));
    Ok(bound.map(|bound| Whole { server, bound }))
}

fn is_values(body: &Query) -> bool {
    matches!(&*body.body, SetExpr::Values(_))
}

/// Whether a statement is sent to a server as it is.
pub(crate) fn is_sent_whole(context: &StatementContext<'_>, statement: &Statement) -> bool {
    // That of a server which cannot be opened says so when it runs.
    whole(context, statement).map_or(true, |whole| whole.is_some())
}

/// Runs a statement on a server, if that is where it belongs.
///
/// # Errors
/// `42501`; `0A000` for what cannot be sent; what the server says.
pub(crate) fn run(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<StatementResult>, SqlError> {
    if !context.engine.servers().are_there() || first_foreign(context, statement).is_none() {
        return Ok(None);
    }
    let mut sent = statement.clone();
    if let Statement::Query(body) = &mut sent {
        **body = query::named_outputs(body);
    }
    let Some(whole) = whole(context, &sent)? else { return run_sourced(context, statement) };
    require_rights(context, statement, &whole.bound.tables)?;
    let outcome = send(context, statement, &whole.server, whole.bound.statement)?;
    result_of(outcome, context.tique.lock().promised()).map(Some)
}

/// Where a statement goes that is sent to a server whole, and how the engine there says that it runs it.
///
/// # Errors
/// As [`run`].
pub(crate) fn explain(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<Vec<String>>, SqlError> {
    let Some(Whole { server, bound }) = whole(context, statement)? else { return Ok(None) };
    require_rights(context, statement, &bound.tables)?;
    let mut lines = vec![format!("Server {server}: {}", crate::names::statement_name(statement))];
    if matches!(statement, Statement::Query(_)) {
        let mut sent = parsed("EXPLAIN SELECT 1")?;
        if let Statement::Explain { statement: explained, .. } = &mut sent {
            **explained = bound.statement;
        }
        let outcome = send(context, statement, &server, sent)?;
        lines.extend(outcome.rows.iter().flat_map(lines_of).map(|line| format!("  {line}")));
    }
    Ok(Some(lines))
}

/// Sends a statement that is bound, in the place of another or of a part of it, with the values of its parameters. What the
/// engine refuses is said of the statement that was written.
fn send(
    context: &mut StatementContext<'_>,
    written: &Statement,
    server: &str,
    mut sent: Statement,
) -> Result<Outcome, SqlError> {
    put_parameters(&mut sent, context)?;
    let outcome =
        context.tique.lock().execute(context.engine, context.transaction, context.settings, server, sent);
    outcome.map_err(|error| match error.state {
        SqlState::FdwError => super::explanation::of(context, written)
            .unwrap_or_else(|| error.with_detail(format!("The statement was: {written}"))),
        _ => error,
    })
}

/// An INSERT into a server's table from a query over others.
fn run_sourced(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<StatementResult>, SqlError> {
    let Statement::Insert(insert) = statement else { return Ok(None) };
    let TableObject::TableName(name) = &insert.table else { return Ok(None) };
    let (Some(def), Some(source)) = (foreign_def(context, name), &insert.source) else { return Ok(None) };
    let server = def.foreign.as_ref().map(|foreign| foreign.server.clone()).unwrap_or_default();
    // What is behind the rows (ON CONFLICT, RETURNING) is sent.
    let rest = Statement::Insert(Insert { source: None, ..insert.clone() });
    let Some(whole) = bound(context, rest, server)? else {
        return Err(SqlError::unsupported("this clause of an INSERT into a table on a server").with_hint(
            "It may name tables of that server alone, and functions that look at nothing but their arguments.",
        ));
    };
    require_rights(context, statement, &whole.bound.tables)?;
    let rows = query::collect(context, source)?;
    if rows.rows() == 0 {
        return Ok(Some(StatementResult::tagged(crate::result::CommandTag::Insert(0))));
    }
    let values = format!("VALUES {}", values_of(&rows, context)?);
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&values).and_then(|mut p| p.parse_query());
    let parsed = parsed.map_err(|error| SqlError::internal(format!("rows of an INSERT: {error}")))?;
    let Statement::Insert(rest) = whole.bound.statement else {
        return Err(SqlError::internal("an INSERT is bound to another statement"));
    };
    let sent = Statement::Insert(Insert { source: Some(parsed), ..rest });
    let outcome = send(context, statement, &whole.server, sent)?;
    result_of(outcome, context.tique.lock().promised()).map(Some)
}

fn require(context: &StatementContext<'_>, def: &TableDef, privilege: Privilege) -> Result<(), SqlError> {
    context.rights().require(Object::Table(def), privilege)
}

/// Refuses what the session may not do with the tables that a statement names. They are of one server; by their names
/// nothing else was found.
fn require_rights(
    context: &StatementContext<'_>,
    statement: &Statement,
    tables: &[Arc<TableDef>],
) -> Result<(), SqlError> {
    let needs = match statement {
        Statement::Insert(insert) => needs_of_insert(insert),
        Statement::Update(update) => needs_of_update(update),
        Statement::Delete(delete) => needs_of_delete(delete),
        _ => &[],
    };
    let target = changed(statement).and_then(|name| foreign_def(context, name));
    if let Some(def) = &target {
        needs.iter().try_for_each(|privilege| require(context, def, *privilege))?;
    }
    // A statement that names the target a second time also reads it.
    let at = target.and_then(|target| tables.iter().position(|def| def.id == target.id));
    let read = tables.iter().enumerate().filter(|(place, _)| Some(*place) != at);
    read.into_iter().try_for_each(|(_, def)| require(context, def, Privilege::Select))
}

/// All rows of a server's table, as the transaction sees them, in its columns' types.
///
/// # Errors
/// `0A000` at SERIALIZABLE if it is not known what else the statement reads; what the server says.
pub(crate) fn scan(context: &StatementContext<'_>, def: &TableDef) -> Result<RowSet, SqlError> {
    let foreign = def.foreign.as_ref().ok_or_else(|| SqlError::internal("a table of ours is no server's"))?;
    let provider = CoevalTable::new(Arc::new(def.clone()), HiddenColumns::Left, Keys::Told);
    let schema = datafusion::catalog::TableProvider::schema(&provider);
    let columns: Vec<String> =
        schema.fields().iter().map(|field| format!("\"{}\"", field.name().replace('"', "\"\""))).collect();
    let table = named(&foreign.table);
    let sql = format!("SELECT {} FROM {table}", columns.join(", "));
    let statement = parsed(&sql)?;
    require_noted(context.transaction)?;
    let mut part = context.tique.lock();
    let outcome =
        part.execute(context.engine, context.transaction, context.settings, &foreign.server, statement);
    // A place in our text says nothing to the client.
    let outcome = outcome.map_err(SqlError::without_position)?;
    let rows = outcome.rows.ok_or_else(|| SqlError::internal("a query gave no rows"))?;
    row_set(&rows, Some(&schema))
}

/// A statement that we wrote.
fn parsed(sql: &str) -> Result<Statement, SqlError> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok().and_then(|mut list| list.pop());
    parsed.ok_or_else(|| SqlError::internal(format!("our own text: {sql}")))
}
