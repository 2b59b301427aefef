// SPDX-License-Identifier: Apache-2.0
//! Literals: numbers take the smallest type that holds them, text waits for its place to give it one.

use super::arithmetic::numeric_overflow;
use super::promotion::{numeric, power_of_ten};
use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::parse_number;
use coeval_store::{ColumnType, Value};

/// A number as it stands in a statement. A minus sign before it belongs to it, or the least integer could not be
/// written.
///
/// # Errors
/// `22003` for more digits than any number has.
pub(crate) fn number(text: &str) -> Result<(Value, ColumnType), SqlError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if let Ok(value) = text.parse::<i32>() {
            return Ok((Value::Int32(value), ColumnType::Int));
        }
        if let Ok(value) = text.parse::<i64>() {
            return Ok((Value::Int64(value), ColumnType::BigInt));
        }
    }
    match (decimal(text), text.parse::<f64>()) {
        // With an exponent it is meant for a float, if no `numeric` holds it.
        (Err(_), Ok(float)) if float.is_finite() && text.contains(['e', 'E']) => {
            Ok((Value::Float64(float), ColumnType::Double))
        }
        // Of more digits than a `numeric` with digits has.
        (Err(_), _) => Ok((Value::Number(parse_number(text)?), ColumnType::AnyNumeric)),
        (exact, _) => exact,
    }
}

/// A decimal with the scale it is written with, an exponent worked in.
///
/// # Errors
/// `22P02` if the text is no number, `22003` for more than 38 digits.
pub(crate) fn decimal(text: &str) -> Result<(Value, ColumnType), SqlError> {
    let invalid = || {
        let message = format!("invalid input syntax for type numeric: \"{text}\"");
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    };
    let trimmed = text.trim();
    let (mantissa, exponent) = match trimmed.find(['e', 'E']) {
        Some(at) => (&trimmed[..at], trimmed[at + 1..].parse::<i32>().map_err(|_| invalid())?),
        None => (trimmed, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    let significant = all.trim_start_matches('0');
    let unscaled: i128 =
        if significant.is_empty() { 0 } else { significant.parse().map_err(|_| numeric_overflow())? };
    let written_scale = i32::try_from(fraction.len()).map_err(|_| numeric_overflow())?;
    let scale = written_scale.checked_sub(exponent).ok_or_else(numeric_overflow)?;
    let (unscaled, scale) = if scale < 0 {
        let factor = power_of_ten(-scale).ok_or_else(numeric_overflow)?;
        (unscaled.checked_mul(factor).ok_or_else(numeric_overflow)?, 0)
    } else {
        (unscaled, scale)
    };
    let digit_count = unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log as i32 + 1);
    if digit_count > 38 || scale > 38 {
        return Err(numeric_overflow());
    }
    let signed = if negative { -unscaled } else { unscaled };
    Ok((Value::Decimal(signed), numeric(digit_count.max(scale), scale)))
}
