// SPDX-License-Identifier: Apache-2.0
//! One field of text into one column: the common forms of common types read directly, all else by the type's
//! own input function.

use super::block::word_at;
use crate::error::{SqlError, SqlState};
use crate::types::parse_value;
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, NUMERIC_PRECISION_SHORT_MAX, ValueRef};
use std::ops::{Range, RangeInclusive};

/// Appends the value that the bytes stand for.
///
/// # Errors
/// 22021 if they are not UTF-8, and what the type's input answers.
#[inline]
pub(super) fn append(
    builder: &mut ColumnBuilder,
    ty: ColumnType,
    bytes: &[u8],
    zone: Tz,
) -> Result<(), SqlError> {
    let integer = || integer_at(bytes, 0..bytes.len());
    let quick = match ty {
        ColumnType::SmallInt => integer().and_then(|v| i16::try_from(v).ok()).map(ValueRef::Int16),
        ColumnType::Int => integer().and_then(|v| i32::try_from(v).ok()).map(ValueRef::Int32),
        ColumnType::BigInt => integer().map(ValueRef::Int64),
        ColumnType::Numeric { precision, scale } => decimal(bytes, precision, scale).map(ValueRef::Decimal),
        ColumnType::Date => date(bytes).map(ValueRef::Int32),
        _ => None,
    };
    if let Some(value) = quick {
        builder.push(value);
        return Ok(());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error))?;
    match ty {
        ColumnType::Text => builder.push(ValueRef::Text(text)),
        ColumnType::Varchar(length) if text.len() <= length as usize => builder.push(ValueRef::Text(text)),
        _ => builder.push(parse_value(text, ty, zone)?.borrow()),
    }
    Ok(())
}

/// 22021, naming the bytes as PostgreSQL does.
fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> SqlError {
    let start = error.valid_up_to();
    let length = error.error_len().unwrap_or(bytes.len() - start).clamp(1, 4);
    let shown: Vec<String> =
        bytes[start..start + length].iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(SqlState::CharacterNotInRepertoire, message)
}

/// Digits that always fit 64 bits.
const DIGITS_MAX: usize = 18;

fn split_sign(bytes: &[u8]) -> (i64, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (-1, rest),
        _ => (1, bytes),
    }
}

/// The number that plain digits are; `None` if there are none, too many or anything else.
#[inline]
fn digits(bytes: &[u8], start: i64) -> Option<i64> {
    bytes.iter().try_fold(start, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + i64::from(digit))
    })
}

/// The range of a column of integers.
pub(super) fn integer_range(ty: ColumnType) -> Option<RangeInclusive<i64>> {
    match ty {
        ColumnType::SmallInt => Some(i64::from(i16::MIN)..=i64::from(i16::MAX)),
        ColumnType::Int => Some(i64::from(i32::MIN)..=i64::from(i32::MAX)),
        ColumnType::BigInt => Some(i64::MIN..=i64::MAX),
        _ => None,
    }
}

/// The short integer in its plain form that stands at `place`, read eight digits at a time; `None` if there is no such.
#[inline]
pub(super) fn integer_at(bytes: &[u8], place: Range<usize>) -> Option<i64> {
    let is_negative = bytes.get(place.start) == Some(&b'-');
    let start = place.start + usize::from(is_negative);
    let length = place.end.checked_sub(start)?;
    let value = match length {
        1..=8 => match word_at(bytes, start) {
            Some(word) => first_digits(word, length)?,
            None => digits(&bytes[start..place.end], 0)?,
        },
        9..=DIGITS_MAX => {
            let low = first_digits(word_at(bytes, place.end - 8)?, 8)?;
            digits(&bytes[start..place.end - 8], 0)? * 100_000_000 + low
        }
        _ => return None,
    };
    Some(if is_negative { -value } else { value })
}

/// The number that the lowest `count` bytes of a word are, from 1 to 8, if they are digits: pairs, fours and all eight of
/// them are put together by one multiplication each.
#[inline]
fn first_digits(word: u64, count: usize) -> Option<i64> {
    const ZEROES: u64 = u64::from_ne_bytes([b'0'; 8]);
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    let shift = 64 - 8 * count as u32;
    // Zeroes before the number, which take the lower bytes.
    let word = (word << shift) | (ZEROES & !(u64::MAX << shift));
    let above_nine = (word.wrapping_add(0x0606_0606_0606_0606) & HIGH) >> 4;
    if (word & HIGH) | above_nine != 0x3333_3333_3333_3333 {
        return None;
    }
    let pairs = (word & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(10 * 256 + 1) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(100 * 65_536 + 1) >> 16;
    let eight = (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul(10_000 * (1 << 32) + 1) >> 32;
    i64::try_from(eight).ok()
}

/// A short decimal in its plain form, with no more digits behind the point than the column has.
#[inline]
fn decimal(bytes: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let scale = usize::try_from(scale).ok()?;
    let (sign, rest) = split_sign(bytes);
    let point = rest.iter().position(|&byte| byte == b'.').unwrap_or(rest.len());
    let (whole, fraction) = (&rest[..point], rest.get(point + 1..).unwrap_or_default());
    let fits = !whole.is_empty()
        && fraction.len() <= scale
        && whole.len() + scale <= usize::from(precision.min(NUMERIC_PRECISION_SHORT_MAX));
    if !fits {
        return None;
    }
    let value = digits(fraction, digits(whole, 0)?)?;
    let padded = (fraction.len()..scale).fold(value, |value, _| value * 10);
    Some(i128::from(padded * sign))
}

/// `YYYY-MM-DD` as days since 1970-01-01.
#[inline]
fn date(bytes: &[u8]) -> Option<i32> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = bytes else { return None };
    let year = digits(&[*y0, *y1, *y2, *y3], 0)?;
    let month = digits(&[*m0, *m1], 0)?;
    let day = digits(&[*d0, *d1], 0)?;
    // Whether the month has a 29th and later is the calendar's business.
    if year == 0 || !(1..=12).contains(&month) || !(1..=28).contains(&day) {
        return None;
    }
    // Days from civil: years start in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::{Value, value_at};

    const TYPES: [ColumnType; 6] = [
        ColumnType::SmallInt,
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::Numeric { precision: 15, scale: 2 },
        ColumnType::Numeric { precision: 30, scale: 5 },
        ColumnType::Date,
    ];

    #[test]
    fn the_quick_way_agrees_with_the_types_input_functions() {
        let texts = [
            "0",
            "-1",
            "42",
            "32767",
            "-32768",
            "2147483647",
            "-9223372036854775808",
            "99999999999999999",
            "1.5",
            "-0.25",
            "12.345",
            ".5",
            "5.",
            "1970-01-01",
            "2000-02-29",
            "1999-12-31",
            "2024-02-28",
            "0001-01-01",
            "2023-02-29",
            "2024-13-01",
            "",
            "-",
            "x",
            "1e3",
            " 7 ",
            "123456789012345.67",
            "+5",
        ];
        for ty in TYPES {
            for text in texts {
                let mut builder = ColumnBuilder::new(ty, 1);
                let quick = append(&mut builder, ty, text.as_bytes(), Tz::UTC).map(|()| {
                    let array = builder.finish();
                    value_at(array.as_ref(), 0).to_owned()
                });
                let slow: Result<Value, SqlError> = parse_value(text, ty, Tz::UTC);
                assert_eq!(quick, slow, "{text:?} as {ty}");
            }
        }
    }

    /// What the standard library makes of it, if it is plain and short.
    fn plain_integer(text: &str) -> Option<i64> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = !digits.starts_with('+') && digits.len() <= DIGITS_MAX;
        text.parse().ok().filter(|_| is_plain)
    }

    #[test]
    fn integers_at_a_place_are_those_of_their_bytes() {
        let texts = [
            "0",
            "7",
            "-1",
            "42",
            "123456",
            "-1234567",
            "12345678",
            "-12345678",
            "123456789",
            "1234567890123456",
            "-123456789012345678",
            "999999999999999999",
            "1234567890123456789",
            "",
            "-",
            "+1",
            "1 ",
            " 1",
            "12a4",
            "1234567:",
            "/2345678",
            "12345678a",
            "a23456789",
            "123456789012345678a",
            "--1",
        ];
        for text in texts {
            for behind in ["", "9", "\n0123456789"] {
                for before in ["", "98765432109,"] {
                    let all = format!("{before}{text}{behind}");
                    let place = before.len()..before.len() + text.len();
                    assert_eq!(integer_at(all.as_bytes(), place), plain_integer(text), "{all:?}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_named() {
        let mut builder = ColumnBuilder::new(ColumnType::Text, 1);
        let error = append(&mut builder, ColumnType::Text, b"a\xff", Tz::UTC).unwrap_err();
        assert_eq!(error.state, SqlState::CharacterNotInRepertoire);
        assert!(error.message.ends_with("0xff"), "{}", error.message);
    }
}
