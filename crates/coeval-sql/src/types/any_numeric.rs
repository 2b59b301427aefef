// SPDX-License-Identifier: Apache-2.0
//! `numeric` without digits: numbers of as many digits as they need, read from text and bytes, made of other numbers and computed with.
//!
//! Results have the digits behind the point that PostgreSQL's have: sums those of the operand that has more, products those of both
//! together, quotients and roots at least 16 significant ones.
//!
//! | file | |
//! |---|---|
//! | [`arithmetic`] | `+ - * / %`, rounding, roots, divisors |
//! | [`logarithms`] | `exp`, `ln`, `log`, powers |
//! | [`wire`] | the binary form of the protocol |

mod arithmetic;
mod logarithms;
mod wire;

pub(crate) use arithmetic::RoundingMode;
pub(in crate::types) use wire::{decode_wire, encode_wire};

use super::numeric::overflow;
use crate::error::{SqlError, SqlState, out_of_range};
use coeval_store::{AnyNumber, AnyNumberRef, NUMBER_SCALE_MAX, NUMBER_WHOLE_DIGITS_MAX, NumberClass};
use num_bigint::{BigInt, Sign};

/// A number that is computed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnyNumeric {
    /// No number.
    NaN,
    /// Below all numbers.
    NegativeInfinity,
    /// Above all numbers.
    Infinity,
    /// A number.
    Finite(Finite),
}

/// `units * 10^-scale`, shown with `scale` digits behind the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finite {
    pub(crate) units: BigInt,
    pub(crate) scale: u32,
}

/// 10 to this power.
pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

impl Finite {
    pub(crate) fn new(units: impl Into<BigInt>, scale: u32) -> Self {
        Self { units: units.into(), scale }
    }

    /// The number with so many digits behind the point, rounded half away from zero; a negative scale rounds digits in front of it.
    pub(crate) fn rounded(&self, scale: i64) -> Self {
        self.with_scale(scale, RoundingMode::HalfAwayFromZero)
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.units.sign() == Sign::NoSign
    }

    /// The number as rows have it.
    ///
    /// # Errors
    /// `22003` if it has more digits in front of the point than a `numeric` has.
    pub(crate) fn number(&self) -> Result<AnyNumber, SqlError> {
        if self.scale > u32::from(NUMBER_SCALE_MAX) {
            return self.rounded(i64::from(NUMBER_SCALE_MAX)).number();
        }
        let scale = u16::try_from(self.scale).map_err(|_| overflow())?;
        let (sign, mut digits) = if scale % 2 == 0 {
            self.units.to_radix_be(100)
        } else {
            (&self.units * 10_u32).to_radix_be(100)
        };
        let class = match sign {
            Sign::NoSign => return Ok(AnyNumber::zero(scale)),
            Sign::Minus => NumberClass::Negative,
            Sign::Plus => NumberClass::Positive,
        };
        let behind = usize::from(scale.div_ceil(2));
        let short = usize::from(digits.first().is_some_and(|&digit| digit < 10));
        if 2 * digits.len() > NUMBER_WHOLE_DIGITS_MAX + 2 * behind + short {
            return Err(overflow());
        }
        if digits.is_empty() {
            digits.push(0);
        }
        // Both are less than a million.
        let exponent = digits.len() as i32 - behind as i32;
        Ok(AnyNumber::finite(class, &digits, exponent, scale))
    }
}

impl AnyNumeric {
    /// The number that rows have.
    pub(crate) fn of(number: AnyNumberRef<'_>) -> Self {
        let sign = match number.class() {
            NumberClass::NaN => return Self::NaN,
            NumberClass::Infinity => return Self::Infinity,
            NumberClass::NegativeInfinity => return Self::NegativeInfinity,
            NumberClass::Negative => Sign::Minus,
            NumberClass::Zero | NumberClass::Positive => Sign::Plus,
        };
        let scale = u32::from(number.scale());
        let (digits, exponent) = number.digits();
        let units = BigInt::from_radix_be(sign, &digits, 100).unwrap_or_default();
        // What the last digit counts, in digits behind the point that is shown.
        let shift = 2 * (i64::from(exponent) - digits.len() as i64) + i64::from(scale);
        let factor = power_of_ten(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
        Self::Finite(Finite { units: if shift >= 0 { units * factor } else { units / factor }, scale })
    }

    /// The number as rows have it.
    ///
    /// # Errors
    /// `22003` if it has more digits than a `numeric` has.
    pub(crate) fn number(&self) -> Result<AnyNumber, SqlError> {
        match self {
            Self::NaN => Ok(AnyNumber::nan()),
            Self::Infinity => Ok(AnyNumber::infinity()),
            Self::NegativeInfinity => Ok(AnyNumber::negative_infinity()),
            Self::Finite(finite) => finite.number(),
        }
    }

    /// An integer.
    pub(crate) fn whole(value: impl Into<BigInt>) -> Self {
        Self::Finite(Finite::new(value, 0))
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::NegativeInfinity => true,
            Self::NaN | Self::Infinity => false,
            Self::Finite(finite) => finite.units.sign() == Sign::Minus,
        }
    }

    /// The nearest float.
    ///
    /// # Errors
    /// `22003` if it is too large for one.
    pub(crate) fn double(&self) -> Result<f64, SqlError> {
        let finite = match self {
            Self::NaN => return Ok(f64::NAN),
            Self::Infinity => return Ok(f64::INFINITY),
            Self::NegativeInfinity => return Ok(f64::NEG_INFINITY),
            Self::Finite(finite) => finite,
        };
        // By way of digits, so that it is the float that they are read as.
        let value: f64 = format!("{}e-{}", finite.units, finite.scale).parse().unwrap_or(f64::NAN);
        let is_lost = value.is_infinite() || (value == 0.0 && !finite.is_zero());
        if is_lost {
            let shown = finite.number()?;
            return Err(out_of_range(&format!("\"{shown}\" is out of range for type double precision")));
        }
        Ok(value)
    }

    /// The nearest integer.
    ///
    /// # Errors
    /// `0A000` for what is no number or infinite, `22003` for what is no integer of 128 bits, named as one of this type.
    pub(crate) fn integer(&self, ty: &str) -> Result<i128, SqlError> {
        let no_integer = |what: &str| {
            let message = format!("cannot convert {what} to {ty}");
            SqlError::new(SqlState::FeatureNotSupported, message)
        };
        match self {
            Self::NaN => Err(no_integer("NaN")),
            Self::Infinity | Self::NegativeInfinity => Err(no_integer("infinity")),
            Self::Finite(finite) => i128::try_from(&finite.rounded(0).units)
                .map_err(|_| out_of_range(&format!("{ty} out of range"))),
        }
    }

    /// The number without the point, at so many digits behind it, if a `numeric` of that precision and scale can be it.
    ///
    /// # Errors
    /// `22003` if it cannot.
    pub(crate) fn decimal(&self, precision: u8, scale: i8) -> Result<i128, SqlError> {
        let overflow = |detail: String| {
            SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(detail)
        };
        let finite = match self {
            Self::Finite(finite) => finite,
            Self::NaN => {
                let message = format!("cannot convert NaN to numeric({precision},{scale})");
                return Err(SqlError::new(SqlState::NumericValueOutOfRange, message)
                    .with_hint("A numeric without digits can be NaN."));
            }
            Self::Infinity | Self::NegativeInfinity => {
                return Err(overflow(format!(
                    "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                )));
            }
        };
        let limit = 10_i128.pow(u32::from(precision.min(38)));
        let units = i128::try_from(&finite.rounded(i64::from(scale)).units).ok();
        units.filter(|units| *units > -limit && *units < limit).ok_or_else(|| {
            let whole_digits = i32::from(precision) - i32::from(scale);
            let bound = if whole_digits == 0 { "1".to_owned() } else { format!("10^{whole_digits}") };
            overflow(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
            ))
        })
    }

    /// The number that a float's first digits spell: six of a `real`, fifteen of a `double precision`.
    pub(crate) fn of_float(value: f64, digits: usize) -> Result<Self, SqlError> {
        if value.is_nan() {
            return Ok(Self::NaN);
        }
        if value.is_infinite() {
            return Ok(if value > 0.0 { Self::Infinity } else { Self::NegativeInfinity });
        }
        let text = format!("{value:.*e}", digits - 1);
        let number = parse_number(&text)?;
        // What the format has filled up with zeros is not shown.
        Ok(Self::of(number.borrow().shortest().borrow()))
    }
}

/// The number of a decimal of at most 38 digits.
///
/// # Errors
/// Never: so many digits have room.
pub(crate) fn number_of_decimal(units: i128, scale: i8) -> Result<AnyNumber, SqlError> {
    Finite::new(units, u32::from(scale.max(0).unsigned_abs())).number()
}

/// `22P02`.
fn invalid(text: &str) -> SqlError {
    let message = format!("invalid input syntax for type numeric: \"{text}\"");
    SqlError::new(SqlState::InvalidTextRepresentation, message)
}

/// The number that a text stands for, with the digits behind the point that are written there.
///
/// # Errors
/// `22P02` for a text that is no number, `22003` for one with too many digits.
pub(crate) fn parse_number(text: &str) -> Result<AnyNumber, SqlError> {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C']);
    let (class, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (NumberClass::Negative, &trimmed[1..]),
        Some(b'+') => (NumberClass::Positive, &trimmed[1..]),
        _ => (NumberClass::Positive, trimmed),
    };
    let is_named = |name: &str| digits.eq_ignore_ascii_case(name);
    if is_named("infinity") || is_named("inf") {
        return Ok(if class == NumberClass::Negative {
            AnyNumber::negative_infinity()
        } else {
            AnyNumber::infinity()
        });
    }
    if trimmed.eq_ignore_ascii_case("nan") {
        return Ok(AnyNumber::nan());
    }
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent).ok_or_else(|| invalid(text))?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !are_digits(whole) || !are_digits(fraction) {
        return Err(invalid(text));
    }
    let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
    let scale = u16::try_from(scale).ok().filter(|scale| *scale <= NUMBER_SCALE_MAX).ok_or_else(overflow)?;
    let all = whole.bytes().chain(fraction.bytes());
    let mut all: Vec<u8> = all.map(|byte| byte - b'0').collect();
    let zeros = all.iter().take_while(|&&digit| digit == 0).count();
    if zeros == all.len() {
        return Ok(AnyNumber::zero(scale));
    }
    // How many of the digits are in front of the point; below zero there are zeros between it and them.
    let point = (whole.len() as i64).saturating_add(exponent);
    if point.saturating_sub(zeros as i64) > NUMBER_WHOLE_DIGITS_MAX as i64 {
        return Err(overflow());
    }
    let is_odd = point.rem_euclid(2) == 1;
    if is_odd {
        all.insert(0, 0);
    }
    let pairs: Vec<u8> = all.chunks(2).map(|pair| pair[0] * 10 + pair.get(1).copied().unwrap_or(0)).collect();
    let exponent = i32::try_from((point + i64::from(is_odd)).div_euclid(2)).map_err(|_| overflow())?;
    Ok(AnyNumber::finite(class, &pairs, exponent, scale))
}

/// The exponent of a number; one that is out of all range is taken for the end of the range.
fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let most = i64::from(i32::MAX);
    let value = digits.parse::<i64>().map_or(most, |value| value.min(most));
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests;
