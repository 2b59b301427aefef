// SPDX-License-Identifier: Apache-2.0
//! What `percentile_disc`, `percentile_cont` and `mode` find in an array of all values of a group, in the order that `WITHIN GROUP`
//! asks for. NULLs stand at one of its ends and do not count.

use crate::allowance::Meter;
use crate::error::{SqlError, SqlState, out_of_range};
use crate::scalar::cast_function::cast_array;
use crate::types::{column_type_of_field, marked_field, scaled_interval};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, partition, take};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The value at a fraction of the way through the array.
pub(crate) const PERCENTILE_DISC: &str = "coeval_percentile_disc";
/// The same between two values, for numbers and intervals.
pub(crate) const PERCENTILE_CONT: &str = "coeval_percentile_cont";
/// The most frequent value, of several the first.
pub(crate) const MODE: &str = "coeval_mode";

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Discrete, Kind::Continuous, Kind::Mode].into_iter().map(|kind| {
        let count = if kind == Kind::Mode { 1 } else { 2 };
        let signature = Signature::any(count, Volatility::Immutable);
        ScalarUDF::new_from_impl(OrderedSet { kind, signature })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Discrete,
    Continuous,
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
}

impl OrderedSet {
    /// The type of one answer about an array that is this field.
    ///
    /// # Errors
    /// `42883` if there is no such aggregate of its elements.
    fn answer_type(&self, set: &Field) -> Result<ElementType, SqlError> {
        let Some(ColumnType::Array(element)) = column_type_of_field(set) else {
            let message = format!("an ordered set of values of type {}", set.data_type());
            return Err(SqlError::unsupported(message));
        };
        if self.kind != Kind::Continuous {
            return Ok(element);
        }
        match element {
            ElementType::Interval => Ok(ElementType::Interval),
            ElementType::SmallInt
            | ElementType::Int
            | ElementType::BigInt
            | ElementType::Real
            | ElementType::Double
            | ElementType::Numeric { .. } => Ok(ElementType::Double),
            other => {
                let name = other.column_type();
                let message = format!("function percentile_cont(double precision, {name}) does not exist");
                Err(SqlError::new(SqlState::UndefinedFunction, message).with_hint(
                    "No function matches the given name and argument types. You might need to add explicit type casts.",
                ))
            }
        }
    }
}

impl ScalarUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Discrete => PERCENTILE_DISC,
            Kind::Continuous => PERCENTILE_CONT,
            Kind::Mode => MODE,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("the type of an ordered set's value is that of its field").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [set, fractions @ ..] = arguments.arg_fields else {
            return Err(SqlError::internal("an ordered set is missing").into());
        };
        let one = self.answer_type(set)?;
        let has_several = fractions.iter().any(|field| matches!(field.data_type(), DataType::List(_)));
        let ty = if has_several { ColumnType::Array(one) } else { one.column_type() };
        Ok(Arc::new(marked_field(Field::new(self.name(), ty.arrow(), true), ty)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let Some(sets) = arrays.first().and_then(|sets| sets.as_list_opt::<i32>()) else {
            return Err(SqlError::internal("an ordered set that is no array").into());
        };
        let meter = Meter::begin(&arguments.config_options, self.name());
        let questions = Questions::of(sets, arrays.get(1), &meter)?;
        let one = match arguments.return_field.data_type() {
            DataType::List(item) if questions.lists.is_some() => item.data_type(),
            ty => ty,
        };
        let answers = self.answers(sets.values(), &questions.asked, &meter)?;
        let answers = if answers.data_type() == one { answers } else { cast(&answers, one)? };
        let done = questions.put_together(answers);
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?));
        }
        Ok(ColumnarValue::Array(done))
    }
}

impl OrderedSet {
    /// An answer to each question.
    fn answers(&self, values: &ArrayRef, asked: &[Question], meter: &Meter) -> Result<ArrayRef, SqlError> {
        match (self.kind, values.data_type()) {
            (Kind::Continuous, DataType::Interval(_)) => {
                let values = values.as_primitive::<IntervalMonthDayNanoType>();
                let answers = asked.iter().map(|question| -> Result<_, SqlError> {
                    let Some((low, high, share)) = question.between() else { return Ok(None) };
                    interval_between(values.value(low), values.value(high), share).map(Some)
                });
                Ok(Arc::new(answers.collect::<Result<IntervalMonthDayNanoArray, SqlError>>()?))
            }
            (Kind::Continuous, _) => {
                let values = cast(values, &DataType::Float64)?;
                let values = values.as_primitive::<Float64Type>();
                let answers = asked.iter().map(|question| {
                    let (low, high, share) = question.between()?;
                    let (low, high) = (values.value(low), values.value(high));
                    Some(if share == 0.0 { low } else { low + share * (high - low) })
                });
                Ok(Arc::new(answers.collect::<Float64Array>()))
            }
            (Kind::Discrete, _) => {
                let places = asked.iter().map(|question| question.at().map(|place| place as u64));
                Ok(take(values, &places.collect::<UInt64Array>(), None)?)
            }
            (Kind::Mode, _) => {
                let places = asked.iter().map(|question| -> Result<Option<u64>, SqlError> {
                    meter.look()?;
                    Ok(most_frequent(values, question.set)?.map(|place| place as u64))
                });
                Ok(take(values, &places.collect::<Result<UInt64Array, SqlError>>()?, None)?)
            }
        }
    }
}

/// Where the values of a group that are not NULL lie among those of all groups.
#[derive(Clone, Copy)]
struct Set {
    start: usize,
    count: usize,
}

impl Set {
    fn of(sets: &ListArray, row: usize) -> Self {
        if sets.is_null(row) {
            return Self { start: 0, count: 0 };
        }
        let offsets = sets.value_offsets();
        let start = usize::try_from(offsets[row]).expect("an offset is not negative");
        let values = sets.value(row);
        let nulls = values.logical_null_count();
        let are_first = nulls > 0 && values.logical_nulls().is_some_and(|valid| valid.is_null(0));
        Self { start: if are_first { start + nulls } else { start }, count: values.len() - nulls }
    }
}

/// What is asked about a group: the value at this fraction of the way. Of `mode` there is no fraction.
#[derive(Clone, Copy)]
struct Question {
    set: Set,
    fraction: Option<f64>,
}

impl Question {
    /// The place of the value; `None` if there is none.
    fn at(&self) -> Option<usize> {
        let fraction = self.fraction.filter(|_| self.set.count > 0)?;
        let number = (fraction * self.set.count as f64).ceil() as usize;
        Some(self.set.start + number.clamp(1, self.set.count) - 1)
    }

    /// The places of two values, and how far the answer is from the first to the second.
    fn between(&self) -> Option<(usize, usize, f64)> {
        let fraction = self.fraction.filter(|_| self.set.count > 0)?;
        let last = self.set.count - 1;
        let place = fraction * last as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        Some((self.set.start + low.min(last), self.set.start + high.min(last), place - place.floor()))
    }
}

/// All that is asked, row by row.
struct Questions {
    asked: Vec<Question>,
    /// Where each row asks with an array: how many questions it has, and whether there is an answer at all.
    lists: Option<(Vec<usize>, Vec<bool>)>,
}

impl Questions {
    fn of(sets: &ListArray, fractions: Option<&ArrayRef>, meter: &Meter) -> Result<Self, SqlError> {
        let rows = 0..sets.len();
        let Some(fractions) = fractions else {
            let asked = rows.map(|row| Question { set: Set::of(sets, row), fraction: None }).collect();
            return Ok(Self { asked, lists: None });
        };
        if !matches!(fractions.data_type(), DataType::List(_)) {
            let fractions = cast_array(fractions, ColumnType::Double, Tz::UTC)?;
            let asked = rows.map(|row| -> Result<Question, SqlError> {
                meter.step()?;
                let fraction = fraction_at(&fractions, row)?;
                Ok(Question { set: Set::of(sets, row), fraction })
            });
            return Ok(Self { asked: asked.collect::<Result<_, SqlError>>()?, lists: None });
        }
        let fractions = cast_array(fractions, ColumnType::Array(ElementType::Double), Tz::UTC)?;
        let fractions = fractions.as_list::<i32>();
        let (mut asked, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            meter.step()?;
            let set = Set::of(sets, row);
            let is_answered = set.count > 0 && !fractions.is_null(row);
            let before = asked.len();
            if is_answered {
                let of_row = fractions.value(row);
                for place in 0..of_row.len() {
                    asked.push(Question { set, fraction: fraction_at(&of_row, place)? });
                }
            }
            lengths.push(asked.len() - before);
            valid.push(is_answered);
        }
        Ok(Self { asked, lists: Some((lengths, valid)) })
    }

    /// The answers, of each row that asked with an array as one.
    fn put_together(self, answers: ArrayRef) -> ArrayRef {
        let Some((lengths, valid)) = self.lists else { return answers };
        let item = Arc::new(Field::new_list_field(answers.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::new(item, offsets, answers, Some(NullBuffer::from(valid))))
    }
}

/// A fraction; `None` if it is NULL.
///
/// # Errors
/// `22003` if it is none.
fn fraction_at(fractions: &ArrayRef, row: usize) -> Result<Option<f64>, SqlError> {
    let fractions = fractions.as_primitive::<Float64Type>();
    if fractions.is_null(row) {
        return Ok(None);
    }
    let fraction = fractions.value(row);
    if (0.0..=1.0).contains(&fraction) {
        return Ok(Some(fraction));
    }
    Err(out_of_range(&format!("percentile value {fraction} is not between 0 and 1")))
}

/// The place of the first of the values that are there most often.
fn most_frequent(values: &ArrayRef, set: Set) -> Result<Option<usize>, SqlError> {
    if set.count == 0 {
        return Ok(None);
    }
    let runs = partition(&[values.slice(set.start, set.count)])?.ranges();
    let mut best = 0..0;
    for run in runs {
        if run.len() > best.len() {
            best = run;
        }
    }
    Ok(Some(set.start + best.start))
}

/// `low + share * (high - low)`, part by part, as PostgreSQL computes it.
///
/// # Errors
/// `22008` for what is no interval any more.
fn interval_between(
    low: IntervalMonthDayNano,
    high: IntervalMonthDayNano,
    share: f64,
) -> Result<IntervalMonthDayNano, SqlError> {
    if share == 0.0 {
        return Ok(low);
    }
    let sum = |one: IntervalMonthDayNano, other: IntervalMonthDayNano| {
        let months = one.months.checked_add(other.months)?;
        let days = one.days.checked_add(other.days)?;
        Some(IntervalMonthDayNano::new(months, days, one.nanoseconds.checked_add(other.nanoseconds)?))
    };
    let negated = |interval: IntervalMonthDayNano| {
        let (months, days) = (interval.months.checked_neg()?, interval.days.checked_neg()?);
        Some(IntervalMonthDayNano::new(months, days, interval.nanoseconds.checked_neg()?))
    };
    negated(low)
        .and_then(|below| sum(high, below))
        .and_then(|span| scaled_interval(span, |part| part * share))
        .and_then(|part| sum(part, low))
        .ok_or_else(|| SqlError::new(SqlState::DatetimeFieldOverflow, "interval out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;

    fn question(count: usize, fraction: f64) -> Question {
        Question { set: Set { start: 10, count }, fraction: Some(fraction) }
    }

    #[test]
    fn a_fraction_is_at_the_first_value_that_so_many_reach() {
        let at = |count, fraction| question(count, fraction).at();
        assert_eq!(
            [0.0, 0.25, 0.26, 0.5, 1.0].map(|fraction| at(4, fraction)),
            [10, 10, 11, 11, 13].map(Some)
        );
        assert_eq!(at(0, 0.5), None);
    }

    #[test]
    fn a_fraction_is_between_two_values() {
        assert_eq!(question(4, 0.5).between(), Some((11, 12, 0.5)));
        assert_eq!(question(5, 0.5).between(), Some((12, 12, 0.0)));
        assert_eq!(question(1, 0.7).between().map(|(low, high, _)| (low, high)), Some((10, 10)));
    }

    #[test]
    fn of_values_that_are_equally_frequent_the_first_counts() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![9, 1, 2, 2, 3, 3]));
        let found = most_frequent(&values, Set { start: 1, count: 5 }).unwrap();
        assert_eq!(found, Some(2));
    }
}
