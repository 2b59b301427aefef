// SPDX-License-Identifier: Apache-2.0
//! The values that DDL needs of expressions: defaults that are evaluated once, and whether checks are
//! conditions.

use super::expressions;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::query;
use crate::result::RowSet;
use crate::rights::Checks;
use crate::stored::parse_query;
use crate::types::assign_array;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use coeval_store::{CheckDef, ColumnBuilder, ColumnDef, ColumnType, TableDef, Value, constant_column};
use datafusion::sql::sqlparser::ast::{Expr, Query};

/// The rows of a query of our own.
pub(super) fn collect(context: &mut StatementContext<'_>, sql: &str) -> Result<RowSet, SqlError> {
    query::collect(context, &*parse_query(sql)?)
}

/// The rows of a query of our own whose every word is ours: what it reads is not checked.
pub(super) fn collect_unchecked(context: &mut StatementContext<'_>, sql: &str) -> Result<RowSet, SqlError> {
    let query = parse_query(sql)?;
    unchecked(context, |context| query::collect(context, &query))
}

/// The columns of a query. Who may read its tables is asked when it runs.
pub(super) fn schema_of(context: &mut StatementContext<'_>, query: &Query) -> Result<SchemaRef, SqlError> {
    let planned = unchecked(context, |context| query::plan(context, query, &[]))?;
    Ok(planned.columns().clone())
}

fn unchecked<T>(
    context: &mut StatementContext<'_>,
    work: impl FnOnce(&mut StatementContext<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let before = std::mem::replace(&mut context.checks, Checks::Nothing);
    let outcome = work(context);
    context.checks = before;
    outcome
}

/// The value of an expression without columns, as a column of this type takes it.
///
/// # Errors
/// Whatever is wrong with the expression or the assignment.
pub(super) fn evaluate(
    context: &mut StatementContext<'_>,
    expr: &Expr,
    ty: ColumnType,
) -> Result<Value, SqlError> {
    let rows = collect(context, &format!("SELECT {expr}"))?;
    let mut values = query::single_row(&rows, &[ty], context.settings.zone())?;
    values.pop().ok_or_else(|| SqlError::internal("an expression has a value"))
}

/// Refuses a default that the column cannot take.
///
/// # Errors
/// 0A000 for column names and subqueries, and what evaluating and assigning it answers.
pub(super) fn validate_default(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
    expr: &Expr,
) -> Result<(), SqlError> {
    expressions::refuse_in_default(expr)?;
    if !expressions::is_volatile(context, expr) {
        evaluate(context, expr, column.ty)?;
    }
    Ok(())
}

/// What a new row has in this column when nothing is given.
///
/// # Errors
/// 2200H when its sequence is exhausted, and what its default answers.
pub(super) fn next_default(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
) -> Result<Value, SqlError> {
    if let Some(id) = column.sequence {
        let value = super::sequence_values::next_by_id(context, id)?;
        return super::sequence_values::as_column(value, column.ty);
    }
    match &column.default {
        Some(text) => evaluate(context, &expressions::parse(text)?, column.ty),
        None => Ok(Value::Null),
    }
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
    let sql = format!("SELECT ({expr}) FROM {}", super::validate::relation(def));
    let schema = schema_of(context, &*parse_query(&sql)?)?;
    match schema.field(0).data_type() {
        DataType::Boolean | DataType::Null => Ok(()),
        other => {
            let ty = crate::types::column_type_of_arrow(other).map_or(other.to_string(), |ty| ty.to_string());
            let message = format!("argument of CHECK must be type boolean, not type {ty}");
            Err(SqlError::new(SqlState::DatatypeMismatch, message))
        }
    }
}

/// The column of `count` new rows in which nothing is given for it.
///
/// # Errors
/// As [`next_default`].
pub(crate) fn default_column(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
    count: usize,
) -> Result<ArrayRef, SqlError> {
    if let Some(id) = column.sequence {
        let sequence = super::sequence_values::by_id(context, id)?;
        let mut builder = ColumnBuilder::new(column.ty, count);
        for _ in 0..count {
            let value = super::sequence_values::next(context, &sequence)?;
            builder.push(super::sequence_values::as_column(value, column.ty)?.borrow());
        }
        return Ok(builder.finish());
    }
    let Some(text) = &column.default else { return Ok(new_null_array(&column.ty.arrow(), count)) };
    let expr = expressions::parse(text)?;
    if !expressions::is_volatile(context, &expr) {
        let value = evaluate(context, &expr, column.ty)?;
        return Ok(constant_column(column.ty, &value, count));
    }
    let rows = collect(context, &format!("SELECT {expr} FROM generate_series(1, {count})"))?;
    let arrays: Result<Vec<ArrayRef>, SqlError> = rows
        .batches
        .iter()
        .map(|batch| assign_array(batch.column(0), column.ty, context.settings.zone()))
        .collect();
    let arrays = arrays?;
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(concat(&arrays)?)
}
