// SPDX-License-Identifier: Apache-2.0

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The quotient by long division, digit by digit, over the whole product: slow and plain.
fn long_division(dividend: i128, divisor: i128, shift: u32) -> Option<i128> {
    let (mut quotient, mut remainder) =
        (dividend.unsigned_abs() / divisor.unsigned_abs(), dividend.unsigned_abs() % divisor.unsigned_abs());
    let divisor_abs = divisor.unsigned_abs();
    for _ in 0..shift {
        // Ten times the remainder, without overflow.
        let (mut digit, mut rest) = (0, 0_u128);
        for _ in 0..10 {
            rest += remainder;
            if rest >= divisor_abs {
                rest -= divisor_abs;
                digit += 1;
            }
        }
        quotient = quotient.checked_mul(10)?.checked_add(digit)?;
        remainder = rest;
    }
    if remainder >= divisor_abs - remainder {
        quotient += 1;
    }
    let quotient = i128::try_from(quotient).ok().filter(|quotient| *quotient < DECIMAL_LIMIT)?;
    Some(if (dividend < 0) == (divisor < 0) { quotient } else { -quotient })
}

#[test]
fn quotients_are_those_of_long_division_and_overflow_is_an_error() {
    let mut random = StdRng::seed_from_u64(17);
    let mut wide = 0;
    for _ in 0..20_000 {
        let mut number = || {
            let digits = random.random_range(1..38);
            let magnitude = random.random_range(0..10_i128.pow(digits));
            if random.random_bool(0.5) { magnitude } else { -magnitude }
        };
        let (dividend, divisor) = (number(), number());
        let shift = random.random_range(0..45);
        if divisor == 0 {
            assert_eq!(divide(dividend, divisor, shift).unwrap_err().state, SqlState::DivisionByZero);
            continue;
        }
        let expected = long_division(dividend, divisor, shift.unsigned_abs());
        wide += u32::from(
            expected.is_some() && dividend.checked_mul(10_i128.pow(shift.unsigned_abs().min(38))).is_none(),
        );
        assert_eq!(divide(dividend, divisor, shift).ok(), expected, "{dividend} / {divisor}, {shift}");
    }
    assert!(wide > 100, "too few quotients needed more than 128 bits: {wide}");
}

#[test]
fn factors_multiply_as_divisors_divide() {
    let numbers = [0, 1, -7, 99, -123_456_789, 10_i128.pow(21), 10_i128.pow(30) + 1, DECIMAL_LIMIT - 1];
    for shift in [0, 1, 3, 14, 16, 38] {
        for divisor in [1, 2, -2, 4, 5, -40, 125, 200, 10_i128.pow(14)] {
            let Some(factor) = whole_factor(divisor, shift) else {
                assert!(10_i128.pow(shift.unsigned_abs()) % divisor != 0, "{divisor}, {shift}");
                continue;
            };
            for dividend in numbers {
                let expected = divide(dividend, divisor, shift).ok();
                assert_eq!(multiply(dividend, factor).ok(), expected, "{dividend} / {divisor}, {shift}");
            }
        }
    }
    assert_eq!([whole_factor(0, 16), whole_factor(3, 16), whole_factor(1, 39)], [None; 3]);
}

#[test]
fn halves_are_rounded_away_from_zero() {
    assert_eq!(divide(5, 2, 0).unwrap(), 3);
    assert_eq!(divide(-5, 2, 0).unwrap(), -3);
    assert_eq!(divide(5, -2, 0).unwrap(), -3);
    assert_eq!(divide(1, 3, 4).unwrap(), 3333);
    assert_eq!(divide(2, 3, 4).unwrap(), 6667);
}
