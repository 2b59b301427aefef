// SPDX-License-Identifier: Apache-2.0
//! Values as PostgreSQL's binary format has them, and back: what drivers exchange, and COPY BINARY.
//!
//! All numbers are big-endian. Dates and timestamps count from 2000-01-01. A `numeric` is a list of digits of base
//! 10,000 with a weight; NaN and the infinities have a sign of their own and no place in a `numeric` with digits. In front of the bits of
//! a bit string is their number.

use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::{decode_wire, encode_wire};
use crate::types::bits::{decode_bits, encode_bits, fit_bits};
use crate::types::casts::CastContext;
use crate::types::datetime::{is_date, is_timestamp};
use crate::types::lists::{decode_list, encode_list};
use crate::types::numeric::{overflow as numeric_overflow, power_of_ten, rescale};
use crate::types::one_nan::{double_with_one_nan, real_with_one_nan};
use crate::types::text::{fit_char, fit_varchar, format_value, parse_value};
use crate::types::zoned_time::{WrongTime, decode_zoned_time, encode_zoned_time};
use chrono_tz::Tz;
use coeval_store::{ColumnType, IntervalValue, Value, ValueRef, kept_place, place_of};

/// The first byte of the binary form of `jsonb`.
const JSONB_VERSION: u8 = 1;
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const NANOS_PER_MICRO: i64 = 1_000;
const NUMERIC_BASE: i128 = 10_000;
/// Decimal digits in one digit of a numeric.
const NUMERIC_BASE_DIGITS: i32 = 4;
const NUMERIC_NEGATIVE: u16 = 0x4000;

/// `22008`: a date or time that there is not.
fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, format!("{what} out of range"))
}

/// Appends the value's bytes, without a length before them. NULL has none.
///
/// # Errors
/// `22008` for a date or timestamp that the format has no number for, which a computation may have come to; nothing
/// is appended then. `22003` for a number with more digits than the format counts, `54000` for a bit string of more bits.
///
/// # Panics
/// If the value is not of the type's physical kind.
pub fn encode_binary(value: ValueRef<'_>, ty: ColumnType, out: &mut Vec<u8>) -> Result<(), SqlError> {
    match (value, ty) {
        (ValueRef::Null, _) => {}
        (ValueRef::Int32(days), ColumnType::Date) => {
            // The ends of the scale stand for the infinities on both sides.
            let shifted = match days {
                i32::MAX | i32::MIN => days,
                _ => days.checked_sub(EPOCH_DAYS).ok_or_else(|| out_of_range("date"))?,
            };
            out.extend_from_slice(&shifted.to_be_bytes());
        }
        (ValueRef::Int64(micros), ColumnType::Timestamp | ColumnType::TimestampTz) => {
            let shifted = match micros {
                i64::MAX | i64::MIN => micros,
                _ => micros.checked_sub(EPOCH_MICROS).ok_or_else(|| out_of_range("timestamp"))?,
            };
            out.extend_from_slice(&shifted.to_be_bytes());
        }
        (ValueRef::Decimal(unscaled), ColumnType::Numeric { scale, .. }) => {
            encode_numeric(unscaled, scale, out);
        }
        (ValueRef::Number(number), _) => encode_wire(number, out)?,
        (ValueRef::Text(_), ColumnType::Char(_)) => {
            let mut padded = String::new();
            format_value(value, ty, Tz::UTC, &mut padded);
            out.extend_from_slice(padded.as_bytes());
        }
        (ValueRef::Text(text), ColumnType::Jsonb) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(text.as_bytes());
        }
        (ValueRef::Int64(kept), ColumnType::PgLsn) => {
            out.extend_from_slice(&place_of(kept).to_be_bytes());
        }
        (ValueRef::Int64(place), ColumnType::Enum(ty)) => {
            out.extend_from_slice(ty.def().label_at(place).unwrap_or_default().as_bytes());
        }
        (ValueRef::Boolean(v), _) => out.push(u8::from(v)),
        (ValueRef::Int16(v), _) => out.extend_from_slice(&v.to_be_bytes()),
        (ValueRef::Int32(v), _) => out.extend_from_slice(&v.to_be_bytes()),
        (ValueRef::Int64(v), _) => out.extend_from_slice(&v.to_be_bytes()),
        (ValueRef::Float32(v), _) => out.extend_from_slice(&v.to_be_bytes()),
        (ValueRef::Float64(v), _) => out.extend_from_slice(&v.to_be_bytes()),
        (ValueRef::Text(v), _) => out.extend_from_slice(v.as_bytes()),
        (ValueRef::Bytes(kept), ColumnType::Bit(_) | ColumnType::Varbit(_)) => encode_bits(kept, out)?,
        (ValueRef::Bytes(kept), ColumnType::TimeTz) => encode_zoned_time(kept, out),
        (ValueRef::Bytes(v), _) => out.extend_from_slice(v),
        (ValueRef::Interval(v), _) => {
            out.extend_from_slice(&(v.nanoseconds / NANOS_PER_MICRO).to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        (ValueRef::Uuid(v), _) => out.extend_from_slice(&v),
        (ValueRef::List(v), ColumnType::Array(element)) => encode_list(v, element, out)?,
        (ValueRef::List(_), _) => panic!("an array is of an array type"),
        (ValueRef::Decimal(_), _) => panic!("a decimal is of type numeric"),
    }
    Ok(())
}

fn encode_numeric(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let scale = i32::from(scale.max(0));
    // Whole groups of four digits on both sides of the point.
    let padding = (NUMERIC_BASE_DIGITS - scale % NUMERIC_BASE_DIGITS) % NUMERIC_BASE_DIGITS;
    let mut rest = unscaled.unsigned_abs();
    let mut digits = [0_u16; 16];
    let mut count = 0;
    let base = NUMERIC_BASE.unsigned_abs();
    let first_base = 10_u128.pow((NUMERIC_BASE_DIGITS - padding).unsigned_abs());
    if rest != 0 {
        // The last group holds fewer digits if the scale does not fill it.
        digits[0] = (rest % first_base) as u16 * 10_u16.pow(padding.unsigned_abs());
        rest /= first_base;
        count = 1;
        while rest != 0 {
            digits[count] = (rest % base) as u16;
            rest /= base;
            count += 1;
        }
    }
    let groups_behind = (scale + padding) / NUMERIC_BASE_DIGITS;
    let skipped = digits[..count].iter().take_while(|&&digit| digit == 0).count();
    let kept = &digits[skipped..count];
    let weight = if kept.is_empty() { 0 } else { count as i32 - 1 - groups_behind };
    let sign = if unscaled < 0 { NUMERIC_NEGATIVE } else { 0 };
    out.extend_from_slice(&(kept.len() as u16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    kept.iter().rev().for_each(|digit| out.extend_from_slice(&digit.to_be_bytes()));
}

/// `22P03`: bytes that are no value of the type.
fn wrong_format(ty: ColumnType) -> SqlError {
    let message = format!("incorrect binary data format for type {ty}");
    SqlError::new(SqlState::InvalidBinaryRepresentation, message)
}

fn fixed<const N: usize>(bytes: &[u8], ty: ColumnType) -> Result<[u8; N], SqlError> {
    bytes.try_into().map_err(|_| wrong_format(ty))
}

/// The value of this type that the bytes stand for.
///
/// # Errors
/// `22P03` for another number of bytes than the type has, `22021` for text that is not UTF-8, `22008` for a date or
/// timestamp that there is not, and what the type says of the value.
pub fn decode_binary(bytes: &[u8], ty: ColumnType) -> Result<Value, SqlError> {
    Ok(match ty {
        ColumnType::SmallInt => Value::Int16(i16::from_be_bytes(fixed(bytes, ty)?)),
        ColumnType::Int => Value::Int32(i32::from_be_bytes(fixed(bytes, ty)?)),
        ColumnType::BigInt => Value::Int64(i64::from_be_bytes(fixed(bytes, ty)?)),
        ColumnType::Real => Value::Float32(real_with_one_nan(f32::from_be_bytes(fixed(bytes, ty)?))),
        ColumnType::Double => Value::Float64(double_with_one_nan(f64::from_be_bytes(fixed(bytes, ty)?))),
        ColumnType::Numeric { precision, scale } => {
            Value::Decimal(rescale(decode_numeric(bytes, ty, scale)?, scale, scale, precision)?)
        }
        ColumnType::AnyNumeric => Value::Number(decode_wire(bytes).ok_or_else(|| wrong_format(ty))?),
        ColumnType::Boolean => match fixed::<1>(bytes, ty)? {
            [truth] => Value::Boolean(truth != 0),
        },
        ColumnType::Text => Value::from(utf8(bytes)?),
        // Its binary form is its text.
        ColumnType::Json => parse_value(utf8(bytes)?, ty, Tz::UTC)?,
        // Its text, behind the number of a version.
        ColumnType::Jsonb => match bytes.split_first() {
            Some((&JSONB_VERSION, text)) => parse_value(utf8(text)?, ty, Tz::UTC)?,
            _ => return Err(wrong_format(ty)),
        },
        ColumnType::Varchar(length) => Value::from(fit_varchar(utf8(bytes)?, length)?),
        ColumnType::Char(length) => Value::from(fit_char(utf8(bytes)?, length)?),
        ColumnType::Bytea => Value::Bytes(bytes.into()),
        ColumnType::Bit(_) | ColumnType::Varbit(_) => decode_bit_string(bytes, ty)?,
        ColumnType::Date => {
            let days = i32::from_be_bytes(fixed(bytes, ty)?);
            match days {
                i32::MAX | i32::MIN => Value::Int32(days),
                _ => {
                    let days = days.checked_add(EPOCH_DAYS).filter(|&days| is_date(days));
                    Value::Int32(days.ok_or_else(|| out_of_range("date"))?)
                }
            }
        }
        ColumnType::Time => {
            let micros = i64::from_be_bytes(fixed(bytes, ty)?);
            if !(0..=86_400_000_000).contains(&micros) {
                return Err(out_of_range("time"));
            }
            Value::Int64(micros)
        }
        ColumnType::TimeTz => decode_zone_of_time(bytes, ty)?,
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            let micros = i64::from_be_bytes(fixed(bytes, ty)?);
            match micros {
                i64::MAX | i64::MIN => Value::Int64(micros),
                _ => {
                    let micros = micros.checked_add(EPOCH_MICROS).filter(|&micros| is_timestamp(micros));
                    Value::Int64(micros.ok_or_else(|| out_of_range("timestamp"))?)
                }
            }
        }
        ColumnType::Interval => {
            let all = fixed::<16>(bytes, ty)?;
            let (micros, rest) = all.split_at(8);
            let (days, months) = rest.split_at(4);
            let micros = i64::from_be_bytes(fixed(micros, ty)?);
            let nanoseconds = micros
                .checked_mul(NANOS_PER_MICRO)
                .ok_or_else(|| SqlError::new(SqlState::IntervalFieldOverflow, "interval out of range"))?;
            let (days, months) =
                (i32::from_be_bytes(fixed(days, ty)?), i32::from_be_bytes(fixed(months, ty)?));
            Value::Interval(IntervalValue { months, days, nanoseconds })
        }
        ColumnType::Uuid => Value::Uuid(fixed(bytes, ty)?),
        ColumnType::PgLsn => Value::Int64(kept_place(u64::from_be_bytes(fixed(bytes, ty)?))),
        ColumnType::Enum(ty) => crate::types::parse_label(utf8(bytes)?, ty)?,
        ColumnType::Array(element) => decode_list(bytes, element)?,
    })
}

fn decode_zone_of_time(bytes: &[u8], ty: ColumnType) -> Result<Value, SqlError> {
    decode_zoned_time(bytes).map_err(|wrong| match wrong {
        WrongTime::Length => wrong_format(ty),
        WrongTime::Time => out_of_range("time"),
        WrongTime::Offset => {
            let message = "time zone displacement out of range";
            SqlError::new(SqlState::InvalidTimeZoneDisplacementValue, message)
        }
    })
}

fn decode_bit_string(bytes: &[u8], ty: ColumnType) -> Result<Value, SqlError> {
    let kept = decode_bits(bytes).ok_or_else(|| wrong_format(ty))?;
    Ok(Value::Bytes(fit_bits(kept, ty, CastContext::Assignment)?.into()))
}

/// Text as it came over the wire or in a file.
///
/// # Errors
/// `22021` if it is not UTF-8 or holds a zero byte, naming the bytes.
pub fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    let refused = |at: usize, length: usize| {
        let shown: Vec<String> = bytes[at..at + length].iter().map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
        SqlError::new(SqlState::CharacterNotInRepertoire, message)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let start = error.valid_up_to();
        refused(start, error.error_len().unwrap_or(bytes.len() - start).clamp(1, 4))
    })?;
    match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => Err(refused(at, 1)),
        None => Ok(text),
    }
}

/// The number at `scale` digits behind the point, rounded half away from zero: clients send more digits than any
/// column has, such as all those of a binary fraction.
fn decode_numeric(bytes: &[u8], ty: ColumnType, scale: i8) -> Result<i128, SqlError> {
    let wrong = || wrong_format(ty);
    let mut shorts = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let mut header = || shorts.next().ok_or_else(wrong);
    let (count, weight, sign, shown) = (header()?, header()?, header()?, header()?);
    if bytes.len() != 8 + usize::from(count) * 2 || shown > 0x3FFF {
        return Err(wrong());
    }
    match sign {
        0 | NUMERIC_NEGATIVE => {}
        0xC000 | 0xD000 | 0xF000 => {
            let what = if sign == 0xC000 { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to numeric");
            return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
        }
        _ => return Err(wrong()),
    }
    let mut value = 0_i128;
    // The power of ten that the digit at hand counts.
    let mut exponent = (i32::from(weight as i16) + 1) * NUMERIC_BASE_DIGITS;
    for digit in shorts {
        if i128::from(digit) >= NUMERIC_BASE {
            return Err(wrong());
        }
        exponent -= NUMERIC_BASE_DIGITS;
        // What lies behind the digits that the number says it has does not count.
        let (digit, _) = without_low_digits(digit, exponent + i32::from(shown));
        let place = exponent + i32::from(scale);
        let (kept, first_dropped) = without_low_digits(digit, place);
        let units = match u32::try_from(place) {
            Ok(place) => scaled_up(kept, place).ok_or_else(numeric_overflow)?,
            // Of the digit's last places none is left.
            Err(_) => {
                i128::from(kept) / 10_i128.pow(place.unsigned_abs().min(NUMERIC_BASE_DIGITS.unsigned_abs()))
            }
        };
        let rounding = i128::from(first_dropped >= 5);
        value = value.checked_add(units + rounding).ok_or_else(numeric_overflow)?;
    }
    Ok(if sign == NUMERIC_NEGATIVE { -value } else { value })
}

/// A digit of base 10,000 without its decimal digits behind the point, which lies `place` digits to the right of its
/// last one, and the first decimal digit that goes; that is 0 if none goes, or only digits behind it do.
fn without_low_digits(digit: u16, place: i32) -> (u16, u16) {
    const { assert!(NUMERIC_BASE_DIGITS == 4, "as many as the places below") };
    match place {
        0.. => (digit, 0),
        -4..0 => {
            let unit = 10_u16.pow(place.unsigned_abs());
            (digit - digit % unit, digit % unit / (unit / 10))
        }
        _ => (0, 0),
    }
}

/// `digit * 10^place`.
fn scaled_up(digit: u16, place: u32) -> Option<i128> {
    if digit == 0 { Some(0) } else { i128::from(digit).checked_mul(power_of_ten(place)?) }
}

#[cfg(test)]
mod tests;
