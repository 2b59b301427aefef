// SPDX-License-Identifier: Apache-2.0
//! Points in time: the same moment in another zone, fewer digits of seconds.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `timestamptz AT TIME ZONE z` | the local time of `z`, a `timestamp` | the same moment, shown otherwise |
//! | `timestamp AT TIME ZONE z` | the moment at which clocks of `z` show it, a `timestamptz` | a type of that zone |
//! | `timetz AT TIME ZONE z` | the same time in Greenwich, as clocks of `z` show it, a `timetz` | not there |
//! | `x::timestamp(0)` | rounded | the digits are ignored |

use super::zoned_times::is_zoned_time;
use crate::constants::made_of_columns;
use crate::error::{SqlError, SqlState};
use crate::types::{Clock, clock_named, session_zone, zoned_elsewhere, zoned_time};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use chrono_tz::Tz;
use coeval_store::{ColumnBuilder, ColumnType, ValueRef, value_at, zoned_time_of};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// The first moment of 2000, from which PostgreSQL counts, and so rounds, microseconds.
const YEAR_2000: i64 = 946_684_800_000_000;
/// Digits behind the point of seconds, at most.
const DIGITS_MAX: u32 = 6;

/// The function that rounds to a number of digits of seconds: `(value, digits)`.
pub(crate) const ROUNDED: &str = "coeval_rounded_time";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `timezone(zone, moment)`.
    Zone,
    Rounded,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentFunction {
    kind: Kind,
    signature: Signature,
}

fn function(kind: Kind) -> ScalarUDF {
    // The zone of the session counts where a date, or a text, stands for a moment.
    let volatility = if kind == Kind::Zone { Volatility::Stable } else { Volatility::Immutable };
    ScalarUDF::from(MomentFunction { kind, signature: Signature::any(2, volatility) })
}

/// Those with names, for the engine's registry.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [function(Kind::Zone), function(Kind::Rounded)]
}

impl ScalarUDFImpl for MomentFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Zone => "timezone",
            Kind::Rounded => ROUNDED,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match (self.kind, types) {
            (Kind::Zone, [_, DataType::Timestamp(_, None)]) => ColumnType::TimestampTz.arrow(),
            (Kind::Zone, [_, time]) if is_zoned_time(time) => time.clone(),
            (Kind::Zone, _) => ColumnType::Timestamp.arrow(),
            (Kind::Rounded, [value, _]) => value.clone(),
            (Kind::Rounded, _) => return Err(SqlError::internal("rounding takes two arguments").into()),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of_columns(&arguments, |inputs| {
            let [first, second] = inputs else {
                return Err(SqlError::internal("a function of moments takes two arguments").into());
            };
            match self.kind {
                Kind::Zone if is_zoned_time(second.data_type()) => time_in_zone(first, second),
                Kind::Zone => in_zone(first, second, session_zone(&arguments.config_options)),
                Kind::Rounded => rounded(first, second),
            }
        })
    }
}

/// Moments as microseconds; local ones too.
pub(super) fn micros(moments: &ArrayRef, ty: ColumnType) -> Result<Int64Array> {
    let moments = cast(moments, &ty.arrow())?;
    Ok(cast(&moments, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

pub(super) fn is_infinite(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN
}

/// `22008`: of a point in time that cannot be.
pub(super) fn out_of_range() -> SqlError {
    overflow("timestamp out of range")
}

/// `22008`, with this message.
pub(super) fn overflow(message: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, message)
}

/// Local moments as those of the world, and the other way round. Dates and texts are moments of the world.
fn in_zone(zones: &ArrayRef, moments: &ArrayRef, session: Tz) -> Result<ArrayRef> {
    let is_local = matches!(moments.data_type(), DataType::Timestamp(_, None));
    let moments = match moments.data_type() {
        ty @ DataType::Timestamp(..) => micros(moments, own_type(ty))?,
        _ => {
            let ty = ColumnType::TimestampTz;
            micros(&crate::scalar::cast_function::cast_array(moments, ty, session)?, ty)?
        }
    };
    let clocks = clocks(zones)?;
    let mut done = Vec::with_capacity(moments.len());
    for (row, clock) in clocks.into_iter().enumerate() {
        let Some(clock) = clock.filter(|_| moments.is_valid(row)) else {
            done.push(None);
            continue;
        };
        let moment = moments.value(row);
        let moved = match (is_infinite(moment), is_local) {
            (true, _) => Some(moment),
            (false, true) => clock.to_utc(moment),
            (false, false) => clock.to_local(moment),
        };
        done.push(Some(moved.ok_or_else(|| overflow("timestamp out of range"))?));
    }
    let done = TimestampMicrosecondArray::from_iter(done);
    Ok(if is_local { Arc::new(done.with_timezone("UTC")) } else { Arc::new(done) })
}

/// Times of day with a zone as clocks of others show them.
fn time_in_zone(zones: &ArrayRef, times: &ArrayRef) -> Result<ArrayRef> {
    let mut moved = ColumnBuilder::new(ColumnType::TimeTz, times.len());
    for (row, clock) in clocks(zones)?.into_iter().enumerate() {
        match (clock, value_at(times, row)) {
            (Some(clock), ValueRef::Bytes(kept)) => {
                moved.push(zoned_elsewhere(kept, clock).ok_or_else(out_of_range)?.borrow());
            }
            _ => moved.push(ValueRef::Null),
        }
    }
    Ok(moved.finish())
}

/// What clocks of each zone follow: zones are named, or are intervals east of Greenwich.
fn clocks(zones: &ArrayRef) -> Result<Vec<Option<Clock>>> {
    if let Some(intervals) = zones.as_primitive_opt::<IntervalMonthDayNanoType>() {
        return intervals.iter().map(|interval| interval.map(clock_east).transpose()).collect();
    }
    let names = cast(zones, &DataType::Utf8)?;
    let mut last: Option<(&str, Clock)> = None;
    let names = names.as_string::<i32>().iter().map(|name| {
        let Some(name) = name else { return Ok(None) };
        let clock = match last {
            Some((known, clock)) if known == name => clock,
            _ => zone_named(name)?,
        };
        last = Some((name, clock));
        Ok(Some(clock))
    });
    names.collect()
}

fn clock_east(interval: IntervalMonthDayNano) -> Result<Clock> {
    if interval.months != 0 || interval.days != 0 {
        let message = "interval time zone must not include months or days";
        return Err(SqlError::new(SqlState::InvalidParameterValue, message).into());
    }
    Ok(Clock::Offset(interval.nanoseconds / NANOS_PER_MICRO / MICROS_PER_SECOND))
}

/// The type of points in time that Arrow has as this one.
pub(super) fn own_type(ty: &DataType) -> ColumnType {
    match ty {
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        _ => ColumnType::TimestampTz,
    }
}

pub(super) fn zone_named(name: &str) -> Result<Clock, SqlError> {
    clock_named(name).ok_or_else(|| {
        SqlError::new(SqlState::InvalidParameterValue, format!("time zone \"{name}\" not recognized"))
            .with_hint("Name it as the IANA database does: 'Europe/Berlin', 'UTC'.")
    })
}

/// Half a unit goes away from zero.
fn round(micros: i64, unit: i64) -> i64 {
    let half = unit / 2;
    let away = if micros < 0 { micros.saturating_sub(half) } else { micros.saturating_add(half) };
    away / unit * unit
}

fn rounded(values: &ArrayRef, digits: &ArrayRef) -> Result<ArrayRef> {
    let digits = cast(digits, &DataType::Int64)?;
    let digits = digits.as_primitive::<Int64Type>();
    let digits = if digits.is_empty() || digits.is_null(0) { DIGITS_MAX } else { digits.value(0) as u32 };
    let unit = 10_i64.pow(DIGITS_MAX.saturating_sub(digits));
    let moment = |micros: i64| {
        if is_infinite(micros) { micros } else { round(micros - YEAR_2000, unit) + YEAR_2000 }
    };
    Ok(match values.data_type() {
        DataType::Timestamp(_, zone) => {
            let moments = micros(values, own_type(values.data_type()))?;
            let rounded = TimestampMicrosecondArray::from_iter(moments.iter().map(|one| one.map(moment)));
            Arc::new(rounded.with_timezone_opt(zone.clone()))
        }
        DataType::Time64(_) => {
            let times = cast(values, &DataType::Int64)?;
            let times: Int64Array = times.as_primitive::<Int64Type>().unary(|micros| round(micros, unit));
            Arc::new(Time64MicrosecondArray::from(times.iter().collect::<Vec<_>>()))
        }
        ty if is_zoned_time(ty) => {
            let mut rounded = ColumnBuilder::new(ColumnType::TimeTz, values.len());
            for row in 0..values.len() {
                match value_at(values, row) {
                    ValueRef::Bytes(kept) => {
                        let (micros, west) = zoned_time_of(kept);
                        rounded.push(zoned_time(round(micros, unit), west).borrow());
                    }
                    other => rounded.push(other),
                }
            }
            rounded.finish()
        }
        DataType::Interval(_) => {
            let intervals: PrimitiveArray<IntervalMonthDayNanoType> =
                values.as_primitive::<IntervalMonthDayNanoType>().unary(|value| {
                    let micros = round(value.nanoseconds / NANOS_PER_MICRO, unit);
                    IntervalMonthDayNano::new(value.months, value.days, micros * NANOS_PER_MICRO)
                });
            Arc::new(intervals)
        }
        _ => Arc::clone(values),
    })
}
