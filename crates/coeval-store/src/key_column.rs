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
            Self::Fixed(keys) => search_fixed(keys.value_data(), keys.value_length() as usize, key),
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

/// Searches keys of one width that lie one behind the other.
#[inline]
fn search_fixed(bytes: &[u8], width: usize, key: &[u8]) -> Result<usize, usize> {
    match width {
        _ if key.len() != width => {
            search(bytes.len() / width, |index| bytes[index * width..][..width].cmp(key))
        }
        4..8 => search_words::<4>(bytes, width, key),
        8..=16 => search_words::<8>(bytes, width, key),
        _ => search(bytes.len() / width, |index| bytes[index * width..][..width].cmp(key)),
    }
}

/// Searches keys of at least `N` and at most twice `N` bytes: most keys are one to four integers. Two words, which
/// overlap where the key is shorter, compare as the key does.
#[inline]
fn search_words<const N: usize>(bytes: &[u8], width: usize, key: &[u8]) -> Result<usize, usize> {
    let number =
        |key: &[u8]| u128::from(word::<N>(&key[..N])) << 64 | u128::from(word::<N>(&key[width - N..]));
    let at = |index: usize| number(&bytes[index * width..][..width]);
    let wanted = number(key);
    let mut size = bytes.len() / width;
    if size == 0 {
        return Err(0);
    }
    // As many steps for every key, and no branch on what a comparison says: no predictor would learn it.
    let mut low = 0;
    while size > 1 {
        let half = size / 2;
        low = if at(low + half) <= wanted { low + half } else { low };
        size -= half;
    }
    match at(low).cmp(&wanted) {
        Ordering::Equal => Ok(low),
        Ordering::Less => Err(low + 1),
        Ordering::Greater => Err(low),
    }
}

/// The bytes as a number that compares as they do.
#[inline]
fn word<const N: usize>(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[8 - N..].copy_from_slice(&bytes[..N]);
    u64::from_be_bytes(word)
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

    /// The bytes of all keys so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
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

#[cfg(test)]
mod tests;
