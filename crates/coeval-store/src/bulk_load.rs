// SPDX-License-Identifier: Apache-2.0
//! [`BulkLoad`]: chunks on their way into a table, from the transaction that made them (`bulk.rs`) to the log and the table.

use crate::chunk::Chunk;
use crate::delta::{Delta, DeltaEntry};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::segment::SegmentRef;
use std::sync::Arc;

/// Chunks that a transaction adds to a table, and the entries for its indexes.
#[derive(Clone, Debug)]
pub(crate) struct BulkLoad {
    table: SpaceId,
    chunks: Vec<Arc<Chunk>>,
    /// For each index of the definition.
    indexes: Vec<Vec<Arc<Chunk>>>,
    /// The segment files of the chunks, rows first, then each index; empty until they are written.
    segments: Vec<SegmentRef>,
}

impl BulkLoad {
    pub(crate) fn new(table: SpaceId, chunks: Vec<Arc<Chunk>>, indexes: Vec<Vec<Arc<Chunk>>>) -> Self {
        Self { table, chunks, indexes, segments: Vec::new() }
    }

    pub(crate) fn table(&self) -> SpaceId {
        self.table
    }

    pub(crate) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    pub(crate) fn indexes(&self) -> &[Vec<Arc<Chunk>>] {
        &self.indexes
    }

    /// What its chunks take in memory, as far as they are there.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.iter().chain(self.indexes.iter().flatten()).map(|chunk| chunk.bytes()).sum()
    }

    /// The segment files of rows and indexes, if they are written.
    pub(crate) fn segments(&self) -> &[SegmentRef] {
        &self.segments
    }

    /// Puts the chunks of segment files into the place of those in memory.
    pub(crate) fn set_written(
        &mut self,
        rows: (SegmentRef, Vec<Arc<Chunk>>),
        indexes: Vec<(SegmentRef, Vec<Arc<Chunk>>)>,
    ) {
        assert_eq!(indexes.len(), self.indexes.len(), "each index has its segment");
        self.segments = vec![rows.0];
        self.chunks = rows.1;
        self.indexes.clear();
        for (segment, chunks) in indexes {
            self.segments.push(segment);
            self.indexes.push(chunks);
        }
    }

    /// Follows the table to a definition with other indexes.
    pub(crate) fn set_indexes(&mut self, indexes: Vec<Vec<Arc<Chunk>>>) {
        assert!(self.segments.is_empty(), "a load is written after the last change of definitions");
        self.indexes = indexes;
    }

    /// The first and last key.
    pub(crate) fn key_span(&self) -> Option<(Key, Key)> {
        Some((self.chunks.first()?.first_key(), self.chunks.last()?.last_key()))
    }
}

/// The entries of an index that these chunks hold, one by one.
///
/// # Errors
/// [`StoreError::Corrupt`] if a chunk is damaged.
pub(crate) fn inserted_entries(chunks: &[Arc<Chunk>]) -> Result<Delta, StoreError> {
    chunks.iter().try_for_each(|chunk| chunk.check_whole())?;
    let keys = chunks.iter().flat_map(|chunk| (0..chunk.rows()).map(|index| chunk.keys().get(index)));
    Ok(Delta::from_sorted(keys.map(|key| (Key::from_slice(key), DeltaEntry::inserted(None))).collect()))
}
