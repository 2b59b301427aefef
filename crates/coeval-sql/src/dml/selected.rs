// SPDX-License-Identifier: Apache-2.0
//! Columns of a query's result on their way into columns of a table: PostgreSQL's assignment casts.

use crate::error::{SqlError, SqlState};
use crate::types::{assign_array, column_type_of_arrow, name_in_words};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval_store::{ColumnDef, ColumnType, EnumType};
use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Value};

/// Whether an expression of a SELECT list has a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceType {
    /// It is what the query says.
    Known,
    /// It is a text literal, which takes the type of the column.
    Open,
}

/// Which columns of a query are open literals; empty if that cannot be told from its text.
pub(super) fn source_types(query: &Query) -> Vec<SourceType> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Vec::new() };
    let mut types = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                types.push(source_type(expr))
            }
            _ => return Vec::new(),
        }
    }
    types
}

/// Whether the expression is an open literal.
pub(super) fn source_type(expression: &Expr) -> SourceType {
    match expression {
        Expr::Nested(inner) => source_type(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::Placeholder(_)
            | Value::Null => SourceType::Open,
            _ => SourceType::Known,
        },
        _ => SourceType::Known,
    }
}

/// Refuses a query column of this type for a table's column, as PostgreSQL does before it runs anything.
///
/// # Errors
/// `42804` if there is no assignment cast.
pub(super) fn check(from: &DataType, source: SourceType, column: &ColumnDef) -> Result<(), SqlError> {
    let is_open = match from {
        DataType::List(item) => *item.data_type() == DataType::Null,
        from => *from == DataType::Null,
    };
    let Some(from) = column_type_of_arrow(from).filter(|_| !is_open) else { return Ok(()) };
    if source == SourceType::Open || is_assignable(from, column.ty) {
        return Ok(());
    }
    let (to, from) = (name_in_words(column.ty), name_in_words(from));
    let message = format!("column \"{}\" is of type {to} but expression is of type {from}", column.name);
    Err(SqlError::new(SqlState::DatatypeMismatch, message)
        .with_hint("You will need to rewrite or cast the expression."))
}

/// The families of types between which assignment casts exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Number,
    Text,
    Moment,
    Time,
    Interval,
    Boolean,
    Bytes,
    Uuid,
    Place,
    Enum(EnumType),
    Array,
}

fn family(ty: ColumnType) -> Family {
    match ty {
        ColumnType::SmallInt
        | ColumnType::Int
        | ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::Double
        | ColumnType::Numeric { .. } => Family::Number,
        // Arrow carries json as text, so a query cannot tell them apart.
        ColumnType::Text
        | ColumnType::Varchar(_)
        | ColumnType::Char(_)
        | ColumnType::Json
        | ColumnType::Jsonb => Family::Text,
        ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz => Family::Moment,
        ColumnType::Time => Family::Time,
        ColumnType::Interval => Family::Interval,
        ColumnType::Boolean => Family::Boolean,
        ColumnType::Bytea => Family::Bytes,
        ColumnType::Uuid => Family::Uuid,
        ColumnType::PgLsn => Family::Place,
        ColumnType::Enum(ty) => Family::Enum(ty),
        ColumnType::Array(_) => Family::Array,
    }
}

fn is_assignable(from: ColumnType, to: ColumnType) -> bool {
    if let (ColumnType::Array(from), ColumnType::Array(to)) = (from, to) {
        return is_assignable(from.column_type(), to.column_type());
    }
    let pair = (family(from), family(to));
    pair.0 == pair.1
        || pair.1 == Family::Text && !matches!(to, ColumnType::Json | ColumnType::Jsonb)
        || matches!(pair, (Family::Moment | Family::Interval, Family::Time)) && from != ColumnType::Date
        || pair == (Family::Time, Family::Interval)
}

/// The query's column as the table's.
///
/// # Errors
/// As for an assignment of each of its values: `22001`, `22003`, `22P02` and the like.
pub(super) fn assigned(array: &ArrayRef, column: &ColumnDef, zone: Tz) -> Result<ArrayRef, SqlError> {
    assign_array(array, column.ty, zone)
}
