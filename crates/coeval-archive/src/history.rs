// SPDX-License-Identifier: Apache-2.0
//! One history of a database: terms that follow one another, and what of the log of each belongs to it.
//!
//! A database that was restored to an earlier moment goes on in a term of its own. What its former term wrote behind that
//! moment lies in the archive as well, under the same places: it belongs to another history. So of each term a history has the
//! log up to where the next one begins, and no more.

use coeval_store::log::Lsn;
use coeval_store::{ForeignHistory, Term, TermHistory};

/// The terms of a history, the oldest first; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History(Vec<Term>);

impl History {
    /// `None` if these terms do not follow one another.
    pub(crate) fn new(terms: Vec<Term>) -> Option<Self> {
        let ordered = terms
            .windows(2)
            .all(|pair| pair[1].number > pair[0].number && pair[0].start <= pair[1].start && pair[1].id != 0);
        (ordered && !terms.is_empty()).then_some(Self(terms))
    }

    pub(crate) fn last(&self) -> Term {
        *self.0.last().expect("a history has a term")
    }

    /// The id of the term before the last one.
    pub(crate) fn parent(&self) -> Option<u64> {
        self.0.len().checked_sub(2).map(|place| self.0[place].id)
    }

    pub(crate) fn terms(&self) -> &[Term] {
        &self.0
    }

    /// Up to where it has the log of the term at this place among its terms; `None` if that is the last one.
    fn end_of(&self, place: usize) -> Option<Lsn> {
        self.0.get(place + 1).map(|next| next.start)
    }

    /// Whether a log of the terms `own` that ends at `position` is the beginning of this history.
    ///
    /// # Errors
    /// How they part; also if that log has terms that are not known here yet.
    pub(crate) fn check_follower(&self, own: &TermHistory, position: Lsn) -> Result<(), ForeignHistory> {
        TermHistory::of(&self.0).check_follower(own.last().map(|term| term.id), position)
    }

    /// Whether a place of the log of this term belongs to it.
    pub(crate) fn has(&self, term: u64, position: Lsn) -> bool {
        let place = self.0.iter().position(|other| other.id == term);
        place.is_some_and(|place| {
            self.0[place].start <= position && self.end_of(place).is_none_or(|end| position <= end)
        })
    }

    /// The term whose log has the record that begins here, and up to where.
    pub(crate) fn term_at(&self, position: Lsn) -> Option<(Term, Option<Lsn>)> {
        let place = self.0.iter().rposition(|term| term.start <= position)?;
        Some((self.0[place], self.end_of(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_follow_one_another_by_their_numbers() {
        let term = |number, id, start| Term { number, id, start: Lsn::new(start) };
        assert!(
            History::new(vec![term(1, 11, 0), term(3, 12, 5)]).is_some(),
            "a promotion leaves numbers out"
        );
        assert!(History::new(vec![term(3, 11, 0), term(1, 12, 5)]).is_none());
    }
}
