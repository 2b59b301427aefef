// SPDX-License-Identifier: Apache-2.0
//! [`Certifications`]: the part of serializability that belongs to the leader of commits.

use super::Serializable;
use crate::certification::Certification;
use crate::conflicts::{ConflictCause, ConflictError, ConflictPlace, ConflictReason};
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::options::Trials;
use crate::reads::ReadSet;
use crate::submission::Submission;
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::ssi::{Certified, Counterpart, Member, Ssi, SsiConflict, SsiLimits};
use coeval_txn::{CommitOrder, TransactionId, Version};
use std::collections::VecDeque;
use std::sync::Arc;

/// The leader's part: certifies, and remembers who committed.
pub(crate) struct Certifications {
    ssi: Ssi<SpaceId, Key>,
    trials: Trials,
    /// Commits below SERIALIZABLE that nobody has been certified against yet, in order.
    unmarked: VecDeque<Unmarked>,
    /// How many changes they hold together, and how many bytes.
    unmarked_changes: usize,
    unmarked_bytes: usize,
}

/// How many of the keys that a transaction has written are shown to observers, at most.
pub(crate) const SHOWN_WRITES_MAX: usize = 1_024;

/// With more of them than this, commits are marked though nobody has asked for it.
const UNMARKED_MAX: usize = 1_024;

/// With more changes in them than this, too: some tens of megabytes, if keys and rows are short.
const UNMARKED_CHANGES_MAX: usize = 1 << 18;

/// With more bytes of keys and rows than this, too.
const UNMARKED_BYTES_MAX: usize = 64 << 20;

struct Unmarked {
    changes: usize,
    /// As the log has them. Without a log none are counted; there nothing else has a bound either.
    bytes: usize,
    order: CommitOrder,
    transaction: TransactionId,
    writes: Arc<WriteSet>,
}

impl Certifications {
    pub(crate) fn new(trials: Trials) -> Self {
        let ssi = Ssi::weighing(SsiLimits::default(), Key::heap_bytes);
        Self { ssi, trials, unmarked: VecDeque::new(), unmarked_changes: 0, unmarked_bytes: 0 }
    }

    /// Certifies a serializable transaction that wrote something, behind first committer wins.
    ///
    /// # Errors
    /// [`StoreError::Conflict`].
    pub(crate) fn certify(
        &mut self,
        newest: &World,
        submission: &Submission,
        certification: &Certification,
    ) -> Result<Certified, StoreError> {
        self.mark_all();
        let passed = certification.guard.as_ref().and_then(|guard| guard.enter_certification());
        let unread;
        let reads = if self.trials.rules_are_off {
            unread = ReadSet::new();
            &unread
        } else {
            &certification.reads
        };
        let certified = self
            .ssi
            .certify(certification.begin, reads, submission.written.keys(), passed)
            .map_err(|conflict| refusal(newest, &conflict))?;
        if certified.first_out().is_some() && submission.stands_at_its_version() {
            // A safe snapshot applies write sets of rows, not definitions and loads; so these never belong to one
            // before their whole version does. Nor does what is one with a load of a cluster: who sees that is told by versions.
            let of_its_own = if submission.is_structural() {
                "a change of definitions or a bulk load"
            } else {
                "a load into tables of a cluster"
            };
            return Err(StoreError::Conflict(ConflictError {
                what: READ_WRITE,
                space: crate::ids::CATALOG_SPACE,
                detail: format!(
                    "What this transaction read was changed meanwhile; with {of_its_own} of its own it has to begin again."
                ),
                version: newest.version(),
                cause: ConflictCause::new(ConflictReason::Structural, ConflictPlace::default()),
            }));
        }
        Ok(certified)
    }

    /// Certifies one that wrote nothing, and remembers what it read.
    ///
    /// # Errors
    /// [`StoreError::Conflict`].
    pub(crate) fn certify_reader(
        &mut self,
        newest: &World,
        transaction: TransactionId,
        certification: &Certification,
    ) -> Result<(), StoreError> {
        self.mark_all();
        let passed = certification.guard.as_ref().and_then(|guard| guard.enter_certification());
        let (begin, reads) = (certification.begin, &certification.reads);
        let certified = self
            .ssi
            .certify(begin, reads, std::iter::empty(), passed)
            .map_err(|conflict| refusal(newest, &conflict))?;
        self.ssi.admit_reader(transaction, reads, certified);
        Ok(())
    }

    /// Whether something was overwritten of what was read of the snapshot `begin`.
    pub(crate) fn is_overwritten(&mut self, begin: Version, reads: &ReadSet) -> bool {
        self.mark_all();
        self.ssi.first_overwrite(begin, reads).is_some()
    }

    /// The version of the first commit that overwrote what was read of the snapshot `begin`; none if the transaction
    /// that read it has ended meanwhile, so that nobody knows.
    pub(crate) fn first_out(&mut self, begin: Version, reads: &ReadSet) -> Option<Version> {
        self.mark_all();
        if !self.ssi.remembers(begin) {
            return None;
        }
        self.ssi.first_overwrite(begin, reads).map(|order| order.version)
    }

    /// A committed transaction that has read what `written` overwrites and did not see it, as far as that is remembered.
    pub(crate) fn in_edge(&self, begin: Version, written: &WriteSet) -> Option<TransactionId> {
        self.ssi.in_edge(begin, written.keys().take(SHOWN_WRITES_MAX))
    }

    /// Records a commit.
    pub(crate) fn admit(
        &mut self,
        shared: &Serializable,
        published: Version,
        order: CommitOrder,
        submission: &Submission,
        certified: Option<Certified>,
    ) {
        let transaction = submission.transaction;
        let (Some(certification), Some(certified)) = (&submission.certification, certified) else {
            let writes = Arc::clone(&submission.written);
            let (changes, bytes) = (submission.row_changes(), submission.body.len());
            if self.is_full_of_unmarked() {
                self.forget_seen(shared.oldest(|| published).0);
            }
            self.put_off(Unmarked { changes, bytes, order, transaction, writes });
            return;
        };
        let first_out = certified.first_out();
        self.ssi.admit(order, transaction, &certification.reads, submission.written.keys(), certified);
        if let Some(first_out) = first_out {
            let commit = Member { order, transaction, first_out, writes: Arc::clone(&submission.written) };
            shared.note_out_edge(commit, submission.body.len(), published);
        }
    }

    fn is_full_of_unmarked(&self) -> bool {
        self.unmarked.len() >= UNMARKED_MAX
            || self.unmarked_changes > UNMARKED_CHANGES_MAX
            || self.unmarked_bytes > UNMARKED_BYTES_MAX
    }

    /// Forgets commits that everybody sees: nobody is certified against them any more.
    fn forget_seen(&mut self, oldest: Version) {
        while self.unmarked.front().is_some_and(|commit| commit.order.version <= oldest) {
            let seen = self.unmarked.pop_front().expect("it was just looked at");
            self.unmarked_changes -= seen.changes;
            self.unmarked_bytes -= seen.bytes;
        }
    }

    /// How many keys have marks, and how many changes wait for theirs.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.ssi.size().written_keys, self.unmarked_changes)
    }

    /// Leaves a commit for when somebody is certified who did not see it.
    fn put_off(&mut self, commit: Unmarked) {
        if self.is_full_of_unmarked() {
            // Somebody old is active. Marks are bounded, write sets are not.
            self.mark_all();
        }
        self.unmarked_changes += commit.changes;
        self.unmarked_bytes += commit.bytes;
        self.unmarked.push_back(commit);
    }

    /// Forgets what nobody can be certified against any more.
    pub(crate) fn prune(&mut self, shared: &Serializable, published: impl Fn() -> Version) {
        let (oldest, oldest_writer) = shared.oldest(published);
        self.forget_seen(oldest);
        self.ssi.prune(oldest, oldest_writer);
    }

    /// Makes marks of what was committed below SERIALIZABLE, as of blind writers.
    fn mark_all(&mut self) {
        self.unmarked_changes = 0;
        self.unmarked_bytes = 0;
        for Unmarked { order, transaction, writes, .. } in self.unmarked.drain(..) {
            // Its own snapshot does not matter, only that it is an older one.
            let begin = Version::new(order.version.get() - 1);
            let certified = self.ssi.certify(begin, &ReadSet::new(), writes.keys(), None);
            let certified = certified.expect("who read nothing is not refused");
            self.ssi.admit(order, transaction, &ReadSet::new(), writes.keys(), certified);
        }
    }
}

/// What a conflict of reads and writes is called, as in PostgreSQL.
const READ_WRITE: &str = "read/write dependencies among transactions";

fn refusal(world: &World, conflict: &SsiConflict<SpaceId, Key>) -> StoreError {
    let place = match (&conflict.place.space, &conflict.place.key) {
        (Some(space), Some(key)) => world.describe_key(*space, key),
        (Some(space), None) => world.describe_space(*space),
        (None, _) => "many tables".to_owned(),
    };
    let found = match (&conflict.place.space, &conflict.place.key) {
        (Some(space), Some(key)) => world.place_of(*space, key),
        (Some(space), None) => world.place_of_space(*space),
        (None, _) => ConflictPlace::default(),
    };
    let cause = ConflictCause::new(ConflictReason::Rule(conflict.rule), found);
    let (version, cause) = match conflict.other {
        Counterpart::Writer { order, transaction } => (order.version, cause.won_by(transaction)),
        Counterpart::Reader { transaction, .. } => (world.version(), cause.won_by(transaction)),
        Counterpart::Unknown => (world.version(), cause),
    };
    StoreError::Conflict(ConflictError {
        what: READ_WRITE,
        space: conflict.place.space.unwrap_or(crate::ids::CATALOG_SPACE),
        detail: format!("{place}: {}: {}.", conflict.other, conflict.rule),
        version,
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand commits were put off, whatever they held.
    #[test]
    fn large_write_sets_below_serializable_are_not_kept_for_long() {
        let mut certifications = Certifications::new(Trials::NONE);
        for version in 1..=100 {
            let order = CommitOrder { version: Version::new(version), position: 0 };
            let (transaction, writes) = (TransactionId::new(version), Arc::new(WriteSet::default()));
            certifications.put_off(Unmarked { changes: 1, bytes: 10 << 20, order, transaction, writes });
            assert!(certifications.unmarked.len() <= 7, "{}", certifications.unmarked.len());
        }
        certifications.mark_all();
        assert_eq!((certifications.unmarked_bytes, certifications.unmarked.len()), (0, 0));
    }
}
