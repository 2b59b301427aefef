// SPDX-License-Identifier: Apache-2.0
//! `exp`, `ln`, `log` and powers of numbers of any number of digits, with as many digits behind the point as PostgreSQL gives them.
//!
//! They are computed with integers that count units of `10^-digits`, with some digits more than the result has.
//!
//! - `ln(x)`: `x` is `m * 10^k` with `m` between 1 and 10; the root is taken of `m` a few times, so that it is near 1, and what is left is
//!   `2 * (y + y^3/3 + y^5/5 ...)` with `y = (m - 1) / (m + 1)`.
//! - `exp(x)`: `x` is `k * ln(10) + r`; the series of `exp(r / 2^8)` is squared eight times.
//! - `x^n` of a whole `n` by squaring, of another one `exp(n * ln(x))`.

use super::super::numeric::overflow;
use super::arithmetic::{RoundingMode, SIGNIFICANT_DIGITS_MIN, result_scale};
use super::{AnyNumeric, Finite, power_of_ten};
use crate::cancel;
use crate::error::{SqlError, SqlState, division_by_zero};
use coeval_store::NUMBER_WHOLE_DIGITS_MAX;
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Digits that are computed beside those of the result.
const GUARD_DIGITS: u32 = 20;
/// How often the root is taken of what a logarithm is computed of.
const ROOTS: u32 = 4;
/// How often the power of a small part of an exponent is squared.
const SQUARES: u32 = 8;
/// `log10(e)`.
const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// Arguments of `exp` from here on give a number that is too large, or zero.
const EXPONENT_MAX: f64 = 6_000.0;

/// `2201E`, `2201F`.
fn undefined(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

/// The product of two numbers in units of `10^-digits`.
fn times(left: &BigInt, right: &BigInt, one: &BigInt) -> BigInt {
    left * right / one
}

/// How many digits of a number are in front of the point; zeros behind it count as less than none.
fn whole_digits(number: &Finite) -> i64 {
    number.units.magnitude().to_string().len() as i64 - i64::from(number.scale)
}

/// The natural logarithm of a number above zero, in units of `10^-digits`.
///
/// # Errors
/// That of a cancelled statement: many digits take long.
fn ln_in_units(number: &Finite, digits: u32) -> Result<BigInt, SqlError> {
    let power = whole_digits(number) - 1;
    let one = power_of_ten(digits);
    // The number as one between 1 and 10.
    let shift = i64::from(digits) - i64::from(number.scale) - power;
    let factor = power_of_ten(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
    let mantissa = if shift >= 0 { &number.units * factor } else { &number.units / factor };
    let of_mantissa = ln_near_one(mantissa, &one)?;
    if power == 0 {
        return Ok(of_mantissa);
    }
    Ok(of_mantissa + ln_near_one(&one * 10_u32, &one)? * power)
}

/// The natural logarithm of a number between 1 and 10, both in units of `1 / one`.
///
/// # Errors
/// That of a cancelled statement.
fn ln_near_one(number: BigInt, one: &BigInt) -> Result<BigInt, SqlError> {
    let near = (0..ROOTS).fold(number, |number, _| (number * one).sqrt());
    let share = (&near - one) * one / (&near + one);
    let square = times(&share, &share, one);
    let (mut power, mut sum, mut place) = (share.clone(), share, 1_u32);
    loop {
        cancel::check()?;
        power = times(&power, &square, one);
        place += 2;
        let part = &power / place;
        if part.sign() == Sign::NoSign {
            break;
        }
        sum += part;
    }
    Ok(sum * 2_u32 * (1_u32 << ROOTS))
}

/// `exp(number)` with so many digits behind the point, of a number of moderate size in units of `10^-digits`.
///
/// # Errors
/// That of a cancelled statement.
fn exp_of_units(number: &BigInt, digits: u32, scale: u32) -> Result<Finite, SqlError> {
    let one = power_of_ten(digits);
    let ln_ten = ln_near_one(&one * 10_u32, &one)?;
    let power = number / &ln_ten;
    let rest = (number - &power * &ln_ten) / (1_u32 << SQUARES);
    let (mut part, mut sum, mut place) = (one.clone(), one.clone(), 0_u32);
    loop {
        cancel::check()?;
        place += 1;
        part = times(&part, &rest, &one) / place;
        if part.sign() == Sign::NoSign {
            break;
        }
        sum += &part;
    }
    let result = (0..SQUARES).fold(sum, |sum, _| times(&sum, &sum, &one));
    let power = i64::try_from(&power).unwrap_or(0);
    let exact = Finite::new(result, digits);
    if power >= 0 {
        let larger = exact.units * power_of_ten(u32::try_from(power).unwrap_or(0));
        return Ok(Finite::new(larger, digits).rounded(i64::from(scale)));
    }
    let smaller = u32::try_from(-power).unwrap_or(0);
    Ok(Finite { units: exact.units, scale: digits + smaller }.rounded(i64::from(scale)))
}

/// The number in units of `10^-digits`.
fn in_units(number: &Finite, digits: u32) -> BigInt {
    number.with_scale(i64::from(digits), RoundingMode::HalfAwayFromZero).units
}

/// `floor(log10(|ln(x)|))`, nearly: what says how many digits a logarithm has.
fn weight_of_ln(number: &Finite) -> i64 {
    let (low, high) = (Finite::new(9, 1), Finite::new(11, 1));
    let is_near_one = number.compared(&low) != Ordering::Less && number.compared(&high) != Ordering::Greater;
    if is_near_one {
        let scale = i64::from(number.scale);
        let distance = Finite { units: &number.units - power_of_ten(number.scale), scale: number.scale };
        if distance.is_zero() {
            return 0;
        }
        // PostgreSQL looks at its first digit of base 10,000.
        return distance.units.magnitude().to_string().len() as i64 - scale - 1;
    }
    approximate_ln(number).abs().log10() as i64
}

/// A float near the natural logarithm of a number's magnitude, which is not zero, however large or small that is.
fn approximate_ln(number: &Finite) -> f64 {
    let digits = number.units.magnitude().to_string();
    let first: f64 = digits[..digits.len().min(17)].parse().unwrap_or(1.0);
    let rest = digits.len() as f64 - digits.len().min(17) as f64 - f64::from(number.scale);
    first.ln() + rest * std::f64::consts::LN_10
}

/// A float near the natural logarithm of a power, of a base above zero that is not one.
fn approximate_ln_of_power(base: &Finite, power: &Finite) -> f64 {
    let distance = Finite { units: &base.units - power_of_ten(base.scale), scale: base.scale };
    if whole_digits(&distance) > -3 {
        return approximate_ln(base) * approximate(power);
    }
    // Near one the float of the logarithm would be nothing but its error, which a large power makes large. There it is nearly
    // `d - d^2 / 2 + d^3 / 3`, of a distance `d` that may be less than all floats.
    let small = approximate(&distance);
    let product = (approximate_ln(&distance) + approximate_ln(power)).exp();
    let magnitude = product * (1.0 - small / 2.0 + small * small / 3.0);
    let is_negative = (distance.units.sign() == Sign::Minus) != (power.units.sign() == Sign::Minus);
    if is_negative { -magnitude } else { magnitude }
}

/// A float near a number, infinite if it is too large.
fn approximate(number: &Finite) -> f64 {
    format!("{}e-{}", number.units, number.scale).parse().unwrap_or(f64::NAN)
}

/// Digits of an approximate weight that are not negative.
fn extra_digits(weight: f64) -> u32 {
    weight.abs().ceil() as u32
}

impl Finite {
    /// The number itself, if it has a logarithm.
    ///
    /// # Errors
    /// `2201E`.
    fn with_logarithm(&self) -> Result<&Self, SqlError> {
        let message = match self.units.sign() {
            Sign::Plus => return Ok(self),
            Sign::NoSign => "cannot take logarithm of zero",
            Sign::Minus => "cannot take logarithm of a negative number",
        };
        Err(undefined(SqlState::InvalidArgumentForLogarithm, message))
    }

    /// The number to the power of a whole number, with so many digits behind the point.
    ///
    /// # Errors
    /// `22003` if it has too many digits, or that of a cancelled statement.
    fn to_whole_power(&self, exponent: i64, scale: u32) -> Result<Self, SqlError> {
        if exponent == 0 {
            return Ok(Self { units: power_of_ten(scale), scale });
        }
        if self.is_zero() {
            return Ok(Self::new(0, scale));
        }
        let weight = approximate_ln(self) * LOG10_E * exponent as f64;
        if weight > NUMBER_WHOLE_DIGITS_MAX as f64 {
            return Err(overflow());
        }
        if weight < -(f64::from(scale) + 1.0) {
            return Ok(Self::new(0, scale));
        }
        let steps = exponent.unsigned_abs();
        let kept = extra_digits(weight.max(0.0)) + scale + GUARD_DIGITS + steps.ilog10();
        let mut power = Float::of(self, kept);
        let mut result = Float { units: BigInt::from(1), exponent: 0 };
        let mut rest = steps;
        loop {
            cancel::check()?;
            if rest % 2 == 1 {
                result = result.product(&power, kept);
            }
            rest /= 2;
            if rest == 0 {
                break;
            }
            power = power.product(&power, kept);
        }
        if exponent > 0 {
            return Ok(result.rounded(scale));
        }
        // As many digits of the reciprocal as of the power.
        let dividend = power_of_ten(kept + Float::digits(&result.units));
        let exponent = -result.exponent - i64::from(kept + Float::digits(&result.units));
        Ok(Float { units: dividend / result.units, exponent }.rounded(scale))
    }
}

/// `units * 10^exponent`, of a bounded number of digits.
struct Float {
    units: BigInt,
    exponent: i64,
}

impl Float {
    fn digits(units: &BigInt) -> u32 {
        u32::try_from(units.magnitude().to_string().len()).unwrap_or(u32::MAX)
    }

    fn of(number: &Finite, kept: u32) -> Self {
        Self { units: number.units.clone(), exponent: -i64::from(number.scale) }.shortened(kept)
    }

    fn shortened(self, kept: u32) -> Self {
        // Three digits take ten bits, so that digits are counted only where there may be too many.
        if self.units.bits() <= u64::from(kept) * 10 / 3 {
            return self;
        }
        let dropped = Self::digits(&self.units).saturating_sub(kept);
        if dropped == 0 {
            return self;
        }
        Self { units: self.units / power_of_ten(dropped), exponent: self.exponent + i64::from(dropped) }
    }

    fn product(&self, other: &Self, kept: u32) -> Self {
        let all = Self { units: &self.units * &other.units, exponent: self.exponent + other.exponent };
        all.shortened(kept)
    }

    fn rounded(self, scale: u32) -> Finite {
        if self.exponent >= 0 {
            let units = self.units * power_of_ten(u32::try_from(self.exponent).unwrap_or(0));
            return Finite::new(units, 0).rounded(i64::from(scale));
        }
        Finite { units: self.units, scale: u32::try_from(-self.exponent).unwrap_or(u32::MAX) }
            .rounded(i64::from(scale))
    }
}

/// The whole number that a number is, if it is one of 32 bits.
fn as_whole(number: &Finite) -> Option<i64> {
    let rounded = number.rounded(0);
    (rounded.compared(number) == Ordering::Equal).then_some(())?;
    i32::try_from(&rounded.units).ok().map(i64::from)
}

/// Whether a number is whole.
fn is_whole(number: &Finite) -> bool {
    number.rounded(0).compared(number) == Ordering::Equal
}

/// Whether a whole number is odd.
fn is_odd(number: &Finite) -> bool {
    number.rounded(0).units.bit(0)
}

impl AnyNumeric {
    /// `e` to the power of the number.
    ///
    /// # Errors
    /// `22003` if it has too many digits.
    pub(crate) fn exp(&self) -> Result<Self, SqlError> {
        let number = match self {
            Self::NaN | Self::Infinity => return Ok(self.clone()),
            Self::NegativeInfinity => return Ok(Self::whole(0)),
            Self::Finite(number) => number,
        };
        let value = approximate(number);
        let weight = value.clamp(-EXPONENT_MAX, EXPONENT_MAX) * LOG10_E;
        let scale =
            result_scale(SIGNIFICANT_DIGITS_MIN - weight.clamp(-2_000.0, 2_000.0) as i64, &[number.scale]);
        if value.abs() >= EXPONENT_MAX {
            return if value > 0.0 { Err(overflow()) } else { Ok(Self::Finite(Finite::new(0, scale))) };
        }
        let digits = scale + GUARD_DIGITS + extra_digits(weight);
        Ok(Self::Finite(exp_of_units(&in_units(number, digits), digits, scale)?))
    }

    /// The natural logarithm.
    ///
    /// # Errors
    /// `2201E` of zero and of a negative number.
    pub(crate) fn ln(&self) -> Result<Self, SqlError> {
        let number = match self {
            Self::NaN | Self::Infinity => return Ok(self.clone()),
            Self::NegativeInfinity => return Finite::new(-1, 0).with_logarithm().map(|_| Self::NaN),
            Self::Finite(number) => number.with_logarithm()?,
        };
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight_of_ln(number), &[number.scale]);
        let digits = scale + GUARD_DIGITS;
        let units = ln_in_units(number, digits)?;
        Ok(Self::Finite(Finite { units, scale: digits }.rounded(i64::from(scale))))
    }

    /// The logarithm of a number to this base.
    ///
    /// # Errors
    /// `2201E` of zero and of negative numbers, `22012` of the base 1.
    pub(crate) fn log(&self, number: &Self) -> Result<Self, SqlError> {
        if matches!(self, Self::NaN) || matches!(number, Self::NaN) {
            return Ok(Self::NaN);
        }
        if self.is_negative() || number.is_negative() {
            return Finite::new(-1, 0).with_logarithm().map(|_| Self::NaN);
        }
        let (base, number) = match (self, number) {
            (Self::Finite(base), Self::Finite(number)) => (base.with_logarithm()?, number.with_logarithm()?),
            // Of two infinities there is none.
            (Self::Finite(base), _) => return base.with_logarithm().map(|_| Self::Infinity),
            (_, Self::Finite(number)) => return number.with_logarithm().map(|_| Self::whole(0)),
            _ => return Ok(Self::NaN),
        };
        let (of_base, of_number) = (weight_of_ln(base), weight_of_ln(number));
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - (of_number - of_base), &[base.scale, number.scale]);
        let weights = of_base.unsigned_abs().max(of_number.unsigned_abs());
        let digits = scale + GUARD_DIGITS + 2 * u32::try_from(weights).unwrap_or(0);
        let (dividend, divisor) = (ln_in_units(number, digits)?, ln_in_units(base, digits)?);
        if divisor.sign() == Sign::NoSign {
            return Err(division_by_zero());
        }
        let quotient = Finite::new(dividend, 0).quotient(
            &Finite::new(divisor, 0),
            scale,
            RoundingMode::HalfAwayFromZero,
        );
        Ok(Self::Finite(quotient))
    }

    /// The number to this power.
    ///
    /// # Errors
    /// `2201F` for zero to a negative power and a negative number to one that is not whole, `22003` for too many digits.
    pub(crate) fn power(&self, exponent: &Self) -> Result<Self, SqlError> {
        let complex = || {
            let message = "a negative number raised to a non-integer power yields a complex result";
            undefined(SqlState::InvalidArgumentForPowerFunction, message)
        };
        let of_zero = || {
            let message = "zero raised to a negative power is undefined";
            undefined(SqlState::InvalidArgumentForPowerFunction, message)
        };
        let is_one = |number: &Self| matches!(number, Self::Finite(finite) if finite.compared(&Finite::new(1, 0)) == Ordering::Equal);
        let is_none = |number: &Self| matches!(number, Self::Finite(finite) if finite.is_zero());
        match (self, exponent) {
            (base, _) if is_one(base) && !matches!(exponent, Self::Finite(_)) => Ok(Self::whole(1)),
            (Self::NaN | Self::Infinity | Self::NegativeInfinity, power) if is_none(power) => {
                Ok(Self::whole(1))
            }
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            (base, Self::NegativeInfinity) if is_none(base) => Err(of_zero()),
            (base, Self::Infinity | Self::NegativeInfinity) => {
                let magnitude = base.clone().absolute();
                if is_one(&magnitude) {
                    return Ok(Self::whole(1));
                }
                let is_large = match &magnitude {
                    Self::Finite(finite) => finite.compared(&Finite::new(1, 0)) == Ordering::Greater,
                    _ => true,
                };
                let grows = is_large == matches!(exponent, Self::Infinity);
                Ok(if grows { Self::Infinity } else { Self::whole(0) })
            }
            (Self::Infinity, power) => Ok(if power.is_negative() { Self::whole(0) } else { Self::Infinity }),
            (Self::NegativeInfinity, Self::Finite(power)) => {
                if !is_whole(power) {
                    return Err(complex());
                }
                Ok(match (power.units.sign() == Sign::Minus, is_odd(power)) {
                    (true, _) => Self::whole(0),
                    (false, true) => Self::NegativeInfinity,
                    (false, false) => Self::Infinity,
                })
            }
            (Self::Finite(base), Self::Finite(power)) => {
                if base.is_zero() && power.units.sign() == Sign::Minus {
                    return Err(of_zero());
                }
                if base.units.sign() == Sign::Minus && !is_whole(power) {
                    return Err(complex());
                }
                finite_power(base, power).map(Self::Finite)
            }
        }
    }
}

/// A number to a power that it has.
fn finite_power(base: &Finite, power: &Finite) -> Result<Finite, SqlError> {
    if let Some(whole) = as_whole(power) {
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN, &[base.scale]);
        return base.to_whole_power(whole, scale);
    }
    if base.is_zero() {
        return Ok(Finite::new(0, SIGNIFICANT_DIGITS_MIN as u32));
    }
    let is_negative = base.units.sign() == Sign::Minus && is_odd(power);
    let magnitude = Finite::new(BigInt::from(base.units.magnitude().clone()), base.scale);
    if magnitude.compared(&Finite::new(1, 0)) == Ordering::Equal {
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN, &[base.scale, power.scale]);
        let one = power_of_ten(scale);
        return Ok(Finite { units: if is_negative { -one } else { one }, scale });
    }
    let value = approximate_ln_of_power(&magnitude, power);
    if value.abs() > EXPONENT_MAX + 20.0 {
        return if value > 0.0 { Err(overflow()) } else { Ok(Finite::new(0, 1_000)) };
    }
    let weight = value * LOG10_E;
    let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight as i64, &[base.scale, power.scale]);
    let of_power = u32::try_from(whole_digits(power).max(0)).unwrap_or(0);
    let digits = scale + GUARD_DIGITS + extra_digits(weight) + of_power;
    let exponent = Finite { units: ln_in_units(&magnitude, digits)?, scale: digits };
    let exponent = Finite { units: exponent.units * &power.units, scale: digits + power.scale };
    let done = exp_of_units(&in_units(&exponent, digits), digits, scale)?;
    Ok(if is_negative { Finite { units: -done.units, scale: done.scale } } else { done })
}
