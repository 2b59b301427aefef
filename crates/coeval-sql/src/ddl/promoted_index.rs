// SPDX-License-Identifier: Apache-2.0
//! `ALTER TABLE ... ADD UNIQUE USING INDEX`, `ADD PRIMARY KEY USING INDEX`: a unique index becomes a constraint. So large tables get
//! one whose index was built before.

use super::constraints::{DeclaredKey, refuse_characteristics};
use super::{comment, index_keys, lookup};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use coeval_store::{ColumnState, DeclaredOrder, IndexDef, QualifiedName, TableDef, Uniqueness};
use datafusion::sql::sqlparser::ast::ConstraintUsingIndex;

/// Makes the index a UNIQUE constraint of its table's definition, with the constraint's name if it has one.
///
/// # Errors
/// As [`promotable`] and [`name_for`].
pub(super) fn as_unique(
    context: &mut StatementContext<'_>,
    def: &mut TableDef,
    promoted: &ConstraintUsingIndex,
) -> Result<(), SqlError> {
    let place = promotable(def, promoted)?;
    let name = name_for(context, def, promoted)?;
    let index = &mut def.indexes[place];
    index.uniqueness = Uniqueness::Constraint;
    let old = std::mem::replace(&mut index.name, name.clone());
    if old != name {
        comment::rename(def, &old, &name);
    }
    Ok(())
}

/// Takes the index out of its table's definition; the primary key that stands for it. There is no index of a primary key: rows are
/// kept in its order.
///
/// # Errors
/// `42P16` if there is a primary key; as [`promotable`] and [`name_for`].
pub(super) fn as_primary_key(
    context: &mut StatementContext<'_>,
    def: &mut TableDef,
    promoted: &ConstraintUsingIndex,
) -> Result<DeclaredKey, SqlError> {
    if def.has_declared_primary_key() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", def.name.name);
        return Err(SqlError::new(SqlState::InvalidTableDefinition, message));
    }
    let place = promotable(def, promoted)?;
    let name = name_for(context, def, promoted)?;
    let IndexDef { id, name: old, columns, .. } = def.indexes[place].clone();
    index_keys::retire(def, &[id]);
    comment::forget(def, &old);
    Ok(DeclaredKey { name: Some(name), columns })
}

/// The place of the index among those of its table.
///
/// # Errors
/// `42704` if the table has no such index, `55000` if that is a constraint's, `42809` if it is not one of all rows by columns that
/// are unique in the order that constraints have, `0A000` for a constraint that is to be checked later.
fn promotable(def: &TableDef, promoted: &ConstraintUsingIndex) -> Result<usize, SqlError> {
    refuse_characteristics(promoted.characteristics.as_ref())?;
    let name = lookup::fold(&promoted.index_name);
    let bound = || {
        let message = format!("index \"{name}\" is already associated with a constraint");
        SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
    };
    let Some(place) = def.indexes.iter().position(|index| index.name == name) else {
        if def.has_declared_primary_key() && def.primary_key_name == name {
            return Err(bound());
        }
        let message = format!("index \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::UndefinedObject, message));
    };
    let index = &def.indexes[place];
    let column = |&column: &usize| &def.columns[column];
    let unsuitable = |message: String| Err(SqlError::new(SqlState::WrongObjectType, message));
    match index.uniqueness {
        Uniqueness::Constraint => return Err(bound()),
        Uniqueness::Any => return unsuitable(format!("\"{name}\" is not a unique index")),
        Uniqueness::Unique => {}
    }
    if index.columns.iter().map(column).any(|column| column.is_marker()) {
        return unsuitable(format!("\"{name}\" is a partial index"));
    }
    if index.columns.iter().map(column).any(|column| column.state == ColumnState::Computed) {
        return unsuitable(format!("index \"{name}\" contains expressions"));
    }
    let is_other = |order: &DeclaredOrder| *order != DeclaredOrder::Ascending;
    if let Some(place) = index.declared_order.iter().position(is_other) {
        let place = place + 1;
        return unsuitable(format!(
            "index \"{name}\" column number {place} does not have default sorting behavior"
        ));
    }
    Ok(place)
}

/// The name of the constraint, which the index has from now on.
///
/// # Errors
/// `42P07` if another relation has it, `42710` if another constraint of the table has it.
fn name_for(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    promoted: &ConstraintUsingIndex,
) -> Result<String, SqlError> {
    let old = lookup::fold(&promoted.index_name);
    let name = promoted.name.as_ref().map_or_else(|| old.clone(), lookup::fold);
    let is_renamed = name != old;
    if is_renamed {
        lookup::refuse_taken(context, &QualifiedName::new(&def.name.schema, &name))?;
    }
    // To users a primary key is an index, though the catalog has none for it.
    if def.has_declared_primary_key() && def.primary_key_name == name {
        let message = format!("relation \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DuplicateTable, message));
    }
    // Other keys are relations. These are not, so that an index may have had the name of one.
    let checks = def.checks.iter().map(|check| &check.name);
    let mut others = checks.chain(def.foreign_keys.iter().map(|key| &key.name));
    if others.any(|taken| *taken == name) {
        let message = format!("constraint \"{name}\" for relation \"{}\" already exists", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateObject, message));
    }
    if !is_renamed {
        return Ok(name);
    }
    let message =
        format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{old}\" to \"{name}\"");
    context.notice(SqlState::SuccessfulCompletion, message);
    Ok(name)
}
