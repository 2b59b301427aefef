// SPDX-License-Identifier: Apache-2.0
//! What UPDATE and DELETE have in common: which rows a walk is to change, and how far it may go for them.

use super::access::{NextColumn, Step};
use super::select::ROWS_VISITED_MAX;
use coeval_store::Key;
use std::collections::HashSet;

/// The rows that are changed: each once, as the first combination of rows says that it is in.
pub(super) enum Targets {
    /// The walk meets each of them once.
    Each,
    /// It may meet them with several rows of other tables.
    Once(HashSet<Key>),
}

impl Targets {
    /// Those of a walk.
    pub(super) fn of(steps: &[Step]) -> Self {
        if steps.len() > 1 { Self::Once(HashSet::new()) } else { Self::Each }
    }

    /// Whether the row with this key is to be changed now.
    pub(super) fn take(&mut self, key: &Key) -> bool {
        match self {
            Self::Each => true,
            Self::Once(seen) => seen.insert(key.clone()),
        }
    }
}

/// How many rows a walk visits before the change is left to the general path. That does no better with the rows of one table by a key, as
/// long as little is kept of them, but it does with joins and subqueries of many rows.
pub(super) fn rows_visited_max(steps: &[Step]) -> usize {
    let is_alone = |step: &Step| step.checks.is_empty() && !matches!(step.access.next, NextColumn::Found(_));
    match steps {
        [step] if is_alone(step) => usize::MAX,
        _ => ROWS_VISITED_MAX,
    }
}
