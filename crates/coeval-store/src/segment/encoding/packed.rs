// SPDX-License-Identifier: Apache-2.0
//! Integers by *frame of reference*: of each block of 1,024 the least one, and of each integer how much it is greater, in as
//! many bits as the greatest of the block needs.
//!
//! # Bytes
//! First a head for each block: the least integer (8 bytes) and the number of bits (1 byte). Then of each block the
//! differences, bit by bit from the lowest one of the first byte on, up to a whole byte. At last seven zeros, so that eight
//! bytes can be read wherever a difference begins. A block of equal integers has no bits: nine bytes are all of it.
//!
//! # Cost
//! Writing looks at each integer twice. Reading takes an unaligned load, a shift, a mask and an addition for each. There is a loop for each
//! number of bits, so that places and shifts are constants in it: eight integers end with a whole byte, and the next eight lie alike.

use super::cursor::Cursor;
use crate::packed_column::Offsets;

/// Integers that share a head: few enough that one great one makes few others wide.
const BLOCK: usize = 1_024;

const HEAD_BYTES: usize = size_of::<i64>() + 1;

/// What stands behind the last block.
const PADDING: usize = 7;

/// More bits than this do not fit into eight bytes behind the seven bits that belong to the one before. So they are made 64,
/// which always begin with a byte.
const BITS_SHIFTED_MAX: u32 = 56;

/// So many integers end with a whole byte, however many bits they have.
const GROUP: usize = 8;

/// Bytes of a group of the widest integers that are shifted, and of what is read behind it.
const GROUP_BYTES_MAX: usize = BITS_SHIFTED_MAX as usize + PADDING;

/// The head of a block.
#[derive(Clone, Copy)]
struct Frame {
    least: i64,
    bits: u32,
}

impl Frame {
    fn of(block: &[i64]) -> Self {
        let (mut least, mut greatest) = (block[0], block[0]);
        for &value in block {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        let bits = u64::BITS - (greatest.wrapping_sub(least) as u64).leading_zeros();
        Self { least, bits: if bits > BITS_SHIFTED_MAX { u64::BITS } else { bits } }
    }

    fn read(head: &[u8]) -> Result<Self, String> {
        let (least, bits) = head.split_at(size_of::<i64>());
        let least = i64::from_le_bytes(least.try_into().expect("a head begins with eight bytes"));
        match u32::from(bits[0]) {
            bits @ (0..=BITS_SHIFTED_MAX | u64::BITS) => Ok(Self { least, bits }),
            bits => Err(format!("integers of {bits} bits")),
        }
    }

    /// The greatest difference that there is room for.
    fn greatest_difference(self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.bits).unwrap_or(0)
    }

    /// Bytes of so many differences.
    fn bytes(self, count: usize) -> usize {
        (count * self.bits as usize).div_ceil(8)
    }

    fn put_head(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.least.to_le_bytes());
        out.push(self.bits as u8);
    }

    fn put_differences(self, block: &[i64], out: &mut Vec<u8>) {
        if self.bits == 0 {
            return;
        }
        let (mut word, mut used) = (0u128, 0u32);
        for value in block {
            word |= u128::from(value.wrapping_sub(self.least) as u64) << used;
            used += self.bits;
            if used >= u64::BITS {
                out.extend_from_slice(&(word as u64).to_le_bytes());
                word >>= u64::BITS;
                used -= u64::BITS;
            }
        }
        out.extend_from_slice(&word.to_le_bytes()[..used.div_ceil(8) as usize]);
    }

    /// Appends what becomes of each integer of a block. `bytes` begin with its differences and go on for [`PADDING`] at least.
    fn get<T>(self, bytes: &[u8], count: usize, make: impl Fn(i64) -> T, values: &mut Vec<T>) {
        let mut differences = [0; BLOCK];
        let differences = &mut differences[..count];
        read_differences(self.bits, bytes, differences);
        values.extend(differences.iter().map(|&difference| make(self.least.wrapping_add(difference as i64))));
    }
}

/// Reads differences of so many bits. `bytes` begin with them and go on for [`PADDING`] at least.
fn read_differences(bits: u32, bytes: &[u8], differences: &mut [u64]) {
    macro_rules! by_bits {
        ($($constant:literal)*) => {
            match bits {
                0 => differences.fill(0),
                $($constant => read_shifted::<$constant>(bytes, differences),)*
                _ => {
                    let words = bytes.as_chunks().0;
                    differences.iter_mut().zip(words).for_each(|(place, word)| *place = u64::from_le_bytes(*word));
                }
            }
        };
    }
    by_bits!(
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
        29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56
    );
}

fn read_shifted<const BITS: usize>(bytes: &[u8], differences: &mut [u64]) {
    let read = |bytes: &[u8], index: usize| {
        let place = index * BITS;
        (word_at(bytes, place / 8) >> (place % 8)) & (u64::MAX >> (64 - BITS))
    };
    let mut begin = 0;
    for group in differences.as_chunks_mut::<GROUP>().0 {
        // The length is a constant, so that no place within needs a look at it. Behind the last block are fewer bytes.
        let Some(bytes) = bytes[begin / GROUP * BITS..].first_chunk::<GROUP_BYTES_MAX>() else { break };
        for (index, difference) in group.iter_mut().enumerate() {
            *difference = read(bytes, index);
        }
        begin += GROUP;
    }
    for (index, difference) in differences.iter_mut().enumerate().skip(begin) {
        *difference = read(bytes, index);
    }
}

#[inline]
fn word_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + size_of::<u64>()].try_into().expect("eight bytes"))
}

/// Appends integers.
pub(super) fn pack(values: &[i64], out: &mut Vec<u8>) {
    let frames: Vec<Frame> = values.chunks(BLOCK).map(Frame::of).collect();
    frames.iter().for_each(|frame| frame.put_head(out));
    for (block, frame) in values.chunks(BLOCK).zip(&frames) {
        frame.put_differences(block, out);
    }
    out.extend_from_slice(&[0; PADDING]);
}

/// Takes so many integers, and gives what `make` makes of each.
///
/// # Errors
/// If there are not so many. Nothing is allocated for them then.
pub(super) fn unpack<T>(
    cursor: &mut Cursor<'_>,
    count: usize,
    make: impl Fn(i64) -> T,
) -> Result<Vec<T>, String> {
    let heads = cursor.take(count.div_ceil(BLOCK) * HEAD_BYTES)?;
    let mut values = Vec::with_capacity(count);
    for head in heads.chunks_exact(HEAD_BYTES) {
        let frame = Frame::read(head)?;
        let count = BLOCK.min(count - values.len());
        let bytes = cursor.rest();
        let taken = cursor.take(frame.bytes(count))?.len();
        if bytes.len() - taken < PADDING {
            return Err("integers without what stands behind them".to_owned());
        }
        frame.get(bytes, count, &make, &mut values);
    }
    cursor.take(PADDING)?;
    Ok(values)
}

/// Takes so many integers: the least that there is room for, and of each how much it is greater. `None` if that takes more bytes of each than
/// this; then nothing was taken.
///
/// # Errors
/// As [`unpack`].
pub(super) fn unpack_offsets(
    cursor: &mut Cursor<'_>,
    count: usize,
    bytes_max: usize,
) -> Result<Option<(i64, Offsets)>, String> {
    let (least, greatest) = bounds(cursor.rest(), count)?;
    let bytes = Offsets::bytes_for(greatest);
    if bytes > bytes_max {
        return Ok(None);
    }
    let offset = |value: i64| value.wrapping_sub(least) as u64;
    let offsets = match bytes {
        1 => Offsets::One(unpack(cursor, count, |value| offset(value) as u8)?.into()),
        2 => Offsets::Two(unpack(cursor, count, |value| offset(value) as u16)?.into()),
        4 => Offsets::Four(unpack(cursor, count, |value| offset(value) as u32)?.into()),
        _ => Offsets::Eight(unpack(cursor, count, offset)?.into()),
    };
    Ok(Some((least, offsets)))
}

/// The least of so many integers, and how much the others are greater at most, as far as there is room for it: only heads are read.
fn bounds(bytes: &[u8], count: usize) -> Result<(i64, u64), String> {
    let heads = Cursor::new(bytes).take(count.div_ceil(BLOCK) * HEAD_BYTES)?;
    let (mut least, mut greatest) = (i64::MAX, i128::from(i64::MIN));
    for head in heads.chunks_exact(HEAD_BYTES) {
        let frame = Frame::read(head)?;
        least = least.min(frame.least);
        greatest = greatest.max(i128::from(frame.least) + i128::from(frame.greatest_difference()));
    }
    // Differences of 64 bits may be counted from a least one that is not small: then there is room for more.
    Ok((least, u64::try_from(greatest - i128::from(least)).unwrap_or(u64::MAX)))
}

/// The fewest bytes that so many integers take; `None` if nothing has so many.
pub(super) fn packed_bytes_min(count: usize) -> Option<usize> {
    count.div_ceil(BLOCK).checked_mul(HEAD_BYTES)?.checked_add(PADDING)
}
