// SPDX-License-Identifier: Apache-2.0
//! Assignment casts: what happens to a value of one type on its way into a column of another.

use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::{AnyNumeric, number_of_decimal};
use crate::types::bits::fit_bits;
use crate::types::casts::CastContext;
use crate::types::column_type_of_arrow;
use crate::types::datetime::is_timestamp;
use crate::types::float_range::real_of;
use crate::types::lists::assign_list;
use crate::types::names::type_name;
use crate::types::numeric::rescale;
use crate::types::one_nan::with_one_nan;
use crate::types::text::{fit_char, fit_varchar, format_value, parse_value};
use crate::types::zoned_time::{zoned_at, zoned_today};
use crate::types::zones::{local_to_utc, utc_to_local};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, IntervalValue, Value, ValueRef, value_at, zoned_time_of};

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_MICRO: i64 = 1_000;
/// Digits of a `real` and of a `double precision` that a `numeric` gets.
const REAL_DIGITS: usize = 6;
const DOUBLE_DIGITS: usize = 15;

/// The value, of type `from`, as a column of type `to` takes it. Text goes into every type, as a literal
/// without a type does.
///
/// # Errors
/// `22003`, `22001`, `22026`, `22P02`, `22007`, `22008` as PostgreSQL; `42804` if there is no such cast.
pub(crate) fn assign(value: Value, from: ColumnType, to: ColumnType, zone: Tz) -> Result<Value, SqlError> {
    let physical = value.borrow();
    if physical.is_null() {
        return Ok(Value::Null);
    }
    if from == to && !matches!(to, ColumnType::Varchar(_) | ColumnType::Char(_)) {
        return Ok(value);
    }
    if let ValueRef::Text(text) = physical {
        return parse_value(text, to, zone);
    }
    if let (ValueRef::List(list), ColumnType::Array(element)) = (physical, from) {
        return assign_list(list, element, to, zone);
    }
    match to {
        ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt => to_integer(physical, from, to),
        ColumnType::Real | ColumnType::Double => to_float(physical, from, to),
        ColumnType::Numeric { precision, scale } => to_decimal(physical, from, to, precision, scale),
        ColumnType::AnyNumeric => to_any_numeric(physical, from, to),
        ColumnType::Text
        | ColumnType::Varchar(_)
        | ColumnType::Char(_)
        | ColumnType::Json
        | ColumnType::Jsonb => {
            let mut text = String::new();
            match physical {
                ValueRef::Boolean(truth) => text.push_str(if truth { "true" } else { "false" }),
                other => format_value(other, from, zone, &mut text),
            }
            parse_value(&text, to, zone)
        }
        ColumnType::Date | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
            to_datetime(physical, from, to, zone)
        }
        ColumnType::TimeTz => to_zoned_time(physical, from, to, zone),
        ColumnType::Interval => to_interval(physical, from, to),
        ColumnType::Bit(_) | ColumnType::Varbit(_) => match physical {
            ValueRef::Bytes(kept) if from.is_bits() => {
                Ok(Value::Bytes(fit_bits(kept.to_vec(), to, CastContext::Assignment)?.into()))
            }
            _ => Err(no_cast(from, to)),
        },
        ColumnType::Boolean
        | ColumnType::Bytea
        | ColumnType::Uuid
        | ColumnType::PgLsn
        | ColumnType::Enum(_)
        | ColumnType::Array(_) => Err(no_cast(from, to)),
    }
}

/// `42804` for a value that is met where statements are not checked before they run: a parameter's.
pub(super) fn no_cast(from: ColumnType, to: ColumnType) -> SqlError {
    let message = format!("a value of type {} is not one of type {}", type_name(from), type_name(to));
    SqlError::new(SqlState::DatatypeMismatch, message)
}

fn out_of_range(to: ColumnType) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("{to} out of range"))
}

fn narrow(value: i128, to: ColumnType) -> Result<Value, SqlError> {
    let narrowed = match to {
        ColumnType::SmallInt => i16::try_from(value).ok().map(Value::Int16),
        ColumnType::Int => i32::try_from(value).ok().map(Value::Int32),
        _ => i64::try_from(value).ok().map(Value::Int64),
    };
    narrowed.ok_or_else(|| out_of_range(to))
}

/// Any number as one of as many digits as it needs.
fn to_any_numeric(value: ValueRef<'_>, from: ColumnType, to: ColumnType) -> Result<Value, SqlError> {
    let number = match (value, from) {
        (ValueRef::Number(number), _) => number.to_owned(),
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale, .. }) => {
            number_of_decimal(unscaled, scale)?
        }
        (ValueRef::Float32(v), _) => AnyNumeric::of_float(f64::from(v), REAL_DIGITS)?.number()?,
        (ValueRef::Float64(v), _) => AnyNumeric::of_float(v, DOUBLE_DIGITS)?.number()?,
        (value, from) if is_integer(from) => match value.as_i64() {
            Some(value) => number_of_decimal(i128::from(value), 0)?,
            None => return Err(no_cast(from, to)),
        },
        _ => return Err(no_cast(from, to)),
    };
    Ok(Value::Number(number))
}

fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt)
}

fn to_integer(value: ValueRef<'_>, from: ColumnType, to: ColumnType) -> Result<Value, SqlError> {
    match (value, from) {
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale, .. }) => {
            let whole = rescale(unscaled, scale, 0, u8::MAX).map_err(|_| out_of_range(to))?;
            narrow(whole, to)
        }
        (ValueRef::Number(number), _) => narrow(AnyNumeric::of(number).integer(&to.to_string())?, to),
        (ValueRef::Float32(v), _) => float_to_integer(f64::from(v), to),
        (ValueRef::Float64(v), _) => float_to_integer(v, to),
        (value, from) if is_integer(from) => match value.as_i64() {
            Some(value) => narrow(i128::from(value), to),
            None => Err(no_cast(from, to)),
        },
        _ => Err(no_cast(from, to)),
    }
}

fn float_to_integer(value: f64, to: ColumnType) -> Result<Value, SqlError> {
    let rounded = value.round_ties_even();
    if !rounded.is_finite() || rounded.abs() > 1e19 {
        return Err(out_of_range(to));
    }
    narrow(rounded as i128, to)
}

fn to_float(value: ValueRef<'_>, from: ColumnType, to: ColumnType) -> Result<Value, SqlError> {
    let wide = match (value, from) {
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale, .. }) => decimal_to_float(unscaled, scale),
        (ValueRef::Number(number), _) => AnyNumeric::of(number).double()?,
        (ValueRef::Float32(v), _) => f64::from(v),
        (ValueRef::Float64(v), _) => v,
        (value, from) if is_integer(from) => match value.as_i64() {
            Some(value) => value as f64,
            None => return Err(no_cast(from, to)),
        },
        _ => return Err(no_cast(from, to)),
    };
    if to == ColumnType::Double {
        return Ok(Value::Float64(wide));
    }
    real_of(wide).map(Value::Float32)
}

/// Powers of ten up to this one are floats without a loss.
const EXACT_POWER_MAX: i8 = 22;

/// The nearest float to a decimal: the one that its digits parse to.
pub(crate) fn decimal_to_float(unscaled: i128, scale: i8) -> f64 {
    // Both are floats without a loss, so the quotient is the nearest one.
    if unscaled.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS && (0..=EXACT_POWER_MAX).contains(&scale) {
        return unscaled as f64 / 10_f64.powi(i32::from(scale));
    }
    let mut text = String::new();
    super::numeric::format_decimal(unscaled, scale, &mut text);
    text.parse().unwrap_or(f64::NAN)
}

fn to_decimal(
    value: ValueRef<'_>,
    from: ColumnType,
    to: ColumnType,
    precision: u8,
    scale: i8,
) -> Result<Value, SqlError> {
    let exact = match (value, from) {
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale: old, .. }) => {
            rescale(unscaled, old, scale, precision)?
        }
        (ValueRef::Number(number), _) => AnyNumeric::of(number).decimal(precision, scale)?,
        (ValueRef::Float32(v), _) => float_to_decimal(f64::from(v), &v.to_string(), to, scale)?,
        (ValueRef::Float64(v), _) => float_to_decimal(v, &v.to_string(), to, scale)?,
        (value, from) if is_integer(from) => match value.as_i64() {
            Some(value) => rescale(i128::from(value), 0, scale, precision)?,
            None => return Err(no_cast(from, to)),
        },
        _ => return Err(no_cast(from, to)),
    };
    Ok(Value::Decimal(rescale(exact, scale, scale, precision)?))
}

fn float_to_decimal(value: f64, text: &str, to: ColumnType, scale: i8) -> Result<i128, SqlError> {
    if !value.is_finite() {
        return Err(SqlError::unsupported(format_args!("{value} as {to}")));
    }
    super::numeric::parse_decimal(text, scale).ok_or_else(|| out_of_range(to))
}

fn to_datetime(value: ValueRef<'_>, from: ColumnType, to: ColumnType, zone: Tz) -> Result<Value, SqlError> {
    let overflow = || SqlError::new(SqlState::DatetimeFieldOverflow, format!("{to} out of range"));
    if let Some(sign) = infinity_of(value, from) {
        return match to {
            ColumnType::Date => Ok(Value::Int32(if sign > 0 { i32::MAX } else { i32::MIN })),
            ColumnType::Time => Err(overflow()),
            _ => Ok(Value::Int64(if sign > 0 { i64::MAX } else { i64::MIN })),
        };
    }
    if let (ValueRef::Bytes(kept), ColumnType::TimeTz, ColumnType::Time) = (value, from, to) {
        return Ok(Value::Int64(zoned_time_of(kept).0));
    }
    if let (ValueRef::Interval(interval), ColumnType::Time) = (value, to) {
        // The days and months of an interval are no part of the time of a day.
        let micros = interval.nanoseconds / NANOS_PER_MICRO;
        return Ok(Value::Int64(micros.rem_euclid(MICROS_PER_DAY)));
    }
    let local = match (value, from) {
        (ValueRef::Int32(days), ColumnType::Date) => {
            i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(overflow)?
        }
        (ValueRef::Int64(micros), ColumnType::Timestamp) => micros,
        (ValueRef::Int64(micros), ColumnType::TimestampTz) => {
            utc_to_local(micros, zone).ok_or_else(overflow)?
        }
        _ => return Err(no_cast(from, to)),
    };
    let in_range = |micros: Option<i64>| {
        micros.filter(|&micros| is_timestamp(micros)).map(Value::Int64).ok_or_else(overflow)
    };
    match to {
        ColumnType::Date => {
            i32::try_from(local.div_euclid(MICROS_PER_DAY)).map(Value::Int32).map_err(|_| overflow())
        }
        ColumnType::Time => Ok(Value::Int64(local.rem_euclid(MICROS_PER_DAY))),
        ColumnType::Timestamp => in_range(Some(local)),
        _ => in_range(local_to_utc(local, zone)),
    }
}

/// A time of today, or the one of an instant, with the offset of the zone.
fn to_zoned_time(value: ValueRef<'_>, from: ColumnType, to: ColumnType, zone: Tz) -> Result<Value, SqlError> {
    let zoned = match (value, from) {
        // It is no time of a day.
        _ if infinity_of(value, from).is_some() => Some(Value::Null),
        (ValueRef::Int64(micros), ColumnType::Time) => zoned_today(micros, zone),
        (ValueRef::Int64(instant), ColumnType::TimestampTz) => zoned_at(instant, zone),
        _ => return Err(no_cast(from, to)),
    };
    zoned.ok_or_else(|| SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}

/// A time of the day as the time since midnight.
fn to_interval(value: ValueRef<'_>, from: ColumnType, to: ColumnType) -> Result<Value, SqlError> {
    match (value, from) {
        (ValueRef::Int64(micros), ColumnType::Time) => {
            Ok(Value::Interval(IntervalValue { months: 0, days: 0, nanoseconds: micros * NANOS_PER_MICRO }))
        }
        _ => Err(no_cast(from, to)),
    }
}

/// 1 or -1 for the date or timestamp that is infinity or minus infinity.
fn infinity_of(value: ValueRef<'_>, from: ColumnType) -> Option<i32> {
    match (value, from) {
        (ValueRef::Int32(i32::MAX), ColumnType::Date) => Some(1),
        (ValueRef::Int32(i32::MIN), ColumnType::Date) => Some(-1),
        (ValueRef::Int64(i64::MAX), ColumnType::Timestamp | ColumnType::TimestampTz) => Some(1),
        (ValueRef::Int64(i64::MIN), ColumnType::Timestamp | ColumnType::TimestampTz) => Some(-1),
        _ => None,
    }
}

/// The array as a column of type `to` takes it: the whole-column form of [`assign`].
///
/// # Errors
/// As [`assign`], for the first value that is refused.
pub(crate) fn assign_array(array: &ArrayRef, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    let wanted = to.arrow();
    let from_arrow = array.data_type();
    if *from_arrow == DataType::Null {
        return Ok(arrow::array::new_null_array(&wanted, array.len()));
    }
    let bounded = is_bounded(match to {
        ColumnType::Array(element) => element.column_type(),
        to => to,
    });
    if *from_arrow == wanted && !bounded {
        return Ok(with_one_nan(array));
    }
    if from_arrow.is_integer() && wanted.is_integer() {
        let numbers =
            cast_with_options(array, &wanted, &CastOptions { safe: true, ..CastOptions::default() })?;
        // One that does not fit has become NULL.
        return if numbers.null_count() == array.null_count() { Ok(numbers) } else { Err(out_of_range(to)) };
    }
    if is_lossless(from_arrow, &wanted) && (!bounded || all_short(array, to)) {
        let cast = cast_with_options(array, &wanted, &CastOptions { safe: false, ..CastOptions::default() })?;
        return Ok(with_one_nan(&cast));
    }
    assign_each(array, to, zone)
}

/// Whether not every text, or every bit string, that Arrow has for the type is one of its values.
fn is_bounded(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Varchar(_)
            | ColumnType::Char(_)
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Bit(Some(_))
            | ColumnType::Varbit(Some(_))
    )
}

/// Casts of Arrow that give what an assignment gives, or an error.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    if from == to {
        return true;
    }
    match (from, to) {
        (DataType::Utf8 | DataType::LargeUtf8, DataType::Utf8View)
        | (DataType::Timestamp(_, None), DataType::Timestamp(_, None))
        | (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => true,
        (from, to) if from.is_integer() && to.is_integer() => true,
        (from, DataType::Float64 | DataType::Float32) if from.is_integer() => true,
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from <= to,
        (from, DataType::Decimal128(_, _)) => from.is_integer(),
        _ => false,
    }
}

/// Whether no text can be longer than the column allows, judged by bytes, and none ends in a blank.
fn all_short(array: &ArrayRef, to: ColumnType) -> bool {
    let (ColumnType::Varchar(length) | ColumnType::Char(length)) = to else {
        return false;
    };
    let fits = |text: &str| {
        text.len() <= length as usize && (matches!(to, ColumnType::Varchar(_)) || !text.ends_with(' '))
    };
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().flatten().all(fits),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().flatten().all(fits),
        DataType::Utf8View => array.as_string_view().iter().flatten().all(fits),
        _ => false,
    }
}

fn assign_each(array: &ArrayRef, to: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    let Some(from) = column_type_of_arrow(array.data_type()) else {
        return Err(SqlError::unsupported(format_args!("a value of type {}", array.data_type())));
    };
    let plain =
        cast_with_options(array, &from.arrow(), &CastOptions { safe: false, ..CastOptions::default() })?;
    let mut builder = ColumnBuilder::new(to, plain.len());
    for index in 0..plain.len() {
        cancel::check()?;
        match (value_at(&plain, index), to) {
            (ValueRef::Text(text), ColumnType::Varchar(length)) => {
                builder.push(ValueRef::Text(fit_varchar(text, length)?));
            }
            (ValueRef::Text(text), ColumnType::Char(length)) => {
                builder.push(ValueRef::Text(fit_char(text, length)?))
            }
            (value, to) => builder.push(assign(value.to_owned(), from, to, zone)?.borrow()),
        }
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests;
