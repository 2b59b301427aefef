// SPDX-License-Identifier: Apache-2.0
//! Numbers: `width_bucket`, whole quotients, divisors, how many arguments are NULL.

use super::any_numbers::value;
use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, called, strict};
use crate::error::{SqlError, SqlState, division_by_zero, out_of_range};
use crate::types::any_numeric::AnyNumeric;
use crate::types::numeric::rescale;
use coeval_store::{
    AnyNumberRef, ColumnType, ElementType, NUMERIC_PRECISION_MAX, NumberClass, Value, ValueRef,
};
use std::cmp::Ordering;

const INT: Takes = Takes::Type(ColumnType::Int);
const BIGINT: Takes = Takes::Type(ColumnType::BigInt);
const DOUBLE: Takes = Takes::Type(ColumnType::Double);
const ANY: ColumnType = ColumnType::AnyNumeric;
const NUMBER: Takes = Takes::Type(ANY);

/// A whole `numeric` of as many digits as there are.
const WHOLE: ColumnType = ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: 0 };

const fn bucket(takes: &'static [Takes]) -> Form {
    Form::new(takes, ColumnType::Int, bucket_of_bounds)
}

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        "width_bucket",
        &[
            Form::new(&[DOUBLE, DOUBLE, DOUBLE, INT], ColumnType::Int, bucket_of_floats),
            Form::new(
                &[Takes::Numeric, Takes::Numeric, Takes::Numeric, INT],
                ColumnType::Int,
                bucket_of_numerics,
            ),
            Form::new(&[NUMBER, NUMBER, NUMBER, INT], ColumnType::Int, bucket_of_numbers),
            bucket(&[INT, Takes::Array(ElementType::Int)]),
            bucket(&[BIGINT, Takes::Array(ElementType::BigInt)]),
            bucket(&[DOUBLE, Takes::Array(ElementType::Double)]),
            bucket(&[Takes::Type(ColumnType::Date), Takes::Array(ElementType::Date)]),
            bucket(&[Takes::Type(ColumnType::Timestamp), Takes::Array(ElementType::Timestamp)]),
            bucket(&[Takes::Type(ColumnType::TimestampTz), Takes::Array(ElementType::TimestampTz)]),
            bucket(&[Takes::Type(ColumnType::Text), Takes::Array(ElementType::Text)]),
        ],
    ),
    strict(
        "div",
        &[
            Form::new(&[Takes::Numeric, Takes::Numeric], WHOLE, whole_quotient),
            Form::new(&[NUMBER, NUMBER], ANY, |call| value(call.number(0).whole_quotient(&call.number(1))?)),
        ],
    ),
    strict(
        "gcd",
        &[
            Form::new(&[INT, INT], ColumnType::Int, |call| integer(call, greatest_divisor(call))),
            Form::new(&[BIGINT, BIGINT], ColumnType::BigInt, |call| integer(call, greatest_divisor(call))),
            Form::new(&[NUMBER, NUMBER], ANY, |call| {
                value(call.number(0).greatest_divisor(&call.number(1))?)
            }),
        ],
    ),
    strict(
        "lcm",
        &[
            Form::new(&[INT, INT], ColumnType::Int, |call| integer(call, least_multiple(call))),
            Form::new(&[BIGINT, BIGINT], ColumnType::BigInt, |call| integer(call, least_multiple(call))),
            Form::new(&[NUMBER, NUMBER], ANY, |call| value(call.number(0).least_multiple(&call.number(1))?)),
        ],
    ),
    strict("factorial", &[Form::new(&[BIGINT], ANY, |call| value(AnyNumeric::factorial(call.int(0))?))]),
    strict(
        "scale",
        &[
            Form::new(&[Takes::Numeric], ColumnType::Int, |call| {
                Ok(Value::Int32(i32::from(call.decimal(0).1)))
            }),
            Form::new(&[NUMBER], ColumnType::Int, |call| {
                Ok(finite(call.values[0]).map_or(Value::Null, |number| Value::Int32(number.scale().into())))
            }),
        ],
    ),
    strict(
        "min_scale",
        &[
            Form::new(&[Takes::Numeric], ColumnType::Int, least_scale),
            Form::new(&[NUMBER], ColumnType::Int, |call| {
                let number = finite(call.values[0]);
                Ok(number.map_or(Value::Null, |number| Value::Int32(number.least_scale().into())))
            }),
        ],
    ),
    called(
        "num_nulls",
        &[Form::new(&[Takes::Any], ColumnType::Int, |call| {
            Ok(count((0..call.count()).filter(|&place| !call.has(place))))
        })
        .variadic()],
    ),
    called(
        "num_nonnulls",
        &[Form::new(&[Takes::Any], ColumnType::Int, |call| {
            Ok(count((0..call.count()).filter(|&place| call.has(place))))
        })
        .variadic()],
    ),
    // Of the elements of an array, behind VARIADIC.
    strict(
        NULL_ELEMENTS,
        &[Form::new(&[Takes::Any], ColumnType::Int, |call| {
            Ok(count(elements_of(call)?.iter().filter(|element| **element == Value::Null)))
        })],
    ),
    strict(
        OTHER_ELEMENTS,
        &[Form::new(&[Takes::Any], ColumnType::Int, |call| {
            Ok(count(elements_of(call)?.iter().filter(|element| **element != Value::Null)))
        })],
    ),
];

/// The function that counts the elements of an array that are NULL.
pub(crate) const NULL_ELEMENTS: &str = "coeval_null_elements";

/// The function that counts the others.
pub(crate) const OTHER_ELEMENTS: &str = "coeval_other_elements";

fn count<T>(items: impl Iterator<Item = T>) -> Value {
    Value::Int32(i32::try_from(items.count()).unwrap_or(i32::MAX))
}

/// The elements of the only argument.
///
/// # Errors
/// `42804` if it is no array.
fn elements_of(call: &Call<'_>) -> Result<Vec<Value>, SqlError> {
    match call.types.first() {
        Some(ColumnType::Array(_)) => Ok(call.elements(0)),
        _ => Err(SqlError::new(SqlState::DatatypeMismatch, "VARIADIC argument must be an array")),
    }
}

/// `2201G`: bounds or a count that make no buckets.
fn no_buckets(message: &str) -> SqlError {
    SqlError::new(SqlState::InvalidArgumentForWidthBucketFunction, message)
}

/// How many buckets there are; equal bounds have none between them.
fn bucket_count(call: &Call<'_>, bounds: Option<Ordering>) -> Result<i32, SqlError> {
    match i32::try_from(call.int(3)) {
        Ok(count) if count > 0 => match bounds {
            Some(Ordering::Equal) => Err(no_buckets("lower bound cannot equal upper bound")),
            _ => Ok(count),
        },
        _ => Err(no_buckets("count must be greater than zero")),
    }
}

/// The number of a bucket, one past the last one at most.
fn bucket_number(number: i64) -> Result<Value, SqlError> {
    i32::try_from(number).map(Value::Int32).map_err(|_| out_of_range("integer out of range"))
}

fn bucket_of_floats(call: &Call<'_>) -> Result<Value, SqlError> {
    let (operand, low, high) = (call.double(0), call.double(1), call.double(2));
    let count = bucket_count(call, low.partial_cmp(&high))?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(no_buckets("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(no_buckets("lower and upper bounds must be finite"));
    }
    // Counted from the bound that the first bucket begins at.
    let number = match bucket_beyond((&operand, &low, &high), count) {
        Some(beyond) => beyond,
        None => {
            // Halves do not overflow where the bounds are at the ends of all floats.
            let share = (operand / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
            ((f64::from(count) * share) as i64).min(i64::from(count) - 1) + 1
        }
    };
    bucket_number(number)
}

fn bucket_of_numerics(call: &Call<'_>) -> Result<Value, SqlError> {
    let scale = (0..3).map(|place| call.decimal(place).1).max().unwrap_or(0);
    let decimal = |place| {
        let (number, own) = call.decimal(place);
        rescale(number, own, scale, NUMERIC_PRECISION_MAX)
    };
    let (operand, low, high) = (decimal(0)?, decimal(1)?, decimal(2)?);
    let count = bucket_count(call, Some(low.cmp(&high)))?;
    bucket_number(match bucket_beyond((&operand, &low, &high), count) {
        Some(beyond) => beyond,
        None => {
            let (part, whole) = ((operand - low).abs(), (high - low).abs());
            let scaled = part.checked_mul(i128::from(count)).ok_or_else(crate::types::numeric::overflow)?;
            i64::try_from(scaled / whole).unwrap_or(i64::MAX - 1) + 1
        }
    })
}

/// The number of the bucket in front of the first or behind the last one, for an operand that is not between the bounds.
fn bucket_beyond<T: PartialOrd>((operand, low, high): (&T, &T, &T), count: i32) -> Option<i64> {
    let (is_before, is_behind) =
        if low < high { (operand < low, operand >= high) } else { (operand > low, operand <= high) };
    match (is_before, is_behind) {
        (true, _) => Some(0),
        (_, true) => Some(i64::from(count) + 1),
        _ => None,
    }
}

/// The number; `None` of NaN and infinities, which have no digits.
fn finite(value: ValueRef<'_>) -> Option<AnyNumberRef<'_>> {
    match value {
        ValueRef::Number(number)
            if matches!(
                number.class(),
                NumberClass::Negative | NumberClass::Zero | NumberClass::Positive
            ) =>
        {
            Some(number)
        }
        _ => None,
    }
}

fn bucket_of_numbers(call: &Call<'_>) -> Result<Value, SqlError> {
    let [operand, low, high] = [0, 1, 2].map(|place| call.values[place]);
    let is_nan =
        |value: ValueRef<'_>| matches!(value, ValueRef::Number(number) if number.class() == NumberClass::NaN);
    if [operand, low, high].into_iter().any(is_nan) {
        return Err(no_buckets("operand, lower bound, and upper bound cannot be NaN"));
    }
    if finite(low).is_none() || finite(high).is_none() {
        return Err(no_buckets("lower and upper bounds must be finite"));
    }
    let count = bucket_count(call, low.partial_cmp(&high))?;
    bucket_number(match bucket_beyond((&operand, &low, &high), count) {
        Some(beyond) => beyond,
        None => {
            let (operand, low, high) = (call.number(0), call.number(1), call.number(2));
            let part = operand.difference(&low).absolute().product(&AnyNumeric::whole(count));
            let number = part.whole_quotient(&high.difference(&low).absolute())?.integer("integer")?;
            i64::try_from(number).unwrap_or(i64::MAX - 1) + 1
        }
    })
}

/// How many of the bounds, which ascend, are not above the operand.
fn bucket_of_bounds(call: &Call<'_>) -> Result<Value, SqlError> {
    let bounds = call.elements(1);
    if bounds.iter().any(|bound| bound.borrow().is_null()) {
        let message = "thresholds array must not contain NULLs";
        return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
    }
    let operand = call.values[0];
    // NaN is above everything else.
    let is_nan = |value: ValueRef<'_>| matches!(value, ValueRef::Float64(number) if number.is_nan());
    let is_below = |bound: &Value| is_nan(operand) || bound.borrow() <= operand;
    Ok(count(0..bounds.partition_point(is_below)))
}

/// The quotient without what is behind the point.
fn whole_quotient(call: &Call<'_>) -> Result<Value, SqlError> {
    let ((left, left_scale), (right, right_scale)) = (call.decimal(0), call.decimal(1));
    let scale = left_scale.max(right_scale);
    let left = rescale(left, left_scale, scale, NUMERIC_PRECISION_MAX)?;
    let right = rescale(right, right_scale, scale, NUMERIC_PRECISION_MAX)?;
    left.checked_div(right).map(Value::Decimal).ok_or_else(division_by_zero)
}

fn greatest_divisor(call: &Call<'_>) -> u128 {
    let (mut left, mut right) = (call.int(0).unsigned_abs(), call.int(1).unsigned_abs());
    while right != 0 {
        (left, right) = (right, left % right);
    }
    u128::from(left)
}

fn least_multiple(call: &Call<'_>) -> u128 {
    match greatest_divisor(call) {
        0 => 0,
        divisor => u128::from(call.int(0).unsigned_abs()) / divisor * u128::from(call.int(1).unsigned_abs()),
    }
}

/// A number as the integer that the function gives.
fn integer(call: &Call<'_>, number: u128) -> Result<Value, SqlError> {
    match call.result {
        ColumnType::Int => i32::try_from(number).map(Value::Int32).map_err(|_| "integer"),
        _ => i64::try_from(number).map(Value::Int64).map_err(|_| "bigint"),
    }
    .map_err(|ty| out_of_range(&format!("{ty} out of range")))
}

/// The digits behind the point without zeros at the end.
fn least_scale(call: &Call<'_>) -> Result<Value, SqlError> {
    let (mut number, mut scale) = call.decimal(0);
    while scale > 0 && number % 10 == 0 {
        number /= 10;
        scale -= 1;
    }
    Ok(Value::Int32(i32::from(scale)))
}
