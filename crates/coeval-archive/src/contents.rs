// SPDX-License-Identifier: Apache-2.0
//! What an archive has, by the names of its objects and the histories of its terms.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::history::History;
use crate::names::{BACKUPS, BackupName, ChunkName, LOG, TERMS, log_of, parse_term, term};
use crate::sealed::{seal, unseal};
use coeval_store::log::Lsn;
use coeval_store::{StoreError, Term, TermHistory, Timeline};
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
        let from = self.histories.get(&from_term).map(History::newness);
        let is_later = |history: &&History| from.is_none_or(|from| history.newness() >= from);
        let later: BTreeSet<u64> =
            self.histories.values().filter(is_later).map(|history| history.last().id).collect();
        let last = self.backups.last().map(BackupName::name);
        let listed = archive.list_behind(BACKUPS, last.as_deref())?;
        self.backups.extend(listed.iter().filter_map(|(name, _)| BackupName::parse(name)));
        for term in later {
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
        let left = self.left();
        let mut leaves: Vec<_> = self.histories.values().collect();
        leaves.retain(|history| !left.contains_key(&history.last().id));
        leaves.sort_by_key(|history| std::cmp::Reverse(history.newness()));
        leaves
    }

    /// The same, and those of which the archive has more than all that have left them: a database that was open when another one was
    /// restored to an earlier moment goes on in its term, which the restored one has begun with.
    pub(crate) fn branches(&self) -> Vec<&History> {
        let left = self.left();
        let mut branches: Vec<_> = self.histories.values().collect();
        branches.retain(|history| {
            let term = history.last().id;
            left.get(&term).is_none_or(|left| self.ends_of(term).any(|end| end > *left))
        });
        branches.sort_by_key(|history| std::cmp::Reverse(history.newness()));
        branches
    }

    /// Of each term that another one follows, the place where the last of these begins. (A term that lies between two others may have
    /// archived nothing, and is known by what came behind it alone.)
    fn left(&self) -> BTreeMap<u64, Lsn> {
        let mut left = BTreeMap::new();
        for pair in self.histories.values().flat_map(|history| history.terms().windows(2)) {
            let at = left.entry(pair[0].id).or_insert(pair[1].start);
            *at = pair[1].start.max(*at);
        }
        left
    }

    /// Up to where backups and stretches of log of this very term reach.
    fn ends_of(&self, term: u64) -> impl Iterator<Item = Lsn> {
        let backups = self.backups.iter().filter(move |backup| backup.term == term);
        backups.map(|backup| backup.position).chain(self.chunks_of(term).iter().map(|chunk| chunk.end))
    }

    /// The timeline of a database that is restored from it, behind all that the archive has: whatever begins in it is newer than every
    /// history that is there, however often the databases of those are opened again, and than those of machines that were promoted
    /// without the archive having heard of it (`coeval-store/src/terms.rs`, The numbers of restores).
    pub(crate) fn timeline_of_restore(&self) -> Timeline {
        let timelines = self.histories.values().map(History::timeline);
        timelines.max().unwrap_or(Timeline::FIRST).of_restore()
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

    /// The histories that are no beginning of another one, as far as they are equally new: those of the highest timeline. How often
    /// each of their databases was opened says nothing about which one is meant.
    fn newest(&self) -> Vec<&History> {
        let mut leaves = self.newest_histories();
        let newest = leaves.first().map(|history| history.timeline());
        leaves.retain(|history| Some(history.timeline()) == newest);
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
mod tests;
