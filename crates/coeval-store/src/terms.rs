// SPDX-License-Identifier: Apache-2.0
//! Terms: who wrote which part of a log, so that two histories are never taken for one.
//!
//! A primary that crashed before its own sync, and came back, may write another record at a place where a copy of its log
//! already has one. The places are equal, the histories are not. So each opening of a log for writing begins a *term*: a
//! number, a random id, and the place where it begins. Its record is the first that the opening writes, so it is durable
//! before any other record of the term is. An opening that writes nothing leaves no trace.
//!
//! Two logs are equal up to a place if the term that covers the place has the same id in both. So the terms tell where two logs
//! [part](Parting): where the first of them leaves the last term that both have.
//!
//! # Timelines
//! An opening begins a term without asking anybody. A promotion asks the replicas, and begins a *timeline* as well: the number
//! of a term has the timeline's in its upper half, and counts the openings in its lower half. A machine that has promised a timeline
//! acknowledges no log of a lower one (`promises.rs`), however often that is opened again.
//!
//! Two machines may each find enough promises for timelines of one number, where half of the machines or more have to have what is
//! acknowledged. There a timeline is more than its number: it is that of one candidate, a random number which is the id of its first term.
//! Of two with one number the one of the higher candidate is higher. Whoever has the terms of a log knows the candidates, so nothing of
//! this is written down beside them: an odd id is a candidate's. Where more than half have to promise, a number is begun once at most, and
//! the timeline is nobody's, as the first one is: its first term has an even id.
//!
//! # The numbers of restores
//! A restore begins a timeline, too, and asks nobody: it knows the highest number that the archive has, m. Machines may have been promoted that
//! the archive has not heard of, so m + 1 may be taken, and two histories of one number would be equally new. Therefore the numbers that
//! [`PROMOTIONS_BESIDE`] divides are for restores alone: [`Timeline::next`] steps over them, and [`Timeline::of_restore`] takes the second
//! one behind m. Then:
//!
//! - No promotion has the number of a restore, whatever the archive has heard of: the one is divided by that, the other is not.
//! - The restored history is the newest. Each attempt at a promotion goes one number up, two where it steps over one. Between m and the number of the
//!   restore lie `PROMOTIONS_BESIDE` - 1 numbers or more that promotions take, so as many attempts behind the archive's back, each of which needs
//!   the one before to have been promised, end below it. After more of them the promoted history is the newer one, and still none is equal.
//! - Two restores of one state of an archive have one number, of which nobody knows who came after whom: the archive asks which is meant.
//!
//! Programs before this rule took m + 1 for a restore, and whatever came next for a promotion.

use crate::log::Lsn;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A stretch of a log that one opening wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Term {
    /// Higher than that of the term before. See [`TermNumber`].
    pub number: u64,
    /// Tells apart terms of one number that two machines began. Never 0.
    pub id: u64,
    /// Where its first record begins.
    pub start: Lsn,
}

/// What a machine has written since it was promoted, however often it was opened: ordered by a number, which is 1 at first and higher with
/// each promotion, as PostgreSQL counts them, and then by who was promoted. The number is what people are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline {
    number: u32,
    /// Whose it is; odd. 0 if it is nobody's.
    candidate: u64,
}

impl Timeline {
    /// That of a database that nobody was promoted in.
    pub const FIRST: Self = Self::new(1);

    /// The timeline with this number, below that of any candidate; 0 is before the first.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self { number, candidate: 0 }
    }

    /// The one of this candidate that has the same number; nobody's, if that is even. There is one first timeline, whoever asks.
    #[must_use]
    pub const fn of_candidate(self, candidate: u64) -> Self {
        if self.number <= Self::FIRST.number || candidate.is_multiple_of(2) {
            return Self::new(self.number);
        }
        Self { number: self.number, candidate }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.number
    }

    /// Whose it is; 0 if nobody's.
    #[must_use]
    pub const fn candidate(self) -> u64 {
        self.candidate
    }

    /// The number that a promotion begins, nobody's yet: the next one that is not a restore's.
    #[must_use]
    pub const fn next(self) -> Self {
        let next = self.number.saturating_add(1);
        Self::new(if next.is_multiple_of(PROMOTIONS_BESIDE) { next.saturating_add(1) } else { next })
    }

    /// The one that a database begins which was restored from an archive whose highest timeline this is: see the module.
    #[must_use]
    pub const fn of_restore(self) -> Self {
        let before = self.number / PROMOTIONS_BESIDE;
        Self::new(before.saturating_add(2).saturating_mul(PROMOTIONS_BESIDE))
    }

    /// Whether so many promotions may lie between this one and that of a log. Beyond it somebody has asked for the promise of what
    /// nobody began, and there must be timelines left.
    #[must_use]
    pub(crate) const fn may_follow(self, log: Self) -> bool {
        self.number <= log.number.saturating_add(AHEAD_MAX)
    }

    /// That of a term with this number, whoever began it.
    pub(crate) const fn of_term(number: u64) -> Self {
        Self::new((number >> OPENING_BITS) as u32 + 1)
    }

    /// The number of its first term.
    const fn first_term(self) -> u64 {
        ((self.number as u64 - 1) << OPENING_BITS) + 1
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.number)
    }
}

/// See [`Timeline::may_follow`].
const AHEAD_MAX: u32 = 100_000;

/// Fewer attempts at a promotion than these may come while an archive hears of none: a database that is restored from it then is newer than they are.
/// The numbers that this divides are restores'. Round ones, so that people see what they are.
const PROMOTIONS_BESIDE: u32 = 100;

// Who has followed the database that was archived goes on with the one that was restored.
const _: () = assert!(2 * PROMOTIONS_BESIDE < AHEAD_MAX);

/// The bits of a term's number that count openings.
const OPENING_BITS: u32 = 32;

/// The number of a term as people read it: the timeline, and the opening in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TermNumber(pub u64);

impl fmt::Display for TermNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", Timeline::of_term(self.0), self.0 & ((1 << OPENING_BITS) - 1))
    }
}

impl From<(u64, u64, u64)> for Term {
    fn from((number, id, start): (u64, u64, u64)) -> Self {
        Self { number, id, start: Lsn::new(start) }
    }
}

impl From<Term> for (u64, u64, u64) {
    fn from(term: Term) -> Self {
        (term.number, term.id, term.start.get())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "term {} ({:016x}) from {}", TermNumber(self.number), self.id, self.start)
    }
}

/// The terms of a log, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermHistory(Vec<Term>);

/// Up to where two logs are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Up to here they are, and no further unless one of them ends here.
    pub at: Lsn,
    /// The last term that both have.
    pub term: Term,
}

/// Why what a follower has is no part of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignHistory {
    /// Another database, or a term that this log has never had.
    #[error("term {term:016x} is not part of this history")]
    UnknownTerm {
        /// The follower's last term.
        term: u64,
    },
    /// The follower has records of a term that this log does not have.
    #[error("the histories part at {parting}, and the follower is at {position}")]
    Parted {
        /// Where this log left the follower's last term.
        parting: Lsn,
        /// Where the follower is.
        position: Lsn,
    },
}

impl TermHistory {
    /// The terms that a manifest has.
    pub(crate) fn new(terms: Vec<Term>) -> Self {
        Self(terms)
    }

    /// Terms that follow one another, the oldest first, of a history that somebody else has written down.
    #[must_use]
    pub fn of(terms: &[Term]) -> Self {
        Self(terms.to_vec())
    }

    /// All terms, the oldest first.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.0
    }

    /// The one that is being written.
    #[must_use]
    pub fn last(&self) -> Option<Term> {
        self.0.last().copied()
    }

    /// The one whose log has the record that ends here: the last that begins before that, or the first.
    #[must_use]
    pub fn of_record(&self, end: Lsn) -> Option<Term> {
        let found = self.0.iter().rev().find(|term| term.start < end);
        found.or(self.0.first()).copied()
    }

    /// What all copies of a database have in common: the id of its first term; 0 before the first.
    #[must_use]
    pub fn database_id(&self) -> u64 {
        self.0.first().map_or(0, |term| term.id)
    }

    /// Adds a term that begins behind all others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn begin(&mut self, term: Term) -> Result<(), String> {
        let last = self.last().map_or((0, Lsn::START), |last| (last.number, last.start));
        if term.id == 0 || term.number <= last.0 || term.start < last.1 {
            return Err(format!("{term} does not follow term {}", TermNumber(last.0)));
        }
        self.0.push(term);
        Ok(())
    }

    /// The term that follows, begun at `start` under a random id; the first one of this timeline, if that has a higher number: under its
    /// candidate's id, or an even one.
    pub(crate) fn next(&self, id: u64, start: Lsn, timeline: Timeline) -> Term {
        if timeline.number > self.timeline().number {
            let id = if timeline.candidate > 0 { timeline.candidate } else { (id & !1).max(2) };
            return Term { number: timeline.first_term(), id, start };
        }
        let number = self.last().map_or(1, |last| last.number + 1);
        Term { number, id: id.max(1), start }
    }

    /// A history of its own for contents that have got lost in part, so that no other machine with this history has them: whoever has it takes the
    /// new one for another database's. In the same timeline, or before any if this one has no term.
    pub(crate) fn apart(&self, id: u64) -> Self {
        let number = self.last().map(|last| last.number + 1);
        let first = number.map(|number| Term { number, id: (id & !1).max(2), start: Lsn::START });
        Self(first.into_iter().collect())
    }

    /// The timeline that is being written.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        let Some(last) = self.last() else { return Timeline::FIRST };
        let timeline = Timeline::of_term(last.number);
        let first = self.0.iter().find(|term| Timeline::of_term(term.number) == timeline);
        timeline.of_candidate(first.map_or(0, |first| first.id))
    }

    /// Whether a log that ends at `position`, in the term with this id (`None`: before its first), is the beginning of this
    /// one. Whether this one is that long is not looked at.
    ///
    /// # Errors
    /// [`ForeignHistory`].
    pub fn check_follower(&self, last: Option<u64>, position: Lsn) -> Result<(), ForeignHistory> {
        let next = match last {
            None => 0,
            Some(id) => {
                let place = self.0.iter().position(|term| term.id == id);
                place.ok_or(ForeignHistory::UnknownTerm { term: id })? + 1
            }
        };
        match self.0.get(next) {
            Some(parting) if position > parting.start => {
                Err(ForeignHistory::Parted { parting: parting.start, position })
            }
            _ => Ok(()),
        }
    }

    /// Where a log of these terms that ends at `end` parts from one of the `other` terms, whose length is not looked at. At `end`, if
    /// it is the beginning of that one; nowhere, if they have no term in common.
    #[must_use]
    pub fn parting(&self, end: Lsn, other: &Self) -> Option<Parting> {
        let common = self.0.iter().zip(&other.0).take_while(|(own, other)| own == other).count();
        let term = self.0[..common].last().copied()?;
        let left = [self, other].into_iter().filter_map(|history| history.0.get(common));
        let at = left.map(|next| next.start).fold(end, Lsn::min);
        Some(Parting { at, term })
    }

    /// The terms as one line of text, as they are sent on the wire: for each its number, id and start, `1:00000000000000ff:0/1A2B`.
    #[must_use]
    pub fn to_line(&self) -> String {
        let terms = self.0.iter().map(|term| {
            let start = term.start.to_wal_text();
            format!("{}:{:016x}:{start}", term.number, term.id)
        });
        terms.collect::<Vec<_>>().join(" ")
    }

    /// Reads what [`to_line`](Self::to_line) writes; nothing if these are no terms that follow one another.
    #[must_use]
    pub fn from_line(line: &str) -> Option<Self> {
        let mut history = Self::default();
        for text in line.split_whitespace() {
            let mut parts = text.splitn(3, ':');
            let (number, id, start) = (parts.next()?, parts.next()?, parts.next()?);
            let id = u64::from_str_radix(id, 16).ok()?;
            let term = Term { number: number.parse().ok()?, id, start: Lsn::from_wal_text(start)? };
            history.begin(term).ok()?;
        }
        Some(history)
    }
}

/// A random number that is not 0, of what the system gives each process.
pub(crate) fn random_id() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos()),
    );
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests;
