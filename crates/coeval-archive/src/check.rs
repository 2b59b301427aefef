// SPDX-License-Identifier: Apache-2.0
//! [`check()`]: whether an archive has what it says.

use crate::announcement::live_marks;
use crate::archive::Archive;
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::gap::Gap;
use crate::log_chunk::LogChunk;
use crate::names::UNFINISHED;
use crate::pieces::Piece;
use coeval_store::LogTime;
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

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Backups, the oldest first: where each stands, and the last time before.
    pub backups: Vec<(coeval_store::log::Lsn, LogTime)>,
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
    checker.report.unfinished = live_marks(archive, UNFINISHED)?.len();
    for name in &contents.backups {
        let object = name.name();
        if let Some(entry) = checker.noted(&object, BackupEntry::fetch(archive, *name))? {
            checker.report.backups.push((entry.position(), entry.time()));
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
    let gaps = contents.newest_histories().into_iter().flat_map(|history| contents.gaps(history));
    report.gaps = gaps.collect::<BTreeSet<_>>().into_iter().collect();
    Ok(report)
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
