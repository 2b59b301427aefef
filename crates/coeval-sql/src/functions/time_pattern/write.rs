// SPDX-License-Identifier: Apache-2.0
//! A time in the places of a pattern.

use super::calendar::{Clock, Day, Offset};
use super::{Case, Field, Part, invalid_datetime};
use crate::error::SqlError;
use std::fmt::Write;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The width of names that are not short.
const NAME_WIDTH: usize = 9;

/// The time, written.
///
/// # Errors
/// `22007` for a field of days in the pattern of an interval.
pub(super) fn written(parts: &[Part], clock: &Clock) -> Result<String, SqlError> {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Literal(letter) | Part::Quoted(letter) => out.push(*letter),
            Part::Field(field) => push_field(field, clock, &mut out)?,
        }
    }
    Ok(out)
}

fn push_field(field: &Field, clock: &Clock, out: &mut String) -> Result<(), SqlError> {
    let start = out.len();
    match number(field.word, clock)? {
        Some((number, width)) => push_number(number, if field.is_short { 0 } else { width }, out),
        None => push_name(field, clock, out)?,
    }
    if let Some(case) = field.ordinal {
        let ending = ordinal_ending(&out[start..]);
        out.push_str(&if case == Case::Upper { ending.to_uppercase() } else { ending.to_owned() });
    }
    Ok(())
}

fn push_number(number: i64, width: usize, out: &mut String) {
    // The sign is no digit.
    let width = width + usize::from(number < 0 && width > 0);
    let _ = write!(out, "{number:0width$}");
}

fn day(clock: &Clock) -> Result<&Day, SqlError> {
    clock.date.as_ref().ok_or_else(|| {
        invalid_datetime("invalid format specification for an interval value".to_owned())
            .with_hint("Intervals are not tied to specific calendar dates.")
    })
}

/// The year as it is counted: before 1 AD comes 1 BC. Years of an interval are just so many.
fn counted(year: i64, clock: &Clock) -> i64 {
    if clock.date.is_some() && year <= 0 { 1 - year } else { year }
}

/// The number that a field shows, and how many digits it has at least; `None` for names.
fn number(word: &str, clock: &Clock) -> Result<Option<(i64, usize)>, SqlError> {
    let year = counted(clock.year, clock);
    let iso_year = || day(clock).map(|day| counted(day.iso_year, clock));
    let twelve = if clock.hour % 12 == 0 { 12 } else { clock.hour % 12 };
    let fraction = |digits: u32| (clock.micros / 10_i64.pow(6 - digits), digits as usize);
    // Days and weeks have no room for a sign, which others have beside their digits.
    let narrow = |number: i64, width: usize| (number, width - usize::from(number < 0));
    Ok(Some(match word {
        "HH" | "HH12" => (twelve, 2),
        "HH24" => (clock.hour, 2),
        "MI" => (clock.minute, 2),
        "SS" => (clock.second, 2),
        "SSSS" | "SSSSS" => (clock.hour * 3_600 + clock.minute * 60 + clock.second, 0),
        "MS" | "FF3" => fraction(3),
        "US" | "FF6" => fraction(6),
        "FF1" => fraction(1),
        "FF2" => fraction(2),
        "FF4" => fraction(4),
        "FF5" => fraction(5),
        "MM" => (clock.month, 2),
        "DD" => narrow(clock.day, 2),
        "DDD" => narrow(clock.day_of_year, 3),
        "D" => (i64::from(day(clock)?.weekday) + 1, 0),
        "ID" => (i64::from(day(clock)?.iso_weekday), 0),
        "IDDD" => {
            let day = day(clock)?;
            ((day.iso_week - 1) * 7 + i64::from(day.iso_weekday), 3)
        }
        "WW" => narrow((clock.day_of_year - 1) / 7 + 1, 2),
        "IW" => (day(clock)?.iso_week, 2),
        "W" => ((clock.day - 1) / 7 + 1, 0),
        // An interval without months is in no quarter.
        "Q" if clock.month == 0 => return Ok(None),
        "Q" => ((clock.month - 1) / 3 + 1, 0),
        "CC" => (century(clock), 2),
        "J" => (day(clock)?.julian, 0),
        "YYYY" => (year, 4),
        "YYY" => (year % 1_000, 3),
        "YY" => (year % 100, 2),
        "Y" => (year % 10, 1),
        "IYYY" => (iso_year()?, 4),
        "IYY" => (iso_year()? % 1_000, 3),
        "IY" => (iso_year()? % 100, 2),
        "I" => (iso_year()? % 10, 1),
        _ => return Ok(None),
    }))
}

fn century(clock: &Clock) -> i64 {
    match (clock.date.is_some(), clock.year > 0) {
        (false, _) => clock.year / 100,
        (true, true) => (clock.year - 1) / 100 + 1,
        (true, false) => clock.year / 100 - 1,
    }
}

fn push_name(field: &Field, clock: &Clock, out: &mut String) -> Result<(), SqlError> {
    let (name, width) = match field.word {
        "MONTH" => (month(clock)?, NAME_WIDTH),
        "MON" => (&month(clock)?[..3], 0),
        "DAY" => (DAYS[day(clock)?.weekday as usize], NAME_WIDTH),
        "DY" => (&DAYS[day(clock)?.weekday as usize][..3], 0),
        "RM" => match roman_month(clock) {
            Some(month) => (month, 4),
            None => return Ok(()),
        },
        "Y,YYY" => {
            let year = counted(clock.year, clock);
            let _ = write!(out, "{},{:03}", year / 1_000, year % 1_000);
            return Ok(());
        }
        "AM" | "PM" => (if clock.hour % 24 >= 12 { "PM" } else { "AM" }, 0),
        "A.M." | "P.M." => (if clock.hour % 24 >= 12 { "P.M." } else { "A.M." }, 0),
        "BC" | "AD" => (if day(clock).is_ok() && clock.year <= 0 { "BC" } else { "AD" }, 0),
        "B.C." | "A.D." => (if day(clock).is_ok() && clock.year <= 0 { "B.C." } else { "A.D." }, 0),
        word => {
            let offset = clock.offset.as_ref();
            push_offset(word, field.case, offset, out);
            return Ok(());
        }
    };
    let cased = match field.case {
        Case::Capital => name.to_owned(),
        Case::Upper => name.to_uppercase(),
        Case::Lower => name.to_lowercase(),
    };
    let width = if field.is_short { 0 } else { width };
    let _ = write!(out, "{cased:width$}");
    Ok(())
}

/// Months of an interval are counted from its end where they are negative; whole years have the last one, or the first one before
/// that. Nothing of an interval without either.
fn roman_month(clock: &Clock) -> Option<&'static str> {
    let place = match (clock.month, clock.year) {
        (0, 0) => return None,
        (0, 1..) => 11,
        (0, _) => 0,
        (month @ ..0, _) => 12 + month,
        (month, _) => month - 1,
    };
    usize::try_from(place).ok().and_then(|place| ROMAN_MONTHS.get(place)).copied()
}

fn month(clock: &Clock) -> Result<&'static str, SqlError> {
    day(clock)?;
    let place = usize::try_from(clock.month - 1).ok();
    place
        .and_then(|place| MONTHS.get(place))
        .copied()
        .ok_or_else(|| SqlError::internal("a month of no number"))
}

/// The zone; nothing for a time without one, but its offset is then that of UTC.
fn push_offset(word: &str, case: Case, offset: Option<&Offset>, out: &mut String) {
    let seconds = offset.map_or(0, |offset| offset.seconds);
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
    let _ = match (word, offset) {
        ("TZ", Some(offset)) if case == Case::Lower => write!(out, "{}", offset.name.to_lowercase()),
        ("TZ", Some(offset)) => write!(out, "{}", offset.name),
        ("TZH", _) => write!(out, "{sign}{hours:02}"),
        ("TZM", _) => write!(out, "{minutes:02}"),
        ("OF", _) if minutes != 0 => write!(out, "{sign}{hours:02}:{minutes:02}"),
        ("OF", _) => write!(out, "{sign}{hours:02}"),
        _ => Ok(()),
    };
}

/// `st`, `nd`, `rd`, `th` of a number.
fn ordinal_ending(number: &str) -> &'static str {
    let digits = number.as_bytes();
    let is_teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match digits.last() {
        Some(b'1') if !is_teen => "st",
        Some(b'2') if !is_teen => "nd",
        Some(b'3') if !is_teen => "rd",
        _ => "th",
    }
}
