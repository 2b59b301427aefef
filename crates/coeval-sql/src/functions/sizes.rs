// SPDX-License-Identifier: Apache-2.0
//! Sizes as people write them: `pg_size_bytes('1.5 GB')`.

use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState, out_of_range};
use coeval_store::{ColumnType, Value};

/// The units in lower case, each with the power of two that it is.
const UNITS: [(&str, u32); 6] = [("bytes", 0), ("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40), ("pb", 50)];

/// Digits behind the point that are read. The others are less than a byte of the largest unit.
const FRACTION_DIGITS_MAX: usize = 18;

pub(super) const ENTRIES: &[Entry] = &[strict(
    "pg_size_bytes",
    &[Form::new(&[Takes::Type(ColumnType::Text)], ColumnType::BigInt, |call| {
        size_in_bytes(call.text(0)).map(Value::Int64)
    })],
)];

fn size_in_bytes(text: &str) -> Result<i64, SqlError> {
    let invalid = || SqlError::new(SqlState::InvalidParameterValue, format!("invalid size: \"{text}\""));
    let trimmed = text.trim();
    let (is_negative, unsigned) = match trimmed.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let (exponent, rest) = split_exponent(rest);
    let unit = rest.trim_start().to_ascii_lowercase();
    let power = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, power)) => *power,
        None if unit.is_empty() => 0,
        None => {
            let hint = "Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
            return Err(invalid().with_hint(hint));
        }
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let digits = format!("0{whole}{fraction}").parse::<i128>().ok();
    let scale = fraction.len() as i64 - i64::from(exponent);
    let bytes = digits.and_then(|digits| scaled(digits, scale, power));
    let signed = bytes.map(|bytes| if is_negative { -bytes } else { bytes });
    signed.and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(|| out_of_range("bigint out of range"))
}

/// The digits that a text begins with, and what follows them.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// The exponent that a text begins with, zero if it does not, and what follows it.
fn split_exponent(text: &str) -> (i32, &str) {
    let Some(behind) = text.strip_prefix(['e', 'E']) else { return (0, text) };
    let (sign, unsigned) = match behind.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, behind.strip_prefix('+').unwrap_or(behind)),
    };
    match split_digits(unsigned) {
        ("", _) => (0, text),
        (digits, rest) => (sign * digits.parse().unwrap_or(i32::MAX), rest),
    }
}

/// `digits` with so many of them behind the point, times a power of two, as a whole number; `None` if there is no room for it.
fn scaled(digits: i128, scale: i64, power: u32) -> Option<i128> {
    let number = digits.checked_mul(1_i128 << power)?;
    if number == 0 {
        return Some(0);
    }
    let factor = |places: i64| u32::try_from(places).ok().and_then(|places| 10_i128.checked_pow(places));
    if scale <= 0 {
        return number.checked_mul(factor(-scale)?);
    }
    // With more places than fit, nothing is left.
    factor(scale).map_or(Some(0), |factor| Some(number.checked_add(factor / 2)? / factor))
}
