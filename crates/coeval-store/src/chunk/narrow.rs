// SPDX-License-Identifier: Apache-2.0
//! Columns of decimals of few digits, for whoever computes with them by 64-bit integers: eight bytes a row, where decimals take sixteen.
//!
//! In the file such a column is integers already. Others get decimals as before, so a column may be in memory in both forms.

use super::{Chunk, ChunkSource};
use crate::allocations::for_everybody;
use crate::error::StoreError;
use crate::narrow_decimals::narrowed;
use arrow::array::{Array, ArrayRef};
use std::sync::{Arc, OnceLock};

/// What is in memory of a column of decimals as 64-bit integers.
#[derive(Debug, Default)]
pub(super) struct KeptNarrow(OnceLock<ArrayRef>);

impl KeptNarrow {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.get().map_or(0, bytes_of)
    }
}

fn bytes_of(array: &ArrayRef) -> u64 {
    array.get_array_memory_size() as u64
}

impl Chunk {
    /// A column of decimals of few digits as `Decimal64`, another one as it is; `None` if the chunk was written before it was added. What is
    /// not in memory is read, and stays if there is room for it.
    ///
    /// # Errors
    /// As [`check_whole`](Self::check_whole).
    pub(crate) fn read_narrow(&self, column: usize) -> Result<Option<ArrayRef>, StoreError> {
        self.set_mark();
        let Some(kept) = self.narrow.get(column) else { return Ok(None) };
        if let Some(narrow) = kept.0.get() {
            return Ok(Some(Arc::clone(narrow)));
        }
        let Some(source) = &self.source else {
            let decimals = self.read_columns(&[column])?.pop().flatten();
            return Ok(decimals.as_ref().map(narrowed).transpose()?);
        };
        let (memory, wide_bytes) = (source.segment.memory(), source.memory_bytes(column + 1));
        let make = || self.make_narrow(column, source);
        // Integers take less than decimals.
        if !memory.has_room(wide_bytes) {
            return make().map(Some);
        }
        let narrow = for_everybody(make)?;
        if kept.0.set(Arc::clone(&narrow)).is_ok() {
            memory.add(bytes_of(&narrow));
        }
        Ok(Some(narrow))
    }

    /// Makes it of the decimals if they are in memory, and reads it from the file otherwise.
    fn make_narrow(&self, column: usize, source: &ChunkSource) -> Result<ArrayRef, StoreError> {
        match self.columns[column].get() {
            Some(decimals) => Ok(narrowed(decimals)?),
            None => Ok(narrowed(&source.segment.read_narrow(source.batch, column)?)?),
        }
    }
}
