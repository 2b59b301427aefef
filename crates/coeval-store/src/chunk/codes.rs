// SPDX-License-Identifier: Apache-2.0
//! Columns of texts of which few differ, for whoever groups by them, and for other scans if there are very few: each text once, and which of
//! them each row has.
//!
//! In the file such a column is a dictionary already. What is made of it here is two bytes a row, where the texts as views take sixteen,
//! and a text is looked at once for each chunk instead of once for each row.

use super::{Chunk, ChunkSource};
use crate::allocations::for_everybody;
use crate::chunk_column::ChunkColumn;
use crate::error::StoreError;
use crate::segment::has_bytes_of_few_texts;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use std::sync::{Arc, OnceLock};

/// What is in memory of a column as codes of its texts.
#[derive(Debug, Default)]
pub(super) struct KeptCodes {
    /// `None`: it is no dictionary in its file. Unknown until it was read.
    array: OnceLock<Option<ArrayRef>>,
}

impl KeptCodes {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.get().map_or(0, bytes_of)
    }

    /// The codes, if they are in memory.
    pub(super) fn get(&self) -> Option<&ArrayRef> {
        self.array.get().and_then(Option::as_ref)
    }

    /// Keeps them. Returns the bytes that they take, if none were kept before.
    pub(super) fn keep(&self, codes: &ArrayRef) -> Option<u64> {
        self.array.set(Some(Arc::clone(codes))).ok().map(|()| bytes_of(codes))
    }
}

fn bytes_of(array: &ArrayRef) -> u64 {
    array.get_array_memory_size() as u64
}

impl Chunk {
    /// A column of texts: `Dictionary(UInt16, Utf8View)` if its file has it as a dictionary of few entries, and otherwise views; `None`
    /// if the chunk was written before it was added. What is not in memory is read, and stays if there is room for it.
    ///
    /// # Errors
    /// As [`check_whole`](Self::check_whole).
    pub(crate) fn read_coded(&self, column: usize) -> Result<Option<ChunkColumn>, StoreError> {
        self.set_mark();
        let Some(kept) = self.codes.get(column) else { return Ok(None) };
        let read = match (kept.array.get(), &self.source) {
            (Some(Some(codes)), _) => Some(Arc::clone(codes)),
            (None, Some(source)) => self.read_codes(column, source)?,
            (Some(None), _) | (None, None) => None,
        };
        match read {
            Some(read) => Ok(Some(ChunkColumn::Array(read))),
            None => self.read_scanned(column),
        }
    }

    /// Reads a column from its file, and keeps it in the form that it has if there is room. `None` if there is no room, and its views are in
    /// memory already.
    fn read_codes(&self, column: usize, source: &ChunkSource) -> Result<Option<ArrayRef>, StoreError> {
        let (memory, views_bytes) = (source.segment.memory(), source.memory_bytes(column + 1));
        let read = || source.segment.read_coded(source.batch, column);
        // Codes take less than views.
        if !memory.has_room(views_bytes) {
            let has_views = self.columns[column].get().is_some();
            return if has_views { Ok(None) } else { read().map(Some) };
        }
        let array = for_everybody(read)?;
        let kept = &self.codes[column];
        if matches!(array.data_type(), DataType::Dictionary(..)) {
            if let Some(bytes) = kept.keep(&array) {
                memory.add(bytes);
            }
        } else {
            // Whoever reads it at the same time finds the same.
            let _ = kept.array.set(None);
            if self.columns[column].set(Arc::clone(&array)).is_ok() {
                memory.add(views_bytes);
            }
        }
        Ok(Some(array))
    }

    /// Whether a column of texts has few different ones, as far as the bytes tell that it has in its file.
    pub(crate) fn has_few_texts(&self, column: usize) -> bool {
        let of_file = |source: &ChunkSource| {
            has_bytes_of_few_texts(source.segment.chunk(source.batch).file_bytes_of(column + 1), self.rows())
        };
        column < self.column_count() && self.source.as_ref().is_some_and(of_file)
    }
}
