// SPDX-License-Identifier: Apache-2.0
//! Values of type `real` beside other numbers, of which it does not have all.

use super::exact_types::is_any_numeric;
use super::mixed_floats::doubles;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast};
use std::sync::Arc;

/// Whether there is a `real` among the expressions, and an integer that may be none: DataFusion would round it to one.
pub(super) fn mixes_real_and_integer(expressions: &[Expr], schema: &DFSchema) -> bool {
    let (mut reals, mut integers) = (false, false);
    for expression in expressions {
        let Ok(ty) = expression.get_type(schema) else { continue };
        reals |= ty == DataType::Float32;
        integers |= ty.is_integer() && !is_real(expression);
    }
    reals && integers
}

/// A `real` has all integers that are not above this one.
const REAL_INTEGER_MAX: u64 = 1 << 24;

/// Whether an expression is a constant integer that is the same as a `real`.
pub(super) fn is_real(integer: &Expr) -> bool {
    let literal = match integer {
        Expr::Cast(Cast { expr, .. }) => expr.as_literal(),
        other => other.as_literal(),
    };
    let integer = literal.filter(|literal| literal.data_type().is_integer());
    let value = integer.and_then(|integer| integer.cast_to(&DataType::Int64).ok());
    matches!(value, Some(ScalarValue::Int64(Some(value))) if value.unsigned_abs() <= REAL_INTEGER_MAX)
}

/// `nullif` of a float and a number of another type, which are compared as by `=`: as `double precision`. That is what it gives, too, unless
/// the first is a `real`: there is an operator between that and a `double precision`, which it is an operand of as it is. `None` of numbers
/// of one type, and of others.
pub(super) fn settled_nullif(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let [left, right] = &call.args[..] else { return Ok(None) };
    let (own, other) = (left.get_type(schema)?, right.get_type(schema)?);
    let is_number = |ty: &DataType| ty.is_numeric() || is_any_numeric(ty);
    let has_float = own.is_floating() || other.is_floating();
    if own == other || !has_float || !is_number(&own) || !is_number(&other) {
        return Ok(None);
    }
    let numbers = doubles([left, right], schema);
    let told = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), numbers));
    Ok(Some(if own == DataType::Float32 { cast(told, own) } else { told }))
}
