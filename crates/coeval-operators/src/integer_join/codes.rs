// SPDX-License-Identifier: Apache-2.0
//! Keys of rows as one number each: how far each column is from its least value, one beside the other.

use crate::join_keys::Numbers;
use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;

/// Which numbers the keys of the built side have: `u64`, or `u128` where the columns are far apart.
pub(super) trait Code: Copy + Eq + Default + Send + Sync + 'static {
    /// This one, so many bits from the right.
    fn placed(distance: u64, shift: u32) -> Self;

    /// Both, of which neither has a bit where the other has one.
    fn with(self, other: Self) -> Self;

    /// A number of 64 bits that depends on all of its bits; equal numbers of equal ones.
    fn mixed(self, odd: [u64; 2]) -> u64;
}

impl Code for u64 {
    #[inline(always)]
    fn placed(distance: u64, shift: u32) -> Self {
        distance << shift
    }

    #[inline(always)]
    fn with(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn mixed(self, odd: [u64; 2]) -> u64 {
        self.wrapping_mul(odd[0])
    }
}

impl Code for u128 {
    #[inline(always)]
    fn placed(distance: u64, shift: u32) -> Self {
        Self::from(distance) << shift
    }

    #[inline(always)]
    fn with(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn mixed(self, odd: [u64; 2]) -> u64 {
        let (low, high) = (self as u64, (self >> 64) as u64);
        // The high bits of the first product reach the low ones, which the second would not.
        let first = low.wrapping_mul(odd[0]);
        (first ^ (first >> 32)).wrapping_add(high).wrapping_mul(odd[1])
    }
}

/// Where one column of the keys lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The least value.
    pub(super) least: i64,
    /// How far the greatest is from it.
    pub(super) span: u64,
}

impl Extent {
    const fn of_one(value: i64) -> Self {
        Self { least: value, span: 0 }
    }

    /// The greatest value.
    pub(super) const fn most(self) -> i64 {
        self.least.wrapping_add_unsigned(self.span)
    }

    /// That which has both.
    pub(super) fn and(self, other: Self) -> Self {
        let (least, most) = (self.least.min(other.least), self.most().max(other.most()));
        Self { least, span: most.abs_diff(least) }
    }

    const fn bits(self) -> u32 {
        u64::BITS - self.span.leading_zeros()
    }
}

/// The extents of the columns of keys, over rows that have no NULL in any of them; `None` if there is no such row.
pub(super) fn extents(columns: &[ArrayRef]) -> Option<Vec<Extent>> {
    let nulls = nulls_of(columns);
    columns
        .iter()
        .map(|column| {
            let mut extent: Option<(i64, i64)> = None;
            Numbers::of(column)?.each(nulls.as_ref(), |value| {
                let (least, most) = extent.unwrap_or((value, value));
                extent = Some((least.min(value), most.max(value)));
            });
            extent.map(|(least, most)| Extent::of_one(least).and(Extent::of_one(most)))
        })
        .collect()
}

/// Rows in which one of the columns is NULL; `None` if there are none.
pub(super) fn nulls_of(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let unite =
        |nulls: Option<NullBuffer>, column: &ArrayRef| NullBuffer::union(nulls.as_ref(), column.nulls());
    columns.iter().fold(None, unite).filter(|nulls| nulls.null_count() > 0)
}

/// How the columns of a key make its number.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    columns: Vec<Placed>,
    /// How many bits the number has.
    bits: u32,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    extent: Extent,
    shift: u32,
}

impl Layout {
    /// `None` if the columns together need more bits than a [`u128`] has.
    pub(super) fn of(extents: &[Extent]) -> Option<Self> {
        let mut bits = 0;
        let columns = extents.iter().map(|extent| {
            let placed = Placed { extent: *extent, shift: bits };
            bits += extent.bits();
            placed
        });
        let columns = columns.collect();
        (bits <= u128::BITS).then_some(Self { columns, bits })
    }

    /// How many bits the numbers have.
    pub(super) const fn bits(&self) -> u32 {
        self.bits
    }

    /// How many numbers there can be, up to `u64::MAX`.
    pub(super) fn count(&self) -> u64 {
        match self.columns.as_slice() {
            [] => 1,
            [only] => only.extent.span.saturating_add(1),
            _ => 1_u64.checked_shl(self.bits).unwrap_or(u64::MAX),
        }
    }

    /// The numbers of rows, and which rows have none because a value is beyond its column's extent. What stands in rows with NULL counts
    /// for nothing.
    pub(super) fn codes<C: Code>(&self, columns: &[ArrayRef]) -> (Vec<C>, Option<Vec<bool>>) {
        let rows = columns.first().map_or(0, |column| column.len());
        let (mut codes, mut strangers) = (vec![C::default(); rows], vec![false; rows]);
        for (placed, column) in self.columns.iter().zip(columns) {
            match Numbers::of(column) {
                Some(Numbers::Short(values)) => placed.add(values, &mut codes, &mut strangers),
                Some(Numbers::Word(values)) => placed.add(values, &mut codes, &mut strangers),
                Some(Numbers::Long(values)) => placed.add(values, &mut codes, &mut strangers),
                None => strangers.fill(true),
            }
        }
        let has_stranger = strangers.contains(&true);
        (codes, has_stranger.then_some(strangers))
    }

    /// The extent of the only column, if there is only one.
    pub(super) fn only(&self) -> Option<Extent> {
        match self.columns.as_slice() {
            [only] => Some(only.extent),
            _ => None,
        }
    }
}

impl Placed {
    fn add<T: Copy, C: Code>(self, values: &[T], codes: &mut [C], strangers: &mut [bool])
    where
        i64: From<T>,
    {
        let Extent { least, span } = self.extent;
        for ((value, code), is_stranger) in values.iter().zip(codes).zip(strangers) {
            let distance = distance(i64::from(*value), least);
            *is_stranger |= distance > span;
            // A column of one value has no bits, and may come behind the last of them.
            *code = if span == 0 { *code } else { code.with(C::placed(distance & mask(span), self.shift)) };
        }
    }
}

/// How far a value is from the least one; far beyond all of them if it is less.
#[inline(always)]
pub(super) const fn distance(value: i64, least: i64) -> u64 {
    value.wrapping_sub(least).cast_unsigned()
}

/// The bits that a number up to this one has.
const fn mask(span: u64) -> u64 {
    u64::MAX >> span.leading_zeros()
}
