// SPDX-License-Identifier: Apache-2.0
//! Groups of rows without a hash table: the numbers that a brick keeps of a row say which group it is in.
//!
//! A group's number has a digit for each column. A dimension's digit is the row's offset, so it stands for other values in
//! other bricks. A metric's digit is the distance of its number (of strings, the dictionary's code) from the least one of all
//! bricks that are read, and 1; that of NULL is 0. It stands for the same value in all of these bricks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{ArrowNativeType, DataType, Field, Schema, SchemaRef};

use crate::block::Block;
use crate::brick_id::DimensionLayout;
use crate::column::{CODE_BYTES, ColumnValues, Values};
use crate::declaration::Storage;
use crate::ordinals::map_bess;
use crate::schema::BrickSchema;

/// The name of the column of groups.
const GROUP: &str = "group";

/// Numbers the combinations of values that rows of some bricks can have in some columns: densely, from 0. If one of the columns
/// is a dimension, the numbers stand for other values in each brick.
#[derive(Clone, Debug)]
pub struct Grouping {
    parts: Vec<Part>,
    groups: u32,
}

/// What one column adds to a group's number: its digit times `stride`.
#[derive(Clone, Debug)]
struct Part {
    digit: Digit,
    /// All digits are below this.
    base: u32,
    stride: u32,
}

/// What of a column is a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digit {
    /// The offset in the dimension with this index.
    Offset(usize),
    /// 0 if the metric with this index is NULL, else its distance from `least`, and 1. Booleans are 0 and 1.
    Distance {
        /// The metric.
        metric: usize,
        /// The number of the least value; of strings, 0.
        least: i64,
    },
}

/// Whether the values of a type are whole numbers to a [`Digit::Distance`].
pub(crate) fn is_whole(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, Time32, Time64, Timestamp, UInt32};
    matches!(
        data_type,
        Int8 | Int16 | Int32 | Int64 | UInt32 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..)
    )
}

impl Grouping {
    /// By digits of these bases; `None` if the groups are more than 32 bits count.
    pub(crate) fn new(digits: Vec<(Digit, u32)>) -> Option<Self> {
        let mut groups = 1_u32;
        let part = |(digit, base): (Digit, u32)| {
            let stride = groups;
            groups = groups.checked_mul(base)?;
            Some(Part { digit, base, stride })
        };
        let parts = digits.into_iter().map(part).collect::<Option<Vec<_>>>()?;
        Some(Self { parts, groups })
    }

    /// All groups' numbers are below this.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups as usize
    }

    /// How many columns it is by.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.parts.len()
    }

    /// Whether one of the columns is a metric.
    #[must_use]
    pub fn has_metric(&self) -> bool {
        self.parts.iter().any(|part| !part.digit.is_of_brick())
    }

    /// Whether a group's number stands for other values in each brick.
    #[must_use]
    pub fn is_of_brick(&self) -> bool {
        self.parts.iter().any(|part| part.digit.is_of_brick())
    }

    /// The group of each of these rows of a block, which are rows of the table with this schema.
    pub(crate) fn of_rows(&self, schema: &BrickSchema, block: &Block, rows: Range<usize>) -> ArrayRef {
        let mut groups = self.of_offsets(schema, block, rows.clone());
        for Part { digit, stride, .. } in &self.parts {
            if let Digit::Distance { metric, least } = digit {
                let values = block.read_metric(schema, *metric, rows.clone());
                add_digits(&mut groups, *stride, &values, *least);
            }
        }
        Arc::new(UInt32Array::from(groups))
    }

    /// What the dimensions add to each row's group.
    fn of_offsets(&self, schema: &BrickSchema, block: &Block, rows: Range<usize>) -> Vec<u32> {
        let layouts = schema.layout().dimensions();
        let dimension = |part: &Part| match part.digit {
            Digit::Offset(dimension) => Some((&layouts[dimension], part.stride)),
            Digit::Distance { .. } => None,
        };
        let dimensions: Vec<(&DimensionLayout, u32)> = self.parts.iter().filter_map(dimension).collect();
        match (block.read_bess(rows.clone()), dimensions.as_slice()) {
            (None, _) | (_, []) => vec![0; rows.len()],
            (Some(bess), [(only, stride)]) => map_bess(&bess, |bess| only.offset(bess) as u32 * *stride),
            (Some(bess), several) => map_bess(&bess, |bess| {
                several.iter().map(|(layout, stride)| layout.offset(bess) as u32 * *stride).sum()
            }),
        }
    }

    /// For each of the columns what its digits are of, and those of these groups.
    pub(crate) fn digits(&self, groups: &[u32]) -> impl Iterator<Item = (Digit, Vec<u32>)> {
        self.parts.iter().map(|part| {
            let digits = groups.iter().map(|group| group / part.stride % part.base);
            (part.digit, digits.collect())
        })
    }
}

impl Digit {
    /// Whether it stands for other values in each brick.
    fn is_of_brick(self) -> bool {
        matches!(self, Self::Offset(_))
    }
}

/// Adds the digits of a metric's values, times `stride`, to the groups of their rows.
///
/// The lower 32 bits of numbers say how far they are apart, as that is less than 2^32.
fn add_digits(groups: &mut [u32], stride: u32, values: &ColumnValues, least: i64) {
    let nulls = values.nulls.as_ref();
    let least = least as u32;
    match &values.values {
        Values::Bits(bits) => add_distances(groups, stride, nulls, bits.iter().map(u32::from)),
        Values::Bytes(1, bytes) => {
            add_distances(groups, stride, nulls, distances(bytes, least, |value: i8| value as u32));
        }
        Values::Bytes(2, bytes) => {
            add_distances(groups, stride, nulls, distances(bytes, least, |value: i16| value as u32));
        }
        Values::Bytes(4, bytes) => {
            add_distances(groups, stride, nulls, distances(bytes, least, |value: u32| value));
        }
        Values::Bytes(_, bytes) => {
            add_distances(groups, stride, nulls, distances(bytes, least, |value: i64| value as u32));
        }
    }
}

/// How far the numbers are from the least one.
fn distances<T: ArrowNativeType>(
    numbers: &Buffer,
    least: u32,
    lower_bits: impl Fn(T) -> u32,
) -> impl Iterator<Item = u32> {
    numbers.typed_data::<T>().iter().map(move |number| lower_bits(*number).wrapping_sub(least))
}

fn add_distances(
    groups: &mut [u32],
    stride: u32,
    nulls: Option<&BooleanBuffer>,
    distances: impl Iterator<Item = u32>,
) {
    let rows = groups.iter_mut().zip(distances);
    match nulls {
        None => rows.for_each(|(group, distance)| *group += (distance + 1) * stride),
        // What stands in the place of a NULL is no number.
        Some(nulls) => rows.zip(nulls).for_each(|((group, distance), is_null)| {
            if !is_null {
                *group += (distance + 1) * stride;
            }
        }),
    }
}

/// The values of a metric with these digits.
pub(crate) fn metric_values(storage: Storage, least: i64, digits: &[u32]) -> ColumnValues {
    // That of NULL is not looked at.
    let numbers = || digits.iter().map(|digit| least.wrapping_add(i64::from(digit.saturating_sub(1))));
    let values = match storage {
        Storage::Bit => Values::Bits(numbers().map(|number| number == 1).collect()),
        Storage::Code => Values::Bytes(CODE_BYTES, numbers().map(|code| code as u32).collect()),
        Storage::Fixed(1) => Values::Bytes(1, numbers().map(|number| number as i8).collect()),
        Storage::Fixed(2) => Values::Bytes(2, numbers().map(|number| number as i16).collect()),
        Storage::Fixed(4) => Values::Bytes(4, numbers().map(|number| number as u32).collect()),
        Storage::Fixed(width) => {
            assert_eq!(width, size_of::<i64>(), "whole numbers have up to 64 bits");
            Values::Bytes(width, numbers().collect())
        }
    };
    let nulls = digits.contains(&0).then(|| digits.iter().map(|digit| *digit == 0).collect());
    ColumnValues { values, nulls }
}

/// The columns of `schema` and, behind them, that of groups.
pub(crate) fn with_group(schema: &Schema) -> SchemaRef {
    let group = Arc::new(Field::new(GROUP, DataType::UInt32, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([group]).collect::<Vec<_>>()))
}
