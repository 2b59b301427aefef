// SPDX-License-Identifier: Apache-2.0
//! Checking a directory offline: files, trees, and everything a constraint says.
//!
//! # Steps
//! 1. The manifest, then each segment file it names: every byte against its checksum, keys ascending, and what its index says
//!    of columns against their values. Flush rounds of brick tables are read as an open does, to their ends.
//! 2. The log behind the manifest is read and applied in memory, as an open would; the files of its bulk loads
//!    are checked like those of the manifest.
//! 3. In the world that results: tree invariants; base and delta fit together; each row has its key, its
//!    entries in all indexes and no others; unique keys have one owner; NOT NULL, foreign keys and CHECKs hold.
//! 4. What the directory has promised, and what it keeps for others, can be read, and it is no replica's that has lost its mark.
//! 5. No sequence gives a number that its column has (a warning: somebody may have put it there; of hidden row ids a problem).
//!
//! Nothing is changed, but the directory is locked meanwhile. What is damaged is named and left out of later
//! steps, so that one damage is reported once.
//!
//! # Cost
//! Reads everything once, rows several times from memory. Whether rows and index entries fit is decided by a
//! sum of hashes over both, which needs no sort and no memory; only where sums differ are entries looked up.

mod constraints;
mod marks;
mod sequences;
mod spaces;

use crate::checks::CheckCompiler;
use crate::disk::{Disk, LOG_DIR};
use crate::error::{StoreError, TableDamage};
use crate::files::FileSystem;
use crate::log::{ChecksumPolicy, LogError, Lsn, OpenError, Tail, read};
use crate::manifest::{Manifest, manifest_path};
use crate::recovery::{Mending, ReplayedLog, Replayer, refuse_incomplete, restore};
use crate::rewinding_mark::refuse_unfinished_rewinding;
use crate::segment::SegmentRef;
use crate::table::Table;
use crate::world::World;
use constraints::check_table_constraints;
use marks::check_marks;
use sequences::check_sequences;
pub(crate) use sequences::move_row_ids;
use spaces::check_table_spaces;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// More problems than these are counted and not listed.
const PROBLEMS_LISTED_MAX: usize = 1_000;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, if it is a matter of one.
    pub file: Option<String>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.offset) {
            (Some(file), Some(offset)) => write!(formatter, "{file}, offset {offset}: {}", self.what),
            (Some(file), None) => write!(formatter, "{file}: {}", self.what),
            (None, _) => formatter.write_str(&self.what),
        }
    }
}

/// What a check has looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segment files read.
    pub segments: u64,
    /// Chunks in them.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub chunk_bytes: u64,
    /// Log records applied.
    pub log_records: u64,
    /// Bytes behind the last log record that a crash left; the next open cuts them off.
    pub torn_tail_bytes: u64,
    /// Tables in the resulting world.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Entries of their indexes.
    pub index_entries: u64,
    /// What is as somebody made it, and may surprise: such as a sequence that will give a number that its column has.
    pub warnings: Vec<String>,
    /// What is not as it must be; the first thousand.
    pub problems: Vec<Problem>,
    /// How many problems there are in all.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether everything is as it must be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(problem);
        }
    }

    /// A problem that concerns no file.
    fn add_fact(&mut self, what: String) {
        self.add(Problem { file: None, offset: None, what });
    }

    /// Why a table cannot be read, unless that has been reported: most of it has, with the file.
    fn add_damage(&mut self, TableDamage { file, offset, what }: &TableDamage) {
        let problem = Problem { file: Some(file.clone()), offset: Some(*offset), what: what.clone() };
        if !self.problems.contains(&problem) {
            self.add(problem);
        }
    }

    /// An error as a problem.
    fn add_error(&mut self, error: &StoreError) {
        let problem = match error {
            StoreError::Corrupt { file, offset, what } => {
                Problem { file: Some(file.clone()), offset: Some(*offset), what: what.clone() }
            }
            StoreError::Log(LogError::Damaged { path, offset, damage }) => Problem {
                file: Some(path.display().to_string()),
                offset: Some(*offset),
                what: damage.to_string(),
            },
            StoreError::Log(LogError::MissingSegment { path }) => Problem {
                file: Some(path.display().to_string()),
                offset: None,
                what: "the log segment is missing".to_owned(),
            },
            other => Problem { file: None, offset: None, what: other.to_string() },
        };
        self.add(problem);
    }
}

/// Checks the database in a directory without changing it. `checks` gives CHECK constraints their meaning;
/// without it they are not looked at.
///
/// # Errors
/// [`StoreError::File`] if the directory is in use or a file cannot be read. Damage is no error: it is in the
/// report.
pub fn verify(
    files: Arc<dyn FileSystem>,
    dir: &Path,
    checks: Option<Arc<dyn CheckCompiler>>,
) -> Result<VerifyReport, StoreError> {
    let lock = files.lock(dir)?;
    let mut report = VerifyReport::default();
    match refuse_incomplete(&*files, dir) {
        Ok(()) => {}
        Err(error @ StoreError::IncompleteDatabase { .. }) => {
            report.add_error(&error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    // The log may be anything but whole: what is amiss is that, and nothing else.
    match refuse_unfinished_rewinding(&*files, dir) {
        Ok(()) => {}
        Err(error @ StoreError::UnfinishedRewinding { .. }) => {
            report.add_error(&error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    let manifest = match Manifest::read(&*files, dir, ChecksumPolicy::Verified) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            report.add_error(&StoreError::corrupt(&manifest_path(dir), 0, "the manifest is missing"));
            return Ok(report);
        }
        Err(StoreError::File(error)) => return Err(error.into()),
        Err(error) => {
            report.add_error(&error);
            return Ok(report);
        }
    };
    let disk = Disk::new(files, dir.to_path_buf(), lock, ChecksumPolicy::Verified, manifest.next_segment);
    let mut damaged = HashSet::new();
    for entry in &manifest.segments {
        let reference = SegmentRef { number: entry.number, footer_checksum: entry.footer_checksum };
        check_segment(&disk, reference, &mut damaged, &mut report)?;
    }
    let mut tables = BTreeMap::new();
    let world = match restore(&disk, &manifest, Mending::Noted(&mut tables)) {
        Ok(world) => world,
        Err(StoreError::File(error)) => return Err(error.into()),
        Err(error) => {
            report.add_error(&error);
            return Ok(report);
        }
    };
    // Also what the log empties or drops later: an open reads it before.
    tables.values().for_each(|damage| report.add_damage(damage));
    let replayer = Replayer::new(&disk, world, &manifest).salvaging(tables);
    let replayed = replay(&disk, &manifest, replayer, &mut damaged, &mut report)?;
    check_marks(&disk, replayed.as_ref().map(|replayed| &replayed.terms), &mut report)?;
    if let Some(replayed) = replayed {
        check_world(&replayed.world, checks.as_deref(), &damaged, &mut report);
        check_sequences(&replayed, &damaged, &mut report);
    }
    Ok(report)
}

/// A chunk that cannot be read: segment and batch.
type DamagedChunks = HashSet<(u64, u32)>;

/// Checks a segment file and all its chunks.
fn check_segment(
    disk: &Disk,
    reference: SegmentRef,
    damaged: &mut DamagedChunks,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    report.segments += 1;
    let segment = match disk.open_segment(reference) {
        Ok(segment) => segment,
        Err(StoreError::File(error)) if !error.is_not_found() => return Err(error.into()),
        Err(error) => {
            report.add_error(&error);
            return Ok(());
        }
    };
    report.chunk_bytes += segment.bytes();
    for batch in 0..segment.chunk_count() as u32 {
        report.chunks += 1;
        match segment.check_chunk(batch) {
            Ok(None) => {}
            Ok(Some(misstated)) => report.add_error(&misstated),
            Err(error) => {
                report.add_error(&error);
                damaged.insert((reference.number, batch));
            }
        }
    }
    Ok(())
}

/// Applies the log to the manifest's world; `None` if that cannot be done up to its end.
fn replay(
    disk: &Disk,
    manifest: &Manifest,
    mut replayer: Replayer<'_>,
    damaged: &mut DamagedChunks,
    report: &mut VerifyReport,
) -> Result<Option<ReplayedLog>, StoreError> {
    let log_dir = disk.dir().join(LOG_DIR);
    let outcome = read(&**disk.files(), &log_dir, Lsn::new(manifest.log), &mut |end, payload| {
        for reference in Replayer::segments_of(payload)? {
            check_segment(disk, reference, damaged, report)?;
        }
        replayer.record_to(end, payload)
    });
    match outcome {
        Ok(summary) => {
            report.log_records = summary.records;
            if let Tail::Torn { bytes } = summary.tail {
                report.torn_tail_bytes = bytes;
            }
            Ok(Some(replayer.finish()))
        }
        Err(OpenError::Replay { path, offset, source }) => {
            report.add_error(&source.at(&path, offset));
            Ok(None)
        }
        Err(OpenError::Log(LogError::File(error))) => Err(error.into()),
        Err(OpenError::Log(error)) => {
            report.add_error(&error.into());
            Ok(None)
        }
    }
}

/// Whether the keys of a table ascend, and each row has its entries in all indexes and no others.
///
/// # Errors
/// If a chunk cannot be read: nothing is known then.
pub(crate) fn fits_its_indexes(table: &Table) -> Result<bool, StoreError> {
    let mut chunks = table.spaces().flat_map(|(_, space)| space.base().iter().map(|(_, chunk)| chunk));
    chunks.try_for_each(|chunk| chunk.check_whole())?;
    Ok(check_table_spaces(table, &mut VerifyReport::default()) == Soundness::Sound)
}

/// Whether some of a table cannot be read.
fn is_damaged(table: &Table, damaged: &DamagedChunks) -> bool {
    let spaces = table.spaces();
    let mut places = spaces.flat_map(|(_, space)| space.base().iter().filter_map(|(_, chunk)| chunk.place()));
    table.damage().is_some() || places.any(|place| damaged.contains(&(place.segment, place.batch)))
}

fn check_world(
    world: &World,
    checks: Option<&dyn CheckCompiler>,
    damaged: &DamagedChunks,
    report: &mut VerifyReport,
) {
    for table in world.tables() {
        report.tables += 1;
        report.rows += table.bricks().map_or(table.row_count(), |rows| rows.count(world.epochs()));
        report.index_entries += table.indexes().iter().map(|index| index.len()).sum::<u64>();
        if let Some(damage) = table.damage() {
            report.add_damage(damage);
            continue;
        }
        if is_damaged(table, damaged) {
            continue;
        }
        if check_table_spaces(table, report) == Soundness::Sound {
            check_table_constraints(world, table, checks, damaged, report);
        }
    }
}

/// Whether the rows of a table can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Soundness {
    Sound,
    Unsound,
}

#[cfg(test)]
mod tests;
