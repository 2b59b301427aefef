// SPDX-License-Identifier: Apache-2.0
//! Answers of PostgreSQL 15.

use super::*;
use crate::cancel::CancelHandle;

fn read(text: &str) -> AnyNumeric {
    AnyNumeric::of(parse_number(text).unwrap().borrow())
}

fn shown(number: AnyNumeric) -> String {
    number.number().unwrap().to_string()
}

fn state(result: Result<AnyNumeric, SqlError>) -> &'static str {
    result.and_then(|number| number.number().map(|_| ())).unwrap_err().state.code()
}

#[test]
fn texts_are_read_and_shown_with_their_digits() {
    for (text, expected) in [
        ("0", "0"),
        ("-0.00", "0.00"),
        (" 1.50 ", "1.50"),
        ("+7", "7"),
        (
            "-12345678901234567890123456789012345678901234567890.5",
            "-12345678901234567890123456789012345678901234567890.5",
        ),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1.5e1", "15"),
        ("1.25e1", "12.5"),
        ("1e-5", "0.00001"),
        ("-12.5E-3", "-0.0125"),
        ("000100.0100", "100.0100"),
        ("nan", "NaN"),
        ("inf", "Infinity"),
        ("+Infinity", "Infinity"),
        ("-inf", "-Infinity"),
    ] {
        assert_eq!(parse_number(text).unwrap().to_string(), expected, "{text}");
        assert_eq!(shown(read(text)), expected, "{text} by way of its units");
    }
    let long = format!("{}.{}", "9".repeat(131_072), "1".repeat(16_383));
    assert_eq!(parse_number(&long).unwrap().to_string(), long);
}

#[test]
fn texts_that_are_no_numbers_are_refused() {
    for text in ["", " ", "x", "1.2.3", "1e", "1e+", "--1", "1 2", "-nan", "0x10", "1_000", "e5", "."] {
        assert_eq!(parse_number(text).unwrap_err().state.code(), "22P02", "{text}");
    }
    let (whole, behind) = ("1".repeat(131_073), format!("0.{}", "1".repeat(16_384)));
    for text in [whole.as_str(), behind.as_str(), "1e131072", "1e2000000000", "1e-16384"] {
        assert_eq!(parse_number(text).unwrap_err().state.code(), "22003", "{text:.10}");
    }
}

#[test]
fn arithmetic_has_the_digits_of_postgresql() {
    for (left, right, sum, difference, product) in [
        ("1.5", "2.25", "3.75", "-0.75", "3.375"),
        ("1.0", "1.00", "2.00", "0.00", "1.000"),
        (
            "99999999999999999999999999999999999999",
            "1",
            "100000000000000000000000000000000000000",
            "99999999999999999999999999999999999998",
            "99999999999999999999999999999999999999",
        ),
        ("-3", "7", "4", "-10", "-21"),
        ("Infinity", "1", "Infinity", "Infinity", "Infinity"),
        ("Infinity", "-Infinity", "NaN", "Infinity", "-Infinity"),
        ("Infinity", "0", "Infinity", "Infinity", "NaN"),
        ("NaN", "1", "NaN", "NaN", "NaN"),
    ] {
        let (left, right) = (read(left), read(right));
        assert_eq!(shown(left.sum(&right)), sum);
        assert_eq!(shown(left.difference(&right)), difference);
        assert_eq!(shown(left.product(&right)), product);
    }
}

#[test]
fn quotients_have_sixteen_significant_digits() {
    for (left, right, quotient, remainder, whole) in [
        ("1", "3", "0.33333333333333333333", "1", "0"),
        ("2", "3", "0.66666666666666666667", "2", "0"),
        ("10", "3", "3.3333333333333333", "1", "3"),
        ("7", "2", "3.5000000000000000", "1", "3"),
        ("-7", "2", "-3.5000000000000000", "-1", "-3"),
        ("7.5", "2", "3.7500000000000000", "1.5", "3"),
        ("1", "1", "1.00000000000000000000", "0", "1"),
        ("0", "5", "0.00000000000000000000", "0", "0"),
        ("1000000", "7", "142857.142857142857", "1", "142857"),
        ("5", "Infinity", "0", "5", "0"),
        ("-Infinity", "2", "-Infinity", "NaN", "-Infinity"),
    ] {
        let (left, right) = (read(left), read(right));
        assert_eq!(shown(left.quotient(&right).unwrap()), quotient);
        assert_eq!(shown(left.remainder(&right).unwrap()), remainder);
        assert_eq!(shown(left.whole_quotient(&right).unwrap()), whole);
    }
    assert_eq!(state(read("1").quotient(&read("0.00"))), "22012");
    assert_eq!(state(read("Infinity").remainder(&read("0"))), "22012");
    assert_eq!(shown(read("NaN").quotient(&read("0")).unwrap()), "NaN");
}

#[test]
fn numbers_are_rounded_away_from_zero() {
    let with = |text: &str, scale, mode| shown(read(text).with_scale(scale, mode));
    assert_eq!(with("42.4382", 2, RoundingMode::HalfAwayFromZero), "42.44");
    assert_eq!(with("2.5", 0, RoundingMode::HalfAwayFromZero), "3");
    assert_eq!(with("-2.5", 0, RoundingMode::HalfAwayFromZero), "-3");
    assert_eq!(with("1234.56", -1, RoundingMode::HalfAwayFromZero), "1230");
    assert_eq!(with("1250", -2, RoundingMode::HalfAwayFromZero), "1300");
    assert_eq!(with("49", -2, RoundingMode::HalfAwayFromZero), "0");
    assert_eq!(with("51", -2, RoundingMode::HalfAwayFromZero), "100");
    assert_eq!(with("1.5", 3, RoundingMode::HalfAwayFromZero), "1.500");
    assert_eq!(with("42.4382", 2, RoundingMode::Down), "42.43");
    assert_eq!(with("-42.8", 0, RoundingMode::Ceiling), "-42");
    assert_eq!(with("-42.8", 0, RoundingMode::Floor), "-43");
    assert_eq!(with("0.0001", 0, RoundingMode::Ceiling), "1");
    assert_eq!(with("NaN", 0, RoundingMode::Floor), "NaN");
    // At any place that a number has.
    let sevens = "7".repeat(3_000);
    let rounded = format!("78{}", "0".repeat(2_998));
    assert_eq!(with(&sevens, -2_998, RoundingMode::HalfAwayFromZero), rounded);
    assert_eq!(with("1e-3000", 3_500, RoundingMode::HalfAwayFromZero).len(), 3_502);
    assert_eq!(with("1.5", i64::MAX, RoundingMode::Down).len(), 16_385);
    assert_eq!(with("1.5", i64::MIN, RoundingMode::Down), "0");
}

#[test]
fn roots_powers_and_logarithms_have_the_digits_of_postgresql() {
    let root = |text: &str| shown(read(text).root().unwrap());
    assert_eq!(root("2"), "1.414213562373095");
    assert_eq!(root("144.0"), "12.000000000000000");
    assert_eq!(root("0"), "0.000000000000000");
    assert_eq!(root("Infinity"), "Infinity");
    assert_eq!(state(read("-1").root()), "2201F");
    let exp = |text: &str| shown(read(text).exp().unwrap());
    assert_eq!(exp("1"), "2.7182818284590452");
    assert_eq!(exp("1.0"), "2.7182818284590452");
    assert_eq!(exp("0"), "1.0000000000000000");
    assert_eq!(exp("-Infinity"), "0");
    assert_eq!(state(read("6000").exp()), "22003");
    let ln = |text: &str| shown(read(text).ln().unwrap());
    assert_eq!(ln("2.0"), "0.6931471805599453");
    assert_eq!(ln("1"), "0.0000000000000000");
    assert_eq!(ln("10"), "2.3025850929940457");
    assert_eq!(state(read("0").ln()), "2201E");
    assert_eq!(state(read("-2").ln()), "2201E");
    let log = |base: &str, text: &str| shown(read(base).log(&read(text)).unwrap());
    assert_eq!(log("2.0", "64.0"), "6.0000000000000000");
    assert_eq!(log("10", "100.0"), "2.0000000000000000");
    assert_eq!(state(read("1").log(&read("2"))), "22012");
    let power = |base: &str, exponent: &str| shown(read(base).power(&read(exponent)).unwrap());
    assert_eq!(power("9", "3"), "729.0000000000000000");
    assert_eq!(power("2", "-1"), "0.5000000000000000");
    assert_eq!(power("2", "0.5"), "1.4142135623730950");
    assert_eq!(power("0", "0"), "1.0000000000000000");
    assert_eq!(power("-2", "3"), "-8.0000000000000000");
    assert_eq!(power("1.000", "1e20"), "1.0000000000000000");
    assert_eq!(power("-1.000", "100000000000000000001"), "-1.0000000000000000");
    assert_eq!(power("1.00000000000000000001", "1e20"), "2.71828182845904523535");
    assert_eq!(power("1.000000000001", "3e12"), "20.085536923157539");
    assert_eq!(power("NaN", "0"), "1");
    assert_eq!(power("1", "NaN"), "1");
    assert_eq!(power("2", "Infinity"), "Infinity");
    assert_eq!(power("0.5", "Infinity"), "0");
    assert_eq!(state(read("0").power(&read("-1"))), "2201F");
    assert_eq!(state(read("-1").power(&read("0.5"))), "2201F");
    assert_eq!(state(read("10").power(&read("200000"))), "22003");
}

#[test]
fn divisors_and_factorials_are_exact() {
    assert_eq!(shown(read("330.3").greatest_divisor(&read("462")).unwrap()), "0.3");
    assert_eq!(shown(read("1071").greatest_divisor(&read("462")).unwrap()), "21");
    assert_eq!(shown(read("1071").least_multiple(&read("462")).unwrap()), "23562");
    assert_eq!(shown(read("0").least_multiple(&read("5.50")).unwrap()), "0.00");
    let small = |digit: &str| read(&format!("0.{}{digit}", "0".repeat(2_999)));
    assert_eq!(small("2").least_multiple(&small("3")).unwrap(), small("6"));
    assert_eq!(shown(AnyNumeric::factorial(0).unwrap()), "1");
    assert_eq!(shown(AnyNumeric::factorial(20).unwrap()), "2432902008176640000");
    assert_eq!(shown(AnyNumeric::factorial(40).unwrap()), "815915283247897734345611269596115894272000000000");
    assert_eq!(state(AnyNumeric::factorial(-1)), "22003");
}

#[test]
fn other_numbers_are_made_of_them() {
    assert_eq!(read("1.5").double().unwrap(), 1.5);
    assert!(read("NaN").double().unwrap().is_nan());
    assert_eq!(read("1e400").double().unwrap_err().state.code(), "22003");
    assert_eq!(read("2.5").integer("integer").unwrap(), 3);
    assert_eq!(read("NaN").integer("integer").unwrap_err().state.code(), "0A000");
    assert_eq!(read("1.005").decimal(10, 2).unwrap(), 101);
    assert_eq!(read("99999.999").decimal(7, 2).unwrap_err().state.code(), "22003");
    assert_eq!(read("Infinity").decimal(7, 2).unwrap_err().state.code(), "22003");
    assert_eq!(shown(AnyNumeric::of_float(0.1, 15).unwrap()), "0.1");
    assert_eq!(shown(AnyNumeric::of_float(1e20, 15).unwrap()), "100000000000000000000");
    assert_eq!(shown(AnyNumeric::of_float(f64::NAN, 15).unwrap()), "NaN");
}

#[test]
fn the_binary_form_comes_back() {
    let binary = |text: &str| {
        let mut bytes = Vec::new();
        encode_wire(parse_number(text).unwrap().borrow(), &mut bytes).unwrap();
        bytes
    };
    assert_eq!(binary("1.50"), [0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88]);
    assert_eq!(binary("-12345.6"), [0, 3, 0, 1, 0x40, 0, 0, 1, 0, 1, 0x09, 0x29, 0x17, 0x70]);
    assert_eq!(binary("0.0001"), [0, 1, 0xFF, 0xFF, 0, 0, 0, 4, 0, 1]);
    assert_eq!(binary("0.00"), [0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(binary("NaN"), [0, 0, 0, 0, 0xC0, 0, 0, 0]);
    assert_eq!(binary("Infinity"), [0, 0, 0, 0, 0xD0, 0, 0, 0]);
    assert_eq!(binary("-Infinity"), [0, 0, 0, 0, 0xF0, 0, 0, 0]);
    for text in
        ["1.50", "-12345.6", "0.0001", "0.00", "NaN", "-Infinity", "100000000000000000000.000001", "0.1"]
    {
        assert_eq!(decode_wire(&binary(text)).unwrap().to_string(), text);
    }
    // Digits behind those that are shown do not count.
    assert_eq!(decode_wire(&[0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0xEC]).unwrap().to_string(), "1.5");
    assert!(decode_wire(&[0, 1, 0, 0, 0, 0, 0, 2, 0x27, 0x10]).is_none(), "a digit of 10,000");
    assert!(decode_wire(&[0, 2, 0, 0, 0, 0, 0, 2, 0, 1]).is_none(), "a digit is missing");
}

#[test]
fn divisors_are_not_looked_for_when_the_statement_is_cancelled() {
    let handle = CancelHandle::new();
    let _running = handle.begin();
    handle.cancel();
    assert_eq!(state(read("1071").greatest_divisor(&read("462"))), "57014");
    assert_eq!(state(read("1071").least_multiple(&read("462"))), "57014");
}
