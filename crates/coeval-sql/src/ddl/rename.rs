// SPDX-License-Identifier: Apache-2.0
//! Renaming tables, views, sequences, indexes, columns and constraints, and moving relations between schemas.
//! What is kept as text about them follows.

use super::changed_table::put;
use super::{create_table, dependents, expressions, generated_columns, lookup, naming, owners, view_columns};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names;
use crate::sequences;
use crate::stored::view_query::quoted;
use crate::stored::{ROW_ID_COLUMN, view_query, view_query_of};
use coeval_store::{
    CatalogChange, ColumnState, ObjectRef, QualifiedName, SequenceDef, SpaceId, TableDef, ViewDef,
};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

/// Gives a relation another name in its schema.
///
/// # Errors
/// 42P07 if the name is taken.
pub(super) fn relation(
    context: &mut StatementContext<'_>,
    old: &QualifiedName,
    object: ObjectRef,
    new: &ObjectName,
) -> Result<(), SqlError> {
    let (schema, name) = lookup::split_name(new)?;
    if schema.is_some_and(|schema| schema != old.schema) {
        return Err(SqlError::syntax("RENAME TO takes a name without a schema").with_hint("Use SET SCHEMA."));
    }
    move_to(context, old, object, QualifiedName::new(&old.schema, name))
}

/// Moves a relation to another schema.
///
/// # Errors
/// 3F000 if there is no such schema, 42P07 if the name is taken there, `0A000` for a sequence that a column owns.
pub(super) fn set_schema(
    context: &mut StatementContext<'_>,
    old: &QualifiedName,
    object: ObjectRef,
    schema: &str,
) -> Result<(), SqlError> {
    names::refuse_system_schema(schema, &old.name)?;
    if !context.transaction.catalog().has_schema(schema) {
        return Err(lookup::unknown_schema(schema));
    }
    lookup::require_create(context, schema)?;
    if let ObjectRef::Sequence(id) = object {
        let sequence = sequences::by_id(context, id)?;
        owners::refuse_of_column(context, &sequence, "cannot move an owned sequence into another schema")?;
    }
    move_to(context, old, object, QualifiedName::new(schema, &old.name))
}

fn move_to(
    context: &mut StatementContext<'_>,
    old: &QualifiedName,
    object: ObjectRef,
    new: QualifiedName,
) -> Result<(), SqlError> {
    if *old == new && !matches!(object, ObjectRef::Index(..)) {
        return lookup::refuse_taken(context, &new);
    }
    names::refuse_own_name(&new.name)?;
    lookup::refuse_taken(context, &new)?;
    match object {
        ObjectRef::Table(id) => move_table(context, id, &new)?,
        ObjectRef::View => {
            let Some(view) = context.transaction.catalog().view(old).cloned() else {
                return Err(SqlError::internal(format!("view {old} is lost")));
            };
            context.transaction.change_catalog(CatalogChange::RemoveView(old.clone()))?;
            let view = ViewDef { name: new.clone(), ..ViewDef::clone(&view) };
            context.transaction.change_catalog(CatalogChange::PutView(view))?;
        }
        ObjectRef::Sequence(id) => {
            let Some(sequence) = context.transaction.catalog().sequence(id).cloned() else {
                return Err(SqlError::internal(format!("sequence {old} is lost")));
            };
            rename_in_defaults(context, &sequence, &new)?;
            let sequence = SequenceDef { name: new, ..SequenceDef::clone(&sequence) };
            context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
            return Ok(());
        }
        ObjectRef::Index(table, index) => {
            let mut def = TableDef::clone(&**context.transaction.table_def(table)?);
            for candidate in def.indexes.iter_mut().filter(|candidate| candidate.id == index) {
                candidate.name.clone_from(&new.name);
            }
            super::comment::rename(&mut def, &old.name, &new.name);
            put(context, def)?;
            return Ok(());
        }
    }
    rename_in_views(context, old, &new)
}

fn move_table(context: &mut StatementContext<'_>, id: SpaceId, new: &QualifiedName) -> Result<(), SqlError> {
    let old = Arc::clone(context.transaction.table_def(id)?);
    let mut def = TableDef::clone(&old);
    if def.name.schema != new.schema {
        for index in &def.indexes {
            lookup::refuse_taken(context, &QualifiedName::new(&new.schema, &index.name))?;
        }
        for sequence in dependents::owned_sequences(context, &old) {
            let name = name_of_moved(context, &sequence, &old, new)?;
            let moved = SequenceDef { name, ..SequenceDef::clone(&sequence) };
            context.transaction.change_catalog(CatalogChange::PutSequence(moved))?;
        }
    }
    for check in &mut def.checks {
        let mut expr = expressions::parse(&check.expression)?;
        expressions::rename_table(&mut expr, &old.name.name, &quoted(&new.name));
        check.expression = expr.to_string();
    }
    generated_columns::rename(&mut def, |expr| {
        expressions::rename_table(expr, &old.name.name, &quoted(&new.name));
    })?;
    def.name = new.clone();
    put(context, def)?;
    Ok(())
}

/// The name that the sequence of a column gets in the schema that its table is moved to. Users do not know that of the hidden
/// row id, which has any name that is free.
///
/// # Errors
/// 42P07 if the name is taken.
fn name_of_moved(
    context: &StatementContext<'_>,
    sequence: &SequenceDef,
    table: &TableDef,
    new: &QualifiedName,
) -> Result<QualifiedName, SqlError> {
    let column = sequence.owned_by.and_then(|(_, column)| table.columns.get(column));
    if column.is_some_and(|column| column.state == ColumnState::Hidden) {
        let catalog = context.transaction.catalog();
        let is_taken = |name: &str| naming::is_relation(catalog, &new.schema, name);
        let name = naming::choose(&new.name, &[ROW_ID_COLUMN], "seq", is_taken);
        return Ok(QualifiedName::new(&new.schema, name));
    }
    let name = QualifiedName::new(&new.schema, &sequence.name.name);
    lookup::refuse_taken(context, &name)?;
    Ok(name)
}

/// Lets the views on a relation follow its new name.
fn rename_in_views(
    context: &mut StatementContext<'_>,
    old: &QualifiedName,
    new: &QualifiedName,
) -> Result<(), SqlError> {
    for view in dependents::views_on(context, old)? {
        let mut body = view_query_of(&view)?;
        view_query::rename_relations(&mut body, |schema, name| {
            (schema == Some(&old.schema) && name == old.name).then(|| new.clone())
        });
        let changed = ViewDef { query: body.to_string(), ..ViewDef::clone(&view) };
        context.transaction.change_catalog(CatalogChange::PutView(changed))?;
    }
    Ok(())
}

/// Lets defaults that name a sequence follow its new name.
fn rename_in_defaults(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    new: &QualifiedName,
) -> Result<(), SqlError> {
    for (def, place) in dependents::Users::default().defaults_naming(context, sequence)? {
        let mut changed = TableDef::clone(&**context.transaction.table_def(def.id)?);
        if let Some(default) = &mut changed.columns[place].default {
            let mut expr = expressions::parse(default)?;
            expressions::rename_sequence(&mut expr, &sequence.name, new);
            *default = expr.to_string();
        }
        put(context, changed)?;
    }
    Ok(())
}

/// Renames a column.
///
/// # Errors
/// 42703 if it is not there, 42701 if the name is taken, 0A000 if a view uses the column.
pub(super) fn column(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    old: &str,
    new: &Ident,
) -> Result<(), SqlError> {
    let index = lookup::column(def, old)?;
    let name = lookup::fold(new);
    create_table::refuse_reserved_column(&name)?;
    if def.column_index(&name).is_some() {
        let message = format!("column \"{name}\" of relation \"{}\" already exists", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateColumn, message));
    }
    if let Some(view) = view_columns::views_using(context, &def.name, old)?.first() {
        return Err(SqlError::unsupported(format!("renaming column \"{old}\" that view {view} uses"))
            .with_hint("Drop the view and create it again afterwards."));
    }
    let mut changed = def.clone();
    changed.columns[index].name.clone_from(&name);
    for check in &mut changed.checks {
        let mut expr = expressions::parse(&check.expression)?;
        expressions::rename_column(&mut expr, old, &quoted(&name));
        check.expression = expr.to_string();
    }
    generated_columns::rename_column(&mut changed, old, &quoted(&name))?;
    put(context, changed)?;
    Ok(())
}

/// Renames a constraint.
///
/// # Errors
/// 42704 if it is not there, 42710 and 42P07 if the name is taken.
pub(super) fn constraint(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    old: &str,
    new: &str,
) -> Result<(), SqlError> {
    if !naming::has_constraint(def, old) {
        let message = format!("constraint \"{old}\" of relation \"{}\" does not exist", def.name.name);
        return Err(SqlError::new(SqlState::UndefinedObject, message));
    }
    if naming::has_constraint(def, new) {
        let message = format!("constraint \"{new}\" for relation \"{}\" already exists", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateObject, message));
    }
    let mut changed = def.clone();
    if changed.has_declared_primary_key() && changed.primary_key_name == old {
        new.clone_into(&mut changed.primary_key_name);
    }
    if def.index(old).is_some() {
        lookup::refuse_taken(context, &QualifiedName::new(&def.name.schema, new))?;
    }
    let indexes = changed.indexes.iter_mut().map(|index| &mut index.name);
    let checks = changed.checks.iter_mut().map(|check| &mut check.name);
    let keys = changed.foreign_keys.iter_mut().map(|key| &mut key.name);
    for name in indexes.chain(checks).chain(keys).filter(|name| *name == old) {
        new.clone_into(name);
    }
    super::comment::rename(&mut changed, old, new);
    put(context, changed)?;
    Ok(())
}
