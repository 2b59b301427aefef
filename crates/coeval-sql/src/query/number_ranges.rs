// SPDX-License-Identifier: Apache-2.0
//! Frames of `RANGE` with an offset in windows that are ordered by `numeric` without digits. DataFusion cannot add to such a number, so the
//! rows of a frame are looked for here, by halving.
//!
//! As in PostgreSQL, NaN is above all numbers, infinity included; what is infinitely far away from an infinity are all numbers. Rows without
//! a number are in frames of their own, and in those that have no bound on their side.
//!
//! Cost: for each bound of a row a sum and the logarithm of how many rows the partition has.

use crate::error::SqlError;
use crate::types::any_numeric::AnyNumeric;
use arrow::array::{Array, LargeBinaryArray};
use coeval_store::{AnyNumber, AnyNumberRef};
use std::cmp::Ordering;
use std::ops::Range;

/// On which side of the row an offset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Preceding,
    Following,
}

/// Where a frame begins or ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Edge {
    /// With the partition.
    Unbounded,
    /// With the peers of the row.
    CurrentRow,
    /// With numbers so far away: the offset as rows have it.
    Offset(Side, Vec<u8>),
}

/// The frames of a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NumberRange {
    pub(super) start: Edge,
    pub(super) end: Edge,
    /// Whether the largest number comes first.
    pub(super) is_descending: bool,
}

impl NumberRange {
    /// The rows of the frame of a row, of a partition whose numbers these are.
    ///
    /// # Errors
    /// `22003` if an offset leads to a number of more digits than there are.
    pub(super) fn frame(&self, numbers: &LargeBinaryArray, row: usize) -> Result<Range<usize>, SqlError> {
        let known = known_rows(numbers);
        let all = 0..numbers.len();
        if numbers.is_null(row) {
            let unknown = if known.start > 0 { 0..known.start } else { known.end..numbers.len() };
            let start = if self.start == Edge::Unbounded { all.start } else { unknown.start };
            let end = if self.end == Edge::Unbounded { all.end } else { unknown.end };
            return Ok(start..end);
        }
        let base = AnyNumberRef::new(numbers.value(row));
        let order = |place: usize, target: &AnyNumber| {
            let order = AnyNumberRef::new(numbers.value(place)).cmp(&target.borrow());
            if self.is_descending { order.reverse() } else { order }
        };
        let start = match self.target(&self.start, base)? {
            Target::Partition => all.start,
            Target::Numbers => known.start,
            Target::Number(target) => first(&known, |place| order(place, &target) == Ordering::Less),
        };
        let end = match self.target(&self.end, base)? {
            Target::Partition => all.end,
            Target::Numbers => known.end,
            Target::Number(target) => first(&known, |place| order(place, &target) != Ordering::Greater),
        };
        Ok(start..end.max(start))
    }

    /// What the rows at a bound are compared with.
    fn target(&self, edge: &Edge, base: AnyNumberRef<'_>) -> Result<Target, SqlError> {
        let (side, offset) = match edge {
            Edge::Unbounded => return Ok(Target::Partition),
            Edge::CurrentRow => return Ok(Target::Number(base.to_owned())),
            Edge::Offset(side, offset) => (*side, AnyNumeric::of(AnyNumberRef::new(offset))),
        };
        let base = AnyNumeric::of(base);
        let is_below = (side == Side::Preceding) != self.is_descending;
        let target = if is_below { base.difference(&offset) } else { base.sum(&offset) };
        if target == AnyNumeric::NaN && base != AnyNumeric::NaN {
            return Ok(Target::Numbers);
        }
        Ok(Target::Number(target.number()?))
    }
}

/// What a bound stands for.
enum Target {
    /// The bound of the partition.
    Partition,
    /// That of the rows with numbers.
    Numbers,
    /// A number.
    Number(AnyNumber),
}

/// The rows with numbers: all others are in front of them, or behind.
fn known_rows(numbers: &LargeBinaryArray) -> Range<usize> {
    let unknown = numbers.null_count();
    if unknown > 0 && numbers.is_null(0) { unknown..numbers.len() } else { 0..numbers.len() - unknown }
}

/// The first of these places for which the condition does not hold, which holds for all before it and for none behind.
fn first(places: &Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::any_numeric::parse_number;

    fn bytes(text: &str) -> Vec<u8> {
        parse_number(text).expect("a number").borrow().as_bytes().to_vec()
    }

    fn frames(range: &NumberRange, numbers: &[Option<&str>]) -> Vec<Range<usize>> {
        let numbers: LargeBinaryArray = numbers.iter().map(|number| number.map(bytes)).collect();
        (0..numbers.len()).map(|row| range.frame(&numbers, row).expect("a frame")).collect()
    }

    fn offset(side: Side, text: &str) -> Edge {
        Edge::Offset(side, bytes(text))
    }

    #[test]
    fn frames_have_the_numbers_that_are_near() {
        let start = offset(Side::Preceding, "1.5");
        let range = NumberRange { start, end: offset(Side::Following, "0.6"), is_descending: false };
        let numbers = [Some("1.00"), Some("1.4"), Some("2"), Some("3.51"), None];
        assert_eq!(frames(&range, &numbers), [0..2, 0..3, 0..3, 3..4, 4..5]);
        let range = NumberRange { is_descending: true, ..range };
        let numbers = [None, None, Some("3.51"), Some("2"), Some("1.4"), Some("1")];
        assert_eq!(frames(&range, &numbers), [0..2, 0..2, 2..3, 3..5, 3..6, 3..6]);
    }

    #[test]
    fn infinities_and_nan_are_far_from_all_numbers() {
        let start = offset(Side::Preceding, "1");
        let range = NumberRange { start, end: Edge::CurrentRow, is_descending: false };
        let numbers = [Some("-Infinity"), Some("0"), Some("Infinity"), Some("NaN")];
        assert_eq!(frames(&range, &numbers), [0..1, 1..2, 2..3, 3..4]);
        let all = NumberRange { start: offset(Side::Preceding, "Infinity"), ..range };
        assert_eq!(frames(&all, &numbers), [0..1, 0..2, 0..3, 3..4]);
    }
}
