// SPDX-License-Identifier: Apache-2.0
//! Values on their way to a server and back.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::parameters::index_of_name;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::scalar::cast_function::cast_array;
use crate::types::{column_type_of_arrow, column_type_of_field, column_type_of_given, format_value};
use crate::walk::try_change_expressions;
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use chrono_tz::Tz;
use coeval_store::{ColumnType, Value as StoredValue, ValueRef, value_at};
use coeval_tique::{Outcome, Rows};
use datafusion::sql::sqlparser::ast::{Expr, Statement, Value};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;

/// A value as a literal.
fn literal(value: ValueRef<'_>, ty: ColumnType, context: &StatementContext<'_>) -> String {
    match value {
        ValueRef::Null => format!("CAST(NULL AS {ty})"),
        ValueRef::Boolean(truth) => truth.to_string(),
        ValueRef::Int16(number) => number.to_string(),
        ValueRef::Int32(number) if ty == ColumnType::Int => number.to_string(),
        ValueRef::Int64(number) if ty == ColumnType::BigInt => number.to_string(),
        // Without the blanks that clients are shown: engines compare them.
        ValueRef::Text(text) if matches!(ty, ColumnType::Char(_)) => {
            format!("CAST({} AS {ty})", crate::servers::text(text))
        }
        value => {
            let mut out = String::new();
            format_value(value, ty, context.settings.zone(), &mut out);
            let quoted = crate::servers::text(&out);
            if matches!(ty, ColumnType::Text | ColumnType::Varchar(_)) {
                quoted
            } else {
                format!("CAST({quoted} AS {ty})")
            }
        }
    }
}

/// Puts the statement's parameters in place of `$1`, `$2`, ...
///
/// # Errors
/// If a value cannot be written: a bug.
pub(super) fn put_parameters(
    statement: &mut Statement,
    context: &StatementContext<'_>,
) -> Result<(), SqlError> {
    if context.parameters.is_empty() {
        return Ok(());
    }
    try_change_expressions(statement, |expr| {
        let Expr::Value(value) = expr else { return Ok(()) };
        let Value::Placeholder(name) = &value.value else { return Ok(()) };
        let at = index_of_name(name).unwrap_or(usize::MAX);
        let (Some(given), Some(ty)) = (context.parameters.get(at), context.parameter_types.get(at)) else {
            return Err(SqlError::internal(format!("no value for parameter {name}")));
        };
        *expr = parsed(&literal(StoredValue::borrow(given), *ty, context))?;
        Ok(())
    })
}

fn parsed(sql: &str) -> Result<Expr, SqlError> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    expr.map_err(|error| SqlError::internal(format!("the literal {sql}: {error}")))
}

/// Rows as a list of VALUES.
///
/// # Errors
/// `0A000` for a column of a type that cannot be sent.
pub(super) fn values_of(rows: &RowSet, context: &StatementContext<'_>) -> Result<String, SqlError> {
    let types: Vec<ColumnType> = rows
        .schema
        .fields()
        .iter()
        .map(|field| {
            let ty = column_type_of_arrow(field.data_type());
            ty.filter(|ty| !matches!(ty, ColumnType::Array(_))).ok_or_else(|| {
                SqlError::unsupported(format!("a column of type {} on a server", field.data_type()))
            })
        })
        .collect::<Result<_, _>>()?;
    let mut list = Vec::with_capacity(rows.rows());
    for batch in &rows.batches {
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .zip(&types)
            .map(|(column, ty)| cast(column, &ty.arrow()))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .zip(&types)
                .map(|(column, ty)| match value_at(column, row) {
                    ValueRef::Null => "NULL".to_owned(),
                    value => literal(value, *ty, context),
                })
                .collect();
            list.push(format!("({})", cells.join(", ")));
        }
    }
    Ok(list.join(", "))
}

/// What a server's statement came to, in types that clients know: those they were told, if they were.
///
/// # Errors
/// If the server's values are not of the types that were told.
pub(super) fn result_of(outcome: Outcome, promised: Option<&SchemaRef>) -> Result<StatementResult, SqlError> {
    let rows = outcome.rows.map(|rows| row_set(&rows, promised)).transpose()?;
    let count = outcome.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let tag = match outcome.tag.split(' ').next() {
        Some("INSERT") => CommandTag::Insert(count),
        Some("UPDATE") => CommandTag::Update(count),
        Some("DELETE") => CommandTag::Delete(count),
        _ => CommandTag::Select(count),
    };
    Ok(StatementResult { tag, rows })
}

/// A server's rows as lines: one for each row, or the lines of its cells one below the other.
pub(super) fn lines_of(rows: &Rows) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter();
            let cells: Vec<_> =
                cells.map(|column| array_value_to_string(column, row).unwrap_or_default()).collect();
            if cells.iter().any(|cell| cell.contains('\n')) {
                lines.extend(cells.iter().flat_map(|cell| cell.lines()).map(str::to_owned));
            } else {
                lines.push(cells.join(" | "));
            }
        }
    }
    lines
}

/// Rows of a server in the types of `told`, or in the nearest that clients know.
///
/// # Errors
/// As [`result_of`].
pub(super) fn row_set(rows: &Rows, told: Option<&SchemaRef>) -> Result<RowSet, SqlError> {
    let told = told.filter(|told| told.fields().len() == rows.schema.fields().len());
    let fields = rows.schema.fields().iter().enumerate().map(|(at, field)| match told {
        Some(told) => told.field(at).clone().with_nullable(true),
        None => {
            let ty = column_type_of_given(field);
            let ty = ty.map_or_else(|| field.data_type().clone(), ColumnType::arrow);
            Field::new(field.name(), ty, true)
        }
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let schema = if told.is_some() { schema } else { crate::query::shown_names(&schema) };
    let mut batches = Vec::with_capacity(rows.batches.len());
    for batch in rows.batches.iter().filter(|batch| batch.num_rows() > 0) {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns: Vec<ArrayRef> =
            columns.map(|(column, field)| converted(column, field)).collect::<Result<_, SqlError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?);
    }
    Ok(RowSet::new(schema, batches))
}

fn converted(column: &ArrayRef, field: &Field) -> Result<ArrayRef, SqlError> {
    if matches!(column_type_of_field(field), Some(ColumnType::Char(_))) {
        return Ok(cast(&without_blanks(column)?, field.data_type())?);
    }
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    if column_type_of_field(field) == Some(ColumnType::AnyNumeric) {
        // Engines compute roots and powers as floats. A number has no time zone.
        return cast_array(column, ColumnType::AnyNumeric, Tz::UTC);
    }
    let options = arrow::compute::CastOptions { safe: false, ..arrow::compute::CastOptions::default() };
    Ok(arrow::compute::cast_with_options(column, field.data_type(), &options)?)
}

/// Texts of `char(n)` as they are everywhere in here: PostgreSQL fills them up.
fn without_blanks(column: &ArrayRef) -> Result<StringArray, SqlError> {
    let texts = cast(column, &DataType::Utf8)?;
    Ok(texts.as_string::<i32>().iter().map(|text| Some(text?.trim_end_matches(' '))).collect())
}
