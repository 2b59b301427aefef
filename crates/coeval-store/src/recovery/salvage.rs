// SPDX-License-Identifier: Apache-2.0
//! Opening a directory of which some tables are damaged, to read the others.
//!
//! Nothing is changed: the log is read and not settled, files that nobody needs stay. A table whose segments, flush rounds
//! or log records cannot be read has no rows in the resulting world, and says why to whoever asks for them. One that is
//! emptied or dropped later in the log is as good as new. An index alone is built again of its rows, in memory.
//!
//! Manifest and log are what tells which files count, and in what order: damage there is refused as ever.

use super::directory::{Decision, Directory};
use super::{Mending, Recovered, Replayer, open_error, restore};
use crate::disk::{Disk, LOG_DIR};
use crate::error::StoreError;
use crate::files::FileSystem;
use crate::log::{ChecksumPolicy, Lsn, read};
use crate::manifest::{FILE_NAME as MANIFEST_FILE, Manifest};
use crate::retention::Places;
use crate::rewinding_mark::refuse_unfinished_rewinding;
use crate::sequence::Sequences;
use crate::shared::Contents;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Locks a directory with a database, and reads its manifest. Nothing is changed.
///
/// # Errors
/// Damage of the manifest; [`StoreError::IncompleteDatabase`] if there is no database; [`StoreError::UnfinishedRewinding`]; those of
/// the file system.
pub(crate) fn open_locked(
    files: &Arc<dyn FileSystem>,
    dir: &Path,
    checksums: ChecksumPolicy,
) -> Result<(Disk, Manifest), StoreError> {
    let directory = Directory::look(&**files, dir)?;
    directory.refuse(dir)?;
    let missing = || StoreError::IncompleteDatabase {
        directory: dir.display().to_string(),
        found: "nothing".to_owned(),
        missing: MANIFEST_FILE,
        advice: "there is no database",
    };
    if directory.decision() == Decision::Create {
        return Err(missing());
    }
    let lock = files.lock(dir)?;
    refuse_unfinished_rewinding(&**files, dir)?;
    let manifest = Manifest::read(&**files, dir, checksums)?.ok_or_else(missing)?;
    let disk = Disk::new(Arc::clone(files), dir.to_path_buf(), lock, checksums, manifest.next_segment);
    Ok((disk, manifest))
}

/// Opens a directory to be read, without what is damaged.
///
/// # Errors
/// As [`open_locked`], and damage of the log.
pub(crate) fn salvage(
    files: Arc<dyn FileSystem>,
    dir: &Path,
    checksums: ChecksumPolicy,
) -> Result<Recovered, StoreError> {
    let (disk, manifest) = open_locked(&files, dir, checksums)?;
    let mut damaged = BTreeMap::new();
    let world = restore(&disk, &manifest, Mending::NotedWithIndexes(&mut damaged))?;
    let flushed_epochs = manifest.flushed_epochs();
    let mut replayer = Replayer::new(&disk, world, &manifest).salvaging(damaged);
    let from = Lsn::new(manifest.log);
    read(&*files, &dir.join(LOG_DIR), from, &mut |lsn, payload| replayer.record_to(lsn, payload))
        .map_err(open_error)?;
    let replayed = replayer.finish();
    let contents = Contents {
        sequences: Sequences::recovered(replayed.resume_points),
        world: replayed.world,
        flushed_epochs,
        next_space: replayed.next_space,
        next_sequence: replayed.next_sequence,
        manifest_log: from,
        terms: replayed.terms,
        time: replayed.time,
        kept: None,
        slots: Vec::new(),
        places: Places::default(),
        promise: None,
    };
    Ok(Recovered { contents, log: None, disk, applied: from })
}

#[cfg(test)]
mod tests;
