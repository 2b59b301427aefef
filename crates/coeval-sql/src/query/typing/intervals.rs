// SPDX-License-Identifier: Apache-2.0
//! Intervals: compared by their length, multiplied and divided by numbers.

use crate::constants::made_of_columns;
use crate::error::{SqlError, SqlState, division_by_zero};
use crate::types::scaled_interval;
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::compute::kernels::arity::{try_binary, unary};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::error::ArrowError;
use coeval_store::IntervalValue;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The function of an interval's length.
const LENGTH: &str = "interval_length";

/// Digits of a length in nanoseconds.
const LENGTH_PRECISION: u8 = 38;

/// The length of an interval, as a number to compare.
pub(super) fn length(interval: Expr) -> Expr {
    static LENGTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Length));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&LENGTH), vec![interval]))
}

/// Whether an expression is the length of an interval.
pub(in crate::query) fn is_length(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(call) if call.name() == LENGTH)
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
            Kind::Length => LENGTH,
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
        made_of_columns(&arguments, |inputs| {
            Ok(match (self.kind, inputs) {
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
            })
        })
    }
}

fn value(interval: IntervalMonthDayNano) -> IntervalValue {
    IntervalValue { months: interval.months, days: interval.days, nanoseconds: interval.nanoseconds }
}

/// Sums of intervals by how many were added up; where there were none, the sum is NULL.
///
/// # Errors
/// `22008` for what is no interval any more.
pub(super) fn mean_lengths(sums: &ArrayRef, counts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let counts = cast(counts, &DataType::Float64)?;
    let means: PrimitiveArray<IntervalMonthDayNanoType> = try_binary(
        sums.as_primitive::<IntervalMonthDayNanoType>(),
        counts.as_primitive::<Float64Type>(),
        |sum, count| scaled(Kind::Part, sum, count),
    )?;
    Ok(Arc::new(means))
}

/// An interval times or by a number.
///
/// # Errors
/// `22012` for a division by zero, `22008` for what is no interval any more.
fn scaled(
    kind: Kind,
    interval: IntervalMonthDayNano,
    number: f64,
) -> Result<IntervalMonthDayNano, ArrowError> {
    if kind == Kind::Part && number == 0.0 {
        return Err(ArrowError::ExternalError(Box::new(division_by_zero())));
    }
    let times = |part: f64| if kind == Kind::Part { part / number } else { part * number };
    scaled_interval(interval, times).ok_or_else(|| {
        let message = "interval out of range";
        ArrowError::ExternalError(Box::new(SqlError::new(SqlState::DatetimeFieldOverflow, message)))
    })
}
