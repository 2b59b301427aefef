// SPDX-License-Identifier: Apache-2.0
//! From names in statements to what they stand for in the catalog of the statement's transaction.

use super::access::Owned;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
pub(super) use crate::names::{fold, split_name, unknown_schema, wrong_kind};
use crate::rights::Object;
use coeval_store::{ObjectAccess, ObjectRef, Privilege, QualifiedName, TableDef};
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;

/// Where a new object of this name goes: its schema, or the first of the search path that exists.
///
/// # Errors
/// 3F000 if there is no such schema.
pub(super) fn target(context: &StatementContext<'_>, name: &ObjectName) -> Result<QualifiedName, SqlError> {
    names::creation_name(name, context.settings, context.transaction)
}

/// Says that there is a relation of this name, so that none is made.
pub(super) fn note_existing(context: &mut StatementContext<'_>, name: &str) {
    context.notice(SqlState::DuplicateTable, format!("relation \"{name}\" already exists, skipping"));
}

/// Says that there is nothing of this kind and name, so that nothing is done to it.
pub(super) fn note_missing(context: &mut StatementContext<'_>, kind: &str, name: &ObjectName) {
    let name = split_name(name).map_or_else(|_| name.to_string(), |(_, name)| name);
    context.notice(SqlState::SuccessfulCompletion, format!("{kind} \"{name}\" does not exist, skipping"));
}

/// Refuses to make something in a schema where the session may not.
///
/// # Errors
/// `42501`.
pub(super) fn require_create(context: &StatementContext<'_>, schema: &str) -> Result<(), SqlError> {
    context.rights().require(Object::Schema(schema), Privilege::Create)
}

/// Refuses to change what does not belong to the session.
///
/// # Errors
/// `42501`.
pub(super) fn require_owner(
    context: &StatementContext<'_>,
    name: &QualifiedName,
    object: ObjectRef,
) -> Result<(), SqlError> {
    let rights = context.rights();
    if rights.is_superuser() {
        return Ok(());
    }
    rights.require(Object::Schema(&name.schema), Privilege::Usage)?;
    rights.require_owner(Owned::of(context, name, object)?.as_object())
}

/// The owner of what the session makes.
pub(super) fn own_access(context: &StatementContext<'_>) -> ObjectAccess {
    ObjectAccess::owned_by(context.settings.principal().as_owner())
}

/// What a name stands for, looked up along the search path unless it has a schema.
pub(super) fn find(
    context: &StatementContext<'_>,
    schema: Option<&str>,
    name: &str,
) -> Option<(QualifiedName, ObjectRef)> {
    let catalog = context.transaction.catalog();
    let lookup = |schema: &str| {
        let name = QualifiedName::new(schema, name);
        catalog.resolve(&name).map(|object| (name, object))
    };
    match schema {
        Some(schema) => lookup(context.settings.temporary().meant(schema)),
        None => names::path_of(name, context.settings).find_map(lookup),
    }
}

/// What a name in a statement stands for.
pub(super) fn resolve(
    context: &StatementContext<'_>,
    name: &ObjectName,
) -> Result<Option<(QualifiedName, ObjectRef)>, SqlError> {
    let (schema, name) = split_name(name)?;
    Ok(find(context, schema.as_deref(), &name))
}

/// `relation "x" does not exist`.
pub(super) fn unknown_relation(name: &ObjectName) -> SqlError {
    let shown = split_name(name).map_or_else(
        |_| name.to_string(),
        |(schema, name)| match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name,
        },
    );
    SqlError::new(SqlState::UndefinedTable, format!("relation \"{shown}\" does not exist"))
}

/// The table of this name.
///
/// # Errors
/// 42P01 if there is nothing of this name, 42809 if it is not a table.
pub(super) fn table(context: &StatementContext<'_>, name: &ObjectName) -> Result<Arc<TableDef>, SqlError> {
    match resolve(context, name)? {
        Some((_, ObjectRef::Table(id))) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            crate::foreign::refuse_definition(&def)?;
            Ok(def)
        }
        Some((name, _)) => Err(wrong_kind(&name, "table")),
        None => Err(unknown_relation(name)),
    }
}

/// The table of this name, of which the statement needs this privilege.
///
/// # Errors
/// As [`table`]; 42501 without the privilege.
pub(super) fn table_with(
    context: &StatementContext<'_>,
    name: &ObjectName,
    privilege: Privilege,
) -> Result<Arc<TableDef>, SqlError> {
    let def = table(context, name)?;
    context.rights().require(Object::Table(&def), privilege)?;
    Ok(def)
}

/// The index of a live column.
///
/// # Errors
/// 42703 if the table has none of this name.
pub(super) fn column(def: &TableDef, name: &str) -> Result<usize, SqlError> {
    def.column_index(name).ok_or_else(|| unknown_column(name, &def.name.name))
}

/// `42703` for a column that a relation has not.
pub(super) fn unknown_column(column: &str, relation: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{relation}\" does not exist");
    SqlError::new(SqlState::UndefinedColumn, message)
}

/// All tables of the transaction's snapshot, own changes included.
pub(super) fn tables(context: &StatementContext<'_>) -> Vec<Arc<TableDef>> {
    let names = context.transaction.catalog().names();
    let defs = names.filter_map(|(_, object)| match object {
        ObjectRef::Table(id) => context.transaction.table_def(id).ok().cloned(),
        ObjectRef::Index(..) | ObjectRef::View | ObjectRef::Sequence(_) => None,
    });
    defs.collect()
}

/// Refuses a name that stands for something already.
///
/// # Errors
/// 42P07.
pub(super) fn refuse_taken(context: &StatementContext<'_>, name: &QualifiedName) -> Result<(), SqlError> {
    if context.transaction.catalog().resolve(name).is_some() {
        let message = format!("relation \"{}\" already exists", name.name);
        return Err(SqlError::new(SqlState::DuplicateTable, message));
    }
    Ok(())
}

/// Refuses a name for a relation that a type has: its rows are of a type of the same name.
///
/// # Errors
/// 42710.
pub(super) fn refuse_type_name(context: &StatementContext<'_>, name: &QualifiedName) -> Result<(), SqlError> {
    if context.transaction.catalog().user_type(name).is_none() {
        return Ok(());
    }
    let message = format!("type \"{}\" already exists", name.name);
    Err(SqlError::new(SqlState::DuplicateObject, message).with_hint(
        "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any \
         existing type.",
    ))
}
