// SPDX-License-Identifier: Apache-2.0
//! Intervals times and by numbers.

use arrow::datatypes::IntervalMonthDayNano;

const NANOS_PER_MICRO: f64 = 1e3;
const MICROS_PER_SECOND: f64 = 1e6;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// The nanoseconds of fewer microseconds fit 64 bits.
const MICROS_END: f64 = i64::MAX as f64 / NANOS_PER_MICRO;
const DAYS_PER_MONTH: f64 = 30.0;

/// The interval with its months, days and time each scaled by `times`. Fractions of months become days, fractions of days become
/// time, as in PostgreSQL. `None` for what is no interval any more.
pub(crate) fn scaled_interval(
    interval: IntervalMonthDayNano,
    times: impl Fn(f64) -> f64,
) -> Option<IntervalMonthDayNano> {
    let (months, days) = (times(f64::from(interval.months)), times(f64::from(interval.days)));
    let days_of_months = millionths(months.fract() * DAYS_PER_MONTH);
    // What is left of both days is less than two of them, and may be a whole one.
    let rest = millionths((days.fract() + days_of_months.fract()) * SECONDS_PER_DAY);
    let more_days = (rest / SECONDS_PER_DAY).trunc();
    let seconds = rest - more_days * SECONDS_PER_DAY;
    let whole_days = days.trunc() + days_of_months.trunc() + more_days;
    let micros = (times(interval.nanoseconds as f64 / NANOS_PER_MICRO) + seconds * MICROS_PER_SECOND)
        .round_ties_even();
    let fits = |number: f64| number.is_finite() && number.abs() <= f64::from(i32::MAX);
    if !fits(months) || !fits(whole_days) || !micros.is_finite() || micros.abs() >= MICROS_END {
        return None;
    }
    Some(IntervalMonthDayNano::new(
        months.trunc() as i32,
        whole_days as i32,
        micros as i64 * NANOS_PER_MICRO as i64,
    ))
}

/// Without the noise of binary fractions.
fn millionths(number: f64) -> f64 {
    (number * 1e6).round_ties_even() / 1e6
}
