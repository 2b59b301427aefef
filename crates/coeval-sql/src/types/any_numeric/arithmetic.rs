// SPDX-License-Identifier: Apache-2.0
//! Sums, products, quotients, remainders, roots and rounding of numbers of any number of digits, with the digits behind the point that
//! PostgreSQL gives them.

use super::super::numeric::overflow;
use super::{AnyNumeric, Finite, power_of_ten};
use crate::cancel;
use crate::error::{SqlError, SqlState, division_by_zero};
use coeval_store::{NUMBER_SCALE_MAX, NUMBER_WHOLE_DIGITS_MAX};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Significant digits that a quotient or a root has at least.
pub(super) const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// Digits behind the point that results have at most whose digits are not those of their operands.
pub(super) const RESULT_SCALE_MAX: i64 = 1_000;
/// The fewest digits behind the point that a number can be rounded to: one more in front of it than it has at most.
const ROUNDING_SCALE_MIN: i64 = -(NUMBER_WHOLE_DIGITS_MAX as i64) - 1;
/// Decimal digits in one of PostgreSQL's digits.
const DIGITS_OF_ONE: i64 = 4;

/// What becomes of digits that go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundingMode {
    /// To the nearest, a half away from zero.
    HalfAwayFromZero,
    /// Towards zero.
    Down,
    /// Towards minus infinity.
    Floor,
    /// Towards infinity.
    Ceiling,
}

/// A quotient of integers, rounded.
fn divided(dividend: &BigInt, divisor: &BigInt, mode: RoundingMode) -> BigInt {
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    if remainder.sign() == Sign::NoSign {
        return quotient;
    }
    let is_negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    let is_away = match mode {
        RoundingMode::Down => false,
        RoundingMode::Floor => is_negative,
        RoundingMode::Ceiling => !is_negative,
        RoundingMode::HalfAwayFromZero => {
            BigInt::from(remainder.magnitude().clone()) * 2_u32 >= BigInt::from(divisor.magnitude().clone())
        }
    };
    match (is_away, is_negative) {
        (false, _) => quotient,
        (true, true) => quotient - 1_u32,
        (true, false) => quotient + 1_u32,
    }
}

/// How many decimal digits an integer has.
fn digit_count(units: &BigInt) -> i64 {
    units.magnitude().to_string().len() as i64
}

/// Which of PostgreSQL's digits, of base 10,000, is the first one of a number, counted from the point, and what it is; zeros of zero.
fn first_digit(number: &Finite) -> (i64, u32) {
    if number.is_zero() {
        return (0, 0);
    }
    let digits = number.units.magnitude().to_string();
    let place = digits.len() as i64 - i64::from(number.scale) - 1;
    let count = place.rem_euclid(DIGITS_OF_ONE) as usize + 1;
    let shown: String = digits.chars().chain(std::iter::repeat('0')).take(count).collect();
    (place.div_euclid(DIGITS_OF_ONE), shown.parse().unwrap_or(0))
}

/// The weight of a number's first digit of base 10,000.
pub(super) fn weight_of(number: &Finite) -> i64 {
    first_digit(number).0
}

/// Digits behind the point that are left between the least and the most there may be.
pub(super) fn result_scale(wanted: i64, scales: &[u32]) -> u32 {
    let least = scales.iter().map(|scale| i64::from(*scale)).max().unwrap_or(0);
    wanted.max(least).clamp(0, RESULT_SCALE_MAX) as u32
}

/// How many digits behind the point a quotient has.
fn division_scale(dividend: &Finite, divisor: &Finite) -> u32 {
    let ((left, left_digit), (right, right_digit)) = (first_digit(dividend), first_digit(divisor));
    let weight = left - right - i64::from(left_digit <= right_digit);
    result_scale(SIGNIFICANT_DIGITS_MIN - weight * DIGITS_OF_ONE, &[dividend.scale, divisor.scale])
}

impl Finite {
    /// The number with so many digits behind the point; a negative scale rounds digits in front of it and shows none behind.
    pub(crate) fn with_scale(&self, scale: i64, mode: RoundingMode) -> Self {
        let own = i64::from(self.scale);
        let shown = u32::try_from(scale.max(0)).unwrap_or(u32::MAX);
        if scale == own {
            return self.clone();
        }
        if scale > own {
            let factor = power_of_ten(u32::try_from(scale - own).unwrap_or(0));
            return Self { units: &self.units * factor, scale: shown };
        }
        let dropped = u32::try_from(own - scale).unwrap_or(u32::MAX);
        // Nothing is left of a number if more digits go than it has, and one.
        if i64::from(dropped) > digit_count(&self.units) + 1
            && matches!(mode, RoundingMode::HalfAwayFromZero | RoundingMode::Down)
        {
            return Self::new(0, shown);
        }
        let units = divided(&self.units, &power_of_ten(dropped), mode);
        let behind = u32::try_from((-scale).max(0)).unwrap_or(0);
        Self { units: units * power_of_ten(behind), scale: shown }
    }

    fn sum(&self, other: &Self) -> Self {
        let scale = i64::from(self.scale.max(other.scale));
        let (left, right) = (self.rounded(scale), other.rounded(scale));
        Self { units: left.units + right.units, scale: left.scale }
    }

    pub(super) fn product(&self, other: &Self) -> Self {
        let all = Self { units: &self.units * &other.units, scale: self.scale + other.scale };
        if all.scale > u32::from(NUMBER_SCALE_MAX) { all.rounded(i64::from(NUMBER_SCALE_MAX)) } else { all }
    }

    /// The quotient with so many digits behind the point; the divisor is not zero.
    pub(super) fn quotient(&self, divisor: &Self, scale: u32, mode: RoundingMode) -> Self {
        let shift = i64::from(scale) - i64::from(self.scale) + i64::from(divisor.scale);
        let factor = power_of_ten(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
        let units = if shift >= 0 {
            divided(&(&self.units * factor), &divisor.units, mode)
        } else {
            divided(&self.units, &(&divisor.units * factor), mode)
        };
        Self { units, scale }
    }

    fn remainder(&self, divisor: &Self) -> Self {
        let scale = i64::from(self.scale.max(divisor.scale));
        let (left, right) = (self.rounded(scale), divisor.rounded(scale));
        Self { units: left.units % right.units, scale: left.scale }
    }

    /// The square root with so many digits behind the point; the number is not below zero.
    pub(super) fn root(&self, scale: u32) -> Self {
        // One digit more, by which the last one is rounded.
        let shift = 2 * (i64::from(scale) + 1) - i64::from(self.scale);
        let factor = power_of_ten(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
        let square = if shift >= 0 { &self.units * factor } else { &self.units / factor };
        Self { units: square.sqrt(), scale: scale + 1 }.rounded(i64::from(scale))
    }

    /// The order of two numbers.
    pub(super) fn compared(&self, other: &Self) -> Ordering {
        let scale = i64::from(self.scale.max(other.scale));
        self.rounded(scale).units.cmp(&other.rounded(scale).units)
    }
}

/// The product, or the quotient, of two numbers of which one at least is infinite, and none is zero.
fn infinite(left: &AnyNumeric, right: &AnyNumeric) -> AnyNumeric {
    let is_negative = left.is_negative() != right.is_negative();
    if is_negative { AnyNumeric::NegativeInfinity } else { AnyNumeric::Infinity }
}

impl AnyNumeric {
    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Finite(finite) if finite.is_zero())
    }

    /// The number with its sign turned.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::NaN => Self::NaN,
            Self::Infinity => Self::NegativeInfinity,
            Self::NegativeInfinity => Self::Infinity,
            Self::Finite(finite) => Self::Finite(Finite { units: -finite.units, scale: finite.scale }),
        }
    }

    /// The number without its sign.
    pub(crate) fn absolute(self) -> Self {
        if self.is_negative() { self.negated() } else { self }
    }

    /// -1, 0 or 1; of NaN NaN.
    pub(crate) fn sign(&self) -> Self {
        match self {
            Self::NaN => Self::NaN,
            number if number.is_zero() => Self::whole(0),
            number => Self::whole(if number.is_negative() { -1 } else { 1 }),
        }
    }

    /// The sum.
    pub(crate) fn sum(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::NaN, _)
            | (_, Self::NaN)
            | (Self::Infinity, Self::NegativeInfinity)
            | (Self::NegativeInfinity, Self::Infinity) => Self::NaN,
            (Self::Finite(left), Self::Finite(right)) => Self::Finite(left.sum(right)),
            (Self::Finite(_), infinite) | (infinite, _) => infinite.clone(),
        }
    }

    /// The difference.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.sum(&other.clone().negated())
    }

    /// The product.
    pub(crate) fn product(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            (Self::Finite(left), Self::Finite(right)) => Self::Finite(left.product(right)),
            (left, right) if left.is_zero() || right.is_zero() => Self::NaN,
            (left, right) => infinite(left, right),
        }
    }

    /// What is left of a quotient where it is not one of two numbers; `None` where it is.
    ///
    /// # Errors
    /// `22012`.
    fn quotient_of_others(&self, divisor: &Self) -> Result<Option<Self>, SqlError> {
        match (self, divisor) {
            (Self::NaN, _) | (_, Self::NaN) => Ok(Some(Self::NaN)),
            (_, Self::Finite(zero)) if zero.is_zero() => Err(division_by_zero()),
            (Self::Finite(_), Self::Finite(_)) => Ok(None),
            (Self::Finite(_), _) => Ok(Some(Self::whole(0))),
            (left, Self::Finite(_)) => Ok(Some(infinite(left, divisor))),
            _ => Ok(Some(Self::NaN)),
        }
    }

    /// The quotient, with at least 16 significant digits.
    ///
    /// # Errors
    /// `22012`.
    pub(crate) fn quotient(&self, divisor: &Self) -> Result<Self, SqlError> {
        if let Some(other) = self.quotient_of_others(divisor)? {
            return Ok(other);
        }
        let (Self::Finite(left), Self::Finite(right)) = (self, divisor) else { return Ok(Self::NaN) };
        let scale = division_scale(left, right);
        Ok(Self::Finite(left.quotient(right, scale, RoundingMode::HalfAwayFromZero)))
    }

    /// The quotient without what is behind the point.
    ///
    /// # Errors
    /// `22012`.
    pub(crate) fn whole_quotient(&self, divisor: &Self) -> Result<Self, SqlError> {
        if let Some(other) = self.quotient_of_others(divisor)? {
            return Ok(other);
        }
        let (Self::Finite(left), Self::Finite(right)) = (self, divisor) else { return Ok(Self::NaN) };
        Ok(Self::Finite(left.quotient(right, 0, RoundingMode::Down)))
    }

    /// The remainder, which has the sign of the dividend.
    ///
    /// # Errors
    /// `22012`.
    pub(crate) fn remainder(&self, divisor: &Self) -> Result<Self, SqlError> {
        match (self, divisor) {
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            (_, Self::Finite(zero)) if zero.is_zero() => Err(division_by_zero()),
            (Self::Finite(left), Self::Finite(right)) => Ok(Self::Finite(left.remainder(right))),
            (Self::Finite(_), _) => Ok(self.clone()),
            _ => Ok(Self::NaN),
        }
    }

    /// The number with so many digits behind the point; what is no finite number stays.
    pub(crate) fn with_scale(&self, scale: i64, mode: RoundingMode) -> Self {
        match self {
            Self::Finite(finite) => {
                let scale = scale.clamp(ROUNDING_SCALE_MIN, i64::from(NUMBER_SCALE_MAX));
                Self::Finite(finite.with_scale(scale, mode))
            }
            other => other.clone(),
        }
    }

    /// The square root.
    ///
    /// # Errors
    /// `2201F` of a negative number.
    pub(crate) fn root(&self) -> Result<Self, SqlError> {
        match self {
            Self::NaN | Self::Infinity => Ok(self.clone()),
            number if number.is_negative() => {
                let message = "cannot take square root of a negative number";
                Err(SqlError::new(SqlState::InvalidArgumentForPowerFunction, message))
            }
            Self::Finite(finite) => {
                let weight = 2 * weight_of(finite) + 1;
                let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight, &[finite.scale]);
                Ok(Self::Finite(finite.root(scale)))
            }
            Self::NegativeInfinity => Ok(Self::NaN),
        }
    }

    /// The square root of a number that is not below zero, with as many digits behind the point as it has itself.
    pub(crate) fn root_with_its_digits(&self) -> Self {
        match self {
            Self::Finite(finite) => Self::Finite(finite.root(finite.scale)),
            other => other.clone(),
        }
    }

    /// The greatest number that both are a multiple of.
    ///
    /// # Errors
    /// That of a cancelled statement: of as many digits as there may be it takes seconds.
    pub(crate) fn greatest_divisor(&self, other: &Self) -> Result<Self, SqlError> {
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else {
            // Of an infinity and anything else there is none.
            return Ok(Self::NaN);
        };
        let scale = left.scale.max(right.scale);
        let mut left = left.rounded(i64::from(scale)).units;
        let mut right = right.rounded(i64::from(scale)).units;
        while right.sign() != Sign::NoSign {
            cancel::check()?;
            let rest = left % &right;
            left = right;
            right = rest;
        }
        Ok(Self::Finite(Finite { units: left, scale }).absolute())
    }

    /// The least number that is a multiple of both.
    ///
    /// # Errors
    /// As [`greatest_divisor`](Self::greatest_divisor): what is divided by is not zero unless both are.
    pub(crate) fn least_multiple(&self, other: &Self) -> Result<Self, SqlError> {
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else { return Ok(Self::NaN) };
        let scale = left.scale.max(right.scale);
        if left.is_zero() || right.is_zero() {
            return Ok(Self::Finite(Finite::new(0, scale)));
        }
        let divisor = self.greatest_divisor(other)?;
        Ok(match self.whole_quotient(&divisor)?.product(other).absolute() {
            // All digits stay, also where rounding on demand would keep fewer.
            Self::Finite(multiple) => Self::Finite(multiple.rounded(i64::from(scale))),
            others => others,
        })
    }

    /// The product of all integers up to this one.
    ///
    /// # Errors
    /// `22003` of a negative number, and of one whose product has more digits than a `numeric` has.
    pub(crate) fn factorial(number: i64) -> Result<Self, SqlError> {
        const MOST: i64 = 32_177;
        if number < 0 {
            return Err(crate::error::out_of_range("factorial of a negative number is undefined"));
        }
        if number > MOST {
            return Err(overflow());
        }
        Ok(Self::whole((2..=number).fold(BigInt::from(1), |product, factor| product * factor)))
    }

    /// How many digits behind the point are shown; `None` of what has none.
    pub(crate) fn scale(&self) -> Option<u32> {
        match self {
            Self::Finite(finite) => Some(finite.scale),
            _ => None,
        }
    }
}
