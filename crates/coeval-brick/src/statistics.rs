// SPDX-License-Identifier: Apache-2.0
//! What is known of a column's values without looking at them: the zone map of a block, the summary of a brick.

use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{ArrowNativeType, DataType};

/// A value of a number, date, time or timestamp column, as the number that stands for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer, a decimal's unscaled value, or the number of days, seconds, ... of a date or time.
    Integer(i128),
    /// A floating point number.
    Float(f64),
}

/// What is known of the values of a column in some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColumnStatistics {
    /// How many rows.
    pub rows: usize,
    /// How many of them are NULL.
    pub null_count: usize,
    /// The least and the greatest value; `None` without values, for strings and booleans, and if a value is not
    /// a number (NaN).
    pub bounds: Option<(Number, Number)>,
    /// The sum of the values; `None` where there are no `bounds`, or if it needs more than 128 bits.
    pub sum: Option<Number>,
}

impl ColumnStatistics {
    /// What is known of these rows and `other`'s together.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        let is_valueless = |part: &Self| part.rows == part.null_count;
        let (bounds, sum) = match (is_valueless(&self), is_valueless(other)) {
            (_, true) => (self.bounds, self.sum),
            (true, false) => (other.bounds, other.sum),
            (false, false) => (wider(self.bounds, other.bounds), total(self.sum, other.sum)),
        };
        Self { rows: self.rows + other.rows, null_count: self.null_count + other.null_count, bounds, sum }
    }

    /// The statistics of `rows` rows of which nothing but the NULLs is known.
    pub(crate) fn of_nulls(rows: usize, nulls: Option<&BooleanBuffer>) -> Self {
        let null_count = nulls.map_or(0, BooleanBuffer::count_set_bits);
        Self { rows, null_count, bounds: None, sum: None }
    }

    /// The statistics of values that are stored as Arrow stores this type. `nulls` is set for NULLs.
    pub(crate) fn of_values(
        data_type: &DataType,
        values: &Buffer,
        rows: usize,
        nulls: Option<&BooleanBuffer>,
    ) -> Self {
        use DataType::{
            Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64, Int8, Int16, Int32,
            Int64, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
        };
        let (bounds, sum) = match data_type {
            Int8 => integers::<i8>(values, nulls),
            Int16 => integers::<i16>(values, nulls),
            Int32 | Date32 | Time32(_) | Decimal32(..) => integers::<i32>(values, nulls),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
                integers::<i64>(values, nulls)
            }
            Decimal128(..) => integers::<i128>(values, nulls),
            UInt8 => integers::<u8>(values, nulls),
            UInt16 => integers::<u16>(values, nulls),
            UInt32 => integers::<u32>(values, nulls),
            UInt64 => integers::<u64>(values, nulls),
            Float32 => floats::<f32>(values, nulls),
            Float64 => floats::<f64>(values, nulls),
            _ => (None, None),
        };
        Self { bounds, sum, ..Self::of_nulls(rows, nulls) }
    }
}

type Bounds = Option<(Number, Number)>;

fn wider(one: Bounds, other: Bounds) -> Bounds {
    let (((low, high), (other_low, other_high)), pick) = (one.zip(other)?, Number::pick);
    Some((pick(low, other_low, i128::min, f64::min), pick(high, other_high, i128::max, f64::max)))
}

fn total(one: Option<Number>, other: Option<Number>) -> Option<Number> {
    match one.zip(other)? {
        (Number::Integer(one), Number::Integer(other)) => one.checked_add(other).map(Number::Integer),
        (Number::Float(one), Number::Float(other)) => Some(Number::Float(one + other)),
        (Number::Integer(_), Number::Float(_)) | (Number::Float(_), Number::Integer(_)) => None,
    }
}

impl Number {
    /// Whether this number is less than `other`; no if they are not of one kind.
    #[must_use]
    pub fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one < other,
            (Self::Float(one), Self::Float(other)) => one < other,
            (Self::Integer(_), Self::Float(_)) | (Self::Float(_), Self::Integer(_)) => false,
        }
    }

    fn pick(self, other: Self, integer: fn(i128, i128) -> i128, float: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(integer(one, other)),
            (Self::Float(one), Self::Float(other)) => Self::Float(float(one, other)),
            (Self::Integer(_), Self::Float(_)) | (Self::Float(_), Self::Integer(_)) => {
                unreachable!("a column has values of one type")
            }
        }
    }
}

/// Calls `each` for the values that are not NULL.
fn for_valid<T: ArrowNativeType>(values: &Buffer, nulls: Option<&BooleanBuffer>, mut each: impl FnMut(T)) {
    let values = values.typed_data::<T>();
    match nulls {
        None => values.iter().for_each(|value| each(*value)),
        Some(nulls) => {
            let valid = values.iter().zip(nulls).filter(|(_, is_null)| !is_null);
            valid.for_each(|(value, _)| each(*value));
        }
    }
}

fn integers<T: ArrowNativeType + Ord + Into<i128>>(
    values: &Buffer,
    nulls: Option<&BooleanBuffer>,
) -> (Bounds, Option<Number>) {
    let (mut bounds, mut sum) = (None::<(T, T)>, Some(0_i128));
    for_valid::<T>(values, nulls, |value| {
        let (low, high) = bounds.unwrap_or((value, value));
        bounds = Some((low.min(value), high.max(value)));
    });
    for_valid::<T>(values, nulls, |value| sum = sum.and_then(|sum| sum.checked_add(value.into())));
    let bounds = bounds.map(|(low, high)| (Number::Integer(low.into()), Number::Integer(high.into())));
    (bounds, bounds.and(sum).map(Number::Integer))
}

fn floats<T: ArrowNativeType + Into<f64>>(
    values: &Buffer,
    nulls: Option<&BooleanBuffer>,
) -> (Bounds, Option<Number>) {
    let (mut low, mut high, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0_usize);
    for_valid::<T>(values, nulls, |value| {
        let value: f64 = value.into();
        (low, high) = (low.min(value), high.max(value));
        sum += value;
        count += 1;
    });
    // The sum of infinities of both signs is not a number either: then nothing is claimed.
    let is_known = count > 0 && !sum.is_nan();
    let bounds = (Number::Float(low), Number::Float(high));
    (is_known.then_some(bounds), is_known.then_some(Number::Float(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: ArrowNativeType>(data_type: &DataType, values: &[T], nulls: &[bool]) -> ColumnStatistics {
        let nulls = (!nulls.is_empty()).then(|| BooleanBuffer::from(nulls));
        let buffer = Buffer::from_slice_ref(values);
        ColumnStatistics::of_values(data_type, &buffer, values.len(), nulls.as_ref())
    }

    #[test]
    fn nulls_count_and_do_not_bound() {
        let part = of::<i32>(&DataType::Int32, &[5, -900, 7], &[false, true, false]);
        let bounds = Some((Number::Integer(5), Number::Integer(7)));
        assert_eq!(part, ColumnStatistics { rows: 3, null_count: 1, bounds, sum: Some(Number::Integer(12)) });
        let all_null = of::<i32>(&DataType::Int32, &[1], &[true]);
        assert_eq!((all_null.bounds, all_null.sum), (None, None));
        assert_eq!(all_null.with(&part).bounds, bounds);
        assert_eq!(part.with(&all_null), ColumnStatistics { rows: 4, null_count: 2, ..part });
    }

    #[test]
    fn unsigned_and_wide_values_keep_their_sign() {
        let part = of::<u64>(&DataType::UInt64, &[u64::MAX, 1], &[]);
        assert_eq!(part.bounds, Some((Number::Integer(1), Number::Integer(u64::MAX.into()))));
        assert_eq!(part.sum, Some(Number::Integer(1 << 64)));
        let wide = of::<i128>(&DataType::Decimal128(38, 0), &[i128::MAX, 1], &[]);
        assert_eq!((wide.bounds.is_some(), wide.sum), (true, None), "the sum needs more than 128 bits");
    }

    #[test]
    fn nothing_is_claimed_where_a_value_is_not_a_number() {
        let nan = of::<f64>(&DataType::Float64, &[1.0, f64::NAN], &[]);
        let good = of::<f64>(&DataType::Float64, &[1.5, -2.0], &[]);
        assert_eq!((nan.bounds, nan.sum), (None, None));
        assert_eq!(good.bounds, Some((Number::Float(-2.0), Number::Float(1.5))));
        assert_eq!((good.with(&nan).bounds, nan.with(&good).sum), (None, None), "and it stays so");
    }
}
