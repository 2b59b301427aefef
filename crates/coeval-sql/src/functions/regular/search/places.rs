// SPDX-License-Identifier: Apache-2.0
//! Places in a text, a bit for each byte.

use super::super::syntax::Prefers;
use std::ops::Range;

/// Some of the places between two bytes, both included.
#[derive(Debug)]
pub(super) struct Places {
    begin: usize,
    words: Vec<u64>,
    /// The words before this one have no place.
    first: usize,
    /// The bytes that `words` had when it was made.
    bytes: usize,
}

const BITS: usize = u64::BITS as usize;

impl Places {
    /// What those of so many bytes take.
    pub(super) fn bytes_of(bytes: &Range<usize>) -> usize {
        (bytes.len() / BITS + 1) * size_of::<u64>()
    }

    pub(super) fn none_of(bytes: Range<usize>) -> Self {
        Self {
            begin: bytes.start,
            words: vec![0; bytes.len() / BITS + 1],
            first: 0,
            bytes: Self::bytes_of(&bytes),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, place: usize) {
        let bit = place - self.begin;
        self.words[bit / BITS] |= 1 << (bit % BITS);
    }

    pub(super) fn has(&self, place: usize) -> bool {
        let bit = place - self.begin;
        (self.words[bit / BITS] >> (bit % BITS)) & 1 == 1
    }

    /// Takes out the last place, or the first one. After the first call none is added.
    pub(super) fn take(&mut self, prefers: Prefers) -> Option<usize> {
        let (word, bit) = match prefers {
            Prefers::Longest => {
                while self.words.last() == Some(&0) {
                    self.words.pop();
                }
                let last = self.words.last()?;
                (self.words.len() - 1, BITS - 1 - last.leading_zeros() as usize)
            }
            Prefers::Shortest => {
                while self.words.get(self.first) == Some(&0) {
                    self.first += 1;
                }
                (self.first, self.words.get(self.first)?.trailing_zeros() as usize)
            }
        };
        self.words[word] &= !(1 << bit);
        Some(self.begin + word * BITS + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_from_either_end() {
        for prefers in [Prefers::Longest, Prefers::Shortest] {
            let mut places = Places::none_of(10..300);
            let mut expected = vec![10, 73, 74, 75, 137, 138, 300];
            expected.iter().for_each(|place| places.add(*place));
            assert!(places.has(74) && !places.has(76));
            if prefers == Prefers::Longest {
                expected.reverse();
            }
            assert_eq!(std::iter::from_fn(|| places.take(prefers)).collect::<Vec<_>>(), expected);
        }
    }
}
