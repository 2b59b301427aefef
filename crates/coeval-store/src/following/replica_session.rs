// SPDX-License-Identifier: Apache-2.0
//! One who follows the log, as long as it is connected: what it says of its progress lets commits go on.

use crate::catalog::CatalogChange;
use crate::error::StoreError;
use crate::log::Lsn;
use crate::publishing::Until;
use crate::replicas::{Progress, ReplicaStanding, SynchronousCommit, SynchronousReplicas};
use crate::shared::Shared;
use crate::transaction::{AccessMode, BeginAt, Transaction};
use coeval_txn::{Isolation, Version};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
            self.shared.settle_required();
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
    /// Changes which replicas commits wait for. See `replicas.rs` for what holds meanwhile.
    pub(crate) fn require_replicas(
        self: &Arc<Self>,
        required: Option<SynchronousReplicas>,
    ) -> Result<(), StoreError> {
        let primary = self.replicas.own_name();
        let required = required.filter(|required| required.count > 0);
        let turn = self.requiring.lock();
        let required = required.map(|required| {
            let required = SynchronousReplicas { primary, ..required };
            let before = self.replicas.lists_beside(&required);
            SynchronousReplicas { before, ..required }
        });
        let known = self.applied().catalog().synchronous_replicas().cloned();
        if known == required {
            return Ok(());
        }
        let asks_for_some = required.is_some();
        if let Some(required) = &required {
            self.replicas.require_both(required.clone());
        }
        let logged = self.log_required(required);
        match (&logged, asks_for_some) {
            (Ok(()), true) => {
                self.replicas.end_before(self.pipeline.log().map_or(Lsn::START, |log| log.end_lsn()));
            }
            (Ok(()), false) => self.replicas.require(None),
            (Err(_), true) => self.replicas.take_back(),
            (Err(_), false) => {}
        }
        self.pipeline.publishing.go_on(self);
        drop(turn);
        // If there is nobody else to hear of it.
        self.settle_required();
        logged
    }

    /// Writes a list down, durably. Nobody is waited for: the commits behind it wait for all of whom it tells.
    fn log_required(self: &Arc<Self>, required: Option<SynchronousReplicas>) -> Result<(), StoreError> {
        let version = self.put_required(required)?;
        self.wait_for(version, Until::Durable, None).map_err(StoreError::under_commit)
    }

    /// The same, without a wait for the disk.
    fn put_required(self: &Arc<Self>, required: Option<SynchronousReplicas>) -> Result<Version, StoreError> {
        let mut change =
            Transaction::begin(self, Isolation::Snapshot, AccessMode::ReadWrite, BeginAt::Applied);
        change.change_catalog(CatalogChange::PutSynchronousReplicas(required))?;
        change.set_synchronous_commit(SynchronousCommit::Local);
        Ok(change.commit_applied()?.version)
    }

    /// Writes the list down without those that it follows, once enough of their machines know of it, so that a promotion need not ask
    /// them any more. Whoever has that has the change before it, which those machines have; so it may be lost, or come late: the next
    /// word of a replica looks again.
    fn settle_required(self: &Arc<Self>) {
        // Asked with each word of a replica: nothing is copied unless there is something to do.
        let to_settle = || {
            let applied = self.applied();
            let recorded = applied.catalog().synchronous_replicas()?;
            let is_due = !recorded.before.is_empty() && self.replicas.lists_beside(recorded).is_empty();
            is_due.then(|| recorded.clone())
        };
        if to_settle().is_none() {
            return;
        }
        let Some(_turn) = self.requiring.try_lock() else { return };
        let Some(required) = to_settle() else { return };
        let required = SynchronousReplicas { before: Vec::new(), ..required };
        if let Err(error) = self.put_required(Some(required)) {
            tracing::debug!(%error, "promotions still ask the synchronous replicas of before");
        }
    }

    /// Up to which version those who follow may show what they have. A store that is opened publishes all that its log has;
    /// as long as that is not confirmed, others are told of nothing.
    pub(crate) fn published_for_others(&self) -> Version {
        if self.has_confirmed() { self.published_slot().load().version() } else { Version::ZERO }
    }

    /// Whether what readers see of what the store was opened with is with as many replicas as are asked for; of a replica,
    /// whether its primary has published it.
    pub(crate) fn has_confirmed(&self) -> bool {
        if !self.is_following() {
            return self.replicas.have_recovered();
        }
        let asks_for_none = || self.applied().catalog().synchronous_replicas().is_none();
        Version::new(self.told_published.load(Ordering::Acquire)) >= self.recovered || asks_for_none()
    }

    pub(crate) fn required_replicas(&self) -> Option<SynchronousReplicas> {
        self.replicas.required()
    }
}
