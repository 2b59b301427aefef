// SPDX-License-Identifier: Apache-2.0
//! Columns for scans: in memory as integers of few bytes ([`PackedColumn`]) where values allow it, as codes of texts where few of these
//! differ, and otherwise as arrays.
//!
//! Whoever reads row by row needs arrays, which stay where they are, so a column may be in memory in both forms. Scans take the array then,
//! of which rows are slices. Those that compute with decimals by 64-bit integers, and those that group by codes, take the other form.

use super::{Chunk, ChunkSource};
use crate::allocations::for_everybody;
use crate::chunk_column::ChunkColumn;
use crate::error::StoreError;
use crate::narrow_decimals::narrowed;
use crate::packed_column::PackedColumn;
use arrow::array::{Array, AsArray};
use arrow::datatypes::Decimal64Type;
use std::sync::{Arc, OnceLock};

/// What is in memory of a column as integers of few bytes.
#[derive(Debug, Default)]
pub(super) struct KeptPacked(OnceLock<PackedColumn>);

impl KeptPacked {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.get().map_or(0, PackedColumn::bytes)
    }
}

impl Chunk {
    /// A column for a scan; `None` if the chunk was written before it was added. What is not in memory is read, and stays if there is room
    /// for it.
    ///
    /// # Errors
    /// As [`check_whole`](Self::check_whole).
    pub(crate) fn read_scanned(&self, column: usize) -> Result<Option<ChunkColumn>, StoreError> {
        self.set_mark();
        let Some(cell) = self.columns.get(column) else { return Ok(None) };
        if let Some(array) = cell.get() {
            return Ok(Some(ChunkColumn::Array(Arc::clone(array))));
        }
        if let Some(packed) = self.packed[column].0.get() {
            return Ok(Some(ChunkColumn::Packed(packed.clone())));
        }
        // Of many texts that differ somebody may have asked for codes: views are made of these less quickly.
        if let Some(codes) = self.codes[column].get().filter(|_| self.has_few_texts(column)) {
            return Ok(Some(ChunkColumn::Coded(Arc::clone(codes))));
        }
        let source = self.source();
        let read = || source.segment.read_packed(source.batch, column);
        self.made(column, source, read).map(Some)
    }

    /// The same, decimals of few digits as `Decimal64`.
    ///
    /// # Errors
    /// As [`check_whole`](Self::check_whole).
    pub(crate) fn read_narrow(&self, column: usize) -> Result<Option<ChunkColumn>, StoreError> {
        self.set_mark();
        if let Some(packed) = self.packed.get(column).and_then(|kept| kept.0.get()) {
            return Ok(Some(ChunkColumn::Packed(packed.clone().narrowed())));
        }
        let in_memory = self.columns.get(column).and_then(OnceLock::get);
        let read = match (in_memory, &self.source) {
            (Some(decimals), Some(source)) => {
                let pack = || -> Result<ChunkColumn, StoreError> {
                    let narrow = narrowed(decimals)?;
                    Ok(match narrow.as_primitive_opt::<Decimal64Type>() {
                        Some(integers) => ChunkColumn::Packed(PackedColumn::of_integers(
                            decimals.data_type().clone(),
                            integers.values(),
                            integers.nulls().cloned(),
                        )),
                        None => ChunkColumn::Array(narrow),
                    })
                };
                Some(self.made(column, source, pack)?)
            }
            (Some(decimals), None) => Some(ChunkColumn::Array(Arc::clone(decimals))),
            (None, _) => self.read_scanned(column)?,
        };
        Ok(read.map(ChunkColumn::narrowed).transpose()?)
    }

    /// What `make` makes of a column, which stays if there is room for it.
    fn made(
        &self,
        column: usize,
        source: &ChunkSource,
        make: impl FnOnce() -> Result<ChunkColumn, StoreError>,
    ) -> Result<ChunkColumn, StoreError> {
        let (memory, array_bytes) = (source.segment.memory(), source.memory_bytes(column + 1));
        // Otherwise it takes less than as an array.
        if !memory.has_room(array_bytes) {
            return make();
        }
        let made = for_everybody(make)?;
        // Whoever makes the same at the same time may come first.
        match &made {
            ChunkColumn::Array(array) => {
                if self.columns[column].set(Arc::clone(array)).is_ok() {
                    memory.add(array_bytes);
                }
            }
            ChunkColumn::Packed(packed) => {
                if self.packed[column].0.set(packed.clone()).is_ok() {
                    memory.add(packed.bytes());
                }
            }
            ChunkColumn::Coded(codes) => {
                if let Some(bytes) = self.codes[column].keep(codes) {
                    memory.add(bytes);
                }
            }
        }
        Ok(made)
    }
}
