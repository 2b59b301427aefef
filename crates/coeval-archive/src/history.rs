// SPDX-License-Identifier: Apache-2.0
//! One history of a database: terms that follow one another, and what is archived of the log of each.
//!
//! A database that was restored to an earlier moment goes on in a term of its own. What its former term wrote behind that
//! moment lies in the archive as well, under the same places: it belongs to another history. So of each term a history has the
//! log up to where the next one begins, and no more.

use crate::contents::Contents;
use crate::names::ChunkName;
use coeval_store::log::Lsn;
use coeval_store::{ForeignHistory, Term, TermHistory};
use std::fmt;

/// The terms of a history, the oldest first; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History(Vec<Term>);

/// A stretch of log that is not archived: nothing in it can be restored, unless to its very beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Up to here the log is there.
    pub from: Lsn,
    /// It goes on here.
    pub to: Lsn,
    /// The id of the term that it goes on in.
    pub term: u64,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log between {} and {} is missing (term {:016x})", self.from, self.to, self.term)
    }
}

/// Where a place of the log is archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) chunk: ChunkName,
    /// The history takes it up to here.
    pub(crate) end: Lsn,
}

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

    /// Where the record that begins here is archived. Of several, the stretch that reaches farthest.
    pub(crate) fn stretch_at(&self, contents: &Contents, position: Lsn) -> Option<Stretch> {
        let (term, end) = self.term_at(position)?;
        let covers = |chunk: &&ChunkName| chunk.start <= position && position < chunk.end;
        let chunk = *contents.chunks_of(term.id).iter().filter(covers).max_by_key(|chunk| chunk.end)?;
        Some(Stretch { chunk, end: end.map_or(chunk.end, |end| chunk.end.min(end)) })
    }

    /// All stretches from a place on, as far as they follow on.
    pub(crate) fn stretches(&self, contents: &Contents, from: Lsn) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut position = from;
        while let Some(stretch) = self.stretch_at(contents, position) {
            position = stretch.end;
            stretches.push(stretch);
        }
        stretches
    }

    /// What is missing behind a place where the log ends: up to the next backup or stretch of this history.
    pub(crate) fn gap_at(&self, contents: &Contents, end: Lsn) -> Option<Gap> {
        let backups = contents.backups_of(self).map(|backup| (backup.position, backup.term));
        let chunks = self.0.iter().flat_map(|term| contents.chunks_of(term.id));
        let chunks =
            chunks.filter(|chunk| self.has(chunk.term, chunk.start)).map(|chunk| (chunk.start, chunk.term));
        let (to, term) = backups.chain(chunks).filter(|(start, _)| *start > end).min()?;
        Some(Gap { from: end, to, term })
    }

    /// What is missing between the first backup of the history and its end.
    pub(crate) fn gaps(&self, contents: &Contents) -> Vec<Gap> {
        let Some(first) = contents.backups_of(self).next() else { return Vec::new() };
        let (mut gaps, mut position) = (Vec::new(), first.position);
        loop {
            position = self.stretches(contents, position).last().map_or(position, |last| last.end);
            let Some(gap) = self.gap_at(contents, position) else { return gaps };
            gaps.push(gap);
            position = gap.to;
        }
    }
}

#[cfg(test)]
mod tests;
