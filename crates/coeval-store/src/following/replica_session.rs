// SPDX-License-Identifier: Apache-2.0
//! One who follows the log, as long as it is connected: what it says of its progress lets commits go on.

use crate::replicas::{Progress, ReplicaStanding, SynchronousReplicas};
use crate::shared::Shared;
use std::fmt;
use std::sync::Arc;

/// Keeps somebody listed among those that follow, until it is dropped.
pub struct ReplicaSession {
    shared: Arc<Shared>,
    number: u64,
}

impl fmt::Debug for ReplicaSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplicaSession").field(&self.number).finish()
    }
}

impl ReplicaSession {
    pub(crate) fn begin(shared: Arc<Shared>, name: &str) -> Self {
        let number = shared.replicas.add(name);
        Self { shared, number }
    }

    /// Changes how far it has come. Commits that waited for it are published.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        if self.shared.replicas.note(self.number, change) {
            self.shared.pipeline.publishing.go_on(&self.shared);
        }
    }

    /// How far it has come, and what it is to commits.
    ///
    /// # Panics
    /// Never: it is listed.
    #[must_use]
    pub fn standing(&self) -> ReplicaStanding {
        let standing = self.shared.replicas.standing(self.number);
        standing.expect("it is listed as long as this is there")
    }
}

impl Drop for ReplicaSession {
    fn drop(&mut self) {
        self.shared.replicas.remove(self.number);
    }
}

impl Shared {
    /// Changes which replicas commits wait for; those that wait for others go on.
    pub(crate) fn require_replicas(&self, required: Option<SynchronousReplicas>) {
        self.replicas.require(required);
        self.pipeline.publishing.go_on(self);
    }

    pub(crate) fn required_replicas(&self) -> Option<SynchronousReplicas> {
        self.replicas.required()
    }
}
