// SPDX-License-Identifier: Apache-2.0
//! One row's call of a function.

use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::types::any_numeric::AnyNumeric;
use crate::types::format_value;
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType, IntervalValue, ListEncoder, Value, ValueRef};
use std::borrow::Cow;

/// The arguments, which are of the types that the form takes.
pub(super) struct Call<'a> {
    /// The function.
    pub(super) name: &'static str,
    pub(super) values: &'a [ValueRef<'a>],
    pub(super) types: &'a [ColumnType],
    /// The session's time zone.
    pub(super) zone: Tz,
    /// What it gives.
    pub(super) result: ColumnType,
    /// Counts what it makes.
    pub(super) meter: &'a Meter,
}

impl Call<'_> {
    /// How many arguments there are.
    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// Whether the argument is there and not NULL.
    pub(super) fn has(&self, place: usize) -> bool {
        self.values.get(place).is_some_and(|value| !value.is_null())
    }

    /// A text; empty if it is none.
    pub(super) fn text(&self, place: usize) -> &str {
        match self.values.get(place) {
            Some(ValueRef::Text(text)) => text,
            _ => "",
        }
    }

    /// Bytes; none if it is of another type.
    pub(super) fn bytes(&self, place: usize) -> &[u8] {
        match self.values.get(place) {
            Some(ValueRef::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// An integer, also what is counted in one: a date, a timestamp. Zero if it is none.
    pub(super) fn int(&self, place: usize) -> i64 {
        match self.values.get(place) {
            Some(ValueRef::Int16(value)) => i64::from(*value),
            Some(ValueRef::Int32(value)) => i64::from(*value),
            Some(ValueRef::Int64(value)) => *value,
            _ => 0,
        }
    }

    /// A float; zero if it is none.
    pub(super) fn double(&self, place: usize) -> f64 {
        match self.values.get(place) {
            Some(ValueRef::Float32(value)) => f64::from(*value),
            Some(ValueRef::Float64(value)) => *value,
            _ => 0.0,
        }
    }

    /// A `numeric` as the number without the point, and how many of its digits are behind that.
    pub(super) fn decimal(&self, place: usize) -> (i128, i8) {
        match (self.values.get(place), self.types.get(place)) {
            (Some(ValueRef::Decimal(value)), Some(ColumnType::Numeric { scale, .. })) => (*value, *scale),
            _ => (0, 0),
        }
    }

    /// A `numeric` of any number of digits; NaN if it is none.
    pub(super) fn number(&self, place: usize) -> AnyNumeric {
        match self.values.get(place) {
            Some(ValueRef::Number(number)) => AnyNumeric::of(*number),
            _ => AnyNumeric::NaN,
        }
    }

    /// An interval; of no length if it is none.
    pub(super) fn interval(&self, place: usize) -> IntervalValue {
        match self.values.get(place) {
            Some(ValueRef::Interval(value)) => *value,
            _ => IntervalValue { months: 0, days: 0, nanoseconds: 0 },
        }
    }

    /// The elements of an array; none if it is no array.
    pub(super) fn elements(&self, place: usize) -> Vec<Value> {
        match (self.values.get(place), self.types.get(place)) {
            (Some(ValueRef::List(list)), Some(ColumnType::Array(element))) => list.elements(*element),
            _ => Vec::new(),
        }
    }

    /// A value as it is shown.
    pub(super) fn shown(&self, place: usize) -> Cow<'_, str> {
        if let Some(ValueRef::Text(text)) = self.values.get(place) {
            return Cow::Borrowed(text);
        }
        let mut text = String::new();
        if let (Some(value), Some(ty)) = (self.values.get(place), self.types.get(place)) {
            format_value(*value, *ty, self.zone, &mut text);
        }
        Cow::Owned(text)
    }
}

/// A text as a value.
pub(super) fn text(text: impl Into<Box<str>>) -> Value {
    Value::Text(text.into())
}

/// An array of texts as a value.
pub(super) fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = Option<T>>) -> Value {
    let mut list = ListEncoder::default();
    for text in texts {
        match text {
            Some(text) => list.push(ValueRef::Text(text.as_ref())),
            None => list.push(ValueRef::Null),
        }
    }
    list.value()
}

/// The type of arrays of texts.
pub(super) const TEXTS: ColumnType = ColumnType::Array(ElementType::Text);

/// `22023`: a value that the function has no use for.
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InvalidParameterValue, message)
}
