// SPDX-License-Identifier: Apache-2.0
//! The types that elements of arrays can have: all column types but arrays.

use super::ColumnType;
use crate::enum_type::EnumType;
use serde::{Deserialize, Serialize};

/// The type of an array's elements. Its variants are those of [`ColumnType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each variant is explained where ColumnType has it")]
pub enum ElementType {
    SmallInt,
    Int,
    BigInt,
    Real,
    Double,
    Numeric { precision: u8, scale: i8 },
    AnyNumeric,
    Boolean,
    Text,
    Varchar(u32),
    Char(u32),
    Bytea,
    Bit(Option<u32>),
    Varbit(Option<u32>),
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    PgLsn,
    Enum(EnumType),
}

impl ElementType {
    /// The element type that is this column type; `None` for arrays.
    #[must_use]
    pub const fn of(ty: ColumnType) -> Option<Self> {
        Some(match ty {
            ColumnType::SmallInt => Self::SmallInt,
            ColumnType::Int => Self::Int,
            ColumnType::BigInt => Self::BigInt,
            ColumnType::Real => Self::Real,
            ColumnType::Double => Self::Double,
            ColumnType::Numeric { precision, scale } => Self::Numeric { precision, scale },
            ColumnType::AnyNumeric => Self::AnyNumeric,
            ColumnType::Boolean => Self::Boolean,
            ColumnType::Text => Self::Text,
            ColumnType::Varchar(length) => Self::Varchar(length),
            ColumnType::Char(length) => Self::Char(length),
            ColumnType::Bytea => Self::Bytea,
            ColumnType::Bit(length) => Self::Bit(length),
            ColumnType::Varbit(length) => Self::Varbit(length),
            ColumnType::Date => Self::Date,
            ColumnType::Time => Self::Time,
            ColumnType::TimeTz => Self::TimeTz,
            ColumnType::Timestamp => Self::Timestamp,
            ColumnType::TimestampTz => Self::TimestampTz,
            ColumnType::Interval => Self::Interval,
            ColumnType::Uuid => Self::Uuid,
            ColumnType::Json => Self::Json,
            ColumnType::Jsonb => Self::Jsonb,
            ColumnType::PgLsn => Self::PgLsn,
            ColumnType::Enum(ty) => Self::Enum(ty),
            ColumnType::Array(_) => return None,
        })
    }

    /// The column type that it is.
    #[must_use]
    pub const fn column_type(self) -> ColumnType {
        match self {
            Self::SmallInt => ColumnType::SmallInt,
            Self::Int => ColumnType::Int,
            Self::BigInt => ColumnType::BigInt,
            Self::Real => ColumnType::Real,
            Self::Double => ColumnType::Double,
            Self::Numeric { precision, scale } => ColumnType::Numeric { precision, scale },
            Self::AnyNumeric => ColumnType::AnyNumeric,
            Self::Boolean => ColumnType::Boolean,
            Self::Text => ColumnType::Text,
            Self::Varchar(length) => ColumnType::Varchar(length),
            Self::Char(length) => ColumnType::Char(length),
            Self::Bytea => ColumnType::Bytea,
            Self::Bit(length) => ColumnType::Bit(length),
            Self::Varbit(length) => ColumnType::Varbit(length),
            Self::Date => ColumnType::Date,
            Self::Time => ColumnType::Time,
            Self::TimeTz => ColumnType::TimeTz,
            Self::Timestamp => ColumnType::Timestamp,
            Self::TimestampTz => ColumnType::TimestampTz,
            Self::Interval => ColumnType::Interval,
            Self::Uuid => ColumnType::Uuid,
            Self::Json => ColumnType::Json,
            Self::Jsonb => ColumnType::Jsonb,
            Self::PgLsn => ColumnType::PgLsn,
            Self::Enum(ty) => ColumnType::Enum(ty),
        }
    }
}
