// SPDX-License-Identifier: Apache-2.0
//! Plain records, many at a time: cut together, so that each column can be read in one go.
//!
//! Plain is a record without quotes and escapes, with as many fields as there are columns. Most are, and nothing has to be
//! copied or put together for them: their fields lie between delimiters and line ends, which are found eight bytes at a
//! time.

use super::options::{CopyFormat, CopyOptions};
use std::ops::Range;

/// Records that are cut together: their places and values stay in the first caches.
pub(super) const BLOCK_ROWS: usize = 512;

/// Behind these no further one is cut.
const BLOCK_BYTES: usize = 1 << 20;

/// A byte in all eight places.
const fn eight(byte: u8) -> u64 {
    0x0101_0101_0101_0101 * byte as u64
}

/// Has the high bit of the lowest byte that is zero, and perhaps those of bytes above it.
#[inline]
fn zeroes(word: u64) -> u64 {
    word.wrapping_sub(eight(0x01)) & !word & eight(0x80)
}

/// The eight bytes from `at`, the first one lowest.
#[inline]
pub(super) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// Finds plain records.
#[derive(Debug)]
pub(super) struct Splitter {
    delimiter: u8,
    /// Nothing is plain that holds it: the quote of CSV, the backslash of text.
    special: u8,
    columns: usize,
}

/// Where the fields of some plain records are.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Of each record.
    starts: Vec<usize>,
    /// Of each field, record by record.
    ends: Vec<usize>,
    columns: usize,
}

impl Block {
    /// How many records.
    pub(super) fn rows(&self) -> usize {
        self.starts.len()
    }

    /// The places of a column's fields, record by record.
    #[inline]
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = Range<usize>> {
        self.starts.iter().zip(self.ends.chunks_exact(self.columns.max(1))).map(move |(&start, ends)| {
            let start = if column == 0 { start } else { ends[column - 1] + 1 };
            start..ends[column]
        })
    }
}

impl Splitter {
    /// For records of so many columns.
    pub(super) fn new(options: &CopyOptions, columns: usize) -> Self {
        let special = match options.format {
            CopyFormat::Csv => options.quote,
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => b'\\',
        };
        Self { delimiter: options.delimiter, special, columns }
    }

    /// Cuts at most so many plain records from `at` on, up to the first one that is not plain or not complete. Says where
    /// they end.
    pub(super) fn split(&self, bytes: &[u8], mut at: usize, rows_max: usize, block: &mut Block) -> usize {
        block.starts.clear();
        block.ends.clear();
        block.columns = self.columns;
        if self.columns == 0 {
            return at;
        }
        let most = at.saturating_add(BLOCK_BYTES);
        // The line that ends the rows begins with a backslash, in CSV too.
        while block.starts.len() < rows_max && at < most && bytes.get(at).is_some_and(|&first| first != b'\\')
        {
            let Some(next) = self.split_record(bytes, at, &mut block.ends) else {
                block.ends.truncate(block.starts.len() * self.columns);
                break;
            };
            block.starts.push(at);
            at = next;
        }
        at
    }

    /// Cuts one record; says where the next one begins. If it is not plain, some of its fields have been noted.
    #[inline]
    fn split_record(&self, bytes: &[u8], mut at: usize, ends: &mut Vec<usize>) -> Option<usize> {
        for column in 1..=self.columns {
            let end = self.field_end(bytes, at)?;
            ends.push(end);
            at = end + 1;
            let is_last = column == self.columns;
            match bytes[end] {
                byte if byte == self.delimiter => {
                    if is_last {
                        return None;
                    }
                }
                b'\n' if is_last => return Some(at),
                b'\r' if is_last && bytes.get(at) == Some(&b'\n') => return Some(at + 1),
                _ => return None,
            }
        }
        None
    }

    /// The next byte from `at` on that ends a plain field, or a record that is none.
    #[inline]
    fn field_end(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while let Some(word) = word_at(bytes, at) {
            let ends = zeroes(word ^ eight(self.delimiter))
                | zeroes(word ^ eight(b'\n'))
                | zeroes(word ^ eight(b'\r'))
                | zeroes(word ^ eight(self.special));
            if ends != 0 {
                return Some(at + (ends.trailing_zeros() / 8) as usize);
            }
            at += 8;
        }
        let is_end =
            |&byte: &u8| byte == self.delimiter || byte == b'\n' || byte == b'\r' || byte == self.special;
        bytes[at..].iter().position(is_end).map(|after| at + after)
    }
}

#[cfg(test)]
mod tests;
