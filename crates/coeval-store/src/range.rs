// SPDX-License-Identifier: Apache-2.0
//! Ranges of keys and the direction to walk them in.

use crate::key::Key;
use std::ops::{Bound, RangeBounds};

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Key>,
    /// Where it ends.
    pub upper: Bound<Key>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub const fn all() -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// Every key that starts with these bytes.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let upper = Key::after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { lower: Bound::Included(Key::from_slice(prefix)), upper }
    }

    /// This key alone.
    #[must_use]
    pub fn point(key: Key) -> Self {
        Self { lower: Bound::Included(key.clone()), upper: Bound::Included(key) }
    }

    /// Whether the range can hold no key: its bounds cross or touch with one excluded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
        }
    }
}

impl RangeBounds<Key> for KeyRange {
    fn start_bound(&self) -> Bound<&Key> {
        self.lower.as_ref()
    }

    fn end_bound(&self) -> Bound<&Key> {
        self.upper.as_ref()
    }
}

/// Which way to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}
