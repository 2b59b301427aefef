// SPDX-License-Identifier: Apache-2.0
//! Terms: who wrote which part of a log, so that two histories are never taken for one (DESIGN 8.1).
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
//! of a term has the timeline in its upper half, and counts the openings in its lower half. A machine that has promised a timeline
//! acknowledges no log of a lower one (`promises.rs`), however often that is opened again.

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

/// How often a database has changed hands: 1 at first, and higher with each promotion, as PostgreSQL counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline(u32);

impl Timeline {
    /// That of a database that nobody was promoted in.
    pub const FIRST: Self = Self(1);

    /// The timeline with this number; 0 is before the first.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one that a promotion begins.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether so many promotions may lie between this one and that of a log. Beyond it somebody has asked for the promise of what
    /// nobody began, and there must be timelines left.
    #[must_use]
    pub(crate) const fn may_follow(self, log: Self) -> bool {
        self.0 <= log.0.saturating_add(AHEAD_MAX)
    }

    /// That of a term with this number.
    const fn of_term(number: u64) -> Self {
        Self((number >> OPENING_BITS) as u32 + 1)
    }

    /// The number of its first term.
    const fn first_term(self) -> u64 {
        ((self.0 as u64 - 1) << OPENING_BITS) + 1
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// See [`Timeline::may_follow`].
const AHEAD_MAX: u32 = 100_000;

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

impl Term {
    /// The timeline that it belongs to.
    #[must_use]
    pub const fn timeline(&self) -> Timeline {
        Timeline::of_term(self.number)
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

    /// The term that follows, begun at `start` under a random id, in this timeline if it is a higher one.
    pub(crate) fn next(&self, id: u64, start: Lsn, timeline: Timeline) -> Term {
        let next = self.last().map_or(1, |last| last.number + 1);
        let number = if timeline > self.timeline() { timeline.first_term() } else { next };
        Term { number, id: id.max(1), start }
    }

    /// The timeline that is being written.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.last().map_or(Timeline::FIRST, |last| last.timeline())
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
mod tests {
    use super::*;

    fn history(terms: &[(u64, u64, u64)]) -> TermHistory {
        let mut history = TermHistory::default();
        terms.iter().for_each(|term| history.begin(Term::from(*term)).unwrap());
        history
    }

    #[test]
    fn a_follower_may_be_anywhere_before_the_histories_part() {
        let primary = history(&[(1, 11, 0), (2, 12, 100), (3, 13, 250)]);
        let at = Lsn::new;
        assert_eq!(primary.check_follower(None, at(0)), Ok(()));
        assert_eq!(primary.check_follower(Some(11), at(100)), Ok(()));
        assert_eq!(primary.check_follower(Some(13), at(9_000)), Ok(()), "its length is another question");
        let parted = ForeignHistory::Parted { parting: at(250), position: at(251) };
        assert_eq!(primary.check_follower(Some(12), at(251)), Err(parted));
        assert_eq!(primary.check_follower(Some(77), at(5)), Err(ForeignHistory::UnknownTerm { term: 77 }));
        // A term that began at the end of the log before it has no record of that: it may be taken either way.
        assert_eq!(primary.check_follower(Some(12), at(250)), Ok(()));
    }

    #[test]
    fn two_logs_part_where_the_first_of_them_leaves_the_last_term_of_both() {
        let new = history(&[(1, 11, 0), (2, 12, 100), (5, 15, 300)]);
        let parting = |own: &[(u64, u64, u64)], end| {
            let parting = history(own).parting(Lsn::new(end), &new)?;
            Some((parting.at.get(), parting.term.id))
        };
        let both = [(1, 11, 0), (2, 12, 100)];
        assert_eq!(parting(&both, 250), Some((250, 12)), "it is the beginning");
        assert_eq!(parting(&both, 300), Some((300, 12)));
        assert_eq!(parting(&both, 420), Some((300, 12)), "it has more of the last term");
        let gone_on = |start| [both[0], both[1], (3, 13, start)];
        assert_eq!(parting(&gone_on(350), 420), Some((300, 12)));
        assert_eq!(parting(&gone_on(280), 420), Some((280, 12)), "it has left that term before");
        assert_eq!(parting(&[(1, 11, 0), (2, 14, 90)], 420), Some((90, 11)));
        assert_eq!(parting(&[(1, 11, 0)], 420), Some((100, 11)));
        assert_eq!(parting(&[(1, 99, 0)], 420), None, "another database");
        assert_eq!(parting(&[], 0), None);
    }

    #[test]
    fn a_line_of_terms_is_read_as_it_was_written() {
        for terms in [&[][..], &[(1, 255, 0)], &[(1, 11, 0), (1 << 32, u64::MAX, 1 << 40)]] {
            let written = history(terms);
            assert_eq!(TermHistory::from_line(&written.to_line()), Some(written));
        }
        assert_eq!(history(&[(7, 255, 26)]).to_line(), "7:00000000000000ff:0/1A");
        for wrong in ["1", "1:ff", "x:ff:0/0", "1:xy:0/0", "1:ff:0", "1:0:0/0", "2:ff:0/9 1:fe:0/9"] {
            assert_eq!(TermHistory::from_line(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn terms_follow_one_another() {
        let mut known = history(&[(1, 11, 0), (2, 12, 100)]);
        for wrong in [(2, 13, 200), (1, 13, 200), (3, 0, 200), (3, 13, 99)] {
            assert!(known.begin(Term::from(wrong)).is_err(), "{wrong:?}");
        }
        let next = known.next(5, Lsn::new(300), Timeline::FIRST);
        assert_eq!((next.number, known.begin(next)), (3, Ok(())));
        assert_eq!(next.to_string(), "term 1.3 (0000000000000005) from LSN 0/12C");
    }

    #[test]
    fn a_promotion_begins_a_timeline_whose_terms_are_higher_than_all_before() {
        let mut known = history(&[(1, 11, 0), (2, 12, 100)]);
        assert_eq!(known.timeline(), Timeline::FIRST);
        let promoted = known.next(6, Lsn::new(300), Timeline::new(3));
        assert_eq!(
            (promoted.timeline(), TermNumber(promoted.number).to_string()),
            (Timeline::new(3), "3.1".to_owned())
        );
        known.begin(promoted).unwrap();
        let opened = known.next(7, Lsn::new(300), Timeline::new(3));
        assert_eq!(
            (opened.timeline(), TermNumber(opened.number).to_string()),
            (Timeline::new(3), "3.2".to_owned())
        );
        let many = history(&[(u64::from(u32::MAX), 11, 0)]);
        assert!(many.next(8, Lsn::START, many.timeline().next()).number > many.last().unwrap().number);
    }
}
