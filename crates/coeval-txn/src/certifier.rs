// SPDX-License-Identifier: Apache-2.0
//! Certification under snapshot isolation: first committer wins, by key.
//!
//! A transaction's *footprint* is the keys it accessed, each with its [`Access`]: the write set together
//! with the validated reads. It may commit if no transaction that it does not see, committed or admitted
//! before it to the batch being formed, has an access that conflicts by
//! [`CONFLICT_RULES`](crate::CONFLICT_RULES).
//!
//! Steps, all under the caller's commit lock:
//!
//! ```text
//! open a batch: version = last version + 1
//!   for each transaction, in order:
//!     certify(begin, footprint)          refused: tell its client, go on with the next
//!     admit(version and position, ..)    from here on it counts as committed
//! close the batch: log, apply, publish
//! prune(oldest active snapshot)
//! ```
//!
//! Members of the batch being formed need no rule of their own. The batch's version is later than every
//! snapshot, so "committed after my snapshot" covers them.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use thiserror::Error;

use crate::recent_keys::{Mark, RecentKeys};
use crate::{Access, CommitOrder, TransactionId, Version};

/// One [`Certifier::prune`] forgets at least this many keys if there are so many to forget: well below a
/// millisecond, even when they are no longer in the processor's caches.
const PRUNE_STEP_MIN: usize = 4096;

/// One [`Certifier::prune`] forgets up to this many keys for each access admitted since the last, so that
/// what a long transaction made pile up gets less even while commits go on.
const PRUNE_PER_ADMITTED: usize = 2;

const _: () = assert!(PRUNE_PER_ADMITTED > 1, "pruning must be faster than admission");

/// Decides who may commit under snapshot isolation, and remembers who did.
///
/// Used with `&mut` under the caller's commit lock; it has no lock, no thread and no I/O of its own.
///
/// There is no way to take an admitted transaction back. The only thing that can fail after admission is
/// writing the log, and a failed log write stops all commits: no later transaction is certified against a
/// member of a batch that never was.
///
/// At READ COMMITTED each statement has its own snapshot: call [`certify`](Self::certify) once for each,
/// with the accesses made under it, then [`admit`](Self::admit) all of them.
///
/// ```
/// use coeval_txn::{Access, Certifier, CommitOrder, TransactionId, Version};
///
/// let mut certifier = Certifier::<&str>::new();
/// let begin = Version::ZERO; // both transactions read the world before the first commit
/// let footprint = [("account 1", Access::Update)];
///
/// certifier.certify(begin, footprint).expect("nobody else has committed");
/// let order = CommitOrder { version: begin.next(), position: 0 };
/// certifier.admit(order, TransactionId::new(1), footprint);
///
/// let conflict = certifier.certify(begin, footprint).expect_err("the first committer wins");
/// assert_eq!(conflict.other_transaction, TransactionId::new(1));
/// ```
pub struct Certifier<K> {
    recent: RecentKeys<K>,
    /// The last commit admitted.
    newest_commit: CommitOrder,
    /// The newest snapshot certified. A batch must be later than it: snapshots hold whole batches.
    newest_begin: Version,
    /// Commits up to here may be forgotten already.
    pruned: Version,
    /// Accesses admitted since the last prune.
    admitted_count: usize,
}

impl<K: Clone + Eq + Hash> Certifier<K> {
    /// A certifier that knows of no commit. After recovery too: whoever begins then sees all that was
    /// recovered.
    #[must_use]
    pub fn new() -> Self {
        Self {
            recent: RecentKeys::new(),
            newest_commit: CommitOrder::default(),
            newest_begin: Version::ZERO,
            pruned: Version::ZERO,
            admitted_count: 0,
        }
    }

    /// Whether a transaction that reads the snapshot `begin` and has this footprint may commit now.
    ///
    /// Checks against everything admitted with a version after `begin`, members of the batch being formed
    /// included. Nothing is recorded: after `Ok` call [`admit`](Self::admit) before the next `certify`. Keys
    /// may come in any order and more than once, by value or by reference; a transaction never conflicts
    /// with itself.
    ///
    /// Cost: nothing if no commit was admitted after `begin`, otherwise one hash lookup for each access. No
    /// allocation, except for the key in an error.
    ///
    /// # Errors
    ///
    /// [`Conflict`] names the first of the given accesses that has a conflict, and one commit that it
    /// conflicts with. The certifier is as before; the transaction must end, or start again from a newer
    /// snapshot.
    ///
    /// # Panics
    ///
    /// If commits after `begin` may be forgotten already: the snapshot was not in the registry that
    /// [`prune`](Self::prune) was called by.
    #[inline]
    pub fn certify<Q: Borrow<K>>(
        &mut self,
        begin: Version,
        accesses: impl IntoIterator<Item = (Q, Access)>,
    ) -> Result<(), Conflict<K>> {
        assert!(begin >= self.pruned, "snapshot {begin} is older than the pruned version {}", self.pruned);
        self.newest_begin = self.newest_begin.max(begin);
        if self.newest_commit.version <= begin {
            return Ok(());
        }
        for (key, mine) in accesses {
            let key = key.borrow();
            let Some(marks) = self.recent.find(key) else { continue };
            if let Some((other, mark)) = marks.conflict_after(begin, mine) {
                return Err(Conflict {
                    key: key.clone(),
                    mine,
                    other,
                    other_version: mark.version,
                    other_transaction: mark.transaction,
                });
            }
        }
        Ok(())
    }

    /// Records a certified transaction as committed at `order`.
    ///
    /// From here on it counts for every later certification. `accesses` must be what was certified.
    ///
    /// Cost: one hash lookup for each access, and a clone of each key that is not remembered yet.
    ///
    /// # Panics
    ///
    /// If `order` is not later than the last commit admitted, or its version is not later than every
    /// snapshot certified so far (somebody already reads the batch that is still being formed).
    #[inline]
    pub fn admit<Q: Borrow<K>>(
        &mut self,
        order: CommitOrder,
        transaction: TransactionId,
        accesses: impl IntoIterator<Item = (Q, Access)>,
    ) {
        let is_first = self.newest_commit.version == Version::ZERO;
        assert!(is_first || order > self.newest_commit, "commit {order} after {}", self.newest_commit);
        assert!(order.version > self.newest_begin, "version {} has a snapshot already", order.version);
        self.newest_commit = order;
        let mark = Mark { version: order.version, transaction };
        for (key, access) in accesses {
            self.recent.record(key.borrow(), access, mark);
            self.admitted_count += 1;
        }
    }

    /// Allows to forget the commits that every transaction sees which may still be certified: those at or
    /// below `oldest`.
    ///
    /// `oldest` comes from [`ActiveSnapshots::oldest_or`](crate::ActiveSnapshots::oldest_or). An `oldest`
    /// below an earlier one changes nothing: what is forgotten stays so.
    ///
    /// Cost: amortized constant for each access admitted. A single call forgets a bounded number of keys
    /// (at least 4096 if there are so many) and leaves the rest to the next calls, because it runs under the
    /// commit lock; call it after each batch. Keys that are left over change no verdict.
    pub fn prune(&mut self, oldest: Version) {
        self.pruned = self.pruned.max(oldest);
        let limit = PRUNE_STEP_MIN.max(self.admitted_count.saturating_mul(PRUNE_PER_ADMITTED));
        self.admitted_count = 0;
        self.recent.forget_through(self.pruned, limit);
    }

    /// The keys that commits after `begin` accessed, each once, in any order.
    ///
    /// Cost: the number of those keys.
    ///
    /// # Panics
    ///
    /// If commits after `begin` may be forgotten already, as in [`certify`](Self::certify).
    pub fn keys_since(&self, begin: Version) -> impl Iterator<Item = &K> {
        assert!(begin >= self.pruned, "snapshot {begin} is older than the pruned version {}", self.pruned);
        self.recent.since(begin)
    }

    /// How many keys are remembered: the distinct keys accessed by commits since the oldest active snapshot,
    /// and what [`prune`](Self::prune) has left for later.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash> Default for Certifier<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Certifier<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certifier")
            .field("len", &self.len())
            .field("newest_commit", &self.newest_commit)
            .field("newest_begin", &self.newest_begin)
            .field("pruned", &self.pruned)
            .finish_non_exhaustive()
    }
}

/// Why a transaction may not commit: another one got there first. Starting again may help.
///
/// The message leaves the key out, because here it is opaque; who knows what it stands for adds it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "could not serialize access: transaction {other_transaction}, committed in version {other_version}, \
     is concurrent and conflicts with it ({other:?} there, {mine:?} here)"
)]
pub struct Conflict<K> {
    /// The key that both accessed.
    pub key: K,
    /// What the refused transaction did to it.
    pub mine: Access,
    /// What the other did to it.
    pub other: Access,
    /// The version that the other committed in; it may not be published yet.
    pub other_version: Version,
    /// The other.
    pub other_transaction: TransactionId,
}

#[cfg(test)]
mod tests;
