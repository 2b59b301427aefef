// SPDX-License-Identifier: Apache-2.0
//! One value of one column, owned or borrowed; in an array, in the bytes of a key, and in a column.
//!
//! These belong together: an array's elements lie there as the components of a key do, and both are made of values.

mod array_value;
mod bits;
mod components;
mod list;
mod number;
mod place;
mod zoned_time;

pub(crate) use array_value::UUID_SIZE;
pub use array_value::value_at;
pub use bits::{bits_length, bits_of, kept_bits};
pub use components::{KeyDamage, KeyReader, KeyWriter, Nullable};
pub(crate) use list::check_list;
pub use list::{ListEncoder, ListRef};
pub use number::{AnyNumber, AnyNumberRef, NUMBER_SCALE_MAX, NUMBER_WHOLE_DIGITS_MAX, NumberClass};
pub(crate) use place::PLACE_SIZE;
pub use place::{kept_place, place_of};
use std::fmt;
pub(crate) use zoned_time::ZONED_TIME_SIZE;
pub use zoned_time::{kept_zoned_time, zoned_time_of};

/// A span of time in the three parts that PostgreSQL keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct IntervalValue {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

impl PartialOrd for IntervalValue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for IntervalValue {
    /// By length; equal lengths in different parts by the parts, so that equal means the same.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let parts = |value: &Self| (value.ordering(), value.months, value.days);
        parts(self).cmp(&parts(other))
    }
}

impl IntervalValue {
    /// The length in nanoseconds with months of 30 days and days of 24 hours: what PostgreSQL compares by.
    #[must_use]
    pub fn ordering(self) -> i128 {
        const DAY: i128 = 86_400_000_000_000;
        (i128::from(self.months) * 30 + i128::from(self.days)) * DAY + i128::from(self.nanoseconds)
    }
}

/// A value borrowed from a row or a chunk. Which variant a column has follows from its
/// [`Physical`](crate::Physical) type: a `date` is an `Int32`, a `timestamp` an `Int64`, a `numeric` a
/// `Decimal` without its scale.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// `boolean`.
    Boolean(bool),
    /// `smallint`.
    Int16(i16),
    /// `int`, `date` (days since 1970-01-01).
    Int32(i32),
    /// `bigint`, `time`, `timestamp`, `timestamptz` (microseconds), the place of an enum's label.
    Int64(i64),
    /// `real`.
    Float32(f32),
    /// `double precision`.
    Float64(f64),
    /// `numeric` with digits: the unscaled number.
    Decimal(i128),
    /// `numeric` without digits.
    Number(AnyNumberRef<'a>),
    /// `text`, `varchar`, `char`, `json`.
    Text(&'a str),
    /// `bytea`.
    Bytes(&'a [u8]),
    /// `interval`.
    Interval(IntervalValue),
    /// `uuid`.
    Uuid([u8; 16]),
    /// An array.
    List(ListRef<'a>),
}

/// An owned value; see [`ValueRef`] for what the variants hold.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// `boolean`.
    Boolean(bool),
    /// `smallint`.
    Int16(i16),
    /// `int`, `date`.
    Int32(i32),
    /// `bigint`, `time`, `timestamp`, `timestamptz`.
    Int64(i64),
    /// `real`.
    Float32(f32),
    /// `double precision`.
    Float64(f64),
    /// `numeric` with digits, unscaled.
    Decimal(i128),
    /// `numeric` without digits.
    Number(AnyNumber),
    /// `text`, `varchar`, `char`, `json`.
    Text(Box<str>),
    /// `bytea`.
    Bytes(Box<[u8]>),
    /// `interval`.
    Interval(IntervalValue),
    /// `uuid`.
    Uuid([u8; 16]),
    /// An array, as rows have it: see [`ListEncoder`](crate::ListEncoder).
    List(Box<[u8]>),
}

impl Value {
    /// The same value, borrowed.
    #[must_use]
    #[inline]
    pub fn borrow(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Boolean(v) => ValueRef::Boolean(*v),
            Self::Int16(v) => ValueRef::Int16(*v),
            Self::Int32(v) => ValueRef::Int32(*v),
            Self::Int64(v) => ValueRef::Int64(*v),
            Self::Float32(v) => ValueRef::Float32(*v),
            Self::Float64(v) => ValueRef::Float64(*v),
            Self::Decimal(v) => ValueRef::Decimal(*v),
            Self::Number(v) => ValueRef::Number(v.borrow()),
            Self::Text(v) => ValueRef::Text(v),
            Self::Bytes(v) => ValueRef::Bytes(v),
            Self::Interval(v) => ValueRef::Interval(*v),
            Self::Uuid(v) => ValueRef::Uuid(*v),
            Self::List(v) => ValueRef::List(ListRef::Encoded(v)),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// An owned copy.
    #[must_use]
    pub fn to_owned(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(v) => Value::Boolean(v),
            Self::Int16(v) => Value::Int16(v),
            Self::Int32(v) => Value::Int32(v),
            Self::Int64(v) => Value::Int64(v),
            Self::Float32(v) => Value::Float32(v),
            Self::Float64(v) => Value::Float64(v),
            Self::Decimal(v) => Value::Decimal(v),
            Self::Number(v) => Value::Number(v.to_owned()),
            Self::Text(v) => Value::Text(v.into()),
            Self::Bytes(v) => Value::Bytes(v.into()),
            Self::Interval(v) => Value::Interval(v),
            Self::Uuid(v) => Value::Uuid(v),
            Self::List(v) => Value::List(v.encoded().into()),
        }
    }

    /// Whether this is SQL NULL.
    #[must_use]
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// Any integer variant widened, else `None`.
    #[must_use]
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int16(v) => Some(i64::from(v)),
            Self::Int32(v) => Some(i64::from(v)),
            Self::Int64(v) => Some(v),
            Self::Null
            | Self::Boolean(_)
            | Self::Float32(_)
            | Self::Float64(_)
            | Self::Decimal(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Interval(_)
            | Self::Uuid(_)
            | Self::List(_) => None,
        }
    }

    /// The text, if this is one.
    #[must_use]
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        if let Self::Text(v) = self { Some(v) } else { None }
    }

    /// The unscaled decimal, if this is one.
    #[must_use]
    #[inline]
    pub fn as_decimal(self) -> Option<i128> {
        if let Self::Decimal(v) = self { Some(v) } else { None }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
from!(bool => Boolean, i16 => Int16, i32 => Int32, i64 => Int64, f32 => Float32, f64 => Float64,
      i128 => Decimal, &str => Text, String => Text, IntervalValue => Interval);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl fmt::Display for ValueRef<'_> {
    /// For messages: the physical value, not its SQL text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(v) => write!(f, "{v}"),
            Self::Int16(v) => write!(f, "{v}"),
            Self::Int32(v) => write!(f, "{v}"),
            Self::Int64(v) => write!(f, "{v}"),
            Self::Float32(v) => write!(f, "{v}"),
            Self::Float64(v) => write!(f, "{v}"),
            Self::Decimal(v) => write!(f, "{v}"),
            Self::Number(v) => write!(f, "{v}"),
            Self::Text(v) => f.write_str(v),
            Self::Bytes(v) => write_hex(f, v),
            Self::Uuid(v) => write_hex(f, v),
            Self::List(v) => write_hex(f, &v.encoded()),
            Self::Interval(v) => write!(f, "{} mons {} days {} ns", v.months, v.days, v.nanoseconds),
        }
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
