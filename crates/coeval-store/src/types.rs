// SPDX-License-Identifier: Apache-2.0
//! The column types of Coeval and the Arrow types that hold them.

mod element;

use crate::enum_type::EnumType;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
pub use element::ElementType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The most digits a `numeric` can have.
pub const NUMERIC_PRECISION_MAX: u8 = 38;
/// A `numeric` of at most this precision is kept in 8 bytes in rows and keys.
pub const NUMERIC_PRECISION_SHORT_MAX: u8 = 18;

/// The type of a column, as SQL declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// 16-bit integer.
    SmallInt,
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    BigInt,
    /// 32-bit float.
    Real,
    /// 64-bit float.
    Double,
    /// Exact number with `precision` digits, `scale` of them behind the point.
    Numeric {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Exact number of as many digits as it needs, or NaN, or infinite: `numeric` without digits.
    AnyNumeric,
    /// True or false.
    Boolean,
    /// UTF-8 text of any length.
    Text,
    /// Text of at most this many characters.
    Varchar(u32),
    /// Text of exactly this many characters, padded with blanks; trailing blanks do not count.
    Char(u32),
    /// Bytes.
    Bytea,
    /// Exactly this many bits, as [`kept_bits`](crate::kept_bits) makes bytes of them; without a number any, of values that were
    /// computed.
    Bit(Option<u32>),
    /// At most this many bits, or any number of them, kept likewise.
    Varbit(Option<u32>),
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// The same with the offset of a zone, as [`kept_zoned_time`](crate::kept_zoned_time) makes bytes of both.
    TimeTz,
    /// Microseconds since 1970-01-01 00:00, no time zone.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00 UTC.
    TimestampTz,
    /// Months, days and nanoseconds.
    Interval,
    /// 128-bit identifier.
    Uuid,
    /// JSON, kept as its text.
    Json,
    /// JSON, kept as the one text that all equal documents have.
    Jsonb,
    /// A place in a log: a number of 64 bits, as [`kept_place`](crate::kept_place) makes an integer of it.
    PgLsn,
    /// One of a list of labels, kept as its place in the list.
    Enum(EnumType),
    /// Values of one type, in order.
    Array(ElementType),
}

/// How values of a column lie in rows and keys. Several column types share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Physical {
    /// One byte.
    Boolean,
    /// Two bytes.
    Int16,
    /// Four bytes: `int`, `date`.
    Int32,
    /// Eight bytes: `bigint`, `time`, `timestamp`, `timestamptz`, `pg_lsn`, enums.
    Int64,
    /// Four bytes.
    Float32,
    /// Eight bytes.
    Float64,
    /// An unscaled decimal in eight bytes.
    DecimalShort,
    /// An unscaled decimal in sixteen bytes.
    DecimalLong,
    /// Bytes of any length: a number, as [`AnyNumber`](crate::AnyNumber) has it.
    Number,
    /// UTF-8 text.
    Text,
    /// Bytes of any length: `bytea`, bit strings, times with a zone.
    Bytes,
    /// Sixteen bytes: months, days, nanoseconds.
    Interval,
    /// Sixteen bytes.
    Uuid,
    /// Bytes of any length: elements of this type.
    List(ElementType),
}

impl ColumnType {
    /// How values of this type lie in rows and keys.
    #[must_use]
    pub const fn physical(self) -> Physical {
        match self {
            Self::SmallInt => Physical::Int16,
            Self::Int | Self::Date => Physical::Int32,
            Self::BigInt | Self::Time | Self::Timestamp | Self::TimestampTz | Self::PgLsn | Self::Enum(_) => {
                Physical::Int64
            }
            Self::Real => Physical::Float32,
            Self::Double => Physical::Float64,
            Self::Numeric { precision, .. } => {
                if precision <= NUMERIC_PRECISION_SHORT_MAX {
                    Physical::DecimalShort
                } else {
                    Physical::DecimalLong
                }
            }
            Self::AnyNumeric => Physical::Number,
            Self::Boolean => Physical::Boolean,
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Json | Self::Jsonb => Physical::Text,
            Self::Bytea | Self::Bit(_) | Self::Varbit(_) | Self::TimeTz => Physical::Bytes,
            Self::Interval => Physical::Interval,
            Self::Uuid => Physical::Uuid,
            Self::Array(element) => Physical::List(element),
        }
    }

    /// The type whose arrays chunks keep the values in. Enums are integers there, whatever their labels are by then.
    #[must_use]
    pub const fn stored(self) -> Self {
        match self {
            Self::Enum(_) => Self::BigInt,
            Self::Array(ElementType::Enum(_)) => Self::Array(ElementType::BigInt),
            other => other,
        }
    }

    /// Whether its values are bit strings.
    #[must_use]
    pub const fn is_bits(self) -> bool {
        matches!(self, Self::Bit(_) | Self::Varbit(_))
    }

    /// The type made by users that it is, or that its elements are.
    #[must_use]
    pub const fn user_type(self) -> Option<EnumType> {
        match self {
            Self::Enum(ty) | Self::Array(ElementType::Enum(ty)) => Some(ty),
            _ => None,
        }
    }

    /// The Arrow type of this column in scans and in query results.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            Self::SmallInt => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Numeric { precision, scale } => DataType::Decimal128(precision, scale),
            // Of nothing else, so that the type is known by it.
            Self::AnyNumeric => DataType::LargeBinary,
            Self::Boolean => DataType::Boolean,
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Json | Self::Jsonb => DataType::Utf8View,
            Self::Bytea => DataType::BinaryView,
            // Of nothing else, too.
            Self::Bit(_) | Self::Varbit(_) => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::TimeTz => DataType::FixedSizeBinary(12),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::PgLsn => DataType::FixedSizeBinary(8),
            Self::Enum(ty) => ty.arrow(),
            Self::Array(element) => {
                DataType::List(Arc::new(Field::new_list_field(element.column_type().arrow(), true)))
            }
        }
    }
}

impl fmt::Display for ColumnType {
    /// The type as PostgreSQL's `format_type` spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallInt => f.write_str("smallint"),
            Self::Int => f.write_str("integer"),
            Self::BigInt => f.write_str("bigint"),
            Self::Real => f.write_str("real"),
            Self::Double => f.write_str("double precision"),
            Self::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::AnyNumeric => f.write_str("numeric"),
            Self::Boolean => f.write_str("boolean"),
            Self::Text => f.write_str("text"),
            Self::Varchar(length) => write!(f, "character varying({length})"),
            Self::Char(length) => write!(f, "character({length})"),
            Self::Bytea => f.write_str("bytea"),
            // Without quotes it would be the one of one bit.
            Self::Bit(None) => f.write_str("\"bit\""),
            Self::Bit(Some(length)) => write!(f, "bit({length})"),
            Self::Varbit(None) => f.write_str("bit varying"),
            Self::Varbit(Some(length)) => write!(f, "bit varying({length})"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time without time zone"),
            Self::TimeTz => f.write_str("time with time zone"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::TimestampTz => f.write_str("timestamp with time zone"),
            Self::Interval => f.write_str("interval"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::PgLsn => f.write_str("pg_lsn"),
            Self::Enum(ty) => write!(f, "{ty}"),
            Self::Array(element) => write!(f, "{}[]", element.column_type()),
        }
    }
}
