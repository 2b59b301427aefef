// SPDX-License-Identifier: Apache-2.0
//! Coeval's types as clients know them: by number, size and modifier, and values in text and binary form.

mod arrays;
mod parameters;
mod rows;

pub(crate) use parameters::{bound_values, declared_types, described_types};
pub(crate) use rows::RowEncoder;

use crate::protocol::backend::DescribedColumn;
use arrow::datatypes::{Field, Schema};
use coeval::{ColumnType, ElementType, column_type_of_field};
use coeval_sql::{CatalogType, origin_of, type_number};
use std::sync::Arc;

/// Numbers of PostgreSQL's types, as `pg_type` has them.
pub(crate) mod oid {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const NAME: u32 = 19;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const JSON: u32 = 114;
    pub(crate) const JSONB: u32 = 3802;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIME: u32 = 1083;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const INTERVAL: u32 = 1186;
    pub(crate) const TIMETZ: u32 = 1266;
    pub(crate) const BIT: u32 = 1560;
    pub(crate) const VARBIT: u32 = 1562;
    pub(crate) const NUMERIC: u32 = 1700;
    pub(crate) const UUID: u32 = 2950;
    pub(crate) const PG_LSN: u32 = 3220;
    /// The first number of what users make.
    pub(crate) const FIRST_OF_USERS: u32 = 16_384;
}

/// The size of types whose values differ in length.
const SIZE_VARIES: i16 = -1;
/// Bytes that a type modifier of a character type counts beside the characters.
const MODIFIER_EXTRA: i32 = 4;

/// The number of a type that users have made.
fn user_oid(ty: ColumnType) -> u32 {
    type_number(ty).unsigned_abs()
}

/// A type as a client is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireType {
    pub(crate) oid: u32,
    pub(crate) size: i16,
    pub(crate) modifier: i32,
}

impl WireType {
    const fn new(oid: u32, size: i16) -> Self {
        Self { oid, size, modifier: -1 }
    }

    /// The type of a column.
    pub(crate) fn of(ty: ColumnType) -> Self {
        match ty {
            ColumnType::SmallInt => Self::new(oid::INT2, 2),
            ColumnType::Int => Self::new(oid::INT4, 4),
            ColumnType::BigInt => Self::new(oid::INT8, 8),
            ColumnType::Real => Self::new(oid::FLOAT4, 4),
            ColumnType::Double => Self::new(oid::FLOAT8, 8),
            ColumnType::Numeric { precision, scale } => {
                let modifier = (i32::from(precision) << 16 | i32::from(scale)) + MODIFIER_EXTRA;
                Self { modifier, ..Self::new(oid::NUMERIC, SIZE_VARIES) }
            }
            ColumnType::AnyNumeric => Self::new(oid::NUMERIC, SIZE_VARIES),
            ColumnType::Boolean => Self::new(oid::BOOL, 1),
            ColumnType::Text => Self::new(oid::TEXT, SIZE_VARIES),
            ColumnType::Varchar(length) => Self::of_length(oid::VARCHAR, length),
            ColumnType::Char(length) => Self::of_length(oid::BPCHAR, length),
            ColumnType::Bytea => Self::new(oid::BYTEA, SIZE_VARIES),
            ColumnType::Bit(length) => Self::of_bits(oid::BIT, length),
            ColumnType::Varbit(length) => Self::of_bits(oid::VARBIT, length),
            ColumnType::Date => Self::new(oid::DATE, 4),
            ColumnType::Time => Self::new(oid::TIME, 8),
            ColumnType::TimeTz => Self::new(oid::TIMETZ, 12),
            ColumnType::Timestamp => Self::new(oid::TIMESTAMP, 8),
            ColumnType::TimestampTz => Self::new(oid::TIMESTAMPTZ, 8),
            ColumnType::Interval => Self::new(oid::INTERVAL, 16),
            ColumnType::Uuid => Self::new(oid::UUID, 16),
            ColumnType::PgLsn => Self::new(oid::PG_LSN, 8),
            ColumnType::Json => Self::new(oid::JSON, SIZE_VARIES),
            ColumnType::Jsonb => Self::new(oid::JSONB, SIZE_VARIES),
            ColumnType::Enum(ty) => Self::new(user_oid(ColumnType::Enum(ty)), 4),
            ColumnType::Array(element) => Self::list_of(element.column_type()),
        }
    }

    fn of_length(oid: u32, length: u32) -> Self {
        let modifier = i32::try_from(length).map_or(-1, |length| length + MODIFIER_EXTRA);
        Self { modifier, ..Self::new(oid, SIZE_VARIES) }
    }

    /// The type of bit strings, whose modifier is their length.
    fn of_bits(oid: u32, length: Option<u32>) -> Self {
        let modifier = length.and_then(|length| i32::try_from(length).ok()).unwrap_or(-1);
        Self { modifier, ..Self::new(oid, SIZE_VARIES) }
    }

    /// The type of lists of this type; text for lists that PostgreSQL has no number for.
    fn list_of(element: ColumnType) -> Self {
        let oid = match element {
            ColumnType::SmallInt => 1005,
            ColumnType::Int => 1007,
            ColumnType::BigInt => 1016,
            ColumnType::Real => 1021,
            ColumnType::Double => 1022,
            ColumnType::Numeric { .. } | ColumnType::AnyNumeric => 1231,
            ColumnType::Boolean => 1000,
            ColumnType::Text => 1009,
            ColumnType::Varchar(_) => 1015,
            ColumnType::Char(_) => 1014,
            ColumnType::Bytea => 1001,
            ColumnType::Bit(_) => 1561,
            ColumnType::Varbit(_) => 1563,
            ColumnType::Date => 1182,
            ColumnType::Time => 1183,
            ColumnType::TimeTz => 1270,
            ColumnType::Timestamp => 1115,
            ColumnType::TimestampTz => 1185,
            ColumnType::Interval => 1187,
            ColumnType::Uuid => 2951,
            ColumnType::PgLsn => 3221,
            ColumnType::Json => 199,
            ColumnType::Jsonb => 3807,
            ColumnType::Enum(ty) => user_oid(ColumnType::Array(ElementType::Enum(ty))),
            // Arrays have no arrays as elements.
            ColumnType::Array(_) => oid::TEXT,
        };
        Self::new(oid, SIZE_VARIES)
    }
}

/// How values of a column become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One value.
    Scalar(ColumnType),
    /// A list of values.
    List(ColumnType),
    /// Whatever Arrow makes of it as text.
    Shown,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: Box<str>,
    pub(crate) ty: WireType,
    pub(crate) kind: Kind,
    /// Its type, if only the catalog has it.
    catalog_type: Option<CatalogType>,
    /// The column of a table that it is: the table's id and the column's number; zeros if it is none.
    pub(crate) origin: (i32, i16),
}

impl Column {
    /// What a client is told of it.
    pub(crate) fn described(&self) -> DescribedColumn<'_> {
        let WireType { oid, size, modifier } = self.ty;
        DescribedColumn { name: &self.name, origin: self.origin, oid, size, modifier }
    }

    /// The number of the type of its elements, which are of this column type.
    fn element_oid(&self, element: ColumnType) -> u32 {
        self.catalog_type.and_then(CatalogType::element_oid).unwrap_or_else(|| WireType::of(element).oid)
    }
}

/// The columns of a schema.
pub(crate) fn columns_of(schema: &Schema) -> Arc<[Column]> {
    schema.fields().iter().map(|field| column_of(field)).collect()
}

fn column_of(field: &Field) -> Column {
    let (kind, ty) = match column_type_of_field(field) {
        Some(ColumnType::Array(element)) => {
            let element = element.column_type();
            (Kind::List(element), WireType::list_of(element))
        }
        Some(ty) => (Kind::Scalar(ty), WireType::of(ty)),
        None => (Kind::Shown, WireType::of(ColumnType::Text)),
    };
    let catalog_type = CatalogType::of_field(field);
    let ty = catalog_type.map_or(ty, |ty| WireType::new(ty.oid(), ty.size()));
    let kind = match catalog_type {
        // In binary form it has the number of a version in front, as a jsonb has.
        Some(CatalogType::Path) => Kind::Scalar(ColumnType::Jsonb),
        _ => kind,
    };
    let origin = origin_of(field).unwrap_or_default();
    Column { name: field.name().as_str().into(), ty, kind, catalog_type, origin }
}
