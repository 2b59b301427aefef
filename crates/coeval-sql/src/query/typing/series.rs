// SPDX-License-Identifier: Apache-2.0
//! `generate_series` over the types that PostgreSQL has it for, as an array: DataFusion's takes whole numbers and
//! times of one width only.

use crate::error::{SqlError, SqlState};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::numeric::{add_wrapping, neg};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// The function's name.
pub(crate) const SERIES: &str = "coeval_series";

/// Most members of an array.
const MEMBERS_MAX: usize = 1 << 27;

/// The function.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(Series { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    signature: Signature,
}

fn is_unknown(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

/// The type of the members: the widest of those that the bounds, and for numbers the step, have.
fn member_type(types: &[DataType]) -> Option<DataType> {
    let is_number = |ty: &DataType| ty.is_integer() || ty.is_decimal();
    let mut known = types.iter().filter(|ty| !is_unknown(ty));
    let bounds = types.iter().take(2);
    if let Some(time) = bounds.clone().find(|ty| matches!(ty, DataType::Timestamp(..) | DataType::Date32)) {
        let zone = |ty: &DataType| match ty {
            DataType::Timestamp(_, zone) => zone.clone(),
            // As PostgreSQL, which prefers the type with a zone.
            _ => Some("UTC".into()),
        };
        let zone = bounds.clone().find_map(|ty| zone(ty).filter(|_| !is_unknown(ty))).or_else(|| zone(time));
        return Some(DataType::Timestamp(TimeUnit::Microsecond, zone));
    }
    if !known.clone().all(is_number) {
        return None;
    }
    if known.clone().any(DataType::is_decimal) {
        let digits = |ty: &DataType| match ty {
            DataType::Decimal128(_, scale) => *scale,
            _ => 0,
        };
        let scale = known.map(digits).max().unwrap_or(0);
        return Some(DataType::Decimal128(38, scale));
    }
    let is_int = known.all(|ty| matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32));
    Some(if is_int { DataType::Int32 } else { DataType::Int64 })
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let member = member_type(types).filter(|_| matches!(types.len(), 2 | 3));
        let needs_step = matches!(member, Some(DataType::Timestamp(..)));
        match member {
            Some(member) if !needs_step || types.len() == 3 => {
                let step =
                    if needs_step { DataType::Interval(IntervalUnit::MonthDayNano) } else { member.clone() };
                Ok([member.clone(), member, step].into_iter().take(types.len()).collect())
            }
            _ => {
                let message = "function generate_series does not exist for these arguments";
                Err(SqlError::new(SqlState::UndefinedFunction, message)
                    .with_hint("It takes integers, numeric, or timestamps with an interval.")
                    .into())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let member = types.first().cloned().unwrap_or(DataType::Int32);
        Ok(DataType::List(Arc::new(Field::new_list_field(member, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Vec<ArrayRef> =
            args.args.iter().map(|argument| argument.to_array(args.number_rows)).collect::<Result<_>>()?;
        let mut rows = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let arguments = arrays.iter().map(|array| ScalarValue::try_from_array(array, row));
            rows.push(series(&arguments.collect::<Result<Vec<_>>>()?, args.return_type())?);
        }
        if rows.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(args.return_type())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(rows)?))
    }
}

/// The members from the first bound to the second; none if one is NULL.
fn series(arguments: &[ScalarValue], list: &DataType) -> Result<ScalarValue> {
    let (first, last) = (&arguments[0], &arguments[1]);
    let ty = first.data_type();
    let step = match arguments.get(2) {
        Some(step) => step.clone(),
        None => ScalarValue::Int32(Some(1)).cast_to(&ty)?,
    };
    if arguments.iter().any(ScalarValue::is_null) {
        return ScalarValue::try_new_null(list);
    }
    let direction = direction(&step)?;
    let mut members = Vec::new();
    let mut next = first.clone();
    while next.partial_cmp(last).is_some_and(|order| order == Ordering::Equal || order == direction.reverse())
    {
        if members.len() >= MEMBERS_MAX {
            let message = "a series of that many members is too long for an array";
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message).into());
        }
        members.push(next.clone());
        match sum(&next, &step, &ty)? {
            // Beyond the type's range there is nothing.
            Some(sum) if sum.partial_cmp(&next) == Some(direction) => next = sum,
            Some(_) | None => break,
        }
    }
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&members, &ty)))
}

fn sum(value: &ScalarValue, step: &ScalarValue, ty: &DataType) -> Result<Option<ScalarValue>> {
    let (value, step) = (value.to_array()?, step.to_array()?);
    let sum = add_wrapping(&value, &step)?;
    let sum = if sum.data_type() == ty { sum } else { cast(&sum, ty)? };
    let sum = ScalarValue::try_from_array(&sum, 0)?;
    Ok((!sum.is_null()).then_some(sum))
}

/// `Greater` for a step forward, `Less` for one back.
fn direction(step: &ScalarValue) -> Result<Ordering> {
    let array = step.to_array()?;
    let order = match step.data_type() {
        DataType::Interval(_) => {
            let step = array.as_primitive::<IntervalMonthDayNanoType>().value(0);
            let days = i128::from(step.months) * 30 + i128::from(step.days);
            (days * 86_400_000_000_000 + i128::from(step.nanoseconds)).cmp(&0)
        }
        _ => {
            let opposite = ScalarValue::try_from_array(&neg(&array)?, 0)?;
            step.partial_cmp(&opposite).unwrap_or(Ordering::Equal)
        }
    };
    if order == Ordering::Equal {
        return Err(SqlError::new(SqlState::InvalidParameterValue, "step size cannot equal zero").into());
    }
    Ok(order)
}
