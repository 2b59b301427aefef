// SPDX-License-Identifier: Apache-2.0
//! Settings that are numbers with a fraction, as PostgreSQL reads and writes them.

/// What such a setting accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Real {
    min: f64,
    max: f64,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Milliseconds,
}

/// Units of times, each in milliseconds, the largest first.
const TIMES: [(&str, f64); 6] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0), ("ms", 1.0), ("us", 0.001)];

/// How far a number may be from a whole one that it is taken for, as a part of it.
const SLOP: f64 = 1e-8;

impl Real {
    pub(super) const fn between(min: f64, max: f64) -> Self {
        Self { min, max, unit: Unit::None }
    }

    /// A number of milliseconds if it has no unit.
    pub(super) const fn milliseconds(min: f64, max: f64) -> Self {
        Self { min, max, unit: Unit::Milliseconds }
    }

    /// The value as it is kept: with the fewest digits, in the largest unit in which it is whole. `None` if it is none, or out of range.
    pub(super) fn normalized(self, value: &str) -> Option<String> {
        let value = value.trim();
        let number = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let factor = match (&value[number.len()..], self.unit) {
            ("", _) => 1.0,
            (_, Unit::None) => return None,
            (unit, Unit::Milliseconds) => TIMES.iter().find(|(name, _)| *name == unit)?.1,
        };
        let number = number.trim_end().parse::<f64>().ok()? * factor;
        (self.min..=self.max).contains(&number).then(|| self.shown(number))
    }

    fn shown(self, number: f64) -> String {
        if self.unit == Unit::None || number <= 0.0 {
            return with_six_digits(number);
        }
        let is_whole = |number: f64| (number.round_ties_even() / number - 1.0).abs() <= SLOP;
        let unit = TIMES.iter().find(|(_, factor)| is_whole(number / factor));
        let (name, factor) = unit.unwrap_or(&TIMES[TIMES.len() - 1]);
        format!("{}{name}", with_six_digits(number / factor))
    }
}

/// A number as C writes it with `%g`.
fn with_six_digits(number: f64) -> String {
    const DIGITS: i32 = 6;
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific.as_str(), "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let behind = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{number:.behind$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_six_digits_and_without_zeros_behind_them() {
        let cost = Real::between(0.0, f64::MAX);
        for (given, shown) in [
            ("1", "1"),
            ("1.50", "1.5"),
            (" 0.0025 ", "0.0025"),
            ("100000", "100000"),
            ("1234567", "1.23457e+06"),
            ("0.00001", "1e-05"),
            ("0", "0"),
        ] {
            assert_eq!(cost.normalized(given).as_deref(), Some(shown), "{given}");
        }
        for refused in ["-1", "NaN", "inf", "", "1ms", "one"] {
            assert_eq!(cost.normalized(refused), None, "{refused}");
        }
    }

    #[test]
    fn times_are_shown_in_the_largest_unit_in_which_they_are_whole() {
        let delay = Real::milliseconds(0.0, 100.0);
        for (given, shown) in
            [("40", "40ms"), ("80.1", "80100us"), ("0", "0"), ("0.05s", "50ms"), ("500 us", "500us")]
        {
            assert_eq!(delay.normalized(given).as_deref(), Some(shown), "{given}");
        }
        assert_eq!((delay.normalized("10s"), delay.normalized("1 week")), (None, None));
    }
}
