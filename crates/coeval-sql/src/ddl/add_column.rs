// SPDX-License-Identifier: Apache-2.0
//! ALTER TABLE ADD COLUMN.
//!
//! A default that is the same for every row is kept once, in the definition, as the value that rows written
//! before have: no row is touched. Values that differ from row to row (sequences, `random()`) are written, which rows of
//! brick tables cannot be.

use super::alter_table::add_constraint;
use super::changed_table::put;
use super::columns::{self, Place};
use super::existence::Existing;
use super::{computed_column, create_table, expressions, lookup};
use crate::context::StatementContext;
use crate::error::{ErrorObject, SqlError, SqlState};
use crate::values;
use coeval_store::{CatalogChange, ColumnDef, KeyWriter, Physical, SpaceId, StoreError, TableDef, Value};
use datafusion::sql::sqlparser::ast::{self, ColumnOption, Expr};
use std::sync::Arc;

/// Adds the column; returns the table's number, which is new if a primary key came with it.
///
/// # Errors
/// 42701 for a name that is taken, 54011 beyond the most columns, 23502 for a NOT NULL column without default in a table with rows, and what
/// its constraints answer.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    declared: &ast::ColumnDef,
    existing: Existing,
) -> Result<SpaceId, SqlError> {
    let name = lookup::fold(&declared.name);
    create_table::refuse_reserved_column(&name)?;
    if def.column_index(&name).is_some() {
        if existing == Existing::Keep {
            let message =
                format!("column \"{name}\" of relation \"{}\" already exists, skipping", def.name.name);
            context.notice(SqlState::DuplicateColumn, message);
            return Ok(def.id);
        }
        let message = format!("column \"{name}\" of relation \"{}\" already exists", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateColumn, message));
    }
    columns::refuse_too_many(def.columns.len()).map_err(|error| {
        error.with_hint("Dropped columns count until the rows are written anew, as by ALTER COLUMN ... TYPE.")
    })?;
    let place = Place { table: def.id, name: &def.name, index: def.columns.len() };
    let made = columns::declare(context, &place, declared)?;
    if let Some(sequence) = made.sequence {
        context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
    }
    let default = declared.options.iter().find_map(|option| match &option.option {
        ColumnOption::Default(expr) => {
            Some(expressions::with_fixed_instant(context, expr.clone(), made.column.ty))
        }
        _ => None,
    });
    let mut id = add(context, def, made.column, default.as_ref())?;
    for constraint in &made.constraints {
        let def = Arc::clone(context.transaction.table_def(id)?);
        id = add_constraint(context, &def, constraint)?;
    }
    Ok(id)
}

fn add(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    mut column: ColumnDef,
    default: Option<&Expr>,
) -> Result<SpaceId, SqlError> {
    if def.bricks.is_some() {
        column.second_digits = None;
    }
    if let Some(expr) = default {
        values::validate_default(context, &column, expr)?;
    }
    let differs = column.sequence.is_some()
        || column.generated.is_some()
        // Whether its default is in a domain is seen as a row is written.
        || column.domain.is_some()
        || default.is_some_and(|expr| crate::values::is_volatile(context, expr));
    if differs && def.bricks.is_some() {
        let what = "a new column with a value of its own in each row that is there".to_owned();
        return Err(StoreError::BrickDefinition { table: Box::new(def.name.clone()), what }.into());
    }
    if differs {
        return computed_column::add(context, def, column);
    }
    let value = match default {
        Some(expr) => column.rounded(values::evaluate(context, expr, column.ty)?),
        None => Value::Null,
    };
    if def.is_spread() {
        refuse_beside_spread_rows(def, &column, &value)?;
    }
    if value == Value::Null {
        if column.not_null && has_rows(context, def)? {
            let message =
                format!("column \"{}\" of relation \"{}\" contains null values", column.name, def.name.name);
            let error = SqlError::new(SqlState::NotNullViolation, message);
            return Err(error.with_object(ErrorObject::column(&def.name, &column.name)));
        }
    } else {
        let mut writer = KeyWriter::new();
        writer.push(value.borrow());
        column.missing = Some(writer.as_slice().to_vec());
    }
    let mut changed = def.clone();
    changed.add_column(column);
    put(context, changed)
}

/// What a column cannot be that is added to rows on many nodes: whether there are any is not asked, and a text that all of them
/// have would need a code on each node before its first row.
fn refuse_beside_spread_rows(def: &TableDef, column: &ColumnDef, value: &Value) -> Result<(), SqlError> {
    let what = match value {
        Value::Null if column.not_null => "a new NOT NULL column without a default",
        Value::Null => return Ok(()),
        _ if matches!(column.ty.physical(), Physical::Text) => "a new column of texts with a default",
        _ => return Ok(()),
    };
    Err(StoreError::BrickDefinition { table: Box::new(def.name.clone()), what: what.to_owned() }.into())
}

fn has_rows(context: &StatementContext<'_>, def: &TableDef) -> Result<bool, SqlError> {
    debug_assert!(!def.is_spread(), "rows on many nodes are not counted");
    if def.bricks.is_none() {
        return Ok(context.transaction.view(def.id)?.row_count() > 0);
    }
    let snapshot = context.transaction.brick_view(def.id, |all| all)?;
    Ok(snapshot.bricks().iter().any(|brick| snapshot.visible_rows(brick) > 0))
}
