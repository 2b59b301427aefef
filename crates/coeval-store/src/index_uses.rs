// SPDX-License-Identifier: Apache-2.0
//! [`IndexUses`]: how often each index was walked since the store was opened.

use crate::ids::SpaceId;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by index. Those of indexes that are gone stay: numbers are given once.
#[derive(Default)]
pub(crate) struct IndexUses(ArcSwap<HashMap<SpaceId, Arc<AtomicU64>>>);

impl IndexUses {
    /// Counts a walk. Waits for nobody.
    ///
    /// Cost: a look-up and an atomic addition; the first of an index copies the table of counts.
    #[inline]
    pub(crate) fn note(&self, index: SpaceId) {
        match self.0.load().get(&index) {
            Some(count) => count.fetch_add(1, Ordering::Relaxed),
            None => self.begin(index).fetch_add(1, Ordering::Relaxed),
        };
    }

    #[cold]
    fn begin(&self, index: SpaceId) -> Arc<AtomicU64> {
        let count = Arc::default();
        self.0.rcu(|counts| {
            let mut counts = HashMap::clone(counts);
            counts.entry(index).or_insert_with(|| Arc::clone(&count));
            counts
        });
        self.0.load().get(&index).map_or(count, Arc::clone)
    }

    /// How often it was walked.
    pub(crate) fn count(&self, index: SpaceId) -> u64 {
        self.0.load().get(&index).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_its_own_count_whoever_is_first() {
        let uses = IndexUses::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..1_000 {
                        uses.note(SpaceId::new(turn % 10));
                    }
                });
            }
        });
        assert!((0..10).all(|index| uses.count(SpaceId::new(index)) == 400));
        assert_eq!(uses.count(SpaceId::new(10)), 0);
    }
}
