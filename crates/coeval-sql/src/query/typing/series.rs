// SPDX-License-Identifier: Apache-2.0
//! `generate_series` over the types that PostgreSQL has it for, as an array: DataFusion's takes whole numbers and
//! times of one width only. Where rows are made of the array, its members are made while they are read
//! (`query/series.rs`).

use super::exact_types::is_any_numeric;
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::scalar::cast_function::cast_array;
use crate::types::{instant_after, session_zone};
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int32Array, Int64Array, ListArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono_tz::Tz;
use coeval_store::{ColumnType, IntervalValue};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The function's name.
pub(crate) const SERIES: &str = "coeval_series";

/// Most members of an array.
const MEMBERS_MAX: usize = 1 << 26;

/// What a member takes while an array is made.
const MEMBER_BYTES: usize = size_of::<i128>() + size_of::<i64>();

/// The function.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(Series { signature: Signature::user_defined(Volatility::Stable) })
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
                // A bare text is read here, as PostgreSQL reads a time: `infinity` is one.
                let bound = |ty: &DataType| match needs_step && is_unknown(ty) && *ty != DataType::Null {
                    true => DataType::Utf8View,
                    false => member.clone(),
                };
                let bounds = [bound(&types[0]), bound(&types[1])];
                Ok(bounds.into_iter().chain([step]).take(types.len()).collect())
            }
            _ => {
                let message = "function generate_series does not exist for these arguments";
                let hint = if types.iter().any(is_any_numeric) {
                    "Numbers have to say how many digits they have: cast them to numeric(38,10)."
                } else {
                    "It takes integers, numeric, or timestamps with an interval."
                };
                Err(SqlError::new(SqlState::UndefinedFunction, message).with_hint(hint).into())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let member = member_type(types).unwrap_or(DataType::Int32);
        Ok(DataType::List(Arc::new(Field::new_list_field(member, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let meter = Meter::begin(&args.config_options, "generate_series");
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let member = member_type(&types).unwrap_or(DataType::Int32);
        let session = session_zone(&args.config_options);
        let arrays = arguments_of(&args.args, args.number_rows, &member, session)?;
        let (mut members, mut lengths) = (Vec::new(), Vec::with_capacity(args.number_rows));
        let mut valid = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            meter.step()?;
            let before = members.len();
            let steps = Steps::of_row(&arrays, row, session)?;
            valid.push(steps.is_some());
            for next in steps.into_iter().flatten() {
                meter.step()?;
                meter.take(MEMBER_BYTES)?;
                if members.len() - before >= MEMBERS_MAX {
                    let message = "a series of that many members is too long for an array";
                    return Err(SqlError::new(SqlState::ProgramLimitExceeded, message).into());
                }
                members.push(next);
            }
            lengths.push(members.len() - before);
        }
        let field = Arc::new(Field::new_list_field(member.clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let list = ListArray::try_new(
            field,
            offsets,
            array_of_members(members, &member)?,
            Some(NullBuffer::from(valid)),
        )?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

/// The arguments of a series with these members as columns: bounds that are texts as times.
///
/// # Errors
/// `22007` for a text that is no time.
pub(in crate::query) fn arguments_of(
    arguments: &[ColumnarValue],
    rows: usize,
    member: &DataType,
    session: Tz,
) -> Result<Vec<ArrayRef>> {
    let column = |(place, argument): (usize, &ColumnarValue)| {
        let column = argument.to_array(rows)?;
        let is_text = place < 2 && column.data_type() == &DataType::Utf8View;
        if is_text { moments(&column, member, session) } else { Ok(column) }
    };
    arguments.iter().enumerate().map(column).collect()
}

/// Texts as the times that they stand for.
fn moments(texts: &ArrayRef, member: &DataType, session: Tz) -> Result<ArrayRef> {
    let ty = match member {
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        _ => ColumnType::TimestampTz,
    };
    let moments = cast_array(texts, ty, session)?;
    Ok(arrow::compute::cast(&moments, member)?)
}

/// The members as an array of this type.
///
/// # Errors
/// For a type that no series has: a bug.
pub(in crate::query) fn array_of_members(members: Vec<i128>, ty: &DataType) -> Result<ArrayRef> {
    // Each was checked to be one of the type.
    Ok(match ty {
        DataType::Int32 => {
            Arc::new(Int32Array::from_iter_values(members.into_iter().map(|next| next as i32)))
        }
        DataType::Int64 => {
            Arc::new(Int64Array::from_iter_values(members.into_iter().map(|next| next as i64)))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = members.into_iter().map(|next| next as i64);
            Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(precision, scale) => {
            let numbers = Decimal128Array::from_iter_values(members);
            Arc::new(numbers.with_precision_and_scale(*precision, *scale)?)
        }
        other => return Err(SqlError::internal(format!("a series of {other}")).into()),
    })
}

/// The members from the first bound to the second, one after the other.
pub(in crate::query) struct Steps {
    /// None behind the end of the type.
    next: Option<i128>,
    last: i128,
    step: Step,
    range: RangeInclusive<i128>,
    is_forward: bool,
}

enum Step {
    Number(i128),
    /// Of times, by clocks of a zone.
    Interval(IntervalValue, Tz),
}

impl Steps {
    /// The series of a row of arguments, days of instants as those of the session's zone; `None` if one is NULL.
    ///
    /// # Errors
    /// `22023` if it would never end because its step is nothing.
    pub(in crate::query) fn of_row(arguments: &[ArrayRef], row: usize, session: Tz) -> Result<Option<Self>> {
        if arguments.iter().any(|argument| argument.is_null(row)) {
            return Ok(None);
        }
        let (first, last) = (number(&arguments[0], row)?, number(&arguments[1], row)?);
        let ty = arguments[0].data_type();
        let step = match arguments.get(2) {
            None => Step::Number(one_of(ty)),
            Some(step) => match step.data_type() {
                DataType::Interval(_) => {
                    let step = step.as_primitive::<IntervalMonthDayNanoType>().value(row);
                    let step =
                        IntervalValue { months: step.months, days: step.days, nanoseconds: step.nanoseconds };
                    Step::Interval(step, zone_of(ty, session))
                }
                _ => Step::Number(number(step, row)?),
            },
        };
        let direction = direction(&step);
        if direction == Ordering::Equal {
            let message = "step size cannot equal zero";
            return Err(SqlError::new(SqlState::InvalidParameterValue, message).into());
        }
        let is_forward = direction == Ordering::Greater;
        Ok(Some(Self { next: Some(first), last, step, range: range_of(ty), is_forward }))
    }

    /// Whether a member is left.
    pub(in crate::query) fn has_more(&self) -> bool {
        self.next.is_some_and(|next| if self.is_forward { next <= self.last } else { next >= self.last })
    }
}

impl Iterator for Steps {
    type Item = i128;

    fn next(&mut self) -> Option<i128> {
        let next = self.next.filter(|_| self.has_more())?;
        let sum = match &self.step {
            Step::Number(step) => next.checked_add(*step),
            Step::Interval(step, zone) => {
                i64::try_from(next).ok().and_then(|next| instant_after(next, *step, *zone)).map(i128::from)
            }
        };
        // Beyond the type's range there is nothing, nor behind a sum that does not go on.
        let goes_on = |sum: &i128| if self.is_forward { *sum > next } else { *sum < next };
        self.next = sum.filter(|sum| self.range.contains(sum) && goes_on(sum));
        Some(next)
    }
}

/// A number, or what a time is counted in.
fn number(array: &ArrayRef, row: usize) -> Result<i128> {
    Ok(match array.data_type() {
        DataType::Int32 => i128::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => i128::from(array.as_primitive::<Int64Type>().value(row)),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        other => return Err(SqlError::internal(format!("a series of {other}")).into()),
    })
}

/// One, in numbers of this type.
fn one_of(ty: &DataType) -> i128 {
    match ty {
        DataType::Decimal128(_, scale) => 10_i128.pow(u32::from(scale.unsigned_abs())),
        _ => 1,
    }
}

/// What members of this type can be.
fn range_of(ty: &DataType) -> RangeInclusive<i128> {
    match ty {
        DataType::Int32 => i128::from(i32::MIN)..=i128::from(i32::MAX),
        DataType::Decimal128(precision, _) => {
            let end = 10_i128.pow(u32::from(*precision)) - 1;
            -end..=end
        }
        _ => i128::from(i64::MIN)..=i128::from(i64::MAX),
    }
}

/// The zone that days and months are counted in.
fn zone_of(ty: &DataType, session: Tz) -> Tz {
    match ty {
        DataType::Timestamp(_, Some(_)) => session,
        _ => Tz::UTC,
    }
}

/// `Greater` for a step forward, `Less` for one back.
fn direction(step: &Step) -> Ordering {
    match step {
        Step::Number(step) => step.cmp(&0),
        Step::Interval(step, _) => {
            let days = i128::from(step.months) * 30 + i128::from(step.days);
            (days * 86_400_000_000_000 + i128::from(step.nanoseconds)).cmp(&0)
        }
    }
}
