// SPDX-License-Identifier: Apache-2.0
//! Chunks: immutable runs of rows sorted by key, stored as Arrow arrays beside a column of their keys.
//!
//! The keys are kept in memcomparable form in a column of their own. That costs their size once more and
//! makes finding a key a binary search over plain bytes, whatever the key's columns are; an index is a space
//! whose chunks have keys and no further columns.

use crate::column::value_at;
use crate::key::Key;
use crate::value::{Value, ValueRef};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::compute::kernels::aggregate;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// Rows in a full chunk. Large enough that the work per chunk vanishes beside the work per row, small
/// enough that rewriting one for a few changed rows stays cheap.
pub const CHUNK_ROWS: usize = 65_536;

/// The keys of a chunk's rows, ascending.
#[derive(Clone, Debug)]
pub enum KeyColumn {
    /// All keys have the same length.
    Fixed(FixedSizeBinaryArray),
    /// Keys of different lengths.
    Variable(BinaryArray),
}

impl KeyColumn {
    /// How many keys.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Fixed(keys) => keys.len(),
            Self::Variable(keys) => keys.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key at `index`.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        match self {
            Self::Fixed(keys) => keys.value(index),
            Self::Variable(keys) => keys.value(index),
        }
    }

    /// Where the key is, or where it would be inserted.
    ///
    /// # Errors
    /// `Err(index)`: not there; `index` keys are smaller.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        match self {
            Self::Fixed(keys) if keys.value_length() == 8 && key.len() == 8 => {
                search_words(keys.value_data(), key)
            }
            Self::Fixed(keys) => {
                let width = keys.value_length() as usize;
                let bytes = keys.value_data();
                search(keys.len(), |index| bytes[index * width..(index + 1) * width].cmp(key))
            }
            Self::Variable(keys) => search(keys.len(), |index| keys.value(index).cmp(key)),
        }
    }

    /// The array, for the files.
    #[must_use]
    pub fn to_array(&self) -> ArrayRef {
        match self {
            Self::Fixed(keys) => Arc::new(keys.clone()),
            Self::Variable(keys) => Arc::new(keys.clone()),
        }
    }

    /// The key column in this array; `None` if the array is of another type.
    #[must_use]
    pub fn from_array(array: &dyn Array) -> Option<Self> {
        match array.data_type() {
            DataType::FixedSizeBinary(_) => Some(Self::Fixed(array.as_fixed_size_binary().clone())),
            DataType::Binary => Some(Self::Variable(array.as_binary::<i32>().clone())),
            _ => None,
        }
    }
}

#[inline]
fn search(length: usize, mut compare: impl FnMut(usize) -> Ordering) -> Result<usize, usize> {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// Eight-byte keys are the most common (one bigint): compare whole words.
#[inline]
fn search_words(bytes: &[u8], key: &[u8]) -> Result<usize, usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut wanted = [0; 8];
    wanted.copy_from_slice(key);
    let wanted = u64::from_be_bytes(wanted);
    let index = words.partition_point(|word| u64::from_be_bytes(*word) < wanted);
    if words.get(index).is_some_and(|word| u64::from_be_bytes(*word) == wanted) { Ok(index) } else { Err(index) }
}

/// Smallest and greatest value of a column in a chunk, and how many NULLs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// The least value; `None` if unknown or all are NULL.
    pub min: Option<Value>,
    /// The greatest value; `None` if unknown or all are NULL.
    pub max: Option<Value>,
    /// How many values are NULL.
    pub null_count: u64,
}

/// What is known of a chunk without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkStats {
    /// How many rows.
    pub rows: usize,
    /// Per column, in the table's column order; shorter if columns were added later.
    pub columns: Vec<ColumnStats>,
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
#[derive(Debug)]
pub struct Chunk {
    keys: KeyColumn,
    columns: Vec<ArrayRef>,
    stats: ChunkStats,
    place: OnceLock<ChunkPlace>,
}

impl Chunk {
    /// A chunk of these columns, whose rows are in the order of `keys`.
    ///
    /// # Panics
    /// If lengths differ or there is no row. In debug builds also if the keys do not ascend.
    #[must_use]
    pub fn new(keys: KeyColumn, columns: Vec<ArrayRef>) -> Self {
        let columns_stats = columns.iter().map(|column| column_stats(column.as_ref())).collect();
        let stats = ChunkStats { rows: keys.len(), columns: columns_stats };
        Self::with_stats(keys, columns, stats)
    }

    /// The same with statistics that are known already (read back from a manifest).
    ///
    /// # Panics
    /// As [`Chunk::new`].
    #[must_use]
    pub fn with_stats(keys: KeyColumn, columns: Vec<ArrayRef>, stats: ChunkStats) -> Self {
        assert!(!keys.is_empty(), "a chunk has rows");
        assert!(columns.iter().all(|column| column.len() == keys.len()), "columns are as long as the keys");
        debug_assert!((1..keys.len()).all(|index| keys.get(index - 1) < keys.get(index)), "keys ascend");
        Self { keys, columns, stats, place: OnceLock::new() }
    }

    /// How many rows.
    #[must_use]
    #[inline]
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// The keys.
    #[must_use]
    #[inline]
    pub fn keys(&self) -> &KeyColumn {
        &self.keys
    }

    /// The columns that were there when the chunk was written.
    #[must_use]
    #[inline]
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
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
        self.columns.get(column).map(|array| value_at(array.as_ref(), index))
    }

    /// The first key.
    #[must_use]
    pub fn first_key(&self) -> Key {
        Key::from_slice(self.keys.get(0))
    }

    /// The last key.
    #[must_use]
    pub fn last_key(&self) -> Key {
        Key::from_slice(self.keys.get(self.rows() - 1))
    }

    /// Where it lies on disk, once it does.
    #[must_use]
    pub fn place(&self) -> Option<ChunkPlace> {
        self.place.get().copied()
    }

    /// Says where it lies on disk.
    ///
    /// # Panics
    /// If it was said before: chunks never move.
    pub(crate) fn set_place(&self, place: ChunkPlace) {
        assert!(self.place.set(place).is_ok(), "a chunk is written once");
    }

    /// Bytes of keys and columns. Buffers shared between columns or chunks count as often as they are used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let keys = self.keys.to_array();
        std::iter::once(&keys).chain(&self.columns).map(|array| slice_bytes(array.as_ref())).sum()
    }
}

fn slice_bytes(array: &dyn Array) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Builds a column of keys.
#[derive(Debug, Default)]
pub struct KeyColumnBuilder {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    /// The length of all keys so far; `None` when they differ.
    width: Option<usize>,
    mixed: bool,
}

impl KeyColumnBuilder {
    /// An empty builder with room for `capacity` keys.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(0);
        Self { bytes: Vec::with_capacity(capacity * 16), offsets, width: None, mixed: false }
    }

    /// Appends a key, greater than all before.
    ///
    /// # Panics
    /// If the keys of one chunk pass 2 GiB.
    #[inline]
    pub fn push(&mut self, key: &[u8]) {
        match self.width {
            None => self.width = Some(key.len()),
            Some(width) if width != key.len() => self.mixed = true,
            Some(_) => {}
        }
        self.bytes.extend_from_slice(key);
        self.offsets.push(i32::try_from(self.bytes.len()).expect("the keys of a chunk stay below 2 GiB"));
    }

    /// How many keys so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column.
    #[must_use]
    pub fn finish(self) -> KeyColumn {
        match self.width {
            Some(width) if !self.mixed && width > 0 => {
                let width = i32::try_from(width).expect("a key is below 2 GiB");
                KeyColumn::Fixed(FixedSizeBinaryArray::new(width, Buffer::from_vec(self.bytes), None))
            }
            _ => {
                use arrow::buffer::{OffsetBuffer, ScalarBuffer};
                let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
                KeyColumn::Variable(BinaryArray::new(offsets, Buffer::from_vec(self.bytes), None))
            }
        }
    }
}

/// Longest text kept as a minimum or maximum: enough to prune by, bounded in the manifest.
const STATS_TEXT_MAX: usize = 64;

fn column_stats(array: &dyn Array) -> ColumnStats {
    macro_rules! primitive {
        ($type:ty, $variant:ident) => {{
            let array = array.as_primitive::<$type>();
            (aggregate::min(array).map(Value::$variant), aggregate::max(array).map(Value::$variant))
        }};
    }
    let (min, max) = match array.data_type() {
        DataType::Int16 => primitive!(Int16Type, Int16),
        DataType::Int32 => primitive!(Int32Type, Int32),
        DataType::Int64 => primitive!(Int64Type, Int64),
        DataType::Float32 => primitive!(Float32Type, Float32),
        DataType::Float64 => primitive!(Float64Type, Float64),
        DataType::Decimal128(_, _) => primitive!(Decimal128Type, Decimal),
        DataType::Date32 => primitive!(Date32Type, Int32),
        DataType::Time64(_) => primitive!(Time64MicrosecondType, Int64),
        DataType::Timestamp(_, _) => primitive!(TimestampMicrosecondType, Int64),
        DataType::Boolean => {
            let array = array.as_boolean();
            (aggregate::min_boolean(array).map(Value::Boolean), aggregate::max_boolean(array).map(Value::Boolean))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            let short = |text: &str| (text.len() <= STATS_TEXT_MAX).then(|| Value::from(text));
            (aggregate::min_string_view(array).and_then(short), aggregate::max_string_view(array).and_then(short))
        }
        _ => (None, None),
    };
    ColumnStats { min, max, null_count: array.null_count() as u64 }
}
