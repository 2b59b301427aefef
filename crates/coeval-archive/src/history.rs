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
mod tests {
    use super::*;
    use crate::archive::Archive;
    use crate::error::ArchiveError;
    use crate::names::BackupName;
    use coeval_store::{StoreError, Timeline};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    fn term(number: u64, id: u64, start: u64) -> Term {
        Term { number, id, start: lsn(start) }
    }

    fn chunk(term: u64, start: u64, end: u64) -> ChunkName {
        ChunkName { term, start: lsn(start), end: lsn(end), has_files: false }
    }

    /// Term 1 wrote up to 200; a restore to 150 went on as term 2; 260 to 300 of it are missing.
    fn parted() -> Contents {
        let histories = [vec![term(1, 11, 0)], vec![term(1, 11, 0), term(2, 12, 150)]];
        let histories = histories.map(|terms| (terms.last().unwrap().id, History::new(terms).unwrap()));
        let chunks = [
            (11, vec![chunk(11, 10, 100), chunk(11, 90, 120), chunk(11, 120, 200)]),
            (12, vec![chunk(12, 150, 260), chunk(12, 310, 400)]),
        ];
        let backups = [(10, 11), (180, 11), (300, 12)];
        let backups = backups.map(|(position, term)| BackupName { position: lsn(position), term });
        Contents {
            database: 11,
            histories: histories.into(),
            backups: backups.into(),
            chunks: BTreeMap::from(chunks),
        }
    }

    #[test]
    fn a_history_takes_of_a_term_what_lies_before_the_next_one() {
        let contents = parted();
        let (old, new) = (&contents.histories[&11], contents.history(None).unwrap());
        assert_eq!(new.last().id, 12, "the newest that is no beginning of another one");
        let ends = |history: &History| {
            let stretches = history.stretches(&contents, lsn(10)).into_iter();
            stretches.map(|stretch| (stretch.chunk.term, stretch.end.get())).collect::<Vec<_>>()
        };
        assert_eq!(ends(old), [(11, 100), (11, 120), (11, 200)]);
        assert_eq!(ends(new), [(11, 100), (11, 120), (11, 150), (12, 260)]);
        let backups =
            |history| contents.backups_of(history).map(|name| name.position.get()).collect::<Vec<_>>();
        assert_eq!((backups(old), backups(new)), (vec![10, 180], vec![10, 300]));
    }

    /// Seen to fail if only the term before the last one counts as left.
    #[test]
    fn a_term_that_has_archived_nothing_makes_no_second_history() {
        let mut contents = parted();
        let later = vec![term(1, 11, 0), term(2, 12, 150), term(3, 13, 400), term(4, 14, 400)];
        contents.histories.insert(14, History::new(later).unwrap());
        assert_eq!(contents.history(None).unwrap().last().id, 14);
        let ids = |found: Vec<&History>| found.iter().map(|history| history.last().id).collect::<Vec<_>>();
        assert_eq!(ids(contents.newest_histories()), [14]);
        assert_eq!(ids(contents.branches()), [14, 11], "term 1 has written on behind the parting");
    }

    /// Seen to fail if the newest is the one whose database was opened most often.
    #[test]
    fn of_one_timeline_none_is_newer_than_another_one() {
        let mut contents = parted();
        let old = vec![term(1, 11, 0), term(2, 15, 200), term(3, 16, 210)];
        contents.histories.insert(16, History::new(old).unwrap());
        assert!(matches!(contents.history(None), Err(ArchiveError::Ambiguous { .. })));
        let timeline = contents.next_timeline();
        assert_eq!(timeline, Timeline::new(2));
        let restored = vec![term(1, 11, 0), term((1 << 32) + 1, 17, 160)];
        contents.histories.insert(17, History::new(restored).unwrap());
        assert_eq!(contents.history(None).unwrap().last().timeline(), timeline);
        assert_eq!(contents.history(Some(16)).unwrap().last().number, 3);
    }

    #[test]
    fn who_follows_goes_on_in_the_newest_history_that_his_log_begins() {
        let mut contents = parted();
        // A second restore, to 170.
        let second = vec![term(1, 11, 0), term(2, 13, 170)];
        contents.histories.insert(13, History::new(second).unwrap());
        let store = Arc::new(object_store::memory::InMemory::new());
        let archive = Archive::with_store(store, "memory").unwrap();
        let first = term(1, 11, 0);
        let followed = |terms: &[Term], position| {
            let found = contents.history_behind(&archive, &TermHistory::of(terms), lsn(position));
            found.map(|history| history.map(|history| history.last().id))
        };
        assert!(matches!(followed(&[first], 100), Err(ArchiveError::Ambiguous { .. })));
        assert_eq!(followed(&[first], 160).unwrap(), Some(13), "the other one has begun before");
        assert_eq!(followed(&[first, term(2, 12, 150)], 155).unwrap(), Some(12));
        assert_eq!(
            followed(&[first, term(2, 12, 150), term(3, 14, 500)], 600).unwrap(),
            None,
            "it is behind"
        );
        for foreign in [&[first][..], &[first, term(2, 15, 150)]] {
            let refused = followed(foreign, 190);
            assert!(
                matches!(refused, Err(ArchiveError::Store(StoreError::ForeignHistory(_)))),
                "{refused:?}"
            );
        }
        assert!(matches!(followed(&[term(1, 99, 0)], 5), Err(ArchiveError::AnotherDatabase { .. })));
    }

    #[test]
    fn gaps_are_named() {
        let contents = parted();
        let gaps = contents.histories[&12].gaps(&contents);
        let gap = |from, to| Gap { from: lsn(from), to: lsn(to), term: 12 };
        assert_eq!(gaps, [gap(260, 300), gap(300, 310)]);
        assert_eq!(contents.histories[&11].gaps(&contents), []);
        assert!(
            History::new(vec![term(1, 11, 0), term(3, 12, 5)]).is_some(),
            "a promotion leaves numbers out"
        );
        assert!(History::new(vec![term(3, 11, 0), term(1, 12, 5)]).is_none());
    }
}
