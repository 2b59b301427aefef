// SPDX-License-Identifier: Apache-2.0
//! Which bricks a predicate on dimensions selects: to prune a scan, and to delete whole bricks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::Array;

use crate::brick_id::BrickId;
use crate::declaration::DimensionValues;
use crate::dictionaries::Dictionaries;
use crate::marks::{BrickMark, Marked};
use crate::schema::BrickSchema;
use crate::written::written;

/// A conjunction of conditions, each of which lets a dimension have the values of some intervals.
#[derive(Clone)]
pub struct Selection {
    schema: Arc<BrickSchema>,
    dictionaries: Arc<Dictionaries>,
    /// For each dimension the ordinals that are selected.
    ordinals: Vec<Option<Intervals>>,
    /// The same with the ordinals that values may get which have none yet.
    with_unborn: Vec<Option<Intervals>>,
}

/// Intervals of ordinals, ascending and disjoint. As an option: `None` allows all.
type Intervals = Vec<RangeInclusive<u64>>;

/// How much of a brick is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// No row of the brick can qualify.
    Outside,
    /// Every row of the brick qualifies, also those still to come.
    Whole,
    /// Some values of the brick's ranges qualify and some do not.
    Cut,
}

/// A brick that a delete would cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DELETE removes whole bricks; this one would cut brick {brick}, which holds {ranges}")]
pub struct CutBrick {
    /// The brick.
    pub brick: BrickId,
    /// Its values, dimension by dimension.
    pub ranges: String,
}

impl Selection {
    pub(crate) fn all(schema: Arc<BrickSchema>, dictionaries: Arc<Dictionaries>) -> Self {
        let ordinals = vec![None; schema.layout().dimensions().len()];
        let with_unborn = ordinals.clone();
        Self { schema, dictionaries, ordinals, with_unborn }
    }

    /// Those of the selected rows whose dimension (counted among the dimensions, from 0) has a value in one of
    /// `intervals`, by the numbers that stand for integers, dates and timestamps.
    ///
    /// # Panics
    ///
    /// If the dimension holds strings.
    #[must_use]
    pub fn within(self, dimension: usize, intervals: &[RangeInclusive<i64>]) -> Self {
        let DimensionValues::Ordered { origin, .. } = self.schema.dimension(dimension).values else {
            panic!("strings are selected by value, not by interval");
        };
        let last = self.schema.layout().dimensions()[dimension].cardinality - 1;
        let clip = |interval: &RangeInclusive<i64>| {
            let ordinal = |value: i64| i128::from(value) - i128::from(origin);
            let (start, end) = (ordinal(*interval.start()).max(0), ordinal(*interval.end()).min(last.into()));
            let number = |ordinal: i128| u64::try_from(ordinal).expect("clipped to the cardinality");
            (start <= end).then(|| number(start)..=number(end))
        };
        let intervals: Intervals = intervals.iter().filter_map(clip).collect();
        self.limited(dimension, intervals.clone(), intervals)
    }

    /// Those of the selected rows whose dimension (counted among the dimensions, from 0) has one of `values`.
    ///
    /// # Panics
    ///
    /// If the dimension does not hold strings.
    #[must_use]
    pub fn among(self, dimension: usize, values: &[&str]) -> Self {
        let column = self.schema.dimension_columns()[dimension];
        let dictionary = self.dictionaries.get(column).expect("intervals are selected with `within`");
        // Counted before any is looked for: whatever has no code then gets one behind these.
        let first_unborn = u64::from(dictionary.count());
        let codes: Vec<Option<u32>> = values.iter().map(|value| dictionary.code(value)).collect();
        let known = codes.iter().flatten().map(|code| u64::from(*code));
        let known: Intervals = known.map(|code| code..=code).collect();
        let mut with_unborn = known.clone();
        let last = self.schema.layout().dimensions()[dimension].cardinality - 1;
        if codes.contains(&None) && first_unborn <= last {
            with_unborn.push(first_unborn..=last);
        }
        self.limited(dimension, known, with_unborn)
    }

    fn limited(mut self, dimension: usize, intervals: Intervals, with_unborn: Intervals) -> Self {
        narrow(&mut self.ordinals[dimension], intervals);
        narrow(&mut self.with_unborn[dimension], with_unborn);
        self
    }

    /// Ranges of [marks](BrickMark) in which each brick has one that a row of this selection can be in, also one that is
    /// loaded later with a string that nobody knows yet; `None` if that is every brick. Who writes to bricks without a
    /// mark in them changes nothing that this selects.
    #[must_use]
    pub fn mark_ranges(&self) -> Option<Vec<RangeInclusive<BrickMark>>> {
        let layout = self.schema.layout();
        let parts = layout.dimensions().iter().zip(&self.with_unborn);
        let indexes = parts.map(|(part, wanted)| match wanted {
            None => vec![0..=part.index_count() - 1],
            Some(wanted) => {
                let index =
                    |range: &RangeInclusive<u64>| part.index_of(*range.start())..=part.index_of(*range.end());
                merged(wanted.iter().map(index).collect())
            }
        });
        layout.mark_ranges(&indexes.collect::<Vec<_>>())
    }

    /// What a mark of the table's bricks stands for, in words; `None` if it is none of them.
    #[must_use]
    pub fn describe(&self, mark: BrickMark) -> Option<String> {
        match mark.marked() {
            Marked::Brick(brick) => {
                let is_brick = self.schema.layout().may_be(brick);
                is_brick.then(|| format!("brick {brick} ({})", self.cut(brick).ranges))
            }
            Marked::Range { dimension, index } => {
                let range = self.schema.layout().dimensions().get(dimension)?.ordinals_of_index(index)?;
                Some(self.describe_range(dimension, &range))
            }
        }
    }

    /// How much of `brick` is selected.
    #[must_use]
    pub fn coverage(&self, brick: BrickId) -> Coverage {
        let mut coverage = Coverage::Whole;
        for (part, allowed) in self.schema.layout().dimensions().iter().zip(&self.ordinals) {
            let Some(allowed) = allowed else { continue };
            let range = part.ordinals(brick);
            let meets = |interval: &&RangeInclusive<u64>| {
                interval.start() <= range.end() && range.start() <= interval.end()
            };
            match allowed.iter().find(meets) {
                None => return Coverage::Outside,
                Some(interval) if interval.contains(range.start()) && interval.contains(range.end()) => {}
                Some(_) => coverage = Coverage::Cut,
            }
        }
        coverage
    }

    /// The error for a delete that would cut `brick`.
    ///
    /// # Panics
    ///
    /// If no row of the table can be in the brick.
    #[must_use]
    pub fn cut(&self, brick: BrickId) -> CutBrick {
        let ranges = self.schema.layout().ordinals(brick);
        let described = ranges.iter().enumerate().map(|(index, range)| self.describe_range(index, range));
        CutBrick { brick, ranges: described.collect::<Vec<_>>().join(", ") }
    }

    fn describe_range(&self, index: usize, range: &RangeInclusive<u64>) -> String {
        let dimension = self.schema.dimension(index);
        match &dimension.values {
            DimensionValues::Ordered { origin, data_type } => {
                let value = |ordinal: u64| written(data_type, i128::from(*origin) + i128::from(ordinal));
                format!("{} from {} to {}", dimension.name, value(*range.start()), value(*range.end()))
            }
            DimensionValues::String => self.describe_strings(index, range),
        }
    }

    fn describe_strings(&self, dimension: usize, range: &RangeInclusive<u64>) -> String {
        let dictionary = self.dictionaries.get(self.schema.dimension_columns()[dimension]);
        let strings = dictionary.map(|dictionary| dictionary.values());
        let known = strings.iter().flat_map(|strings| {
            let codes = range.clone().take_while(|code| (*code as usize) < strings.len());
            codes.map(|code| format!("'{}'", strings.value(code as usize)))
        });
        format!("{} in ({})", self.schema.dimension(dimension).name, known.collect::<Vec<_>>().join(", "))
    }
}

/// The intervals in order, those joined that overlap or touch.
fn merged(mut intervals: Intervals) -> Intervals {
    intervals.sort_unstable_by_key(|interval| *interval.start());
    let mut merged = Intervals::new();
    for interval in intervals {
        match merged.last_mut() {
            Some(last) if *interval.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(interval.end());
            }
            _ => merged.push(interval),
        }
    }
    merged
}

/// Lets what is allowed be in one of `intervals` too.
fn narrow(allowed: &mut Option<Intervals>, intervals: Intervals) {
    let intervals = merged(intervals);
    *allowed = Some(match allowed.take() {
        None => intervals,
        Some(before) => common(&before, &intervals),
    });
}

/// The common parts of two lists of ascending, disjoint intervals.
fn common(one: &[RangeInclusive<u64>], other: &[RangeInclusive<u64>]) -> Intervals {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let parts = pairs.map(|(a, b)| *a.start().max(b.start())..=*a.end().min(b.end()));
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests;
