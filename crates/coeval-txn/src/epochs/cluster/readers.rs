// SPDX-License-Identifier: Apache-2.0
//! What declared readers may see beside deletes, and LSE.
//!
//! A delete D sees some loads and not others, as any transaction; but it reads what it deletes. Let L be a load that D
//! does not see: D comes before L. A reader that sees L and not D comes after L and before D: a circle. So what lacks D
//! must hold only what D sees. A node that answers D's begin names all up to its LCE as ended, so D sees
//! that; from then on a declared reader gets no more than that LCE, until it gets D as well.

use std::collections::BTreeMap;

use super::rules::{Rule, Rules};
use super::view::{CommittedEpoch, Member};
use crate::epochs::{Epoch, EpochSet};

/// The deletes that a node has to mind, each with an epoch up to which it sees everything.
#[derive(Clone, Debug, Default)]
pub(super) struct MindedDeletes {
    seen_through: BTreeMap<Epoch, Epoch>,
}

impl MindedDeletes {
    /// Notes a delete of which it is known that it sees all up to `through`.
    pub(super) fn note(&mut self, delete: Epoch, through: Epoch) {
        assert!(through < delete, "a delete sees what is older");
        let known = self.seen_through.entry(delete).or_insert(through);
        *known = through.max(*known);
    }

    pub(super) fn has(&self, delete: Epoch) -> bool {
        self.seen_through.contains_key(&delete)
    }

    /// Notes that a delete is decided. If nobody has told better, it sees what lies below all that it depends on.
    pub(super) fn note_decided(&mut self, decided: &CommittedEpoch) {
        let oldest = decided.dependencies.iter().min();
        let horizon = oldest.map_or(decided.epoch, |oldest| *oldest).previous();
        self.seen_through.entry(decided.epoch).or_insert(horizon);
    }

    /// Forgets a delete that was rolled back.
    pub(super) fn forget(&mut self, delete: Epoch) {
        self.seen_through.remove(&delete);
    }

    /// Forgets deletes that have ended without being decided.
    pub(super) fn forget_all(&mut self, has_ended: impl Fn(Epoch) -> bool) {
        self.seen_through.retain(|delete, _| !has_ended(*delete));
    }

    /// The newest epoch up to `latest_committed` that a declared reader may see everything up to. Once its node has met all
    /// it never moves back: what is noted of a new delete is LCE then.
    pub(super) fn newest_safe(&self, latest_committed: Epoch) -> Epoch {
        let mut newest = latest_committed;
        // Whoever has to be kept out of the snapshot may have older ones in turn that then are not in it either.
        for (delete, through) in self.seen_through.iter().rev() {
            if *delete > newest {
                newest = newest.min(*through);
            }
        }
        assert!(newest <= latest_committed, "nobody sees beyond LCE");
        newest
    }

    /// Forgets the deletes that every later reader sees.
    pub(super) fn forget_seen(&mut self, latest_committed: Epoch) {
        let newest = self.newest_safe(latest_committed);
        self.seen_through.retain(|delete, _| *delete > newest);
    }

    /// All of them, for who comes back.
    pub(super) fn list(&self) -> Vec<(Epoch, Epoch)> {
        self.seen_through.iter().map(|(delete, through)| (*delete, *through)).collect()
    }
}

/// A reader that a node holds a snapshot for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(u64);

/// What keeps LSE back: here, and as others have told.
#[derive(Clone, Debug, Default)]
pub(super) struct SafeEpochs {
    latest_safe: Epoch,
    flushed: Epoch,
    readers: BTreeMap<ReaderId, Epoch>,
    next_reader: u64,
    /// The oldest age of rows that a reader may still come with; nothing if readers go by this node alone.
    ages: Option<Epoch>,
    /// What each member has promised never to go below again: with files, or with a reader.
    floors: BTreeMap<Member, Epoch>,
}

impl SafeEpochs {
    pub(super) fn latest_safe(&self) -> Epoch {
        self.latest_safe
    }

    /// Holds `snapshot` for a reader.
    pub(super) fn hold(&mut self, snapshot: &EpochSet) -> ReaderId {
        let reader = ReaderId(self.next_reader);
        self.next_reader += 1;
        self.readers.insert(reader, snapshot.horizon());
        reader
    }

    pub(super) fn release(&mut self, reader: ReaderId) {
        let horizon = self.readers.remove(&reader);
        assert!(
            horizon.is_some_and(|horizon| horizon >= self.latest_safe),
            "a reader is held, above LSE, until it ends"
        );
    }

    pub(super) fn flushed(&mut self, through: Epoch) {
        self.flushed = through.max(self.flushed);
    }

    /// From now on readers come with ages of rows: up to which there is nothing is not known yet.
    pub(super) fn expect_ages(&mut self) {
        self.ages.get_or_insert(Epoch::ZERO);
    }

    /// No reader comes with an older age any more.
    pub(super) fn note_oldest_age(&mut self, age: Epoch) {
        if let Some(oldest) = &mut self.ages {
            *oldest = age.max(*oldest);
        }
    }

    /// What this node promises: no reader below, and everything up to it in files. `newest` is the least that a reader
    /// may still get here.
    pub(super) fn floor(&self, newest: Epoch, rules: Rules) -> Epoch {
        let readers = self.readers.values().copied().filter(|_| rules.keep(Rule::SafeWaitsForReaders)).min();
        let ages = self.ages.filter(|_| rules.keep(Rule::SafeWaitsForAges));
        newest.min(self.flushed).min(readers.unwrap_or(newest)).min(ages.unwrap_or(newest))
    }

    /// Takes in what `member` promises.
    pub(super) fn note_floor(&mut self, member: Member, floor: Epoch) {
        let known = self.floors.entry(member).or_default();
        *known = floor.max(*known);
    }

    /// What `member` has promised.
    pub(super) fn promised(&self, member: Member) -> Epoch {
        self.floors.get(&member).copied().unwrap_or_default()
    }

    /// Moves LSE to what all `members` have promised.
    pub(super) fn advance(&mut self, members: impl Iterator<Item = Member>) {
        let floors = members.map(|member| self.promised(member));
        self.learn(floors.min().unwrap_or_default());
    }

    /// Takes over an LSE: of another node, or from the log.
    pub(super) fn learn(&mut self, latest_safe: Epoch) {
        self.latest_safe = latest_safe.max(self.latest_safe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_a_delete_or_only_what_it_sees() {
        let at = Epoch::new;
        let mut deletes = MindedDeletes::default();
        deletes.note(at(10), at(4));
        assert_eq!(deletes.newest_safe(at(8)), at(4), "the delete is not there yet");
        assert_eq!(deletes.newest_safe(at(10)), at(10), "now it is");
        deletes.note(at(12), at(9));
        assert_eq!(deletes.newest_safe(at(11)), at(4), "without the later one, the earlier is missing too");
        deletes.forget(at(12));
        deletes.forget_seen(at(10));
        assert_eq!(deletes.list(), []);
    }
}
