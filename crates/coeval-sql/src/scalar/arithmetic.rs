// SPDX-License-Identifier: Apache-2.0
//! `+ - * / %` on numbers: never wraps, never divides by zero.

use crate::error::{SqlError, SqlState};
use crate::types::numeric::divide;
use coeval_store::ValueRef;

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// In which numbers an operation computes; the compiler has chosen it from the operands' types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NumberKind {
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    /// Each operand is multiplied by its factor first, which brings them to one scale.
    Decimal {
        left_factor: i128,
        right_factor: i128,
    },
    /// The dividend is multiplied by ten to this power first, which gives the quotient its digits.
    Quotient {
        shift: i32,
    },
}

/// 10^38: a `numeric` has at most 38 digits.
const DECIMAL_LIMIT: i128 = 10_i128.pow(38);

/// The result; neither operand is NULL.
#[inline]
pub(super) fn calculate(
    op: ArithmeticOp,
    kind: NumberKind,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<ValueRef<'static>, SqlError> {
    match kind {
        NumberKind::Decimal { left_factor, right_factor } => {
            let left = as_i128(left).checked_mul(left_factor).ok_or_else(numeric_overflow)?;
            let right = as_i128(right).checked_mul(right_factor).ok_or_else(numeric_overflow)?;
            decimals(op, left, right).map(ValueRef::Decimal)
        }
        NumberKind::Quotient { shift } => divide(as_i128(left), as_i128(right), shift).map(ValueRef::Decimal),
        NumberKind::Int32 => {
            let wide = integers(op, as_i64(left), as_i64(right), "integer")?;
            i32::try_from(wide).map(ValueRef::Int32).map_err(|_| out_of_range("integer"))
        }
        NumberKind::Int64 => integers(op, as_i64(left), as_i64(right), "bigint").map(ValueRef::Int64),
        NumberKind::Int16 => {
            let wide = integers(op, as_i64(left), as_i64(right), "smallint")?;
            i16::try_from(wide).map(ValueRef::Int16).map_err(|_| out_of_range("smallint"))
        }
        NumberKind::Float64 => floats(op, as_f64(left), as_f64(right)).map(ValueRef::Float64),
        NumberKind::Float32 => {
            let (left, right) = (as_f64(left), as_f64(right));
            let wide = floats(op, left, right)?;
            let narrow = wide as f32;
            if narrow.is_infinite() && wide.is_finite() {
                return Err(float_overflow());
            }
            Ok(ValueRef::Float32(narrow))
        }
    }
}

#[inline]
fn integers(op: ArithmeticOp, left: i64, right: i64, name: &'static str) -> Result<i64, SqlError> {
    let result = match op {
        ArithmeticOp::Add => left.checked_add(right),
        ArithmeticOp::Subtract => left.checked_sub(right),
        ArithmeticOp::Multiply => left.checked_mul(right),
        ArithmeticOp::Divide if right == 0 => return Err(division_by_zero()),
        ArithmeticOp::Divide => left.checked_div(right),
        ArithmeticOp::Remainder if right == 0 => return Err(division_by_zero()),
        // The remainder by -1 is 0; only the machine instruction overflows for the least integer.
        ArithmeticOp::Remainder => Some(left.wrapping_rem(right)),
    };
    result.ok_or_else(|| out_of_range(name))
}

#[inline]
fn decimals(op: ArithmeticOp, left: i128, right: i128) -> Result<i128, SqlError> {
    let result = match op {
        ArithmeticOp::Add => left.checked_add(right),
        ArithmeticOp::Subtract => left.checked_sub(right),
        ArithmeticOp::Multiply => left.checked_mul(right),
        ArithmeticOp::Divide => unreachable!("quotients are a kind of their own"),
        ArithmeticOp::Remainder if right == 0 => return Err(division_by_zero()),
        ArithmeticOp::Remainder => Some(left.wrapping_rem(right)),
    };
    match result {
        Some(value) if value > -DECIMAL_LIMIT && value < DECIMAL_LIMIT => Ok(value),
        _ => Err(numeric_overflow()),
    }
}

/// The quotient, rounded half away from zero, as PostgreSQL rounds `numeric`.
pub(super) fn divide_rounded(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    let remainder = (dividend % divisor).unsigned_abs();
    let magnitude = divisor.unsigned_abs();
    if remainder >= magnitude - remainder {
        if (dividend < 0) == (divisor < 0) { quotient + 1 } else { quotient - 1 }
    } else {
        quotient
    }
}

#[inline]
fn floats(op: ArithmeticOp, left: f64, right: f64) -> Result<f64, SqlError> {
    let result = match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        // What is no number stays none.
        ArithmeticOp::Divide | ArithmeticOp::Remainder if right == 0.0 && !left.is_nan() => {
            return Err(division_by_zero());
        }
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Remainder => left % right,
    };
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(float_overflow());
    }
    Ok(result)
}

/// `-value`; not NULL.
pub(super) fn negate(value: ValueRef<'_>) -> Result<ValueRef<'static>, SqlError> {
    Ok(match value {
        ValueRef::Int16(v) => ValueRef::Int16(v.checked_neg().ok_or_else(|| out_of_range("smallint"))?),
        ValueRef::Int32(v) => ValueRef::Int32(v.checked_neg().ok_or_else(|| out_of_range("integer"))?),
        ValueRef::Int64(v) => ValueRef::Int64(v.checked_neg().ok_or_else(|| out_of_range("bigint"))?),
        ValueRef::Float32(v) => ValueRef::Float32(-v),
        ValueRef::Float64(v) => ValueRef::Float64(-v),
        ValueRef::Decimal(v) => ValueRef::Decimal(-v),
        other => panic!("the compiler lets only numbers be negated, not {other}"),
    })
}

/// `abs(value)`; not NULL.
pub(super) fn absolute(value: ValueRef<'_>) -> Result<ValueRef<'static>, SqlError> {
    match value {
        ValueRef::Int16(v) if v >= 0 => Ok(ValueRef::Int16(v)),
        ValueRef::Int32(v) if v >= 0 => Ok(ValueRef::Int32(v)),
        ValueRef::Int64(v) if v >= 0 => Ok(ValueRef::Int64(v)),
        ValueRef::Decimal(v) if v >= 0 => Ok(ValueRef::Decimal(v)),
        ValueRef::Float32(v) => Ok(ValueRef::Float32(v.abs())),
        ValueRef::Float64(v) => Ok(ValueRef::Float64(v.abs())),
        negative => negate(negative),
    }
}

#[inline]
pub(super) fn as_i64(value: ValueRef<'_>) -> i64 {
    value.as_i64().expect("the compiler gives integer operations integers only")
}

#[inline]
pub(super) fn as_i128(value: ValueRef<'_>) -> i128 {
    if let ValueRef::Decimal(v) = value { v } else { i128::from(as_i64(value)) }
}

/// Any number but a decimal, whose scale is not known here.
#[inline]
pub(super) fn as_f64(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Float64(v) => v,
        ValueRef::Float32(v) => f64::from(v),
        other => as_i64(other) as f64,
    }
}

#[cold]
pub(super) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("{type_name} out of range"))
}

#[cold]
pub(super) fn numeric_overflow() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

#[cold]
fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "value out of range: overflow")
}

#[cold]
pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DivisionByZero, "division by zero")
}
