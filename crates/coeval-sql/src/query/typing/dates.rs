// SPDX-License-Identifier: Apache-2.0
//! Days added to a date, and the days between two dates. DataFusion goes by an interval in nanoseconds, which reaches 292 years, and takes
//! infinity for the last day that there is. Here infinity stays what it is, and no date has a distance from it.

use crate::constants::made_of_columns;
use crate::error::{SqlError, SqlState};
use crate::types::is_date;
use arrow::array::{AsArray, Date32Array, Int32Array, Int64Array};
use arrow::compute::try_binary;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use std::sync::{Arc, LazyLock};

/// The function that stands for an operator between a date and a number of days, or between two dates; `None` of anything else.
pub(super) fn planned(
    operator: Operator,
    raw: &RawBinaryExpr,
    left: &DataType,
    right: &DataType,
) -> Option<Expr> {
    static AFTER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::After));
    static BEFORE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Before));
    static BETWEEN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Between));
    let is_day = |ty: &DataType| *ty == DataType::Date32;
    let days = |side: &Expr| cast(side.clone(), DataType::Int64);
    let (function, arguments) = match operator {
        Operator::Plus if is_day(left) && right.is_integer() => {
            (&*AFTER, vec![raw.left.clone(), days(&raw.right)])
        }
        Operator::Plus if left.is_integer() && is_day(right) => {
            (&*AFTER, vec![raw.right.clone(), days(&raw.left)])
        }
        Operator::Minus if is_day(left) && right.is_integer() => {
            (&*BEFORE, vec![raw.left.clone(), days(&raw.right)])
        }
        Operator::Minus if is_day(left) && is_day(right) => {
            (&*BETWEEN, vec![raw.left.clone(), raw.right.clone()])
        }
        _ => return None,
    };
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A date and a number of days that are added.
    After,
    /// A date and a number of days that are taken away.
    Before,
    /// The days from the second date to the first one.
    Between,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateFunction {
    kind: Kind,
    signature: Signature,
}

fn function(kind: Kind) -> Arc<ScalarUDF> {
    let other = if kind == Kind::Between { DataType::Date32 } else { DataType::Int64 };
    let signature = Signature::exact(vec![DataType::Date32, other], Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(DateFunction { kind, signature }))
}

impl ScalarUDFImpl for DateFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::After => "coeval_date_after",
            Kind::Before => "coeval_date_before",
            Kind::Between => "coeval_days_between",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::After | Kind::Before => DataType::Date32,
            Kind::Between => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of_columns(&arguments, |sides| {
            let [left, right] = sides else {
                return Err(SqlError::internal("a date and one more value were expected").into());
            };
            Ok(match self.kind {
                Kind::After => Arc::new(moved(left.as_primitive(), right.as_primitive(), i64::checked_add)?),
                Kind::Before => Arc::new(moved(left.as_primitive(), right.as_primitive(), i64::checked_sub)?),
                Kind::Between => Arc::new(between(left.as_primitive(), right.as_primitive())?),
            })
        })
    }
}

fn is_infinite(date: i32) -> bool {
    matches!(date, i32::MAX | i32::MIN)
}

/// `22008`, as Arrow's functions give it.
fn out_of_range(message: &str) -> ArrowError {
    ArrowError::ExternalError(Box::new(SqlError::new(SqlState::DatetimeFieldOverflow, message)))
}

fn moved(
    dates: &Date32Array,
    days: &Int64Array,
    step: fn(i64, i64) -> Option<i64>,
) -> Result<Date32Array, ArrowError> {
    try_binary(dates, days, |date, days| {
        if is_infinite(date) {
            return Ok(date);
        }
        let moved = step(i64::from(date), days).and_then(|date| i32::try_from(date).ok());
        moved.filter(|&date| is_date(date)).ok_or_else(|| out_of_range("date out of range"))
    })
}

fn between(ends: &Date32Array, starts: &Date32Array) -> Result<Int32Array, ArrowError> {
    try_binary(ends, starts, |end, start| {
        if is_infinite(end) || is_infinite(start) {
            return Err(out_of_range("cannot subtract infinite dates"));
        }
        end.checked_sub(start).ok_or_else(|| out_of_range("date out of range"))
    })
}
