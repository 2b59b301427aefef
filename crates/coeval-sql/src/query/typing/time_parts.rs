// SPDX-License-Identifier: Apache-2.0
//! Parts of times: `extract`, `date_part`, `date_trunc`.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `extract(hour from timestamptz)`, `date_trunc('day', timestamptz)` | of the local time of the session's zone | of UTC |
//! | `extract(second from x)` | `numeric` with fractions | whole seconds |
//! | `date_part('year', x)` | `double precision` | `int` |
//! | `century`, `decade`, `millennium`, `julian`, `timezone` | there | not there |

mod moment;
mod span;
mod unit;

use super::moments::{is_infinite, micros, zone_named};
use super::zoned_times::is_zoned_time;
use crate::constants::made_of_columns;
use crate::error::{SqlError, SqlState};
use crate::types::{Clock, session_zone, utc_to_local};
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ValueRef, value_at, zoned_time_of};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::sync::Arc;
use unit::{Of, Unit};

/// The function behind `extract(field from value)`: `(field, value)`.
pub(crate) const EXTRACT: &str = "coeval_extract";

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// Digits of what `extract` gives: those of the microseconds of a million years.
const PRECISION: u8 = 20;
/// The same of the number of a day, whose part behind the point alone has as many.
const JULIAN_PRECISION: u8 = 38;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Extract,
    DatePart,
    /// `date_trunc(unit, value [, zone])`.
    Truncate,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimePart {
    kind: Kind,
    signature: Signature,
}

/// The functions, for the engine's registry.
pub(super) fn functions() -> [ScalarUDF; 3] {
    let function = |kind, counts: &[usize]| {
        let counts = counts.iter().map(|count| TypeSignature::Any(*count)).collect();
        // The session's zone counts.
        ScalarUDF::from(TimePart { kind, signature: Signature::one_of(counts, Volatility::Stable) })
    };
    [function(Kind::Extract, &[2]), function(Kind::DatePart, &[2]), function(Kind::Truncate, &[2, 3])]
}

/// As what a value is taken: texts and, unless for `extract`, dates are points in time.
fn taken(kind: Kind, ty: &DataType) -> Of {
    match ty {
        DataType::Interval(_) => Of::Interval,
        DataType::Time32(_) | DataType::Time64(_) => Of::Time,
        ty if is_zoned_time(ty) => Of::TimeTz,
        DataType::Timestamp(_, None) => Of::Timestamp,
        DataType::Date32 | DataType::Date64 => match kind {
            Kind::Extract => Of::Date,
            Kind::DatePart => Of::Timestamp,
            Kind::Truncate => Of::TimestampTz,
        },
        _ => Of::TimestampTz,
    }
}

impl ScalarUDFImpl for TimePart {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Extract => EXTRACT,
            Kind::DatePart => "date_part",
            Kind::Truncate => "date_trunc",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("what is extracted depends on the name of the field").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = taken(self.kind, arguments.arg_fields[1].data_type());
        let ty = match self.kind {
            Kind::DatePart => DataType::Float64,
            Kind::Extract => {
                let name = match arguments.scalar_arguments.first() {
                    Some(Some(name)) => name.try_as_str().flatten(),
                    _ => None,
                };
                let unit = name.map(|name| Unit::named(name, of)).transpose()?;
                let precision = if unit == Some(Unit::Julian) { JULIAN_PRECISION } else { PRECISION };
                DataType::Decimal128(precision, unit.map_or(0, |unit| unit.scale(of)))
            }
            Kind::Truncate => match of {
                Of::TimeTz => return Err(no_truncation()),
                Of::Interval | Of::Time => ColumnType::Interval.arrow(),
                Of::Timestamp => ColumnType::Timestamp.arrow(),
                Of::TimestampTz | Of::Date => ColumnType::TimestampTz.arrow(),
            },
        };
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of_columns(&arguments, |inputs| {
            let zone = session_zone(&arguments.config_options);
            let of = taken(self.kind, inputs[1].data_type());
            let units = Units::new(&inputs[0], of)?;
            match self.kind {
                Kind::Extract | Kind::DatePart => {
                    let parts = parts(&units, &inputs[1], of, zone)?;
                    shown(&parts, arguments.return_field.data_type())
                }
                Kind::Truncate => truncated(&units, &inputs[1], of, inputs.get(2), zone),
            }
        })
    }
}

/// The unit of each row: the same one as a rule.
struct Units {
    names: StringArray,
    of: Of,
}

impl Units {
    fn new(names: &ArrayRef, of: Of) -> Result<Self> {
        let names = cast(names, &DataType::Utf8)?.as_string::<i32>().clone();
        Ok(Self { names, of })
    }

    /// Calls for each row whose unit and value are not NULL.
    fn each<T>(
        &self,
        values: &dyn Array,
        mut call: impl FnMut(usize, Unit) -> Result<Option<T>>,
    ) -> Result<Vec<Option<T>>> {
        let mut known: Option<(&str, Unit)> = None;
        let mut done = Vec::with_capacity(values.len());
        for row in 0..values.len() {
            if self.names.is_null(row) || values.is_null(row) {
                done.push(None);
                continue;
            }
            let name = self.names.value(row);
            let unit = match known {
                Some((same, unit)) if same == name => unit,
                _ => Unit::named(name, self.of)?,
            };
            known = Some((name, unit));
            done.push(call(row, unit)?);
        }
        Ok(done)
    }
}

/// A part of a time.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A number and how many of its digits stand behind the point.
    Number(i128, i8),
    /// Greater than all numbers: the year of an infinite time.
    Infinity,
    /// Less than all numbers.
    MinusInfinity,
}

impl Part {
    /// That of an infinite time, which has no hours, days and months.
    fn of_infinite(unit: Unit, moment: i64) -> Option<Self> {
        let part = if moment > 0 { Self::Infinity } else { Self::MinusInfinity };
        unit.grows().then_some(part)
    }
}

/// The parts of the rows.
fn parts(units: &Units, values: &ArrayRef, of: Of, zone: Tz) -> Result<Vec<Option<Part>>> {
    match of {
        Of::Interval => {
            let spans = intervals(values)?;
            units.each(&spans, |row, unit| {
                Ok(Some(Part::Number(span::part(unit, spans.value(row))?, unit.scale(of))))
            })
        }
        Of::Time => {
            let times = cast(&cast(values, &ColumnType::Time.arrow())?, &DataType::Int64)?;
            let times = times.as_primitive::<Int64Type>();
            units.each(times, |row, unit| {
                Ok(Some(Part::Number(moment::part(unit, of, times.value(row), 0)?, unit.scale(of))))
            })
        }
        Of::TimeTz => units.each(values, |row, unit| {
            let ValueRef::Bytes(kept) = value_at(values, row) else { return Ok(None) };
            let (local, west) = zoned_time_of(kept);
            let ahead = -i64::from(west) * MICROS_PER_SECOND;
            Ok(Some(Part::Number(moment::part(unit, of, local, ahead)?, unit.scale(of))))
        }),
        Of::Date | Of::Timestamp => {
            let ty = ColumnType::Timestamp;
            let moments = match values.data_type() {
                DataType::Timestamp(..) => micros(values, ty)?,
                // Dates, of which some are infinite.
                _ => micros(&crate::scalar::cast_function::cast_array(values, ty, zone)?, ty)?,
            };
            units.each(&moments, |row, unit| {
                let local = moments.value(row);
                if is_infinite(local) {
                    return Ok(Part::of_infinite(unit, local));
                }
                Ok(Some(Part::Number(moment::part(unit, of, local, 0)?, unit.scale(of))))
            })
        }
        Of::TimestampTz => {
            let moments = zoned(values, zone)?;
            units.each(&moments, |row, unit| {
                let utc = moments.value(row);
                if is_infinite(utc) {
                    return Ok(Part::of_infinite(unit, utc));
                }
                let local = utc_to_local(utc, zone).unwrap_or(utc);
                Ok(Some(Part::Number(moment::part(unit, of, local, local - utc)?, unit.scale(of))))
            })
        }
    }
}

/// Times of day as intervals since midnight.
fn lengths(times: &ArrayRef) -> Result<ArrayRef> {
    let micros = cast(&cast(times, &ColumnType::Time.arrow())?, &DataType::Int64)?;
    let length = |micros| IntervalMonthDayNano::new(0, 0, micros * NANOS_PER_MICRO);
    let lengths = micros.as_primitive::<Int64Type>().iter().map(|micros| micros.map(length));
    Ok(Arc::new(lengths.collect::<IntervalMonthDayNanoArray>()))
}

fn intervals(values: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    let spans = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    Ok(spans.as_primitive::<IntervalMonthDayNanoType>().clone())
}

/// Points in time in microseconds; dates and texts are local ones of the session.
fn zoned(values: &ArrayRef, zone: Tz) -> Result<Int64Array> {
    let ty = ColumnType::TimestampTz;
    match values.data_type() {
        DataType::Timestamp(..) => micros(values, ty),
        _ => micros(&crate::scalar::cast_function::cast_array(values, ty, zone)?, ty),
    }
}

/// The parts as numbers of the type that the function gives; a decimal that is infinite is NULL.
fn shown(parts: &[Option<Part>], ty: &DataType) -> Result<ArrayRef> {
    if let DataType::Decimal128(precision, scale) = ty {
        let at_scale = |part: Part| match part {
            Part::Number(number, has) => Some(number * 10_i128.pow(u32::try_from(scale - has).unwrap_or(0))),
            Part::Infinity | Part::MinusInfinity => None,
        };
        let numbers: Decimal128Array = parts.iter().map(|part| part.and_then(at_scale)).collect();
        return Ok(Arc::new(numbers.with_precision_and_scale(*precision, *scale)?));
    }
    let number = |part: Part| match part {
        Part::Number(number, scale) => number as f64 / 10_f64.powi(i32::from(scale)),
        Part::Infinity => f64::INFINITY,
        Part::MinusInfinity => f64::NEG_INFINITY,
    };
    Ok(Arc::new(parts.iter().map(|part| part.map(number)).collect::<Float64Array>()))
}

/// `42883`: nothing is cut off of a time with a zone.
fn no_truncation() -> DataFusionError {
    let message = "function date_trunc(text, time with time zone) does not exist";
    SqlError::new(SqlState::UndefinedFunction, message).into()
}

/// Times without what is smaller than their units.
fn truncated(
    units: &Units,
    values: &ArrayRef,
    of: Of,
    zones: Option<&ArrayRef>,
    session: Tz,
) -> Result<ArrayRef> {
    match of {
        Of::TimeTz => Err(no_truncation()),
        Of::Interval | Of::Time => {
            let values = if of == Of::Time { lengths(values)? } else { Arc::clone(values) };
            let spans = intervals(&values)?;
            let cut = units.each(&spans, |row, unit| Ok(Some(span::truncated(unit, spans.value(row))?)))?;
            Ok(Arc::new(IntervalMonthDayNanoArray::from(cut)))
        }
        Of::Timestamp => {
            let moments = micros(values, ColumnType::Timestamp)?;
            let cut = units.each(&moments, |row, unit| cut(unit, of, moments.value(row), |cut| cut))?;
            Ok(Arc::new(TimestampMicrosecondArray::from(cut)))
        }
        Of::TimestampTz | Of::Date => {
            let moments = zoned(values, session)?;
            let zones = zones.map(|zones| cast(zones, &DataType::Utf8)).transpose()?;
            let names = zones.as_ref().map(|zones| zones.as_string::<i32>());
            if names.is_some_and(|names| names.null_count() == names.len() && !names.is_empty()) {
                return Ok(new_null_array(&ColumnType::TimestampTz.arrow(), values.len()));
            }
            let cut = units.each(&moments, |row, unit| {
                let clock = match names {
                    Some(names) if names.is_null(row) => return Ok(None),
                    Some(names) => zone_named(names.value(row))?,
                    None => Clock::Region(session),
                };
                let utc = moments.value(row);
                let local = clock.to_local(utc).unwrap_or(utc);
                // An hour that a clock shows twice keeps its offset.
                let back = |cut| {
                    if unit.is_of_clock() { utc - (local - cut) } else { clock.to_utc(cut).unwrap_or(cut) }
                };
                if is_infinite(utc) { Ok(Some(utc)) } else { self::cut(unit, of, local, back) }
            })?;
            Ok(Arc::new(TimestampMicrosecondArray::from(cut).with_timezone("UTC")))
        }
    }
}

fn cut(unit: Unit, of: Of, local: i64, back: impl Fn(i64) -> i64) -> Result<Option<i64>> {
    if is_infinite(local) {
        return Ok(Some(local));
    }
    Ok(Some(back(moment::truncated(unit, of, local)?)))
}
