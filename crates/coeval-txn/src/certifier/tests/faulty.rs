// SPDX-License-Identifier: Apache-2.0
//! A certifier that can be told to break one rule, to see that the checker notices.

use std::mem;

use super::super::{Certifier, Conflict};
use super::history::Key;
use crate::{Access, CommitOrder, TransactionId, Version};

/// The rule to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// None: the certifier as it is.
    None,
    /// Validated reads are neither recorded nor checked.
    IgnoresReferences,
    /// Validated reads are checked, but a later deletion does not find them.
    RecordsNoReferences,
    /// Validated reads are recorded, but not checked against earlier deletions.
    ChecksNoReferences,
    /// Replaced rows are neither recorded nor checked.
    IgnoresUpdates,
    /// `>=` where `>` is meant, on the wrong side: the first version after a snapshot counts as seen.
    SeesOneVersionTooMany,
    /// The last version of a snapshot counts as not seen.
    SeesOneVersionTooFew,
    /// Earlier members of the batch being formed do not count.
    IgnoresBatchMembers,
    /// Forgets what the newest snapshot sees instead of what the oldest one sees.
    PrunesTooEarly,
    /// Replacing a row counts as replacing its key.
    TakesUpdateForIdentity,
}

impl Fault {
    /// Faults that let a transaction commit that must not.
    pub(super) const UNSAFE: [Self; 7] = [
        Self::IgnoresReferences,
        Self::RecordsNoReferences,
        Self::ChecksNoReferences,
        Self::IgnoresUpdates,
        Self::SeesOneVersionTooMany,
        Self::IgnoresBatchMembers,
        Self::PrunesTooEarly,
    ];

    /// Faults that refuse a transaction without a reason.
    pub(super) const OVERCAUTIOUS: [Self; 2] = [Self::SeesOneVersionTooFew, Self::TakesUpdateForIdentity];

    /// The access as the certifier gets to see it, or `None` if it does not.
    fn distort(self, access: Access, moment: Moment) -> Option<Access> {
        let is_lost = match self {
            Self::IgnoresReferences => access == Access::Reference,
            Self::RecordsNoReferences => access == Access::Reference && moment == Moment::Admit,
            Self::ChecksNoReferences => access == Access::Reference && moment == Moment::Certify,
            Self::IgnoresUpdates => access == Access::Update,
            _ => false,
        };
        let is_promoted = self == Self::TakesUpdateForIdentity && access == Access::Update;
        (!is_lost).then_some(if is_promoted { Access::Identity } else { access })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Certify,
    Admit,
}

/// The real certifier behind a [`Fault`].
pub(super) struct FaultyCertifier<K> {
    fault: Fault,
    inner: Certifier<K>,
    /// Admitted to the batch being formed and held back by [`Fault::IgnoresBatchMembers`].
    held_back: Vec<HeldBack<K>>,
    /// The version of the last batch that was closed.
    closed: Version,
    /// The last version that was pruned.
    pruned: Version,
}

struct HeldBack<K> {
    order: CommitOrder,
    transaction: TransactionId,
    accesses: Vec<(K, Access)>,
}

impl<K: Key> FaultyCertifier<K> {
    pub(super) fn new(fault: Fault) -> Self {
        let (closed, pruned) = (Version::ZERO, Version::ZERO);
        Self { fault, inner: Certifier::new(), held_back: Vec::new(), closed, pruned }
    }

    pub(super) fn certify(&mut self, begin: Version, accesses: &[(K, Access)]) -> Result<(), Conflict<K>> {
        let fault = self.fault;
        let begin = match fault {
            Fault::SeesOneVersionTooMany => begin.next().min(self.closed),
            Fault::SeesOneVersionTooFew => Version::new(begin.get().saturating_sub(1)),
            // Steps round the certifier's own check of this.
            Fault::PrunesTooEarly => begin.max(self.pruned),
            _ => begin,
        };
        let seen =
            accesses.iter().filter_map(|(key, access)| Some((key, fault.distort(*access, Moment::Certify)?)));
        self.inner.certify(begin, seen)
    }

    pub(super) fn admit(&mut self, order: CommitOrder, transaction: TransactionId, accesses: &[(K, Access)]) {
        let fault = self.fault;
        let recorded =
            accesses.iter().filter_map(|(key, access)| Some((key, fault.distort(*access, Moment::Admit)?)));
        if fault == Fault::IgnoresBatchMembers {
            let accesses = recorded.map(|(key, access)| (key.clone(), access)).collect();
            self.held_back.push(HeldBack { order, transaction, accesses });
        } else {
            self.inner.admit(order, transaction, recorded);
        }
    }

    pub(super) fn close_batch(&mut self, version: Version) {
        self.closed = version;
        for commit in mem::take(&mut self.held_back) {
            self.inner.admit(commit.order, commit.transaction, commit.accesses);
        }
    }

    pub(super) fn prune(&mut self, oldest: Version) {
        match self.fault {
            // Its snapshots seem older than they are, so the certifier would stop it.
            Fault::SeesOneVersionTooFew => {}
            Fault::PrunesTooEarly => {
                self.pruned = self.closed;
                self.inner.prune(self.closed);
            }
            _ => self.inner.prune(oldest),
        }
    }
}
