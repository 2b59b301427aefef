// SPDX-License-Identifier: Apache-2.0
//! A Bloom filter of rows by several columns, of which each row takes one word.
//!
//! A row's hash names a word and four bits of it. A look-up is one access to memory and one comparison, whatever the number of columns. With
//! a word for four rows at most, about one row in two hundred that is not there finds its bits set by others.
//!
//! Rows are looked up by blocks of 64: the values of a column are mixed into the block's hashes one column after the other, in loops of
//! a fixed length, which the compiler makes wide.

use super::numbers::Numbers;
use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;

/// Rows of a block: one for each bit of a word.
const BLOCK_ROWS: usize = u64::BITS as usize;

/// A word is for so many rows at most: 16 bits for each.
const ROWS_PER_WORD: usize = 4;

/// The least number of words: a shift by all 64 bits of a hash is none.
const WORDS_MIN: usize = 64;

/// What hashes begin with.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Odd numbers whose products have all bits mixed in their upper half: those of MurmurHash3's last step.
const FACTORS: [u64; 2] = [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53];

/// See the module.
#[derive(Clone, Debug)]
pub struct KeyBloom {
    /// As many as a power of two.
    words: Vec<u64>,
    /// By which a hash becomes the number of a word.
    shift: u32,
}

impl KeyBloom {
    /// The rows of these batches of columns in which no column is NULL; `None` if a column has no numbers.
    pub(super) fn of(batches: &[Vec<ArrayRef>]) -> Option<Self> {
        let rows: usize =
            batches.iter().filter_map(|columns| columns.first()).map(|column| column.len()).sum();
        let mut filter = Self::with_room(rows);
        for columns in batches {
            let numbers = columns.iter().map(Numbers::of).collect::<Option<Vec<_>>>()?;
            let nulls = NullBuffer::union_many(columns.iter().map(|column| column.nulls()));
            let rows = columns.first().map_or(0, |column| column.len());
            for first in (0..rows).step_by(BLOCK_ROWS) {
                let hashes = hashes(&numbers, first);
                for (row, hash) in (first..rows).zip(hashes) {
                    if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                        let (word, bits) = filter.place(hash);
                        filter.words[word] |= bits;
                    }
                }
            }
        }
        Some(filter)
    }

    fn with_room(rows: usize) -> Self {
        let words = rows.div_ceil(ROWS_PER_WORD).next_power_of_two().max(WORDS_MIN);
        Self { words: vec![0; words], shift: u64::BITS - words.ilog2() }
    }

    /// Of the 64 rows of these columns from the first one on, those that may be there, among those whose bits are set. Rows behind the last
    /// one must not be among them.
    #[inline(always)]
    #[must_use]
    pub fn passing(&self, columns: &[Numbers<'_>], first: usize, among: u64) -> u64 {
        let hashes = hashes(columns, first);
        let mut passing = 0;
        for (row, hash) in hashes.iter().enumerate() {
            let (word, bits) = self.place(*hash);
            passing |= u64::from(self.words[word] & bits == bits) << row;
        }
        passing & among
    }

    /// The word of a row with this hash, and its bits.
    #[inline(always)]
    fn place(&self, hash: u64) -> (usize, u64) {
        let hash = hash.wrapping_mul(FACTORS[1]);
        let word = (hash >> self.shift) as usize;
        let low = hash ^ (hash >> 32);
        let bits = (1 << (low & 63))
            | (1 << ((low >> 6) & 63))
            | (1 << ((low >> 12) & 63))
            | (1 << ((low >> 18) & 63));
        (word, bits)
    }
}

/// The hashes of a block of rows; of those behind the last row, any.
#[inline(always)]
fn hashes(columns: &[Numbers<'_>], first: usize) -> [u64; BLOCK_ROWS] {
    let mut hashes = [SEED; BLOCK_ROWS];
    for column in columns {
        match column {
            Numbers::Short(values) => mix(&values[first..], &mut hashes),
            Numbers::Word(values) => mix(&values[first..], &mut hashes),
            Numbers::Long(values) => mix(&values[first..], &mut hashes),
        }
    }
    hashes
}

#[inline(always)]
fn mix<T: Copy>(values: &[T], hashes: &mut [u64; BLOCK_ROWS])
where
    i64: From<T>,
{
    // A loop whose length is known has no branch for the rows that are left over.
    if let Some(values) = values.first_chunk::<BLOCK_ROWS>() {
        for (hash, value) in hashes.iter_mut().zip(values) {
            *hash = mixed(*hash, i64::from(*value));
        }
    } else {
        for (hash, value) in hashes.iter_mut().zip(values) {
            *hash = mixed(*hash, i64::from(*value));
        }
    }
}

#[inline(always)]
fn mixed(hash: u64, value: i64) -> u64 {
    let product = (hash ^ value.cast_unsigned()).wrapping_mul(FACTORS[0]);
    product ^ (product >> 32)
}
