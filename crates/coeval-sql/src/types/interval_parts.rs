// SPDX-License-Identifier: Apache-2.0
//! The numbers that the text of an interval names, added up, unit by unit.
//!
//! Part of a year is rounded to months; part of a month becomes days of which it has thirty, part of a day its time.

use super::date_text::Flaw;
use super::zones::MICROS_PER_SECOND;
use coeval_store::IntervalValue;

const MICROS_PER_DAY: f64 = 8.64e10;
const MICROS_PER_HOUR: i64 = 3_600 * MICROS_PER_SECOND;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const NANOS_PER_MICRO: i64 = 1_000;
const DAYS_PER_MONTH: f64 = 30.0;
const DAYS_PER_WEEK: f64 = 7.0;
const MONTHS_PER_YEAR: f64 = 12.0;

/// What is counted. Each may be said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millennium,
    Century,
    Decade,
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl Unit {
    /// The unit of a word, of which as many letters count as in PostgreSQL.
    pub(super) fn of(word: &str) -> Option<Self> {
        const LETTERS_MAX: usize = 10;
        let word = word.to_ascii_lowercase();
        Some(match word.get(..LETTERS_MAX).unwrap_or(&word) {
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "century" | "centuries" | "cent" | "c" => Self::Century,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "year" | "years" | "yr" | "yrs" | "y" => Self::Year,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "week" | "weeks" | "w" => Self::Week,
            "day" | "days" | "d" => Self::Day,
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Hour,
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Minute,
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Second,
            "millisecon" | "msec" | "msecs" | "msecond" | "mseconds" | "ms" => Self::Millisecond,
            "microsecon" | "usec" | "usecs" | "usecond" | "useconds" | "us" => Self::Microsecond,
            _ => return None,
        })
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The bits of seconds and of what is smaller.
fn bits_of_seconds() -> u32 {
    Unit::Second.bit() | Unit::Millisecond.bit() | Unit::Microsecond.bit()
}

/// A number as it is written: what stands before the point, and the part of one behind it, which has its sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) whole: i64,
    pub(super) part: f64,
}

impl Number {
    pub(super) const ZERO: Self = Self { whole: 0, part: 0.0 };

    pub(super) const fn of_whole(whole: i64) -> Self {
        Self { whole, part: 0.0 }
    }

    /// # Errors
    /// [`Flaw::Form`] for a text that is none, [`Flaw::Field`] for too large a number.
    pub(super) fn of(text: &str) -> Result<Self, Flaw> {
        let (is_negative, digits) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(part) || (whole.is_empty() && part.is_empty()) {
            return Err(Flaw::Form);
        }
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| Flaw::Field)? };
        let part =
            if part.is_empty() { 0.0 } else { format!("0.{part}").parse::<f64>().map_err(|_| Flaw::Form)? };
        Ok(if is_negative { Self { whole: -whole, part: -part } } else { Self { whole, part } })
    }
}

/// What has been read, added up.
#[derive(Debug, Default)]
pub(super) struct Parts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
    /// The units that were said.
    said: u32,
}

/// Adds a number to a part that has 32 bits.
fn add(part: &mut i32, number: Option<i64>) -> Result<(), Flaw> {
    let number = number.and_then(|number| i32::try_from(number).ok());
    *part = number.and_then(|number| part.checked_add(number)).ok_or(Flaw::Field)?;
    Ok(())
}

impl Parts {
    /// Whether no unit has been said.
    pub(super) fn is_empty(&self) -> bool {
        self.said == 0
    }

    fn say(&mut self, units: u32) -> Result<(), Flaw> {
        let is_new = self.said & units == 0;
        self.said |= units;
        if is_new { Ok(()) } else { Err(Flaw::Form) }
    }

    /// Adds so many of a unit that no number has been of yet.
    ///
    /// # Errors
    /// [`Flaw::Form`] if one has, [`Flaw::Field`] for too large a number.
    pub(super) fn add_once(&mut self, number: Number, unit: Unit) -> Result<(), Flaw> {
        // Seconds with digits behind the point say what is smaller, too.
        let has_part = unit == Unit::Second && number.part != 0.0;
        self.say(if has_part { bits_of_seconds() } else { unit.bit() })?;
        self.add(number, unit)
    }

    /// Adds so many of a unit.
    ///
    /// # Errors
    /// [`Flaw::Field`] for too large a number.
    pub(super) fn add(&mut self, number: Number, unit: Unit) -> Result<(), Flaw> {
        match unit {
            Unit::Millennium => self.years(number, 1_000),
            Unit::Century => self.years(number, 100),
            Unit::Decade => self.years(number, 10),
            Unit::Year => self.years(number, 1),
            Unit::Month => {
                add(&mut self.months, Some(number.whole))?;
                self.part_of_days(number.part * DAYS_PER_MONTH)
            }
            Unit::Week => {
                add(&mut self.days, number.whole.checked_mul(7))?;
                self.part_of_days(number.part * DAYS_PER_WEEK)
            }
            Unit::Day => {
                add(&mut self.days, Some(number.whole))?;
                self.part_of_micros(number.part * MICROS_PER_DAY)
            }
            Unit::Hour => self.time(number, MICROS_PER_HOUR),
            Unit::Minute => self.time(number, MICROS_PER_MINUTE),
            Unit::Second => self.time(number, MICROS_PER_SECOND),
            Unit::Millisecond => self.time(number, 1_000),
            Unit::Microsecond => self.time(number, 1),
        }
    }

    fn years(&mut self, number: Number, years: i64) -> Result<(), Flaw> {
        add(&mut self.years, number.whole.checked_mul(years))?;
        let months = (number.part * years as f64 * MONTHS_PER_YEAR).round_ties_even() as i64;
        add(&mut self.months, Some(months))
    }

    fn part_of_days(&mut self, days: f64) -> Result<(), Flaw> {
        add(&mut self.days, Some(days.trunc() as i64))?;
        self.part_of_micros(days.fract() * MICROS_PER_DAY)
    }

    /// Rounded; half a microsecond is nothing.
    fn part_of_micros(&mut self, micros: f64) -> Result<(), Flaw> {
        let whole = micros.trunc() as i64;
        let rounded = match micros.fract() {
            rest if rest > 0.5 => whole + 1,
            rest if rest < -0.5 => whole - 1,
            _ => whole,
        };
        self.micros = self.micros.checked_add(rounded).ok_or(Flaw::Field)?;
        Ok(())
    }

    fn time(&mut self, number: Number, unit: i64) -> Result<(), Flaw> {
        let micros = number.whole.checked_mul(unit).and_then(|micros| self.micros.checked_add(micros));
        self.micros = micros.ok_or(Flaw::Field)?;
        self.part_of_micros(number.part * unit as f64)
    }

    /// `04:05:06.789`, `04:05`, `05:06.789`, with a sign for all of it.
    ///
    /// # Errors
    /// [`Flaw::Form`] if it is no such time, or one has been said; [`Flaw::Field`] for too large a number.
    pub(super) fn clock(&mut self, text: &str) -> Result<(), Flaw> {
        self.say(Unit::Hour.bit() | Unit::Minute.bit() | bits_of_seconds())?;
        let (sign, text) = match text.as_bytes().first() {
            Some(b'-') => (-1, &text[1..]),
            Some(b'+') => (1, &text[1..]),
            _ => (1, text),
        };
        let has_point = text.contains('.');
        // Only the last number may have one.
        if text.rsplit(':').skip(1).any(|part| part.contains('.')) {
            return Err(Flaw::Form);
        }
        let parts = text.split(':').map(Number::of).collect::<Result<Vec<_>, _>>()?;
        let (hours, minutes, seconds) = match parts[..] {
            [minutes, seconds] if has_point => (Number::ZERO, minutes, seconds),
            [hours, minutes] => (hours, minutes, Number::ZERO),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(Flaw::Form),
        };
        if minutes.whole > 59 || seconds.whole > 60 {
            return Err(Flaw::Field);
        }
        let mut time = Self::default();
        time.add(hours, Unit::Hour)?;
        time.add(minutes, Unit::Minute)?;
        time.add(seconds, Unit::Second)?;
        self.micros = self.micros.checked_add(sign * time.micros).ok_or(Flaw::Field)?;
        Ok(())
    }

    /// `1-2`: years and months, which are months, with a sign for both.
    ///
    /// # Errors
    /// As of [`Self::add_once`].
    pub(super) fn years_and_months(&mut self, years: &str, months: &str) -> Result<(), Flaw> {
        self.say(Unit::Month.bit())?;
        let (years_read, months_read) = (Number::of(years)?, Number::of(months)?);
        if months_read.whole >= 12 {
            return Err(Flaw::Field);
        }
        let sign: i64 = if years.starts_with('-') { -1 } else { 1 };
        let months = years_read.whole.checked_mul(12);
        add(&mut self.months, months.and_then(|months| months.checked_add(sign * months_read.whole)))?;
        self.part_of_days(sign as f64 * months_read.part * DAYS_PER_MONTH)
    }

    /// The same back in time.
    ///
    /// # Errors
    /// [`Flaw::Field`] if a part is the least number of its bits.
    pub(super) fn negated(self) -> Result<Self, Flaw> {
        let negated = || {
            let (years, months) = (self.years.checked_neg()?, self.months.checked_neg()?);
            let (days, micros) = (self.days.checked_neg()?, self.micros.checked_neg()?);
            Some(Self { years, months, days, micros, said: self.said })
        };
        negated().ok_or(Flaw::Field)
    }

    /// # Errors
    /// [`Flaw::Type`] if there is no such interval.
    pub(super) fn interval(&self) -> Result<IntervalValue, Flaw> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        Ok(IntervalValue {
            months: i32::try_from(months).map_err(|_| Flaw::Type)?,
            days: self.days,
            nanoseconds: self.micros.checked_mul(NANOS_PER_MICRO).ok_or(Flaw::Type)?,
        })
    }
}
