// SPDX-License-Identifier: Apache-2.0
//! Keys: memcomparable bytes, kept inline when short. How values are written in them: `value/components.rs`.

use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use triomphe::Arc;

/// The longest key kept inline: with its length and the tag it fills 32 bytes, half a cache line.
pub const KEY_INLINE_MAX: usize = 30;

const _: () = assert!(size_of::<Key>() == 32);

/// A memcomparable key. Cloning one of at most [`KEY_INLINE_MAX`] bytes allocates nothing.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    /// `bytes[length..]` is zero, so that whole words can be compared.
    Inline {
        length: u8,
        bytes: [u8; KEY_INLINE_MAX],
    },
    Heap(Arc<[u8]>),
}

impl Key {
    /// The smallest key of all: no bytes.
    pub const MIN: Self = Self(Repr::Inline { length: 0, bytes: [0; KEY_INLINE_MAX] });

    /// The key with these bytes.
    #[must_use]
    #[inline]
    pub fn from_slice(slice: &[u8]) -> Self {
        if slice.len() <= KEY_INLINE_MAX {
            let mut bytes = [0; KEY_INLINE_MAX];
            bytes[..slice.len()].copy_from_slice(slice);
            Self(Repr::Inline { length: slice.len() as u8, bytes })
        } else {
            Self(Repr::Heap(Arc::from(slice)))
        }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Repr::Heap(bytes) => bytes,
        }
    }

    /// The smallest key above all keys that start with these bytes; `None` if there is none (all 0xFF).
    #[must_use]
    pub fn after_prefix(prefix: &[u8]) -> Option<Self> {
        let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
        let mut bytes: SmallVec<[u8; 64]> = SmallVec::from_slice(&prefix[..=last]);
        bytes[last] += 1;
        Some(Self::from_slice(&bytes))
    }

    /// Compares keys of which the first two words are equal if both are inline.
    fn cmp_on(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Inline { length: a_length, bytes: a }, Repr::Inline { length: b_length, bytes: b }) => {
                // The last word overlaps the one before it, whose bytes are equal by then.
                for at in [16, KEY_INLINE_MAX - 8] {
                    let (x, y) = (word(a, at), word(b, at));
                    if x != y {
                        return x.cmp(&y);
                    }
                }
                a_length.cmp(b_length)
            }
            _ => self.as_slice().cmp(other.as_slice()),
        }
    }

    /// Bytes this key holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } => 0,
            Repr::Heap(bytes) => bytes.len() + 2 * size_of::<usize>(),
        }
    }
}

#[inline]
fn word(bytes: &[u8; KEY_INLINE_MAX], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

impl Ord for Key {
    /// Inlined as far as the first two words, which decide between nearly all keys of one space.
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Inline { bytes: a, .. }, Repr::Inline { bytes: b, .. }) = (&self.0, &other.0) {
            let (x, y) = (word(a, 0), word(b, 0));
            if x != y {
                return x.cmp(&y);
            }
            let (x, y) = (word(a, 8), word(b, 8));
            if x != y {
                return x.cmp(&y);
            }
        }
        self.cmp_on(other)
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_slice());
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// The longest key of a row and the longest entry of an index (its columns, then the row's key), in bytes: some three times
/// what PostgreSQL takes, so that what fits there fits here, and little enough that a chunk's keys are found in memory.
/// Keys that an older version wrote may be longer; they stay.
pub const KEY_BYTES_MAX: usize = 8_191;

#[cfg(test)]
mod tests;
