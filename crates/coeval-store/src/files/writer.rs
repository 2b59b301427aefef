// SPDX-License-Identifier: Apache-2.0
//! Writing whole files: front to back ([`FileWriter`]), or all or nothing ([`replace_file`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::{File, FileError, FileSystem, OpenMode, parent_of};

/// Bytes gathered before they go to the file: large enough that the system calls do not count.
const BUFFER_BYTES: usize = 1 << 18;

/// A new file written front to back; an [`io::Write`] for encoders such as Arrow IPC.
///
/// Nothing is durable before [`FileWriter::finish`], and the name only after [`FileSystem::sync_dir`]. A writer
/// that is dropped without `finish` leaves a partial file.
#[derive(Debug)]
pub struct FileWriter {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    flushed: u64,
    failure: Option<FileError>,
}

impl FileWriter {
    /// Makes (or empties) `path`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(files: &dyn FileSystem, path: &Path) -> Result<FileWriter, FileError> {
        let file = files.open(path, OpenMode::Create)?;
        Ok(FileWriter { file, buffer: Vec::with_capacity(BUFFER_BYTES), flushed: 0, failure: None })
    }

    /// The bytes written so far, so the offset of the next one.
    pub fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// When the file cannot be written; every later call then returns the same error.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.drain()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.write_through(bytes)
        } else {
            self.check()?;
            self.buffer.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// Writes what is left, syncs the file, and returns its length.
    ///
    /// # Errors
    /// When anything since [`FileWriter::create`] failed; the file is then worthless.
    pub fn finish(mut self) -> Result<u64, FileError> {
        self.drain()?;
        self.file.sync_all()?;
        Ok(self.flushed)
    }

    /// The error behind an [`io::Error`] that this writer gave to an encoder.
    pub fn failure(&self) -> Option<&FileError> {
        self.failure.as_ref()
    }

    fn drain(&mut self) -> Result<(), FileError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.write_through(&buffer);
        buffer.clear();
        self.buffer = buffer;
        outcome
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.check()?;
        if let Err(error) = self.file.write_all_at(self.flushed, bytes) {
            self.failure = Some(error.clone());
            return Err(error);
        }
        self.flushed += bytes.len() as u64;
        Ok(())
    }

    fn check(&self) -> Result<(), FileError> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl io::Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain().map_err(io::Error::other)
    }
}

/// Gives `path` the contents `bytes`, all or nothing: [`write_aside`], then [`put_in_place`].
///
/// On return the new contents are durable. After a crash in between, `path` has the old contents or the new ones
/// (or still does not exist), and a `.tmp` file may lie beside it.
///
/// # Errors
/// When any step fails; see there for what `path` holds then.
pub fn replace_file(files: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_aside(files, path, bytes)?;
    put_in_place(files, path)
}

/// Writes what is to become the contents of `path` to `<path>.tmp`, durably.
///
/// # Errors
/// When it cannot be written or synced. `path` is as it was, and the `.tmp` file is removed if that is possible.
pub fn write_aside(files: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = temporary_path(path);
    let mut writer = FileWriter::create(files, &temporary)?;
    let outcome = writer.append(bytes).and_then(|()| writer.finish());
    if outcome.is_err() {
        // It takes room that the disk may lack; the next one overwrites it anyway.
        let _ = files.remove(&temporary);
    }
    outcome.map(drop)
}

/// Gives `<path>.tmp` the name `path`, durably.
///
/// # Errors
/// When the rename fails, `path` is as it was; when the sync of the directory fails, either contents may be
/// found after a crash.
pub fn put_in_place(files: &dyn FileSystem, path: &Path) -> Result<(), FileError> {
    files.rename(&temporary_path(path), path)?;
    files.sync_dir(&parent_of(path))
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".tmp");
    PathBuf::from(name)
}
