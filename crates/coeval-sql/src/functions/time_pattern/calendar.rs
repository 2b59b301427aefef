// SPDX-License-Identifier: Apache-2.0
//! A time taken apart into what patterns show of it.

use crate::error::{SqlError, SqlState};
use crate::types::{is_timestamp, utc_to_local};
use chrono::{DateTime, Datelike, Timelike, Weekday};
use chrono_tz::Tz;
use coeval_store::IntervalValue;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
const NANOS_PER_MICRO: i64 = 1_000;

/// The zone of an instant.
pub(super) struct Offset {
    /// As it is called.
    pub(super) name: String,
    /// Seconds east of UTC.
    pub(super) seconds: i64,
}

/// What only a day of the calendar has.
pub(super) struct Day {
    /// From Sunday, which is zero.
    pub(super) weekday: u32,
    /// From Monday, which is one.
    pub(super) iso_weekday: u32,
    pub(super) iso_year: i64,
    pub(super) iso_week: i64,
    /// Days since the beginning of the Julian calendar's count.
    pub(super) julian: i64,
}

/// The parts of a time, or of an interval, whose parts may be negative.
pub(super) struct Clock {
    /// Astronomical: the year before 1 AD is zero.
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) day_of_year: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
    /// `None` for an interval.
    pub(super) date: Option<Day>,
    pub(super) offset: Option<Offset>,
}

impl Clock {
    /// A local time; `None` for infinity.
    pub(super) fn of_timestamp(micros: i64) -> Option<Self> {
        if !is_timestamp(micros) {
            return None;
        }
        let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
        let week = time.iso_week();
        Some(Self {
            year: i64::from(time.year()),
            month: i64::from(time.month()),
            day: i64::from(time.day()),
            day_of_year: i64::from(time.ordinal()),
            hour: i64::from(time.hour()),
            minute: i64::from(time.minute()),
            second: i64::from(time.second()),
            micros: i64::from(time.nanosecond()) / NANOS_PER_MICRO,
            date: Some(Day {
                weekday: time.weekday().num_days_from_sunday(),
                iso_weekday: time.weekday().number_from_monday(),
                iso_year: i64::from(week.year()),
                iso_week: i64::from(week.week()),
                julian: micros.div_euclid(MICROS_PER_DAY) + EPOCH_AS_JULIAN,
            }),
            offset: None,
        })
    }

    /// An instant in a zone; `None` for infinity.
    pub(super) fn of_instant(micros: i64, zone: Tz) -> Option<Self> {
        if !is_timestamp(micros) {
            return None;
        }
        let local = utc_to_local(micros, zone)?;
        let time = DateTime::from_timestamp_micros(micros)?.with_timezone(&zone);
        let offset =
            Offset { name: time.format("%Z").to_string(), seconds: (local - micros) / MICROS_PER_SECOND };
        Some(Self { offset: Some(offset), ..Self::of_timestamp(local)? })
    }

    /// An interval.
    pub(super) fn of_interval(interval: IntervalValue) -> Self {
        let (months, days) = (i64::from(interval.months), i64::from(interval.days));
        let time = interval.nanoseconds / NANOS_PER_MICRO;
        let seconds = time / MICROS_PER_SECOND;
        Self {
            year: months / 12,
            month: months % 12,
            day: days,
            day_of_year: months * 30 + days,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: time % MICROS_PER_SECOND,
            date: None,
            offset: None,
        }
    }

    /// A time of day, which patterns show as an interval.
    pub(super) fn of_time(micros: i64) -> Self {
        Self::of_interval(IntervalValue { months: 0, days: 0, nanoseconds: micros * NANOS_PER_MICRO })
    }
}

/// 1970-01-01 in the Julian calendar's count of days.
pub(super) const EPOCH_AS_JULIAN: i64 = 2_440_588;

/// The day of a week of ISO's calendar, in days since 1970-01-01.
pub(super) fn of_iso_week(year: i32, week: u32, weekday: u32) -> Option<i64> {
    let first = chrono::NaiveDate::from_isoywd_opt(year, 1, Weekday::Mon)?;
    let days = i64::from(first.num_days_from_ce()) - 719_163;
    (1..=53).contains(&week).then(|| days + i64::from(week - 1) * 7 + i64::from(weekday.max(1) - 1))
}

/// The instant so many seconds after 1970 began.
///
/// # Errors
/// `22008` for one that is out of range.
pub(super) fn of_epoch(seconds: f64) -> Result<i64, SqlError> {
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let micros = (seconds * MICROS_PER_SECOND as f64).round_ties_even();
    if micros.abs() < 9.2e18 && is_timestamp(micros as i64) {
        return Ok(micros as i64);
    }
    let message = if seconds.is_nan() {
        "timestamp cannot be NaN".to_owned()
    } else {
        format!("timestamp out of range: \"{seconds}\"")
    };
    Err(SqlError::new(SqlState::DatetimeFieldOverflow, message))
}
