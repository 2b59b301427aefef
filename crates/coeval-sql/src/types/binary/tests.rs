// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::types::{format_value, parse_value};

fn bytes_of(text: &str, ty: ColumnType) -> Vec<u8> {
    let mut out = Vec::new();
    encode_binary(parse_value(text, ty, Tz::UTC).unwrap().borrow(), ty, &mut out);
    out
}

fn text_of(bytes: &[u8], ty: ColumnType) -> String {
    let mut out = String::new();
    format_value(decode_binary(bytes, ty).unwrap().borrow(), ty, Tz::UTC, &mut out);
    out
}

#[test]
fn what_is_written_is_read_again() {
    let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
    let cases: &[(ColumnType, &[&str])] = &[
        (ColumnType::SmallInt, &["0", "-1", "32767", "-32768"]),
        (ColumnType::Int, &["0", "2147483647", "-2147483648"]),
        (ColumnType::BigInt, &["0", "9223372036854775807", "-9223372036854775808"]),
        (ColumnType::Real, &["0", "1.5", "-3.25", "NaN", "Infinity"]),
        (ColumnType::Double, &["0", "0.1", "-1e+300", "NaN", "-Infinity"]),
        (numeric(38, 0), &["0", "1", "-1", "9999", "10000", "-99999999999999999999999999999999999999"]),
        (numeric(15, 2), &["0.00", "0.01", "-0.10", "1.00", "100.00", "10000.00", "9999999999999.99"]),
        (numeric(20, 5), &["0.00001", "12345.67890", "-0.50000", "100000000.00000"]),
        (numeric(38, 38), &["0.00000000000000000000000000000000000001"]),
        (ColumnType::Boolean, &["t", "f"]),
        (ColumnType::Text, &["", "Grüße"]),
        (ColumnType::Varchar(5), &["abc"]),
        (ColumnType::Char(5), &["abc  "]),
        (ColumnType::Bytea, &["\\x", "\\x00ff10"]),
        (ColumnType::Date, &["1970-01-01", "2000-01-01", "1999-12-31", "infinity", "-infinity"]),
        (ColumnType::Time, &["00:00:00", "23:59:59.999999"]),
        (ColumnType::Timestamp, &["2000-01-01 00:00:00", "1812-06-24 12:00:00.5", "infinity"]),
        (ColumnType::TimestampTz, &["2026-11-20 10:23:28.412+00"]),
        (ColumnType::Interval, &["1 year 2 mons 3 days 04:05:06.789", "-00:00:01"]),
        (ColumnType::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        (ColumnType::Json, &["{\"a\": 1}"]),
    ];
    for (ty, texts) in cases {
        for text in *texts {
            assert_eq!(text_of(&bytes_of(text, *ty), *ty), *text, "{ty}");
        }
    }
}

/// The bytes that `numeric_send` of PostgreSQL 15 gives.
#[test]
fn a_numeric_has_the_bytes_of_postgresql() {
    let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
    let shorts = |values: &[u16]| values.iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>();
    assert_eq!(bytes_of("0", numeric(10, 2)), shorts(&[0, 0, 0, 2]));
    assert_eq!(bytes_of("12345.678", numeric(10, 3)), shorts(&[3, 1, 0, 3, 1, 2345, 6780]));
    assert_eq!(bytes_of("-0.0001", numeric(10, 4)), shorts(&[1, 0xFFFF, 0x4000, 4, 1]));
    assert_eq!(bytes_of("10000", numeric(10, 0)), shorts(&[1, 1, 0, 0, 1]));
    assert_eq!(bytes_of("0.5", numeric(10, 1)), shorts(&[1, 0xFFFF, 0, 1, 5000]));
}

#[test]
fn a_numeric_of_another_scale_is_rounded_as_an_assignment_is() {
    let wide = bytes_of("12.3456", ColumnType::Numeric { precision: 10, scale: 4 });
    assert_eq!(text_of(&wide, ColumnType::Numeric { precision: 10, scale: 2 }), "12.35");
    let refused = decode_binary(&wide, ColumnType::Numeric { precision: 3, scale: 2 }).unwrap_err();
    assert_eq!(refused.state, SqlState::NumericValueOutOfRange);
}

#[test]
fn bytes_of_another_length_are_refused() {
    let types = [
        ColumnType::SmallInt,
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::Double,
        ColumnType::Numeric { precision: 10, scale: 2 },
        ColumnType::Boolean,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::Interval,
        ColumnType::Uuid,
    ];
    for ty in types {
        for length in [0_usize, 3, 5, 7, 9, 15, 17] {
            let error = decode_binary(&vec![0; length], ty).unwrap_err();
            assert_eq!(error.state, SqlState::InvalidBinaryRepresentation, "{length} bytes as {ty}");
        }
    }
}

#[test]
fn text_that_is_not_utf8_or_holds_a_zero_byte_is_refused() {
    for bytes in [&b"a\xff"[..], b"a\0b"] {
        let error = decode_binary(bytes, ColumnType::Text).unwrap_err();
        assert_eq!(error.state, SqlState::CharacterNotInRepertoire, "{bytes:?}");
    }
}

#[test]
fn any_bytes_at_all_are_a_value_or_an_error() {
    let types = [
        ColumnType::Numeric { precision: 38, scale: 10 },
        ColumnType::Interval,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::Text,
    ];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..20_000_usize {
        let mut bytes = vec![0_u8; round % 24];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
            // Small numbers reach further into the decoder than large ones.
            if state & 0x0100_0000 != 0 {
                *byte &= 3;
            }
        }
        for ty in types {
            if let Ok(value) = decode_binary(&bytes, ty) {
                let mut again = Vec::new();
                encode_binary(value.borrow(), ty, &mut again);
                assert_eq!(decode_binary(&again, ty).as_ref(), Ok(&value), "{bytes:?} as {ty}");
            }
        }
    }
}
