// SPDX-License-Identifier: Apache-2.0
//! What rows have in a column that was added after they were written.
//!
//! Blocks are not touched when a column is added: each has the columns that its rows came with, and a reader makes up
//! the others, one value for all rows of a block.

use std::sync::OnceLock;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer};

use crate::column::{BLOCK_ROWS_MAX, CODE_BYTES, ColumnValues, Values};
use crate::declaration::{Metric, Nulls, Storage};

/// The value of one metric in rows that came without it.
#[derive(Debug)]
pub(crate) struct Missing {
    value: MissingValue,
    /// As many as a block can have, made when a block is first read without the metric.
    of_a_block: OnceLock<ColumnValues>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MissingValue {
    /// NULL; for a metric that is never NULL, which no row that anybody sees came without, zero.
    Null,
    Bytes(Vec<u8>),
    Bit(bool),
    /// The first string of the metric's dictionary.
    String(String),
}

impl PartialEq for Missing {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Missing {
    /// NULL.
    pub(crate) fn null() -> Self {
        Self { value: MissingValue::Null, of_a_block: OnceLock::new() }
    }

    /// The only value of `array`, which is of the metric's type.
    ///
    /// # Panics
    ///
    /// If it is not, or has not one value.
    pub(crate) fn of(array: &ArrayRef, metric: &Metric, storage: Storage) -> Self {
        assert_eq!(array.len(), 1, "rows that came without a column have one value in it");
        assert_eq!(*array.data_type(), metric.data_type, "the value is of the column's type");
        let value = match storage {
            _ if array.is_null(0) => MissingValue::Null,
            Storage::Bit => MissingValue::Bit(array.as_boolean().value(0)),
            Storage::Code => MissingValue::String(array.as_string::<i32>().value(0).to_owned()),
            Storage::Fixed(width) => {
                let data = array.to_data();
                let start = data.offset() * width;
                MissingValue::Bytes(data.buffers()[0].as_slice()[start..start + width].to_vec())
            }
        };
        Self { value, of_a_block: OnceLock::new() }
    }

    /// The string that the metric's dictionary begins with.
    pub(crate) fn string(&self) -> Option<&str> {
        match &self.value {
            MissingValue::String(string) => Some(string),
            MissingValue::Null | MissingValue::Bytes(_) | MissingValue::Bit(_) => None,
        }
    }

    /// The value for `rows` rows. Cost: none for the rows of a block, but the first time.
    pub(crate) fn values(&self, metric: &Metric, storage: Storage, rows: usize) -> ColumnValues {
        if rows > BLOCK_ROWS_MAX {
            return self.repeated(metric, storage, rows);
        }
        let all = self.of_a_block.get_or_init(|| self.repeated(metric, storage, BLOCK_ROWS_MAX));
        let values = match &all.values {
            Values::Bytes(width, bytes) => Values::Bytes(*width, bytes.slice_with_length(0, rows * width)),
            Values::Bits(bits) => Values::Bits(bits.slice(0, rows)),
        };
        ColumnValues { values, nulls: all.nulls.as_ref().map(|nulls| nulls.slice(0, rows)) }
    }

    fn repeated(&self, metric: &Metric, storage: Storage, rows: usize) -> ColumnValues {
        let bits = |value| {
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(rows, value);
            bits.finish()
        };
        let zeros = |width: usize| Values::Bytes(width, Buffer::from_vec(vec![0_u8; width * rows]));
        let values = match (&self.value, storage) {
            (MissingValue::Bit(value), _) => Values::Bits(bits(*value)),
            (MissingValue::Bytes(value), _) => {
                Values::Bytes(value.len(), Buffer::from_vec(value.repeat(rows)))
            }
            (MissingValue::Null, Storage::Bit) => Values::Bits(bits(false)),
            (MissingValue::Null, Storage::Fixed(width)) => zeros(width),
            (MissingValue::String(_) | MissingValue::Null, _) => zeros(CODE_BYTES),
        };
        let is_null = self.value == MissingValue::Null && metric.nulls == Nulls::Allowed;
        let nulls: Option<BooleanBuffer> = is_null.then(|| bits(true));
        ColumnValues { values, nulls }
    }
}
