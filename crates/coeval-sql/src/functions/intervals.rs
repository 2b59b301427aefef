// SPDX-License-Identifier: Apache-2.0
//! Times put together and taken apart: `age`, `justify_days`, `make_interval`, `make_timestamp` ...

use super::call::{Call, invalid};
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use crate::types::{
    Clock, INSTANT_AFTER, INSTANT_BEFORE, clock_named, instant_after, is_date, is_timestamp, local_to_utc,
    utc_to_local,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use coeval_store::{ColumnType, IntervalValue, Value};

const TIMESTAMP: Takes = Takes::Type(ColumnType::Timestamp);
const TIMESTAMPTZ: Takes = Takes::Type(ColumnType::TimestampTz);
const INTERVAL: Takes = Takes::Type(ColumnType::Interval);
const INT: Takes = Takes::Type(ColumnType::Int);
const DOUBLE: Takes = Takes::Type(ColumnType::Double);
const TEXT: Takes = Takes::Type(ColumnType::Text);

/// The function that leaves an interval its fields down to one of them: `(interval, field)`.
pub(crate) const INTERVAL_DOWN_TO: &str = "coeval_interval_down_to";

/// The function behind the difference of two times.
pub(crate) const TIME_BETWEEN: &str = "coeval_time_between";

const MICROS_PER_SECOND: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND * 1_000;
const DAYS_PER_MONTH: i32 = 30;

pub(super) const ENTRIES: &[Entry] = &[
    strict(
        "age",
        &[
            Form::new(&[TIMESTAMPTZ, TIMESTAMPTZ], ColumnType::Interval, |call| {
                let local = |place| utc_to_local(finite(call, place)?, call.zone).ok_or_else(no_time);
                age(local(0)?, local(1)?)
            }),
            Form::new(&[TIMESTAMP, TIMESTAMP], ColumnType::Interval, |call| {
                age(finite(call, 0)?, finite(call, 1)?)
            }),
        ],
    )
    .stable(),
    strict(
        TIME_BETWEEN,
        &[
            Form::new(&[TIMESTAMPTZ, TIMESTAMPTZ], ColumnType::Interval, time_between),
            Form::new(&[TIMESTAMP, TIMESTAMP], ColumnType::Interval, time_between),
        ],
    ),
    strict(
        INSTANT_AFTER,
        &[Form::new(&[TIMESTAMPTZ, INTERVAL], ColumnType::TimestampTz, |call| moved(call, call.interval(1)))],
    )
    .stable(),
    strict(
        INSTANT_BEFORE,
        &[Form::new(&[TIMESTAMPTZ, INTERVAL], ColumnType::TimestampTz, |call| {
            moved(call, negated(call.interval(1))?)
        })],
    )
    .stable(),
    strict(
        INTERVAL_DOWN_TO,
        &[Form::new(&[INTERVAL, TEXT], ColumnType::Interval, |call| {
            Ok(Value::Interval(down_to(call.text(1), call.interval(0))))
        })],
    ),
    strict("justify_days", &[Form::new(&[INTERVAL], ColumnType::Interval, justified_days)]),
    strict("justify_hours", &[Form::new(&[INTERVAL], ColumnType::Interval, justified_hours)]),
    strict("justify_interval", &[Form::new(&[INTERVAL], ColumnType::Interval, justified)]),
    strict(
        "make_interval",
        &[Form::new(&[INT, INT, INT, INT, INT, INT, DOUBLE], ColumnType::Interval, made_interval)
            .optional(7)],
    ),
    strict("make_date", &[Form::new(&[INT, INT, INT], ColumnType::Date, made_date)]),
    strict(
        "make_time",
        &[Form::new(&[INT, INT, DOUBLE], ColumnType::Time, |call| time_of_day(call, 0).map(Value::Int64))],
    ),
    strict(
        "make_timestamp",
        &[Form::new(&[INT, INT, INT, INT, INT, DOUBLE], ColumnType::Timestamp, |call| {
            made_timestamp(call).map(Value::Int64)
        })],
    ),
    strict(
        "make_timestamptz",
        &[Form::new(&[INT, INT, INT, INT, INT, DOUBLE, TEXT], ColumnType::TimestampTz, made_timestamptz)
            .optional(1)],
    )
    .stable(),
    strict(
        "timestamptz",
        &[Form::new(
            &[Takes::Type(ColumnType::Date), Takes::Type(ColumnType::Time)],
            ColumnType::TimestampTz,
            instant_of,
        )],
    )
    .stable(),
    strict(
        "isfinite",
        &[
            Form::new(&[TIMESTAMP], ColumnType::Boolean, is_finite),
            Form::new(&[TIMESTAMPTZ], ColumnType::Boolean, is_finite),
            Form::new(&[INTERVAL], ColumnType::Boolean, |_| Ok(Value::Boolean(true))),
        ],
    ),
];

/// What is below the field is cut off, as in PostgreSQL, whichever fields there are above it.
fn down_to(field: &str, interval: IntervalValue) -> IntervalValue {
    const NANOS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND * 1_000;
    let IntervalValue { months, days, nanoseconds } = interval;
    let whole = |unit: i64| nanoseconds / unit * unit;
    match field {
        "year" => IntervalValue { months: months / 12 * 12, days: 0, nanoseconds: 0 },
        "month" => IntervalValue { months, days: 0, nanoseconds: 0 },
        "day" => IntervalValue { months, days, nanoseconds: 0 },
        "hour" => IntervalValue { months, days, nanoseconds: whole(60 * NANOS_PER_MINUTE) },
        "minute" => IntervalValue { months, days, nanoseconds: whole(NANOS_PER_MINUTE) },
        _ => interval,
    }
}

/// `end - start`, in days and time.
fn time_between(call: &Call<'_>) -> Result<Value, SqlError> {
    if [0, 1].iter().any(|&place| matches!(call.int(place), i64::MAX | i64::MIN)) {
        let message = "cannot subtract infinite timestamps";
        return Err(SqlError::new(SqlState::DatetimeFieldOverflow, message));
    }
    let micros = finite(call, 0)? - finite(call, 1)?;
    let per_day = NANOS_PER_DAY / 1_000;
    let days = i32::try_from(micros / per_day).map_err(|_| interval_out_of_range())?;
    Ok(Value::Interval(IntervalValue { months: 0, days, nanoseconds: micros % per_day * 1_000 }))
}

/// The instant so much later, by the clocks of the session's zone.
fn moved(call: &Call<'_>, interval: IntervalValue) -> Result<Value, SqlError> {
    let instant = call.int(0);
    if matches!(instant, i64::MAX | i64::MIN) {
        return Ok(Value::Int64(instant));
    }
    let moved = instant_after(instant, interval, call.zone).filter(|&micros| is_timestamp(micros));
    moved.map(Value::Int64).ok_or_else(no_time)
}

fn negated(interval: IntervalValue) -> Result<IntervalValue, SqlError> {
    let IntervalValue { months, days, nanoseconds } = interval;
    let negated = || {
        let (months, days) = (months.checked_neg()?, days.checked_neg()?);
        Some(IntervalValue { months, days, nanoseconds: nanoseconds.checked_neg()? })
    };
    negated().ok_or_else(interval_out_of_range)
}

fn no_time() -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")
}

fn finite(call: &Call<'_>, place: usize) -> Result<i64, SqlError> {
    let micros = call.int(place);
    if is_timestamp(micros) { Ok(micros) } else { Err(no_time()) }
}

fn is_finite(call: &Call<'_>) -> Result<Value, SqlError> {
    Ok(Value::Boolean(!matches!(call.int(0), i64::MAX | i64::MIN)))
}

/// The time from one to another in years, months, days and hours as they are counted on a calendar: a month is as
/// long as the one in which the earlier time lies.
fn age(end: i64, start: i64) -> Result<Value, SqlError> {
    let sign = if end < start { -1 } else { 1 };
    let time = |micros| DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc());
    let (Some(end), Some(start)) = (time(end), time(start)) else { return Err(no_time()) };
    let (late, early) = if sign < 0 { (start, end) } else { (end, start) };
    let mut months = (late.year() - early.year()) * 12 + late.month() as i32 - early.month() as i32;
    let mut days = late.day() as i32 - early.day() as i32;
    let mut micros = micros_of_day(late) - micros_of_day(early);
    if micros < 0 {
        micros += NANOS_PER_DAY / 1_000;
        days -= 1;
    }
    while days < 0 {
        days += days_in_month(start_of_count(sign, end, start));
        months -= 1;
    }
    Ok(Value::Interval(IntervalValue {
        months: sign * months,
        days: sign * days,
        nanoseconds: i64::from(sign) * micros * 1_000,
    }))
}

/// Whose month fills up negative days: the one of the earlier time.
fn start_of_count(sign: i32, end: NaiveDateTime, start: NaiveDateTime) -> NaiveDateTime {
    if sign < 0 { end } else { start }
}

fn micros_of_day(time: NaiveDateTime) -> i64 {
    i64::from(time.num_seconds_from_midnight()) * MICROS_PER_SECOND + i64::from(time.nanosecond()) / 1_000
}

fn days_in_month(time: NaiveDateTime) -> i32 {
    i32::from(time.date().num_days_in_month())
}

fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, "interval out of range")
}

/// Moves whole days out of the time, so that both have one sign.
fn justified_hours(call: &Call<'_>) -> Result<Value, SqlError> {
    let IntervalValue { months, days, nanoseconds } = call.interval(0);
    let mut days = i64::from(days) + nanoseconds / NANOS_PER_DAY;
    let mut nanoseconds = nanoseconds % NANOS_PER_DAY;
    same_sign(&mut days, &mut nanoseconds, NANOS_PER_DAY);
    interval(i64::from(months), days, nanoseconds)
}

/// Moves whole months of thirty days out of the days, so that both have one sign.
fn justified_days(call: &Call<'_>) -> Result<Value, SqlError> {
    let IntervalValue { months, days, nanoseconds } = call.interval(0);
    let mut months = i64::from(months) + i64::from(days / DAYS_PER_MONTH);
    let mut days = i64::from(days % DAYS_PER_MONTH);
    same_sign(&mut months, &mut days, i64::from(DAYS_PER_MONTH));
    interval(months, days, nanoseconds)
}

/// Both, so that all three parts have one sign.
fn justified(call: &Call<'_>) -> Result<Value, SqlError> {
    let IntervalValue { months, days, nanoseconds } = call.interval(0);
    let per_month = i64::from(DAYS_PER_MONTH);
    let mut days = i64::from(days) + nanoseconds / NANOS_PER_DAY;
    let mut nanoseconds = nanoseconds % NANOS_PER_DAY;
    let mut months = i64::from(months) + days / per_month;
    days %= per_month;
    if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
        days += per_month;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && nanoseconds > 0)) {
        days -= per_month;
        months += 1;
    }
    same_sign(&mut days, &mut nanoseconds, NANOS_PER_DAY);
    interval(months, days, nanoseconds)
}

/// Takes one off the large part if the small one has another sign.
fn same_sign(large: &mut i64, small: &mut i64, per_large: i64) {
    if *large > 0 && *small < 0 {
        *small += per_large;
        *large -= 1;
    } else if *large < 0 && *small > 0 {
        *small -= per_large;
        *large += 1;
    }
}

fn interval(months: i64, days: i64, nanoseconds: i64) -> Result<Value, SqlError> {
    let part = |number: i64| i32::try_from(number).map_err(|_| interval_out_of_range());
    Ok(Value::Interval(IntervalValue { months: part(months)?, days: part(days)?, nanoseconds }))
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`; those left out are zero.
fn made_interval(call: &Call<'_>) -> Result<Value, SqlError> {
    let seconds = call.double(6);
    let micros = (seconds * MICROS_PER_SECOND as f64).round_ties_even();
    if !micros.is_finite() || micros.abs() >= i64::MAX as f64 {
        return Err(interval_out_of_range());
    }
    let whole = (call.int(4) * 3_600 + call.int(5) * 60) * MICROS_PER_SECOND;
    let nanoseconds = whole
        .checked_add(micros as i64)
        .and_then(|micros| micros.checked_mul(1_000))
        .ok_or_else(interval_out_of_range)?;
    interval(call.int(0) * 12 + call.int(1), call.int(2) * 7 + call.int(3), nanoseconds)
}

/// The microseconds of hours, minutes and seconds at this place and the next two.
fn time_of_day(call: &Call<'_>, place: usize) -> Result<i64, SqlError> {
    let (hours, minutes, seconds) = (call.int(place), call.int(place + 1), call.double(place + 2));
    let is_time = (0..24).contains(&hours) && (0..60).contains(&minutes) && (0.0..=60.0).contains(&seconds);
    let is_midnight = hours == 24 && minutes == 0 && seconds == 0.0;
    if !is_time && !is_midnight {
        let message = format!("time field value out of range: {hours}:{minutes:02}:{seconds:02}");
        return Err(SqlError::new(SqlState::DatetimeFieldOverflow, message));
    }
    let micros = (seconds * MICROS_PER_SECOND as f64).round_ties_even() as i64;
    Ok((hours * 3_600 + minutes * 60) * MICROS_PER_SECOND + micros)
}

/// The day of a year, a month and a day of it, the first three arguments. There is no year zero: before 1 AD comes 1 BC.
fn day_of(call: &Call<'_>) -> Result<NaiveDate, SqlError> {
    let (year, month, day) = (call.int(0), call.int(1), call.int(2));
    let astronomical = if year < 0 { year + 1 } else { year };
    let date = || {
        let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
        NaiveDate::from_ymd_opt(i32::try_from(astronomical).ok()?, month, day)
    };
    date().filter(|_| year != 0).ok_or_else(|| {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        SqlError::new(SqlState::DatetimeFieldOverflow, message)
    })
}

fn made_date(call: &Call<'_>) -> Result<Value, SqlError> {
    let days = day_of(call)?.signed_duration_since(NaiveDate::default()).num_days();
    let days = i32::try_from(days).ok().filter(|&days| is_date(days));
    days.map(Value::Int32).ok_or_else(|| {
        let message = format!("date out of range: {}-{:02}-{:02}", call.int(0), call.int(1), call.int(2));
        SqlError::new(SqlState::DatetimeFieldOverflow, message)
    })
}

/// The instant at which clocks of the session's zone show a time of a day.
fn instant_of(call: &Call<'_>) -> Result<Value, SqlError> {
    let days = call.int(0);
    if days == i64::from(i32::MAX) {
        return Ok(Value::Int64(i64::MAX));
    }
    if days == i64::from(i32::MIN) {
        return Ok(Value::Int64(i64::MIN));
    }
    let midnight = days.checked_mul(NANOS_PER_DAY / 1_000);
    let local = midnight.and_then(|midnight| midnight.checked_add(call.int(1)));
    let instant = local.and_then(|local| local_to_utc(local, call.zone));
    instant.filter(|&micros| is_timestamp(micros)).map(Value::Int64).ok_or_else(no_time)
}

fn made_timestamp(call: &Call<'_>) -> Result<i64, SqlError> {
    let midnight = day_of(call)?.and_hms_opt(0, 0, 0).map(|time| time.and_utc().timestamp_micros());
    let micros = midnight.ok_or_else(no_time)? + time_of_day(call, 3)?;
    if is_timestamp(micros) { Ok(micros) } else { Err(no_time()) }
}

fn made_timestamptz(call: &Call<'_>) -> Result<Value, SqlError> {
    let local = made_timestamp(call)?;
    let clock = match call.count() {
        7 => {
            let name = call.text(6);
            // A bare offset counts east here, as behind a time.
            let offset = crate::types::offset(name).map(Clock::Offset);
            let clock = offset.or_else(|| clock_named(name));
            clock.ok_or_else(|| invalid(format!("time zone \"{name}\" not recognized")))?
        }
        _ => Clock::Region(call.zone),
    };
    clock.to_utc(local).map(Value::Int64).ok_or_else(no_time)
}
