// SPDX-License-Identifier: Apache-2.0
//! [`collect()`]: removing what nobody is going to restore.
//!
//! Backups that are not kept go first, then the log that only they needed, then the pieces that nothing names any more. So
//! whatever ends a collection, no backup names what is gone. What unfinished backups have announced stays
//! (`announcement.rs`).
//!
//! # Several histories
//! What is kept is kept of each history: of a database that was restored, and of the one that it was restored from, whoever of the two
//! still writes. Backups of one restore nothing of what only the other one has. Where they are one yet, a backup stays that either
//! of them keeps.
//!
//! # Rows that were left out
//! A backup without the rows of spread tables restores none of them. So where the oldest one that is kept has left them out, the last one before
//! that has them stays, too.

use crate::announcement::{Announced, live_marks, new_mark};
use crate::archive::Archive;
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::log_chunk::LogChunk;
use crate::names::{BackupName, COLLECTING, ChunkName, SEGMENTS, UNFINISHED, time_of_mark};
use crate::patience::Patience;
use crate::pieces::Piece;
use crate::sealed::{seal, unseal};
use coeval_store::log::Lsn;
use coeval_store::{LogTime, TermHistory};
use std::collections::BTreeSet;
use std::time::Duration;

/// The mark of a collection that is to stop is given so long, and so often, to go.
const LAST_ATTEMPT: Duration = Duration::from_secs(5);

/// See [`LAST_ATTEMPT`].
const LAST_ATTEMPTS: u32 = 3;

/// What is kept of each history. A backup stays if either rule keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many backups, the newest; at least one.
    pub count: usize,
    /// What every moment of this time can be restored with: all backups that are younger, and the last one before.
    pub age: Duration,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// Backups that stay, and that were removed.
    pub backups_kept: usize,
    /// See `backups_kept`.
    pub backups_removed: usize,
    /// Stretches of log that were removed.
    pub chunks_removed: usize,
    /// Pieces of files that were removed, and their bytes.
    pub pieces_removed: usize,
    /// See `pieces_removed`.
    pub bytes_removed: u64,
}

/// Pieces by their names, with their lengths.
type NamedPieces = BTreeSet<(String, u64)>;

/// Removes from an archive what is not to be kept. Backups may be made meanwhile: they wait until it is over, or are spared.
///
/// # Errors
/// [`ArchiveError::NoArchive`]; [`ArchiveError::Damaged`] if a backup, or a stretch of log, that is kept cannot be read: what it needs is
/// not known, so no piece of a file was removed, and all else was that is not to be kept. Those of the storage. What was not removed
/// is removed by the next one.
pub fn collect(archive: &Archive, keep: Keep) -> Result<CollectReport, ArchiveError> {
    collect_in(archive, keep, None)
}

/// The same, by the archiver of a database that writes in the term with this id: what a collection that did not end has left
/// is known by it ([`remove_own_marks`]).
pub(crate) fn collect_in(
    archive: &Archive,
    keep: Keep,
    term: Option<u64>,
) -> Result<CollectReport, ArchiveError> {
    if archive.database()?.is_none() {
        return Err(ArchiveError::NoArchive { place: archive.place().to_owned() });
    }
    let mark = new_mark(COLLECTING);
    let put = archive.put_new(&mark, seal(&term, &[]));
    let outcome = put.and_then(|_| collect_marked(archive, keep));
    // What is left of it would hold backups up for a day. So it goes also if nothing is to be waited for any more.
    let removed = archive.remove(&mark).or_else(|_| for_the_last_time(archive).remove(&mark));
    outcome.and_then(|report| removed.map(|()| report))
}

/// The archive as it is asked whether or not that is to stop: for some seconds.
fn for_the_last_time(archive: &Archive) -> Archive {
    let patience = archive.patience();
    let brief = Patience {
        attempts: patience.attempts.min(LAST_ATTEMPTS),
        attempt_max: patience.attempt_max.min(LAST_ATTEMPT),
        ..patience
    };
    archive.whatever_comes().with_patience(brief)
}

/// Removes the marks of collections that did not end, of archivers of the database with these terms: they would hold up backups for
/// a day. The caller has its directory open for writing, and removes nothing meanwhile.
///
/// # Why they have ended
/// The terms of one timeline are all begun by openings of one directory, as each promotion and each restore begins a timeline of its own.
/// A directory is open in one process at a time, and now it is in this one. A term of an earlier timeline may be another machine's, which
/// runs on.
///
/// # Errors
/// Those of the storage.
pub(crate) fn remove_own_marks(archive: &Archive, terms: &TermHistory) -> Result<(), ArchiveError> {
    let (timeline, terms) = (terms.timeline(), terms.terms());
    let is_own = |last: &usize| TermHistory::of(&terms[..=*last]).timeline() == timeline;
    let own: BTreeSet<u64> = (0..terms.len()).filter(is_own).map(|last| terms[last].id).collect();
    for (name, _) in archive.list(COLLECTING)? {
        let Some(bytes) = archive.get(&name)? else { continue };
        // One that is damaged is nobody's.
        let Ok((Some(term), _)) = unseal::<Option<u64>>(&name, &bytes) else { continue };
        if own.contains(&term) {
            tracing::warn!(place = archive.place(), mark = %name, "a collection did not end: its mark is removed");
            archive.remove(&name)?;
        }
    }
    Ok(())
}

fn collect_marked(archive: &Archive, keep: Keep) -> Result<CollectReport, ArchiveError> {
    // Behind the own mark: who announces something later waits for this to end.
    let (announced, unfinished) = announced(archive)?;
    let contents = Contents::read(archive)?;
    let found = contents.backups.iter().map(|name| Found::fetch(archive, *name));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let (kept, gone) = divide(&contents, found, keep, LogTime::now());
    let mut report = CollectReport { backups_kept: kept.len(), ..CollectReport::default() };
    for backup in &gone {
        archive.remove(&backup.name.name())?;
        report.backups_removed += 1;
    }
    let (mut named, mut names, mut damage) = (announced, unfinished, None);
    for Found { name, entry } in kept {
        names.push(name);
        match entry {
            Ok(entry) => named.extend(entry.pieces().map(Piece::listed)),
            Err(error) => {
                damage.get_or_insert(error);
            }
        }
    }
    for chunk in contents.chunks.values().flatten() {
        if !is_needed(&contents, &names, chunk) {
            archive.remove(&chunk.name())?;
            report.chunks_removed += 1;
        } else if chunk.has_files {
            match LogChunk::fetch(archive, *chunk) {
                Ok(LogChunk { head, .. }) => {
                    named.extend(head.files.iter().flat_map(|(_, file)| &file.pieces).map(Piece::listed));
                }
                Err(error) if is_of_object(&error) => {
                    damage.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
    }
    // Any piece may be what something needs that cannot be read.
    if damage.is_none() {
        remove_unnamed(archive, &named, &mut report)?;
    }
    remove_dead_marks(archive)?;
    damage.map_or(Ok(report), Err)
}

fn remove_unnamed(
    archive: &Archive,
    named: &NamedPieces,
    report: &mut CollectReport,
) -> Result<(), ArchiveError> {
    for (name, bytes) in archive.list(SEGMENTS)? {
        // By name alone: a piece with another length is damaged, and its name is needed to say so.
        if named.range((name.clone(), 0)..=(name.clone(), u64::MAX)).next().is_none() {
            archive.remove(&name)?;
            report.pieces_removed += 1;
            report.bytes_removed += bytes;
        }
    }
    Ok(())
}

/// A backup as it was found.
#[derive(Debug)]
struct Found {
    name: BackupName,
    /// Or why it cannot be read.
    entry: Result<BackupEntry, ArchiveError>,
}

impl Found {
    /// # Errors
    /// Those of the storage.
    fn fetch(archive: &Archive, name: BackupName) -> Result<Self, ArchiveError> {
        match BackupEntry::fetch(archive, name) {
            Err(error) if !is_of_object(&error) => Err(error),
            entry => Ok(Self { name, entry }),
        }
    }

    /// When it was made.
    fn made(&self) -> Option<u64> {
        self.entry.as_ref().ok().map(|entry| entry.made)
    }
}

/// Whether an object is not as this program would write it, as opposed to a storage that does not answer.
fn is_of_object(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Damaged { .. } | ArchiveError::Missing { .. } | ArchiveError::UnsupportedVersion { .. }
    )
}

/// Divides backups into those that stay and those that go, each history for itself. One of a history that is not known stays.
fn divide(contents: &Contents, backups: Vec<Found>, keep: Keep, now: LogTime) -> (Vec<Found>, Vec<Found>) {
    let mut kept = BTreeSet::new();
    for history in contents.branches() {
        let own = backups.iter().filter(|backup| history.has(backup.name.term, backup.name.position));
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|backup| std::cmp::Reverse((backup.name.position, backup.made())));
        own.truncate(count_with_rows(&own, count_of_kept(&own, keep, now)));
        kept.extend(own.iter().map(|backup| backup.name));
    }
    let stays =
        |backup: &Found| kept.contains(&backup.name) || !contents.histories.contains_key(&backup.name.term);
    backups.into_iter().partition(stays)
}

/// How many of the backups of a history stay, the newest of which comes first. One that cannot be read counts for nothing: it goes
/// once all that are older than it may go.
fn count_of_kept(backups: &[&Found], keep: Keep, now: LogTime) -> usize {
    let age = u64::try_from(keep.age.as_micros()).unwrap_or(u64::MAX);
    let since = now.micros().saturating_sub(age);
    let readable = backups.iter().enumerate();
    let readable: Vec<(usize, u64)> =
        readable.filter_map(|(place, backup)| Some((place, backup.made()?))).collect();
    let young = readable.iter().rposition(|(_, made)| *made >= since).map_or(0, |count| count + 1);
    let count = keep.count.max(1).max(young + 1);
    readable.get(count - 1).map_or(backups.len(), |(place, _)| place + 1)
}

/// So many, or as many as it takes to the last one with rows of spread tables, if the oldest of these has left them out.
fn count_with_rows(backups: &[&Found], count: usize) -> usize {
    let (kept, older) = backups.split_at(count.min(backups.len()));
    let oldest = kept.iter().rev().find_map(|backup| backup.entry.as_ref().ok());
    if oldest.is_none_or(|entry| entry.left_out.is_empty()) {
        return count;
    }
    let has_rows = |backup: &&Found| backup.name.spread.is_some() && backup.entry.is_ok();
    older.iter().position(has_rows).map_or(count, |place| count + place + 1)
}

/// Whether a stretch of log lies behind a backup that is kept, in a history of both. Of a history that is not known, it is.
fn is_needed(contents: &Contents, kept: &[BackupName], chunk: &ChunkName) -> bool {
    let Some(history) = contents.histories.get(&chunk.term) else { return true };
    kept.is_empty()
        || kept.iter().any(|backup| chunk.end > backup.position && history.has(backup.term, backup.position))
}

/// What unfinished backups rely on, and where they stand.
fn announced(archive: &Archive) -> Result<(NamedPieces, Vec<BackupName>), ArchiveError> {
    let (mut pieces, mut backups) = (NamedPieces::new(), Vec::new());
    for (name, _) in live_marks(archive, UNFINISHED)? {
        // It may have ended meanwhile: then what it relied on is named.
        if let Some(bytes) = archive.get(&name)? {
            let (announced, _) = unseal::<Announced>(&name, &bytes)?;
            pieces.extend(announced.pieces.iter().map(Piece::listed));
            let name = |(position, term)| BackupName { position: Lsn::new(position), term, spread: None };
            backups.extend(announced.backup.map(name));
        }
    }
    Ok((pieces, backups))
}

fn remove_dead_marks(archive: &Archive) -> Result<(), ArchiveError> {
    for folder in [UNFINISHED, COLLECTING] {
        let live: BTreeSet<String> = live_marks(archive, folder)?.into_iter().map(|(name, _)| name).collect();
        for (name, _) in archive.list(folder)? {
            if time_of_mark(&name).is_some() && !live.contains(&name) {
                archive.remove(&name)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use coeval_store::Term;
    use std::collections::BTreeMap;

    /// In this term, and made when its log was there.
    fn entry(term: u64, made: u64) -> BackupEntry {
        BackupEntry {
            database: 1,
            term,
            position: made,
            version: 1,
            time: made,
            made,
            log_end: made,
            manifest: Vec::new(),
            files: Vec::new(),
            is_alone: Some(false),
            spread: None,
            left_out: Vec::new(),
        }
    }

    /// The times of the backups that stay, of those in these terms; term 2 begins where term 1 was left, at 30.
    fn kept(entries: &[BackupEntry], count: usize, micros: u64) -> Vec<u64> {
        kept_beside(entries, &[], count, micros)
    }

    /// The same, and these of term 1 cannot be read.
    fn kept_beside(entries: &[BackupEntry], damaged: &[u64], count: usize, micros: u64) -> Vec<u64> {
        let first = Term { number: 1, id: 1, start: Lsn::new(0) };
        let second = Term { number: 2, id: 2, start: Lsn::new(30) };
        let mut histories = BTreeMap::from([(1, History::new(vec![first]).unwrap())]);
        if entries.iter().any(|entry| entry.term == 2) {
            histories.insert(2, History::new(vec![first, second]).unwrap());
        }
        let read = entries.iter().map(|entry| Found { name: entry.name(), entry: Ok(entry.clone()) });
        let damaged = damaged.iter().map(|position| {
            let name = BackupName { position: Lsn::new(*position), term: 1, spread: None };
            Found { name, entry: Err(ArchiveError::Missing { object: name.name() }) }
        });
        let found: Vec<_> = read.chain(damaged).collect();
        let backups = found.iter().map(|backup| backup.name).collect();
        let contents = Contents { database: 1, histories, backups, chunks: BTreeMap::new() };
        let keep = Keep { count, age: Duration::from_micros(micros) };
        let count = found.len();
        let (kept, gone) = divide(&contents, found, keep, LogTime::from_micros(45));
        assert_eq!(kept.len() + gone.len(), count);
        kept.iter().map(|backup| backup.name.position.get()).collect()
    }

    /// Seen to fail if one that cannot be read counts as one.
    #[test]
    fn one_that_cannot_be_read_counts_for_nothing_and_goes_with_those_around_it() {
        let entries = [10, 20, 30].map(|made| entry(1, made));
        assert_eq!(kept_beside(&entries, &[5, 15], 2, 0), [20, 30]);
        assert_eq!(kept_beside(&entries, &[25, 35], 2, 0), [20, 30, 25, 35]);
        assert_eq!(kept_beside(&entries, &[25], 1, 15), [20, 30, 25], "30 needs the one before");
        assert_eq!(kept_beside(&entries, &[5], 4, 0), [10, 20, 30, 5]);
    }

    #[test]
    fn a_backup_stays_if_either_rule_keeps_it() {
        let entries = [10, 20, 30, 40].map(|made| entry(1, made));
        assert_eq!(kept(&entries, 0, 0), [40], "one stays in any case");
        assert_eq!(kept(&entries, 3, 0), [20, 30, 40]);
        assert_eq!(kept(&entries, 1, 20), [20, 30, 40], "with 20 every moment from 25 on can be restored");
        assert_eq!(kept(&entries, 1, 1_000), [10, 20, 30, 40]);
    }

    /// All were one row, by the times when they were made. Seen to fail so: those of one history were removed for those of another.
    #[test]
    fn each_history_keeps_as_many() {
        let old = [10, 20, 40].map(|made| entry(1, made));
        let restored = [41, 42, 43].map(|made| entry(2, made));
        let entries = [old, restored].concat();
        assert_eq!(kept(&entries, 1, 0), [40, 43]);
        assert_eq!(kept(&entries, 2, 0), [20, 40, 42, 43]);
        assert_eq!(kept(&entries, 1, 4), [20, 40, 41, 42, 43], "41 needs the one before, which is of both");
        // Nobody has gone on behind the place where the other one begins: its backups are of one history.
        assert_eq!(kept(&[&entries[..2], &entries[3..]].concat(), 2, 0), [42, 43]);
        let unknown = entry(7, 5);
        assert_eq!(kept(&[entries.as_slice(), &[unknown]].concat(), 1, 0), [40, 43, 5]);
    }
}
