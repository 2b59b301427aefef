// SPDX-License-Identifier: Apache-2.0
//! How the entries of a run become bytes, and are found in them again.
//!
//! [`Delta`] writes a run of integers as differences, all of one width, so that any entry is read without those before
//! it and a key is found by halving:
//!
//! | bytes | content |
//! |---|---|
//! | 0..2 | number of entries `n`, little-endian like all numbers here |
//! | 2 | bytes per key `k`, 0 to 8 |
//! | 3 | bytes per value `v`, 0 to 8 |
//! | 4..12 | the first key |
//! | 12..20 | the smallest value |
//! | `n * k` | each key less the first one |
//! | `n * v` | each value less the smallest |
//! | 8 | zeros, so that eight bytes can be read at every entry, even one of width 0 |
//!
//! Signed numbers are shifted up by half their range first, which keeps their order.

/// How a run of entries, sorted by key, is laid out as bytes.
pub trait Encoding<K, V>: 'static {
    /// The bytes that [`encode`](Self::encode) would need, for more and more entries of one run.
    type Measure: Default;

    /// Takes one more entry into account; returns the bytes needed so far. Entries come in key order.
    fn measure(measure: &mut Self::Measure, key: &K, value: &V) -> usize;

    /// The bytes of a run that is not empty.
    ///
    /// # Panics
    /// If there are no entries, or more than the format can count.
    fn encode(entries: &[(K, V)]) -> Vec<u8>;

    /// The number of entries.
    fn count(bytes: &[u8]) -> usize;

    /// The key at `index`.
    ///
    /// # Panics
    /// If there is none; so does [`value`](Self::value).
    fn key(bytes: &[u8], index: usize) -> K;

    /// The value at `index`.
    ///
    /// # Panics
    /// If there is none.
    fn value(bytes: &[u8], index: usize) -> V;
}

/// A number of up to eight bytes.
pub trait Integer: Copy + Ord + Send + Sync + 'static {
    /// An unsigned number; larger for larger numbers.
    fn to_rank(self) -> u64;

    /// The number of that rank, which must be in range.
    fn from_rank(rank: u64) -> Self;
}

macro_rules! unsigned {
    ($($type:ty),*) => { $(
        impl Integer for $type {
            #[inline]
            fn to_rank(self) -> u64 {
                self as u64
            }

            #[inline]
            fn from_rank(rank: u64) -> Self {
                rank as $type
            }
        }
    )* };
}

macro_rules! signed {
    ($($type:ty),*) => { $(
        impl Integer for $type {
            #[inline]
            fn to_rank(self) -> u64 {
                (self as i64 as u64) ^ (1 << 63)
            }

            #[inline]
            fn from_rank(rank: u64) -> Self {
                (rank ^ (1 << 63)) as i64 as $type
            }
        }
    )* };
}

unsigned!(u8, u16, u32, u64, usize);
signed!(i8, i16, i32, i64, isize);

/// Differences of fixed width to the run's first key and smallest value.
#[derive(Clone, Copy, Debug)]
pub struct Delta;

const HEADER_BYTES: usize = 20;
const PADDING_BYTES: usize = 8;

/// Bytes that hold `difference`.
#[inline]
fn width(difference: u64) -> usize {
    (u64::BITS - difference.leading_zeros()).div_ceil(8) as usize
}

/// The number in the `width` bytes at `at`, of which eight can be read.
#[inline]
fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    let eight: [u8; 8] = bytes[at..at + 8].try_into().expect("a slice of eight bytes");
    let mask = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
    u64::from_le_bytes(eight) & mask
}

/// The place of the keys' and the values' part, and their widths.
#[inline]
fn layout(bytes: &[u8]) -> (usize, usize, usize) {
    (usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), usize::from(bytes[2]), usize::from(bytes[3]))
}

/// First key, and smallest and largest value so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeltaMeasure {
    count: usize,
    first: u64,
    least: u64,
    most: u64,
}

impl<K: Integer, V: Integer> Encoding<K, V> for Delta {
    type Measure = DeltaMeasure;

    fn measure(measure: &mut DeltaMeasure, key: &K, value: &V) -> usize {
        let (key, value) = (key.to_rank(), value.to_rank());
        if measure.count == 0 {
            *measure = DeltaMeasure { count: 0, first: key, least: value, most: value };
        }
        measure.count += 1;
        measure.least = measure.least.min(value);
        measure.most = measure.most.max(value);
        let entry_bytes = width(key - measure.first) + width(measure.most - measure.least);
        HEADER_BYTES + measure.count * entry_bytes + PADDING_BYTES
    }

    fn encode(entries: &[(K, V)]) -> Vec<u8> {
        let first = entries.first().expect("a run is not empty").0.to_rank();
        let last = entries[entries.len() - 1].0.to_rank();
        let count = u16::try_from(entries.len()).expect("a run has less than 65,536 entries");
        let values = || entries.iter().map(|(_, value)| value.to_rank());
        let (least, most) = values().fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        let (key_width, value_width) = (width(last - first), width(most - least));
        let length = HEADER_BYTES + entries.len() * (key_width + value_width) + PADDING_BYTES;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&[key_width as u8, value_width as u8]);
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&least.to_le_bytes());
        for (key, _) in entries {
            bytes.extend_from_slice(&(key.to_rank() - first).to_le_bytes()[..key_width]);
        }
        for value in values() {
            bytes.extend_from_slice(&(value - least).to_le_bytes()[..value_width]);
        }
        bytes.resize(length, 0);
        bytes
    }

    #[inline]
    fn count(bytes: &[u8]) -> usize {
        layout(bytes).0
    }

    #[inline]
    fn key(bytes: &[u8], index: usize) -> K {
        let (count, width, _) = layout(bytes);
        assert!(index < count, "an entry of the run");
        K::from_rank(read(bytes, 4, 8) + read(bytes, HEADER_BYTES + index * width, width))
    }

    #[inline]
    fn value(bytes: &[u8], index: usize) -> V {
        let (count, key_width, width) = layout(bytes);
        assert!(index < count, "an entry of the run");
        let at = HEADER_BYTES + count * key_width + index * width;
        V::from_rank(read(bytes, 12, 8) + read(bytes, at, width))
    }
}
