// SPDX-License-Identifier: Apache-2.0
//! Arithmetic with times of day that have a zone, which DataFusion takes for bytes.

use super::no_operator::no_operator;
use crate::functions::{ZONED_AFTER, ZONED_BEFORE, ZONED_ON_DATE, function};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::Result;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, Operator};

/// Whether values of this type are times of day with a zone.
pub(super) fn is_zoned_time(ty: &DataType) -> bool {
    *ty == ColumnType::TimeTz.arrow()
}

/// The operation as a call of the function that stands for it; `None` if neither side is such a time. Literals and parameters have
/// their types by now.
///
/// # Errors
/// `42883` for operations that there are not.
pub(super) fn planned(
    operator: Operator,
    raw: &RawBinaryExpr,
    (left, right): (&DataType, &DataType),
) -> Result<Option<Expr>> {
    if !is_zoned_time(left) && !is_zoned_time(right) {
        return Ok(None);
    }
    let is_span = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let is_date = |ty: &DataType| *ty == DataType::Date32;
    let (name, first, second) = match operator {
        Operator::Plus if is_zoned_time(left) && is_span(right) => (ZONED_AFTER, &raw.left, &raw.right),
        Operator::Plus if is_span(left) && is_zoned_time(right) => (ZONED_AFTER, &raw.right, &raw.left),
        Operator::Minus if is_zoned_time(left) && is_span(right) => (ZONED_BEFORE, &raw.left, &raw.right),
        Operator::Plus if is_date(left) && is_zoned_time(right) => (ZONED_ON_DATE, &raw.left, &raw.right),
        Operator::Plus if is_zoned_time(left) && is_date(right) => (ZONED_ON_DATE, &raw.right, &raw.left),
        _ => return Err(no_operator(left, &operator, right).into()),
    };
    Ok(Some(function(name)?.call(vec![first.clone(), second.clone()])))
}
