// SPDX-License-Identifier: Apache-2.0
//! From dimension values to a brick and a place in it, and back.
//!
//! A dimension's ordinal splits into the index of its range and the *offset* in that range. The range indexes of
//! all dimensions, written one after the other bit by bit, are the brick's id (AOSI V-A); the offsets, likewise,
//! are the row's *bess* (the paper's footnote 3), which is all that a brick keeps of its dimensions.
//!
//! ```text
//!   region 4:2 = 3    gender 4:1 = 2           id: range indexes   1 | 10   = 6
//!   range 1, offset 1   range 2, offset -    bess: offsets         1 | -    = 1
//! ```
//!
//! The first dimension has the highest bits. A bess is kept in the narrowest of 0, 1, 2, 4 or 8 bytes.

use std::fmt;
use std::ops::RangeInclusive;

use crate::declaration::Dimension;

/// The name of a brick: where it lies in the space of the table's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrickId(u64);

impl BrickId {
    /// The brick with this number, as a log record stores it.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, as a log record stores it.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BrickId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// The shard that a brick belongs to.
#[inline]
pub(crate) fn shard_of(brick: BrickId, shard_count: usize) -> usize {
    /// 2^64 over the golden ratio: spreads neighbouring ids (Fibonacci hashing).
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    (brick.get().wrapping_mul(SPREAD) >> 32) as usize % shard_count
}

/// Why dimensions cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A cardinality or range size of zero.
    #[error("column \"{column}\": cardinality and range size are at least 1")]
    Zero {
        /// The column.
        column: String,
    },
    /// More range indexes than a brick id has bits for.
    #[error(
        "the ranges of all dimensions need {bits} bits for a brick's id, more than 64: use larger ranges"
    )]
    IdBits {
        /// The bits that are needed.
        bits: u32,
    },
    /// More offsets than a row has bits for.
    #[error(
        "the range sizes of all dimensions need {bits} bits for each row, more than 64: use smaller ranges"
    )]
    OffsetBits {
        /// The bits that are needed.
        bits: u32,
    },
}

/// How the ordinals of a table's dimensions become brick ids and bess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrickLayout {
    dimensions: Vec<DimensionLayout>,
    id_bits: u32,
    offset_bits: u32,
}

/// One dimension's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DimensionLayout {
    pub(crate) cardinality: u64,
    range_size: u64,
    /// The logarithm of the range size if that is a power of two: then a shift replaces a division.
    range_shift: Option<u32>,
    index_bits: u32,
    index_shift: u32,
    offset_bits: u32,
    offset_shift: u32,
}

/// The bits that `count` different numbers need.
const fn bits_for(count: u64) -> u32 {
    u64::BITS - (count - 1).leading_zeros()
}

pub(crate) const fn mask(bits: u32) -> u64 {
    if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

/// A shift by the full width is that of a field with no bits.
pub(crate) const fn shifted(value: u64, shift: u32) -> u64 {
    if shift == u64::BITS { 0 } else { value << shift }
}

const fn unshifted(value: u64, shift: u32) -> u64 {
    if shift == u64::BITS { 0 } else { value >> shift }
}

impl BrickLayout {
    pub(crate) fn new(dimensions: &[&Dimension]) -> Result<Self, LayoutError> {
        let mut parts = Vec::new();
        let (mut id_bits, mut offset_bits) = (0, 0);
        for dimension in dimensions.iter().rev() {
            let (cardinality, range_size) = (dimension.cardinality, dimension.range_size);
            if cardinality == 0 || range_size == 0 {
                return Err(LayoutError::Zero { column: dimension.name.clone() });
            }
            let range_size = range_size.min(cardinality);
            let part = DimensionLayout {
                cardinality,
                range_size,
                range_shift: range_size.is_power_of_two().then(|| range_size.trailing_zeros()),
                index_bits: bits_for(cardinality.div_ceil(range_size)),
                index_shift: id_bits,
                offset_bits: bits_for(range_size),
                offset_shift: offset_bits,
            };
            id_bits += part.index_bits;
            offset_bits += part.offset_bits;
            parts.push(part);
        }
        if id_bits > u64::BITS {
            return Err(LayoutError::IdBits { bits: id_bits });
        }
        if offset_bits > u64::BITS {
            return Err(LayoutError::OffsetBits { bits: offset_bits });
        }
        parts.reverse();
        Ok(Self { dimensions: parts, id_bits, offset_bits })
    }

    /// The bits of a brick id.
    #[must_use]
    pub const fn id_bits(&self) -> u32 {
        self.id_bits
    }

    /// The bytes that a row's bess takes: 0, 1, 2, 4 or 8.
    #[must_use]
    pub const fn bess_bytes(&self) -> usize {
        match self.offset_bits {
            0 => 0,
            bits => (bits.div_ceil(8) as usize).next_power_of_two(),
        }
    }

    /// The brick that holds the rows with these ordinals, one for each dimension.
    ///
    /// # Panics
    ///
    /// If there is not one ordinal for each dimension, each below its cardinality.
    #[must_use]
    pub fn brick(&self, ordinals: &[u64]) -> BrickId {
        assert_eq!(ordinals.len(), self.dimensions.len(), "one ordinal for each dimension");
        let parts = self.dimensions.iter().zip(ordinals);
        BrickId(parts.map(|(part, ordinal)| part.locate(*ordinal).0).fold(0, |id, bits| id | bits))
    }

    /// The ordinals of each dimension that the rows of `brick` have.
    ///
    /// # Panics
    ///
    /// If no row of this table can be in `brick`.
    #[must_use]
    pub fn ordinals(&self, brick: BrickId) -> Vec<RangeInclusive<u64>> {
        self.dimensions.iter().map(|part| part.ordinals(brick)).collect()
    }

    /// Whether some row of this table can be in `brick`.
    #[must_use]
    pub fn may_be(&self, brick: BrickId) -> bool {
        let has_no_more_bits = brick.0 & !mask(self.id_bits) == 0;
        has_no_more_bits && self.dimensions.iter().all(|part| part.first_checked(brick).is_some())
    }

    pub(crate) fn dimensions(&self) -> &[DimensionLayout] {
        &self.dimensions
    }
}

impl DimensionLayout {
    /// The dimension's bits of the brick id and of the bess.
    #[inline]
    pub(crate) fn locate(&self, ordinal: u64) -> (u64, u64) {
        debug_assert!(ordinal < self.cardinality, "ordinals are checked before");
        let (index, offset) = match self.range_shift {
            Some(shift) => (ordinal >> shift, ordinal & mask(shift)),
            None => (ordinal / self.range_size, ordinal % self.range_size),
        };
        (shifted(index, self.index_shift), shifted(offset, self.offset_shift))
    }

    /// How many ordinals a range has.
    pub(crate) fn range_size(&self) -> u64 {
        self.range_size
    }

    /// How many ranges the dimension has.
    pub(crate) fn index_count(&self) -> u64 {
        self.cardinality.div_ceil(self.range_size)
    }

    /// Where the index of the range lies in a brick's id: so many bits are behind it.
    pub(crate) fn index_shift(&self) -> u32 {
        self.index_shift
    }

    /// The index of `brick`'s range.
    pub(crate) fn index(&self, brick: BrickId) -> u64 {
        unshifted(brick.0, self.index_shift) & mask(self.index_bits)
    }

    /// The index of the range that an ordinal is in.
    pub(crate) fn index_of(&self, ordinal: u64) -> u64 {
        ordinal / self.range_size
    }

    /// The first ordinal of `brick`'s range.
    pub(crate) fn first(&self, brick: BrickId) -> u64 {
        self.index(brick) * self.range_size
    }

    /// The first ordinal of the range, if `brick` is one of the table's.
    fn first_checked(&self, brick: BrickId) -> Option<u64> {
        self.index(brick).checked_mul(self.range_size).filter(|first| *first < self.cardinality)
    }

    /// The ordinals of `brick`'s range.
    pub(crate) fn ordinals(&self, brick: BrickId) -> RangeInclusive<u64> {
        let first = self.first(brick);
        assert!(first < self.cardinality, "brick {brick} is none of this table's");
        self.ordinals_from(first)
    }

    /// The ordinals of the range with this index, if there is one.
    pub(crate) fn ordinals_of_index(&self, index: u64) -> Option<RangeInclusive<u64>> {
        let first = index.checked_mul(self.range_size).filter(|first| *first < self.cardinality);
        first.map(|first| self.ordinals_from(first))
    }

    fn ordinals_from(&self, first: u64) -> RangeInclusive<u64> {
        first..=first.saturating_add(self.range_size - 1).min(self.cardinality - 1)
    }

    /// The offset in the range, out of a bess.
    #[inline]
    pub(crate) fn offset(&self, bess: u64) -> u64 {
        unshifted(bess, self.offset_shift) & mask(self.offset_bits)
    }
}

#[cfg(test)]
mod tests;
