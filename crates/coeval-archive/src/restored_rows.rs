// SPDX-License-Identifier: Apache-2.0
//! Rows of spread tables that a restore has brought back, until a cluster has them: [`RestoredRows`].
//!
//! A restore makes a directory and no cluster, so it puts these rows beside the database. The first server that makes a cluster of that
//! directory loads them, and removes them once they are committed there.
//!
//! ```text
//!   DIR/cluster/restored/rows        a sealed object: which tables, their parts, and as of when. Written last, removed first
//!                        000001      a part, as it was in the archive
//!                        000002 ...
//! ```
//! Without `rows` the other files mean nothing, and whoever comes next removes them. A restore that did not end leaves a directory that
//! nobody opens, and the next one begins with removing what is there.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::pieces::{PIECES_AT_ONCE, Piece, at_once};
use crate::sealed::{seal, unseal};
use crate::spread_rows::{ArchivedSpread, ArchivedTable};
use coeval_store::files::{DiskFiles, FileError, FileSystem, replace_file};
use coeval_store::{LogTime, StoreError};
use coeval_txn::Epoch;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where they lie in the directory of a database: in the folder of its node.
const FOLDER: [&str; 2] = ["cluster", "restored"];
/// What says that they are whole.
const LIST: &str = "rows";

/// Rows of spread tables that wait to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredRows {
    folder: PathBuf,
    list: List,
}

/// What the list has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    epoch: u64,
    taken: u64,
    tables: Vec<RestoredTable>,
}

/// A table with rows that wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredTable {
    /// Its number, which is the same in the restored database.
    pub table: u64,
    /// Its name when the backup was made.
    pub name: String,
    /// In order.
    pub parts: Vec<RestoredPart>,
}

/// Some rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredPart {
    /// How many.
    pub rows: u64,
    file: u64,
    piece: Piece,
}

impl RestoredTable {
    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }
}

impl RestoredRows {
    /// What waits in the directory of a database; nothing if all of it was loaded, or there was nothing. Parts that mean nothing any more
    /// are removed.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`]; [`ArchiveError::Store`] if the directory cannot be read or written.
    pub fn open(dir: &Path) -> Result<Option<Self>, ArchiveError> {
        let folder = folder_of(dir);
        let path = folder.join(LIST);
        if !DiskFiles.exists(&path).map_err(StoreError::from)? {
            clear(&DiskFiles, dir)?;
            return Ok(None);
        }
        let bytes = DiskFiles.read(&path).map_err(StoreError::from)?;
        let (list, _) = unseal::<List>(&path.display().to_string(), &bytes.into())?;
        Ok(Some(Self { folder, list }))
    }

    /// Where they lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// They are what the archived cluster had up to this epoch of its own.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch::new(self.list.epoch)
    }

    /// When they were so.
    #[must_use]
    pub fn taken(&self) -> LogTime {
        LogTime::from_micros(self.list.taken)
    }

    /// The tables, also those that had no rows.
    #[must_use]
    pub fn tables(&self) -> &[RestoredTable] {
        &self.list.tables
    }

    /// The bytes of a part, as the source of the backup gave them.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`]; [`ArchiveError::Store`] if they cannot be read.
    pub fn read(&self, part: &RestoredPart) -> Result<Vec<u8>, ArchiveError> {
        let path = self.folder.join(name_of(part.file));
        let bytes = DiskFiles.read(&path).map_err(StoreError::from)?;
        part.piece.check(&bytes).map_err(|error| match error {
            ArchiveError::Damaged { what, .. } => {
                ArchiveError::Damaged { object: path.display().to_string(), what }
            }
            error => error,
        })?;
        Ok(bytes)
    }

    /// Removes them: somebody else has them durably.
    ///
    /// # Errors
    /// [`ArchiveError::Store`]: they may count yet, or not.
    pub fn remove(self) -> Result<(), ArchiveError> {
        clear_folder(&DiskFiles, &self.folder)
    }
}

fn folder_of(dir: &Path) -> PathBuf {
    FOLDER.iter().fold(dir.to_owned(), |path, part| path.join(part))
}

/// The name of the file with this number.
fn name_of(file: u64) -> String {
    format!("{file:06}")
}

/// Removes what an earlier restore into this directory has brought, if one has.
///
/// # Errors
/// [`ArchiveError::Store`].
pub(crate) fn clear(files: &dyn FileSystem, dir: &Path) -> Result<(), ArchiveError> {
    clear_folder(files, &folder_of(dir))
}

fn clear_folder(files: &dyn FileSystem, folder: &Path) -> Result<(), ArchiveError> {
    remove_files(files, folder).map_err(|error| StoreError::from(error).into())
}

/// The list first: what is left without it means nothing.
fn remove_files(files: &dyn FileSystem, folder: &Path) -> Result<(), FileError> {
    if !files.exists(folder)? {
        return Ok(());
    }
    let list = folder.join(LIST);
    if files.exists(&list)? {
        files.remove(&list)?;
        files.sync_dir(folder)?;
    }
    for name in files.list(folder)? {
        files.remove(&folder.join(name))?;
    }
    files.sync_dir(folder)
}

/// Writes what a backup has into the directory of a database, which had nothing of the kind. Durable on return; gives its bytes.
///
/// # Errors
/// [`ArchiveError::Damaged`], [`ArchiveError::Missing`]; those of the storage and of the directory.
pub(crate) fn bring(
    archive: &Archive,
    files: &dyn FileSystem,
    dir: &Path,
    spread: &ArchivedSpread,
) -> Result<u64, ArchiveError> {
    let folder = folder_of(dir);
    files.create_dir_all(&folder).map_err(StoreError::from)?;
    let (mut file, mut bytes, mut tables) = (0, 0, Vec::new());
    for ArchivedTable { table, name, parts } in &spread.tables {
        let mut restored = Vec::with_capacity(parts.len());
        for group in parts.chunks(PIECES_AT_ONCE) {
            let fetched = at_once(group, |(_, piece)| piece.fetch(archive));
            for ((rows, piece), contents) in group.iter().zip(fetched) {
                file += 1;
                let written = replace_file(files, &folder.join(name_of(file)), &contents?);
                written.map_err(StoreError::from)?;
                bytes += piece.bytes;
                restored.push(RestoredPart { rows: *rows, file, piece: piece.clone() });
            }
        }
        tables.push(RestoredTable { table: *table, name: name.clone(), parts: restored });
    }
    let list = List { epoch: spread.epoch, taken: spread.taken, tables };
    replace_file(files, &folder.join(LIST), &seal(&list, &[])).map_err(StoreError::from)?;
    Ok(bytes)
}
