// SPDX-License-Identifier: Apache-2.0
//! Column types as `pg_type` and `pg_attribute` have them.

use crate::oids;
use crate::types::{column_type_of_arrow, type_name};
use arrow::datatypes::DataType;
use coeval_store::{ColumnDef, ColumnType, ElementType, ViewColumn};

/// A type as `pg_attribute` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeFacts {
    /// Its id in `pg_type`.
    pub(crate) oid: i32,
    /// The modifier: lengths and precisions.
    pub(crate) modifier: i32,
    /// Bytes of a value, -1 if they vary.
    pub(crate) length: i16,
    /// How PostgreSQL would keep large values.
    pub(crate) storage: &'static str,
    /// `c`, `s`, `i` or `d`.
    pub(crate) align: &'static str,
    /// The collation, 0 for what has none.
    pub(crate) collation: i32,
    /// Whether it is an array type.
    pub(crate) is_array: bool,
}

/// The header that PostgreSQL counts into the modifiers of `varchar` and `numeric`.
const MODIFIER_HEADER: i32 = 4;
/// What PostgreSQL puts in front of an interval's digits of seconds if it has all fields.
const ALL_INTERVAL_FIELDS: i32 = 0x7fff << 16;
/// `text`.
const TEXT: i32 = 25;
/// The default collation.
const DEFAULT_COLLATION: i32 = 100;

/// The facts of a column type.
pub(crate) fn facts(ty: ColumnType) -> TypeFacts {
    let fixed = |oid, length, align| TypeFacts {
        oid,
        modifier: -1,
        length,
        storage: "p",
        align,
        collation: 0,
        is_array: false,
    };
    let text = |oid, modifier| TypeFacts {
        oid,
        modifier,
        length: -1,
        storage: "x",
        align: "i",
        collation: DEFAULT_COLLATION,
        is_array: false,
    };
    let bits = |oid, length: Option<u32>| TypeFacts {
        modifier: length.and_then(|length| i32::try_from(length).ok()).unwrap_or(-1),
        storage: "x",
        ..fixed(oid, -1, "i")
    };
    let length = |characters: u32| i32::try_from(characters).map_or(-1, |count| count + MODIFIER_HEADER);
    match ty {
        ColumnType::Boolean => fixed(16, 1, "c"),
        ColumnType::SmallInt => fixed(21, 2, "s"),
        ColumnType::Int => fixed(23, 4, "i"),
        ColumnType::BigInt => fixed(20, 8, "d"),
        ColumnType::Real => fixed(700, 4, "i"),
        ColumnType::Double => fixed(701, 8, "d"),
        ColumnType::Date => fixed(1082, 4, "i"),
        ColumnType::Time => fixed(1083, 8, "d"),
        ColumnType::TimeTz => fixed(1266, 12, "d"),
        ColumnType::Timestamp => fixed(1114, 8, "d"),
        ColumnType::TimestampTz => fixed(1184, 8, "d"),
        ColumnType::Interval => fixed(1186, 16, "d"),
        ColumnType::Uuid => fixed(2950, 16, "c"),
        ColumnType::PgLsn => fixed(3220, 8, "d"),
        ColumnType::Enum(ty) => fixed(oids::of_space(ty.def().id), 4, "i"),
        ColumnType::Numeric { precision, scale } => TypeFacts {
            modifier: (i32::from(precision) << 16 | i32::from(scale)) + MODIFIER_HEADER,
            storage: "m",
            ..fixed(1700, -1, "i")
        },
        ColumnType::AnyNumeric => TypeFacts { storage: "m", ..fixed(1700, -1, "i") },
        ColumnType::Bytea => TypeFacts { storage: "x", ..fixed(17, -1, "i") },
        ColumnType::Bit(length) => bits(1560, length),
        ColumnType::Varbit(length) => bits(1562, length),
        ColumnType::Json => TypeFacts { storage: "x", ..fixed(114, -1, "i") },
        ColumnType::Jsonb => TypeFacts { storage: "x", ..fixed(3802, -1, "i") },
        ColumnType::Array(element) => {
            let array_oid = match element {
                ElementType::Enum(ty) => oids::of_space(ty.def().array_id),
                element => array_of(facts(element.column_type()).oid),
            };
            let element = facts(element.column_type());
            let align = if element.align == "d" { "d" } else { "i" };
            TypeFacts { oid: array_oid, length: -1, storage: "x", align, is_array: true, ..element }
        }
        ColumnType::Text => text(TEXT, -1),
        ColumnType::Varchar(characters) => text(1043, length(characters)),
        ColumnType::Char(characters) => text(1042, length(characters)),
    }
}

/// The facts of a table's column: those of its type, and the digits of seconds that it was declared with, or its domain.
pub(crate) fn facts_of_column(column: &ColumnDef) -> TypeFacts {
    let facts = facts(column.ty);
    if let Some(domain) = &column.domain {
        return TypeFacts { oid: oids::of_space(domain.id), modifier: -1, ..facts };
    }
    let Some(digits) = column.second_digits.map(i32::from) else { return facts };
    let fields = if column.ty == ColumnType::Interval { ALL_INTERVAL_FIELDS } else { 0 };
    TypeFacts { modifier: fields | digits, ..facts }
}

/// The facts of a view's column: those of its type. What a query computes has no declared digits, and which of its columns are a table's as
/// they stand there is not kept.
pub(crate) fn facts_of_view_column(column: &ViewColumn) -> TypeFacts {
    let element = if let ColumnType::Array(element) = column.ty { element.column_type() } else { column.ty };
    let facts = facts(column.ty);
    match element {
        ColumnType::Numeric { .. } => TypeFacts { modifier: -1, ..facts },
        _ => facts,
    }
}

/// The number of a type in `pg_type`.
#[must_use]
pub fn type_number(ty: ColumnType) -> i32 {
    facts(ty).oid
}

/// The letter of a type's category in `pg_type`.
pub(crate) fn category(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::SmallInt
        | ColumnType::Int
        | ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::Double
        | ColumnType::Numeric { .. }
        | ColumnType::AnyNumeric => "N",
        ColumnType::Boolean => "B",
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => "S",
        ColumnType::Date
        | ColumnType::Time
        | ColumnType::TimeTz
        | ColumnType::Timestamp
        | ColumnType::TimestampTz => "D",
        ColumnType::Interval => "T",
        ColumnType::Enum(_) => "E",
        ColumnType::Array(_) => "A",
        ColumnType::Bit(_) | ColumnType::Varbit(_) => "V",
        ColumnType::Bytea | ColumnType::Uuid | ColumnType::Json | ColumnType::Jsonb | ColumnType::PgLsn => {
            "U"
        }
    }
}

/// The name of a type without its modifier, as casts of defaults have it.
pub(crate) fn cast_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Char(_) => "bpchar".to_owned(),
        ColumnType::Bit(_) => ColumnType::Bit(None).to_string(),
        ColumnType::Array(element) => format!("{}[]", cast_name(element.column_type())),
        other => type_name(other),
    }
}

/// The facts of a column of a query.
pub(crate) fn facts_of_arrow(ty: &DataType) -> TypeFacts {
    if let DataType::List(element) = ty {
        if let Some(array @ ColumnType::Array(ElementType::Enum(_))) = column_type_of_arrow(ty) {
            return facts(array);
        }
        let oid = array_of(facts_of_arrow(element.data_type()).oid);
        return TypeFacts {
            oid,
            modifier: -1,
            length: -1,
            storage: "x",
            align: "i",
            collation: 0,
            is_array: true,
        };
    }
    let known = column_type_of_arrow(ty).unwrap_or(ColumnType::Text);
    let facts = facts(known);
    match known {
        // What a query gives has no declared precision.
        ColumnType::Numeric { .. } => TypeFacts { modifier: -1, ..facts },
        _ => facts,
    }
}

/// The array type over a type.
fn array_of(element: i32) -> i32 {
    match element {
        16 => 1000,
        17 => 1001,
        20 => 1016,
        21 => 1005,
        23 => 1007,
        114 => 199,
        700 => 1021,
        701 => 1022,
        1042 => 1014,
        1043 => 1015,
        1082 => 1182,
        1083 => 1183,
        1114 => 1115,
        1184 => 1185,
        1186 => 1187,
        1266 => 1270,
        1560 => 1561,
        1562 => 1563,
        1700 => 1231,
        2950 => 2951,
        3220 => 3221,
        3802 => 3807,
        _ => 1009,
    }
}

/// The type of a column of the catalog itself, by its name in `pg_type`.
pub(crate) fn facts_of_name(name: &str) -> TypeFacts {
    let fixed = |oid, length| TypeFacts {
        oid,
        modifier: -1,
        length,
        storage: "p",
        align: "i",
        collation: 0,
        is_array: false,
    };
    match name {
        "name" | "sql_identifier" => TypeFacts { storage: "p", collation: 950, ..fixed(19, 64) },
        "oid" => fixed(26, 4),
        "char" => fixed(18, 1),
        "regproc" => fixed(24, 4),
        "xid" => fixed(28, 4),
        "int2vector" => fixed(22, -1),
        "oidvector" => fixed(30, -1),
        "pg_node_tree" => TypeFacts { storage: "x", ..fixed(194, -1) },
        "_aclitem" => TypeFacts { storage: "x", ..fixed(1034, -1) },
        "_oid" => TypeFacts { storage: "x", ..fixed(1028, -1) },
        "_char" => TypeFacts { storage: "x", ..fixed(1002, -1) },
        "_name" => TypeFacts { storage: "x", ..fixed(1003, -1) },
        "int2" => facts(ColumnType::SmallInt),
        "int4" | "cardinal_number" => facts(ColumnType::Int),
        "int8" => facts(ColumnType::BigInt),
        "bool" => facts(ColumnType::Boolean),
        "float4" => facts(ColumnType::Real),
        "float8" => facts(ColumnType::Double),
        "timestamptz" | "time_stamp" => facts(ColumnType::TimestampTz),
        "interval" => facts(ColumnType::Interval),
        "bytea" => facts(ColumnType::Bytea),
        "pg_lsn" => facts(ColumnType::PgLsn),
        "_text" => TypeFacts { storage: "x", collation: DEFAULT_COLLATION, ..fixed(1009, -1) },
        "_int2" => TypeFacts { storage: "x", ..fixed(1005, -1) },
        "_float4" => TypeFacts { storage: "x", ..fixed(1021, -1) },
        "_float8" => TypeFacts { storage: "x", ..fixed(1022, -1) },
        "_bool" => TypeFacts { storage: "x", ..fixed(1000, -1) },
        _ => facts(ColumnType::Text),
    }
}
