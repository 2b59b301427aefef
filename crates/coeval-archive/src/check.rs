// SPDX-License-Identifier: Apache-2.0
//! [`check()`]: whether an archive has what it says.

use crate::announcement::live_marks;
use crate::archive::Archive;
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::history::History;
use crate::log_chunk::LogChunk;
use crate::names::UNFINISHED;
use crate::pieces::Piece;
use coeval_store::log::Lsn;
use coeval_store::{LogTime, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the object.
    pub object: String,
    /// What is wrong with it, and what needs it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.what)
    }
}

/// A history that an archive has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedHistory {
    /// Its last term, whose id names it.
    pub last: Term,
    /// The backups that a restore of it can begin with.
    pub backups: usize,
    /// Up to where it can be restored from the last of them; `None` if there is no backup.
    pub end: Option<Lsn>,
}

impl ArchivedHistory {
    fn of(history: &History, contents: &Contents) -> Self {
        let newest = contents.backups_of(history).next_back().map(|newest| newest.position);
        let end = newest.map(|from| contents.stretches(history, from).last().map_or(from, |last| last.end));
        Self { last: history.last(), backups: contents.backups_of(history).count(), end }
    }
}

impl fmt::Display for ArchivedHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "history that ends with {}: {} backups", self.last, self.backups)?;
        match self.end {
            Some(end) => write!(f, ", restorable up to {end}"),
            None => f.write_str(", nothing of it can be restored"),
        }
    }
}

/// What a backup has of the rows of tables that are spread over a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadInBackup {
    /// Where the backup stands.
    pub backup: Lsn,
    /// When these rows were as it has them.
    pub taken: LogTime,
    /// How many tables, and rows of all of them.
    pub tables: usize,
    /// See `tables`.
    pub rows: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Backups, the oldest first: where each stands, and the last time before.
    pub backups: Vec<(Lsn, LogTime)>,
    /// Of those, the ones that have rows of spread tables.
    pub spread: Vec<SpreadInBackup>,
    /// Of those, the ones that have left out rows of spread tables: where each stands, and the names of the tables.
    pub left_out: Vec<(Lsn, String)>,
    /// The histories, the newest first: that is what a restore takes that is not told otherwise.
    pub histories: Vec<ArchivedHistory>,
    /// Stretches of log.
    pub chunks: usize,
    /// Pieces of files that something names.
    pub pieces: usize,
    /// Pieces that nothing names: left by backups that did not end, for a collection.
    pub unnamed_pieces: usize,
    /// Bytes that were read.
    pub bytes: u64,
    /// Marks of unfinished backups that count yet.
    pub unfinished: usize,
    /// What is damaged or missing.
    pub problems: Vec<Problem>,
    /// What is missing of the log, by the names of objects alone: of each history from its first backup on.
    pub gaps: Vec<Gap>,
    /// Those of `gaps` that lie before a backup which was made by itself, or between one and the next backup: no archiver was to send
    /// that log, and nothing was lost.
    pub gaps_between_backups: Vec<Gap>,
    /// Those of `gaps` of which the same would hold if a backup beside them was made by itself, and the program that made it was too old to
    /// say that. Whether somebody was to send that log is not known.
    pub gaps_of_unknown_kind: Vec<Gap>,
}

impl CheckReport {
    /// The gaps in what an archiver has sent, as far as that is known: moments that were to be restorable, and are not.
    pub fn lost_gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(|gap| {
            !self.gaps_between_backups.contains(gap) && !self.gaps_of_unknown_kind.contains(gap)
        })
    }

    /// Whether the archive has all that it is known that it was to have.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.lost_gaps().next().is_none()
    }
}

/// Reads everything that backups and log of an archive name, and compares it with its checksums. Changes nothing.
///
/// # Errors
/// [`ArchiveError::NoArchive`]; those of the storage; damage of a term, without which nothing can be told.
///
/// Cost: reads the archive.
pub fn check(archive: &Archive) -> Result<CheckReport, ArchiveError> {
    let contents = Contents::read(archive)?;
    let mut checker = Checker { archive, report: CheckReport::default(), named: BTreeMap::new() };
    let (mut alone, mut perhaps_alone) = (Vec::new(), Vec::new());
    checker.report.unfinished = live_marks(archive, UNFINISHED)?.len();
    for name in &contents.backups {
        let object = name.name();
        if let Some(entry) = checker.noted(&object, BackupEntry::fetch(archive, *name))? {
            checker.report.backups.push((entry.position(), entry.time()));
            checker.note_spread(&entry);
            let reach = (entry.position(), Lsn::new(entry.log_end));
            match entry.is_alone {
                Some(true) => alone.push(reach),
                Some(false) => {}
                None => perhaps_alone.push(reach),
            }
            checker.name(&object, entry.pieces());
            if !contents.histories.contains_key(&entry.term) {
                checker.note(&object, "its term is not there");
            }
            checker.check_database(&object, entry.database, contents.database);
        }
    }
    for name in contents.chunks.values().flatten() {
        let object = name.name();
        checker.report.chunks += 1;
        if let Some(chunk) = checker.noted(&object, LogChunk::fetch(archive, *name))? {
            checker.report.bytes +=
                chunk.records.iter().map(|record| record.payload.len() as u64).sum::<u64>();
            checker.check_database(&object, chunk.head.database, contents.database);
            checker.name(&object, chunk.head.files.iter().flat_map(|(_, file)| &file.pieces));
        }
    }
    checker.pieces()?;
    let mut report = checker.report;
    let branches = contents.branches();
    report.histories = branches.iter().map(|history| ArchivedHistory::of(history, &contents)).collect();
    let gaps = branches.iter().flat_map(|history| contents.gaps(history));
    report.gaps = gaps.collect::<BTreeSet<_>>().into_iter().collect();
    let backups: BTreeSet<Lsn> = contents.backups.iter().map(|backup| backup.position).collect();
    let (between, others): (Vec<_>, Vec<_>) =
        report.gaps.iter().copied().partition(|gap| is_beside(gap, &alone, &backups));
    let unknown: Vec<_> = others.into_iter().filter(|gap| is_beside(gap, &perhaps_alone, &backups)).collect();
    (report.gaps_between_backups, report.gaps_of_unknown_kind) = (between, unknown);
    Ok(report)
}

/// Whether a gap lies before a backup that was made by itself, or between one and the next backup. Of each of these is said where it stands,
/// and up to where the log was sent with it.
fn is_beside(gap: &Gap, alone: &[(Lsn, Lsn)], backups: &BTreeSet<Lsn>) -> bool {
    let is_behind = backups.contains(&gap.to) && alone.iter().any(|(_, end)| *end == gap.from);
    is_behind || alone.iter().any(|(position, _)| *position == gap.to)
}

struct Checker<'a> {
    archive: &'a Archive,
    report: CheckReport,
    /// Each piece, and something that names it.
    named: BTreeMap<Piece, String>,
}

impl Checker<'_> {
    fn note(&mut self, object: &str, what: impl Into<String>) {
        self.report.problems.push(Problem { object: object.to_owned(), what: what.into() });
    }

    fn note_spread(&mut self, entry: &BackupEntry) {
        let backup = entry.position();
        if let Some(spread) = &entry.spread {
            let (taken, tables, rows) = (spread.taken(), spread.tables.len(), spread.rows());
            self.report.spread.push(SpreadInBackup { backup, taken, tables, rows });
        }
        if !entry.left_out.is_empty() {
            self.report.left_out.push((backup, entry.left_out.join(", ")));
        }
    }

    fn check_database(&mut self, object: &str, found: u64, wanted: u64) {
        if found != wanted {
            self.note(object, format!("it is of database {found:016x}"));
        }
    }

    /// What was read, or a note why it cannot be.
    fn noted<T>(
        &mut self,
        object: &str,
        outcome: Result<T, ArchiveError>,
    ) -> Result<Option<T>, ArchiveError> {
        match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(ArchiveError::Damaged { what, .. }) => self.note(object, what),
            Err(ArchiveError::Missing { .. }) => self.note(object, "it is missing"),
            Err(error @ ArchiveError::UnsupportedVersion { .. }) => self.note(object, error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn name<'p>(&mut self, by: &str, pieces: impl Iterator<Item = &'p Piece>) {
        for piece in pieces {
            self.named.entry(piece.clone()).or_insert_with(|| by.to_owned());
        }
    }

    fn pieces(&mut self) -> Result<(), ArchiveError> {
        let named = std::mem::take(&mut self.named);
        let there = self.archive.list(crate::names::SEGMENTS)?;
        let names: BTreeSet<String> = named.keys().map(Piece::name).collect();
        self.report.unnamed_pieces = there.iter().filter(|(name, _)| !names.contains(name)).count();
        for (piece, by) in named {
            let outcome =
                self.noted(&format!("{} (named by {by})", piece.name()), piece.fetch(self.archive))?;
            self.report.pieces += 1;
            self.report.bytes += outcome.map_or(0, |bytes| bytes.len() as u64);
        }
        Ok(())
    }
}
