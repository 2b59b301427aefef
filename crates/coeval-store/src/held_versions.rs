// SPDX-License-Identifier: Apache-2.0
//! The versions that transactions read, for code outside of the store that keeps data for them.

use crate::shared::Shared;
use coeval_txn::Version;
use std::sync::{Arc, Weak};

/// Says which versions transactions read; keeps the store from nothing.
#[derive(Clone)]
pub struct HeldVersions {
    shared: Weak<Shared>,
}

impl HeldVersions {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared) }
    }

    /// The versions that open transactions read, ascending; none once the store is closed.
    #[must_use]
    pub fn list(&self) -> Vec<Version> {
        let held = self.shared.upgrade().map(|shared| shared.held_snapshots());
        held.into_iter().flatten().map(|(version, _)| version).collect()
    }
}
