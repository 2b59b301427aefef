// SPDX-License-Identifier: Apache-2.0
//! The values of expressions that definitions hold, by queries of our own.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::query;
use crate::result::RowSet;
use crate::rights::Checks;
use crate::sequences;
use crate::stored::expressions;
use crate::stored::parse_query;
use crate::types::assign_array;
use crate::walk::any_expression;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use coeval_store::{ColumnBuilder, ColumnDef, ColumnType, Value, constant_column};
use datafusion::sql::sqlparser::ast::{Expr, Query};

/// The rows of a query of our own.
pub(crate) fn collect(context: &mut StatementContext<'_>, sql: &str) -> Result<RowSet, SqlError> {
    query::collect(context, &*parse_query(sql)?)
}

/// The rows of a query of our own whose every word is ours: what it reads is not checked.
pub(crate) fn collect_unchecked(context: &mut StatementContext<'_>, sql: &str) -> Result<RowSet, SqlError> {
    let query = parse_query(sql)?;
    unchecked(context, |context| query::collect(context, &query))
}

/// The columns of a query. Who may read its tables is asked when it runs.
pub(crate) fn schema_of(context: &mut StatementContext<'_>, query: &Query) -> Result<SchemaRef, SqlError> {
    let planned = unchecked(context, |context| query::plan(context, query, &[]))?;
    Ok(planned.columns().clone())
}

/// The columns of a query that a definition is to keep, or of one that tries an expression of it.
///
/// # Errors
/// `22007` for a word such as `today` beside a date: its value is that of the transaction that runs the query, and what a definition
/// means does not change from one to the next.
pub(crate) fn schema_of_definition(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<SchemaRef, SqlError> {
    let planned = unchecked(context, |context| query::plan(context, query, &[]))?;
    planned.refuse_words_for_days()?;
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
pub(crate) fn evaluate(
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
/// 0A000 for column names and subqueries, as [`schema_of_definition`], and what evaluating and assigning it answers.
pub(crate) fn validate_default(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
    expr: &Expr,
) -> Result<(), SqlError> {
    expressions::refuse_in_default(expr)?;
    if !is_volatile(context, expr) {
        schema_of_definition(context, &*parse_query(&format!("SELECT {expr}"))?)?;
        evaluate(context, expr, column.ty)?;
    }
    Ok(())
}

/// What a new row has in this column when nothing is given.
///
/// # Errors
/// 2200H when its sequence is exhausted, and what its default answers.
pub(crate) fn next_default(
    context: &mut StatementContext<'_>,
    column: &ColumnDef,
) -> Result<Value, SqlError> {
    if let Some(id) = column.sequence {
        let value = sequences::next_by_id(context, id)?;
        return sequences::as_column(value, column.ty);
    }
    match &column.default {
        Some(text) => evaluate(context, &expressions::parse(text)?, column.ty),
        None => Ok(Value::Null),
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
        let sequence = sequences::by_id(context, id)?;
        let mut builder = ColumnBuilder::new(column.ty, count);
        for _ in 0..count {
            let value = sequences::next(context, &sequence)?;
            builder.push(sequences::as_column(value, column.ty)?.borrow());
        }
        return Ok(builder.finish());
    }
    let Some(text) = &column.default else { return Ok(new_null_array(&column.ty.arrow(), count)) };
    let expr = expressions::parse(text)?;
    if !is_volatile(context, &expr) {
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

/// Whether the value of an expression may differ from row to row: it calls a volatile function.
pub(crate) fn is_volatile(context: &StatementContext<'_>, expr: &Expr) -> bool {
    use datafusion::logical_expr::Volatility;
    let functions = context.engine.template().scalar_functions();
    any_expression(expr, |expr| {
        let Expr::Function(function) = expr else { return false };
        let name = function.name.to_string().to_lowercase();
        let known = functions.get(&name).map(|function| function.signature().volatility);
        // A function that DataFusion does not know is one of ours; `now` is one of the stable ones.
        known == Some(Volatility::Volatile)
            || matches!(name.as_str(), "nextval" | "gen_random_uuid" | "uuid_generate_v4")
    })
}
