// SPDX-License-Identifier: Apache-2.0
//! What `percentile_disc`, `percentile_cont` and `mode` find in the order that `WITHIN GROUP` asks for, among all values of a group
//! that are not NULL. The values come in any order ([`ORDERED_SET`]): those that are asked for are [selected](selection), and
//! nothing is sorted.
//!
//! The arguments are the values, the fractions if there are any, and whether the greatest value is the first.

mod selection;

use crate::allowance::Meter;
use crate::error::{SqlError, SqlState, out_of_range};
use crate::scalar::cast_function::cast_array;
use crate::types::{
    column_type_of_arrow, column_type_of_field, marked_field, require_order, scaled_interval,
};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use selection::{Direction, Order, Place, Rank, Texts};
use std::ops::Range;
use std::sync::Arc;

/// The aggregate that collects the values of a group.
pub(crate) const ORDERED_SET: &str = "coeval_ordered_set";
/// The value at a fraction of the way through the values.
pub(crate) const PERCENTILE_DISC: &str = "coeval_percentile_disc";
/// The same between two values, for numbers and intervals.
pub(crate) const PERCENTILE_CONT: &str = "coeval_percentile_cont";
/// The most frequent value, of several the first in the order.
pub(crate) const MODE: &str = "coeval_mode";

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Discrete, Kind::Continuous, Kind::Mode].into_iter().map(|kind| {
        let count = if kind == Kind::Mode { 2 } else { 3 };
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
        require_order(element.column_type())?;
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
            | ElementType::Numeric { .. }
            | ElementType::AnyNumeric => Ok(ElementType::Double),
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
        let [values, fractions @ .., ColumnarValue::Scalar(ScalarValue::Boolean(Some(is_descending)))] =
            &arguments.args[..]
        else {
            return Err(SqlError::internal("an ordered set without its order").into());
        };
        let meter = Meter::begin(&arguments.config_options, self.name());
        let sets = Sets::of(&values.to_array(rows)?)?;
        let answer_type = column_type_of_field(&arguments.return_field);
        let texts = match answer_type {
            Some(ColumnType::Jsonb | ColumnType::Array(ElementType::Jsonb)) => Texts::Documents,
            _ => Texts::Plain,
        };
        let direction = if *is_descending { Direction::Descending } else { Direction::Ascending };
        let order = Order::of(&sets.values, texts, direction, &meter)?;
        let done = match fractions.first() {
            None => {
                let found = sets.values_at(order.most_frequent(&sets.ranges)?)?;
                of_type(found, arguments.return_field.data_type())?
            }
            Some(fractions) => {
                let questions = Questions::of(&sets, &fractions.to_array(rows)?, &meter)?;
                let answers = self.answers(&sets, &questions.asked, &order)?;
                let one = match arguments.return_field.data_type() {
                    DataType::List(item) if questions.lists.is_some() => item.data_type(),
                    ty => ty,
                };
                questions.put_together(of_type(answers, one)?)
            }
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?));
        }
        Ok(ColumnarValue::Array(done))
    }
}

fn of_type(answers: ArrayRef, ty: &DataType) -> Result<ArrayRef, SqlError> {
    if answers.data_type() == ty { Ok(answers) } else { Ok(cast(&answers, ty)?) }
}

impl OrderedSet {
    /// An answer to each question about a fraction.
    fn answers(&self, sets: &Sets, asked: &[Question], order: &Order<'_>) -> Result<ArrayRef, SqlError> {
        if self.kind == Kind::Continuous {
            return between(sets, asked, order);
        }
        let ranks: Vec<Option<Rank>> = asked.iter().map(|question| question.at(sets)).collect();
        let wanted: Vec<Rank> = ranks.iter().flatten().copied().collect();
        let mut places = order.at_ranks(&sets.ranges, &wanted)?.into_iter();
        sets.values_at(ranks.iter().map(|rank| rank.and_then(|_| places.next())).collect())
    }
}

/// For each question what is so far between two values.
fn between(sets: &Sets, asked: &[Question], order: &Order<'_>) -> Result<ArrayRef, SqlError> {
    let pairs: Vec<Option<Pair>> = asked.iter().map(|question| question.between(sets)).collect();
    let wanted: Vec<Rank> = pairs.iter().flatten().flat_map(|pair| [pair.low, pair.high]).collect();
    let places = order.at_ranks(&sets.ranges, &wanted)?;
    let ends = sets.values_at(places.into_iter().map(Some).collect())?;
    // The two ends of each pair stand one behind the other.
    let mut firsts = (0_usize..).step_by(2);
    let shares = pairs.iter().map(|pair| pair.as_ref().and_then(|pair| Some((firsts.next()?, pair.share))));
    if matches!(ends.data_type(), DataType::Interval(_)) {
        let ends = ends.as_primitive::<IntervalMonthDayNanoType>();
        let answers = shares.map(|pair| -> Result<_, SqlError> {
            let Some((first, share)) = pair else { return Ok(None) };
            interval_between(ends.value(first), ends.value(first + 1), share).map(Some)
        });
        return Ok(Arc::new(answers.collect::<Result<IntervalMonthDayNanoArray, SqlError>>()?));
    }
    let ends = match column_type_of_arrow(ends.data_type()) {
        Some(ColumnType::AnyNumeric) => cast_array(&ends, ColumnType::Double, Tz::UTC)?,
        _ => cast(&ends, &DataType::Float64)?,
    };
    let ends = ends.as_primitive::<Float64Type>();
    let answers = shares.map(|pair| {
        let (first, share) = pair?;
        let (low, high) = (ends.value(first), ends.value(first + 1));
        Some(if share == 0.0 { low } else { low + share * (high - low) })
    });
    Ok(Arc::new(answers.collect::<Float64Array>()))
}

/// The values of all groups of a batch, and where those of each are among them.
struct Sets {
    values: ArrayRef,
    ranges: Vec<Range<usize>>,
}

impl Sets {
    /// The sets that are kept as these arrays.
    fn of(arrays: &ArrayRef) -> Result<Self, SqlError> {
        let Some(arrays) = arrays.as_list_opt::<i32>() else {
            return Err(SqlError::internal("an ordered set that is no array"));
        };
        let offset =
            |row: usize| usize::try_from(arrays.value_offsets()[row]).expect("an offset is not negative");
        // A batch may be a slice, whose arrays are few of those that are there.
        let (start, end) = (offset(0), offset(arrays.len()));
        let range =
            |row| if arrays.is_null(row) { 0..0 } else { offset(row) - start..offset(row + 1) - start };
        let ranges = (0..arrays.len()).map(range).collect();
        Ok(Self { values: arrays.values().slice(start, end - start), ranges })
    }

    fn values_at(&self, places: Vec<Option<Place>>) -> Result<ArrayRef, SqlError> {
        Ok(take(&self.values, &UInt32Array::from(places), None)?)
    }
}

/// What is asked about a set: the value at this fraction of the way.
#[derive(Clone, Copy)]
struct Question {
    set: usize,
    fraction: Option<f64>,
}

/// Two neighbours in the order of a set, and how far the answer is from the first to the second.
struct Pair {
    low: Rank,
    high: Rank,
    share: f64,
}

impl Question {
    /// The fraction, and how many values there are; `None` if there is no answer.
    fn fraction_of(&self, sets: &Sets) -> Option<(f64, usize)> {
        let count = sets.ranges[self.set].len();
        self.fraction.filter(|_| count > 0).map(|fraction| (fraction, count))
    }

    /// Which value it is.
    fn at(&self, sets: &Sets) -> Option<Rank> {
        let (fraction, count) = self.fraction_of(sets)?;
        let number = (fraction * count as f64).ceil() as usize;
        Some(Rank { set: self.set, rank: number.clamp(1, count) - 1 })
    }

    /// Between which values it is.
    fn between(&self, sets: &Sets) -> Option<Pair> {
        let (fraction, count) = self.fraction_of(sets)?;
        let last = count - 1;
        let place = fraction * last as f64;
        let rank = |rank: f64| Rank { set: self.set, rank: (rank as usize).min(last) };
        Some(Pair { low: rank(place.floor()), high: rank(place.ceil()), share: place - place.floor() })
    }
}

/// All that is asked, row by row.
struct Questions {
    asked: Vec<Question>,
    /// Where each row asks with an array: how many questions it has, and whether there is an answer at all.
    lists: Option<(Vec<usize>, Vec<bool>)>,
}

impl Questions {
    fn of(sets: &Sets, fractions: &ArrayRef, meter: &Meter) -> Result<Self, SqlError> {
        let rows = 0..sets.ranges.len();
        if !matches!(fractions.data_type(), DataType::List(_)) {
            let fractions = cast_array(fractions, ColumnType::Double, Tz::UTC)?;
            let asked = rows.map(|set| -> Result<Question, SqlError> {
                meter.step()?;
                Ok(Question { set, fraction: fraction_at(&fractions, set)? })
            });
            return Ok(Self { asked: asked.collect::<Result<_, SqlError>>()?, lists: None });
        }
        let fractions = cast_array(fractions, ColumnType::Array(ElementType::Double), Tz::UTC)?;
        let fractions = fractions.as_list::<i32>();
        let (mut asked, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for set in rows {
            meter.step()?;
            let is_answered = !sets.ranges[set].is_empty() && !fractions.is_null(set);
            let before = asked.len();
            if is_answered {
                let of_row = fractions.value(set);
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

    fn asked<T>(count: usize, fraction: f64, ask: impl Fn(&Question, &Sets) -> T) -> T {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![0; count]));
        let sets = Sets { values, ranges: vec![0..0, 0..count] };
        ask(&Question { set: 1, fraction: Some(fraction) }, &sets)
    }

    #[test]
    fn a_fraction_is_at_the_first_value_that_so_many_reach() {
        let at = |count, fraction| asked(count, fraction, Question::at).map(|rank| rank.rank);
        assert_eq!([0.0, 0.25, 0.26, 0.5, 1.0].map(|fraction| at(4, fraction)), [0, 0, 1, 1, 3].map(Some));
        assert_eq!(at(0, 0.5), None);
    }

    #[test]
    fn a_fraction_is_between_two_values() {
        let between = |count, fraction| {
            asked(count, fraction, Question::between).map(|pair| (pair.low.rank, pair.high.rank, pair.share))
        };
        assert_eq!(between(4, 0.5), Some((1, 2, 0.5)));
        assert_eq!(between(5, 0.5), Some((2, 2, 0.0)));
        assert_eq!(between(1, 0.7).map(|(low, high, _)| (low, high)), Some((0, 0)));
        assert!(between(0, 0.5).is_none());
    }

    #[test]
    fn sets_of_a_slice_are_its_own() {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let arrays = ListArray::new(
            item,
            OffsetBuffer::from_lengths([2, 0, 1, 3]),
            Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6])),
            Some(NullBuffer::from(vec![true, false, true, true])),
        );
        let sets = Sets::of(&(Arc::new(arrays.slice(1, 2)) as ArrayRef)).unwrap();
        assert_eq!(sets.ranges, [0..0, 0..1]);
        assert_eq!(sets.values.as_primitive::<arrow::datatypes::Int32Type>().values(), &[3_i32]);
    }
}
