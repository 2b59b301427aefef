// SPDX-License-Identifier: Apache-2.0
//! A load that has been validated and ordered by brick, and what was rejected on the way.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::block::RowValues;
use crate::brick_id::BrickId;
use crate::column::{CODE_BYTES, ColumnValues, Values};
use crate::schema::{BrickSchema, Place};
use crate::written::written;

/// Rows in the order of their shards and bricks, ready to be appended. After this nothing about them can fail.
#[derive(Debug)]
pub struct RoutedLoad {
    /// The columns of the values.
    pub(crate) schema: Arc<BrickSchema>,
    pub(crate) values: RowValues,
    /// By shard, then by brick.
    pub(crate) pieces: Vec<Piece>,
    /// For each shard its pieces.
    pub(crate) shard_pieces: Vec<Range<usize>>,
}

/// The rows of a load that go to one brick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) brick: BrickId,
    pub(crate) rows: Range<usize>,
}

impl RoutedLoad {
    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows.len()).sum()
    }

    /// Which of the values are the load's, in the order of its bricks: all, unless it is a part of another load. What lies together is one
    /// range.
    pub(crate) fn own_rows(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for Piece { rows, .. } in &self.pieces {
            match ranges.last_mut() {
                Some(last) if last.end == rows.start => last.end = rows.end,
                _ => ranges.push(rows.clone()),
            }
        }
        ranges
    }

    /// The load in parts, each with the rows of one brick, in the order of [`bricks`](Self::bricks). They share the values: a part keeps
    /// those of the whole load for as long as it is there. Cost: a reference count for each part and column.
    pub fn by_brick(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.pieces.len()).map(move |place| self.part(&[place]))
    }

    /// The rows of some of its bricks, which are named by their places among [`bricks`](Self::bricks), ascending. They share the values, as
    /// those of [`by_brick`](Self::by_brick) do.
    ///
    /// # Panics
    ///
    /// If there are not so many bricks, or the places do not ascend.
    #[must_use]
    pub fn part(&self, places: &[usize]) -> Self {
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "each brick is in a part once");
        let before = |end: usize| places.partition_point(|place| *place < end);
        let shard_pieces = self.shard_pieces.iter().map(|pieces| before(pieces.start)..before(pieces.end));
        Self {
            schema: Arc::clone(&self.schema),
            values: self.values.clone(),
            pieces: places.iter().map(|place| self.pieces[*place].clone()).collect(),
            shard_pieces: shard_pieces.collect(),
        }
    }

    /// The bricks that the load touches, each once: what rollback and the log need to know.
    pub fn bricks(&self) -> impl Iterator<Item = BrickId> {
        self.pieces.iter().map(|piece| piece.brick)
    }

    /// The different codes that the rows have in a column of [codes](BrickSchema::coded), ascending; a NULL has none. `None` if
    /// a dimension has an ordinal of more than 32 bits, which is no code. Cost: a pass over the column, and sorting what it has.
    ///
    /// # Panics
    ///
    /// If the column does not exist, or is a metric of another type than `UInt32`.
    #[must_use]
    pub fn codes(&self, column: usize) -> Option<Vec<u32>> {
        let mut codes = match self.schema.place(column) {
            Place::Dimension(dimension) => self.ordinals(dimension)?,
            Place::Metric(metric) => self.numbers(metric),
        };
        codes.sort_unstable();
        codes.dedup();
        Some(codes)
    }

    fn ordinals(&self, dimension: usize) -> Option<Vec<u32>> {
        let layout = &self.schema.layout().dimensions()[dimension];
        let rows = self.pieces.iter().flat_map(|piece| piece.rows.clone().map(move |row| (piece.brick, row)));
        let ordinals = rows.map(|(brick, row)| layout.first(brick) + layout.offset(self.bess(row)));
        ordinals.map(|ordinal| u32::try_from(ordinal).ok()).collect()
    }

    /// The packed offsets of a row.
    fn bess(&self, row: usize) -> u64 {
        match self.values.bess.as_ref().map(|bess| &bess.values) {
            Some(Values::Bytes(width, bytes)) => {
                let mut number = [0; 8];
                number[..*width].copy_from_slice(&bytes[row * width..(row + 1) * width]);
                u64::from_le_bytes(number)
            }
            Some(Values::Bits(_)) | None => 0,
        }
    }

    fn numbers(&self, metric: usize) -> Vec<u32> {
        let ColumnValues { values: Values::Bytes(CODE_BYTES, bytes), nulls } = &self.values.columns[metric]
        else {
            panic!("a metric of codes has four bytes for each row");
        };
        let is_there = |row: &usize| !nulls.as_ref().is_some_and(|nulls| nulls.value(*row));
        let number = |row: usize| {
            let bytes = &bytes[row * CODE_BYTES..(row + 1) * CODE_BYTES];
            u32::from_le_bytes(bytes.try_into().expect("codes have four bytes"))
        };
        let rows = self.pieces.iter().flat_map(|piece| piece.rows.clone());
        rows.filter(is_there).map(number).collect()
    }
}

/// What routing a batch gives.
#[derive(Debug)]
pub struct Routed {
    /// The good rows.
    pub load: RoutedLoad,
    /// The others, in ascending order; no more than were allowed.
    pub rejected: Vec<Rejection>,
}

/// What routing a load of some batches gives.
#[derive(Debug)]
pub struct RoutedBatches {
    /// The good rows of each batch, in their order.
    pub loads: Vec<RoutedLoad>,
    /// The others, in ascending order; no more than were allowed.
    pub rejected: Vec<Rejection>,
}

/// A row that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the load, from 0: batches follow one another.
    pub row: usize,
    /// Why.
    pub reason: RejectReason,
}

impl Rejection {
    pub(crate) fn of((row, reason): (usize, RejectReason)) -> Self {
        Self { row, reason }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "row {}: {}", self.row, self.reason)
    }
}

/// Why a row cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// A dimension decides about the brick, so it has a value.
    #[error("dimension \"{column}\" is NULL")]
    NullDimension {
        /// The dimension.
        column: String,
    },
    /// A metric that was declared NOT NULL.
    #[error("column \"{column}\" is NULL")]
    NullMetric {
        /// The metric.
        column: String,
    },
    /// A value that the dimension has no ordinal for.
    #[error(
        "dimension \"{column}\": {} is not between {} and {}",
        written(.data_type, (*.value).into()),
        written(.data_type, (*.origin).into()),
        written(.data_type, i128::from(*.origin) + i128::from(*.cardinality) - 1)
    )]
    OutsideCardinality {
        /// The dimension.
        column: String,
        /// The value, as the number that stands for it.
        value: i64,
        /// The least value.
        origin: i64,
        /// How many values there are.
        cardinality: u64,
        /// The dimension's type.
        data_type: DataType,
    },
    /// A new string for which the dimension has no ordinal left.
    #[error("dimension \"{column}\": '{value}' would be one more than its cardinality of {cardinality}")]
    TooManyStrings {
        /// The dimension (or metric, whose strings are limited by their codes alone).
        column: String,
        /// The string.
        value: String,
        /// How many there are.
        cardinality: u64,
    },
    /// A string longer than a brick takes.
    #[error("column \"{column}\": a string of {bytes} bytes is longer than {bytes_max}")]
    StringTooLong {
        /// The column.
        column: String,
        /// Its bytes.
        bytes: usize,
        /// How many there may be.
        bytes_max: usize,
    },
}

/// Why a load is refused as a whole. Nothing of it is left: neither rows nor new strings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Too few or too many columns.
    #[error("the load has {found} columns, the table has {expected}")]
    ColumnCount {
        /// The table's.
        expected: usize,
        /// The load's.
        found: usize,
    },
    /// A column of another type.
    #[error("column \"{column}\" is {expected}, the load brings {found}")]
    ColumnType {
        /// The column.
        column: String,
        /// The table's type.
        expected: DataType,
        /// The load's type.
        found: DataType,
    },
    /// More bad rows than were allowed.
    #[error("more than {rejected_max} rows were rejected; {}", first(.rejected))]
    TooManyRejected {
        /// How many were allowed.
        rejected_max: usize,
        /// The bad rows that were found before giving up, one more than allowed, in ascending order.
        rejected: Vec<Rejection>,
    },
}

fn first(rejected: &[Rejection]) -> String {
    rejected.first().map(ToString::to_string).unwrap_or_default()
}
