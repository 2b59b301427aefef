// SPDX-License-Identifier: Apache-2.0
//! CREATE INDEX and DROP INDEX.

use super::index_keys::{self, Keys};
use super::{constraints, index_memory, lookup, naming, storage_parameters};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use coeval_store::{
    CatalogChange, DeclaredOrder, IndexDef, ObjectRef, QualifiedName, SpaceId, TableDef, Uniqueness,
};
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, Ident, IndexColumn, IndexType, ObjectName};
use std::sync::Arc;

/// CREATE INDEX: built from the rows of the snapshot and own changes.
///
/// # Errors
/// 42P07 if the name is taken, 42703 for unknown columns, 23505 if a unique index finds two owners of a key,
/// 0A000 for what is not supported.
pub(super) fn create(
    context: &mut StatementContext<'_>,
    create: &CreateIndex,
) -> Result<StatementResult, SqlError> {
    refuse_unsupported(create)?;
    let def = lookup::table(context, &create.table_name)?;
    lookup::require_owner(context, &def.name, ObjectRef::Table(def.id))?;
    let keys: Vec<Ident> = create.columns.iter().filter_map(key_column).cloned().collect();
    existing_columns(&def, &keys)?;
    if has_only_columns(create) {
        // Refuses columns that are named twice.
        constraints::key_columns(&def.columns, &create.columns)?;
    } else if def.bricks.is_some() {
        return Err(SqlError::unsupported("an index on a brick table")
            .with_hint("Conditions on dimensions leave out whole bricks."));
    }
    // An index does without them: a row that is found by it is there as a whole.
    let included = existing_columns(&def, &create.include)?;
    if let Some(skipped) = existing(context, &def, create)? {
        return Ok(skipped);
    }
    let Keys { table, columns } = index_keys::read(context, &def, create)?;
    let mut def = TableDef::clone(&table);
    let catalog = context.transaction.catalog();
    let schema = &def.name.schema;
    let is_taken = |name: &str| naming::is_relation(catalog, schema, name);
    let name = match &create.name {
        Some(name) => lookup::split_name(name)?.1,
        None => {
            let parts = index_keys::name_parts(&def, &columns);
            let parts: Vec<&str> = parts.iter().chain(&included).map(String::as_str).collect();
            naming::choose(&def.name.name, &parts, "idx", is_taken)
        }
    };
    let uniqueness = if create.unique { Uniqueness::Unique } else { Uniqueness::Any };
    let id = context.engine.store().new_space_id();
    let declared_order = declared_order(&create.columns);
    def.indexes.push(IndexDef { id, name, columns, uniqueness, declared_order });
    let _memory = index_memory::keep(context, &def)?;
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
    Ok(StatementResult::plain("CREATE INDEX"))
}

/// The column that a part of a key is; `None` of an expression.
fn key_column(key: &IndexColumn) -> Option<&Ident> {
    match crate::stored::index_keys::plain(&key.column.expr) {
        Expr::Identifier(column) => Some(column),
        _ => None,
    }
}

/// The names of columns.
///
/// # Errors
/// `42703` for one that there is not.
fn existing_columns(def: &TableDef, columns: &[Ident]) -> Result<Vec<String>, SqlError> {
    let known = |column: &Ident| {
        let name = lookup::fold(column);
        match def.live_columns().any(|(_, known)| known.name == name) {
            true => Ok(name),
            false => {
                let message = format!("column \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UndefinedColumn, message))
            }
        }
    };
    columns.iter().map(known).collect()
}

/// Whether an index is on columns and on all rows.
fn has_only_columns(create: &CreateIndex) -> bool {
    create.predicate.is_none() && create.columns.iter().all(|key| key_column(key).is_some())
}

/// What CREATE INDEX answers if there is something of the index's name; `None` if there is nothing.
fn existing(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    create: &CreateIndex,
) -> Result<Option<StatementResult>, SqlError> {
    let Some(name) = &create.name else { return Ok(None) };
    let schema = &def.name.schema;
    let (given, name) = lookup::split_name(name)?;
    if given.is_some_and(|given| given != *schema) {
        return Err(SqlError::syntax("an index is created in the schema of its table"));
    }
    if !naming::is_relation(context.transaction.catalog(), schema, &name) {
        return Ok(None);
    }
    if create.if_not_exists {
        lookup::note_existing(context, &name);
        return Ok(Some(StatementResult::plain("CREATE INDEX")));
    }
    let message = format!("relation \"{name}\" already exists");
    Err(SqlError::new(SqlState::DuplicateTable, message))
}

fn refuse_unsupported(create: &CreateIndex) -> Result<(), SqlError> {
    let named = [
        ("INCLUDE in a hash index", !create.include.is_empty() && create.using == Some(IndexType::Hash)),
        ("NULLS NOT DISTINCT", create.nulls_distinct == Some(false)),
        ("option of an index", !create.index_options.is_empty() || !create.alter_options.is_empty()),
    ];
    if let Some((clause, _)) = named.iter().find(|(_, given)| *given) {
        return Err(SqlError::unsupported(clause));
    }
    // What is looked up in a hash index is looked up in an ordered one.
    if let Some(method) = &create.using
        && !matches!(method, IndexType::BTree | IndexType::Hash)
    {
        return Err(SqlError::unsupported(format!("index method {method}")));
    }
    storage_parameters::of_index(&create.with)
}

/// What is kept of ASC, DESC and NULLS: nothing if they say what goes without saying.
fn declared_order(columns: &[IndexColumn]) -> Vec<DeclaredOrder> {
    let order = |column: &IndexColumn| {
        let options = &column.column.options;
        match (options.asc, options.nulls_first) {
            (Some(false), Some(false)) => DeclaredOrder::DescendingNullsLast,
            (Some(false), _) => DeclaredOrder::Descending,
            (_, Some(true)) => DeclaredOrder::AscendingNullsFirst,
            (_, _) => DeclaredOrder::Ascending,
        }
    };
    let declared: Vec<_> = columns.iter().map(order).collect();
    if declared.iter().all(|order| *order == DeclaredOrder::Ascending) { Vec::new() } else { declared }
}

/// DROP INDEX of one index.
pub(super) fn drop(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    table: SpaceId,
    index: SpaceId,
) -> Result<(), SqlError> {
    let def = Arc::clone(context.transaction.table_def(table)?);
    let Some(dropped) = def.indexes.iter().find(|candidate| candidate.id == index) else {
        return Err(SqlError::internal(format!("index {name} is lost")));
    };
    if dropped.uniqueness == Uniqueness::Constraint {
        return Err(required_by_constraint(&dropped.name, &dropped.name, &def));
    }
    if let Some((child, key)) =
        super::dependents::foreign_keys_on(context, &def, &dropped.columns).into_iter().next()
    {
        let detail = format!("constraint {key} on table {} depends on index {}", child.name, dropped.name);
        let message = format!("cannot drop index {} because other objects depend on it", dropped.name);
        return Err(SqlError::new(SqlState::DependentObjectsStillExist, message)
            .with_detail(detail)
            .with_hint("Drop the foreign key first."));
    }
    let mut changed = TableDef::clone(&def);
    index_keys::retire(&mut changed, &[index]);
    super::comment::forget(&mut changed, &name.name);
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(changed)))?;
    Ok(())
}

fn required_by_constraint(index: &str, constraint: &str, def: &TableDef) -> SqlError {
    let table = &def.name.name;
    let message =
        format!("cannot drop index {index} because constraint {constraint} on table {table} requires it");
    SqlError::new(SqlState::DependentObjectsStillExist, message)
        .with_hint(format!("You can drop constraint {constraint} on table {table} instead."))
}

/// The table whose primary key has this name: it has no index of its own, but users look for one.
///
/// # Errors
/// 42601 and 0A000 for a name of more parts than there can be.
pub(super) fn primary_key_named(
    context: &StatementContext<'_>,
    name: &ObjectName,
) -> Result<Option<Arc<TableDef>>, SqlError> {
    let (schema, bare) = lookup::split_name(name)?;
    let keyed = |def: &Arc<TableDef>| {
        def.has_declared_primary_key()
            && def.primary_key_name == bare
            && schema.as_ref().is_none_or(|schema| def.name.schema == *schema)
    };
    Ok(lookup::tables(context).into_iter().find(keyed))
}

/// The error for dropping an index that is not there.
pub(super) fn unknown(context: &StatementContext<'_>, name: &ObjectName) -> SqlError {
    match primary_key_named(context, name) {
        Err(error) => error,
        Ok(Some(def)) => required_by_constraint(&def.primary_key_name, &def.primary_key_name, &def),
        Ok(None) => {
            let bare = name.0.last().and_then(|part| part.as_ident()).map(lookup::fold).unwrap_or_default();
            SqlError::new(SqlState::UndefinedObject, format!("index \"{bare}\" does not exist"))
        }
    }
}

/// Whether a resolved object is an index, and which.
pub(super) fn as_index(object: ObjectRef) -> Option<(SpaceId, SpaceId)> {
    if let ObjectRef::Index(table, index) = object { Some((table, index)) } else { None }
}
