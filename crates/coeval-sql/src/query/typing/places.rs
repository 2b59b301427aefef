// SPDX-License-Identifier: Apache-2.0
//! Arithmetic with places in a log, which DataFusion takes for bytes: the distance of two, and a place so many bytes away.

use super::exact_types::is_any_numeric;
use super::no_operator::no_operator;
use crate::functions::{PLACE_AFTER, PLACE_BEFORE, PLACE_DISTANCE, function};
use crate::scalar::cast_function::{called, literal_as};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::Result;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, Operator};

/// What a number of bytes is read as that does not say how many digits it has.
const BYTES: ColumnType = ColumnType::Numeric { precision: 38, scale: 10 };

/// The operation as a call of the function that stands for it; `None` if neither side is a place. A NULL without a type is a
/// place where a place is taken away, and a number of bytes elsewhere; parameters and literals have their types by now.
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
    let is_bytes = |ty: &DataType| ty.is_integer() || ty.is_decimal() || ty.is_null() || is_any_numeric(ty);
    let bytes = |number: &Expr, ty: &DataType| match is_any_numeric(ty) {
        true => called(number.clone(), BYTES),
        false => Ok(number.clone()),
    };
    let (one, other) = (&raw.left, &raw.right);
    let called = match operator {
        Operator::Minus if is_place(left) && (is_place(right) || right.is_null()) => {
            let other = other.clone();
            let other = if is_place(right) { other } else { literal_as(other, ColumnType::PgLsn)? };
            function(PLACE_DISTANCE)?.call(vec![one.clone(), other])
        }
        Operator::Minus if is_place(left) && is_bytes(right) => {
            function(PLACE_BEFORE)?.call(vec![one.clone(), bytes(other, right)?])
        }
        Operator::Plus if is_place(left) && is_bytes(right) => {
            function(PLACE_AFTER)?.call(vec![one.clone(), bytes(other, right)?])
        }
        Operator::Plus if is_place(right) && is_bytes(left) => {
            function(PLACE_AFTER)?.call(vec![other.clone(), bytes(one, left)?])
        }
        _ => return Err(no_operator(left, &operator, right).into()),
    };
    Ok(Some(called))
}
