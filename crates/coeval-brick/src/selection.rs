// SPDX-License-Identifier: Apache-2.0
//! Which bricks a predicate on dimensions selects: to prune a scan, and to delete whole bricks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::Array;

use crate::brick_id::BrickId;
use crate::schema::{BrickSchema, DimensionValues};
use crate::table::Dictionaries;
use crate::written::written;

/// A conjunction of conditions, each of which lets a dimension have the values of some intervals.
#[derive(Clone)]
pub struct Selection {
    schema: Arc<BrickSchema>,
    dictionaries: Arc<Dictionaries>,
    /// For each dimension the intervals of its ordinals, ascending and disjoint; `None` allows all.
    ordinals: Vec<Option<Vec<RangeInclusive<u64>>>>,
}

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
        Self { schema, dictionaries, ordinals }
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
        let intervals = intervals.iter().filter_map(clip).collect();
        self.limited(dimension, intervals)
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
        let codes = values.iter().filter_map(|value| dictionary.code(value)).map(u64::from);
        let ordinals = codes.map(|code| code..=code).collect();
        self.limited(dimension, ordinals)
    }

    fn limited(mut self, dimension: usize, mut intervals: Vec<RangeInclusive<u64>>) -> Self {
        intervals.sort_unstable_by_key(|interval| *interval.start());
        let mut merged: Vec<RangeInclusive<u64>> = Vec::new();
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if *interval.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(interval.end());
                }
                _ => merged.push(interval),
            }
        }
        let before = self.ordinals[dimension].take();
        self.ordinals[dimension] =
            Some(before.map_or_else(|| merged.clone(), |before| common(&before, &merged)));
        self
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
        let describe = |(index, range): (usize, &RangeInclusive<u64>)| {
            let dimension = self.schema.dimension(index);
            match &dimension.values {
                DimensionValues::Ordered { origin, data_type } => {
                    let value = |ordinal: u64| written(data_type, i128::from(*origin) + i128::from(ordinal));
                    format!("{} from {} to {}", dimension.name, value(*range.start()), value(*range.end()))
                }
                DimensionValues::String => self.describe_strings(index, range),
            }
        };
        let ranges: Vec<String> = ranges.iter().enumerate().map(describe).collect();
        CutBrick { brick, ranges: ranges.join(", ") }
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

/// The common parts of two lists of ascending, disjoint intervals.
fn common(one: &[RangeInclusive<u64>], other: &[RangeInclusive<u64>]) -> Vec<RangeInclusive<u64>> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let parts = pairs.map(|(a, b)| *a.start().max(b.start())..=*a.end().min(b.end()));
    parts.filter(|part| !part.is_empty()).collect()
}
