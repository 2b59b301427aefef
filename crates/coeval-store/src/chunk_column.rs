// SPDX-License-Identifier: Apache-2.0
//! A column of a chunk as scans read it: rows of it become arrays when they are read.

use crate::narrow_decimals::narrowed;
use crate::packed_column::PackedColumn;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::error::ArrowError;
use std::ops::Range;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum ChunkColumn {
    /// Rows of it are slices.
    Array(ArrayRef),
    /// Arrays are made of its rows.
    Packed(PackedColumn),
}

impl From<ArrayRef> for ChunkColumn {
    fn from(array: ArrayRef) -> Self {
        Self::Array(array)
    }
}

impl ChunkColumn {
    /// The same values; decimals of few digits as `Decimal64`.
    ///
    /// # Errors
    /// If a decimal has more digits than its type allows.
    pub(crate) fn narrowed(self) -> Result<Self, ArrowError> {
        match self {
            Self::Array(array) => narrowed(&array).map(Self::Array),
            Self::Packed(packed) => Ok(Self::Packed(packed.narrowed())),
        }
    }

    /// Rows that follow one another.
    ///
    /// # Errors
    /// If Arrow refuses the array: a bug.
    ///
    /// # Panics
    /// If there are no such rows.
    pub(crate) fn slice(&self, rows: &Range<usize>) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Array(array) => Ok(array.slice(rows.start, rows.len())),
            Self::Packed(packed) => packed.slice(rows.start, rows.len()).array(),
        }
    }

    /// These rows.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    ///
    /// # Panics
    /// As [`slice`](Self::slice).
    pub(crate) fn taken(&self, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Array(array) => take(array, rows, None),
            Self::Packed(packed) => packed.taken(rows.values()),
        }
    }

    /// The array, if it is one as a whole.
    pub(crate) fn as_array_mut(&mut self) -> Option<&mut ArrayRef> {
        match self {
            Self::Array(array) => Some(array),
            Self::Packed(_) => None,
        }
    }
}
