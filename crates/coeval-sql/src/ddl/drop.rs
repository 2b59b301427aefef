// SPDX-License-Identifier: Apache-2.0
//! DROP TABLE, VIEW, SEQUENCE, INDEX and SCHEMA.

use super::access::Owned;
use super::dependents::{self, Behavior, Users, still_needed};
use super::existence::Missing;
use super::{enum_types, index, lookup};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use crate::rights::Object;
use coeval_store::{CatalogChange, ColumnState, ObjectRef, QualifiedName, SequenceDef, TableDef};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use std::sync::Arc;

/// What a DROP statement says, as far as it is supported.
pub(super) struct Drop<'a> {
    pub(super) kind: &'a ObjectType,
    pub(super) names: &'a [ObjectName],
    pub(super) missing: Missing,
    pub(super) behavior: Behavior,
}

/// DROP of objects of one kind.
///
/// # Errors
/// 42P01, 42704, 3F000 for unknown names, 42809 for names of another kind, 2BP01 when something depends on
/// the object and CASCADE was not said.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    drop: &Drop<'_>,
) -> Result<StatementResult, SqlError> {
    let tag = match drop.kind {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Type => return enum_types::drop(context, drop.names, drop.missing, drop.behavior),
        other => return Err(SqlError::unsupported(format!("DROP {other}"))),
    };
    if *drop.kind == ObjectType::Schema {
        drop_schemas(context, drop)?;
        return Ok(StatementResult::plain(tag));
    }
    let doomed: Vec<_> = find_all(context, drop)?;
    let mut users = Users::default();
    for (name, object) in &doomed {
        // An object named twice, or dropped with one before it, is gone already.
        if context.transaction.catalog().resolve(name) == Some(*object) {
            drop_one(context, name, *object, drop, &doomed, &mut users)?;
        }
    }
    Ok(StatementResult::plain(tag))
}

fn find_all(
    context: &mut StatementContext<'_>,
    drop: &Drop<'_>,
) -> Result<Vec<(QualifiedName, ObjectRef)>, SqlError> {
    let mut found = Vec::new();
    for name in drop.names {
        match lookup::resolve(context, name)? {
            Some((name, object)) => {
                refuse_other_kind(&name, object, drop.kind)?;
                lookup::require_owner(context, &name, object)?;
                found.push((name, object));
            }
            None if drop.missing == Missing::Skip => {
                lookup::note_missing(context, &drop.kind.to_string().to_lowercase(), name);
            }
            None => return Err(unknown(context, name, drop.kind)),
        }
    }
    Ok(found)
}

fn refuse_other_kind(name: &QualifiedName, object: ObjectRef, kind: &ObjectType) -> Result<(), SqlError> {
    let (actual, word) = match object {
        ObjectRef::Table(_) => (ObjectType::Table, "table"),
        ObjectRef::Index(..) => (ObjectType::Index, "index"),
        ObjectRef::View => (ObjectType::View, "view"),
        ObjectRef::Sequence(_) => (ObjectType::Sequence, "sequence"),
    };
    if actual == *kind {
        return Ok(());
    }
    let hint = format!("Use DROP {} to remove {} {word}.", word.to_uppercase(), article(word));
    Err(lookup::wrong_kind(name, &kind.to_string().to_lowercase()).with_hint(hint))
}

fn article(word: &str) -> &'static str {
    if word.starts_with('i') { "an" } else { "a" }
}

fn unknown(context: &StatementContext<'_>, name: &ObjectName, kind: &ObjectType) -> SqlError {
    if *kind == ObjectType::Index {
        return index::unknown(context, name);
    }
    let (schema, bare) = match lookup::split_name(name) {
        Ok(parts) => parts,
        Err(error) => return error,
    };
    if let Some(schema) = schema.as_ref().filter(|schema| !context.transaction.catalog().has_schema(schema)) {
        return lookup::unknown_schema(schema);
    }
    let kind = kind.to_string().to_lowercase();
    SqlError::new(SqlState::UndefinedTable, format!("{kind} \"{bare}\" does not exist"))
}

fn drop_one(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    object: ObjectRef,
    drop: &Drop<'_>,
    doomed: &[(QualifiedName, ObjectRef)],
    users: &mut Users,
) -> Result<(), SqlError> {
    cancel::check()?;
    match object {
        ObjectRef::Table(id) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            drop_table(context, &def, drop.behavior, doomed, users)
        }
        ObjectRef::View => {
            drop_views_on(context, name, &format!("view {}", name.name), drop.behavior, doomed, users)?;
            context.transaction.change_catalog(CatalogChange::RemoveView(name.clone()))?;
            Ok(())
        }
        ObjectRef::Sequence(id) => {
            let sequence = context.transaction.catalog().sequence(id).cloned();
            let sequence = sequence.ok_or_else(|| SqlError::internal(format!("sequence {name} is lost")))?;
            drop_sequence(context, &sequence, drop.behavior, doomed, users)
        }
        ObjectRef::Index(table, id) => index::drop(context, name, table, id),
    }
}

/// The relation that an object is; none for what is no relation.
pub(super) fn relation_of(owned: &Owned) -> Option<(QualifiedName, ObjectRef)> {
    match owned {
        Owned::Table(def) => Some((def.name.clone(), ObjectRef::Table(def.id))),
        Owned::View(view) => Some((view.name.clone(), ObjectRef::View)),
        Owned::Sequence(sequence) => Some((sequence.name.clone(), ObjectRef::Sequence(sequence.id))),
        Owned::Type(_) | Owned::Schema(..) | Owned::Server(..) => None,
    }
}

/// Drops a relation or a type that is there, and that goes together with others.
///
/// # Errors
/// `2BP01` when something depends on it that stays.
pub(super) fn drop_owned_relation(
    context: &mut StatementContext<'_>,
    owned: &Owned,
    behavior: Behavior,
    doomed: &[(QualifiedName, ObjectRef)],
    users: &mut Users,
) -> Result<(), SqlError> {
    if let Owned::Type(def) = owned {
        return enum_types::drop_owned(context, def, behavior);
    }
    let (name, object) = relation_of(owned).ok_or_else(|| SqlError::internal("a relation was expected"))?;
    let drop = Drop { kind: &ObjectType::Table, names: &[], missing: Missing::Skip, behavior };
    drop_one(context, &name, object, &drop, doomed, users)
}

/// Drops a table with its sequences, and with CASCADE what depends on it.
fn drop_table(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    behavior: Behavior,
    doomed: &[(QualifiedName, ObjectRef)],
    users: &mut Users,
) -> Result<(), SqlError> {
    let children = dependents::children(context, def)?;
    if behavior == Behavior::Restrict {
        let staying = children.iter().filter(|(child, _)| !is_doomed(doomed, ObjectRef::Table(child.id)));
        let details: Vec<String> = staying
            .map(|(child, key)| {
                format!("constraint {key} on table {} depends on table {}", child.name, def.name)
            })
            .collect();
        if !details.is_empty() {
            return Err(still_needed(&format!("table {}", def.name), &details));
        }
    }
    require_no_children_on_server(context, def, doomed)?;
    drop_views_on(context, &def.name, &format!("table {}", def.name), behavior, doomed, users)?;
    for (child, key) in children {
        dependents::drop_foreign_key(context, &child, &key)?;
    }
    for sequence in dependents::owned_sequences(context, def) {
        forget_defaults(context, &sequence, behavior, (Some(def), doomed), users)?;
        context.transaction.change_catalog(CatalogChange::RemoveSequence(sequence.id))?;
    }
    context.transaction.change_catalog(CatalogChange::RemoveTable(def.id))?;
    crate::foreign::forget_table(context, def);
    Ok(())
}

/// Refuses to drop a server's table that foreign keys there name; not even CASCADE takes these away.
fn require_no_children_on_server(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    doomed: &[(QualifiedName, ObjectRef)],
) -> Result<(), SqlError> {
    let children = crate::foreign::children(context, def)?;
    let staying = children.iter().filter(|(child, _)| !is_doomed(doomed, ObjectRef::Table(child.id)));
    let details: Vec<String> = staying
        .map(|(child, key)| format!("constraint {key} on table {} depends on table {}", child.name, def.name))
        .collect();
    match details.is_empty() {
        true => Ok(()),
        false => Err(still_needed(&format!("table {}", def.name), &details)
            .with_hint("Drop the tables that have these foreign keys first, or in the same statement.")),
    }
}

fn is_doomed(doomed: &[(QualifiedName, ObjectRef)], object: ObjectRef) -> bool {
    doomed.iter().any(|(_, other)| *other == object)
}

/// Drops the views that depend on a relation, or refuses if there are any that stay.
pub(super) fn drop_views_on(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    what: &str,
    behavior: Behavior,
    doomed: &[(QualifiedName, ObjectRef)],
    users: &mut Users,
) -> Result<(), SqlError> {
    let views = users.all_views_on(context, name)?;
    if behavior == Behavior::Restrict {
        let staying = views.iter().filter(|view| !doomed.iter().any(|(other, _)| other == *view));
        let details: Vec<String> = staying.map(|view| format!("view {view} depends on {what}")).collect();
        if !details.is_empty() {
            return Err(still_needed(what, &details));
        }
    }
    for view in views {
        cancel::check()?;
        context.transaction.change_catalog(CatalogChange::RemoveView(view))?;
    }
    Ok(())
}

/// Drops a sequence. Columns that it feeds keep it, unless CASCADE takes their defaults.
///
/// # Errors
/// 2BP01 if a column needs it.
pub(super) fn drop_sequence(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    behavior: Behavior,
    doomed: &[(QualifiedName, ObjectRef)],
    users: &mut Users,
) -> Result<(), SqlError> {
    for (def, place) in users.columns_fed_by(context, sequence)? {
        let column = &def.columns[place];
        if column.identity.is_some() || column.state == ColumnState::Hidden {
            let message = format!(
                "cannot drop sequence {} because column {} of table {} requires it",
                sequence.name, column.name, def.name
            );
            return Err(SqlError::new(SqlState::DependentObjectsStillExist, message)
                .with_hint(format!("You can drop column {} of table {} instead.", column.name, def.name)));
        }
    }
    forget_defaults(context, sequence, behavior, (None, doomed), users)?;
    context.transaction.change_catalog(CatalogChange::RemoveSequence(sequence.id))?;
    Ok(())
}

/// Takes away the defaults that use a sequence, or refuses if there are any of tables that stay; those of `except` go anyhow.
fn forget_defaults(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    behavior: Behavior,
    (except, doomed): (Option<&TableDef>, &[(QualifiedName, ObjectRef)]),
    users: &mut Users,
) -> Result<(), SqlError> {
    let mut columns = users.columns_fed_by(context, sequence)?;
    columns.extend(users.defaults_naming(context, sequence)?);
    columns.retain(|(def, _)| except.is_none_or(|except| except.id != def.id));
    let mut staying =
        columns.iter().filter(|(def, _)| !is_doomed(doomed, ObjectRef::Table(def.id))).peekable();
    if behavior == Behavior::Restrict && staying.peek().is_some() {
        let detail = |(def, place): &(Arc<TableDef>, usize)| {
            let column = &def.columns[*place].name;
            format!(
                "default value for column {column} of table {} depends on sequence {}",
                def.name, sequence.name
            )
        };
        let details: Vec<String> = staying.map(detail).collect();
        return Err(still_needed(&format!("sequence {}", sequence.name), &details));
    }
    for (def, place) in columns {
        let mut changed = TableDef::clone(&**context.transaction.table_def(def.id)?);
        changed.columns[place].default = None;
        changed.columns[place].sequence = None;
        context.transaction.change_catalog(CatalogChange::PutTable(Box::new(changed)))?;
    }
    Ok(())
}

fn drop_schemas(context: &mut StatementContext<'_>, drop: &Drop<'_>) -> Result<(), SqlError> {
    let mut users = Users::default();
    for name in drop.names {
        let (None, schema) = lookup::split_name(name)? else {
            return Err(SqlError::syntax(format!("improper schema name: {name}")));
        };
        if !context.transaction.catalog().has_schema(&schema) {
            if drop.missing == Missing::Skip {
                lookup::note_missing(context, "schema", name);
                continue;
            }
            return Err(lookup::unknown_schema(&schema));
        }
        context.rights().require_owner(Object::Schema(&schema))?;
        drop_schema(context, &schema, drop.behavior, &mut users)?;
    }
    Ok(())
}

/// Drops a schema, with CASCADE also what is in it.
fn drop_schema(
    context: &mut StatementContext<'_>,
    schema: &str,
    behavior: Behavior,
    users: &mut Users,
) -> Result<(), SqlError> {
    let inside: Vec<(QualifiedName, ObjectRef)> = context
        .transaction
        .catalog()
        .names()
        .filter(|(name, object)| name.schema == schema && index::as_index(*object).is_none())
        .map(|(name, object)| (name.clone(), object))
        .collect();
    let types = enum_types::in_schema(context, schema);
    if behavior == Behavior::Restrict && !(inside.is_empty() && types.is_empty()) {
        let kind = |object| match object {
            ObjectRef::Table(_) => "table",
            ObjectRef::Index(..) => "index",
            ObjectRef::View => "view",
            ObjectRef::Sequence(_) => "sequence",
        };
        let catalog = context.transaction.catalog();
        // What belongs to a column goes with it.
        let is_owned = |object| match object {
            ObjectRef::Sequence(id) => catalog.sequence(id).is_some_and(|def| def.owned_by.is_some()),
            _ => false,
        };
        let relations = inside
            .iter()
            .filter(|(_, object)| !is_owned(*object))
            .map(|(name, object)| format!("{} {name} depends on schema {schema}", kind(*object)));
        let types = types.iter().map(|def| format!("type {} depends on schema {schema}", def.ty));
        let details: Vec<String> = relations.chain(types).collect();
        return Err(still_needed(&format!("schema {schema}"), &details));
    }
    // Tables first: they take their sequences and the views on them along.
    let tables_first = |(_, object): &&(QualifiedName, ObjectRef)| matches!(object, ObjectRef::Table(_));
    let (tables, others): (Vec<_>, Vec<_>) = inside.iter().partition(tables_first);
    for (name, object) in tables.into_iter().chain(others) {
        if context.transaction.catalog().resolve(name) == Some(*object) {
            let drop = Drop { kind: &ObjectType::Table, names: &[], missing: Missing::Skip, behavior };
            drop_one(context, name, *object, &drop, &inside, users)?;
        }
    }
    for def in types {
        enum_types::drop_with_schema(context, &def)?;
    }
    context.transaction.change_catalog(CatalogChange::RemoveSchema(schema.to_owned()))?;
    Ok(())
}
