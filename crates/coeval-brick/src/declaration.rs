// SPDX-License-Identifier: Apache-2.0
//! What a brick table declares of one column: a dimension, or a metric.

use arrow::datatypes::DataType;

/// A column that the table is partitioned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The column's name.
    pub name: String,
    /// What its values are.
    pub values: DimensionValues,
    /// How many different values there can be; each has an *ordinal* below it.
    pub cardinality: u64,
    /// How many consecutive ordinals share a brick.
    pub range_size: u64,
}

/// The values of a dimension, and how they become ordinals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimensionValues {
    /// Strings; the ordinal is the place in the column's dictionary, in order of arrival.
    String,
    /// Integers, dates or timestamps; the ordinal is the distance from `origin`.
    Ordered {
        /// The Arrow type: a signed integer, a date or a timestamp.
        data_type: DataType,
        /// The least value, as the type's number.
        origin: i64,
    },
}

/// A column that the table is not partitioned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The column's name.
    pub name: String,
    /// Its Arrow type: a number, boolean, date, time, timestamp or decimal, or `Utf8`, which is stored by
    /// dictionary.
    pub data_type: DataType,
    /// Whether it may be NULL.
    pub nulls: Nulls,
}

/// Whether a metric may be NULL. A dimension never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// It may.
    Allowed,
    /// A row with a NULL is rejected.
    Refused,
}

/// A column of a brick table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A column that the table is partitioned on.
    Dimension(Dimension),
    /// Any other.
    Metric(Metric),
}

/// How a metric's values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// So many bytes for each row, as Arrow has them.
    Fixed(usize),
    /// A bit for each row.
    Bit,
    /// A dictionary code of four bytes for each row.
    Code,
}

impl Column {
    /// The column's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dimension(dimension) => &dimension.name,
            Self::Metric(metric) => &metric.name,
        }
    }

    /// The Arrow type that a load brings: for strings any string type or dictionary of strings will do.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        match self {
            Self::Dimension(Dimension { values: DimensionValues::String, .. }) => &DataType::Utf8,
            Self::Dimension(Dimension { values: DimensionValues::Ordered { data_type, .. }, .. }) => {
                data_type
            }
            Self::Metric(metric) => &metric.data_type,
        }
    }

    /// Whether the column holds strings, by dictionary.
    pub(crate) fn is_string(&self) -> bool {
        *self.data_type() == DataType::Utf8
    }
}
