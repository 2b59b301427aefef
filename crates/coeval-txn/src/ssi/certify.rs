// SPDX-License-Identifier: Apache-2.0
//! Certification under serializable snapshot isolation, at commit.
//!
//! Steps, all under the caller's commit lock, beside those of [`Certifier`](crate::Certifier):
//!
//! ```text
//! for each transaction of the batch, in order:
//!   certifier.certify(..)                 first committer wins
//!   ssi.certify(begin, reads, writes)     out-edges, then source rule, then pivot rule
//!   certifier.admit(..), ssi.admit(..)    from here on it counts as committed
//! ssi.prune(oldest certifying, oldest serializable)
//! ```
//!
//! Out-edges come first: a transaction without any never fails, so nearly all of them end there.

use std::fmt;
use std::hash::Hash;

use super::commit_log::{Commit, KeyAmount};
use super::conflict::{Counterpart, Place, SsiConflict, SsiRule};
use super::limits::SsiLimits;
use super::out_edges::{OutEdges, Writes};
use super::read_marks::{ReadMarks, Reader};
use super::read_set::ReadSet;
use super::rules::Rules;
use super::space_writes::Written;
use super::spaces::Spaces;
use crate::{CommitOrder, TransactionId, Version};

/// Decides who may commit under serializable snapshot isolation, and remembers who did.
///
/// Used with `&mut` under the caller's commit lock, beside a [`Certifier`](crate::Certifier), which sees to
/// first committer wins: this one relies on it. It has no lock, no thread and no I/O of its own.
///
/// Every commit is recorded here, of any level. A transaction below SERIALIZABLE and a blind writer come with
/// an empty read set, and any snapshot that they still hold: serializability holds among SERIALIZABLE
/// transactions, and those see the writes of the others as if they had been made blindly. A transaction that
/// wrote nothing comes too, through [`admit_reader`](Self::admit_reader), unless it read a safe snapshot.
///
/// ```
/// use coeval_txn::ssi::{ReadSet, Ssi, SsiRule, Written};
/// use coeval_txn::{CommitOrder, TransactionId, Version};
///
/// // Two doctors on call: each reads both rows and takes one of them off.
/// let mut ssi = Ssi::<u32, &str>::new();
/// let begin = Version::ZERO;
/// let mut reads = ReadSet::new();
/// reads.read_key(1, &"alice");
/// reads.read_key(1, &"bob");
///
/// let alice = [(1, Written::Key(&"alice"))];
/// let certified = ssi.certify(begin, &reads, alice.into_iter(), None).expect("nobody else has committed");
/// let order = CommitOrder { version: begin.next(), position: 0 };
/// ssi.admit(order, TransactionId::new(1), &reads, alice.into_iter(), certified);
///
/// let bob = [(1, Written::Key(&"bob"))];
/// let conflict = ssi.certify(begin, &reads, bob.into_iter(), None).expect_err("write skew");
/// assert_eq!((conflict.rule, conflict.place.key), (SsiRule::Pivot, Some("bob")));
/// ```
pub struct Ssi<S, K> {
    pub(super) spaces: Spaces<S, K>,
    pub(super) readers: ReadMarks<S, K>,
    rules: Rules,
    /// The last commit admitted.
    newest_commit: CommitOrder,
    /// The newest snapshot certified. A batch must be later than it: snapshots hold whole batches.
    newest_begin: Version,
    /// Write marks up to here may be forgotten already.
    pruned: Version,
    /// Read marks up to here may be forgotten already.
    pruned_reads: Version,
}

/// A transaction that may commit now: what [`Ssi::admit`] needs to know of its certification.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a certified transaction is admitted, or it does not commit"]
pub struct Certified {
    begin: Version,
    first_out: Option<CommitOrder>,
}

impl Certified {
    /// The earliest transaction, in commit order, that this one has an antidependency to. Goes into the log,
    /// and to [`SafeSnapshots::note_commit`](super::SafeSnapshots::note_commit).
    #[must_use]
    pub fn first_out(&self) -> Option<CommitOrder> {
        self.first_out
    }
}

impl<S: Copy + Eq + Hash, K: Clone + Ord + Hash> Ssi<S, K> {
    /// Knows of no commit. After recovery too: whoever begins then sees all that was recovered.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(SsiLimits::default())
    }

    /// Knows of no commit, with other bounds on memory and time.
    #[must_use]
    pub fn with_limits(limits: SsiLimits) -> Self {
        Self::with_rules(limits, Rules::ALL_RIGHT)
    }

    /// Knows of no commit. `heap_bytes_of` says what a key has on the heap, always the same: without it the bounds on that
    /// mean nothing.
    #[must_use]
    pub fn weighing(limits: SsiLimits, heap_bytes_of: fn(&K) -> usize) -> Self {
        Self::with_rules_weighing(limits, Rules::ALL_RIGHT, heap_bytes_of)
    }

    pub(crate) fn with_rules(limits: SsiLimits, rules: Rules) -> Self {
        Self::with_rules_weighing(limits, rules, |_| 0)
    }

    pub(crate) fn with_rules_weighing(
        limits: SsiLimits,
        rules: Rules,
        heap_bytes_of: fn(&K) -> usize,
    ) -> Self {
        Self {
            spaces: Spaces::new(limits, heap_bytes_of),
            readers: ReadMarks::new(limits, heap_bytes_of),
            rules,
            newest_commit: CommitOrder::default(),
            newest_begin: Version::ZERO,
            pruned: Version::ZERO,
            pruned_reads: Version::ZERO,
        }
    }

    /// Whether a transaction that read `reads` of the snapshot `begin` and wrote `writes` may commit now.
    ///
    /// Checks against everything admitted so far, members of the batch being formed included. `passed` is
    /// what [`BoundaryGuard::enter_certification`](super::BoundaryGuard::enter_certification) returned; a
    /// transaction that is not in the boundary's registry (a blind writer, one below SERIALIZABLE, a declared
    /// read-only one) has none. Nothing is recorded: after `Ok` call [`admit`](Self::admit) before the next
    /// `certify`.
    ///
    /// Cost: nothing if no commit was admitted after `begin`, otherwise one hash lookup for each space read
    /// and, in those that were written since, for each key read; for ranges a step for each key written there
    /// since. If there is an out-edge, two hash lookups for each key written. All that is bounded by
    /// [`SsiLimits`].
    ///
    /// # Errors
    /// [`SsiConflict`] names the rule, one neighbour and where the edge to it lies. Nothing has changed; the
    /// transaction must end, or start again from a newer snapshot.
    ///
    /// # Panics
    /// If commits after `begin` may be forgotten already: the snapshot was not in the registry that
    /// [`prune`](Self::prune) was called by.
    pub fn certify<'a>(
        &mut self,
        begin: Version,
        reads: &ReadSet<S, K>,
        writes: impl Iterator<Item = (S, Written<'a, K>)>,
        passed: Option<Version>,
    ) -> Result<Certified, SsiConflict<S, K>>
    where
        K: 'a,
    {
        assert!(begin >= self.pruned, "snapshot {begin} is older than the pruned version {}", self.pruned);
        self.newest_begin = self.newest_begin.max(begin);
        let mut writes = writes.peekable();
        let wrote = if writes.peek().is_some() { Writes::Something } else { Writes::Nothing };
        let is_unseen = (self.rules.is_unseen)(self.newest_commit, begin);
        if reads.is_empty() || !is_unseen {
            return Ok(Certified { begin, first_out: None });
        }
        let edges = OutEdges::search(&self.spaces, &self.rules, begin, wrote, reads);
        let Some(first_out) = edges.first_out() else { return Ok(Certified { begin, first_out: None }) };
        if let Some(edge) = edges.source() {
            let rule = match wrote {
                Writes::Something => SsiRule::Source,
                Writes::Nothing => SsiRule::ReadingSource,
            };
            let (other, place) = (edges.counterpart(edge), edges.place(edge));
            let first_out = edges.first_out_of(edge).unwrap_or(first_out);
            return Err(SsiConflict { rule, other, place, first_out });
        }
        if let Some(boundary) = passed
            && wrote == Writes::Something
            && (self.rules.is_too_late)(first_out, boundary)
            && let Some(edge) = edges.first()
        {
            let (rule, other, place) =
                (SsiRule::PassedByBoundary, edges.counterpart(edge), edges.place(edge));
            return Err(SsiConflict { rule, other, place, first_out });
        }
        if wrote == Writes::Nothing {
            return Ok(Certified { begin, first_out: None });
        }
        self.check_pivot(begin, first_out, writes)?;
        Ok(Certified { begin, first_out: Some(first_out) })
    }

    /// The pivot rule: nobody may have read what is written here and stand at or behind the first out-edge.
    fn check_pivot<'a>(
        &self,
        begin: Version,
        first_out: CommitOrder,
        mut writes: impl Iterator<Item = (S, Written<'a, K>)>,
    ) -> Result<(), SsiConflict<S, K>>
    where
        K: 'a,
    {
        assert!(
            begin >= self.pruned_reads,
            "snapshot {begin} is older than the read marks, kept from {}",
            self.pruned_reads
        );
        let mut examinable = self.spaces.limits().examined_max;
        let found = writes.find_map(|(space, written)| {
            let reader = self.readers.pivot(space, written, first_out, &self.rules, &mut examinable)?;
            Some((space, written, reader))
        });
        let Some((space, written, reader)) = found else { return Ok(()) };
        let key = match written {
            Written::Key(key) => Some(key.clone()),
            Written::WholeSpace => None,
        };
        let (rule, other) = match reader {
            Reader::Writer { transaction, order } => {
                (SsiRule::Pivot, Counterpart::Writer { transaction, order })
            }
            Reader::ReadOnly { transaction, begin } => {
                (SsiRule::PivotOfReader, Counterpart::Reader { transaction, begin })
            }
        };
        Err(SsiConflict { rule, other, place: Place { space: Some(space), key }, first_out })
    }

    /// Records a certified transaction that wrote something as committed at `order`. From here on it counts
    /// for every later certification. `reads` and `writes` must be what was certified.
    ///
    /// Cost: one hash lookup for each key read and for each key written.
    ///
    /// # Panics
    /// If `order` is not later than the last commit admitted, or its version is not later than every
    /// snapshot certified so far (somebody already reads the batch that is still being formed).
    pub fn admit<'a>(
        &mut self,
        order: CommitOrder,
        transaction: TransactionId,
        reads: &ReadSet<S, K>,
        writes: impl Iterator<Item = (S, Written<'a, K>)>,
        certified: Certified,
    ) where
        K: 'a,
    {
        assert!(order > self.newest_commit, "commit {order} after {}", self.newest_commit);
        assert!(order.version > self.newest_begin, "version {} has a snapshot already", order.version);
        assert!(order.version > certified.begin, "a transaction commits behind its snapshot");
        self.newest_commit = order;
        let commit =
            Commit { order, transaction, first_out: certified.first_out, keys: KeyAmount::default() };
        self.spaces.record(commit, writes);
        if !reads.is_empty() {
            self.readers.record(Reader::Writer { transaction, order }, reads);
        }
    }

    /// Records a certified transaction that wrote nothing. From here on its reads count for those who may
    /// overwrite them.
    ///
    /// Cost: one hash lookup for each key read; nothing if no serializable transaction can be active that
    /// began before its snapshot.
    ///
    /// # Panics
    /// If it was certified with writes.
    pub fn admit_reader(&mut self, transaction: TransactionId, reads: &ReadSet<S, K>, certified: Certified) {
        assert!(certified.first_out.is_none(), "only commits have a place among first out-edges");
        let begin = certified.begin;
        if begin > self.pruned_reads {
            self.readers.record(Reader::ReadOnly { transaction, begin }, reads);
        }
    }

    /// Whether everything that was committed after the snapshot `begin` is still known, so that it may be asked about.
    #[must_use]
    pub fn remembers(&self, begin: Version) -> bool {
        begin >= self.pruned
    }

    /// The earliest commit after the snapshot `begin` that overwrote something of `reads`.
    ///
    /// A transaction may move its snapshot to a published version `v` if this is none or later
    /// than `v`, and [`Certifier::certify`](crate::Certifier::certify) accepts its footprint: then it read and
    /// wrote what it would have if it had begun there. From then on `v` is its `begin`. Call it under the
    /// commit lock.
    ///
    /// Cost: as the first part of [`certify`](Self::certify).
    ///
    /// # Panics
    /// As [`certify`](Self::certify).
    #[must_use]
    pub fn first_overwrite(&mut self, begin: Version, reads: &ReadSet<S, K>) -> Option<CommitOrder> {
        assert!(begin >= self.pruned, "snapshot {begin} is older than the pruned version {}", self.pruned);
        OutEdges::search(&self.spaces, &self.rules, begin, Writes::Something, reads).first_out()
    }

    /// A committed transaction that did not see these writes of an open one with the snapshot `begin`, and has read what
    /// they overwrite: an in-edge, if there is one that is remembered. For who looks on; decides nothing.
    ///
    /// Cost: two hash lookups for each key, and a look at the ranges that were read of its space; bounded by
    /// [`SsiLimits::examined_max`], beyond which the answer is coarse.
    #[must_use]
    pub fn in_edge<'a>(
        &self,
        begin: Version,
        mut writes: impl Iterator<Item = (S, Written<'a, K>)>,
    ) -> Option<TransactionId>
    where
        K: 'a,
    {
        let first_unseen = CommitOrder { version: begin.next(), position: 0 };
        let mut examinable = self.spaces.limits().examined_max;
        let reader = writes.find_map(|(space, written)| {
            self.readers.pivot(space, written, first_unseen, &self.rules, &mut examinable)
        });
        reader.map(|reader| match reader {
            Reader::Writer { transaction, .. } | Reader::ReadOnly { transaction, .. } => transaction,
        })
    }

    /// Allows to forget what no active transaction can be certified against any more. Call it after each
    /// batch.
    ///
    /// `oldest` bounds write marks and first out-edges. It comes from the registry of *every* transaction that
    /// may still come here (serializable ones, SSI readers, blind writers, and those below SERIALIZABLE):
    /// [`ActiveSnapshots::oldest_or`](crate::ActiveSnapshots::oldest_or). `oldest_serializable` bounds read
    /// marks: [`Boundary::oldest_or`](super::Boundary::oldest_or), which counts the transactions that the
    /// boundary has passed. The boundary itself bounds nothing here.
    ///
    /// Cost: amortized constant for each key admitted; a call is bounded, because it runs under the commit
    /// lock.
    ///
    /// # Panics
    /// If `oldest_serializable` is below `oldest`: serializable transactions are in both registries.
    pub fn prune(&mut self, oldest: Version, oldest_serializable: Version) {
        assert!(oldest <= oldest_serializable, "{oldest_serializable} is not in the registry of all");
        self.pruned = self.pruned.max(oldest);
        self.pruned_reads = self.pruned_reads.max(oldest_serializable);
        self.spaces.forget_through(self.pruned);
        self.readers.forget_through(self.pruned_reads);
    }

    /// How much is remembered.
    #[must_use]
    pub fn size(&self) -> SsiSize {
        SsiSize {
            commits: self.spaces.commits().len(),
            written_keys: self.spaces.key_count(),
            read_marks: self.readers.len(),
            heap_bytes: self.spaces.commits().keys().heap_bytes + self.readers.heap_bytes(),
        }
    }
}

/// How much an [`Ssi`] remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsiSize {
    /// Commits.
    pub commits: usize,
    /// Keys that they wrote.
    pub written_keys: usize,
    /// Keys and ranges that committed transactions read.
    pub read_marks: usize,
    /// What the keys of all of these have on the heap.
    pub heap_bytes: usize,
}

impl<S: Copy + Eq + Hash, K: Clone + Ord + Hash> Default for Ssi<S, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Copy + Eq + Hash, K: Clone + Ord + Hash> fmt::Debug for Ssi<S, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ssi")
            .field("size", &self.size())
            .field("newest_commit", &self.newest_commit)
            .field("newest_begin", &self.newest_begin)
            .field("pruned", &self.pruned)
            .field("pruned_reads", &self.pruned_reads)
            .finish_non_exhaustive()
    }
}
