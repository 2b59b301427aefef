// SPDX-License-Identifier: Apache-2.0
//! Intervals as text, with `IntervalStyle` `postgres`.
//!
//! | text | is |
//! |---|---|
//! | `1 year 2 mons -3 days 04:05:06`, `1h30m`, `3 days ago` | numbers, each with its unit |
//! | `3 04:05:06` | days and a time |
//! | `1-2` | years and months |
//! | `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06` | as ISO 8601 has it |
//!
//! Part of a year is rounded to months; part of a month becomes days of which it has thirty, part of a day its time.

use super::date_text::Flaw;
use super::date_tokens::TIME_BYTES_MAX;
use super::zones::MICROS_PER_SECOND;
use coeval_store::IntervalValue;
use std::fmt::Write;

const MICROS_PER_DAY: f64 = 8.64e10;
const NANOS_PER_MICRO: i64 = 1_000;
const DAYS_PER_MONTH: f64 = 30.0;
const DAYS_PER_WEEK: f64 = 7.0;
const MONTHS_PER_YEAR: f64 = 12.0;

/// The interval as PostgreSQL's style `postgres` prints it: `1 year 2 mons 3 days 04:05:06.789`.
pub(crate) fn format_interval(value: IntervalValue, out: &mut String) {
    let start = out.len();
    // A part behind a negative one shows its sign.
    let mut after_negative = false;
    let mut part = |count: i64, one: &str, many: &str| {
        if count != 0 {
            if out.len() > start {
                out.push(' ');
            }
            let sign = if after_negative && count > 0 { "+" } else { "" };
            let _ = write!(out, "{sign}{count} {}", if count == 1 { one } else { many });
            after_negative = count < 0;
        }
    };
    part(i64::from(value.months / 12), "year", "years");
    part(i64::from(value.months % 12), "mon", "mons");
    part(i64::from(value.days), "day", "days");
    let micros = value.nanoseconds / NANOS_PER_MICRO;
    if micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(' ');
        }
        if micros < 0 {
            out.push('-');
        } else if after_negative {
            out.push('+');
        }
        let micros = micros.abs();
        let seconds = micros / MICROS_PER_SECOND;
        let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        super::datetime::write_fraction(micros % MICROS_PER_SECOND, out);
    }
}

/// The interval that a text stands for.
///
/// # Errors
/// [`Flaw::Form`] if it is none, [`Flaw::Field`] if one of its numbers is out of range.
pub(crate) fn read_interval(text: &str) -> Result<IntervalValue, Flaw> {
    let text = text.trim();
    if text.len() > TIME_BYTES_MAX {
        return Err(Flaw::Form);
    }
    let parts = match text.strip_prefix('P') {
        Some(iso) => iso_parts(iso)?,
        None => worded_parts(text, Unit::Second)?,
    };
    parts.interval()
}

/// The interval that a text stands for with fields behind it, as in `interval '1:30' minute to second`: a number without
/// a unit counts the last one, and what is smaller than that is left away.
///
/// # Errors
/// As [`read_interval`].
pub(crate) fn read_interval_in(text: &str, first: Unit, last: Unit) -> Result<IntervalValue, Flaw> {
    let is_short = (first, last) == (Unit::Minute, Unit::Second);
    // Hours stand before minutes and seconds.
    let whole = match text.split_once(':') {
        Some((_, behind)) if is_short && !behind.contains([':', '.']) => format!("{text}."),
        _ => text.to_owned(),
    };
    let mut value = worded_parts(whole.trim(), last)?.interval()?;
    let nanoseconds = |unit: i64| value.nanoseconds / unit * unit;
    match last {
        Unit::Year => value = IntervalValue { months: value.months / 12 * 12, ..IntervalValue::default() },
        Unit::Month => value = IntervalValue { months: value.months, ..IntervalValue::default() },
        Unit::Day => value.nanoseconds = 0,
        Unit::Hour => value.nanoseconds = nanoseconds(3_600 * MICROS_PER_SECOND * NANOS_PER_MICRO),
        Unit::Minute => value.nanoseconds = nanoseconds(60 * MICROS_PER_SECOND * NANOS_PER_MICRO),
        _ => {}
    }
    Ok(value)
}

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
    fn of(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
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
            "millisecond" | "milliseconds" | "msec" | "msecs" | "msecond" | "mseconds" | "ms" => {
                Self::Millisecond
            }
            "microsecond" | "microseconds" | "usec" | "usecs" | "usecond" | "useconds" | "us" => {
                Self::Microsecond
            }
            _ => return None,
        })
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A number as it is written: what stands before the point, and the part of one behind it, which has its sign.
#[derive(Clone, Copy, Debug)]
struct Number {
    whole: i64,
    part: f64,
}

impl Number {
    fn of(text: &str) -> Result<Self, Flaw> {
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
struct Parts {
    months: i64,
    days: i64,
    micros: i64,
    /// The units that were said.
    said: u32,
}

impl Parts {
    fn say(&mut self, units: u32) -> Result<(), Flaw> {
        let is_new = self.said & units == 0;
        self.said |= units;
        if is_new { Ok(()) } else { Err(Flaw::Form) }
    }

    fn add(&mut self, number: Number, unit: Unit) -> Result<(), Flaw> {
        self.say(unit.bit())?;
        match unit {
            Unit::Millennium => self.years(number, 1_000),
            Unit::Century => self.years(number, 100),
            Unit::Decade => self.years(number, 10),
            Unit::Year => self.years(number, 1),
            Unit::Month => {
                self.months(number.whole)?;
                self.part_of_days(number.part * DAYS_PER_MONTH)
            }
            Unit::Week => {
                self.days(number.whole.checked_mul(7))?;
                self.part_of_days(number.part * DAYS_PER_WEEK)
            }
            Unit::Day => {
                self.days(Some(number.whole))?;
                self.part_of_micros(number.part * MICROS_PER_DAY)
            }
            Unit::Hour => self.time(number, 3_600 * MICROS_PER_SECOND),
            Unit::Minute => self.time(number, 60 * MICROS_PER_SECOND),
            Unit::Second => self.time(number, MICROS_PER_SECOND),
            Unit::Millisecond => self.time(number, 1_000),
            Unit::Microsecond => self.time(number, 1),
        }
    }

    fn years(&mut self, number: Number, years: i64) -> Result<(), Flaw> {
        let months = number.whole.checked_mul(years * 12).ok_or(Flaw::Field)?;
        let part = (number.part * years as f64 * MONTHS_PER_YEAR).round_ties_even() as i64;
        self.months(months)?;
        self.months(part)
    }

    fn months(&mut self, months: i64) -> Result<(), Flaw> {
        self.months = self.months.checked_add(months).ok_or(Flaw::Field)?;
        Ok(())
    }

    fn days(&mut self, days: Option<i64>) -> Result<(), Flaw> {
        self.days = days.and_then(|days| self.days.checked_add(days)).ok_or(Flaw::Field)?;
        Ok(())
    }

    fn part_of_days(&mut self, days: f64) -> Result<(), Flaw> {
        self.days(Some(days.trunc() as i64))?;
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
    fn clock(&mut self, text: &str) -> Result<(), Flaw> {
        self.say(Unit::Hour.bit() | Unit::Minute.bit() | Unit::Second.bit())?;
        let (sign, text) = match text.as_bytes().first() {
            Some(b'-') => (-1, &text[1..]),
            Some(b'+') => (1, &text[1..]),
            _ => (1, text),
        };
        let has_point = text.contains('.');
        let parts = text.split(':').map(Number::of).collect::<Result<Vec<_>, _>>()?;
        let none = Number { whole: 0, part: 0.0 };
        let (hours, minutes, seconds) = match parts[..] {
            [minutes, seconds] if has_point => (none, minutes, seconds),
            [hours, minutes] => (hours, minutes, none),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(Flaw::Form),
        };
        if minutes.whole > 59 || seconds.whole > 60 || hours.part != 0.0 || minutes.part != 0.0 {
            return Err(Flaw::Field);
        }
        let mut time = Self::default();
        time.time(hours, 3_600 * MICROS_PER_SECOND)?;
        time.time(minutes, 60 * MICROS_PER_SECOND)?;
        time.time(seconds, MICROS_PER_SECOND)?;
        self.micros = self.micros.checked_add(sign * time.micros).ok_or(Flaw::Field)?;
        Ok(())
    }

    /// `1-2`: years and months, with a sign for both.
    fn years_and_months(&mut self, years: &str, months: &str) -> Result<(), Flaw> {
        self.say(Unit::Year.bit() | Unit::Month.bit())?;
        let (years_read, months_read) = (Number::of(years)?, Number::of(months)?);
        if months_read.whole >= 12 {
            return Err(Flaw::Field);
        }
        let sign = if years.starts_with('-') { -1 } else { 1 };
        self.months(years_read.whole.checked_mul(12).ok_or(Flaw::Field)?)?;
        self.months(sign * months_read.whole)?;
        self.part_of_days(f64::from(sign as i32) * months_read.part * DAYS_PER_MONTH)
    }

    fn negated(self) -> Self {
        Self { months: -self.months, days: -self.days, micros: -self.micros, ..self }
    }

    fn interval(self) -> Result<IntervalValue, Flaw> {
        if self.said == 0 {
            return Err(Flaw::Form);
        }
        Ok(IntervalValue {
            months: i32::try_from(self.months).map_err(|_| Flaw::Field)?,
            days: i32::try_from(self.days).map_err(|_| Flaw::Field)?,
            nanoseconds: self.micros.checked_mul(NANOS_PER_MICRO).ok_or(Flaw::Field)?,
        })
    }
}

/// Numbers and units, read from the end. What stands before a time or hours is days, and what stands before nothing is of
/// the `last` unit.
fn worded_parts(text: &str, last: Unit) -> Result<Parts, Flaw> {
    let mut parts = Parts::default();
    let mut unit = None;
    let mut is_ago = false;
    let words = split_words(text)?;
    for (place, word) in words.iter().enumerate().rev() {
        if word.contains(':') {
            parts.clock(word)?;
            unit = Some(Unit::Day);
        } else if word.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            match Unit::of(word) {
                Some(known) => unit = Some(known),
                None if word.eq_ignore_ascii_case("ago") && place + 1 == words.len() => is_ago = true,
                None => return Err(Flaw::Form),
            }
        } else if let Some(hyphen) = word.rfind('-').filter(|&place| place > 0) {
            parts.years_and_months(&word[..hyphen], &word[hyphen + 1..])?;
            unit = Some(Unit::Month);
        } else {
            let counted = unit.unwrap_or(last);
            parts.add(Number::of(word)?, counted)?;
            if counted == Unit::Hour {
                unit = Some(Unit::Day);
            }
        }
    }
    Ok(if is_ago { parts.negated() } else { parts })
}

/// The words of an interval: `3days` is two, a sign is one with its number.
fn split_words(text: &str) -> Result<Vec<&str>, Flaw> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let first = bytes[start];
        if first.is_ascii_whitespace() || first == b'@' || first == b',' {
            start += 1;
            continue;
        }
        let is_letter = first.is_ascii_alphabetic();
        let is_of = |byte: u8| {
            if is_letter {
                byte.is_ascii_alphabetic()
            } else {
                byte.is_ascii_digit() || b":.-".contains(&byte)
            }
        };
        let mut end = start + 1;
        while end < bytes.len() && is_of(bytes[end]) {
            end += 1;
        }
        // Units of one letter may have the next number behind them, as `1h30m`.
        if is_letter && end > start + 1 && bytes.get(end).is_some_and(u8::is_ascii_digit) {
            return Err(Flaw::Form);
        }
        // A letter that is not one of ASCII may be longer than a byte.
        while !text.is_char_boundary(end) {
            end += 1;
        }
        words.push(&text[start..end]);
        start = end;
    }
    Ok(words)
}

/// What stands behind the `P`: numbers before the letters of their units, or a date and a time.
fn iso_parts(text: &str) -> Result<Parts, Flaw> {
    let mut parts = Parts::default();
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Err(Flaw::Form);
    }
    if date.split('-').filter(|part| !part.is_empty()).count() == 3
        && !date.contains(|letter: char| letter.is_ascii_alphabetic())
    {
        iso_fields(date, '-', [Unit::Year, Unit::Month, Unit::Day], &mut parts)?;
    } else {
        iso_units(date, &mut parts, |letter| match letter {
            'Y' => Some(Unit::Year),
            'M' => Some(Unit::Month),
            'W' => Some(Unit::Week),
            'D' => Some(Unit::Day),
            _ => None,
        })?;
    }
    match time {
        Some(time) if time.contains(':') => {
            iso_fields(time, ':', [Unit::Hour, Unit::Minute, Unit::Second], &mut parts)?;
        }
        Some(time) => iso_units(time, &mut parts, |letter| match letter {
            'H' => Some(Unit::Hour),
            'M' => Some(Unit::Minute),
            'S' => Some(Unit::Second),
            _ => None,
        })?,
        None => {}
    }
    Ok(parts)
}

fn iso_fields(text: &str, mark: char, units: [Unit; 3], parts: &mut Parts) -> Result<(), Flaw> {
    let mut units = units.into_iter();
    for field in text.split(mark) {
        parts.add(Number::of(field)?, units.next().ok_or(Flaw::Form)?)?;
    }
    Ok(())
}

fn iso_units(text: &str, parts: &mut Parts, unit_of: fn(char) -> Option<Unit>) -> Result<(), Flaw> {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic()).ok_or(Flaw::Form)?;
        let letter = rest[end..].chars().next();
        let unit = letter.and_then(unit_of).ok_or(Flaw::Form)?;
        parts.add(Number::of(&rest[..end])?, unit)?;
        rest = &rest[end + 1..];
    }
    Ok(())
}
