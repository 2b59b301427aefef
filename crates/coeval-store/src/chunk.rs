// SPDX-License-Identifier: Apache-2.0
//! Chunks: immutable runs of rows sorted by key, in memory as Arrow arrays beside a column of their keys.
//!
//! The keys are kept in memcomparable form in a column of their own. That costs their size once more and
//! makes finding a key a binary search over plain bytes, whatever the key's columns are; an index is a space
//! whose chunks have keys and no further columns.

mod codes;
mod packed;

use crate::allocations::for_everybody;
use crate::chunk_stats::{ChunkStats, column_stats};
use crate::column::slice_bytes;
use crate::error::StoreError;
use crate::key::Key;
use crate::key_column::KeyColumn;
use crate::segment::{Segment, SegmentChunk};
use crate::value::{ValueRef, value_at};
use arrow::array::{Array, ArrayRef};
use codes::KeptCodes;
use packed::KeptPacked;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows in a full chunk. Large enough that the work per chunk vanishes beside the work per row, small
/// enough that rewriting one for a few changed rows stays cheap.
pub const CHUNK_ROWS: usize = 65_536;

/// A chunk that has this many bytes takes no more rows: wide rows make chunks of fewer, so that reading or rewriting one
/// stays cheap, and offsets within one stay small. The last row of a chunk may pass it.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 20;

/// How large a full chunk is: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSize {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl From<usize> for ChunkSize {
    /// So many rows, and no more than the usual bytes.
    fn from(rows: usize) -> Self {
        Self { rows, bytes: CHUNK_BYTES_MAX }
    }
}

/// Where a chunk lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkPlace {
    /// The number of the segment file.
    pub segment: u64,
    /// Which of its batches.
    pub batch: u32,
}

/// An immutable run of rows sorted by key.
///
/// Its keys and columns are in memory, or in a segment file and read (and checked against their checksums and validated) one
/// by one when they are first asked for. Whoever reads rows calls [`check_whole`](Self::check_whole) first, so that damage is
/// an error; what has been read then stays for as long as the chunk. A scan of columns calls `read_scanned`, which keeps what it reads
/// only if there is room, and integers in few bytes, or `read_coded` for texts that it groups by and `read_narrow` for decimals that it
/// computes with.
#[derive(Debug)]
pub struct Chunk {
    keys: OnceLock<KeyColumn>,
    columns: Box<[OnceLock<ArrayRef>]>,
    /// Of each column.
    codes: Box<[KeptCodes]>,
    /// Of each column, too.
    packed: Box<[KeptPacked]>,
    stats: ChunkStats,
    first_key: Key,
    last_key: Key,
    source: Option<ChunkSource>,
    /// Keys and all columns are in memory: [`check_whole`](Self::check_whole) costs this load.
    is_whole: AtomicBool,
    /// Somebody asked for a part of it since the mark was last taken off.
    mark: AtomicBool,
}

/// The batch of a segment file that a chunk is.
#[derive(Debug)]
struct ChunkSource {
    segment: Arc<Segment>,
    batch: u32,
}

impl ChunkSource {
    /// Bytes in memory of the keys (0) or of a column (its number, and 1), once they are read.
    fn memory_bytes(&self, part: usize) -> u64 {
        self.segment.chunk(self.batch).memory_bytes(part)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let loaded = self.loaded_bytes();
        if let Some(source) = &self.source {
            source.segment.memory().subtract(loaded);
        }
    }
}

impl Chunk {
    /// A chunk of these columns, whose rows are in the order of `keys`.
    ///
    /// # Panics
    /// If lengths differ or there is no row. In debug builds also if the keys do not ascend.
    #[must_use]
    pub fn new(keys: KeyColumn, columns: Vec<ArrayRef>) -> Self {
        assert!(!keys.is_empty(), "a chunk has rows");
        assert!(columns.iter().all(|column| column.len() == keys.len()), "columns are as long as the keys");
        debug_assert!((1..keys.len()).all(|index| keys.get(index - 1) < keys.get(index)), "keys ascend");
        let column_stats = columns.iter().map(|column| column_stats(column.as_ref())).collect();
        Self {
            codes: columns.iter().map(|_| KeptCodes::default()).collect(),
            packed: columns.iter().map(|_| KeptPacked::default()).collect(),
            stats: ChunkStats { rows: keys.len(), columns: column_stats },
            first_key: Key::from_slice(keys.get(0)),
            last_key: Key::from_slice(keys.get(keys.len() - 1)),
            keys: OnceLock::from(keys),
            columns: columns.into_iter().map(OnceLock::from).collect(),
            source: None,
            is_whole: AtomicBool::new(true),
            mark: AtomicBool::new(false),
        }
    }

    /// The chunk that is this batch of a segment file. Reads nothing but the segment's index.
    #[must_use]
    pub(crate) fn of_segment(segment: &Arc<Segment>, batch: u32) -> Self {
        let description = segment.chunk(batch);
        Self {
            keys: OnceLock::new(),
            columns: description.stats.columns.iter().map(|_| OnceLock::new()).collect(),
            codes: description.stats.columns.iter().map(|_| KeptCodes::default()).collect(),
            packed: description.stats.columns.iter().map(|_| KeptPacked::default()).collect(),
            stats: description.stats.clone(),
            first_key: description.first_key.clone(),
            last_key: description.last_key.clone(),
            source: Some(ChunkSource { segment: Arc::clone(segment), batch }),
            is_whole: AtomicBool::new(false),
            mark: AtomicBool::new(false),
        }
    }

    /// The same of a chunk of these keys alone that has just been written there: they stay in memory as if they had been read.
    ///
    /// # Panics
    /// If that has another number of keys.
    #[must_use]
    pub(crate) fn written(segment: &Arc<Segment>, batch: u32, keys: KeyColumn) -> Self {
        let chunk = Self::of_segment(segment, batch);
        assert_eq!(keys.len(), chunk.rows(), "the keys are those that were written");
        if chunk.keys.set(keys).is_ok() {
            segment.memory().add(segment.chunk(batch).memory_bytes(0));
        }
        chunk
    }

    /// How many rows.
    #[must_use]
    #[inline]
    pub fn rows(&self) -> usize {
        self.stats.rows
    }

    /// The keys.
    ///
    /// # Panics
    /// If they have to be read from a file that is damaged; see [`check_keys`](Self::check_keys).
    #[must_use]
    #[inline]
    pub fn keys(&self) -> &KeyColumn {
        match self.keys.get() {
            Some(keys) => keys,
            None => self.read_keys().unwrap_or_else(|damage| panic!("{damage}")),
        }
    }

    /// How many columns there were when the chunk was written.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// A column; `None` if the chunk was written before the column was added.
    ///
    /// # Panics
    /// If it has to be read from a file that is damaged; see [`check_whole`](Self::check_whole).
    #[must_use]
    #[inline]
    pub fn column(&self, column: usize) -> Option<&ArrayRef> {
        let cell = self.columns.get(column)?;
        Some(match cell.get() {
            Some(array) => array,
            None => self.read_column(column).unwrap_or_else(|damage| panic!("{damage}")),
        })
    }

    /// Reads the keys and all columns if they have not been read yet, so that what follows does not panic on
    /// a damaged file. The first call costs a pass over the chunk's bytes, each one after it a load.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the file and the offset of what is damaged; [`StoreError::File`] if the disk cannot give
    /// it. Each time anew.
    #[inline]
    pub fn check_whole(&self) -> Result<(), StoreError> {
        self.set_mark();
        if self.is_whole.load(Ordering::Acquire) { Ok(()) } else { self.read_whole() }
    }

    /// [`check_whole`](Self::check_whole), of the keys alone.
    ///
    /// # Errors
    /// As [`check_whole`](Self::check_whole).
    pub fn check_keys(&self) -> Result<(), StoreError> {
        self.set_mark();
        if self.keys.get().is_none() {
            self.read_keys()?;
        }
        Ok(())
    }

    #[inline]
    fn set_mark(&self) {
        // A look first: those who read at the same time share the line.
        if !self.mark.load(Ordering::Relaxed) {
            self.mark.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody asked for a part of it since the last call.
    pub(crate) fn take_mark(&self) -> bool {
        self.mark.swap(false, Ordering::Relaxed)
    }

    #[cold]
    fn read_whole(&self) -> Result<(), StoreError> {
        self.check_keys()?;
        (0..self.column_count()).try_for_each(|column| self.read_column(column).map(drop))?;
        self.is_whole.store(true, Ordering::Release);
        Ok(())
    }

    #[cold]
    fn read_keys(&self) -> Result<&KeyColumn, StoreError> {
        let source = self.source();
        let keys = for_everybody(|| source.segment.read_keys(source.batch))?;
        Ok(self.keys.get_or_init(|| {
            source.segment.memory().add(source.memory_bytes(0));
            keys
        }))
    }

    #[cold]
    fn read_column(&self, column: usize) -> Result<&ArrayRef, StoreError> {
        if let Some(array) = self.columns[column].get() {
            return Ok(array);
        }
        let source = self.source();
        let array = for_everybody(|| source.segment.read_column(source.batch, column))?;
        Ok(self.columns[column].get_or_init(|| {
            source.segment.memory().add(source.memory_bytes(column + 1));
            array
        }))
    }

    fn source(&self) -> &ChunkSource {
        self.source.as_ref().expect("what is not in memory is in a file")
    }

    /// Bytes of what was read from its file; 0 if it has none.
    pub(crate) fn loaded_bytes(&self) -> u64 {
        let Some(source) = &self.source else { return 0 };
        let of_keys = self.keys.get().map_or(0, |_| source.memory_bytes(0));
        let columns = self.columns.iter().enumerate().filter(|(_, cell)| cell.get().is_some());
        let of_columns: u64 = columns.map(|(column, _)| source.memory_bytes(column + 1)).sum();
        let of_codes: u64 = self.codes.iter().map(KeptCodes::bytes).sum();
        of_keys + of_columns + of_codes + self.packed.iter().map(KeptPacked::bytes).sum::<u64>()
    }

    /// The same chunk, of which nothing has been read yet; `None` if it has no file.
    pub(crate) fn unloaded(&self) -> Option<Self> {
        self.source.as_ref().map(|source| Self::of_segment(&source.segment, source.batch))
    }

    /// The same chunk for somebody who reads it once: what is read for him goes with what this returns.
    pub(crate) fn to_read_once(this: &Arc<Self>) -> Arc<Self> {
        match this.unloaded() {
            Some(unloaded) if !this.is_whole.load(Ordering::Acquire) => Arc::new(unloaded),
            _ => Arc::clone(this),
        }
    }

    /// What is known without reading.
    #[must_use]
    pub fn stats(&self) -> &ChunkStats {
        &self.stats
    }

    /// The value of a column of a row; `None` if the chunk was written before the column was added.
    #[must_use]
    #[inline]
    pub fn value(&self, column: usize, index: usize) -> Option<ValueRef<'_>> {
        self.column(column).map(|array| value_at(array.as_ref(), index))
    }

    /// The first key.
    #[must_use]
    pub fn first_key(&self) -> Key {
        self.first_key.clone()
    }

    /// The last key.
    #[must_use]
    pub fn last_key(&self) -> Key {
        self.last_key.clone()
    }

    /// Where it lies on disk, if it does.
    #[must_use]
    pub fn place(&self) -> Option<ChunkPlace> {
        let source = self.source.as_ref()?;
        Some(ChunkPlace { segment: source.segment.number(), batch: source.batch })
    }

    /// The segment file that it lies in, if it does.
    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        self.source.as_ref().map(|source| &source.segment)
    }

    /// The rows before `index` and those from there on, as two chunks that share this one's arrays.
    ///
    /// # Panics
    /// If one of them would be empty, or as [`keys`](Self::keys).
    #[must_use]
    pub(crate) fn split(&self, index: usize) -> (Self, Self) {
        let slice = |start: usize, length: usize| {
            let columns = (0..self.column_count()).filter_map(|column| self.column(column));
            Self::new(
                self.keys().slice(start, length),
                columns.map(|array| array.slice(start, length)).collect(),
            )
        };
        (slice(0, index), slice(index, self.rows() - index))
    }

    /// Bytes of keys and columns as arrays in memory, whether they are there or not. Buffers shared between columns, chunks or
    /// rows count as often as they are used: so many are made where all rows are copied.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if let Some(source) = &self.source {
            return source.segment.chunk(source.batch).unshared_bytes();
        }
        let keys = self.keys().to_array();
        let columns = (0..self.column_count()).filter_map(|column| self.column(column));
        std::iter::once(&keys).chain(columns).map(|array| slice_bytes(array.as_ref())).sum()
    }

    /// Bytes of keys and columns in its file; those [in memory](Self::bytes) if it has none.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        let in_file = |source: &ChunkSource| source.segment.chunk(source.batch).file_bytes() as usize;
        self.source.as_ref().map_or_else(|| self.bytes(), in_file)
    }
}

impl SegmentChunk for Chunk {
    fn keys(&self) -> &KeyColumn {
        Self::keys(self)
    }

    fn column_count(&self) -> usize {
        Self::column_count(self)
    }

    fn column(&self, column: usize) -> Option<&ArrayRef> {
        Self::column(self, column)
    }

    fn stats(&self) -> &ChunkStats {
        Self::stats(self)
    }

    fn first_key(&self) -> Key {
        Self::first_key(self)
    }

    fn last_key(&self) -> Key {
        Self::last_key(self)
    }
}
