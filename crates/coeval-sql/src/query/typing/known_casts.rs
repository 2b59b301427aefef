// SPDX-License-Identifier: Apache-2.0
//! Casts to numbers and truth values that Arrow has and PostgreSQL has not: of truth values to other numbers than `int`, of dates
//! and times, of bytes, of `json`.
//!
//! No rule of DataFusion's makes one by itself where PostgreSQL would take the operands, so whoever wrote them, they are refused.

use crate::error::{SqlError, SqlState};
use crate::types::{column_type_of_arrow, column_type_of_field, name_in_words};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Refuses a cast of an expression of this type to another.
///
/// # Errors
/// `42846` if PostgreSQL has no such cast.
pub(in crate::query) fn refuse_unknown_cast(
    input: &Expr,
    from: &DataType,
    to: &DataType,
    schema: &DFSchema,
) -> Result<()> {
    if !to.is_numeric() && *to != DataType::Boolean {
        return Ok(());
    }
    let declared = || input.to_field(schema).ok().and_then(|(_, field)| column_type_of_field(&field));
    let is_known = match (from, to) {
        (from, to) if from == to => true,
        (DataType::Boolean, to) => *to == DataType::Int32,
        (from, DataType::Boolean) if from.is_numeric() => *from == DataType::Int32,
        (DataType::Date32 | DataType::Timestamp(..) | DataType::Interval(_), _)
        | (DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_), _) => false,
        (from, _) if from.is_string() => declared() != Some(ColumnType::Json),
        _ => true,
    };
    if is_known {
        return Ok(());
    }
    let shown = |ty: Option<ColumnType>| ty.map_or_else(|| "unknown".to_owned(), name_in_words);
    let (from, to) =
        (shown(declared().or_else(|| column_type_of_arrow(from))), shown(column_type_of_arrow(to)));
    Err(SqlError::new(SqlState::CannotCoerce, format!("cannot cast type {from} to {to}")).into())
}
