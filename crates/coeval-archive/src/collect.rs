// SPDX-License-Identifier: Apache-2.0
//! [`collect()`]: removing what nobody is going to restore.
//!
//! Backups that are not kept go first, then the log that only they needed, then the pieces that nothing names any more. So
//! whatever ends a collection, no backup names what is gone. What unfinished backups have announced stays
//! (`announcement.rs`).

use crate::announcement::{Announced, live_marks, new_mark};
use crate::archive::Archive;
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::log_chunk::LogChunk;
use crate::names::{BackupName, COLLECTING, ChunkName, SEGMENTS, UNFINISHED, time_of_mark};
use crate::sealed::{seal, unseal};
use coeval_store::LogTime;
use coeval_store::log::Lsn;
use std::collections::BTreeSet;
use std::time::Duration;

/// What is kept. A backup stays if either rule keeps it.
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
/// [`ArchiveError::NoArchive`]; [`ArchiveError::Damaged`] if a backup that is kept cannot be read, as what it needs is not
/// known then; those of the storage. What was not removed is removed by the next one.
pub fn collect(archive: &Archive, keep: Keep) -> Result<CollectReport, ArchiveError> {
    if archive.database()?.is_none() {
        return Err(ArchiveError::NoArchive { place: archive.place().to_owned() });
    }
    let mark = new_mark(COLLECTING);
    archive.put_new(&mark, seal(&(), &[]))?;
    let outcome = collect_marked(archive, keep);
    // What is left of it holds backups up for a day at most.
    let removed = archive.remove(&mark);
    outcome.and_then(|report| removed.map(|()| report))
}

fn collect_marked(archive: &Archive, keep: Keep) -> Result<CollectReport, ArchiveError> {
    // Behind the own mark: who announces something later waits for this to end.
    let (announced, unfinished) = announced(archive)?;
    let contents = Contents::read(archive)?;
    let entries = contents.backups.iter().map(|name| BackupEntry::fetch(archive, *name));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let (kept, gone) = divide(entries, keep, LogTime::now());
    let mut report = CollectReport { backups_kept: kept.len(), ..CollectReport::default() };
    for entry in &gone {
        archive.remove(&entry.name().name())?;
        report.backups_removed += 1;
    }
    let mut named = announced;
    named.extend(kept.iter().flat_map(BackupEntry::pieces).map(|piece| piece.listed()));
    let kept: Vec<BackupName> = kept.iter().map(BackupEntry::name).chain(unfinished).collect();
    for chunk in contents.chunks.values().flatten() {
        if !is_needed(&contents, &kept, chunk) {
            archive.remove(&chunk.name())?;
            report.chunks_removed += 1;
        } else if chunk.has_files {
            let head = LogChunk::fetch(archive, *chunk)?.head;
            named.extend(head.files.iter().flat_map(|(_, file)| &file.pieces).map(|piece| piece.listed()));
        }
    }
    for (name, bytes) in archive.list(SEGMENTS)? {
        // By name alone: a piece with another length is damaged, and its name is needed to say so.
        if named.range((name.clone(), 0)..=(name.clone(), u64::MAX)).next().is_none() {
            archive.remove(&name)?;
            report.pieces_removed += 1;
            report.bytes_removed += bytes;
        }
    }
    remove_dead_marks(archive)?;
    Ok(report)
}

/// Divides backups into those that stay and those that go.
fn divide(mut entries: Vec<BackupEntry>, keep: Keep, now: LogTime) -> (Vec<BackupEntry>, Vec<BackupEntry>) {
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.made, entry.position)));
    let age = u64::try_from(keep.age.as_micros()).unwrap_or(u64::MAX);
    let since = now.micros().saturating_sub(age);
    let young = entries.partition_point(|entry| entry.made >= since);
    let stays = keep.count.max(1).max(young + 1).min(entries.len());
    let gone = entries.split_off(stays);
    (entries, gone)
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
            pieces.extend(announced.pieces.iter().map(|piece| piece.listed()));
            let name = |(position, term)| BackupName { position: Lsn::new(position), term };
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

    #[test]
    fn a_backup_stays_if_either_rule_keeps_it() {
        let entry = |made: u64| BackupEntry {
            database: 1,
            term: 1,
            position: made,
            version: 1,
            time: made,
            made,
            log_end: made,
            manifest: Vec::new(),
            files: Vec::new(),
        };
        let kept = |count, micros| {
            let keep = Keep { count, age: Duration::from_micros(micros) };
            let entries = [10, 20, 30, 40].map(entry).to_vec();
            let (kept, gone) = divide(entries, keep, LogTime::from_micros(45));
            assert_eq!(kept.len() + gone.len(), 4);
            kept.iter().map(|entry| entry.made).collect::<Vec<_>>()
        };
        assert_eq!(kept(0, 0), [40], "one stays in any case");
        assert_eq!(kept(3, 0), [40, 30, 20]);
        assert_eq!(kept(1, 20), [40, 30, 20], "with 20 every moment from 25 on can be restored");
        assert_eq!(kept(1, 1_000), [40, 30, 20, 10]);
    }
}
