// SPDX-License-Identifier: Apache-2.0
//! Tables of the database whose rows are on servers: which they are, and what is refused of them.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names;
use crate::query::locks_rows;
use crate::servers::{SCHEMA, SERVERS};
use crate::walk::find_relation;
use coeval_store::{ObjectRef, QualifiedName, TableDef, ValueRef};
use datafusion::sql::sqlparser::ast::{
    FromTable, Insert, ObjectName, Statement, TableFactor, TableObject, TableWithJoins, Visit,
};
use std::sync::Arc;

/// The table of this name, if its rows are on a server.
pub(crate) fn foreign_def(context: &StatementContext<'_>, name: &ObjectName) -> Option<Arc<TableDef>> {
    let def = names::table(name, context.settings, context.transaction).ok()?;
    def.foreign.is_some().then_some(def)
}

/// The first table of a server that a statement names anywhere.
pub(crate) fn first_foreign<V: Visit>(context: &StatementContext<'_>, syntax: &V) -> Option<Arc<TableDef>> {
    find_relation(syntax, |name| foreign_def(context, name))
}

/// The name of the table that a statement changes.
pub(crate) fn changed(statement: &Statement) -> Option<&ObjectName> {
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

/// Refuses a change or a lock of a server's table that was not sent to it.
///
/// # Errors
/// `0A000`.
pub(crate) fn refuse_change(context: &StatementContext<'_>, statement: &Statement) -> Result<(), SqlError> {
    if !context.engine.servers().are_there() {
        return Ok(());
    }
    let refused = match statement {
        Statement::Query(body) if locks_rows(body) => first_foreign(context, statement),
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

/// Whether there is a server of this name, whoever asks.
///
/// # Errors
/// If the table of servers cannot be read.
pub(crate) fn is_server(context: &StatementContext<'_>, name: &str) -> Result<bool, SqlError> {
    let Some(def) = context.transaction.resolve_table(&QualifiedName::new(SCHEMA, SERVERS)) else {
        return Ok(false);
    };
    let key = def.key_of(|_| ValueRef::Text(name));
    Ok(context.transaction.get(def.id, &key)?.is_some())
}

/// All tables whose rows are on servers.
pub(crate) fn foreign_tables(context: &StatementContext<'_>) -> Vec<Arc<TableDef>> {
    let ids = context.transaction.catalog().names().filter_map(|(_, object)| match object {
        ObjectRef::Table(id) => Some(id),
        ObjectRef::Index(..) | ObjectRef::View | ObjectRef::Sequence(_) => None,
    });
    let defs = ids.filter_map(|id| context.transaction.table_def(id).ok().cloned());
    defs.filter(|def| def.foreign.is_some()).collect()
}

/// Whether a table is on this server; if one is named, whether it is that table there.
pub(crate) fn is_of(def: &TableDef, server: &str, table: Option<&str>) -> bool {
    def.foreign
        .as_ref()
        .is_some_and(|foreign| foreign.server == server && table.is_none_or(|table| foreign.table == table))
}

/// The tables on the same server whose foreign keys name this one, and the names of these keys. None for a table of the
/// database's own.
///
/// # Errors
/// What the server says when it is opened.
pub(crate) fn children(
    context: &StatementContext<'_>,
    def: &TableDef,
) -> Result<Vec<(Arc<TableDef>, String)>, SqlError> {
    let Some(foreign) = &def.foreign else { return Ok(Vec::new()) };
    let server = context.engine.servers().get(context.engine, &foreign.server)?;
    let keys = server.database.foreign_keys_to(&foreign.table);
    let all = foreign_tables(context);
    let known = keys.into_iter().filter_map(|(child, key)| {
        let child = all.iter().find(|other| is_of(other, &foreign.server, Some(&child)))?;
        (child.id != def.id).then(|| (Arc::clone(child), key))
    });
    Ok(known.collect())
}

/// Notes that a definition is removed, so that its table goes from its server.
pub(crate) fn forget_table(context: &StatementContext<'_>, def: &TableDef) {
    if let Some(foreign) = &def.foreign {
        context.tique.lock().note_dropped(&foreign.server, &foreign.table);
    }
}

/// Refuses ALTER TABLE of a server's table, but for RENAME TO, and says what to do instead.
///
/// # Errors
/// `0A000`.
pub(crate) fn refuse_alter(def: &TableDef) -> Result<(), SqlError> {
    let name = &def.name.name;
    refuse_definition(def).map_err(|error| {
        error.with_hint(format!(
            "In one transaction: CREATE TABLE another one there, INSERT INTO it SELECT ... FROM {name}, DROP TABLE \
             {name}, ALTER TABLE the new one RENAME TO {name}."
        ))
    })
}

/// Refuses a change of the definition of a server's table, or a definition that relies on one.
///
/// # Errors
/// `0A000`.
pub(crate) fn refuse_definition(def: &TableDef) -> Result<(), SqlError> {
    match &def.foreign {
        None => Ok(()),
        Some(foreign) => Err(SqlError::unsupported(format!(
            "this statement about table \"{}\", whose rows are on server \"{}\",",
            def.name.name, foreign.server
        ))),
    }
}
