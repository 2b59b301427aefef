// SPDX-License-Identifier: Apache-2.0
//! Which type two operands meet in, as PostgreSQL promotes them. A `numeric` result has the precision and
//! scale that Arrow's decimal kernels give it, so that both execution paths agree.

pub(super) use crate::types::is_text;
pub(super) use crate::types::numeric::{decimal_shape, of_digits as numeric};

use super::arithmetic::{ArithmeticOp, NumberKind};
use crate::types::numeric::{QUOTIENT_PRECISION, quotient_shape};
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};

/// 10 to this power; `None` if it does not fit.
pub(crate) fn power_of_ten(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

pub(crate) fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt)
}

pub(super) fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Real | ColumnType::Double)
}

pub(super) fn is_number(ty: ColumnType) -> bool {
    is_integer(ty) || is_float(ty) || matches!(ty, ColumnType::Numeric { .. })
}

/// The types of documents, which are compared with nothing here.
pub(super) fn is_document(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Json | ColumnType::Jsonb)
}

/// The text types' arrays, which compare as texts do.
pub(super) fn is_text_array(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Array(element) if is_text(element.column_type()))
}

/// The result type of an operation on two numbers and how to compute it; `None` if one is no number.
pub(super) fn arithmetic(
    op: ArithmeticOp,
    left: ColumnType,
    right: ColumnType,
) -> Option<(ColumnType, NumberKind)> {
    if !is_number(left) || !is_number(right) {
        return None;
    }
    if left == ColumnType::Real && right == ColumnType::Real {
        return Some((ColumnType::Real, NumberKind::Float32));
    }
    if is_float(left) || is_float(right) {
        return Some((ColumnType::Double, NumberKind::Float64));
    }
    if is_integer(left) && is_integer(right) {
        return Some(match (left, right) {
            (ColumnType::BigInt, _) | (_, ColumnType::BigInt) => (ColumnType::BigInt, NumberKind::Int64),
            (ColumnType::Int, _) | (_, ColumnType::Int) => (ColumnType::Int, NumberKind::Int32),
            _ => (ColumnType::SmallInt, NumberKind::Int16),
        });
    }
    decimal_arithmetic(op, decimal_shape(left)?, decimal_shape(right)?)
}

fn decimal_arithmetic(
    op: ArithmeticOp,
    (left_precision, left_scale): (i32, i32),
    (right_precision, right_scale): (i32, i32),
) -> Option<(ColumnType, NumberKind)> {
    let scale_max = left_scale.max(right_scale);
    let (left_whole, right_whole) = (left_precision - left_scale, right_precision - right_scale);
    let (precision, scale, left_shift, right_shift) = match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract => {
            let precision = left_whole.max(right_whole) + scale_max + 1;
            (precision, scale_max, scale_max - left_scale, scale_max - right_scale)
        }
        ArithmeticOp::Multiply => (left_precision + right_precision + 1, left_scale + right_scale, 0, 0),
        ArithmeticOp::Divide => {
            let scale = quotient_shape(i8::try_from(left_scale).ok()?, i8::try_from(right_scale).ok()?);
            let shift = i32::from(scale) - left_scale + right_scale;
            let ty = numeric(i32::from(QUOTIENT_PRECISION), i32::from(scale));
            return Some((ty, NumberKind::Quotient { shift }));
        }
        ArithmeticOp::Remainder => {
            let precision = left_whole.min(right_whole) + scale_max;
            (precision, scale_max, scale_max - left_scale, scale_max - right_scale)
        }
    };
    if scale > i32::from(NUMERIC_PRECISION_MAX) {
        return None;
    }
    let kind = NumberKind::Decimal {
        left_factor: power_of_ten(left_shift)?,
        right_factor: power_of_ten(right_shift)?,
    };
    Some((numeric(precision, scale), kind))
}
