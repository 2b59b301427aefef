// SPDX-License-Identifier: Apache-2.0
//! State outside of the store that is read together with the database: it belongs to the worlds of the store by the time at which
//! each of them was the newest.
//!
//! A world is the newest from the moment at which it is published until the next one is. The keeper of such state is called
//! around that step ([`Companion::publish`]), and so knows what its state was when a world stopped being the newest.

use coeval_txn::Version;

/// Keeps state that is read together with worlds.
pub trait Companion: Send + Sync {
    /// Publishes `new` in the place of `old`, by calling `publish` once. Whoever begins before that call reads `old`, and
    /// whoever begins behind it `new`. Commits wait for this, so it takes moments and calls the store for nothing but
    /// [`HeldVersions::list`](crate::HeldVersions::list).
    fn publish(&self, old: Version, new: Version, publish: &mut dyn FnMut());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessMode, CatalogChange, Store, StoreOptions};
    use coeval_txn::Isolation;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Default)]
    struct Noting {
        steps: Mutex<Vec<(Version, Version)>>,
    }

    impl Companion for Noting {
        fn publish(&self, old: Version, new: Version, publish: &mut dyn FnMut()) {
            self.steps.lock().push((old, new));
            publish();
        }
    }

    #[test]
    fn a_companion_is_called_around_each_step_to_a_newer_world_and_knows_what_is_held() {
        let store = Store::in_memory(StoreOptions::default());
        let companion = Arc::new(Noting::default());
        store.set_companion(Arc::clone(&companion) as Arc<dyn Companion>);
        let held = store.held_versions();
        let begin = || store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let reader = begin();
        let commit = |name: &str| {
            let mut writer = begin();
            writer.change_catalog(CatalogChange::PutSchema(name.to_owned())).unwrap();
            writer.commit().unwrap().version
        };
        let (first, second) = (commit("one"), commit("two"));
        // A checkpoint changes worlds and no versions.
        store.checkpoint().unwrap();
        assert_eq!(*companion.steps.lock(), [(reader.begin_version(), first), (first, second)]);
        assert_eq!(held.list(), [reader.begin_version()]);
        drop((reader, store));
        assert_eq!(held.list(), []);
    }
}
