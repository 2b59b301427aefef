// SPDX-License-Identifier: Apache-2.0
//! Values as text and back, as PostgreSQL's input and output functions do it.

use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::parse_number;
use crate::types::bits::{fit_bits, push_bits, read_bits};
use crate::types::casts::CastContext;
use crate::types::date_text::{Flaw, read_date, read_time, read_timestamp, read_zoned_time};
use crate::types::datetime::{format_date, format_time, format_timestamp};
use crate::types::interval_text::{format_interval, read_interval};
use crate::types::json::canonical;
use crate::types::lists::{format_list, parse_list};
use crate::types::numeric::{format_decimal, overflow, parse_decimal, rescale};
use crate::types::one_nan::double_with_one_nan;
use crate::types::zoned_time::{format_zoned_time, zoned_time};
use chrono_tz::Tz;
use coeval_store::log::Lsn;
use coeval_store::{ColumnType, EnumType, Value, ValueRef, kept_place, place_of};
use std::fmt::Write;

/// Appends a value of this type as PostgreSQL prints it; timestamps with time zone in `zone`. NULL appends
/// nothing.
pub fn format_value(value: ValueRef<'_>, ty: ColumnType, zone: Tz, out: &mut String) {
    match (value, ty) {
        (ValueRef::Null, _) => {}
        (ValueRef::Int32(days), ColumnType::Date) => format_date(days, out),
        (ValueRef::Int64(micros), ColumnType::Time) => format_time(micros, out),
        (ValueRef::Int64(micros), ColumnType::Timestamp) => format_timestamp(micros, None, out),
        (ValueRef::Int64(micros), ColumnType::TimestampTz) => format_timestamp(micros, Some(zone), out),
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale, .. }) => {
            format_decimal(unscaled, scale, out)
        }
        (ValueRef::Text(text), ColumnType::Char(length)) => {
            out.push_str(text);
            let missing = (length as usize).saturating_sub(text.chars().count());
            out.extend(std::iter::repeat_n(' ', missing));
        }
        (ValueRef::Int64(kept), ColumnType::PgLsn) => out.push_str(&Lsn::new(place_of(kept)).to_wal_text()),
        (ValueRef::Int64(place), ColumnType::Enum(ty)) => {
            out.push_str(ty.def().label_at(place).unwrap_or_default());
        }
        (ValueRef::Boolean(v), _) => out.push(if v { 't' } else { 'f' }),
        (ValueRef::Int16(v), _) => push(out, v),
        (ValueRef::Int32(v), _) => push(out, v),
        (ValueRef::Int64(v), _) => push(out, v),
        (ValueRef::Float32(v), _) => format_float(f64::from(v), &format!("{v:e}"), FLOAT_DIGITS, out),
        (ValueRef::Float64(v), _) => format_float(v, &format!("{v:e}"), DOUBLE_DIGITS, out),
        (ValueRef::Decimal(v), _) => push(out, v),
        (ValueRef::Number(v), _) => push(out, v),
        (ValueRef::Text(v), _) => out.push_str(v),
        (ValueRef::Bytes(kept), ColumnType::Bit(_) | ColumnType::Varbit(_)) => push_bits(kept, out),
        (ValueRef::Bytes(kept), ColumnType::TimeTz) => format_zoned_time(kept, out),
        (ValueRef::Bytes(v), _) => {
            out.push_str("\\x");
            push_hex(v, out);
        }
        (ValueRef::Interval(v), _) => format_interval(v, out),
        (ValueRef::Uuid(v), _) => push(out, uuid::Uuid::from_bytes(v)),
        (ValueRef::List(v), ColumnType::Array(element)) => format_list(v, element, zone, out),
        (ValueRef::List(_), _) => push(out, value),
    }
}

/// The same of a value of a type in whose texts the session's time zone has no part.
#[must_use]
pub fn text_without_zone(value: ValueRef<'_>, ty: ColumnType) -> String {
    let mut text = String::new();
    format_value(value, ty, Tz::UTC, &mut text);
    text
}

/// Two hexadecimal digits for each byte.
pub(crate) fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

/// From this power of ten on PostgreSQL writes `real` and `double precision` with an exponent.
const FLOAT_DIGITS: i32 = 6;
const DOUBLE_DIGITS: i32 = 15;
/// Below this power of ten, too.
const LEAST_EXPONENT: i32 = -4;

/// A float from Rust's shortest form with an exponent, `1.25e3`: written in full if it has no more digits in front of
/// the point than its type keeps.
fn format_float(value: f64, shortest: &str, digits_max: i32, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < LEAST_EXPONENT || exponent >= digits_max {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    out.push_str(sign);
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        let _ = write!(out, "0.{:0<zeros$}{digits}", "");
        return;
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    if digits.len() <= whole {
        let _ = write!(out, "{digits:0<whole$}");
    } else {
        let _ = write!(out, "{}.{}", &digits[..whole], &digits[whole..]);
    }
}

fn invalid(text: &str, ty: ColumnType) -> SqlError {
    let name = match ty {
        ColumnType::Numeric { .. } => "numeric".to_owned(),
        ColumnType::Varchar(_) => "character varying".to_owned(),
        ColumnType::Char(_) => "character".to_owned(),
        ColumnType::Time => "time".to_owned(),
        ColumnType::Timestamp => "timestamp".to_owned(),
        other => other.to_string(),
    };
    let message = format!("invalid input syntax for type {name}: \"{text}\"");
    let state = match ty {
        ColumnType::Date
        | ColumnType::Time
        | ColumnType::TimeTz
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Interval => SqlState::InvalidDatetimeFormat,
        ColumnType::Bytea if text.starts_with("\\x") => SqlState::InvalidParameterValue,
        _ => SqlState::InvalidTextRepresentation,
    };
    SqlError::new(state, message)
}

/// What is wrong with the text of a document, which may be long: it is not in the message. Both types are called `json` there.
fn no_json(error: &serde_json::Error) -> SqlError {
    let detail = match error.is_eof() {
        true => "The input string ended unexpectedly.".to_owned(),
        false => error.to_string(),
    };
    let message = "invalid input syntax for type json";
    SqlError::new(SqlState::InvalidTextRepresentation, message).with_detail(detail)
}

/// What is wrong with the text of a date, a time or an interval.
pub(crate) fn no_time(flaw: Flaw, text: &str, ty: ColumnType) -> SqlError {
    let (state, what) = match (flaw, ty) {
        (Flaw::Form, _) => return invalid(text, ty),
        (Flaw::Field, ColumnType::Interval) => {
            (SqlState::IntervalFieldOverflow, "interval field value out of range")
        }
        (Flaw::Field, _) => (SqlState::DatetimeFieldOverflow, "date/time field value out of range"),
        (Flaw::Offset, _) => {
            (SqlState::InvalidTimeZoneDisplacementValue, "time zone displacement out of range")
        }
        (Flaw::Zone, _) => (SqlState::InvalidParameterValue, "time zone not recognized"),
        (Flaw::Type, ColumnType::Date) => (SqlState::DatetimeFieldOverflow, "date out of range"),
        (Flaw::Type, ColumnType::Interval) => (SqlState::DatetimeFieldOverflow, "interval out of range"),
        (Flaw::Type, _) => (SqlState::DatetimeFieldOverflow, "timestamp out of range"),
    };
    SqlError::new(state, format!("{what}: \"{text}\""))
}

fn integer<T: std::str::FromStr + TryFrom<i128>>(text: &str, ty: ColumnType) -> Result<T, SqlError> {
    let trimmed = text.trim();
    if let Ok(value) = trimmed.parse::<T>() {
        return Ok(value);
    }
    match trimmed.parse::<i128>() {
        Ok(_) => Err(SqlError::new(
            SqlState::NumericValueOutOfRange,
            format!("value \"{text}\" is out of range for type {ty}"),
        )),
        Err(_) => Err(invalid(text, ty)),
    }
}

/// Hexadecimal digits in each half of a place in a log.
const PLACE_DIGITS_MAX: usize = 8;

/// The longest text of a number: it is read at one go.
const NUMBER_BYTES_MAX: usize = 1 << 20;

/// The value of this type that the text stands for; timestamps and times with a zone without an offset are local time of `zone`.
///
/// # Errors
/// `22P02`, `22007`, `22008` for text that is no such value, `22003` out of range, `22001` too long, `22026` of another length.
pub fn parse_value(text: &str, ty: ColumnType, zone: Tz) -> Result<Value, SqlError> {
    let bad = || invalid(text, ty);
    let no_time = |flaw| no_time(flaw, text, ty);
    Ok(match ty {
        ColumnType::Real | ColumnType::Double if text.len() > NUMBER_BYTES_MAX => {
            return Err(float_range(text, ty));
        }
        ColumnType::Numeric { .. } | ColumnType::AnyNumeric if text.len() > NUMBER_BYTES_MAX => {
            return Err(overflow());
        }
        ColumnType::SmallInt => Value::Int16(integer(text, ty)?),
        ColumnType::Int => Value::Int32(integer(text, ty)?),
        ColumnType::BigInt => Value::Int64(integer(text, ty)?),
        ColumnType::Real => {
            let value = float(text).ok_or_else(bad)?;
            let narrow = value as f32;
            if is_beyond(text, f64::from(narrow)) {
                return Err(float_range(text, ty));
            }
            Value::Float32(narrow)
        }
        ColumnType::Double => {
            let value = float(text).ok_or_else(bad)?;
            if is_beyond(text, value) {
                return Err(float_range(text, ty));
            }
            Value::Float64(value)
        }
        ColumnType::Numeric { precision, scale } => {
            let exact = parse_decimal(text, scale).ok_or_else(|| decimal_error(text, ty))?;
            Value::Decimal(rescale(exact, scale, scale, precision)?)
        }
        ColumnType::AnyNumeric => Value::Number(parse_number(text)?),
        ColumnType::Boolean => Value::Boolean(boolean(text).ok_or_else(bad)?),
        ColumnType::Text => Value::from(text),
        ColumnType::Varchar(length) => Value::from(fit_varchar(text, length)?),
        ColumnType::Char(length) => Value::from(fit_char(text, length)?),
        ColumnType::Bytea => Value::Bytes(bytes(text)?.ok_or_else(bad)?.into()),
        ColumnType::Bit(_) | ColumnType::Varbit(_) => {
            Value::Bytes(fit_bits(read_bits(text)?, ty, CastContext::Assignment)?.into())
        }
        ColumnType::Date => Value::Int32(read_date(text).map_err(no_time)?),
        ColumnType::Time => Value::Int64(read_time(text).map_err(no_time)?),
        ColumnType::TimeTz => {
            let (micros, west) = read_zoned_time(text, zone).map_err(no_time)?;
            zoned_time(micros, west)
        }
        ColumnType::Timestamp => Value::Int64(read_timestamp(text, None).map_err(no_time)?),
        ColumnType::TimestampTz => Value::Int64(read_timestamp(text, Some(zone)).map_err(no_time)?),
        ColumnType::Interval => Value::Interval(read_interval(text).map_err(no_time)?),
        ColumnType::Uuid => Value::Uuid(read_uuid(text).ok_or_else(bad)?),
        ColumnType::PgLsn => Value::Int64(kept_place(read_place(text).ok_or_else(bad)?.get())),
        ColumnType::Enum(ty) => parse_label(text, ty)?,
        ColumnType::Array(element) => parse_list(text, element, zone)?,
        ColumnType::Json => {
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| no_json(&error))?;
            Value::from(text)
        }
        ColumnType::Jsonb => {
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| no_json(&error))?;
            Value::from(canonical(text)?)
        }
    })
}

/// The bytes of a UUID, two hexadecimal digits each. A hyphen may stand behind each fourth digit, and braces around them all.
fn read_uuid(text: &str) -> Option<[u8; 16]> {
    let digits = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
    let mut rest = digits.as_bytes();
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().enumerate() {
        let (&[high, low], behind) = rest.split_first_chunk::<2>()?;
        *byte = digit(high)? << 4 | digit(low)?;
        let ends_fourth = place % 2 == 1 && behind.len() > 1;
        rest = if ends_fourth { behind.strip_prefix(b"-").unwrap_or(behind) } else { behind };
    }
    rest.is_empty().then_some(bytes)
}

/// A place in a log: two numbers of one to eight hexadecimal digits, and nothing else.
fn read_place(text: &str) -> Option<Lsn> {
    let is_half = |half: &str| {
        (1..=PLACE_DIGITS_MAX).contains(&half.len()) && half.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let (high, low) = text.split_once('/')?;
    if is_half(high) && is_half(low) { Lsn::from_wal_text(text) } else { None }
}

/// The place of a label.
///
/// # Errors
/// `22P02` if the type has no such label.
pub(crate) fn parse_label(text: &str, ty: EnumType) -> Result<Value, SqlError> {
    ty.place_of(text).map(Value::Int64).ok_or_else(|| {
        let message = format!("invalid input value for enum {ty}: \"{text}\"");
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    })
}

fn decimal_error(text: &str, ty: ColumnType) -> SqlError {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => {
            SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow")
                .with_detail(format!("The value {} does not fit {ty}.", text.trim()))
        }
        Ok(_) | Err(_) => invalid(text, ty),
    }
}

/// Whether a text spells a number that is too large or too small for what it was read as.
fn is_beyond(text: &str, value: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    (value.is_infinite() && mantissa.contains(|digit: char| digit.is_ascii_digit()))
        || (value == 0.0 && mantissa.contains(|digit: char| matches!(digit, '1'..='9')))
}

fn float_range(text: &str, ty: ColumnType) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("\"{text}\" is out of range for type {ty}"))
}

fn float(text: &str) -> Option<f64> {
    text.trim().parse().ok().map(double_with_one_nan)
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Some(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Text for `varchar(length)`: blanks beyond the length go, anything else beyond it is refused.
///
/// # Errors
/// `22001` if it is too long.
pub(crate) fn fit_varchar(text: &str, length: u32) -> Result<&str, SqlError> {
    match text.char_indices().nth(length as usize) {
        None => Ok(text),
        Some((end, _)) if text[end..].bytes().all(|byte| byte == b' ') => Ok(&text[..end]),
        Some(_) => Err(SqlError::new(
            SqlState::StringDataRightTruncation,
            format!("value too long for type character varying({length})"),
        )),
    }
}

/// Text for `char(length)`, as it is kept: without the blanks at its end, which do not count.
///
/// # Errors
/// `22001` if it is too long.
pub(crate) fn fit_char(text: &str, length: u32) -> Result<&str, SqlError> {
    let kept = text.trim_end_matches(' ');
    if kept.len() > length as usize && kept.chars().count() > length as usize {
        let message = format!("value too long for type character({length})");
        return Err(SqlError::new(SqlState::StringDataRightTruncation, message));
    }
    Ok(kept)
}

/// What of a text is read as bytes between two looks whether the statement is to end. Even, as two digits are a byte.
const BYTES_PIECE: usize = 1 << 18;

/// `\x0aff`, or PostgreSQL's older form with octal escapes; `None` if it is neither.
///
/// # Errors
/// The error of a statement that was told to end.
fn bytes(text: &str) -> Result<Option<Vec<u8>>, SqlError> {
    let Some(hex) = text.strip_prefix("\\x") else { return escaped_bytes(text.as_bytes()) };
    let mut digits = Vec::with_capacity(hex.len());
    for piece in hex.as_bytes().chunks(BYTES_PIECE) {
        cancel::check()?;
        digits.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
    }
    read_hex(&digits, cancel::check)
}

/// The bytes of two hexadecimal digits each; `None` if they are no such digits. It looks on its way whether it is to end.
///
/// # Errors
/// Those of `look`.
pub(crate) fn read_hex(
    digits: &[u8],
    look: impl Fn() -> Result<(), SqlError>,
) -> Result<Option<Vec<u8>>, SqlError> {
    let mut out = Vec::with_capacity(digits.len() / 2);
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    for piece in digits.chunks(BYTES_PIECE) {
        look()?;
        let (pairs, odd) = piece.as_chunks::<2>();
        for &[high, low] in pairs {
            let Some((high, low)) = digit(high).zip(digit(low)) else { return Ok(None) };
            out.push(high << 4 | low);
        }
        if !odd.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(out))
}

fn escaped_bytes(mut rest: &[u8]) -> Result<Option<Vec<u8>>, SqlError> {
    let mut out = Vec::with_capacity(rest.len());
    let mut next_look = 0;
    while let Some((&byte, tail)) = rest.split_first() {
        if out.len() >= next_look {
            cancel::check()?;
            next_look = out.len() + BYTES_PIECE;
        }
        let read;
        (read, rest) = match tail {
            _ if byte != b'\\' => (byte, tail),
            [b'\\', behind @ ..] => (b'\\', behind),
            [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', behind @ ..] => {
                ((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'), behind)
            }
            _ => return Ok(None),
        };
        out.push(read);
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests;
