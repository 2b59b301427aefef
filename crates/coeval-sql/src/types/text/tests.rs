// SPDX-License-Identifier: Apache-2.0
//! Tests of text input and output.

use super::{format_value, parse_value};
use crate::SqlState;
use chrono_tz::Tz;
use coeval_store::ColumnType;

fn round(text: &str, ty: ColumnType, zone: Tz) -> String {
    let value = parse_value(text, ty, zone).unwrap();
    let mut out = String::new();
    format_value(value.borrow(), ty, zone, &mut out);
    out
}

fn state(text: &str, ty: ColumnType) -> SqlState {
    parse_value(text, ty, Tz::UTC).unwrap_err().state
}

#[test]
fn every_type_prints_as_postgresql_prints_it() {
    let numeric = ColumnType::Numeric { precision: 10, scale: 2 };
    let cases = [
        ("-32768", ColumnType::SmallInt, "-32768"),
        (" 42 ", ColumnType::Int, "42"),
        ("1.5", ColumnType::Double, "1.5"),
        ("100000", ColumnType::Double, "100000"),
        ("1e300", ColumnType::Double, "1e+300"),
        ("1e-7", ColumnType::Double, "1e-07"),
        ("-Infinity", ColumnType::Double, "-Infinity"),
        ("1.005", numeric, "1.01"),
        ("-0.004", numeric, "0.00"),
        ("12e1", numeric, "120.00"),
        ("yes", ColumnType::Boolean, "t"),
        ("ab   ", ColumnType::Char(4), "ab  "),
        ("\\xDEad", ColumnType::Bytea, "\\xdead"),
        ("x1F", ColumnType::Bit(Some(8)), "00011111"),
        ("0101", ColumnType::Varbit(Some(5)), "0101"),
        ("a\\001\\\\", ColumnType::Bytea, "\\x61015c"),
        ("2024-02-29", ColumnType::Date, "2024-02-29"),
        ("2049-02-29 BC", ColumnType::Date, "2049-02-29 BC"),
        ("0001-12-31 BC", ColumnType::Date, "0001-12-31 BC"),
        ("2049-02-29 12:00 BC", ColumnType::Timestamp, "2049-02-29 12:00:00 BC"),
        ("12:34:56.7890", ColumnType::Time, "12:34:56.789"),
        ("2024-02-29 12:34:56.000001", ColumnType::Timestamp, "2024-02-29 12:34:56.000001"),
        ("2024-02-29T12:00:00+02", ColumnType::TimestampTz, "2024-02-29 10:00:00+00"),
        ("1 year 2 mons 3 days 04:05:06.5", ColumnType::Interval, "1 year 2 mons 3 days 04:05:06.5"),
        ("90 minutes", ColumnType::Interval, "01:30:00"),
        ("1 day ago", ColumnType::Interval, "-1 days"),
        ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", ColumnType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("{\"a\": [1]}", ColumnType::Json, "{\"a\": [1]}"),
    ];
    for (text, ty, printed) in cases {
        assert_eq!(round(text, ty, Tz::UTC), printed, "{text} as {ty}");
    }
}

#[test]
fn timestamps_with_time_zone_print_in_the_zone_of_the_session() {
    let berlin = Tz::Europe__Berlin;
    assert_eq!(round("2024-07-01 12:00", ColumnType::TimestampTz, berlin), "2024-07-01 12:00:00+02");
    assert_eq!(round("2024-01-01 12:00Z", ColumnType::TimestampTz, berlin), "2024-01-01 13:00:00+01");
}

#[test]
fn text_that_is_no_value_of_the_type_is_refused_with_its_sqlstate() {
    assert_eq!(state("abc", ColumnType::Int), SqlState::InvalidTextRepresentation);
    assert_eq!(state("40000", ColumnType::SmallInt), SqlState::NumericValueOutOfRange);
    assert_eq!(state("1e400", ColumnType::Double), SqlState::NumericValueOutOfRange);
    assert_eq!(
        state("100", ColumnType::Numeric { precision: 3, scale: 1 }),
        SqlState::NumericValueOutOfRange
    );
    assert_eq!(state("x", ColumnType::Date), SqlState::InvalidDatetimeFormat);
    assert_eq!(state("2023-02-29", ColumnType::Date), SqlState::DatetimeFieldOverflow);
    assert_eq!(state("2048-02-29 BC", ColumnType::Date), SqlState::DatetimeFieldOverflow);
    assert_eq!(state("abcd", ColumnType::Varchar(3)), SqlState::StringDataRightTruncation);
    assert_eq!(state("{", ColumnType::Json), SqlState::InvalidTextRepresentation);
}
