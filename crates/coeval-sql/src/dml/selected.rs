// SPDX-License-Identifier: Apache-2.0
//! Columns of a query's result on their way into columns of a table: PostgreSQL's assignment casts.

use crate::error::SqlError;
use crate::types::{CastContext, assign_array, cannot_assign, column_type_of_arrow, has_cast};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval_store::ColumnDef;
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
    // Arrow carries documents as text, so a query cannot tell them apart.
    let may_be_document = Some(from) == column_type_of_arrow(&column.ty.arrow());
    if source == SourceType::Open || may_be_document || has_cast(from, column.ty, CastContext::Assignment) {
        return Ok(());
    }
    Err(cannot_assign(&column.name, column.ty, from))
}

/// The query's column as the table's.
///
/// # Errors
/// As for an assignment of each of its values: `22001`, `22003`, `22P02` and the like.
pub(super) fn assigned(array: &ArrayRef, column: &ColumnDef, zone: Tz) -> Result<ArrayRef, SqlError> {
    assign_array(array, column.ty, zone)
}
