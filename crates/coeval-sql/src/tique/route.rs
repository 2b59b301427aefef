// SPDX-License-Identifier: Apache-2.0
//! Which statements go to a server, and what is sent.
//!
//! | the statement | how it runs |
//! |---|---|
//! | names tables of one server alone | there, whole: its optimizer plans it |
//! | INSERT into a server's table from elsewhere | the query here; its rows are sent |
//! | a query, or a change here, over tables of servers and others | each foreign table is read, and joined here |
//! | any other change of a server's table | refused (0A000) |

use super::definitions::named;
use super::part::require_noted;
use super::rows::{lines_of, put_parameters, result_of, row_set, values_of};
use crate::context::StatementContext;
use crate::dml::{needs_of_delete, needs_of_insert, needs_of_update};
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::provider::{CoevalTable, HiddenColumns, Keys};
use crate::query;
use crate::result::{RowSet, StatementResult};
use crate::rights::Kind;
use coeval_store::{Privilege, TableDef};
use coeval_tique::Outcome;
use datafusion::sql::sqlparser::ast::{
    FromTable, Ident, Insert, ObjectName, Query, SetExpr, Statement, TableAlias, TableFactor, TableObject,
    TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a statement names.
struct Named {
    foreign: Vec<(ObjectName, Arc<TableDef>)>,
    /// Whether it names anything else: tables of ours, views, functions that give rows.
    has_others: bool,
}

impl Named {
    /// The server of all that is named, if it is one and the same.
    fn server(&self) -> Option<&str> {
        let mut servers = self.foreign.iter().filter_map(|(_, def)| def.foreign.as_ref());
        let first = &servers.next()?.server;
        (!self.has_others && servers.all(|other| other.server == *first)).then_some(first)
    }
}

/// The names of common table expressions, and all names of relations.
#[derive(Default)]
struct Finder {
    hidden: HashSet<String>,
    names: Vec<ObjectName>,
    has_functions: bool,
}

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.extend(tables.map(|table| names::fold(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let is_plain = matches!(
            factor,
            TableFactor::Table { args: None, .. }
                | TableFactor::Derived { .. }
                | TableFactor::NestedJoin { .. }
        );
        self.has_functions |= !is_plain;
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.names.push(name.clone());
        ControlFlow::Continue(())
    }
}

fn foreign_def(context: &StatementContext<'_>, name: &ObjectName) -> Option<Arc<TableDef>> {
    let def = names::table(name, context.settings, context.transaction).ok()?;
    def.foreign.is_some().then_some(def)
}

fn named_in<V: Visit>(context: &StatementContext<'_>, syntax: &V) -> Named {
    let mut finder = Finder::default();
    // The visitor never breaks off.
    let _ = syntax.visit(&mut finder);
    let mut found = Named { foreign: Vec::new(), has_others: finder.has_functions };
    for name in finder.names {
        let is_hidden =
            matches!(names::fold_parts(&name).as_deref(), Ok([one]) if finder.hidden.contains(one));
        match foreign_def(context, &name) {
            // Which of the two is meant depends on the place: whoever resolves names knows.
            Some(_) if is_hidden => found.has_others = true,
            Some(def) => found.foreign.push((name, def)),
            None => found.has_others |= !is_hidden,
        }
    }
    found
}

/// The name of the table that a statement changes.
fn changed(statement: &Statement) -> Option<&ObjectName> {
    match statement {
        Statement::Insert(Insert { table: TableObject::TableName(name), .. }) => Some(name),
        Statement::Update(update) => table_of(&update.table),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.first().and_then(table_of)
        }
        _ => None,
    }
}

fn table_of(from: &TableWithJoins) -> Option<&ObjectName> {
    match &from.relation {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// The server that the statement goes to whole, if it does.
fn whole(context: &StatementContext<'_>, statement: &Statement) -> Option<(Named, String)> {
    let is_fitting = match statement {
        Statement::Query(body) => crate::dml::is_plain_query(body) && !is_values(body),
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => true,
        _ => false,
    };
    if !is_fitting || !context.engine.servers().are_there() {
        return None;
    }
    let named = named_in(context, statement);
    let server = named.server()?.to_owned();
    Some((named, server))
}

fn is_values(body: &Query) -> bool {
    matches!(&*body.body, SetExpr::Values(_))
}

/// Whether a statement is sent to a server as it is.
pub(crate) fn is_sent_whole(context: &StatementContext<'_>, statement: &Statement) -> bool {
    whole(context, statement).is_some()
}

/// Runs a statement on a server, if that is where it belongs.
///
/// # Errors
/// `42501`; `0A000` for what cannot be sent; what the server says.
pub(crate) fn run(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<StatementResult>, SqlError> {
    if !context.engine.servers().are_there() {
        return Ok(None);
    }
    let Some((named, server)) = whole(context, statement) else { return run_sourced(context, statement) };
    require_rights(context, statement, &named)?;
    let mut sent = statement.clone();
    if let Statement::Query(body) = &mut sent {
        **body = query::named_outputs(body);
    }
    let outcome = send(context, statement, &server, sent)?;
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
    let Some((named, server)) = whole(context, statement) else { return Ok(None) };
    require_rights(context, statement, &named)?;
    let mut lines = vec![format!("Server {server}: {}", crate::statement::statement_name(statement))];
    if matches!(statement, Statement::Query(_)) {
        let mut sent = parsed("EXPLAIN SELECT 1")?;
        if let Statement::Explain { statement: explained, .. } = &mut sent {
            **explained = statement.clone();
        }
        let outcome = send(context, statement, &server, sent)?;
        lines.extend(outcome.rows.iter().flat_map(lines_of).map(|line| format!("  {line}")));
    }
    Ok(Some(lines))
}

/// Sends a statement, or another in its place, with the values of its parameters and the server's names of tables. What the
/// engine refuses is said of the statement that was written.
fn send(
    context: &mut StatementContext<'_>,
    written: &Statement,
    server: &str,
    mut sent: Statement,
) -> Result<Outcome, SqlError> {
    put_parameters(&mut sent, context)?;
    rename(context, &mut sent);
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
    needs_of_insert(insert).iter().try_for_each(|privilege| require(context, &def, *privilege))?;
    let rows = query::collect(context, source)?;
    if rows.rows() == 0 {
        return Ok(Some(StatementResult::tagged(crate::result::CommandTag::Insert(0))));
    }
    let values = format!("VALUES {}", values_of(&rows, context)?);
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&values).and_then(|mut p| p.parse_query());
    let parsed = parsed.map_err(|error| SqlError::internal(format!("rows of an INSERT: {error}")))?;
    let sent = Statement::Insert(Insert { source: Some(parsed), ..insert.clone() });
    let server = def.foreign.as_ref().map(|foreign| foreign.server.clone()).unwrap_or_default();
    let outcome = send(context, statement, &server, sent)?;
    result_of(outcome, context.tique.lock().promised()).map(Some)
}

fn require(context: &StatementContext<'_>, def: &TableDef, privilege: Privilege) -> Result<(), SqlError> {
    let catalog = context.transaction.catalog();
    context.rights().require(catalog, Kind::Table, &def.name, &def.access, privilege)
}

fn require_rights(
    context: &StatementContext<'_>,
    statement: &Statement,
    named: &Named,
) -> Result<(), SqlError> {
    let needs = match statement {
        Statement::Insert(insert) => needs_of_insert(insert),
        Statement::Update(update) => needs_of_update(update),
        Statement::Delete(delete) => needs_of_delete(delete),
        _ => &[],
    };
    let target = changed(statement);
    if let Some(def) = target.and_then(|name| foreign_def(context, name)) {
        needs.iter().try_for_each(|privilege| require(context, &def, *privilege))?;
    }
    // Who names the target once more reads it.
    let at = named.foreign.iter().position(|(name, _)| Some(name) == target);
    let read = named.foreign.iter().enumerate().filter(|(place, _)| Some(*place) != at);
    read.into_iter().try_for_each(|(_, (_, def))| require(context, def, Privilege::Select))
}

/// Gives tables the names that they have on their server.
fn rename(context: &StatementContext<'_>, statement: &mut Statement) {
    struct Renamer<'c, 's>(&'c StatementContext<'s>);
    impl VisitorMut for Renamer<'_, '_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, alias, .. } = factor
                && let Some(def) = foreign_def(self.0, name)
                && let Some(foreign) = &def.foreign
            {
                if alias.is_none() && foreign.table != def.name.name {
                    let name = Ident::with_quote('"', &def.name.name);
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
                *name = named(&foreign.table);
            }
            ControlFlow::Continue(())
        }
    }
    if let Statement::Insert(Insert { table: TableObject::TableName(name), .. }) = statement
        && let Some(def) = foreign_def(context, name)
        && let Some(foreign) = &def.foreign
    {
        *name = named(&foreign.table);
    }
    // The visitor never breaks off.
    let _ = statement.visit(&mut Renamer(context));
}

/// Refuses a change or a lock of a server's table that was not sent to it.
///
/// # Errors
/// `0A000`.
pub(crate) fn refuse_change(context: &StatementContext<'_>, statement: &Statement) -> Result<(), SqlError> {
    if !context.engine.servers().are_there() {
        return Ok(());
    }
    let refused = match statement {
        Statement::Query(body) if query::locks_rows(body) => {
            named_in(context, statement).foreign.into_iter().next().map(|(_, def)| def)
        }
        other => changed(other).and_then(|name| foreign_def(context, name)),
    };
    match refused {
        None => Ok(()),
        Some(def) => Err(SqlError::unsupported(format!(
            "this change or lock of table \"{}\", which is on a server,",
            def.name.name
        ))
        .with_hint("A statement that changes a table of a server names tables of that server alone.")),
    }
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
