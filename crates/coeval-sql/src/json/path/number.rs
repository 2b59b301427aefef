// SPDX-License-Identifier: Apache-2.0
//! Numbers of documents in paths: exact, of up to 38 digits, with the scales that PostgreSQL gives them.

use crate::error::{SqlError, SqlState};
use std::cmp::Ordering;

/// The most digits behind the point.
const SCALE_MAX: u32 = 38;

/// How many digits of a quotient count at least.
const QUOTIENT_DIGITS_MIN: i64 = 16;

/// A number: so many units of the last of its `scale` digits behind the point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    units: i128,
    scale: u32,
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "a number in a jsonpath has more than 38 digits")
}

impl Number {
    /// The number that a text of JSON, or one like it, writes.
    ///
    /// # Errors
    /// `22003` for one of more than 38 digits; `22P02` for what is none.
    pub(super) fn parse(text: &str) -> Result<Self, SqlError> {
        let wrong = || {
            SqlError::new(
                SqlState::InvalidTextRepresentation,
                format!("\"{text}\" is no number of a jsonpath"),
            )
        };
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i64>().map_err(|_| too_large())?),
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let joined = format!("{whole}{fraction}");
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(joined.trim_start_matches(['-', '+'])) {
            return Err(wrong());
        }
        let units: i128 = joined.parse().map_err(|_| too_large())?;
        let places = i64::try_from(fraction.len()).map_err(|_| too_large())?;
        let scale = places.checked_sub(exponent).ok_or_else(too_large)?;
        match u32::try_from(scale) {
            Ok(scale) if scale <= SCALE_MAX => Ok(Self { units, scale }),
            Ok(_) => Err(too_large()),
            Err(_) => {
                let zeros = u32::try_from(scale.unsigned_abs()).map_err(|_| too_large())?;
                Ok(Self { units: raised(units, zeros)?, scale: 0 })
            }
        }
    }

    /// Both in units of the same size.
    fn aligned(self, other: Self) -> Result<(i128, i128, u32), SqlError> {
        let scale = self.scale.max(other.scale);
        Ok((raised(self.units, scale - self.scale)?, raised(other.units, scale - other.scale)?, scale))
    }

    pub(super) fn compare(self, other: Self) -> Result<Ordering, SqlError> {
        let (left, right, _) = self.aligned(other)?;
        Ok(left.cmp(&right))
    }

    pub(super) fn plus(self, other: Self) -> Result<Self, SqlError> {
        let (left, right, scale) = self.aligned(other)?;
        Ok(Self { units: left.checked_add(right).ok_or_else(too_large)?, scale })
    }

    pub(super) fn minus(self, other: Self) -> Result<Self, SqlError> {
        self.plus(other.negative()?)
    }

    pub(super) fn times(self, other: Self) -> Result<Self, SqlError> {
        let units = self.units.checked_mul(other.units).ok_or_else(too_large)?;
        Ok(Self { units, scale: self.scale + other.scale })
    }

    /// The quotient, with at least sixteen digits that count.
    pub(super) fn over(self, other: Self) -> Result<Self, SqlError> {
        if other.units == 0 {
            return Err(crate::error::division_by_zero());
        }
        let scale = self.quotient_scale(other);
        // In units of the quotient's last digit, rounded half away from zero.
        let shift = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let (above, below) = match u32::try_from(shift) {
            Ok(shift) => (raised(self.units, shift)?, other.units),
            Err(_) => (self.units, raised(other.units, u32::try_from(-shift).map_err(|_| too_large())?)?),
        };
        let (quotient, rest) = (above / below, above % below);
        let is_up = rest.unsigned_abs() >= below.unsigned_abs() - rest.unsigned_abs();
        let step = if (above < 0) == (below < 0) { 1 } else { -1 };
        Ok(Self { units: if is_up { quotient + step } else { quotient }, scale })
    }

    /// As `select_div_scale` of PostgreSQL, which counts in groups of four digits.
    fn quotient_scale(self, other: Self) -> u32 {
        let ((own_weight, own_first), (weight, first)) = (self.leading(), other.leading());
        let of_quotient = own_weight - weight - i64::from(own_first <= first);
        let wanted = QUOTIENT_DIGITS_MIN - of_quotient * 4;
        let scale = wanted.max(i64::from(self.scale)).max(i64::from(other.scale)).max(0);
        u32::try_from(scale).unwrap_or(SCALE_MAX).min(SCALE_MAX)
    }

    /// Where its first group of four digits stands, and that group.
    fn leading(self) -> (i64, u128) {
        let digits = self.units.unsigned_abs().to_string();
        if self.units == 0 {
            return (0, 0);
        }
        let length = i64::try_from(digits.len()).unwrap_or(0);
        // How many digits stand before the point, below zero if zeros follow it.
        let before = length - i64::from(self.scale);
        let weight = (before - 1).div_euclid(4);
        let of_first = usize::try_from(before - weight * 4).unwrap_or(0);
        let mut first: String = digits.chars().take(of_first).collect();
        while first.len() < of_first {
            first.push('0');
        }
        (weight, first.parse().unwrap_or(0))
    }

    /// The rest of a division, with the sign of what is divided.
    pub(super) fn modulo(self, other: Self) -> Result<Self, SqlError> {
        let (left, right, scale) = self.aligned(other)?;
        if right == 0 {
            return Err(crate::error::division_by_zero());
        }
        Ok(Self { units: left % right, scale })
    }

    pub(super) fn negative(self) -> Result<Self, SqlError> {
        Ok(Self { units: self.units.checked_neg().ok_or_else(too_large)?, ..self })
    }

    pub(super) fn absolute(self) -> Result<Self, SqlError> {
        if self.units < 0 { self.negative() } else { Ok(self) }
    }

    /// The greatest whole number that is not greater.
    pub(super) fn floor(self) -> Self {
        let unit = self.unit();
        Self { units: self.units.div_euclid(unit), scale: 0 }
    }

    /// The least whole number that is not less.
    pub(super) fn ceiling(self) -> Self {
        let unit = self.unit();
        let below = self.units.div_euclid(unit);
        Self { units: if self.units.rem_euclid(unit) == 0 { below } else { below + 1 }, scale: 0 }
    }

    /// Without what is behind the point.
    pub(super) fn whole(self) -> i128 {
        self.units / self.unit()
    }

    fn unit(self) -> i128 {
        10_i128.checked_pow(self.scale).unwrap_or(i128::MAX)
    }

    /// As JSON.
    pub(super) fn text(self) -> String {
        let digits = self.units.unsigned_abs().to_string();
        let scale = self.scale as usize;
        let sign = if self.units < 0 { "-" } else { "" };
        if scale == 0 {
            return format!("{sign}{digits}");
        }
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }
}

/// A number of units with so many zeros more.
fn raised(units: i128, zeros: u32) -> Result<i128, SqlError> {
    10_i128.checked_pow(zeros).and_then(|unit| units.checked_mul(unit)).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    /// What PostgreSQL 15 answers to `jsonb_path_query('1', '1 / 3')` and its like.
    #[test]
    fn numbers_have_the_scales_of_postgresql() {
        for (left, right, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("10", "4", "2.5000000000000000"),
            ("1000000", "3", "333333.333333333333"),
            ("0.001", "7", "0.00014285714285714286"),
            ("-1", "3", "-0.33333333333333333333"),
        ] {
            assert_eq!(number(left).over(number(right)).unwrap().text(), quotient, "{left} / {right}");
        }
        assert_eq!(number("1.10").times(number("2.00")).unwrap().text(), "2.2000");
        assert_eq!(number("2").plus(number("0.50")).unwrap().text(), "2.50");
        assert_eq!(number("-7").modulo(number("4")).unwrap().text(), "-3");
        assert_eq!(number("-2.3").floor().text(), "-3");
        assert_eq!(number("-2.3").ceiling().text(), "-2");
        assert_eq!(number("1.5").ceiling().text(), "2");
        assert_eq!(number("1e3").text(), "1000");
        assert_eq!(number("-0.05").text(), "-0.05");
        assert_eq!(number("12e-1").text(), "1.2");
    }

    #[test]
    fn what_has_too_many_digits_is_refused_and_not_cut() {
        assert!(Number::parse(&"9".repeat(40)).is_err());
        assert!(Number::parse("1e99").is_err());
        assert!(Number::parse("1e-99").is_err());
        assert!(Number::parse("1.5e-9223372036854775808").is_err());
        assert!(number(&"9".repeat(38)).times(number("100")).is_err());
        assert!(number("1").over(number("0.0")).is_err());
    }
}
