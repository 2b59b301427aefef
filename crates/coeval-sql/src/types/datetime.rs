// SPDX-License-Identifier: Apache-2.0
//! Dates, times and timestamps as text, in ISO order as PostgreSQL prints them; `date_text` reads them.

use super::zones::{MICROS_PER_DAY, MICROS_PER_SECOND};
use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use chrono_tz::Tz;
use std::fmt::Write;

const NANOS_PER_MICRO: i64 = 1_000;
const UNIX_EPOCH_DAY_FROM_CE: i32 = 719_163;

/// The first day, 4714-11-24 BC, as in PostgreSQL: day 0 of the Julian calendar's count.
const FIRST_DAY: i32 = -2_440_588;
/// The last day, 262141-12-31: the calendar that we count with ends a year later, and zones need some room.
const LAST_DAY: i32 = 95_025_871;

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

pub(super) fn write_fraction(micros: i64, out: &mut String) {
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
        write_offset(offset, &mut time);
    }
    write_date(local.date(), out, &time);
}

/// Appends `+02`, `-03:30`, `+00:53:28`, of so many seconds east of Greenwich.
pub(super) fn write_offset(east: i64, out: &mut String) {
    let (sign, offset) = (if east < 0 { '-' } else { '+' }, east.abs());
    let _ = write!(out, "{sign}{:02}", offset / 3600);
    if offset % 3600 != 0 {
        let _ = write!(out, ":{:02}", offset / 60 % 60);
    }
    if offset % 60 != 0 {
        let _ = write!(out, ":{:02}", offset % 60);
    }
}
