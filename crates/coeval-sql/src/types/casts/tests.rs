// SPDX-License-Identifier: Apache-2.0
//! The casts beside those of PostgreSQL 15.

use super::*;
use crate::SqlState;
use coeval_store::ElementType;
use std::collections::BTreeMap;

const NUMERIC: ColumnType = ColumnType::Numeric { precision: 5, scale: 2 };

/// All types but enums and arrays, as PostgreSQL names them.
const TYPES: [(&str, ColumnType); 23] = [
    ("boolean", ColumnType::Boolean),
    ("smallint", ColumnType::SmallInt),
    ("integer", ColumnType::Int),
    ("bigint", ColumnType::BigInt),
    ("real", ColumnType::Real),
    ("double precision", ColumnType::Double),
    ("numeric", NUMERIC),
    ("text", ColumnType::Text),
    ("character varying", ColumnType::Varchar(3)),
    ("character", ColumnType::Char(3)),
    ("bytea", ColumnType::Bytea),
    ("date", ColumnType::Date),
    ("time without time zone", ColumnType::Time),
    ("timestamp without time zone", ColumnType::Timestamp),
    ("timestamp with time zone", ColumnType::TimestampTz),
    ("interval", ColumnType::Interval),
    ("uuid", ColumnType::Uuid),
    ("json", ColumnType::Json),
    ("jsonb", ColumnType::Jsonb),
    ("pg_lsn", ColumnType::PgLsn),
    ("time with time zone", ColumnType::TimeTz),
    ("bit", ColumnType::Bit(Some(3))),
    ("bit varying", ColumnType::Varbit(None)),
];

/// The rows of PostgreSQL 15, but for those of a type to itself.
fn of_postgresql() -> BTreeMap<(&'static str, &'static str), CastContext> {
    let rows = include_str!("pg_cast_15.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let [source, target, context] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let context = match context {
            "i" => CastContext::Implicit,
            "a" => CastContext::Assignment,
            "e" => CastContext::Explicit,
            other => panic!("{other}"),
        };
        ((source, target), context)
    })
    .filter(|((source, target), _)| source != target)
    .collect()
}

#[test]
fn the_table_is_that_of_postgresql_15() {
    let rows = of_postgresql();
    let mut found = 0;
    for (source, from) in TYPES {
        assert_eq!(type_name(from), source);
        for (target, to) in TYPES {
            if source != target {
                let row = rows.get(&(source, target)).copied();
                assert_eq!(in_table(from, to), row, "{source} to {target}");
                found += usize::from(row.is_some());
            }
        }
    }
    assert_eq!(found, rows.len(), "a row names a type that there is not here");
}

#[test]
fn texts_are_written_by_assignment_and_read_where_it_is_asked_for() {
    for (name, ty) in TYPES.into_iter().filter(|(_, ty)| !is_text(*ty)) {
        assert!(has_cast(ty, ColumnType::Varchar(9), CastContext::Assignment), "{name}");
        assert!(!has_cast(ty, ColumnType::Varchar(9), CastContext::Implicit), "{name}");
        assert!(has_cast(ColumnType::Text, ty, CastContext::Explicit), "{name}");
        assert!(!has_cast(ColumnType::Text, ty, CastContext::Assignment), "{name}");
    }
    let array = |ty| ColumnType::Array(ElementType::of(ty).unwrap());
    assert!(has_cast(array(ColumnType::Int), ColumnType::Text, CastContext::Assignment));
    assert!(has_cast(ColumnType::Text, array(ColumnType::Int), CastContext::Explicit));
}

#[test]
fn arrays_are_cast_where_their_elements_are() {
    let array = |ty| ColumnType::Array(ElementType::of(ty).unwrap());
    let first = |from, to| first_context(array(from), array(to));
    assert_eq!(first(ColumnType::Int, ColumnType::BigInt), Some(CastContext::Implicit));
    assert_eq!(first(ColumnType::BigInt, ColumnType::Int), Some(CastContext::Assignment));
    assert_eq!(first(ColumnType::Int, ColumnType::Text), Some(CastContext::Assignment));
    assert_eq!(first(ColumnType::Text, ColumnType::Int), Some(CastContext::Explicit));
    assert_eq!(first(ColumnType::Int, ColumnType::Date), None);
    assert_eq!(first_context(array(ColumnType::Int), ColumnType::Int), None);
    assert_eq!(first_context(ColumnType::Int, array(ColumnType::Int)), None);
}

#[test]
fn messages_name_types_without_lengths_and_digits() {
    let error = require_cast(ColumnType::Boolean, NUMERIC).unwrap_err();
    assert_eq!(
        (error.state, error.message.as_str()),
        (SqlState::CannotCoerce, "cannot cast type boolean to numeric")
    );
    let error = cannot_assign("n", NUMERIC, ColumnType::Varchar(3));
    let message = "column \"n\" is of type numeric but expression is of type character varying";
    assert_eq!((error.state, error.message.as_str()), (SqlState::DatatypeMismatch, message));
}
