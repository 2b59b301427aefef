// SPDX-License-Identifier: Apache-2.0
//! Parts of intervals: of their months, of their days, of their hours and what is smaller.

use super::unit::{Of, Unit};
use super::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, NANOS_PER_MICRO};
use crate::error::SqlError;
use arrow::datatypes::IntervalMonthDayNano;

const DAYS_PER_MONTH: i64 = 30;
/// A year has 365.25 days.
const QUARTER_DAYS_PER_YEAR: i64 = 1_461;

/// The part as a number without a point, as of [`Unit::scale`].
///
/// # Errors
/// `0A000` if intervals have no such part.
pub(super) fn part(unit: Unit, span: IntervalMonthDayNano) -> Result<i128, SqlError> {
    let clock = span.nanoseconds / NANOS_PER_MICRO;
    let months = i64::from(span.months);
    let years = months / 12;
    Ok(i128::from(match unit {
        Unit::Microseconds | Unit::Milliseconds | Unit::Second => clock % MICROS_PER_MINUTE,
        Unit::Minute => clock % MICROS_PER_HOUR / MICROS_PER_MINUTE,
        Unit::Hour => clock / MICROS_PER_HOUR,
        Unit::Day => i64::from(span.days),
        Unit::Month => months % 12,
        Unit::Quarter => months % 12 / 3 + 1,
        Unit::Year => years,
        Unit::Decade => years / 10,
        Unit::Century => years / 100,
        Unit::Millennium => years / 1_000,
        Unit::Epoch => {
            let quarter_days =
                QUARTER_DAYS_PER_YEAR * years + 4 * (DAYS_PER_MONTH * (months % 12) + i64::from(span.days));
            return Ok(i128::from(quarter_days) * i128::from(MICROS_PER_DAY / 4) + i128::from(clock));
        }
        _ => return Err(unit.refused(Of::Interval)),
    }))
}

/// The interval without what is smaller than the unit.
///
/// # Errors
/// `0A000`, `22023` if nothing can be cut off at such a unit.
pub(super) fn truncated(unit: Unit, span: IntervalMonthDayNano) -> Result<IntervalMonthDayNano, SqlError> {
    let of_months = |size: i32| IntervalMonthDayNano::new(span.months / size * size, 0, 0);
    let of_clock = |micros: i64| {
        let size = micros * NANOS_PER_MICRO;
        IntervalMonthDayNano::new(span.months, span.days, span.nanoseconds / size * size)
    };
    Ok(match unit {
        Unit::Microseconds => of_clock(1),
        Unit::Milliseconds => of_clock(1_000),
        Unit::Second => of_clock(MICROS_PER_SECOND),
        Unit::Minute => of_clock(MICROS_PER_MINUTE),
        Unit::Hour => of_clock(MICROS_PER_HOUR),
        Unit::Day => IntervalMonthDayNano::new(span.months, span.days, 0),
        Unit::Month => of_months(1),
        Unit::Quarter => of_months(3),
        Unit::Year => of_months(12),
        Unit::Decade => of_months(120),
        Unit::Century => of_months(1_200),
        Unit::Millennium => of_months(12_000),
        Unit::Week => return Err(unit.refused(Of::Interval)),
        _ => return Err(unit.refused_as_end(Of::Interval)),
    })
}
