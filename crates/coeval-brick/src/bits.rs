// SPDX-License-Identifier: Apache-2.0
//! Bits of rows (nulls, booleans) that one writer sets while anybody reads those that are published.
//!
//! Rows that are published and rows that are not may share a word, so the words are atomic, and a reader copies
//! them: a bit for each row, next to at least a byte for its value. A bitmap in which nothing was ever set costs
//! no copy: null bits are set for NULLs, so a column without any is read as such.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::buffer::BooleanBuffer;

const WORD_BITS: usize = 64;

/// One bit for each row of a block. All are unset at first.
///
/// The writer sets the bits of a row before the row is published, and never changes them afterwards; a reader
/// asks only for rows whose publication it has seen. That orders the accesses, so they are relaxed.
pub(crate) struct RowBits {
    words: Box<[AtomicU64]>,
    any: AtomicBool,
}

impl RowBits {
    pub(crate) fn new(rows: usize) -> Self {
        let words = (0..rows.div_ceil(WORD_BITS)).map(|_| AtomicU64::new(0)).collect();
        Self { words, any: AtomicBool::new(false) }
    }

    /// Sets the bits of the rows from `first` on that are set in `bits`.
    pub(crate) fn set(&self, first: usize, bits: &BooleanBuffer) {
        assert!(first + bits.len() <= self.words.len() * WORD_BITS, "the rows are in the block");
        for index in bits.set_indices() {
            let row = first + index;
            self.words[row / WORD_BITS].fetch_or(1 << (row % WORD_BITS), Ordering::Relaxed);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a bit of some row may be set; if not, none of a published row is.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The bits of `rows`.
    pub(crate) fn read(&self, rows: std::ops::Range<usize>) -> BooleanBuffer {
        assert!(rows.end <= self.words.len() * WORD_BITS, "the rows are in the block");
        let first_word = rows.start / WORD_BITS;
        let words = &self.words[first_word..rows.end.div_ceil(WORD_BITS).max(first_word)];
        let words: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed).to_le()).collect();
        BooleanBuffer::new(words.into(), rows.start - first_word * WORD_BITS, rows.len())
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[AtomicU64]>(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_wherever_they_were_set() {
        let pattern = |row: usize| row % 3 == 1 || row % 7 == 4;
        let bits = RowBits::new(200);
        assert!(!bits.any());
        bits.set(0, &BooleanBuffer::collect_bool(70, pattern));
        bits.set(70, &BooleanBuffer::collect_bool(130, |index| pattern(70 + index)));
        assert!(bits.any());
        for start in [0, 1, 63, 64, 65, 128, 199, 200] {
            for end in start..=200 {
                let read: Vec<bool> = bits.read(start..end).iter().collect();
                assert_eq!(read, (start..end).map(pattern).collect::<Vec<_>>(), "{start}..{end}");
            }
        }
    }
}
