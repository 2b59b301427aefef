// SPDX-License-Identifier: Apache-2.0
//! Values of type `real` beside integers, of which it does not have all.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

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
