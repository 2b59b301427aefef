// SPDX-License-Identifier: Apache-2.0
//! Exact decimals: text, rounding, range.

use crate::error::{SqlError, SqlState};
use std::fmt::Write;

/// Ten to the power of `exponent`; `None` beyond 38.
pub(crate) fn power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
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
