// SPDX-License-Identifier: Apache-2.0
//! Intervals: compared by their length, multiplied and divided by numbers.

use crate::error::{SqlError, division_by_zero, out_of_range};
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::compute::kernels::arity::{try_binary, unary};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::error::ArrowError;
use coeval_store::IntervalValue;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

const NANOS_PER_MICRO: f64 = 1e3;
const MICROS_PER_SECOND: f64 = 1e6;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// The nanoseconds of fewer microseconds fit 64 bits.
const MICROS_END: f64 = i64::MAX as f64 / NANOS_PER_MICRO;
const DAYS_PER_MONTH: f64 = 30.0;

/// Digits of a length in nanoseconds.
const LENGTH_PRECISION: u8 = 38;

/// The length of an interval, as a number to compare.
pub(super) fn length(interval: Expr) -> Expr {
    static LENGTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Length));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&LENGTH), vec![interval]))
}

/// An interval times a float.
pub(super) fn product(interval: Expr, factor: Expr) -> Expr {
    static PRODUCT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Product));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&PRODUCT), vec![interval, factor]))
}

/// An interval by a float.
pub(super) fn part(interval: Expr, divisor: Expr) -> Expr {
    static PART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Part));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&PART), vec![interval, divisor]))
}

fn function(kind: Kind) -> Arc<ScalarUDF> {
    let arguments = if kind == Kind::Length { 1 } else { 2 };
    let signature = Signature::any(arguments, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(IntervalFunction { kind, signature }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Length,
    Product,
    Part,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalFunction {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for IntervalFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Length => "interval_length",
            Kind::Product => "interval_product",
            Kind::Part => "interval_part",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Length => DataType::Decimal128(LENGTH_PRECISION, 0),
            Kind::Product | Kind::Part => DataType::Interval(IntervalUnit::MonthDayNano),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let inputs =
            arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let done: ArrayRef = match (self.kind, &inputs[..]) {
            (Kind::Length, [input]) => {
                let lengths: PrimitiveArray<Decimal128Type> =
                    unary(input.as_primitive::<IntervalMonthDayNanoType>(), |v| value(v).ordering());
                Arc::new(lengths.with_precision_and_scale(LENGTH_PRECISION, 0)?)
            }
            (kind, [input, factor]) => {
                let done: PrimitiveArray<IntervalMonthDayNanoType> = try_binary(
                    input.as_primitive::<IntervalMonthDayNanoType>(),
                    factor.as_primitive::<Float64Type>(),
                    |interval, factor| scaled(kind, interval, factor),
                )?;
                Arc::new(done)
            }
            _ => return Err(SqlError::internal("a function of intervals with other arguments").into()),
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?));
        }
        Ok(ColumnarValue::Array(done))
    }
}

fn value(interval: IntervalMonthDayNano) -> IntervalValue {
    IntervalValue { months: interval.months, days: interval.days, nanoseconds: interval.nanoseconds }
}

/// Sums of intervals by how many were added up; where there were none, the sum is NULL.
///
/// # Errors
/// `22003` for what is no interval any more.
pub(super) fn mean_lengths(sums: &ArrayRef, counts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let counts = cast(counts, &DataType::Float64)?;
    let means: PrimitiveArray<IntervalMonthDayNanoType> = try_binary(
        sums.as_primitive::<IntervalMonthDayNanoType>(),
        counts.as_primitive::<Float64Type>(),
        |sum, count| scaled(Kind::Part, sum, count),
    )?;
    Ok(Arc::new(means))
}

/// Fractions of months become days, fractions of days become time, as in PostgreSQL.
fn scaled(
    kind: Kind,
    interval: IntervalMonthDayNano,
    number: f64,
) -> Result<IntervalMonthDayNano, ArrowError> {
    if kind == Kind::Part && number == 0.0 {
        return Err(ArrowError::ExternalError(Box::new(division_by_zero())));
    }
    let times = |part: f64| if kind == Kind::Part { part / number } else { part * number };
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
        return Err(ArrowError::ExternalError(Box::new(out_of_range("interval out of range"))));
    }
    Ok(IntervalMonthDayNano::new(
        months.trunc() as i32,
        whole_days as i32,
        micros as i64 * NANOS_PER_MICRO as i64,
    ))
}

/// Without the noise of binary fractions.
fn millionths(number: f64) -> f64 {
    (number * 1e6).round_ties_even() / 1e6
}
