// SPDX-License-Identifier: Apache-2.0
//! Casts to numbers and truth values that Arrow has and PostgreSQL has not, as of dates, bytes and arrays.
//!
//! No rule of DataFusion's makes one by itself where PostgreSQL would take the operands, so whoever wrote them, they are refused.

use crate::types::{column_type_of_arrow, column_type_of_field, require_cast};
use arrow::datatypes::DataType;
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
    // The keys of a window have times as their numbers (`window_keys.rs`).
    let is_key = matches!((from, to), (DataType::Time64(_), DataType::Int64));
    if from == to || is_key {
        return Ok(());
    }
    let declared = || input.to_field(schema).ok().and_then(|(_, field)| column_type_of_field(&field));
    let is_marked = from.is_string() || *from == DataType::Binary;
    let from = if is_marked { declared() } else { column_type_of_arrow(from) };
    match (from, column_type_of_arrow(to)) {
        (Some(from), Some(to)) => Ok(require_cast(from, to)?),
        _ => Ok(()),
    }
}
