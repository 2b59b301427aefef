// SPDX-License-Identifier: Apache-2.0
//! Casts between types. The numeric ones are done here, without memory; text and dates go through
//! [`crate::types`].

use super::arithmetic::{as_f64, as_i64, as_i128, divide_rounded, numeric_overflow, out_of_range};
use super::datum::Datum;
use super::environment::Environment;
use super::promotion::{decimal_shape, is_float, is_integer, is_text, power_of_ten};
use crate::error::{SqlError, SqlState};
use crate::types::{self, CastContext, has_cast, real_of};
use coeval_store::{ColumnType, Value, ValueRef};

/// How one type becomes another. Built once, when the expression is compiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cast {
    /// Any integer to one of this type, refused if it does not fit.
    Integer(ColumnType),
    /// An integer or decimal to a decimal.
    Rescale { shift: Shift, limit: i128, precision: u8, scale: i8 },
    /// A decimal to an integer, rounded.
    DecimalToInteger { divisor: i128, ty: ColumnType },
    /// A decimal to a float.
    DecimalToFloat { scale: i8, ty: ColumnType },
    /// A float or integer to a float.
    Float(ColumnType),
    /// A float to an integer, rounded half to even.
    FloatToInteger(ColumnType),
    /// A float to a decimal by way of its 15 (or 6) digits.
    FloatToDecimal { digits: usize, limit: i128, precision: u8, scale: i8 },
    /// Text to `varchar(n)`.
    Length { characters: usize, excess: Excess },
    /// Text to `char(n)`, which is kept without trailing blanks.
    Blanks { characters: usize, excess: Excess },
    /// Drops trailing blanks, which do not count in comparisons with `char(n)`.
    TrimBlanks,
    /// A text, an integer or a bit string to a bit string, or a bit string to an integer.
    Bits { from: ColumnType, to: ColumnType, context: CastContext },
    /// Anything else: text, dates and times.
    General { from: ColumnType, to: ColumnType },
}

/// What a change of scale does to the unscaled number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Multiply(i128),
    Divide(i128),
}

/// What happens to text that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// An explicit cast cuts it off.
    Cut,
    /// An assignment refuses it, unless only blanks are too much.
    Refuse,
}

/// What is to be done to make a value of one type one of another.
pub(crate) enum CastPlan {
    /// Nothing: the values are the same.
    None,
    /// This conversion.
    Do(Cast),
    /// There is no such cast, or not here.
    Refused,
}

/// How to cast.
pub(crate) fn plan(from: ColumnType, to: ColumnType, context: CastContext) -> CastPlan {
    if from == to {
        return CastPlan::None;
    }
    if from == ColumnType::AnyNumeric || to == ColumnType::AnyNumeric {
        return general(from, to, context);
    }
    if from.is_bits() || to.is_bits() {
        return of_bits(from, to, context);
    }
    if let ColumnType::Numeric { precision, scale } = to {
        return to_numeric(from, precision, scale);
    }
    if is_integer(to) {
        return to_integer(from, to);
    }
    if is_float(to) {
        return to_float(from, to);
    }
    let excess = if context == CastContext::Explicit { Excess::Cut } else { Excess::Refuse };
    match (from, to) {
        (from, ColumnType::Text) if is_text(from) => CastPlan::None,
        (from, ColumnType::Varchar(length)) if is_text(from) => {
            if matches!(from, ColumnType::Varchar(shorter) | ColumnType::Char(shorter) if shorter <= length) {
                return CastPlan::None;
            }
            CastPlan::Do(Cast::Length { characters: length as usize, excess })
        }
        (from, ColumnType::Char(length)) if is_text(from) => {
            CastPlan::Do(Cast::Blanks { characters: length as usize, excess })
        }
        _ => general(from, to, context),
    }
}

fn general(from: ColumnType, to: ColumnType, context: CastContext) -> CastPlan {
    let is_done_here = match (from, to) {
        (ColumnType::Array(from), ColumnType::Array(to)) => {
            !matches!(plan(from.column_type(), to.column_type(), context), CastPlan::Refused)
        }
        // Whoever asks for it has the text cut off, which an assignment does not do.
        (_, ColumnType::Varchar(_) | ColumnType::Char(_)) => context != CastContext::Explicit,
        (from, ColumnType::Boolean) => is_text(from),
        // What a document says is read by a function of its own, as for all other numbers.
        (ColumnType::Jsonb, ColumnType::AnyNumeric) => false,
        _ => true,
    };
    if is_done_here && has_cast(from, to, context) {
        CastPlan::Do(Cast::General { from, to })
    } else {
        CastPlan::Refused
    }
}

/// Casts from and to bit strings. Their texts are written as those of other types.
fn of_bits(from: ColumnType, to: ColumnType, context: CastContext) -> CastPlan {
    if !has_cast(from, to, context) {
        return CastPlan::Refused;
    }
    match (from, to) {
        (from, to) if is_text(to) => general(from, to, context),
        (from, ColumnType::Bit(None) | ColumnType::Varbit(None)) if from.is_bits() => CastPlan::None,
        _ => CastPlan::Do(Cast::Bits { from, to, context }),
    }
}

fn to_numeric(from: ColumnType, precision: u8, scale: i8) -> CastPlan {
    let limit = power_of_ten(i32::from(precision)).expect("a numeric has at most 38 digits");
    if is_float(from) {
        let digits = if from == ColumnType::Real { 6 } else { 15 };
        return CastPlan::Do(Cast::FloatToDecimal { digits, limit, precision, scale });
    }
    let Some((from_precision, from_scale)) = decimal_shape(from) else {
        return CastPlan::Refused;
    };
    let shift = i32::from(scale) - from_scale;
    if shift == 0 && from_precision <= i32::from(precision) && matches!(from, ColumnType::Numeric { .. }) {
        return CastPlan::None;
    }
    let Some(factor) = power_of_ten(shift.abs()) else {
        return CastPlan::Refused;
    };
    let shift = if shift >= 0 { Shift::Multiply(factor) } else { Shift::Divide(factor) };
    CastPlan::Do(Cast::Rescale { shift, limit, precision, scale })
}

fn to_integer(from: ColumnType, to: ColumnType) -> CastPlan {
    match from {
        from if is_integer(from) => CastPlan::Do(Cast::Integer(to)),
        from if is_float(from) => CastPlan::Do(Cast::FloatToInteger(to)),
        ColumnType::Numeric { scale, .. } => match power_of_ten(i32::from(scale)) {
            Some(divisor) => CastPlan::Do(Cast::DecimalToInteger { divisor, ty: to }),
            None => CastPlan::Refused,
        },
        _ => CastPlan::Refused,
    }
}

fn to_float(from: ColumnType, to: ColumnType) -> CastPlan {
    match from {
        from if is_integer(from) || is_float(from) => CastPlan::Do(Cast::Float(to)),
        ColumnType::Numeric { scale, .. } => CastPlan::Do(Cast::DecimalToFloat { scale, ty: to }),
        _ => CastPlan::Refused,
    }
}

impl Cast {
    /// The value in its new type; the input is not NULL.
    ///
    /// # Errors
    /// If the value has no counterpart in the new type: `22003`, `22P02` and the like.
    #[inline]
    pub(crate) fn apply<'a>(
        &self,
        input: Datum<'a>,
        environment: &dyn Environment,
    ) -> Result<Datum<'a>, SqlError> {
        match *self {
            Self::Length { characters, excess } => {
                limit_length(input, characters, excess, "character varying")
            }
            Self::Blanks { characters, excess } => {
                limit_length(without_blanks(input), characters, excess, "character").map(without_blanks)
            }
            Self::TrimBlanks => Ok(without_blanks(input)),
            Self::Bits { from, to, context } => cast_bits(input, from, to, context),
            Self::General { from, to } => {
                types::assign(input.into_value(), from, to, environment.zone()).map(Datum::from)
            }
            _ => self.convert(input.value()).map(Datum::Borrowed),
        }
    }

    fn convert(&self, input: ValueRef<'_>) -> Result<ValueRef<'static>, SqlError> {
        match *self {
            Self::Integer(ty) => narrow(i128::from(as_i64(input)), ty),
            Self::Rescale { shift, limit, precision, scale } => {
                let value = match shift {
                    Shift::Multiply(factor) => {
                        as_i128(input).checked_mul(factor).ok_or_else(numeric_overflow)?
                    }
                    Shift::Divide(factor) => divide_rounded(as_i128(input), factor),
                };
                within(value, limit, precision, scale)
            }
            Self::DecimalToInteger { divisor, ty } => narrow(divide_rounded(as_i128(input), divisor), ty),
            Self::DecimalToFloat { scale, ty } => float(types::decimal_to_float(as_i128(input), scale), ty),
            Self::Float(ty) => float(as_f64(input), ty),
            Self::FloatToInteger(ty) => {
                let rounded = as_f64(input).round_ties_even();
                if rounded.is_finite() && rounded.abs() < 1e19 {
                    narrow(rounded as i128, ty)
                } else {
                    Err(out_of_range(integer_name(ty)))
                }
            }
            Self::FloatToDecimal { digits, limit, precision, scale } => {
                let value = decimal_of_float(as_f64(input), digits, scale)?;
                within(value, limit, precision, scale)
            }
            Self::Length { .. }
            | Self::Blanks { .. }
            | Self::TrimBlanks
            | Self::Bits { .. }
            | Self::General { .. } => {
                unreachable!("apply has dealt with the casts that are not numeric")
            }
        }
    }
}

fn integer_name(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::SmallInt => "smallint",
        ColumnType::Int => "integer",
        _ => "bigint",
    }
}

#[inline]
fn narrow(value: i128, ty: ColumnType) -> Result<ValueRef<'static>, SqlError> {
    let narrowed = match ty {
        ColumnType::SmallInt => i16::try_from(value).ok().map(ValueRef::Int16),
        ColumnType::Int => i32::try_from(value).ok().map(ValueRef::Int32),
        _ => i64::try_from(value).ok().map(ValueRef::Int64),
    };
    narrowed.ok_or_else(|| out_of_range(integer_name(ty)))
}

#[inline]
fn within(value: i128, limit: i128, precision: u8, scale: i8) -> Result<ValueRef<'static>, SqlError> {
    if value > -limit && value < limit {
        return Ok(ValueRef::Decimal(value));
    }
    let whole_digits = i32::from(precision) - i32::from(scale);
    let bound = if whole_digits == 0 { "1".to_owned() } else { format!("10^{whole_digits}") };
    Err(SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    )))
}

fn float(value: f64, ty: ColumnType) -> Result<ValueRef<'static>, SqlError> {
    if ty == ColumnType::Real { real_of(value).map(ValueRef::Float32) } else { Ok(ValueRef::Float64(value)) }
}

/// The decimal of this scale that the float's first digits spell.
fn decimal_of_float(value: f64, digits: usize, scale: i8) -> Result<i128, SqlError> {
    if !value.is_finite() {
        return Err(numeric_overflow());
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').expect("the format writes an exponent");
    let unscaled: i128 = mantissa.replace('.', "").parse().expect("the format writes digits");
    let exponent: i32 = exponent.parse().expect("the format writes a number");
    let shift = exponent - (digits as i32 - 1) + i32::from(scale);
    if shift >= 0 {
        power_of_ten(shift).and_then(|factor| unscaled.checked_mul(factor)).ok_or_else(numeric_overflow)
    } else {
        Ok(power_of_ten(-shift).map_or(0, |divisor| divide_rounded(unscaled, divisor)))
    }
}

/// A bit string of the type, or the integer that one is.
///
/// # Errors
/// `22026` and `22001` of another length where nobody asked for the cast, `22003` for more bits than the integer has, `22P02` for a
/// text that is no bit string.
fn cast_bits(
    input: Datum<'_>,
    from: ColumnType,
    to: ColumnType,
    context: CastContext,
) -> Result<Datum<'static>, SqlError> {
    let kept = match input.value() {
        ValueRef::Text(text) => types::read_bits(text)?,
        ValueRef::Bytes(kept) if is_integer(to) => {
            let value = types::integer_of_bits(kept, to)?;
            return narrow(i128::from(value), to).map(Datum::Borrowed);
        }
        ValueRef::Bytes(kept) => kept.to_vec(),
        value if is_integer(from) => types::bits_of_integer(as_i64(value), to),
        _ => return Err(SqlError::internal(format!("a cast from {from} to {to}"))),
    };
    Ok(Datum::from(Value::Bytes(types::fit_bits(kept, to, context)?.into())))
}

#[inline]
fn limit_length<'a>(
    input: Datum<'a>,
    characters: usize,
    excess: Excess,
    type_name: &str,
) -> Result<Datum<'a>, SqlError> {
    let value = input.value();
    let text = value.as_str().expect("the compiler limits only text");
    // A character takes at least one byte, so short enough in bytes is short enough.
    if text.len() <= characters {
        return Ok(input);
    }
    let Some((cut, _)) = text.char_indices().nth(characters) else {
        return Ok(input);
    };
    if excess == Excess::Refuse && text[cut..].chars().any(|symbol| symbol != ' ') {
        let message = format!("value too long for type {type_name}({characters})");
        return Err(SqlError::new(SqlState::StringDataRightTruncation, message));
    }
    Ok(Datum::Text(text[..cut].into()))
}

#[inline]
fn without_blanks(input: Datum<'_>) -> Datum<'_> {
    match input {
        Datum::Borrowed(ValueRef::Text(text)) => Datum::Borrowed(ValueRef::Text(text.trim_end_matches(' '))),
        Datum::Text(text) if text.ends_with(' ') => Datum::Text(text.trim_end_matches(' ').into()),
        other => other,
    }
}
