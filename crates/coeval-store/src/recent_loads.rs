// SPDX-License-Identifier: Apache-2.0
//! Bulk loads that active transactions may not see. They are certified by key range, because the footprint of a transaction does not
//! list the rows that it loads.
//!
//! Their number is bounded. When there are too many, the older half is replaced by one for each table: the range that
//! spans them all, at the version of the newest. A transaction that does not see one of them does not see that either, so
//! nothing is missed; one that is older than that half may be refused for a range that nobody loaded into.

use crate::ids::SpaceId;
use crate::key::Key;
use coeval_txn::Version;
use std::collections::BTreeMap;

/// So many are remembered one by one. Each certification looks at all of them.
const LOADS_MAX: usize = 1_024;

/// A load of the keys from `first` to `last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecentLoad {
    pub(crate) version: Version,
    pub(crate) table: SpaceId,
    pub(crate) first: Key,
    pub(crate) last: Key,
}

/// The loads, in the order of their versions.
#[derive(Debug)]
pub(crate) struct RecentLoads {
    loads: Vec<RecentLoad>,
    /// With as many, the older half is put together.
    review_at: usize,
}

impl Default for RecentLoads {
    fn default() -> Self {
        Self { loads: Vec::new(), review_at: LOADS_MAX }
    }
}

impl RecentLoads {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecentLoad> {
        self.loads.iter()
    }

    /// Notes a load of the newest version.
    pub(crate) fn note(&mut self, load: RecentLoad) {
        assert!(self.loads.last().is_none_or(|last| last.version <= load.version), "loads come in order");
        self.loads.push(load);
        if self.loads.len() >= self.review_at {
            let tables = self.put_together();
            // Loads into many tables stay as many as the tables; the next older half is twice as many.
            self.review_at = LOADS_MAX.max(tables * 4);
        }
    }

    /// Forgets what everybody sees.
    pub(crate) fn forget_through(&mut self, version: Version) {
        self.loads.retain(|load| load.version > version);
    }

    /// Returns how many there are of the older half now.
    fn put_together(&mut self) -> usize {
        let newer = self.loads.split_off(self.loads.len() / 2);
        let mut by_table: BTreeMap<SpaceId, RecentLoad> = BTreeMap::new();
        for load in self.loads.drain(..) {
            match by_table.get_mut(&load.table) {
                Some(all) => {
                    all.version = all.version.max(load.version);
                    if load.first < all.first {
                        all.first = load.first;
                    }
                    if load.last > all.last {
                        all.last = load.last;
                    }
                }
                None => drop(by_table.insert(load.table, load)),
            }
        }
        self.loads.extend(by_table.into_values());
        self.loads.sort_by_key(|load| load.version);
        let tables = self.loads.len();
        self.loads.extend(newer);
        tables
    }
}

#[cfg(test)]
mod tests;
