// SPDX-License-Identifier: Apache-2.0
//! Values of one width, whatever they are, as words of four bytes: first the first word of each value, then the second one of
//! each, and so on. What is the same in all values of a block, or nearly so, takes next to nothing then: the high words of
//! keys, the exponents of numbers that are of one size, the months of intervals.
//!
//! # Bytes
//! The words of each place, packed as integers (`packed.rs`). The last word of a width that is no multiple of four is shorter.

use super::cursor::Cursor;
use super::packed::{pack, packed_bytes_min, unpack};
use arrow::buffer::{Buffer, MutableBuffer};

const WORD: usize = size_of::<u32>();

/// Which byte of a word counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The last one, as in Arrow's numbers. Widths are multiples of a word.
    LowestFirst,
    /// The first one, as in keys.
    HighestFirst,
}

/// Appends values of `width` bytes, which lie one behind the other.
pub(super) fn put_words(values: &[u8], width: usize, order: Order, out: &mut Vec<u8>) {
    let mut words = Vec::with_capacity(values.len() / width);
    for start in (0..width).step_by(WORD) {
        let end = width.min(start + WORD);
        words.clear();
        words.extend(values.chunks_exact(width).map(|value| i64::from(word_of(&value[start..end], order))));
        pack(&words, out);
    }
}

#[inline]
fn word_of(bytes: &[u8], order: Order) -> u32 {
    let word = match bytes.first_chunk::<WORD>() {
        Some(word) => *word,
        None => {
            let mut word = [0; WORD];
            word[WORD - bytes.len()..].copy_from_slice(bytes);
            word
        }
    };
    match order {
        Order::LowestFirst => u32::from_le_bytes(word),
        Order::HighestFirst => u32::from_be_bytes(word),
    }
}

/// Takes so many values of `width` bytes, not zero.
///
/// # Errors
/// If there are not so many. Nothing is allocated for them then.
pub(super) fn take_words(
    cursor: &mut Cursor<'_>,
    count: usize,
    width: usize,
    order: Order,
) -> Result<Buffer, String> {
    let least = packed_bytes_min(count).and_then(|bytes| bytes.checked_mul(width.div_ceil(WORD)));
    let bytes = count.checked_mul(width).filter(|_| least.is_some_and(|least| least <= cursor.rest().len()));
    let bytes = bytes.ok_or_else(|| "fewer values than there are rows".to_owned())?;
    // Where all arrays may begin.
    let mut values = MutableBuffer::from_len_zeroed(bytes);
    for start in (0..width).step_by(WORD) {
        let end = width.min(start + WORD);
        let words = unpack(cursor, count, |word| word as u32)?;
        for (value, word) in values.as_slice_mut().chunks_exact_mut(width).zip(words) {
            let word = match order {
                Order::LowestFirst => word.to_le_bytes(),
                Order::HighestFirst => word.to_be_bytes(),
            };
            match value[start..end].first_chunk_mut::<WORD>() {
                Some(place) => *place = word,
                None => value[start..end].copy_from_slice(&word[WORD - (end - start)..]),
            }
        }
    }
    Ok(values.into())
}
