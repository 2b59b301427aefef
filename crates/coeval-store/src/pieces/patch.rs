// SPDX-License-Identifier: Apache-2.0
//! What updates have made of one column of a chunk: the values that differ from the chunk's, and the rows that have them.
//!
//! Most updates change few columns. The others are read from the chunk as if no row had changed. Where values differ, the new ones are put
//! into a copy of the rows that are read, which costs less than to leave rows out and to add others:
//!
//! ```text
//! chunk     3 5 5 7 9 2 4
//! patch       6     8          rows 1 and 4
//! read      3 6 5 7 8 2 4
//! ```
//!
//! Texts that come as numbers of a dictionary's texts are patched as numbers (`coded_patch.rs`). Other texts, bytes and lists are not.

use super::coded_patch::CodedPatch;
use crate::narrow_decimals::{narrow_decimal_type, narrowed};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray,
    UInt16DictionaryArray, UInt32Array, downcast_primitive,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{cast, filter, take};
use arrow::datatypes::{DataType, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use parking_lot::Mutex;
use std::sync::Arc;

/// The patch of a column, kept with the version of a table.
#[derive(Debug)]
pub(super) struct ColumnPatch {
    patch: Patch,
    /// The same as numbers of the chunk's texts, as it had them when it was last read.
    ///
    /// # Locking
    /// A leaf lock, held while the patch is made of numbers, once for each time that the chunk is read anew.
    coded: Mutex<Option<CodedPatch>>,
}

/// Values for some rows of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// Rows of the chunk, in their order.
    rows: ScalarBuffer<u32>,
    /// The value of each: of the column's type, or a number if the column has numbers of texts.
    values: ArrayRef,
}

impl ColumnPatch {
    /// Those of the new values of these rows of a chunk that differ from the ones taken from its column.
    ///
    /// # Errors
    /// If these are of another type than the column.
    pub(super) fn between(taken: &ArrayRef, rows: &UInt32Array, new: ArrayRef) -> Result<Self, ArrowError> {
        let old = match taken.as_dictionary_opt::<UInt16Type>() {
            Some(coded) => take(coded.values(), coded.keys(), None)?,
            // The chunk's decimals may have come as 64-bit integers. The patch is for those of 128 bits, too.
            None if taken.data_type() != new.data_type() => cast(taken, new.data_type())?,
            None => Arc::clone(taken),
        };
        // Lists, which Arrow does not compare, are taken to differ.
        let differing = if old.data_type().is_nested() { None } else { Some(distinct(&old, &new)?) };
        let (rows, values) = match differing.filter(|differing| differing.true_count() < rows.len()) {
            Some(differing) => {
                let rows = filter(rows, &differing)?;
                (rows.as_primitive::<UInt32Type>().values().clone(), filter(&new, &differing)?)
            }
            None => (rows.values().clone(), new),
        };
        Ok(Self { patch: Patch { rows, values }, coded: Mutex::new(None) })
    }

    /// Whether all values are the chunk's.
    pub(super) fn is_empty(&self) -> bool {
        self.patch.rows.is_empty()
    }

    /// The chunk's column in the form that new values can be put into, and these in the same form; `None` if it has none.
    ///
    /// # Errors
    /// If texts cannot be put together: a bug.
    pub(super) fn fitted(&self, chunk: &ArrayRef) -> Result<Option<(ArrayRef, Patch)>, ArrowError> {
        if let Some(coded) = chunk.as_dictionary_opt::<UInt16Type>() {
            return Ok(self.coded(coded.values())?.map(|(texts, patch)| {
                let chunk: ArrayRef = Arc::new(coded.with_values(texts));
                (chunk, patch)
            }));
        }
        let ty = chunk.data_type();
        if !ty.is_primitive() && *ty != DataType::Boolean {
            return Ok(None);
        }
        Ok(Some((Arc::clone(chunk), self.of_numbers(ty)?)))
    }

    /// The new values for a column of numbers, or bits, of this type.
    ///
    /// # Errors
    /// If a decimal has more digits than its type allows.
    pub(super) fn of_numbers(&self, ty: &DataType) -> Result<Patch, ArrowError> {
        let mut patch = self.patch.clone();
        if narrow_decimal_type(patch.values.data_type()).as_ref() == Some(ty) {
            patch.values = narrowed(&patch.values)?;
        }
        Ok(patch)
    }

    /// Texts that begin with these of the chunk, and the patch as numbers of them; `None` if there are more texts than numbers.
    fn coded(&self, texts: &ArrayRef) -> Result<Option<(ArrayRef, Patch)>, ArrowError> {
        let mut kept = self.coded.lock();
        let known = kept.take().filter(|known| known.is_of(texts));
        let coded = match known {
            Some(known) => known,
            None => CodedPatch::new(texts, &self.patch.values)?,
        };
        let coded = kept.insert(coded);
        let fitted = coded.texts_and_codes().map(|(texts, codes)| {
            (Arc::clone(texts), Patch { rows: self.patch.rows.clone(), values: Arc::clone(codes) })
        });
        Ok(fitted)
    }
}

impl Patch {
    /// The rows of a chunk's column that begin with `start`, with the new values among them.
    ///
    /// # Errors
    /// If the column is not in the form that the patch was made for: a bug.
    pub(crate) fn put_into(&self, column: &ArrayRef, start: usize) -> Result<ArrayRef, ArrowError> {
        let before = |end: usize| self.rows.partition_point(|row| (*row as usize) < end);
        let (first, end) = (before(start), before(start + column.len()));
        if first == end {
            return Ok(Arc::clone(column));
        }
        let values = self.values.slice(first, end - first);
        Part { start, rows: &self.rows[first..end], values }.put(column)
    }
}

/// What of a patch is among the rows that are read.
struct Part<'p> {
    /// The first row that is read.
    start: usize,
    rows: &'p [u32],
    values: ArrayRef,
}

impl Part<'_> {
    fn put(&self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        macro_rules! numbers {
            ($type:ty) => {
                Ok(Arc::new(self.numbers::<$type>(column.as_primitive())))
            };
        }
        downcast_primitive! {
            column.data_type() => (numbers),
            DataType::Boolean => Ok(Arc::new(self.bits(column.as_boolean()))),
            _ => match column.as_dictionary_opt::<UInt16Type>() {
                Some(coded) => {
                    let numbers = self.numbers::<UInt16Type>(coded.keys());
                    Ok(Arc::new(UInt16DictionaryArray::try_new(numbers, Arc::clone(coded.values()))?))
                }
                None => {
                    let what = format!("{} have no places for new values", column.data_type());
                    Err(ArrowError::InvalidArgumentError(what))
                }
            },
        }
    }

    /// Places of the new values among the rows that are read.
    fn places(&self) -> impl Iterator<Item = usize> {
        let start = self.start;
        self.rows.iter().map(move |row| *row as usize - start)
    }

    fn numbers<T: ArrowPrimitiveType>(&self, old: &PrimitiveArray<T>) -> PrimitiveArray<T> {
        let mut values = old.values().to_vec();
        for (place, value) in self.places().zip(self.values.as_primitive::<T>().values()) {
            values[place] = *value;
        }
        let values = PrimitiveArray::new(ScalarBuffer::from(values), self.valid(old));
        values.with_data_type(old.data_type().clone())
    }

    fn bits(&self, old: &BooleanArray) -> BooleanArray {
        let mut values = BooleanBufferBuilder::new(old.len());
        values.append_buffer(old.values());
        for (place, value) in self.places().zip(self.values.as_boolean().values()) {
            values.set_bit(place, value);
        }
        BooleanArray::new(values.finish(), self.valid(old))
    }

    /// Which rows have a value.
    fn valid(&self, old: &dyn Array) -> Option<NullBuffer> {
        if old.null_count() + self.values.null_count() == 0 {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(old.len());
        match old.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(old.len(), true),
        }
        for (row, place) in self.places().enumerate() {
            valid.set_bit(place, self.values.is_valid(row));
        }
        Some(NullBuffer::new(valid.finish())).filter(|valid| valid.null_count() > 0)
    }
}

#[cfg(test)]
mod tests;
