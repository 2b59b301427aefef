// SPDX-License-Identifier: Apache-2.0
//! A column of a chunk as scans read it: arrays are made of the rows that are read, where the chunk has something smaller in memory.

use crate::narrow_decimals::narrowed;
use crate::packed_column::PackedColumn;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::UInt16Type;
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum ChunkColumn {
    /// Rows of it are slices.
    Array(ArrayRef),
    /// Integers in few bytes.
    Packed(PackedColumn),
    /// Texts of which few differ, which go out as views: `Dictionary(UInt16, Utf8View)`.
    Coded(ArrayRef),
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
            coded @ Self::Coded(_) => Ok(coded),
        }
    }

    /// Rows that follow one another. Nothing is made of them.
    ///
    /// # Panics
    /// If there are no such rows.
    pub(crate) fn slice(&self, rows: &Range<usize>) -> Self {
        match self {
            Self::Array(array) => Self::Array(array.slice(rows.start, rows.len())),
            Self::Packed(packed) => Self::Packed(packed.slice(rows.start, rows.len())),
            Self::Coded(codes) => Self::Coded(codes.slice(rows.start, rows.len())),
        }
    }

    /// The array of all rows.
    ///
    /// # Errors
    /// If Arrow refuses it: a bug.
    pub(crate) fn array(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Array(array) => Ok(Arc::clone(array)),
            Self::Packed(packed) => packed.array(),
            Self::Coded(codes) => views_of(codes),
        }
    }

    /// The array of these rows.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn taken(&self, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Array(array) => take(array, rows, None),
            Self::Packed(packed) => packed.taken(rows.values()),
            Self::Coded(codes) => views_of(&take(codes, rows, None)?),
        }
    }

    /// So many zeros or empty texts, of the type of the array; `None` if rows are slices, which cost as little.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub(crate) fn blank(&self, rows: usize) -> Result<Option<ArrayRef>, ArrowError> {
        match self {
            Self::Array(_) => Ok(None),
            Self::Packed(packed) => packed.zeros(rows).map(Some),
            Self::Coded(_) => Ok(Some(Arc::new(StringViewArray::from(vec![""; rows])))),
        }
    }

    /// The array, if it is one as a whole.
    pub(crate) fn as_array_mut(&mut self) -> Option<&mut ArrayRef> {
        match self {
            Self::Array(array) => Some(array),
            Self::Packed(_) | Self::Coded(_) => None,
        }
    }
}

/// The texts that these are codes of.
fn views_of(codes: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let codes = codes.as_dictionary::<UInt16Type>();
    take(codes.values(), codes.keys(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{UInt16Array, UInt16DictionaryArray};

    const LONG: &str = "a text that is longer than a view";

    #[test]
    fn few_texts_go_out_as_views() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["short", LONG]));
        let numbers = UInt16Array::from(vec![Some(1), None, Some(0), Some(1)]);
        let column = ChunkColumn::Coded(Arc::new(UInt16DictionaryArray::new(numbers, texts)));
        let expected = StringViewArray::from(vec![Some(LONG), None, Some("short"), Some(LONG)]);
        assert_eq!(column.array().unwrap().as_string_view(), &expected);
        let part = column.slice(&(1..4));
        assert_eq!(part.array().unwrap().as_string_view(), &expected.slice(1, 3));
        let taken = part.taken(&UInt32Array::from(vec![2, 0])).unwrap();
        assert_eq!(taken.as_string_view(), &StringViewArray::from(vec![Some(LONG), None]));
    }

    #[test]
    fn blanks_are_of_the_type_of_the_array_and_slices_need_none() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
        let coded = ChunkColumn::Coded(Arc::new(UInt16DictionaryArray::new(vec![0_u16].into(), texts)));
        let blank = coded.blank(3).unwrap().unwrap();
        assert_eq!(blank.as_string_view(), &StringViewArray::from(vec![""; 3]));
        assert!(ChunkColumn::Array(blank).blank(3).unwrap().is_none());
    }
}
