// SPDX-License-Identifier: Apache-2.0
//! What an archive has, by the names of its objects and the histories of its terms.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::history::History;
use crate::names::{BACKUPS, BackupName, ChunkName, LOG, TERMS, log_of, parse_term, term};
use crate::sealed::{seal, unseal};
use coeval_store::log::Lsn;
use coeval_store::{StoreError, Term, TermHistory};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A term with all before it.
#[derive(Debug, Serialize, Deserialize)]
struct TermHead {
    terms: Vec<Term>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) database: u64,
    /// By the ids of their last terms.
    pub(crate) histories: BTreeMap<u64, History>,
    /// In the order of their positions.
    pub(crate) backups: Vec<BackupName>,
    /// By their terms, in the order of their starts.
    pub(crate) chunks: BTreeMap<u64, Vec<ChunkName>>,
}

/// Where a place of the log is archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) chunk: ChunkName,
    /// The history takes it up to here.
    pub(crate) end: Lsn,
}

/// Writes down a term with all before it. `terms` ends with it.
///
/// # Errors
/// Those of the storage; [`ArchiveError::Differs`] if two histories have a term with one id.
pub(crate) fn put_term(archive: &Archive, terms: &[Term]) -> Result<(), ArchiveError> {
    let last = terms.last().expect("a history has a term");
    archive.put_new(&term(*last), seal(&TermHead { terms: terms.to_vec() }, &[])).map(drop)
}

impl Contents {
    /// Costs listings, and a look at each term.
    ///
    /// # Errors
    /// [`ArchiveError::NoArchive`]; [`ArchiveError::Damaged`] if a term is; those of the storage.
    pub(crate) fn read(archive: &Archive) -> Result<Self, ArchiveError> {
        let Some(database) = archive.database()? else {
            return Err(ArchiveError::NoArchive { place: archive.place().to_owned() });
        };
        let mut histories = BTreeMap::new();
        read_new_terms(archive, &mut histories)?;
        // In this order: log is collected behind backups, so what is listed of it belongs to these.
        let backups = archive.list(BACKUPS)?;
        let backups = backups.iter().filter_map(|(name, _)| BackupName::parse(name)).collect();
        let mut chunks: BTreeMap<u64, Vec<ChunkName>> = BTreeMap::new();
        for (name, _) in archive.list(LOG)? {
            if let Some(chunk) = ChunkName::parse(&name) {
                chunks.entry(chunk.term).or_default().push(chunk);
            }
        }
        chunks.values_mut().for_each(|chunks| chunks.sort());
        Ok(Self { database, histories, backups, chunks })
    }

    /// Adds the terms that are new, and the backups and the log of this term and later ones that lie behind what is known of
    /// each. Costs a listing of each of these. What was put out of order, and what is gone, is not seen.
    ///
    /// # Errors
    /// As [`read`](Self::read); what was added stays.
    pub(crate) fn read_new(&mut self, archive: &Archive, from_term: u64) -> Result<(), ArchiveError> {
        read_new_terms(archive, &mut self.histories)?;
        let number = self.histories.get(&from_term).map_or(0, |history| history.last().number);
        let later = self.histories.values().map(History::last).filter(|term| term.number >= number);
        let last = self.backups.last().map(BackupName::name);
        let listed = archive.list_behind(BACKUPS, last.as_deref())?;
        self.backups.extend(listed.iter().filter_map(|(name, _)| BackupName::parse(name)));
        for term in later.map(|term| term.id).collect::<BTreeSet<_>>() {
            let last = self.chunks_of(term).last().map(ChunkName::name);
            let listed = archive.list_behind(&log_of(term), last.as_deref())?;
            let chunks = self.chunks.entry(term).or_default();
            chunks.extend(listed.iter().filter_map(|(name, _)| ChunkName::parse(name)));
            chunks.sort();
        }
        Ok(())
    }

    /// The histories that are no beginning of another one, the newest first.
    pub(crate) fn newest_histories(&self) -> Vec<&History> {
        let parents: BTreeSet<u64> = self.histories.values().filter_map(History::parent).collect();
        let leaves = self.histories.iter().filter(|(id, _)| !parents.contains(id));
        let mut leaves: Vec<_> = leaves.map(|(_, history)| history).collect();
        leaves.sort_by_key(|history| std::cmp::Reverse(history.last().number));
        leaves
    }

    /// The history that ends with a term, or the newest one.
    ///
    /// # Errors
    /// [`ArchiveError::Ambiguous`] if several are equally new; [`ArchiveError::OutOfRange`] if the term is not there.
    pub(crate) fn history(&self, last: Option<u64>) -> Result<&History, ArchiveError> {
        if let Some(id) = last {
            return self.histories.get(&id).ok_or_else(|| ArchiveError::OutOfRange {
                target: format!("a history that ends with term {id:016x}"),
                range: format!("it has {}", names_of(&self.newest_histories())),
            });
        }
        only_one(&self.newest())
    }

    /// The histories that are no beginning of another one, as far as they are equally new.
    fn newest(&self) -> Vec<&History> {
        let mut leaves = self.newest_histories();
        let newest = leaves.first().map(|history| history.last().number);
        leaves.retain(|history| Some(history.last().number) == newest);
        leaves
    }

    /// The newest history, for one who has a log of the terms `own` up to `position`. `None` if the archive is behind that: it
    /// does not have the last of these terms yet.
    ///
    /// # Errors
    /// [`ArchiveError::AnotherDatabase`]; [`StoreError::ForeignHistory`] if the log is not the beginning of the newest history
    /// (it may be that of an older one, in which nobody goes on any more); [`ArchiveError::Ambiguous`].
    pub(crate) fn history_behind(
        &self,
        archive: &Archive,
        own: &TermHistory,
        position: Lsn,
    ) -> Result<Option<&History>, ArchiveError> {
        let (database, found) = (own.database_id(), self.database);
        if database != 0 && database != found {
            let place = archive.place().to_owned();
            return Err(ArchiveError::AnotherDatabase { place, database, found });
        }
        let (mut going_on, mut is_behind, mut parted) = (Vec::new(), false, None);
        for history in self.newest() {
            match history.check_follower(own, position) {
                Ok(()) => going_on.push(history),
                Err(_) if own.terms().contains(&history.last()) => is_behind = true,
                Err(error) => parted = Some(error),
            }
        }
        match (going_on.as_slice(), parted) {
            ([], _) if is_behind => Ok(None),
            ([], Some(error)) => Err(StoreError::from(error).into()),
            _ => only_one(&going_on).map(Some),
        }
    }

    /// The backups that a history can begin with, in the order of their positions.
    pub(crate) fn backups_of(&self, history: &History) -> impl DoubleEndedIterator<Item = BackupName> {
        self.backups.iter().copied().filter(|backup| history.has(backup.term, backup.position))
    }

    /// The stretches of log that are archived of a term.
    pub(crate) fn chunks_of(&self, term: u64) -> &[ChunkName] {
        self.chunks.get(&term).map_or(&[], Vec::as_slice)
    }

    /// Where the record of a history that begins here is archived. Of several, the stretch that reaches farthest.
    pub(crate) fn stretch_at(&self, history: &History, position: Lsn) -> Option<Stretch> {
        let (term, end) = history.term_at(position)?;
        let covers = |chunk: &&ChunkName| chunk.start <= position && position < chunk.end;
        let chunk = *self.chunks_of(term.id).iter().filter(covers).max_by_key(|chunk| chunk.end)?;
        Some(Stretch { chunk, end: end.map_or(chunk.end, |end| chunk.end.min(end)) })
    }

    /// All stretches of a history from a place on, as far as they follow on.
    pub(crate) fn stretches(&self, history: &History, from: Lsn) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut position = from;
        while let Some(stretch) = self.stretch_at(history, position) {
            position = stretch.end;
            stretches.push(stretch);
        }
        stretches
    }

    /// What is missing behind a place where the log ends: up to the next backup or stretch of the history.
    pub(crate) fn gap_at(&self, history: &History, end: Lsn) -> Option<Gap> {
        let backups = self.backups_of(history).map(|backup| (backup.position, backup.term));
        let chunks = history.terms().iter().flat_map(|term| self.chunks_of(term.id));
        let chunks = chunks
            .filter(|chunk| history.has(chunk.term, chunk.start))
            .map(|chunk| (chunk.start, chunk.term));
        let (to, term) = backups.chain(chunks).filter(|(start, _)| *start > end).min()?;
        Some(Gap { from: end, to, term })
    }

    /// What is missing between the first backup of a history and its end.
    pub(crate) fn gaps(&self, history: &History) -> Vec<Gap> {
        let Some(first) = self.backups_of(history).next() else { return Vec::new() };
        let (mut gaps, mut position) = (Vec::new(), first.position);
        loop {
            position = self.stretches(history, position).last().map_or(position, |last| last.end);
            let Some(gap) = self.gap_at(history, position) else { return gaps };
            gaps.push(gap);
            position = gap.to;
        }
    }
}

/// Of histories that are equally new.
fn only_one<'h>(newest: &[&'h History]) -> Result<&'h History, ArchiveError> {
    match newest {
        [] => Err(ArchiveError::OutOfRange {
            target: "a backup".to_owned(),
            range: "there is none that was finished".to_owned(),
        }),
        [only] => Ok(only),
        several => Err(ArchiveError::Ambiguous { histories: names_of(several) }),
    }
}

/// Adds the terms that are not known yet: they never change.
fn read_new_terms(archive: &Archive, histories: &mut BTreeMap<u64, History>) -> Result<(), ArchiveError> {
    for (name, _) in archive.list(TERMS)? {
        if let Some((_, id)) = parse_term(&name)
            && !histories.contains_key(&id)
        {
            histories.insert(id, read_term(archive, &name)?);
        }
    }
    Ok(())
}

fn names_of(histories: &[&History]) -> String {
    let names = histories.iter().map(|history| history.last().to_string());
    names.collect::<Vec<_>>().join(", ")
}

fn read_term(archive: &Archive, name: &str) -> Result<History, ArchiveError> {
    let (head, _) = unseal::<TermHead>(name, &archive.fetch(name)?)?;
    let history = History::new(head.terms);
    history.filter(|history| term(history.last()) == name).ok_or_else(|| ArchiveError::Damaged {
        object: name.to_owned(),
        what: "it is no history that ends with this term".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let stretches = contents.stretches(history, lsn(10)).into_iter();
            stretches.map(|stretch| (stretch.chunk.term, stretch.end.get())).collect::<Vec<_>>()
        };
        assert_eq!(ends(old), [(11, 100), (11, 120), (11, 200)]);
        assert_eq!(ends(new), [(11, 100), (11, 120), (11, 150), (12, 260)]);
        let backups =
            |history| contents.backups_of(history).map(|name| name.position.get()).collect::<Vec<_>>();
        assert_eq!((backups(old), backups(new)), (vec![10, 180], vec![10, 300]));
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
        let gaps = contents.gaps(&contents.histories[&12]);
        let gap = |from, to| Gap { from: lsn(from), to: lsn(to), term: 12 };
        assert_eq!(gaps, [gap(260, 300), gap(300, 310)]);
        assert_eq!(contents.gaps(&contents.histories[&11]), []);
    }
}
