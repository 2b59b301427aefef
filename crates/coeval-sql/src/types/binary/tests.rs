// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::types::{format_value, parse_value};

fn bytes_of(text: &str, ty: ColumnType) -> Vec<u8> {
    let mut out = Vec::new();
    encode_binary(parse_value(text, ty, Tz::UTC).unwrap().borrow(), ty, &mut out).unwrap();
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
        (ColumnType::Bit(Some(9)), &["101010101"]),
        (ColumnType::Varbit(None), &["", "1", "10101010"]),
        (ColumnType::Date, &["1970-01-01", "2000-01-01", "1999-12-31", "infinity", "-infinity"]),
        (ColumnType::Time, &["00:00:00", "23:59:59.999999"]),
        (ColumnType::TimeTz, &["00:00:00+02", "24:00:00-03:30"]),
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

/// A numeric of these digits of base 10,000.
fn numeric_bytes(weight: i16, sign: u16, shown: u16, digits: &[u16]) -> Vec<u8> {
    let header = [digits.len() as u16, weight as u16, sign, shown];
    header.iter().chain(digits).flat_map(|short| short.to_be_bytes()).collect()
}

/// `new BigDecimal(2.1)` of Java has all digits of the binary fraction.
#[test]
fn a_numeric_of_more_digits_than_there_is_room_for_is_rounded() {
    // 2.100000000000000088817841970012523233890533447265625
    let digits = [2, 1000, 0, 0, 0, 8881, 7841, 9700, 1252, 3233, 8905, 3344, 7265, 6250];
    let bytes = numeric_bytes(0, 0, 51, &digits);
    let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
    assert_eq!(text_of(&bytes, numeric(10, 2)), "2.10");
    assert_eq!(text_of(&bytes, numeric(38, 16)), "2.1000000000000001");
    assert_eq!(text_of(&bytes, numeric(38, 17)), "2.10000000000000009");
    assert_eq!(text_of(&bytes, numeric(38, 37)), "2.1000000000000000888178419700125232339");
    let refused = decode_binary(&bytes, numeric(38, 38)).unwrap_err();
    assert_eq!(refused.state, SqlState::NumericValueOutOfRange);
    // Rounding goes up to the digits before the point.
    let nines = numeric_bytes(0, NUMERIC_NEGATIVE, 48, &[9; 13].map(|_| 9999));
    assert_eq!(text_of(&nines, numeric(10, 2)), "-10000.00");
    let half = numeric_bytes(-1, 0, 1, &[5000]);
    assert_eq!(text_of(&half, numeric(3, 0)), "1");
    let less_than_half = numeric_bytes(-1, 0, 4, &[4999]);
    assert_eq!(text_of(&less_than_half, numeric(3, 0)), "0");
    let far_behind = numeric_bytes(-3, 0, 12, &[9999]);
    assert_eq!(text_of(&far_behind, numeric(3, 2)), "0.00");
    // Digits behind those that it says it has are not looked at, not even to round.
    let more = numeric_bytes(0, 0, 1, &[1, 5999]);
    assert_eq!(text_of(&more, numeric(5, 2)), "1.50");
}

#[test]
fn json_that_is_none_is_refused_in_binary_form_too() {
    let refused = decode_binary(b"{\"a\": ", ColumnType::Json).unwrap_err();
    assert_eq!(refused.state, SqlState::InvalidTextRepresentation);
}

#[test]
fn dates_and_timestamps_that_there_are_not_are_refused_both_ways() {
    for days in [i32::MAX - 1, i32::MIN + 1, -2_500_000, 100_000_000] {
        let refused = decode_binary(&days.to_be_bytes(), ColumnType::Date).unwrap_err();
        assert_eq!(refused.state, SqlState::DatetimeFieldOverflow, "{days}");
    }
    for micros in [i64::MAX - 1, i64::MIN + 1, i64::MAX / 64 * 63] {
        for ty in [ColumnType::Timestamp, ColumnType::TimestampTz] {
            let refused = decode_binary(&micros.to_be_bytes(), ty).unwrap_err();
            assert_eq!(refused.state, SqlState::DatetimeFieldOverflow, "{micros} as {ty}");
        }
    }
    let mut out = Vec::new();
    let date = encode_binary(ValueRef::Int32(i32::MIN + 1), ColumnType::Date, &mut out).unwrap_err();
    let time = encode_binary(ValueRef::Int64(i64::MIN + 1), ColumnType::Timestamp, &mut out).unwrap_err();
    assert_eq!((date.state, time.state), (SqlState::DatetimeFieldOverflow, SqlState::DatetimeFieldOverflow));
    assert!(out.is_empty());
    for text in ["4714-11-24 BC", "262141-12-31"] {
        assert_eq!(text_of(&bytes_of(text, ColumnType::Date), ColumnType::Date), text);
        for zone in [Tz::Etc__GMTMinus14, Tz::Etc__GMTPlus12] {
            let parsed = parse_value(text, ColumnType::TimestampTz, Tz::UTC).unwrap();
            let mut shown = String::new();
            format_value(parsed.borrow(), ColumnType::TimestampTz, zone, &mut shown);
            assert!(!shown.contains("range"), "{text} in {zone}: {shown}");
        }
    }
    for text in ["4714-11-23 BC", "262142-01-01"] {
        for ty in [ColumnType::Date, ColumnType::Timestamp, ColumnType::TimestampTz] {
            assert!(parse_value(text, ty, Tz::UTC).is_err(), "{text} as {ty}");
        }
    }
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
                encode_binary(value.borrow(), ty, &mut again).unwrap();
                assert_eq!(decode_binary(&again, ty).as_ref(), Ok(&value), "{bytes:?} as {ty}");
            }
        }
    }
}

/// A place is kept with its highest bit turned; what goes out and comes in is the place itself.
#[test]
fn a_place_in_a_log_is_eight_bytes_without_a_sign() {
    for place in [0, 0x10, u64::MAX] {
        let value = Value::Int64(coeval_store::kept_place(place));
        let mut bytes = Vec::new();
        encode_binary(value.borrow(), ColumnType::PgLsn, &mut bytes).unwrap();
        assert_eq!(bytes, place.to_be_bytes());
        assert_eq!(decode_binary(&bytes, ColumnType::PgLsn), Ok(value));
    }
}
