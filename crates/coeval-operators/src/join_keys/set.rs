// SPDX-License-Identifier: Apache-2.0
//! The keys of a join's smaller side: as they were noted, and as sets.

use super::bits::KeyBits;
use super::bloom::KeyBloom;
use arrow::array::ArrayRef;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the operator below a join and the scans on its other side have in common.
///
/// # Locking
///
/// `state` is locked while the set is made of what was noted, so that it is made once: whoever else asks meanwhile waits for it.
/// Nothing else is locked meanwhile.
#[derive(Debug)]
pub struct JoinKeys {
    rows_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// The smaller side has not ended yet, or it had too many rows.
    #[default]
    Unknown,
    /// The columns of keys of each of its batches.
    Noted(Vec<Vec<ArrayRef>>),
    /// What was made of them.
    Made(Arc<KeySet>),
}

impl JoinKeys {
    /// Of a smaller side that counts if it has so many rows at most.
    #[must_use]
    pub fn new(rows_max: usize) -> Self {
        Self { rows_max, state: Mutex::default() }
    }

    /// The set of all keys; `None` as long as they are not known, and if they are too many.
    #[must_use]
    pub fn set(&self) -> Option<Arc<KeySet>> {
        let mut state = self.lock();
        let set = match std::mem::take(&mut *state) {
            State::Unknown => return None,
            State::Noted(batches) => Arc::new(KeySet::of(&batches)),
            State::Made(set) => set,
        };
        *state = State::Made(Arc::clone(&set));
        Some(set)
    }

    pub(super) fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// These are all of them.
    pub(super) fn note(&self, batches: Vec<Vec<ArrayRef>>) {
        *self.lock() = State::Noted(batches);
    }

    /// The smaller side is read anew, and may have other rows than before.
    pub(super) fn forget(&self) {
        *self.lock() = State::Unknown;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of a join's smaller side.
#[derive(Debug)]
pub struct KeySet {
    columns: Vec<Option<KeyBits>>,
    together: Option<KeyBloom>,
}

impl KeySet {
    /// Those of these batches, each of which has all columns of keys.
    pub(super) fn of(batches: &[Vec<ArrayRef>]) -> Self {
        let count = batches.first().map_or(0, Vec::len);
        let pieces = |column: usize| batches.iter().map(|columns| &columns[column]).collect::<Vec<_>>();
        let columns: Vec<Option<KeyBits>> = (0..count).map(|column| KeyBits::of(&pieces(column))).collect();
        // The bits of a single column say all that there is to say.
        let together = if let [Some(_)] = columns[..] { None } else { KeyBloom::of(batches) };
        Self { columns, together }
    }

    /// The values of the column at this place among the keys; `None` if they are too far apart.
    #[must_use]
    pub fn column(&self, place: usize) -> Option<&KeyBits> {
        self.columns.get(place)?.as_ref()
    }

    /// The keys together; `None` if the bits of their only column say more.
    #[must_use]
    pub fn together(&self) -> Option<&KeyBloom> {
        self.together.as_ref()
    }
}
