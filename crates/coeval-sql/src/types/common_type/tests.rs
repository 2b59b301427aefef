// SPDX-License-Identifier: Apache-2.0
//! The one type of several expressions, as PostgreSQL 15 finds it (`SELECT pg_typeof(coalesce(a, b))`).

use super::*;
use arrow::datatypes::Field;
use std::sync::Arc;

const fn numeric(precision: u8, scale: i8) -> ColumnType {
    ColumnType::Numeric { precision, scale }
}

fn array(element: ColumnType) -> ColumnType {
    ColumnType::Array(ElementType::of(element).unwrap())
}

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

#[test]
fn numbers_become_the_widest_and_keep_their_digits() {
    for (left, right, common) in [
        (ColumnType::SmallInt, ColumnType::Int, ColumnType::Int),
        (ColumnType::Int, ColumnType::BigInt, ColumnType::BigInt),
        (ColumnType::Int, numeric(5, 2), numeric(12, 2)),
        (numeric(5, 2), numeric(5, 4), numeric(7, 4)),
        (numeric(38, 10), ColumnType::BigInt, numeric(38, 10)),
        (ColumnType::Int, ColumnType::Real, ColumnType::Real),
        (numeric(5, 2), ColumnType::Real, ColumnType::Real),
        (numeric(5, 2), ColumnType::Double, ColumnType::Double),
        (ColumnType::Real, ColumnType::Double, ColumnType::Double),
    ] {
        assert_eq!(common_type(left, right), Some(common), "{left}, {right}");
        assert_eq!(common_type(right, left), Some(common), "{right}, {left}");
        assert_eq!(common_type(array(left), array(right)), Some(array(common)), "{left}[], {right}[]");
    }
}

#[test]
fn dates_become_times_and_these_instants() {
    for (left, right, common) in [
        (ColumnType::Date, ColumnType::Timestamp, Some(ColumnType::Timestamp)),
        (ColumnType::Date, ColumnType::TimestampTz, Some(ColumnType::TimestampTz)),
        (ColumnType::Timestamp, ColumnType::TimestampTz, Some(ColumnType::TimestampTz)),
        (ColumnType::Date, ColumnType::Time, None),
        // There is an implicit cast, but the two are of different categories.
        (ColumnType::Time, ColumnType::Interval, None),
    ] {
        assert_eq!(common_type(left, right), common, "{left}, {right}");
        assert_eq!(common_type(right, left), common, "{right}, {left}");
    }
}

#[test]
fn texts_of_several_lengths_are_text() {
    let common = common_type(ColumnType::Varchar(3), ColumnType::Char(2));
    assert_eq!(common, Some(ColumnType::Text));
    assert_eq!(common_type(ColumnType::Varchar(3), ColumnType::Varchar(3)), Some(ColumnType::Varchar(3)));
    assert_eq!(common_type(ColumnType::Text, ColumnType::Json), None);
}

#[test]
fn what_says_nothing_of_its_type_is_passed_over() {
    let (int, nothing) = (DataType::Int32, DataType::Null);
    assert_eq!(common_arrow_type([&nothing, &int, &nothing]), Some(DataType::Int32));
    assert_eq!(common_arrow_type([&nothing]), None);
    let lists = [list(DataType::Null), list(DataType::Int32), list(DataType::Int64)];
    assert_eq!(common_arrow_type(&lists), Some(list(DataType::Int64)));
    assert_eq!(common_arrow_type([&int, &DataType::Boolean]), None);
}

#[test]
fn types_that_have_none_in_common_are_told_as_postgresql_tells_them() {
    let told = |construct, types: &[DataType]| {
        require_common_type(construct, types).map_err(|error| (error.state, error.message))
    };
    let wrong = |state, message: &str| Err((state, message.to_owned()));
    let time = ColumnType::Time.arrow();
    assert_eq!(
        told("CASE", &[DataType::Utf8View, DataType::Int32]),
        wrong(SqlState::DatatypeMismatch, "CASE types text and integer cannot be matched")
    );
    assert_eq!(
        told("UNION", &[DataType::Date32, time.clone()]),
        wrong(SqlState::CannotCoerce, "UNION could not convert type time without time zone to date")
    );
    assert_eq!(
        told("CASE", &[time, DataType::Date32]),
        wrong(SqlState::CannotCoerce, "CASE/WHEN could not convert type date to time without time zone")
    );
    assert_eq!(
        told("ARRAY", &[list(DataType::Int32), list(DataType::Utf8View)]),
        wrong(SqlState::CannotCoerce, "ARRAY could not convert type text[] to integer[]")
    );
    assert_eq!(told("UNION", &[DataType::Null, DataType::Int32, DataType::Int64]), Ok(()));
}
