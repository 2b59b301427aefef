// SPDX-License-Identifier: Apache-2.0
//! Arithmetic with places in a log, which DataFusion takes for bytes: the distance of two, and a place so many bytes away.

use super::operators::{no_operator, typed_parameter};
use crate::functions::{PLACE_AFTER, PLACE_BEFORE, PLACE_DISTANCE, function};
use crate::scalar::cast_function::literal_as;
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};
use datafusion::common::Result;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, Operator};

/// Digits behind the point of a parameter that is a number of bytes.
const PARAMETER_SCALE: i8 = 10;

/// The operation as a call of the function that stands for it; `None` if neither side is a place. What has no type by itself is a
/// place where a place is taken away, and a number of bytes elsewhere, as in PostgreSQL.
///
/// # Errors
/// `42883` for operations that there are not; what is wrong with a literal.
pub(super) fn planned(
    operator: Operator,
    raw: &RawBinaryExpr,
    (left, right): (&DataType, &DataType),
) -> Result<Option<Expr>> {
    let is_place = |ty: &DataType| *ty == ColumnType::PgLsn.arrow();
    if !is_place(left) && !is_place(right) {
        return Ok(None);
    }
    let is_open =
        |side: &Expr, ty: &DataType| ty.is_null() || (ty.is_string() && matches!(side, Expr::Literal(..)));
    let is_bytes = |side: &Expr, ty: &DataType| ty.is_integer() || ty.is_decimal() || is_open(side, ty);
    let (one, other) = (&raw.left, &raw.right);
    let called = match operator {
        Operator::Minus if is_place(left) && (is_place(right) || is_open(other, right)) => {
            let other = if is_place(right) { other.clone() } else { as_place(other)? };
            function(PLACE_DISTANCE)?.call(vec![one.clone(), other])
        }
        Operator::Minus if is_place(left) && is_bytes(other, right) => {
            function(PLACE_BEFORE)?.call(vec![one.clone(), other.clone()])
        }
        Operator::Plus if is_place(left) && is_bytes(other, right) => {
            function(PLACE_AFTER)?.call(vec![one.clone(), as_bytes(other, right)])
        }
        Operator::Plus if is_place(right) && is_bytes(one, left) => {
            function(PLACE_AFTER)?.call(vec![other.clone(), as_bytes(one, left)])
        }
        _ => return Err(no_operator(left, &operator, right).into()),
    };
    Ok(Some(called))
}

/// What has no type by itself, as a place.
fn as_place(open: &Expr) -> Result<Expr> {
    match open {
        Expr::Placeholder(_) => Ok(typed_parameter(open.clone(), &ColumnType::PgLsn.arrow())),
        literal => Ok(literal_as(literal.clone(), ColumnType::PgLsn)?),
    }
}

/// A number of bytes; a parameter without a type is a `numeric`, and a text is read as one where it is used.
fn as_bytes(side: &Expr, ty: &DataType) -> Expr {
    let numeric = ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: PARAMETER_SCALE };
    match side {
        Expr::Placeholder(_) if ty.is_null() => typed_parameter(side.clone(), &numeric.arrow()),
        other => other.clone(),
    }
}
