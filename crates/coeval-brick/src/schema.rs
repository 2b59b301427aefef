// SPDX-License-Identifier: Apache-2.0
//! What a brick table declares: dimensions, which partition it, and metrics; and the layout that follows.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::brick_id::{BrickLayout, LayoutError};
use crate::column::ColumnValues;
use crate::declaration::{Column, Dimension, DimensionValues, Metric, Nulls, Storage};
use crate::missing::Missing;

/// Why a declaration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A brick table partitions on something.
    #[error("a brick table needs at least one dimension")]
    NoDimension,
    /// The type cannot be a dimension's.
    #[error(
        "column \"{column}\": {data_type} cannot be a dimension; integers, dates, timestamps and strings can"
    )]
    DimensionType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The type cannot be stored.
    #[error("column \"{column}\": {data_type} cannot be stored in bricks")]
    MetricType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The dimensions do not fit into the bits that there are for them.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Rows that came without the column have a string in it, for which there is no code here.
    #[error("column \"{column}\": rows that came without it have a string in it, which has no code")]
    StringWithoutCode {
        /// The column.
        column: String,
    },
}

/// Where a column's values are in a brick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The dimension with this index.
    Dimension(usize),
    /// The stored column with this index.
    Metric(usize),
}

/// The columns of a brick table in the order of declaration, and the layout that follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct BrickSchema {
    columns: Vec<Column>,
    places: Vec<Place>,
    storages: Vec<Storage>,
    dimension_columns: Vec<usize>,
    metric_columns: Vec<usize>,
    /// For each metric.
    missing: Vec<Missing>,
    layout: BrickLayout,
    arrow: SchemaRef,
}

impl BrickSchema {
    /// The schema with these columns.
    ///
    /// # Errors
    ///
    /// If there is no dimension, a type cannot be stored, or the dimensions need more than 64 bits for the brick
    /// id or for the place in the brick.
    pub fn new(columns: Vec<Column>) -> Result<Self, SchemaError> {
        let (mut places, mut storages) = (Vec::new(), Vec::new());
        let (mut dimension_columns, mut metric_columns) = (Vec::new(), Vec::new());
        let mut dimensions = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            match column {
                Column::Dimension(dimension) => {
                    check_dimension(dimension)?;
                    places.push(Place::Dimension(dimension_columns.len()));
                    dimension_columns.push(index);
                    dimensions.push(dimension);
                }
                Column::Metric(metric) => {
                    storages.push(storage_of(metric)?);
                    places.push(Place::Metric(metric_columns.len()));
                    metric_columns.push(index);
                }
            }
        }
        if dimensions.is_empty() {
            return Err(SchemaError::NoDimension);
        }
        let layout = BrickLayout::new(&dimensions)?;
        let arrow = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let missing = storages.iter().map(|_| Missing::null()).collect();
        Ok(Self { columns, places, storages, dimension_columns, metric_columns, missing, layout, arrow })
    }

    /// The same with `value`, the only one of its array, in those rows that came without the metric `column`; NULL
    /// stands there otherwise.
    ///
    /// # Panics
    ///
    /// If the column is a dimension or of another type, or there is not one value.
    #[must_use]
    pub fn with_missing(mut self, column: usize, value: &ArrayRef) -> Self {
        let Place::Metric(metric) = self.places[column] else {
            panic!("rows have a value in each dimension");
        };
        self.missing[metric] = Missing::of(value, self.metric(metric), self.storages[metric]);
        self
    }

    /// The same columns with numbers in place of strings, for whoever gives strings their codes elsewhere: a dimension of
    /// strings is one of `Int64` from 0 on, a metric of strings is one of `UInt32`. Each code is where its string would be, so
    /// rows go to the same bricks.
    ///
    /// # Errors
    ///
    /// If rows that came without a metric have a string in it: that one has no code.
    pub fn coded(&self) -> Result<Self, SchemaError> {
        let has_string = |metric: &usize| self.missing[*metric].string().is_some();
        if let Some(metric) = (0..self.missing.len()).find(has_string) {
            let column = self.metric(metric).name.clone();
            return Err(SchemaError::StringWithoutCode { column });
        }
        let coded = Self::new(self.columns.iter().map(Column::coded).collect())?;
        Ok(Self { missing: self.missing.clone(), ..coded })
    }

    /// Whether rows of `older` can be read and kept as rows of this: it has the same columns, whatever their names, and
    /// perhaps metrics behind them.
    #[must_use]
    pub fn extends(&self, older: &Self) -> bool {
        let is_alike = |(new, old): (&Column, &Column)| match (new, old) {
            (Column::Dimension(new), Column::Dimension(old)) => {
                (&new.values, new.cardinality, new.range_size)
                    == (&old.values, old.cardinality, old.range_size)
            }
            (Column::Metric(new), Column::Metric(old)) => {
                (&new.data_type, new.nulls) == (&old.data_type, old.nulls)
            }
            _ => false,
        };
        self.columns.len() >= older.columns.len()
            && self.columns.iter().zip(&older.columns).all(is_alike)
            && self.dimension_columns == older.dimension_columns
    }

    /// Whether the metric with this index is there and of the same type in `other`.
    pub(crate) fn has_metric_of(&self, other: &Self, metric: usize) -> bool {
        let is_alike = |column: &usize| *self.columns[*column].data_type() == other.metric(metric).data_type;
        self.metric_columns.get(metric).is_some_and(is_alike)
    }

    /// What `rows` rows that came without a metric have in it.
    pub(crate) fn missing(&self, metric: usize, rows: usize) -> ColumnValues {
        self.missing[metric].values(self.metric(metric), self.storages[metric], rows)
    }

    /// What so many rows have in a column that came without it, in the type that a load brings; nothing of a dimension, which all rows
    /// have.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    #[must_use]
    pub fn missing_column(&self, column: usize, rows: usize) -> Option<ArrayRef> {
        let Place::Metric(metric) = self.places[column] else { return None };
        if self.storages[metric] == Storage::Code {
            let strings = std::iter::repeat_n(self.missing[metric].string(), rows);
            return Some(Arc::new(strings.collect::<StringArray>()));
        }
        Some(self.missing(metric, rows).to_array(&self.metric(metric).data_type, rows, None))
    }

    /// The string that the dictionary of a column begins with, if rows may have come without the column.
    pub(crate) fn missing_string(&self, column: usize) -> Option<&str> {
        match self.places[column] {
            Place::Metric(metric) => self.missing[metric].string(),
            Place::Dimension(_) => None,
        }
    }

    /// The columns, in the order of declaration.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The Arrow schema of what a scan gives: strings are dictionaries with `UInt32` keys.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// How dimensions become a brick id and a place in the brick.
    #[must_use]
    pub fn layout(&self) -> &BrickLayout {
        &self.layout
    }

    pub(crate) fn place(&self, column: usize) -> Place {
        self.places[column]
    }

    pub(crate) fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// About how many bytes a row takes; one at least.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = self.storages.iter().map(|storage| match storage {
            Storage::Fixed(width) => *width,
            Storage::Bit => 1,
            Storage::Code => size_of::<u32>(),
        });
        (self.layout.bess_bytes() + bytes.sum::<usize>()).max(1)
    }

    /// The dimension with this index among the dimensions.
    pub(crate) fn dimension(&self, index: usize) -> &Dimension {
        match &self.columns[self.dimension_columns[index]] {
            Column::Dimension(dimension) => dimension,
            Column::Metric(_) => unreachable!("`dimension_columns` lists dimensions"),
        }
    }

    /// The places of the dimensions among the columns.
    pub(crate) fn dimension_columns(&self) -> &[usize] {
        &self.dimension_columns
    }

    /// The metric with this index among the metrics.
    pub(crate) fn metric(&self, index: usize) -> &Metric {
        match &self.columns[self.metric_columns[index]] {
            Column::Metric(metric) => metric,
            Column::Dimension(_) => unreachable!("`metric_columns` lists metrics"),
        }
    }

    /// The places of the metrics among the columns.
    pub(crate) fn metric_columns(&self) -> &[usize] {
        &self.metric_columns
    }
}

fn field(column: &Column) -> Field {
    let data_type = match column.data_type() {
        DataType::Utf8 => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
        data_type => data_type.clone(),
    };
    let is_nullable = matches!(column, Column::Metric(Metric { nulls: Nulls::Allowed, .. }));
    Field::new(column.name(), data_type, is_nullable)
}

fn check_dimension(dimension: &Dimension) -> Result<(), SchemaError> {
    use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, Timestamp};
    match &dimension.values {
        DimensionValues::String
        | DimensionValues::Ordered {
            data_type: Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Timestamp(..),
            ..
        } => Ok(()),
        DimensionValues::Ordered { data_type, .. } => {
            Err(SchemaError::DimensionType { column: dimension.name.clone(), data_type: data_type.clone() })
        }
    }
}

fn storage_of(metric: &Metric) -> Result<Storage, SchemaError> {
    let data_type = &metric.data_type;
    let width = data_type.primitive_width().filter(|width| *width <= 16);
    match (data_type, width) {
        (DataType::Boolean, _) => Ok(Storage::Bit),
        (DataType::Utf8, _) => Ok(Storage::Code),
        (DataType::Interval(_) | DataType::Float16, _) | (_, None) => {
            Err(SchemaError::MetricType { column: metric.name.clone(), data_type: data_type.clone() })
        }
        (_, Some(width)) => Ok(Storage::Fixed(width)),
    }
}
