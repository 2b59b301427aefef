// SPDX-License-Identifier: Apache-2.0
//! A local time plus or minus an interval: infinity stays what it is, where Arrow's kernels find that it overflows, and what is before
//! the first time or behind the last one is an error.
//!
//! Instants have a function of their own, which goes by the clocks of the session's zone.

use crate::error::{SqlError, SqlState};
use crate::types::is_timestamp;
use arrow::array::{Array, ArrayRef, AsArray, Datum, PrimitiveArray, Scalar, TimestampMicrosecondArray};
use arrow::compute::kernels::numeric::{add, sub};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use std::sync::{Arc, LazyLock};

/// The function in the place of an operator between a local time and an interval; `None` for all others.
pub(super) fn moved(
    operator: Operator,
    (left, left_type): (&Expr, &DataType),
    (right, right_type): (&Expr, &DataType),
) -> Option<Expr> {
    static AFTER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Operator::Plus));
    static BEFORE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Operator::Minus));
    let is_local = |ty: &DataType| *ty == DataType::Timestamp(TimeUnit::Microsecond, None);
    let is_interval = |ty: &DataType| *ty == DataType::Interval(IntervalUnit::MonthDayNano);
    let (function, moment, interval) = match operator {
        Operator::Plus if is_local(left_type) && is_interval(right_type) => (&*AFTER, left, right),
        Operator::Plus if is_interval(left_type) && is_local(right_type) => (&*AFTER, right, left),
        Operator::Minus if is_local(left_type) && is_interval(right_type) => (&*BEFORE, left, right),
        _ => return None,
    };
    let arguments = vec![moment.clone(), interval.clone()];
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments)))
}

fn function(operator: Operator) -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Moved { operator, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moved {
    operator: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for Moved {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Minus => "coeval_moment_before",
            _ => "coeval_moment_after",
        }
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        let texts: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Ok(texts.join(&format!(" {} ", self.operator)))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let names: Vec<String> =
            arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
        Ok(names.join(&format!(" {} ", self.operator)))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [moment, interval] = &arguments.args[..] else {
            return Err(SqlError::internal("a moment and an interval were expected").into());
        };
        apply(moment, interval, |moment, interval| {
            keeping_infinity(moment, |moment| match self.operator {
                Operator::Minus => sub(moment, interval),
                _ => add(moment, interval),
            })
            .map_err(out_of_range)
            .and_then(within_range)
        })
    }
}

/// `22008` where Arrow finds no such moment.
fn out_of_range(error: ArrowError) -> ArrowError {
    match error {
        ArrowError::ArithmeticOverflow(_) | ArrowError::ComputeError(_) => no_moment(),
        other => other,
    }
}

fn no_moment() -> ArrowError {
    let error = SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range");
    ArrowError::ExternalError(Box::new(error))
}

/// The moments, if there are such.
fn within_range(moments: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let micros = moments.as_primitive::<TimestampMicrosecondType>();
    let are_moments = micros.iter().flatten().all(|micros| is_infinite(micros) || is_timestamp(micros));
    if are_moments { Ok(moments) } else { Err(no_moment()) }
}

fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MAX | i64::MIN)
}

/// What an operation makes of moments, those left as they are that are infinite.
fn keeping_infinity(
    moment: &dyn Datum,
    operation: impl Fn(&dyn Datum) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let (array, is_scalar) = moment.get();
    let moments = array.as_primitive::<TimestampMicrosecondType>();
    if !moments.iter().flatten().any(is_infinite) {
        return operation(moment);
    }
    let finite: PrimitiveArray<TimestampMicrosecondType> =
        moments.unary(|micros| if is_infinite(micros) { 0 } else { micros });
    let done = if is_scalar { operation(&Scalar::new(finite)) } else { operation(&finite) }?;
    let moved = done.as_primitive::<TimestampMicrosecondType>();
    let kept = (0..moved.len()).map(|row| {
        let before = moments.value(if is_scalar { 0 } else { row });
        moved.is_valid(row).then(|| if is_infinite(before) { before } else { moved.value(row) })
    });
    Ok(Arc::new(kept.collect::<TimestampMicrosecondArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::IntervalMonthDayNanoArray;
    use arrow::datatypes::IntervalMonthDayNano;

    #[test]
    fn infinity_stays_and_all_else_is_moved() {
        let day = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 1, 0)]);
        let day = Scalar::new(day);
        let moments = TimestampMicrosecondArray::from(vec![Some(i64::MAX), Some(0), None, Some(i64::MIN)]);
        let moved = keeping_infinity(&moments, |moments| add(moments, &day)).unwrap();
        let expected = vec![Some(i64::MAX), Some(86_400_000_000), None, Some(i64::MIN)];
        assert_eq!(moved.as_primitive(), &TimestampMicrosecondArray::from(expected));
    }
}
