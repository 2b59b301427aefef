// SPDX-License-Identifier: Apache-2.0
//! Numbers are ordered as their values are, shown as PostgreSQL shows them, and read back from keys.

use super::*;
use crate::types::Physical;
use crate::value::{KeyReader, KeyWriter, Nullable, Value, ValueRef};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// `units * 10^-scale`.
fn decimal(units: i64, scale: u16) -> AnyNumber {
    let class = if units < 0 { NumberClass::Negative } else { NumberClass::Positive };
    let odd = scale % 2;
    let mut rest = units.unsigned_abs() * if odd == 1 { 10 } else { 1 };
    let mut digits = Vec::new();
    while rest > 0 {
        digits.insert(0, (rest % 100) as u8);
        rest /= 100;
    }
    let behind = i32::from(scale.div_ceil(2));
    let exponent = i32::try_from(digits.len()).unwrap() - behind;
    AnyNumber::finite(class, &digits, exponent, scale)
}

#[test]
fn numbers_are_shown_with_their_digits() {
    for (units, scale, shown) in [
        (0, 0, "0"),
        (0, 3, "0.000"),
        (15, 1, "1.5"),
        (150, 2, "1.50"),
        (-150, 2, "-1.50"),
        (1, 5, "0.00001"),
        (-7, 3, "-0.007"),
        (100, 0, "100"),
        (12_345, 0, "12345"),
        (1_000_000, 2, "10000.00"),
        (123_456, 3, "123.456"),
    ] {
        assert_eq!(decimal(units, scale).to_string(), shown);
    }
    assert_eq!(AnyNumber::nan().to_string(), "NaN");
    assert_eq!(AnyNumber::infinity().to_string(), "Infinity");
    assert_eq!(AnyNumber::negative_infinity().to_string(), "-Infinity");
}

#[test]
fn bytes_are_those_of_the_format() {
    assert_eq!(decimal(150, 2).borrow().as_bytes(), [4, 0x80, 0, 1, 2, 51, 0, 0, 2]);
    assert_eq!(decimal(-150, 2).borrow().as_bytes(), [2, 0x7F, 0xFF, 0xFE, 0xFD, 0xCC, 0xFF, 0, 2]);
    assert_eq!(AnyNumber::zero(3).borrow().as_bytes(), [3, 0, 3]);
    assert_eq!(AnyNumber::nan().borrow().as_bytes(), [6, 0, 0]);
}

#[test]
fn the_order_of_bytes_is_that_of_the_numbers() {
    let mut random = StdRng::seed_from_u64(20_261_130);
    for _ in 0..20_000 {
        let one = |random: &mut StdRng| {
            let scale: u16 = random.random_range(0..7);
            let width = 10_i64.pow(random.random_range(1..10));
            (random.random_range(-width..=width), scale)
        };
        let ((left, left_scale), (right, right_scale)) = (one(&mut random), one(&mut random));
        let common = |units: i64, scale: u16| i128::from(units) * 10_i128.pow(u32::from(6 - scale));
        let expected = common(left, left_scale).cmp(&common(right, right_scale));
        let (left, right) = (decimal(left, left_scale), decimal(right, right_scale));
        assert_eq!(left.cmp(&right), expected, "{left} and {right}");
        let key = |number: &AnyNumber| {
            let mut writer = KeyWriter::new();
            writer.push(ValueRef::Number(number.borrow()));
            writer.as_slice().to_vec()
        };
        assert_eq!(key(&left).cmp(&key(&right)), expected, "keys of {left} and {right}");
    }
}

#[test]
fn what_is_no_finite_number_has_its_place_in_the_order() {
    let ascending = [
        AnyNumber::negative_infinity(),
        decimal(-1, 0),
        AnyNumber::zero(2),
        decimal(1, 3),
        AnyNumber::infinity(),
        AnyNumber::nan(),
    ];
    assert!(ascending.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(AnyNumber::nan(), AnyNumber::nan());
}

#[test]
fn numbers_that_differ_in_shown_digits_are_one_key() {
    let (short, long) = (decimal(1, 0), decimal(100, 2));
    assert_eq!(short, long);
    assert_ne!(short.borrow().as_bytes(), long.borrow().as_bytes());
    assert_eq!(short.borrow().as_bytes(), long.borrow().shortest().borrow().as_bytes());
    assert_eq!(decimal(1_050, 3).borrow().shortest().to_string(), "1.05");
    assert_eq!(decimal(5_000, 0).borrow().shortest().to_string(), "5000");
}

#[test]
fn a_key_reads_back() {
    for number in
        [decimal(-1_234_567, 4), decimal(900, 1), AnyNumber::zero(4), AnyNumber::nan(), AnyNumber::infinity()]
    {
        let mut writer = KeyWriter::new();
        writer.push(ValueRef::Number(number.borrow()));
        writer.push(ValueRef::Int16(7));
        let mut reader = KeyReader::new(writer.as_slice());
        let read = reader.read(Physical::Number, Nullable::No).unwrap();
        assert_eq!(read, Value::Number(number.borrow().shortest()));
        assert_eq!(reader.read(Physical::Int16, Nullable::No).unwrap(), Value::Int16(7));
        let mut reader = KeyReader::new(writer.as_slice());
        reader.skip(Physical::Number, Nullable::No).unwrap();
        assert_eq!(reader.rest().len(), 2);
    }
}

#[test]
fn bytes_that_are_no_number_are_known() {
    let good = decimal(150, 2);
    assert!(AnyNumberRef::check(good.borrow().as_bytes()));
    let bytes = good.borrow().as_bytes();
    for length in 0..bytes.len() {
        assert!(!AnyNumberRef::check(&bytes[..length]), "the first {length} bytes");
    }
    // Fewer digits shown than there are, a last digit that is zero, one above 99, and no class.
    assert!(!AnyNumberRef::check(&[4, 0x80, 0, 1, 2, 51, 0, 0, 0]));
    assert!(!AnyNumberRef::check(&[4, 0x80, 0, 1, 2, 1, 0, 0, 2]));
    assert!(!AnyNumberRef::check(&[4, 0x80, 0, 1, 102, 0, 0, 2]));
    assert!(!AnyNumberRef::check(&[9, 0, 0]));
}
