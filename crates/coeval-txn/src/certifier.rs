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
//!
//! # Bounded memory
//! What an old snapshot does not see cannot be forgotten, so a transaction that idles would make the record grow without
//! an end. A [`Certifier::bounded`] remembers so many keys, and so many bytes of long ones. Beyond that the key that was
//! accessed least lately is replaced by a mark of its *group* (its table, say), and the marks of all groups by one if there
//! are too many: the latest commit of each [`Access`] to any key that was given up.
//!
//! *Nothing is missed.* Let a commit after `begin` conflict with an access to key `k`. Its mark of `k` is remembered, or a
//! later one of the same kind is; or `k` was given up, and then its mark or a later one of the same kind is in the mark
//! of its group, or of everything. Marks of a kind are replaced by later ones of that kind alone, and a later commit is
//! after `begin` as well. So certification finds one of them and refuses.
//!
//! *Large footprints.* What is done for each key under the commit lock keeps everybody else from committing. So the keys of a
//! large transaction may be remembered as one list ([`Certifier::admit_large`]), which was sorted before. A commit after `begin`
//! is then remembered by its keys' marks, or by its list, or was given up from either; a list that is given up leaves the marks
//! of all its groups.
//!
//! *Who pays.* A transaction is refused for a key that nobody touched only if it began before the newest commit that was
//! given up (`coarse_through`), and somebody accessed another key of its group since in a way that would conflict. All
//! others are decided exactly.

mod large_footprint;

pub use large_footprint::LargeFootprint;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use thiserror::Error;

use crate::certifier::large_footprint::{LISTS_MAX, LargeFootprints};
use crate::recent_keys::{Mark, Marks, RecentKeys};
use crate::{Access, CommitOrder, TransactionId, Version};

/// One [`Certifier::prune`] forgets at least this many keys if there are so many to forget: well below a
/// millisecond, even when they are no longer in the processor's caches.
const PRUNE_STEP_MIN: usize = 4096;

/// One [`Certifier::prune`] forgets up to this many keys for each access admitted since the last, so that
/// what a long transaction made pile up gets less even while commits go on.
const PRUNE_PER_ADMITTED: usize = 2;

const _: () = assert!(PRUNE_PER_ADMITTED > 1, "pruning must be faster than admission");

/// With marks of more groups than this, one mark takes the place of all: a few hundred kilobytes.
const GROUPS_MAX: usize = 4_096;

/// What remembered keys may have on the heap, for each that may be remembered: twice what an entry takes with a key
/// that has nothing there. Counted apart, so that a few long keys do not make all short ones go.
const HEAP_BYTES_PER_KEY: usize = 64;

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
    large: LargeFootprints<K>,
    /// The last commit admitted.
    newest_commit: CommitOrder,
    /// The newest snapshot certified. A batch must be later than it: snapshots hold whole batches.
    newest_begin: Version,
    /// Commits up to here may be forgotten already.
    pruned: Version,
    /// Accesses admitted since the last prune.
    admitted_count: usize,
    keys_max: usize,
    heap_bytes_max: usize,
    /// What a key belongs to.
    group: fn(&K) -> u32,
    coarse: Coarse,
}

/// What is left of keys that were given up.
#[derive(Default)]
struct Coarse {
    /// The newest commit whose mark was given up.
    through: Version,
    groups: HashMap<u32, Marks>,
    /// Of all groups, once there were too many.
    everything: Option<Marks>,
}

impl Coarse {
    fn note(&mut self, group: u32, marks: &Marks) {
        self.through = self.through.max(marks.latest());
        if let Some(everything) = &mut self.everything {
            everything.merge(marks);
            return;
        }
        self.groups.entry(group).or_insert(Marks::NEVER).merge(marks);
        if self.groups.len() > GROUPS_MAX {
            let mut everything = Marks::NEVER;
            self.groups.drain().for_each(|(_, marks)| everything.merge(&marks));
            self.groups.shrink_to_fit();
            self.everything = Some(everything);
        }
    }

    fn of(&self, group: u32) -> Option<&Marks> {
        self.everything.as_ref().or_else(|| self.groups.get(&group))
    }

    /// Nobody asks about commits up to `version` any more.
    fn forget_through(&mut self, version: Version) {
        if self.through > Version::ZERO && self.through <= version {
            *self = Self::default();
        }
    }
}

impl<K: Clone + Ord + Hash> Certifier<K> {
    /// A certifier that knows of no commit. After recovery too: whoever begins then sees all that was
    /// recovered.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(usize::MAX, |_| 0, |_| 0)
    }

    /// As [`new`](Self::new), with marks of at most `keys_max` keys, which have at most 64 bytes on the heap on average:
    /// beyond that, of the groups that keys belong to. `heap_bytes` says what a key has there, always the same. See the
    /// module.
    ///
    /// # Panics
    /// If `keys_max` is zero.
    #[must_use]
    pub fn bounded(keys_max: usize, group: fn(&K) -> u32, heap_bytes: fn(&K) -> usize) -> Self {
        assert!(keys_max > 0, "some key is remembered");
        Self {
            keys_max,
            heap_bytes_max: keys_max.saturating_mul(HEAP_BYTES_PER_KEY),
            group,
            coarse: Coarse::default(),
            recent: RecentKeys::new(heap_bytes),
            large: LargeFootprints::new(),
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
    /// Cost: nothing if no commit was admitted after `begin`, otherwise one hash lookup for each access, and one in each list of
    /// the large transactions since. No allocation, except for the key in an error.
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
            let exact = self.recent.find(key).and_then(|marks| marks.conflict_after(begin, mine));
            let exact = exact.or_else(|| self.large.conflict_after(key, begin, mine));
            let found = match exact {
                Some(found) => Some((found, Precision::Key)),
                None if begin < self.coarse.through => {
                    let marks = self.coarse.of((self.group)(key));
                    let found = marks.and_then(|marks| marks.conflict_after(begin, mine));
                    found.map(|found| (found, Precision::Group))
                }
                None => None,
            };
            if let Some(((other, mark), precision)) = found {
                return Err(Conflict {
                    key: key.clone(),
                    mine,
                    other,
                    other_version: mark.version,
                    other_transaction: mark.transaction,
                    precision,
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
        let mark = self.next_mark(order, transaction);
        for (key, access) in accesses {
            self.recent.record(key.borrow(), access, mark);
            self.admitted_count += 1;
            self.coarsen();
        }
    }

    /// Records a certified transaction as committed at `order`, as [`admit`](Self::admit) does.
    ///
    /// Cost: little, however many keys the footprint has; with sixteen of them remembered that of `admit`. Whoever began before
    /// them is certified at the cost of a look-up in each.
    ///
    /// # Panics
    /// As [`admit`](Self::admit).
    pub fn admit_large(
        &mut self,
        order: CommitOrder,
        transaction: TransactionId,
        footprint: Arc<LargeFootprint<K>>,
    ) {
        if self.large.count() >= LISTS_MAX {
            self.admit(order, transaction, footprint.accesses());
            return;
        }
        let mark = self.next_mark(order, transaction);
        self.large.push(mark, footprint);
        self.coarsen();
    }

    /// The mark of the next commit.
    fn next_mark(&mut self, order: CommitOrder, transaction: TransactionId) -> Mark {
        let is_first = self.newest_commit.version == Version::ZERO;
        assert!(is_first || order > self.newest_commit, "commit {order} after {}", self.newest_commit);
        assert!(order.version > self.newest_begin, "version {} has a snapshot already", order.version);
        self.newest_commit = order;
        Mark { version: order.version, transaction }
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
        self.large.forget_through(self.pruned);
        self.coarse.forget_through(self.pruned);
    }

    /// The lists of large transactions that were forgotten: to be let go of without the commit lock, as that takes as long as
    /// they have keys.
    #[must_use]
    pub fn take_forgotten(&mut self) -> Vec<Arc<LargeFootprint<K>>> {
        self.large.take_forgotten()
    }

    /// Gives up the oldest keys while there are too many, or they are too long.
    #[inline]
    fn coarsen(&mut self) {
        while self.len() > self.keys_max || self.heap_bytes() > self.heap_bytes_max {
            let oldest_large = self.large.oldest();
            if let Some(version) =
                oldest_large.filter(|large| self.recent.oldest().is_none_or(|key| *large <= key))
            {
                let groups = self.large.forget_oldest();
                // What everybody sees is just forgotten.
                if version > self.pruned {
                    groups.for_each(|(group, marks)| self.coarse.note(group, &marks));
                }
                continue;
            }
            let (key, marks) = self.recent.forget_oldest().expect("what is too much is something");
            // What everybody sees is just forgotten.
            if marks.latest() > self.pruned {
                self.coarse.note((self.group)(&key), &marks);
            }
        }
    }

    /// The keys that commits after `begin` accessed, each once, in any order; none if some of them were given up.
    ///
    /// Cost: the number of those keys.
    ///
    /// # Panics
    ///
    /// If commits after `begin` may be forgotten already, as in [`certify`](Self::certify).
    pub fn keys_since(&self, begin: Version) -> Option<impl Iterator<Item = &K>> {
        assert!(begin >= self.pruned, "snapshot {begin} is older than the pruned version {}", self.pruned);
        let is_exact = begin >= self.coarse.through;
        is_exact.then(|| {
            let is_recent = move |key: &&K| self.recent.find(key).is_some_and(|marks| marks.latest() > begin);
            let of_large = self.large.keys_since(begin).filter(move |key| !is_recent(key));
            self.recent.since(begin).chain(of_large)
        })
    }

    /// How many keys are remembered: the distinct keys accessed by commits since the oldest active snapshot, as far as
    /// they were not given up, and what [`prune`](Self::prune) has left for later.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.large.keys()
    }

    /// What the remembered keys have on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.recent.heap_bytes() + self.large.heap_bytes()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Ord + Hash> Default for Certifier<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Ord + Hash> fmt::Debug for Certifier<K> {
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
    /// What is known of where it did.
    pub precision: Precision,
}

/// How exactly a conflict is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The other accessed that very key.
    Key,
    /// The other accessed a key of the same group, or of any; which one was given up.
    Group,
}

#[cfg(test)]
mod tests;
