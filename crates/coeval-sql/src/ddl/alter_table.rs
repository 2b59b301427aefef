// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE: its operations in order, each on the definition that the one before it left.

use super::alter_view::{self, ViewChange, of_table_operation};
use super::changed_table::put;
use super::constraints::DeclaredKey;
use super::dependents::Behavior;
use super::existence::Existing;
use super::lookup;
use super::{
    add_column, alter_column, constraints, drop_column, drop_constraint, index_memory, naming,
    promoted_index, rename, rewrite, storage_parameters, validate,
};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::result::StatementResult;
use coeval_store::{CatalogChange, ObjectRef, SpaceId, TableDef, Validity};
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, DropBehavior, RenameTableNameKind, TableConstraint,
};
use std::sync::Arc;

/// ALTER TABLE. Every operation is validated against the rows that are there.
///
/// # Errors
/// 42P01 for an unknown table, and what the operations answer; 0A000 for those that are not supported.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    alter: &AlterTable,
) -> Result<StatementResult, SqlError> {
    if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
        return Err(SqlError::unsupported("this form of ALTER TABLE"));
    }
    let done = StatementResult::plain("ALTER TABLE");
    let (name, object) = match lookup::resolve(context, &alter.name)? {
        Some(found) => found,
        None if alter.if_exists => {
            lookup::note_missing(context, "relation", &alter.name);
            return Ok(done);
        }
        None => return Err(lookup::unknown_relation(&alter.name)),
    };
    lookup::require_owner(context, &name, object)?;
    // PostgreSQL takes ALTER TABLE .. RENAME TO for every relation.
    if let ([AlterTableOperation::RenameTable { table_name }], false) =
        (alter.operations.as_slice(), matches!(object, ObjectRef::Table(_)))
    {
        rename::relation(context, &name, object, new_name(table_name))?;
        return Ok(done);
    }
    // And for a view what it takes of its columns.
    if object == ObjectRef::View {
        let changes: Option<Vec<ViewChange>> = alter.operations.iter().map(of_table_operation).collect();
        if let Some(changes) = changes {
            changes.iter().try_for_each(|change| alter_view::execute(context, &name, change))?;
            return Ok(done);
        }
    }
    let ObjectRef::Table(id) = object else { return Err(lookup::wrong_kind(&name, "table")) };
    if !matches!(alter.operations.as_slice(), [AlterTableOperation::RenameTable { .. }]) {
        crate::foreign::refuse_alter(context.transaction.table_def(id)?)?;
    }
    let mut id = id;
    for operation in &alter.operations {
        id = apply(context, id, operation)?;
    }
    Ok(done)
}

fn new_name(kind: &RenameTableNameKind) -> &datafusion::sql::sqlparser::ast::ObjectName {
    let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = kind;
    name
}

/// Does one operation; returns the table's number, which is new if its rows were written anew.
fn apply(
    context: &mut StatementContext<'_>,
    id: SpaceId,
    operation: &AlterTableOperation,
) -> Result<SpaceId, SqlError> {
    let def = Arc::clone(context.transaction.table_def(id)?);
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            let existing = if *if_not_exists { Existing::Keep } else { Existing::Refuse };
            return add_column::execute(context, &def, column_def, existing);
        }
        AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let mut id = id;
            for column in column_names {
                let def = Arc::clone(context.transaction.table_def(id)?);
                let name = lookup::fold(column);
                if *if_exists && def.column_index(&name).is_none() {
                    let relation = &def.name.name;
                    let message =
                        format!("column \"{name}\" of relation \"{relation}\" does not exist, skipping");
                    context.notice(SqlState::SuccessfulCompletion, message);
                    continue;
                }
                id = drop_column::execute(context, &def, &name, behavior(drop_behavior.as_ref()))?;
            }
            return Ok(id);
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            rename::column(context, &def, &lookup::fold(old_column_name), new_column_name)?;
        }
        AlterTableOperation::RenameTable { table_name } => {
            rename::relation(context, &def.name, ObjectRef::Table(id), new_name(table_name))?;
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            return alter_column::execute(context, &def, &lookup::fold(column_name), op);
        }
        AlterTableOperation::AddConstraint { constraint, not_valid: false } => {
            return add_constraint(context, &def, constraint);
        }
        AlterTableOperation::AddConstraint { constraint, not_valid: true } => {
            return add_unvalidated(context, &def, constraint);
        }
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let name = lookup::fold(name);
            if *if_exists && !naming::has_constraint(&def, &name) {
                let relation = &def.name.name;
                let message =
                    format!("constraint \"{name}\" of relation \"{relation}\" does not exist, skipping");
                context.notice(SqlState::SuccessfulCompletion, message);
                return Ok(id);
            }
            return drop_constraint::execute(context, &def, &name, behavior(drop_behavior.as_ref()));
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            rename::constraint(context, &def, &lookup::fold(old_name), &lookup::fold(new_name))?;
        }
        AlterTableOperation::ValidateConstraint { name } => {
            return validate_constraint(context, &def, &lookup::fold(name));
        }
        AlterTableOperation::SetOptionsParens { options } => storage_parameters::of_table(options)?,
        other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
    }
    Ok(id)
}

fn behavior(given: Option<&DropBehavior>) -> Behavior {
    if given == Some(&DropBehavior::Cascade) { Behavior::Cascade } else { Behavior::Restrict }
}

/// Adds a constraint to a table with rows; returns the table's number.
pub(super) fn add_constraint(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    constraint: &TableConstraint,
) -> Result<SpaceId, SqlError> {
    if let TableConstraint::PrimaryKey(key) = constraint
        && !def.has_declared_primary_key()
    {
        let key = constraints::primary_key(&def.columns, key)?;
        return add_primary_key(context, def, key);
    }
    let mut changed = def.clone();
    match constraint {
        TableConstraint::UniqueUsingIndex(index) => {
            promoted_index::as_unique(context, &mut changed, index)?;
            return put(context, changed);
        }
        TableConstraint::PrimaryKeyUsingIndex(index) => {
            let key = promoted_index::as_primary_key(context, &mut changed, index)?;
            let id = put(context, changed)?;
            let without_index = Arc::clone(context.transaction.table_def(id)?);
            return add_primary_key(context, &without_index, key);
        }
        _ => constraints::add(context, &mut changed, constraint)?,
    }
    let new_check = changed.checks.get(def.checks.len()).cloned();
    let new_key = changed.foreign_keys.get(def.foreign_keys.len()).cloned();
    let (id, shown) = (changed.id, changed.clone());
    let _memory = index_memory::keep(context, &changed)?;
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(changed)))?;
    if let Some(check) = new_check {
        validate::validate_check(context, &shown, &check)?;
        validate::check(context, &shown, &check)?;
    }
    if let Some(key) = new_key {
        validate::foreign_key(context, &shown, &key)?;
    }
    Ok(id)
}

/// Adds a constraint that rows have to satisfy from now on; those that are there are not looked at.
///
/// # Errors
/// `0A000` for keys; as [`constraints::add`].
fn add_unvalidated(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    constraint: &TableConstraint,
) -> Result<SpaceId, SqlError> {
    let kind = match constraint {
        TableConstraint::Check(_) | TableConstraint::ForeignKey(_) => None,
        TableConstraint::PrimaryKey(_) => Some("PRIMARY KEY"),
        _ => Some("UNIQUE"),
    };
    if let Some(kind) = kind {
        let message = format!("{kind} constraints cannot be marked NOT VALID");
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    }
    let mut changed = def.clone();
    constraints::add(context, &mut changed, constraint)?;
    let new_check = changed.checks.get_mut(def.checks.len());
    let new_check = new_check.map(|check| {
        check.validity = Validity::NotValid;
        check.clone()
    });
    if let Some(key) = changed.foreign_keys.get_mut(def.foreign_keys.len()) {
        key.validity = Validity::NotValid;
    }
    let shown = changed.clone();
    let id = put(context, changed)?;
    if let Some(check) = new_check {
        validate::validate_check(context, &shown, &check)?;
    }
    Ok(id)
}

/// Looks at all rows, if nobody has yet, and notes that they satisfy the constraint.
///
/// # Errors
/// `42704` if there is no such constraint, `42809` for a key, `23514` or `23503` for a row that is against it.
fn validate_constraint(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    name: &str,
) -> Result<SpaceId, SqlError> {
    let relation = &def.name.name;
    let mut changed = def.clone();
    let check = changed.checks.iter_mut().find(|check| check.name == name);
    let key = changed.foreign_keys.iter_mut().find(|key| key.name == name);
    let validity = match (check, key) {
        (Some(check), _) => {
            if !check.validity.is_valid() {
                validate::check(context, def, check)?;
            }
            &mut check.validity
        }
        (None, Some(key)) => {
            if !key.validity.is_valid() {
                validate::foreign_key(context, def, key)?;
            }
            &mut key.validity
        }
        (None, None) if naming::has_constraint(def, name) => {
            let message = format!(
                "constraint \"{name}\" of relation \"{relation}\" is not a foreign key or check constraint"
            );
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        (None, None) => {
            let message = format!("constraint \"{name}\" of relation \"{relation}\" does not exist");
            return Err(SqlError::new(SqlState::UndefinedObject, message));
        }
    };
    if std::mem::replace(validity, Validity::Valid).is_valid() {
        return Ok(def.id);
    }
    put(context, changed)
}

/// Gives a table without one a primary key: its rows are written anew in the key's order.
fn add_primary_key(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    key: DeclaredKey,
) -> Result<SpaceId, SqlError> {
    for &column in &key.columns {
        validate::not_null(context, def, column)?;
    }
    let catalog = context.transaction.catalog();
    let name = match key.name {
        Some(name) if naming::has_constraint(def, &name) => {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", def.name.name);
            return Err(SqlError::new(SqlState::DuplicateObject, message));
        }
        Some(name) => name,
        None => naming::choose(&def.name.name, &[], "pkey", |name| {
            naming::is_relation(catalog, &def.name.schema, name) || naming::has_constraint(def, name)
        }),
    };
    let change = rewrite::Change::PrimaryKey { columns: key.columns, name };
    rewrite::execute(context, def, &change)
}
