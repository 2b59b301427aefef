// SPDX-License-Identifier: Apache-2.0
//! Variances and deviations whose sums, and all that is computed of them, fit into 128 bits.
//!
//! The digits are those of the computation in 256 bits, step by step; but the processor divides, and the first digits are
//! found without writing the number. Of a query with many groups this is most of the time that they take.

use super::{DIGITS_PER_PLACE, Leading, Of, SCALE, Spread, Sums, digits_behind_point};
use crate::types::numeric::{self, POWERS_OF_TEN};

/// What comes of the sums, in units of its scale; `None` if something on the way does not fit.
pub(super) fn result(sums: &Sums, of: Of) -> Option<i128> {
    let (numerator, denominator) = fraction(sums, of)?;
    let squared_scale = 2 * sums.scale;
    let leading = (leading(numerator, squared_scale), leading(denominator, 0));
    let digits = digits_behind_point(leading, squared_scale);
    let twice = numerator.checked_mul(2)?;
    let twice = match digits.checked_sub(squared_scale) {
        Some(shift) => twice.checked_mul(power_of_ten(shift)?)? / denominator,
        None => twice / denominator.checked_mul(power_of_ten(squared_scale - digits)?)?,
    };
    // Half up.
    let variance = twice.div_ceil(2);
    let result = match sums.spread {
        Spread::Variance(_) => variance,
        Spread::Deviation(_) => nearest_root(variance.checked_mul(power_of_ten(digits)?)?),
    };
    i128::try_from(result.checked_mul(power_of_ten(SCALE - digits)?)?).ok()
}

/// The variance as a fraction of integers. Its numerator is never negative, as the mean of squares is no less than the square of the
/// mean.
fn fraction(sums: &Sums, of: Of) -> Option<(u128, u128)> {
    let (sum, squares) = (sums.sum.to_i128()?, sums.squares.to_i128()?);
    let numerator = squares.checked_mul(i128::from(sums.count))?.checked_sub(sum.checked_mul(sum)?)?;
    let degrees = if of == Of::Sample { sums.count.checked_sub(1)? } else { sums.count };
    Some((u128::try_from(numerator).ok()?, u128::from(sums.count) * u128::from(degrees)))
}

fn power_of_ten(exponent: u32) -> Option<u128> {
    numeric::power_of_ten(exponent).map(i128::cast_unsigned)
}

fn leading(number: u128, scale: u32) -> Leading {
    let Some(exponent) = number.checked_ilog10() else { return (0, 0) };
    let place = exponent as i32 - scale as i32;
    let weight = place.div_euclid(DIGITS_PER_PLACE);
    // From one digit to four of them.
    let count = place.rem_euclid(DIGITS_PER_PLACE) as u32 + 1;
    let first = match (exponent + 1).checked_sub(count) {
        Some(others) => number / POWERS_OF_TEN[others as usize].cast_unsigned(),
        None => number * POWERS_OF_TEN[(count - exponent - 1) as usize].cast_unsigned(),
    };
    (weight, first as u32)
}

/// The square root, rounded to the nearest integer.
fn nearest_root(square: u128) -> u128 {
    let root = square.isqrt();
    // What is left of the square is above a half of the next step.
    if square - root * root > root { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::super::{leading as wide_leading, root as wide_root, square};
    use super::*;
    use arrow::datatypes::i256;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// Sums of random values around a random mean, each of which is there once or many times, or all of which are equal.
    fn sums(random: &mut StdRng, case: usize) -> Sums {
        let scale = random.random_range(0..=10);
        let mut sums =
            Sums { spread: Spread::EACH[0], scale, count: 0, sum: i256::ZERO, squares: i256::ZERO };
        let limit = 10_i128.pow(random.random_range(0..=18));
        let mean = random.random_range(-limit..=limit);
        let distance = if case.is_multiple_of(7) { 0 } else { 10_i128.pow(random.random_range(0..=18)) };
        let copies = [1_u64, 1, 1, 1_000, 1_000_000][case % 5];
        let times = i128::from(copies);
        for _ in 0..random.random_range(1..=40) {
            let value = mean + random.random_range(-distance..=distance);
            let squares = square(value).unwrap().wrapping_mul(i256::from_i128(times));
            sums.add(copies, i256::from_i128(value * times), squares).unwrap();
        }
        sums
    }

    #[test]
    fn digits_are_those_of_the_wide_computation() {
        let mut random = StdRng::seed_from_u64(39);
        let (mut narrow_count, mut wide_count) = (0, 0);
        for case in 0..5_000 {
            let sums = sums(&mut random, case);
            for spread in Spread::EACH {
                let (Spread::Variance(of) | Spread::Deviation(of)) = spread;
                let sums = Sums { spread, ..sums.clone() };
                if sums.count == 1 && of == Of::Sample {
                    continue;
                }
                match result(&sums, of) {
                    Some(narrow) => {
                        narrow_count += 1;
                        assert_eq!(Some(narrow), sums.wide_result(of), "{sums:?}");
                    }
                    None => wide_count += 1,
                }
            }
        }
        assert!(narrow_count > 1_000 && wide_count > 1_000, "{narrow_count} {wide_count}");
    }

    #[test]
    fn first_digits_and_roots_are_those_of_wide_numbers() {
        let wide = |number: u128| i256::from_parts(number, 0);
        let mut random = StdRng::seed_from_u64(40);
        let powers = (0..=38).map(|exponent| 10_u128.pow(exponent));
        let near_powers = powers.flat_map(|power| [power - 1, power, power + 1]);
        let numbers = near_powers.chain((0..500).map(|bits| random.random::<u128>() >> (bits % 128)));
        for number in numbers.chain([u128::MAX]) {
            for scale in 0..=20 {
                assert_eq!(leading(number, scale), wide_leading(wide(number), scale), "{number} {scale}");
            }
            assert_eq!(wide(nearest_root(number)), wide_root(wide(number)), "{number}");
        }
    }
}
