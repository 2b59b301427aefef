// SPDX-License-Identifier: Apache-2.0
//! Where bricks lie, said so that who reads bricks and who writes some can find out whether they meet.
//!
//! A brick has a mark in the order of all ids, and one in the order of each dimension's ranges. A writer leaves every mark
//! of its bricks. A reader notes ranges of marks such that each brick it may have looked at, those included that do not
//! exist yet, has at least one mark in them. So a condition on one dimension is noted exactly wherever the dimension
//! stands in the ids, and conditions on several are as long as they are few ranges of ids.

use std::ops::RangeInclusive;

use crate::brick_id::{BrickId, BrickLayout, DimensionLayout, mask, shifted};

/// With more ranges of ids than this, a reader notes the condition on one dimension alone.
const ID_RANGES_MAX: u64 = 256;

/// A place in one of the orders that bricks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrickMark {
    /// 0 for ids, behind it the dimensions.
    order: u16,
    number: u64,
}

/// How many bytes a mark takes.
pub const BRICK_MARK_BYTES: usize = size_of::<u16>() + size_of::<u64>();

/// What a mark says of the bricks that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// This brick.
    Brick(BrickId),
    /// All with this range of this dimension.
    Range { dimension: usize, index: u64 },
}

impl BrickMark {
    const fn of_id(id: u64) -> Self {
        Self { order: 0, number: id }
    }

    fn of_range(dimension: usize, index: u64) -> Self {
        let order = u16::try_from(dimension + 1).expect("a table has fewer than 2^16 columns");
        Self { order, number: index }
    }

    pub(crate) fn marked(self) -> Marked {
        match self.order.checked_sub(1) {
            None => Marked::Brick(BrickId::new(self.number)),
            Some(dimension) => Marked::Range { dimension: dimension.into(), index: self.number },
        }
    }

    /// Bytes in the order of marks.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BRICK_MARK_BYTES] {
        let mut bytes = [0; BRICK_MARK_BYTES];
        let (order, number) = bytes.split_at_mut(size_of::<u16>());
        order.copy_from_slice(&self.order.to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The mark with these bytes, if they are one's.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (order, number) = bytes.split_first_chunk()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some(Self { order: u16::from_be_bytes(*order), number })
    }
}

impl BrickLayout {
    /// The marks of a brick: who writes it leaves all of them.
    pub fn marks(&self, brick: BrickId) -> impl Iterator<Item = BrickMark> {
        let dimensions = self.dimensions().iter().enumerate();
        let ranges = dimensions.filter(|(_, part)| part.index_count() > 1);
        let ranges = ranges.map(move |(dimension, part)| BrickMark::of_range(dimension, part.index(brick)));
        std::iter::once(BrickMark::of_id(brick.get())).chain(ranges)
    }

    /// Ranges of marks in which every brick has one that has, for each dimension, one of these range indexes; few other
    /// bricks have. `None` if every brick does. The intervals of each dimension are ascending and apart.
    pub(crate) fn mark_ranges(
        &self,
        indexes: &[Vec<RangeInclusive<u64>>],
    ) -> Option<Vec<RangeInclusive<BrickMark>>> {
        assert_eq!(indexes.len(), self.dimensions().len(), "intervals for each dimension");
        if indexes.iter().any(Vec::is_empty) {
            return Some(Vec::new());
        }
        let parts = || self.dimensions().iter().zip(indexes);
        let last = parts().rposition(|(part, wanted)| count(wanted) < part.index_count())?;
        if let Some(ranges) = id_ranges(&self.dimensions()[..=last], &indexes[..=last]) {
            let mark = |range: RangeInclusive<u64>| {
                BrickMark::of_id(*range.start())..=BrickMark::of_id(*range.end())
            };
            return Some(ranges.into_iter().map(mark).collect());
        }
        let share =
            |(part, wanted): (&DimensionLayout, &Vec<_>)| count(wanted) as f64 / part.index_count() as f64;
        let shares = parts().map(share).enumerate();
        let (dimension, _) = shares.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let mark = |range: &RangeInclusive<u64>| {
            BrickMark::of_range(dimension, *range.start())..=BrickMark::of_range(dimension, *range.end())
        };
        Some(indexes[dimension].iter().map(mark).collect())
    }
}

/// How many indexes there are in the intervals.
fn count(intervals: &[RangeInclusive<u64>]) -> u64 {
    intervals.iter().fold(0, |sum: u64, interval| {
        sum.saturating_add((interval.end() - interval.start()).saturating_add(1))
    })
}

/// The ids of the bricks with these indexes in the first dimensions, as ranges; `None` if they are too many.
fn id_ranges(
    parts: &[DimensionLayout],
    indexes: &[Vec<RangeInclusive<u64>>],
) -> Option<Vec<RangeInclusive<u64>>> {
    let (last, before) = parts.split_last()?;
    let (wanted, wanted_before) = indexes.split_last()?;
    let counts = wanted_before.iter().map(|wanted| count(wanted));
    let ranges = counts.chain([wanted.len() as u64]).try_fold(1, u64::checked_mul)?;
    if ranges > ID_RANGES_MAX {
        return None;
    }
    let mut prefixes = vec![0];
    for (part, wanted) in before.iter().zip(wanted_before) {
        let all = || wanted.iter().cloned().flatten();
        let with_index = |prefix: u64| all().map(move |index| prefix | shifted(index, part.index_shift()));
        prefixes = prefixes.into_iter().flat_map(with_index).collect();
    }
    let behind = mask(last.index_shift());
    let range = |prefix: u64, wanted: &RangeInclusive<u64>| {
        let bits = |index: &u64| prefix | shifted(*index, last.index_shift());
        bits(wanted.start())..=bits(wanted.end()) | behind
    };
    Some(prefixes.iter().flat_map(|prefix| wanted.iter().map(|wanted| range(*prefix, wanted))).collect())
}
