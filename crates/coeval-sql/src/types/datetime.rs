// SPDX-License-Identifier: Apache-2.0
//! Dates, times, timestamps and intervals as text, in ISO order as PostgreSQL prints them.

use chrono::format::{Parsed, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use chrono_tz::Tz;
use coeval_store::IntervalValue;
use std::borrow::Cow;
use std::fmt::Write;

const MICROS_PER_SECOND: i64 = 1_000_000;
const NANOS_PER_MICRO: i64 = 1_000;
const UNIX_EPOCH_DAY_FROM_CE: i32 = 719_163;

/// The first day, 4714-11-24 BC, as in PostgreSQL: day 0 of the Julian calendar's count.
const FIRST_DAY: i32 = -2_440_588;
/// The last day, 262141-12-31: the calendar that we count with ends a year later, and zones need some room.
const LAST_DAY: i32 = 95_025_871;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Whether there is a day of this number, infinity aside.
pub(crate) fn is_date(days: i32) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days)
}

/// Whether there is a time of this number, infinity aside.
pub(crate) fn is_timestamp(micros: i64) -> bool {
    i32::try_from(micros.div_euclid(MICROS_PER_DAY)).is_ok_and(is_date)
}

/// The text of the date or timestamp after all others; the greatest number stands for it.
const INFINITY: &str = "infinity";
/// The text of the one before all others.
const MINUS_INFINITY: &str = "-infinity";

/// -1, 0 or 1 for text that is minus infinity, a date, or infinity.
fn infinity(text: &str) -> i32 {
    let word = text.to_ascii_lowercase();
    i32::from(word == INFINITY || word == "+infinity") - i32::from(word == MINUS_INFINITY)
}

/// A date as `2024-02-29`, with ` BC` before year one.
pub(crate) fn format_date(days: i32, out: &mut String) {
    match days {
        i32::MAX => return out.push_str(INFINITY),
        i32::MIN => return out.push_str(MINUS_INFINITY),
        _ => {}
    }
    match days.checked_add(UNIX_EPOCH_DAY_FROM_CE).and_then(NaiveDate::from_num_days_from_ce_opt) {
        Some(date) => write_date(date, out, ""),
        None => out.push_str("out of range"),
    }
}

fn write_date(date: NaiveDate, out: &mut String, rest: &str) {
    let (year, era) = if date.year() > 0 { (date.year(), "") } else { (1 - date.year(), " BC") };
    let _ = write!(out, "{year:04}-{:02}-{:02}{rest}{era}", date.month(), date.day());
}

fn write_fraction(micros: i64, out: &mut String) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// A time as `12:34:56.789`.
pub(crate) fn format_time(micros: i64, out: &mut String) {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    write_fraction(micros.rem_euclid(MICROS_PER_SECOND), out);
}

/// A timestamp as `2024-02-29 12:34:56.789`, in a zone with its offset behind: `+01`.
pub(crate) fn format_timestamp(micros: i64, zone: Option<Tz>, out: &mut String) {
    match micros {
        i64::MAX => return out.push_str(INFINITY),
        i64::MIN => return out.push_str(MINUS_INFINITY),
        _ => {}
    }
    let Some(utc) = DateTime::from_timestamp_micros(micros) else {
        out.push_str("out of range");
        return;
    };
    let (local, offset) = match zone {
        None => (utc.naive_utc(), None),
        Some(zone) => {
            let local = utc.with_timezone(&zone);
            let offset = local.naive_local().signed_duration_since(utc.naive_utc()).num_seconds();
            (local.naive_local(), Some(offset))
        }
    };
    let mut time = String::with_capacity(16);
    let of_day = i64::from(local.num_seconds_from_midnight()) * MICROS_PER_SECOND
        + i64::from(local.nanosecond()) / NANOS_PER_MICRO;
    time.push(' ');
    format_time(of_day, &mut time);
    if let Some(offset) = offset {
        let sign = if offset < 0 { '-' } else { '+' };
        let offset = offset.abs();
        let _ = write!(time, "{sign}{:02}", offset / 3600);
        if offset % 3600 != 0 {
            let _ = write!(time, ":{:02}", offset / 60 % 60);
        }
        if offset % 60 != 0 {
            let _ = write!(time, ":{:02}", offset % 60);
        }
    }
    write_date(local.date(), out, &time);
}

/// The days since 1970-01-01 of a date in text; `None` if it is no date or out of range.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    match infinity(text) {
        1 => return Some(i32::MAX),
        -1 => return Some(i32::MIN),
        _ => {}
    }
    let (text, is_before_christ) = without_era(text);
    let text = text.split_once([' ', 'T']).map_or(text, |(date, _)| date);
    let signed = with_sign(text);
    let forms = [(&*signed, "%Y-%m-%d"), (text, "%Y%m%d"), (text, "%Y/%m/%d"), (text, "%m/%d/%Y")];
    let date = forms.iter().find_map(|(text, form)| {
        let mut fields = Parsed::new();
        chrono::format::parse(&mut fields, text, StrftimeItems::new(form)).ok()?;
        let year = fields.year()?;
        // The year before year one is zero: which years have a 29 February depends on it.
        let year = if is_before_christ { 1_i32.checked_sub(year)? } else { year };
        NaiveDate::from_ymd_opt(year, fields.month()?, fields.day()?)
    })?;
    Some(date.num_days_from_ce() - UNIX_EPOCH_DAY_FROM_CE).filter(|&days| is_date(days))
}

/// The text with a sign before a year of more than four digits, which the calendar wants there.
fn with_sign(text: &str) -> Cow<'_, str> {
    let is_long = text.split('-').next().is_some_and(|year| year.len() > 4 && year.len() < text.len());
    if is_long && text.starts_with(|c: char| c.is_ascii_digit()) {
        Cow::Owned(format!("+{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text without a `BC` behind it, and whether there was one.
fn without_era(text: &str) -> (&str, bool) {
    let without = |era: &str| {
        text.get(text.len().checked_sub(era.len())?..).filter(|end| end.eq_ignore_ascii_case(era))
    };
    match (without(" bc"), without(" ad")) {
        (Some(era), _) => (text[..text.len() - era.len()].trim_end(), true),
        (_, Some(era)) => (text[..text.len() - era.len()].trim_end(), false),
        (None, None) => (text, false),
    }
}

/// Whether text that is no date has the form of one, so that its fields are what is wrong (22008).
pub(crate) fn looks_like_date(text: &str) -> bool {
    let mut parts = text.trim().split([' ', 'T']).next().unwrap_or_default().split('-');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    number(parts.next()) && number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

/// Whether text that is no time has the form of one.
pub(crate) fn looks_like_time(text: &str) -> bool {
    let mut parts = text.trim().split(':');
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.contains(':') && parts.all(number)
}

/// The microseconds since midnight of a time in text.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    if text == "24:00:00" || text == "24:00" {
        return Some(86_400 * MICROS_PER_SECOND);
    }
    let time = NaiveTime::parse_from_str(text, "%H:%M:%S%.f")
        .or_else(|_| NaiveTime::parse_from_str(text, "%H:%M"))
        .or_else(|_| NaiveTime::parse_from_str(text, "%I:%M:%S %p"))
        .or_else(|_| NaiveTime::parse_from_str(text, "%I:%M %p"))
        .ok()?;
    let rounded = (i64::from(time.nanosecond()) + NANOS_PER_MICRO / 2) / NANOS_PER_MICRO;
    Some(i64::from(time.num_seconds_from_midnight()) * MICROS_PER_SECOND + rounded)
}

/// The microseconds since midnight. An offset behind the time is passed over, as PostgreSQL does.
pub(crate) fn parse_time_of_day(text: &str) -> Option<i64> {
    let (time, _) = split_offset(text.trim());
    parse_time(time)
}

/// The microseconds since 1970-01-01 of a timestamp in text. An offset in the text counts if `zone` is given
/// and is passed over if not, as PostgreSQL does; without one the text is local time of `zone`.
pub(crate) fn parse_timestamp(text: &str, zone: Option<Tz>) -> Option<i64> {
    let text = text.trim();
    match infinity(text) {
        1 => return Some(i64::MAX),
        -1 => return Some(i64::MIN),
        _ => {}
    }
    let (text, is_before_christ) = without_era(text);
    let (date, rest) = match text.find([' ', 'T', 't']) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => (text, ""),
    };
    let days = if is_before_christ { parse_date(&format!("{date} BC"))? } else { parse_date(date)? };
    let days = i64::from(days);
    let (time, offset) = split_offset(rest);
    let time = if time.is_empty() { 0 } else { parse_time(time)? };
    let local = days.checked_mul(MICROS_PER_DAY)?.checked_add(time)?;
    let utc = match (zone, offset) {
        (None, _) => Some(local),
        (Some(_), Some(offset)) => Some(local - parse_offset(offset, local)? * MICROS_PER_SECOND),
        (Some(zone), None) => local_to_utc(local, zone),
    };
    utc.filter(|&micros| is_timestamp(micros))
}

/// A local time of a zone as UTC; of an ambiguous one the earlier, of a skipped one as if before the gap.
pub(crate) fn local_to_utc(local: i64, zone: Tz) -> Option<i64> {
    let naive: NaiveDateTime = DateTime::from_timestamp_micros(local)?.naive_utc();
    match naive.and_local_timezone(zone).earliest() {
        Some(time) => Some(time.timestamp_micros()),
        None => {
            let before = (naive - chrono::Duration::hours(3)).and_local_timezone(zone).earliest()?;
            Some(before.timestamp_micros() + 3 * 3600 * MICROS_PER_SECOND)
        }
    }
}

/// UTC as local time of a zone.
pub(crate) fn utc_to_local(utc: i64, zone: Tz) -> Option<i64> {
    let time = DateTime::from_timestamp_micros(utc)?.with_timezone(&zone);
    Some(time.naive_local().and_utc().timestamp_micros())
}

fn split_offset(rest: &str) -> (&str, Option<&str>) {
    match rest.find(['+', '-', 'Z', 'z']) {
        Some(at) => (rest[..at].trim(), Some(rest[at..].trim())),
        // A zone's name behind the time.
        None => match rest.split_once(' ') {
            Some((time, zone)) if zone.starts_with(|c: char| c.is_alphabetic()) && !is_half_day(zone) => {
                (time, Some(zone.trim()))
            }
            Some(_) | None => (rest, None),
        },
    }
}

fn is_half_day(word: &str) -> bool {
    word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm")
}

/// Seconds east of UTC of `+02`, `-03:30`, `Z`, `Europe/Berlin`.
fn parse_offset(text: &str, local: i64) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => {
            let zone: Tz = text.parse().ok()?;
            return Some((local - local_to_utc(local, zone)?) / MICROS_PER_SECOND);
        }
    };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part =
        |range: std::ops::Range<usize>| digits.get(range).map_or(Some(0), |part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = if digits.len() <= 2 {
        (digits.parse::<i64>().ok()?, 0, 0)
    } else {
        (part(0..2)?, part(2..4)?, if digits.len() == 6 { part(4..6)? } else { 0 })
    };
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// An interval as PostgreSQL's style `postgres` prints it: `1 year 2 mons 3 days 04:05:06.789`.
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
        write_fraction(micros % MICROS_PER_SECOND, out);
    }
}

/// The interval in text: `1 year 2 mons`, `3 days ago`, `04:05:06`, `1.5 hours`.
pub(crate) fn parse_interval(text: &str) -> Option<IntervalValue> {
    let mut value = IntervalValue::default();
    let mut pending: Option<f64> = None;
    let mut seen = false;
    let mut ago = false;
    for word in split_words(text) {
        if word.eq_ignore_ascii_case("ago") {
            ago = true;
        } else if word.contains(':') {
            value.nanoseconds = value.nanoseconds.checked_add(parse_clock(&word)?)?;
            seen = true;
        } else if let Ok(number) = word.parse::<f64>() {
            if pending.replace(number).is_some() {
                return None;
            }
        } else if word != "@" {
            add_unit(&mut value, pending.take()?, &word.to_ascii_lowercase())?;
            seen = true;
        }
    }
    if let Some(seconds) = pending {
        add_unit(&mut value, seconds, "second")?;
        seen = true;
    }
    if ago {
        value = IntervalValue { months: -value.months, days: -value.days, nanoseconds: -value.nanoseconds };
    }
    seen.then_some(value)
}

/// Words of an interval: `3days` is two.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        match word.find(|c: char| c.is_ascii_alphabetic()) {
            Some(at) if at > 0 && !word.contains(':') => {
                words.push(word[..at].to_owned());
                words.push(word[at..].to_owned());
            }
            Some(_) | None => words.push(word.to_owned()),
        }
    }
    words
}

fn parse_clock(word: &str) -> Option<i64> {
    let (sign, word) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = word.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: f64 = match parts.next() {
        Some(seconds) => seconds.parse().ok()?,
        None => 0.0,
    };
    let micros = (seconds * MICROS_PER_SECOND as f64).round() as i64;
    let total =
        hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_mul(MICROS_PER_SECOND)?;
    total.checked_add(micros)?.checked_mul(NANOS_PER_MICRO)?.checked_mul(sign)
}

fn add_unit(value: &mut IntervalValue, count: f64, unit: &str) -> Option<()> {
    const HOUR_NANOS: f64 = 3.6e12;
    let unit = if unit.len() > 2 { unit.strip_suffix('s').unwrap_or(unit) } else { unit };
    let months = match unit {
        "year" | "yr" | "y" => Some(12.0),
        "month" | "mon" => Some(1.0),
        "decade" => Some(120.0),
        "century" | "centurie" | "c" => Some(1200.0),
        "millennium" => Some(12000.0),
        _ => None,
    };
    if let Some(months) = months {
        let total = count * months;
        value.months = value.months.checked_add(to_i32(total.trunc())?)?;
        return add_days(value, total.fract() * 30.0);
    }
    let nanos = match unit {
        "week" | "w" => return add_days(value, count * 7.0),
        "day" | "d" => return add_days(value, count),
        "hour" | "hr" | "h" => HOUR_NANOS,
        "minute" | "min" | "m" => HOUR_NANOS / 60.0,
        "second" | "sec" | "s" => 1e9,
        "millisecond" | "msec" | "ms" => 1e6,
        "microsecond" | "usec" | "us" => 1e3,
        _ => return None,
    };
    add_nanos(value, count * nanos)
}

fn add_days(value: &mut IntervalValue, days: f64) -> Option<()> {
    value.days = value.days.checked_add(to_i32(days.trunc())?)?;
    add_nanos(value, days.fract() * 8.64e13)
}

fn add_nanos(value: &mut IntervalValue, nanos: f64) -> Option<()> {
    // PostgreSQL counts microseconds.
    let rounded = (nanos / 1e3).round() * 1e3;
    if rounded.abs() > i64::MAX as f64 {
        return None;
    }
    value.nanoseconds = value.nanoseconds.checked_add(rounded as i64)?;
    Some(())
}

fn to_i32(value: f64) -> Option<i32> {
    (value.abs() <= f64::from(i32::MAX)).then_some(value as i32)
}
