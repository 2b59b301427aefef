// SPDX-License-Identifier: Apache-2.0
//! Making a follower's directory of a copy of the primary's. What a restore makes: `primary_writer.rs`.
//!
//! # Order of writes
//! A marker says that the copy is not complete; then come the files under their names, each synced; the log, without a record,
//! from the manifest's place on; the marker of a follower; the manifest. Only then the first marker goes. So whatever ends it,
//! the next start either finds a directory that is complete, or begins anew; nothing but a copy that did not end is removed.
//!
//! # Numbers
//! The primary goes on numbering its files while the follower's checkpoints make files of its own, and bulk loads arrive under
//! the primary's numbers. So a follower gives numbers from a stretch of its own, chosen at random: 2^32 numbers behind a
//! multiple of 2^32 below 2^63.

use super::PrimaryWriter;
use crate::disk::{FOLLOWER_FILE, LOG_DIR, STRETCH_BITS, UNFINISHED_COPY_FILE};
use crate::error::StoreError;
use crate::files::{DirectoryLock, File, FileSystem, OpenMode};
use crate::log::{ChecksumPolicy, Log, Lsn};
use crate::manifest::{FILE_NAME as MANIFEST_FILE, Manifest, manifest_path};
use crate::promises::KeptPromise;
use crate::segment::SEGMENT_DIR;
use crate::terms::{Timeline, random_id};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes a copy of a database into a directory.
#[derive(Debug)]
pub struct CopyWriter {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    _lock: DirectoryLock,
}

impl CopyWriter {
    /// Begins a copy in a directory that is empty, or not there, or has one that did not end: that is removed.
    ///
    /// # Errors
    /// [`StoreError::ForeignDirectory`] if there is something else; [`StoreError::File`].
    pub fn begin(files: Arc<dyn FileSystem>, dir: &Path) -> Result<Self, StoreError> {
        files.create_dir_all(dir)?;
        let marker = dir.join(UNFINISHED_COPY_FILE);
        let lock = if files.exists(&marker)? {
            let lock = files.lock(dir)?;
            remove_copy(&*files, dir)?;
            lock
        } else {
            let names = files.list(dir)?;
            if let Some(name) = names.iter().find(|name| !crate::recovery::may_lie_in_new_directory(name)) {
                let directory = dir.display().to_string();
                return Err(StoreError::ForeignDirectory { directory, file: name.clone() });
            }
            files.lock(dir)?
        };
        files.open(&marker, OpenMode::Create)?.sync_all()?;
        files.create_dir_all(&dir.join(SEGMENT_DIR))?;
        files.create_dir_all(&dir.join(LOG_DIR))?;
        files.sync_dir(dir)?;
        Ok(Self { files, dir: dir.to_path_buf(), _lock: lock })
    }

    /// Begins a file of the copy.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if that is no name of a segment file; [`StoreError::File`].
    pub fn file(&self, name: &str) -> Result<FileWriter, StoreError> {
        FileWriter::begin(Arc::clone(&self.files), &self.dir, name)
    }

    /// The copy is of a primary in this timeline: whoever follows with it acknowledges no lower one. That has to be known before
    /// the log says so, which comes behind the copy. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn note_timeline(&self, timeline: Timeline) -> Result<(), StoreError> {
        KeptPromise::of_begun(timeline).write(&*self.files, &self.dir)
    }

    /// All files are there: completes the copy, of the manifest's bytes. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::UnsupportedVersion`] of the manifest; [`StoreError::File`].
    pub fn finish(self, manifest: &[u8]) -> Result<(), StoreError> {
        let path = manifest_path(&self.dir);
        let mut manifest = Manifest::decode(manifest, &path, ChecksumPolicy::Verified)?;
        // Not that of a follower which was copied either: that may be promoted, and give its numbers to loads.
        manifest.next_segment = own_stretch();
        Log::create_at(&*self.files, &self.dir.join(LOG_DIR), Lsn::new(manifest.log))?;
        self.files.open(&self.dir.join(FOLLOWER_FILE), OpenMode::Create)?.sync_all()?;
        self.complete(&manifest)
    }

    /// All files of the manifest are there: goes on with the log behind it, to make a database that follows nobody.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::UnsupportedVersion`] of the manifest; [`StoreError::File`], [`StoreError::Log`].
    pub fn into_primary(self, manifest: &[u8]) -> Result<PrimaryWriter, StoreError> {
        PrimaryWriter::begin(self, manifest)
    }

    /// Writes the manifest; only then the directory counts as complete.
    pub(super) fn complete(&self, manifest: &Manifest) -> Result<(), StoreError> {
        manifest.write(&*self.files, &self.dir)?;
        self.files.remove(&self.dir.join(UNFINISHED_COPY_FILE))?;
        Ok(self.files.sync_dir(&self.dir)?)
    }

    pub(super) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn log_dir(&self) -> PathBuf {
        self.dir.join(LOG_DIR)
    }
}

/// The first number of a stretch that a follower gives numbers from.
pub(super) fn own_stretch() -> u64 {
    (random_id() >> (STRETCH_BITS + 1)).max(1) << STRETCH_BITS
}

/// Removes what a copy that did not end has left, but for its marker.
fn remove_copy(files: &dyn FileSystem, dir: &Path) -> Result<(), StoreError> {
    for folder in [SEGMENT_DIR, LOG_DIR] {
        let folder = dir.join(folder);
        if files.exists(&folder)? {
            for name in files.list(&folder)? {
                files.remove(&folder.join(name))?;
            }
            files.sync_dir(&folder)?;
        }
    }
    for name in [MANIFEST_FILE.to_owned(), format!("{MANIFEST_FILE}.tmp"), FOLLOWER_FILE.to_owned()] {
        let path = dir.join(name);
        if files.exists(&path)? {
            files.remove(&path)?;
        }
    }
    Ok(files.sync_dir(dir)?)
}

/// A segment file on its way. It gets its name when it is complete.
pub struct FileWriter {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    unfinished: PathBuf,
    file: Arc<dyn File>,
    length: u64,
}

impl fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileWriter({})", self.path.display())
    }
}

impl FileWriter {
    pub(super) fn begin(files: Arc<dyn FileSystem>, dir: &Path, name: &str) -> Result<Self, StoreError> {
        if crate::segment::parse_segment_name(name).is_none() {
            return Err(StoreError::corrupt(Path::new(name), 0, "this is no name of a segment file"));
        }
        let path = dir.join(SEGMENT_DIR).join(name);
        let unfinished = dir.join(SEGMENT_DIR).join(format!("{name}.tmp"));
        let file = files.open(&unfinished, OpenMode::Create)?;
        Ok(Self { files, path, unfinished, file, length: 0 })
    }

    /// Writes the bytes that come next.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all_at(self.length, bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The file is complete: it has its name, durably, on return.
    ///
    /// # Errors
    /// [`StoreError::File`].
    ///
    /// # Panics
    /// Never: its path has a directory.
    pub fn finish(self) -> Result<(), StoreError> {
        self.file.sync_all()?;
        self.files.rename(&self.unfinished, &self.path)?;
        let dir = self.path.parent().expect("a segment file lies in a directory");
        Ok(self.files.sync_dir(dir)?)
    }
}
