// SPDX-License-Identifier: Apache-2.0
//! Whether the rows that are there satisfy a new constraint: one query each, which stops at the first row
//! that does not.

use super::expressions;
use crate::context::StatementContext;
use crate::error::{ErrorObject, SqlError, SqlState};
use crate::result::RowSet;
use crate::stored::parse_query;
use crate::stored::view_query::quoted;
use crate::types::{format_value, no_condition, type_in_words};
use crate::values;
use arrow::datatypes::DataType;
use coeval_store::{CheckDef, ForeignKeyDef, TableDef, value_at};

/// The relation with its schema, as a query names it.
pub(super) fn relation(def: &TableDef) -> String {
    format!("{}.{}", quoted(&def.name.schema), quoted(&def.name.name))
}

fn column(def: &TableDef, index: usize) -> String {
    quoted(&def.columns[index].name).to_string()
}

fn first_row(context: &mut StatementContext<'_>, sql: &str) -> Result<Option<RowSet>, SqlError> {
    let rows = values::collect(context, sql)?;
    Ok((rows.rows() > 0).then_some(rows))
}

/// NOT NULL of a column.
///
/// # Errors
/// 23502 if there is a NULL.
pub(super) fn not_null(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    index: usize,
) -> Result<(), SqlError> {
    let sql = format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", relation(def), column(def, index));
    match first_row(context, &sql)? {
        None => Ok(()),
        Some(_) => {
            let name = &def.columns[index].name;
            let message = format!("column \"{name}\" of relation \"{}\" contains null values", def.name.name);
            let error = SqlError::new(SqlState::NotNullViolation, message);
            Err(error.with_object(ErrorObject::column(&def.name, name)))
        }
    }
}

/// A CHECK.
///
/// # Errors
/// 23514 if a row makes it false.
pub(super) fn check(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    check: &CheckDef,
) -> Result<(), SqlError> {
    let sql = format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", relation(def), check.expression);
    match first_row(context, &sql)? {
        None => Ok(()),
        Some(_) => {
            let message = format!(
                "check constraint \"{}\" of relation \"{}\" is violated by some row",
                check.name, def.name.name
            );
            let error = SqlError::new(SqlState::CheckViolation, message);
            Err(error.with_object(ErrorObject::constraint(&def.name, &check.name)))
        }
    }
}

/// A FOREIGN KEY.
///
/// # Errors
/// 23503 if a row has no parent.
pub(super) fn foreign_key(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    key: &ForeignKeyDef,
) -> Result<(), SqlError> {
    let parent = std::sync::Arc::clone(context.transaction.table_def(key.parent)?);
    let child_columns: Vec<String> =
        key.columns.iter().map(|&c| format!("child.{}", column(def, c))).collect();
    let parent_columns = key.parent_columns.iter().map(|&c| format!("parent.{}", column(&parent, c)));
    let present: Vec<String> = child_columns.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let equal: Vec<String> = child_columns
        .iter()
        .zip(parent_columns)
        .map(|(child, parent)| format!("{parent} = {child}"))
        .collect();
    let sql = format!(
        "SELECT {} FROM {} AS child WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS parent WHERE {}) LIMIT 1",
        child_columns.join(", "),
        relation(def),
        present.join(" AND "),
        relation(&parent),
        equal.join(" AND ")
    );
    // Who may refer to the parent need not read it.
    let rows = values::collect_unchecked(context, &sql)?;
    if rows.rows() == 0 {
        return Ok(());
    }
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        def.name.name, key.name
    );
    let error = SqlError::new(SqlState::ForeignKeyViolation, message)
        .with_object(ErrorObject::constraint(&def.name, &key.name));
    let Some(batch) = rows.batches.iter().find(|batch| batch.num_rows() > 0) else { return Err(error) };
    let zone = context.settings.zone();
    let values: Vec<String> = (0..key.columns.len())
        .map(|place| {
            let mut text = String::new();
            let ty = def.columns[key.columns[place]].ty;
            format_value(value_at(batch.column(place).as_ref(), 0), ty, zone, &mut text);
            text
        })
        .collect();
    let names: Vec<&str> = key.columns.iter().map(|&column| def.columns[column].name.as_str()).collect();
    Err(error.with_detail(format!(
        "Key ({})=({}) is not present in table \"{}\".",
        names.join(", "),
        values.join(", "),
        parent.name.name
    )))
}

/// Refuses a check, already in the table's definition, that is no condition on one row.
///
/// # Errors
/// 42804 if it is not boolean, 42803 if it aggregates, and whatever else is wrong with it.
pub(super) fn validate_check(
    context: &mut StatementContext<'_>,
    def: &TableDef,
    check: &CheckDef,
) -> Result<(), SqlError> {
    let expr = expressions::parse(&check.expression)?;
    expressions::refuse_aggregates(context, &expr)?;
    let sql = format!("SELECT ({expr}) FROM {}", relation(def));
    let schema = values::schema_of_definition(context, &*parse_query(&sql)?)?;
    match schema.field(0).data_type() {
        DataType::Boolean | DataType::Null => Ok(()),
        other => Err(no_condition("CHECK", &type_in_words(other))),
    }
}
