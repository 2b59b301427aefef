// SPDX-License-Identifier: Apache-2.0
//! Times of day with a zone: those an interval later or earlier, and such a time on a date.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, SqlState};
use crate::types::{is_timestamp, zoned_time};
use coeval_store::{ColumnType, Value, zoned_time_of};

const ZONED: Takes = Takes::Type(ColumnType::TimeTz);
const INTERVAL: Takes = Takes::Type(ColumnType::Interval);
const DATE: Takes = Takes::Type(ColumnType::Date);

/// The function behind the sum of such a time and an interval.
pub(crate) const ZONED_AFTER: &str = "timetz_pl_interval";
/// The function behind the difference of such a time and an interval.
pub(crate) const ZONED_BEFORE: &str = "timetz_mi_interval";
/// The function behind the sum of a date and such a time.
pub(crate) const ZONED_ON_DATE: &str = "datetimetz_pl";

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

pub(super) const ENTRIES: &[Entry] = &[
    strict(ZONED_AFTER, &[Form::new(&[ZONED, INTERVAL], ColumnType::TimeTz, |call| Ok(moved(call, 1)))]),
    strict(ZONED_BEFORE, &[Form::new(&[ZONED, INTERVAL], ColumnType::TimeTz, |call| Ok(moved(call, -1)))]),
    strict(ZONED_ON_DATE, &[Form::new(&[DATE, ZONED], ColumnType::TimestampTz, on_date)]),
];

/// The time an interval later, or earlier if `sign` is -1. Its days and months are no part of the time of a day.
fn moved(call: &Call<'_>, sign: i64) -> Value {
    let (micros, west) = zoned_time_of(call.bytes(0));
    let span = call.interval(1).nanoseconds / NANOS_PER_MICRO % MICROS_PER_DAY;
    zoned_time((micros + sign * span).rem_euclid(MICROS_PER_DAY), west)
}

/// The instant at which it is that time on a date.
fn on_date(call: &Call<'_>) -> Result<Value, SqlError> {
    let days = match call.int(0) {
        // The ends of the scale stand for the infinities.
        days if days == i64::from(i32::MAX) => return Ok(Value::Int64(i64::MAX)),
        days if days == i64::from(i32::MIN) => return Ok(Value::Int64(i64::MIN)),
        days => days,
    };
    let (micros, west) = zoned_time_of(call.bytes(1));
    let instant = days * MICROS_PER_DAY + micros + i64::from(west) * MICROS_PER_SECOND;
    if is_timestamp(instant) {
        return Ok(Value::Int64(instant));
    }
    Err(SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}
