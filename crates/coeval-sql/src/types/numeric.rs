// SPDX-License-Identifier: Apache-2.0
//! Exact decimals: text, rounding, range.

use crate::error::{SqlError, SqlState};
use arrow::datatypes::i256;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};
use std::fmt::Write;

/// Digits behind the point that a quotient has at least.
const QUOTIENT_SCALE_MIN: i8 = 16;

/// Digits of a quotient, as many as there are.
pub(crate) const QUOTIENT_PRECISION: u8 = 38;

/// 10^38: a `numeric` has at most 38 digits.
pub(crate) const DECIMAL_LIMIT: i128 = 10_i128.pow(38);

/// The scale of a quotient of decimals with these scales.
pub(crate) fn quotient_shape(dividend: i8, divisor: i8) -> i8 {
    dividend.max(divisor).max(QUOTIENT_SCALE_MIN)
}

/// Precision and scale of an integer or a `numeric` seen as a decimal.
pub(crate) fn decimal_shape(ty: ColumnType) -> Option<(i32, i32)> {
    match ty {
        ColumnType::SmallInt => Some((5, 0)),
        ColumnType::Int => Some((10, 0)),
        ColumnType::BigInt => Some((20, 0)),
        ColumnType::Numeric { precision, scale } => Some((i32::from(precision), i32::from(scale))),
        ColumnType::AnyNumeric
        | ColumnType::Real
        | ColumnType::Double
        | ColumnType::Boolean
        | ColumnType::Text
        | ColumnType::Varchar(_)
        | ColumnType::Char(_)
        | ColumnType::Bytea
        | ColumnType::Bit(_)
        | ColumnType::Varbit(_)
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::TimeTz
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Interval
        | ColumnType::Uuid
        | ColumnType::PgLsn
        | ColumnType::Json
        | ColumnType::Jsonb
        | ColumnType::Enum(_)
        | ColumnType::Array(_) => None,
    }
}

/// A `numeric` type of about this shape: never more than 38 digits.
pub(crate) fn of_digits(precision: i32, scale: i32) -> ColumnType {
    let most = i32::from(NUMERIC_PRECISION_MAX);
    ColumnType::Numeric { precision: precision.clamp(1, most) as u8, scale: scale.clamp(-most, most) as i8 }
}

/// `dividend * 10^shift / divisor`, rounded half away from zero, as PostgreSQL rounds `numeric`.
///
/// # Errors
/// `22012` for a divisor of zero, `22003` if the result has more than 38 digits.
#[inline]
pub(crate) fn divide(dividend: i128, divisor: i128, shift: i32) -> Result<i128, SqlError> {
    if divisor == 0 {
        return Err(crate::error::division_by_zero());
    }
    let factor = power_of_ten(shift.unsigned_abs());
    let quotient = match factor.and_then(|factor| dividend.checked_mul(factor)) {
        Some(scaled) => {
            let quotient = scaled / divisor;
            // To divide once more for what is left over would take as long again.
            let remainder = (scaled - quotient * divisor).unsigned_abs();
            let away = remainder >= divisor.unsigned_abs() - remainder;
            let sign = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
            if away { quotient + sign } else { quotient }
        }
        None => divide_wide(dividend, divisor, shift.unsigned_abs()).ok_or_else(overflow)?,
    };
    within_limit(quotient)
}

/// By what a dividend is multiplied in the place of `dividend * 10^shift / divisor`, as by five for half of ten times as much; `None` if it
/// is no whole number.
pub(crate) fn whole_factor(divisor: i128, shift: i32) -> Option<i128> {
    let factor = power_of_ten(shift.unsigned_abs())?;
    (factor.checked_rem(divisor)? == 0).then(|| factor / divisor)
}

/// `dividend * factor`, for such a factor.
///
/// # Errors
/// `22003` if the result has more than 38 digits.
#[inline]
pub(crate) fn multiply(dividend: i128, factor: i128) -> Result<i128, SqlError> {
    within_limit(dividend.checked_mul(factor).ok_or_else(overflow)?)
}

#[inline]
fn within_limit(value: i128) -> Result<i128, SqlError> {
    if value > -DECIMAL_LIMIT && value < DECIMAL_LIMIT { Ok(value) } else { Err(overflow()) }
}

fn divide_wide(dividend: i128, divisor: i128, shift: u32) -> Option<i128> {
    let factor = i256::from_i128(10).checked_pow(shift)?;
    let scaled = i256::from_i128(dividend).checked_mul(factor)?;
    let divisor = i256::from_i128(divisor);
    let quotient = scaled.checked_div(divisor)?;
    let remainder = scaled.checked_rem(divisor)?.wrapping_abs();
    let away = remainder >= divisor.wrapping_abs().wrapping_sub(remainder);
    let sign = if (scaled < i256::ZERO) == (divisor < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
    (if away { quotient.checked_add(sign)? } else { quotient }).to_i128()
}

/// `22003`.
#[cold]
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "value overflows numeric format")
}

/// The powers of ten that have 128 bits, from 1 on. To compute one takes longer than to divide by it.
pub(crate) static POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1; 39];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// Ten to the power of `exponent`; `None` beyond 38.
#[inline]
pub(crate) fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS_OF_TEN.get(exponent as usize).copied()
}

/// The decimal in this text at `scale` digits behind the point, rounded half away from zero; `None` if the
/// text is not a number or does not fit 38 digits.
pub(crate) fn parse_decimal(text: &str, scale: i8) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // How many of the mantissa's digits stand before the last one that is kept.
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let kept = point + i64::from(scale);
    let mut value: i128 = 0;
    let mut round_up = false;
    let mut count = 0_i64;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return None;
        }
        let digit = i128::from(byte - b'0');
        if count < kept {
            value = value.checked_mul(10)?.checked_add(digit)?;
        } else if count == kept {
            round_up = digit >= 5;
        }
        count += 1;
    }
    if count < kept && value != 0 {
        value = value.checked_mul(power_of_ten(u32::try_from(kept - count).ok()?)?)?;
    }
    if round_up {
        value = value.checked_add(1)?;
    }
    Some(if negative { -value } else { value })
}

/// The decimal as text, with exactly `scale` digits behind the point.
pub(crate) fn format_decimal(value: i128, scale: i8, out: &mut String) {
    let scale = usize::from(scale.max(0).unsigned_abs());
    let digits = value.unsigned_abs().to_string();
    if value < 0 {
        out.push('-');
    }
    if scale == 0 {
        out.push_str(&digits);
        return;
    }
    if digits.len() <= scale {
        // Writing to a String cannot fail.
        let _ = write!(out, "0.{digits:0>scale$}");
    } else {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let _ = write!(out, "{whole}.{fraction}");
    }
}

/// The decimal at another scale, rounded half away from zero, refused if it has more than `precision` digits.
///
/// # Errors
/// `22003` if it does not fit.
pub(crate) fn rescale(value: i128, from: i8, to: i8, precision: u8) -> Result<i128, SqlError> {
    let overflow = || {
        SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {to} must round to an absolute value less than 10^{}.",
            i32::from(precision) - i32::from(to)
        ))
    };
    let shift = i32::from(to) - i32::from(from);
    let scaled = if shift >= 0 {
        let factor = power_of_ten(shift.unsigned_abs());
        match factor.and_then(|factor| value.checked_mul(factor)) {
            Some(scaled) => scaled,
            None if value == 0 => 0,
            None => return Err(overflow()),
        }
    } else {
        match power_of_ten(shift.unsigned_abs()) {
            Some(divisor) => {
                let quotient = value / divisor;
                let remainder = (value % divisor).unsigned_abs();
                // `remainder * 2 >= divisor` without overflow.
                let away = remainder >= divisor.unsigned_abs() - remainder;
                if away { quotient + value.signum() } else { quotient }
            }
            None => 0,
        }
    };
    let limit = power_of_ten(u32::from(precision)).map_or(u128::MAX, i128::unsigned_abs);
    if scaled.unsigned_abs() >= limit { Err(overflow()) } else { Ok(scaled) }
}

#[cfg(test)]
mod tests;
