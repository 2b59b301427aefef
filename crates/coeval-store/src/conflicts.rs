// SPDX-License-Identifier: Apache-2.0
//! Recent conflicts: who lost against whom, where and why, and what the transactions that took part last ran.
//!
//! The leader remembers the latest participants, by number, so that a refusal can name the other side; the store
//! remembers the latest refusals, for `coeval_conflicts`. Both are bounded, and both are for people: nothing is decided
//! by them.

use crate::ids::SpaceId;
use coeval_txn::ssi::SsiRule;
use coeval_txn::{Isolation, TransactionId, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a statement that are kept: enough to know it by.
const STATEMENT_BYTES_MAX: usize = 120;

/// What stands in a conflict's detail in front of the other transaction's statement.
pub const STATEMENT_MARK: &str = "; its last statement: ";

/// Conflicts that are remembered.
const CONFLICTS_MAX: usize = 1_000;

/// With more of them than this, certified readers that no longer matter are looked for.
const READERS_REVIEW_MIN: usize = 1_024;

/// More readers than this are not remembered beside somebody old: a conflict then does not say that it was with one.
const READERS_MAX: usize = 1 << 16;

/// Transactions whose statements are remembered: more than commit while an ordinary transaction runs.
const PARTICIPANTS_MAX: usize = 4_096;

// The length of a statement's text is kept in a byte.
const _: () = assert!(STATEMENT_BYTES_MAX <= u8::MAX as usize);

/// Another transaction was first; nothing of this one took effect. Run it again (40001).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("could not serialize access due to {what}")]
pub struct ConflictError {
    /// `concurrent update`, `concurrent change of a definition`, and so on.
    pub what: &'static str,
    /// The table or index.
    pub space: SpaceId,
    /// `table "t", key (1)` and who was first.
    pub detail: String,
    /// The version it lost against. It may not be published yet: a transaction that begins before it is loses
    /// again.
    pub version: Version,
    /// The same with more details, for analysis.
    pub cause: Box<ConflictCause>,
}

/// Whose transaction it is, and the beginning of its last statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    session: i32,
    length: u8,
    text: [u8; STATEMENT_BYTES_MAX],
}

impl Origin {
    /// A session's number and the statement that it runs. Copies some bytes, allocates nothing.
    #[must_use]
    pub fn new(session: i32, statement: &str) -> Self {
        let length = statement.floor_char_boundary(STATEMENT_BYTES_MAX);
        let mut text = [0; STATEMENT_BYTES_MAX];
        text[..length].copy_from_slice(&statement.as_bytes()[..length]);
        Self { session, length: length as u8, text }
    }

    /// The session's number; 0 for one of the embedding program.
    #[must_use]
    pub fn session(&self) -> i32 {
        self.session
    }

    /// The beginning of the statement.
    #[must_use]
    pub fn statement(&self) -> &str {
        // A text is cut between characters, so it is never the empty one for another reason than being empty.
        std::str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("session", &self.session)
            .field("statement", &self.statement())
            .finish()
    }
}

/// One side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The transaction.
    pub transaction: TransactionId,
    /// Where it came from, if that is (still) known.
    pub origin: Option<Origin>,
    /// Whether it was declared READ ONLY.
    pub is_declared_reader: bool,
}

/// Why a transaction was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// Both wrote the same, or one removed what the other referred to.
    Write,
    /// A definition that it relied on was changed.
    Definition,
    /// Rows were loaded in bulk where it wrote.
    Load,
    /// It met a newer row, and its snapshot could not move.
    Overtaken,
    /// It met what is reserved for a transaction with priority.
    Reserved,
    /// A rule of serializability.
    Rule(SsiRule),
    /// It read what was overwritten, and changed definitions or loaded rows.
    Structural,
}

impl ConflictReason {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Definition => "definition",
            Self::Load => "load",
            Self::Overtaken => "overtaken",
            Self::Reserved => "reserved",
            Self::Structural => "structural",
            Self::Rule(SsiRule::Pivot) => "pivot",
            Self::Rule(SsiRule::PivotOfReader) => "pivot of a reader",
            Self::Rule(SsiRule::Source) => "source",
            Self::Rule(SsiRule::ReadingSource) => "source that reads",
            Self::Rule(SsiRule::PassedByBoundary) => "passed by the boundary",
        }
    }
}

/// Where a conflict lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictPlace {
    /// The number of the table; none for a definition.
    pub space: Option<SpaceId>,
    /// The table; none for a definition.
    pub table: Option<String>,
    /// `(columns)=(values)`, if it is one key.
    pub key: Option<String>,
}

/// What is known of a conflict beyond its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCause {
    /// Why.
    pub reason: ConflictReason,
    /// Where.
    pub place: ConflictPlace,
    /// The transaction that was first, if it was a single one.
    pub winner: Option<Party>,
}

impl ConflictCause {
    /// A cause without a winner.
    pub(crate) fn new(reason: ConflictReason, place: ConflictPlace) -> Box<Self> {
        Box::new(Self { reason, place, winner: None })
    }

    /// With the transaction that was first; where it came from is still to be found.
    pub(crate) fn won_by(mut self: Box<Self>, transaction: TransactionId) -> Box<Self> {
        self.winner = Some(Party { transaction, origin: None, is_declared_reader: false });
        self
    }
}

/// A transaction was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentConflict {
    /// When, in microseconds since 1970-01-01 UTC.
    pub at_micros: i64,
    /// The isolation level of the transaction that was refused.
    pub isolation: Isolation,
    /// The transaction that was refused.
    pub loser: Party,
    /// Why, where and against whom.
    pub cause: ConflictCause,
}

impl RecentConflict {
    /// Whether one of both was declared READ ONLY.
    #[must_use]
    pub fn has_declared_reader(&self) -> bool {
        self.loser.is_declared_reader || self.cause.winner.is_some_and(|winner| winner.is_declared_reader)
    }
}

/// How many transactions were refused since the store was opened, those whose statements ran again included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConflictCounts {
    /// All of them.
    pub all: u64,
    /// Those refused by a rule of serializability: parts of a dangerous structure.
    pub dangerous: u64,
    /// Of these, those whose structure has a transaction that was declared READ ONLY.
    pub with_declared_reader: u64,
}

/// The latest conflicts of a store, and how many there were.
///
/// # Locking
/// A leaf lock, held for a push or a copy.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    recent: Mutex<VecDeque<RecentConflict>>,
    all: AtomicU64,
    dangerous: AtomicU64,
    with_declared_reader: AtomicU64,
}

impl Conflicts {
    /// Notes that a transaction lost.
    pub(crate) fn note(&self, isolation: Isolation, loser: Party, conflict: &ConflictError) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let at_micros = i64::try_from(now).unwrap_or(i64::MAX);
        let found = RecentConflict { at_micros, isolation, loser, cause: (*conflict.cause).clone() };
        self.all.fetch_add(1, Ordering::Relaxed);
        if matches!(found.cause.reason, ConflictReason::Rule(_)) {
            self.dangerous.fetch_add(1, Ordering::Relaxed);
            let has_reader = found.has_declared_reader();
            self.with_declared_reader.fetch_add(u64::from(has_reader), Ordering::Relaxed);
        }
        let mut recent = self.recent.lock();
        if recent.len() == CONFLICTS_MAX {
            recent.pop_front();
        }
        recent.push_back(found);
    }

    /// How many there were.
    pub(crate) fn counts(&self) -> ConflictCounts {
        ConflictCounts {
            all: self.all.load(Ordering::Relaxed),
            dangerous: self.dangerous.load(Ordering::Relaxed),
            with_declared_reader: self.with_declared_reader.load(Ordering::Relaxed),
        }
    }

    /// All that are remembered, the latest last.
    pub(crate) fn all(&self) -> Vec<RecentConflict> {
        self.recent.lock().iter().cloned().collect()
    }
}

/// The latest transactions that committed or were certified as readers.
#[derive(Debug, Default)]
pub(crate) struct Participants {
    recent: VecDeque<Party>,
    /// Declared readers that were certified, with their snapshots: all that anybody can still be refused for.
    readers: HashMap<TransactionId, Version>,
    /// With as many, those that no longer matter are looked for.
    review_at: usize,
}

impl Participants {
    /// Notes one, if anything is known of it.
    pub(crate) fn note(&mut self, party: Party) {
        if party.origin.is_none() {
            return;
        }
        if self.recent.len() == PARTICIPANTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(party);
    }

    /// Notes a declared reader of the snapshot `begin` that was certified. `oldest` is the oldest snapshot of a
    /// transaction that may still be refused because of a reader: one with no later snapshot than that is forgotten.
    pub(crate) fn note_reader(&mut self, transaction: TransactionId, begin: Version, oldest: Version) {
        if self.readers.len() >= self.review_at {
            self.readers.retain(|_, begin| *begin > oldest);
            if self.readers.len() >= READERS_MAX {
                self.readers.clear();
            }
            self.review_at = READERS_REVIEW_MIN.max(self.readers.len() * 2);
        }
        self.readers.insert(transaction, begin);
    }

    /// Completes what a conflict says of its winner. Cost: a look at each that is remembered.
    pub(crate) fn name_winner(&self, conflict: &mut ConflictError) {
        let Some(winner) = &mut conflict.cause.winner else { return };
        let transaction = winner.transaction;
        winner.is_declared_reader = self.readers.contains_key(&transaction);
        let Some(known) = self.recent.iter().rev().find(|party| party.transaction == transaction) else {
            return;
        };
        *winner = *known;
        if let Some(origin) = &known.origin {
            let (session, statement) = (origin.session(), origin.statement());
            conflict.detail += &format!(" Transaction {transaction} was of process {session}");
            conflict.detail += &match statement {
                "" => ".".to_owned(),
                text => format!("{STATEMENT_MARK}{text}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_statement_is_cut_between_characters() {
        for length in 0..STATEMENT_BYTES_MAX + 8 {
            let text = "a".repeat(length) + "äöü";
            let origin = Origin::new(7, &text);
            assert!(text.starts_with(origin.statement()));
            assert!(origin.statement().len() + 1 >= text.len().min(STATEMENT_BYTES_MAX));
        }
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut participants = Participants::default();
        let party = |number: u64| Party {
            transaction: TransactionId::new(number),
            origin: Some(Origin::new(1, "SELECT 1")),
            is_declared_reader: false,
        };
        (0..PARTICIPANTS_MAX as u64 + 1).for_each(|number| participants.note(party(number)));
        let conflict = |number: u64| ConflictError {
            what: "a test",
            space: crate::ids::CATALOG_SPACE,
            detail: String::new(),
            version: coeval_txn::Version::ZERO,
            cause: ConflictCause::new(ConflictReason::Write, ConflictPlace::default())
                .won_by(TransactionId::new(number)),
        };
        let (mut known, mut forgotten) = (conflict(1), conflict(0));
        participants.name_winner(&mut known);
        participants.name_winner(&mut forgotten);
        assert!(known.detail.contains("process 1; its last statement: SELECT 1"), "{}", known.detail);
        assert_eq!(forgotten.detail, "");
        let conflicts = Conflicts::default();
        (0..CONFLICTS_MAX as u64 + 5)
            .for_each(|number| conflicts.note(Isolation::Snapshot, party(number), &conflict(number)));
        let all = conflicts.all();
        assert_eq!((all.len(), all[0].loser.transaction), (CONFLICTS_MAX, TransactionId::new(5)));
    }
}
