// SPDX-License-Identifier: Apache-2.0
//! What clients were told, and what they have seen that cannot be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// Of all clients of a cluster. Loads and rows are known by numbers, of which each is used once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Loads that somebody has asked for.
    pub(crate) asked: BTreeSet<u64>,
    /// Those that were acknowledged.
    pub(crate) acknowledged: BTreeSet<u64>,
    /// Those of which it was said that nothing is left of them.
    pub(crate) refused: BTreeSet<u64>,
    /// Rows that were acknowledged.
    pub(crate) rows: BTreeSet<u64>,
    /// Looks at the whole table in a snapshot, by dashboards.
    pub(crate) looks: usize,
    /// Loads that the fullest of these has shown.
    pub(crate) most: u64,
    /// What is against a promise, or nobody expects.
    pub(crate) broken: Vec<String>,
}

/// See [`Told`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Told>>);

impl Ledger {
    /// Locked for as long as the answer is kept.
    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap()
    }

    pub(crate) fn note_broken(&self, what: String) {
        self.told().broken.push(what);
    }
}
