// SPDX-License-Identifier: Apache-2.0
//! Parts of points in time and of times of day, which are points in time of 1970-01-01: microseconds of local time.

use super::unit::{JULIAN_SCALE, Of, Unit};
use super::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use crate::error::SqlError;
use chrono::{DateTime, Datelike, NaiveDate};

const SECONDS_PER_HOUR: i64 = 3_600;

/// The number of 1970-01-01 among the days since the first of 4714 before our era.
const JULIAN_OF_1970: i64 = 2_440_588;

/// The part as a number without a point: with as many of its digits behind it as [`Unit::scale`] says. `offset` is how far
/// local time is ahead of the world's, in microseconds.
///
/// # Errors
/// `0A000` if the type has no such part.
pub(super) fn part(unit: Unit, of: Of, local: i64, offset: i64) -> Result<i128, SqlError> {
    let is_zone = matches!(unit, Unit::Zone | Unit::ZoneHour | Unit::ZoneMinute);
    let is_refused = match of {
        Of::Date => unit.is_of_clock(),
        Of::Time => !unit.is_of_clock() && unit != Unit::Epoch,
        Of::TimeTz => !(unit.is_of_clock() || is_zone || unit == Unit::Epoch),
        Of::Timestamp | Of::TimestampTz => false,
        Of::Interval => true,
    };
    if is_refused || (is_zone && !matches!(of, Of::TimestampTz | Of::TimeTz)) {
        return Err(unit.refused(of));
    }
    let days = local.div_euclid(MICROS_PER_DAY);
    let clock = local.rem_euclid(MICROS_PER_DAY);
    if unit == Unit::Julian && of != Of::Date {
        return Ok(julian(days, clock));
    }
    let ahead = offset / MICROS_PER_SECOND;
    Ok(i128::from(match unit {
        Unit::Microseconds | Unit::Milliseconds | Unit::Second => clock % MICROS_PER_MINUTE,
        Unit::Minute => clock % MICROS_PER_HOUR / MICROS_PER_MINUTE,
        Unit::Hour => clock / MICROS_PER_HOUR,
        Unit::Epoch if of == Of::Date => local / MICROS_PER_SECOND,
        Unit::Epoch => local - offset,
        Unit::Julian => days + JULIAN_OF_1970,
        Unit::Zone => ahead,
        Unit::ZoneHour => ahead / SECONDS_PER_HOUR,
        Unit::ZoneMinute => ahead % SECONDS_PER_HOUR / 60,
        _ => of_date(unit, date(local)?),
    }))
}

/// The number of a day, and what has passed of it behind the point, rounded.
fn julian(days: i64, clock: i64) -> i128 {
    let unit = 10_i128.pow(JULIAN_SCALE.unsigned_abs().into());
    let day = i128::from(MICROS_PER_DAY);
    i128::from(days + JULIAN_OF_1970) * unit + (i128::from(clock) * unit + day / 2) / day
}

fn date(local: i64) -> Result<NaiveDate, SqlError> {
    let moment = DateTime::from_timestamp_micros(local).ok_or_else(super::super::moments::out_of_range)?;
    Ok(moment.date_naive())
}

fn of_date(unit: Unit, date: NaiveDate) -> i64 {
    let year = i64::from(date.year());
    match unit {
        Unit::Day => i64::from(date.day()),
        Unit::Week => i64::from(date.iso_week().week()),
        Unit::Month => i64::from(date.month()),
        Unit::Quarter => i64::from(date.month0() / 3 + 1),
        Unit::Decade => year.div_euclid(10),
        Unit::Century => counted(year, 100),
        Unit::Millennium => counted(year, 1_000),
        Unit::IsoYear => shown_year(i64::from(date.iso_week().year())),
        Unit::DayOfWeek => i64::from(date.weekday().num_days_from_sunday()),
        Unit::IsoDayOfWeek => i64::from(date.weekday().number_from_monday()),
        Unit::DayOfYear => i64::from(date.ordinal()),
        _ => shown_year(year),
    }
}

/// There is no year 0: the one before 1 is shown as -1.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// The first century is that of the years 1 to 100, the one before it is -1.
fn counted(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - 1 - (year - 1)) / years) }
}

/// The point in time without what is smaller than the unit.
///
/// # Errors
/// `22023` if nothing can be cut off at such a unit.
pub(super) fn truncated(unit: Unit, of: Of, local: i64) -> Result<i64, SqlError> {
    let size = match unit {
        Unit::Microseconds => 1,
        Unit::Milliseconds => 1_000,
        Unit::Second => MICROS_PER_SECOND,
        Unit::Minute => MICROS_PER_MINUTE,
        Unit::Hour => MICROS_PER_HOUR,
        Unit::Day => MICROS_PER_DAY,
        _ => {
            let first = first_day(unit, date(local)?).ok_or_else(|| unit.refused_as_end(of))?;
            return Ok(first.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros());
        }
    };
    Ok(local - local.rem_euclid(size))
}

/// The first day of the unit that a date is in.
fn first_day(unit: Unit, date: NaiveDate) -> Option<NaiveDate> {
    let year = date.year();
    let (year, month) = match unit {
        Unit::Week => {
            return date
                .checked_sub_days(chrono::Days::new(u64::from(date.weekday().num_days_from_monday())));
        }
        Unit::Month => (year, date.month()),
        Unit::Quarter => (year, date.month0() / 3 * 3 + 1),
        Unit::Year => (year, 1),
        Unit::Decade => (year.div_euclid(10) * 10, 1),
        Unit::Century => ((year - 1).div_euclid(100) * 100 + 1, 1),
        Unit::Millennium => ((year - 1).div_euclid(1_000) * 1_000 + 1, 1),
        _ => return None,
    };
    NaiveDate::from_ymd_opt(year, month, 1)
}
