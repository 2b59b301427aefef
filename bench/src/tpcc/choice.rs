// SPDX-License-Identifier: Apache-2.0
//! TPC-C's random choices (clauses 2.1.6, 4.3.2): NURand, last names, random strings, the mix.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// The constants that make runs against one population comparable: chosen once at load, and again for runs so
/// that the two for last names are far enough apart (clause 2.1.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRandConstants {
    /// For `C_LAST` while loading.
    pub last_name_load: u32,
    /// For `C_LAST` while running.
    pub last_name_run: u32,
    /// For `C_ID`.
    pub customer: u32,
    /// For `OL_I_ID`.
    pub item: u32,
}

const LAST_NAME_A: u32 = 255;
const CUSTOMER_A: u32 = 1023;
const ITEM_A: u32 = 8191;

impl NuRandConstants {
    /// Constants of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x7063_632d_6e75);
        let last_name_load = random.random_range(0..=LAST_NAME_A);
        let last_name_run = loop {
            let candidate = random.random_range(0..=LAST_NAME_A);
            if last_name_distance_is_legal(candidate.abs_diff(last_name_load)) {
                break candidate;
            }
        };
        Self {
            last_name_load,
            last_name_run,
            customer: random.random_range(0..=CUSTOMER_A),
            item: random.random_range(0..=ITEM_A),
        }
    }
}

/// Clause 2.1.6.1: between 65 and 119, but neither 96 nor 112.
const fn last_name_distance_is_legal(distance: u32) -> bool {
    65 <= distance && distance <= 119 && distance != 96 && distance != 112
}

/// A source of TPC-C's random values.
pub(crate) struct Choice {
    random: SmallRng,
    constants: NuRandConstants,
}

impl Choice {
    /// The source number `stream` of a seed; sources of different numbers have nothing to do with each other.
    pub(crate) fn new(seed: u64, stream: u64, constants: NuRandConstants) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self { random: SmallRng::seed_from_u64(mixed), constants }
    }

    /// A number in `low..=high`, each equally likely.
    #[inline]
    pub(crate) fn uniform(&mut self, low: i32, high: i32) -> i32 {
        self.random.random_range(low..=high)
    }

    /// Whether something happens that does in `percent` percent of all cases.
    #[inline]
    pub(crate) fn happens(&mut self, percent: i32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// `NURand(A, low, high)` with constant `c`.
    #[inline]
    fn nurand(&mut self, a: u32, c: u32, low: i32, high: i32) -> i32 {
        let spread = self.random.random_range(0..=a) | self.random.random_range(low as u32..=high as u32);
        let span = (high - low + 1) as u32;
        ((spread + c) % span) as i32 + low
    }

    /// A customer's number in a district of `customers`.
    #[inline]
    pub(crate) fn customer(&mut self, customers: i32) -> i32 {
        self.nurand(CUSTOMER_A, self.constants.customer, 1, customers)
    }

    /// An item's number of `items`.
    #[inline]
    pub(crate) fn item(&mut self, items: i32) -> i32 {
        self.nurand(ITEM_A, self.constants.item, 1, items)
    }

    /// The number of a last name for a run; `names` is 1,000 in a full population.
    #[inline]
    pub(crate) fn last_name(&mut self, names: i32) -> i32 {
        self.nurand(LAST_NAME_A, self.constants.last_name_run, 0, names - 1)
    }

    /// The number of a last name for a customer that is being loaded.
    #[inline]
    pub(crate) fn last_name_loaded(&mut self, names: i32) -> i32 {
        self.nurand(LAST_NAME_A, self.constants.last_name_load, 0, names - 1)
    }

    /// Fills `text` with `low..=high` random letters and digits ("a-string").
    pub(crate) fn letters<'t>(&mut self, text: &'t mut String, low: i32, high: i32) -> &'t str {
        self.characters(text, low, high, LETTERS_AND_DIGITS)
    }

    /// Fills `text` with `low..=high` random digits ("n-string").
    pub(crate) fn digits<'t>(&mut self, text: &'t mut String, low: i32, high: i32) -> &'t str {
        self.characters(text, low, high, DIGITS)
    }

    fn characters<'t>(&mut self, text: &'t mut String, low: i32, high: i32, alphabet: &[u8]) -> &'t str {
        text.clear();
        let length = if low == high { low } else { self.uniform(low, high) } as usize;
        let size = alphabet.len() as u64;
        while text.len() < length {
            // Four characters of one random word: sixteen bits leave a bias far below any effect here.
            let mut bits: u64 = self.random.random();
            for _ in 0..4.min(length - text.len()) {
                text.push(alphabet[(((bits & 0xffff) * size) >> 16) as usize] as char);
                bits >>= 16;
            }
        }
        text
    }

    /// Fills `text` as `I_DATA` and `S_DATA`: 26 to 50 letters, in a tenth of all cases with "ORIGINAL" somewhere
    /// inside.
    pub(crate) fn data<'t>(&mut self, text: &'t mut String) -> &'t str {
        self.letters(text, 26, 50);
        if self.happens(10) {
            let at = self.uniform(0, (text.len() - ORIGINAL.len()) as i32) as usize;
            text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// Fills `text` as a zip code: four random digits and 11111.
    pub(crate) fn zip<'t>(&mut self, text: &'t mut String) -> &'t str {
        self.digits(text, 4, 4);
        text.push_str("11111");
        text
    }

    /// The numbers 1 to `count` in random order.
    pub(crate) fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        numbers.shuffle(&mut self.random);
        numbers
    }

    /// Puts a slice into random order.
    pub(crate) fn shuffle<T>(&mut self, slice: &mut [T]) {
        slice.shuffle(&mut self.random);
    }
}

const DIGITS: &[u8] = b"0123456789";
const LETTERS_AND_DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What marks original goods in `I_DATA` and `S_DATA`.
pub(crate) const ORIGINAL: &str = "ORIGINAL";

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number below 1,000: one syllable for each of its three digits (clause 4.3.2.3).
///
/// # Panics
/// If the number is not in `0..1000`.
#[must_use]
pub fn last_name(number: i32) -> String {
    assert!((0..1000).contains(&number), "last names are numbered 0 to 999");
    let digits = [number / 100, number / 10 % 10, number % 10];
    digits.iter().map(|&digit| SYLLABLES[digit as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(stream: u64) -> Choice {
        Choice::new(1, stream, NuRandConstants::new(1))
    }

    #[test]
    fn last_names_are_made_of_the_syllables_of_their_digits() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn the_constants_for_last_names_keep_the_legal_distance() {
        for seed in 0..500 {
            let constants = NuRandConstants::new(seed);
            let distance = constants.last_name_load.abs_diff(constants.last_name_run);
            assert!(
                (65..=119).contains(&distance) && distance != 96 && distance != 112,
                "seed {seed}: {distance}"
            );
        }
    }

    #[test]
    fn nurand_stays_in_its_range_and_is_not_uniform() {
        let mut choice = choice(0);
        let mut seen = vec![0u32; 3001];
        for _ in 0..300_000 {
            seen[choice.customer(3000) as usize] += 1;
            assert!((1..=100_000).contains(&choice.item(100_000)));
            assert!((0..=999).contains(&choice.last_name(1000)));
        }
        assert_eq!(seen[0], 0);
        let most = seen.iter().max().unwrap();
        assert!(
            *most > 300,
            "a uniform choice would give each customer about 100, the most frequent got {most}"
        );
    }

    #[test]
    fn strings_have_the_asked_lengths_and_alphabets() {
        let mut choice = choice(1);
        let mut text = String::new();
        for _ in 0..2_000 {
            let length = choice.letters(&mut text, 14, 24).len();
            assert!((14..=24).contains(&length) && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert!(
                choice.digits(&mut text, 16, 16).bytes().all(|byte| byte.is_ascii_digit())
                    && text.len() == 16
            );
            assert!(choice.zip(&mut text).ends_with("11111") && text.len() == 9);
        }
    }

    #[test]
    fn a_tenth_of_all_data_is_original() {
        let mut choice = choice(2);
        let mut text = String::new();
        let original = (0..20_000).filter(|_| choice.data(&mut text).contains(ORIGINAL)).count();
        assert!((1_800..2_200).contains(&original), "{original} of 20,000");
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut numbers = choice(3).permutation(3000);
        assert_ne!(numbers[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3000));
    }

    #[test]
    fn different_streams_differ_and_equal_ones_repeat() {
        let draw = |stream| (0..8).map(|_| choice(stream).uniform(0, 1 << 30)).collect::<Vec<_>>();
        assert_eq!(draw(4), draw(4));
        assert_ne!(draw(4), draw(5));
    }
}
