// SPDX-License-Identifier: Apache-2.0
//! The keys of a chunk as an Arrow array: looked up by binary search over plain bytes, and built key by key.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use std::cmp::Ordering;
use std::sync::Arc;

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

    /// `length` keys from `start` on, sharing the bytes.
    #[must_use]
    pub(crate) fn slice(&self, start: usize, length: usize) -> Self {
        match self {
            Self::Fixed(keys) => Self::Fixed(keys.slice(start, length)),
            Self::Variable(keys) => Self::Variable(keys.slice(start, length)),
        }
    }

    /// The width of the keys if they are all known to have the same.
    #[must_use]
    pub(crate) fn width(&self) -> Option<i32> {
        match self {
            Self::Fixed(keys) => Some(keys.value_length()),
            Self::Variable(_) => None,
        }
    }

    /// The same keys in the form for different lengths.
    #[must_use]
    pub(crate) fn to_variable(&self) -> BinaryArray {
        match self {
            Self::Fixed(keys) => BinaryArray::from_iter_values(keys.iter().flatten()),
            Self::Variable(keys) => keys.clone(),
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
    if words.get(index).is_some_and(|word| u64::from_be_bytes(*word) == wanted) {
        Ok(index)
    } else {
        Err(index)
    }
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
    ///
    /// # Panics
    /// If a key is 2 GiB or longer.
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
