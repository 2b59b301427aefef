// SPDX-License-Identifier: Apache-2.0
//! A set of whole numbers between two bounds, as a bit for each.

use super::numbers::Numbers;
use crate::vector::Test;
use arrow::array::{Array, ArrayRef};

/// Between the bounds of a column are so many values at most: a megabyte of bits, which a processor's second cache holds.
const VALUES_MAX: u64 = 1 << 23;

const WORD_BITS: u64 = u64::BITS as u64;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBits {
    least: i64,
    /// A bit for each value from the least one on, and behind them at least 64 that are not set.
    words: Vec<u64>,
}

impl KeyBits {
    /// None of so many values from this one on.
    #[must_use]
    pub fn with_room(least: i64, values: u64) -> Self {
        Self { least, words: vec![0; (values / WORD_BITS) as usize + 2] }
    }

    /// The values of a column that comes in pieces; `None` if they are too far apart, or no numbers.
    pub(super) fn of(pieces: &[&ArrayRef]) -> Option<Self> {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for piece in pieces {
            Numbers::of(piece)?.each(piece.nulls(), |value| {
                least = least.min(value);
                most = most.max(value);
            });
        }
        if least > most {
            return Some(Self::with_room(0, 0));
        }
        let distance = most.abs_diff(least);
        if distance >= VALUES_MAX {
            return None;
        }
        let mut bits = Self::with_room(least, distance + 1);
        for piece in pieces {
            Numbers::of(piece)?.each(piece.nulls(), |value| bits.insert(value.abs_diff(least)));
        }
        Some(bits)
    }

    /// Takes in the value at this distance from the least one.
    ///
    /// # Panics
    ///
    /// If there is no room for it.
    pub fn insert(&mut self, place: u64) {
        self.words[(place / WORD_BITS) as usize] |= 1 << (place % WORD_BITS);
    }

    /// Whether this value is in the set.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, value: i64) -> bool {
        let place = value.wrapping_sub(self.least).cast_unsigned();
        // What is beyond all values finds one of the bits that are not set.
        let last = self.words.len() - 1;
        let word = self.words[((place / WORD_BITS) as usize).min(last)];
        (word >> (place % WORD_BITS)) & 1 == 1
    }

    /// Whether one of the values from this one to that one is in the set.
    #[must_use]
    pub fn has_between(&self, least: i64, most: i64) -> bool {
        let end = self.words.len() as u64 * WORD_BITS - 1;
        let place = |value: i64| value.max(self.least).abs_diff(self.least);
        if most < self.least || most < least || place(least) > end {
            return false;
        }
        let (first, last) = (place(least), place(most).min(end));
        let (first_word, last_word) = ((first / WORD_BITS) as usize, (last / WORD_BITS) as usize);
        let from_first = u64::MAX << (first % WORD_BITS);
        let to_last = u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
        if first_word == last_word {
            return self.words[first_word] & from_first & to_last != 0;
        }
        self.words[first_word] & from_first != 0
            || self.words[first_word + 1..last_word].iter().any(|word| *word != 0)
            || self.words[last_word] & to_last != 0
    }
}

impl<T> Test<T> for KeyBits
where
    i64: From<T>,
{
    #[inline(always)]
    fn passes(&self, value: T) -> bool {
        self.contains(i64::from(value))
    }
}
