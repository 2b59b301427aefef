// SPDX-License-Identifier: Apache-2.0
//! All file access of the store goes through [`FileSystem`] and [`File`].
//!
//! The interface is small on purpose: what the store cannot ask for, a simulated disk need not model and an
//! object store need not offer. Three promises carry everything above:
//!
//! 1. **Contents** written to a file are durable after [`File::sync_data`] (with the length) or
//!    [`File::sync_all`] returned without error, not before, and in no order among themselves.
//! 2. **Names** made, changed or removed in a directory are durable after [`FileSystem::sync_dir`] of that
//!    directory returned without error. ([`FileSystem::create_dir_all`] syncs by itself.)
//! 3. **Failure is final**: after a failed write or sync nothing is known about the bytes in question. Callers
//!    stop writing that file; none of them tries again as if nothing had happened.
//!
//! [`DiskFiles`] is the real thing. [`SimulatedFiles`] is a disk in memory that forgets, tears, reorders and
//! fails on request; tests of this and other crates run the store on it.
//!
//! Start reading at: this file, then `files/simulated.rs` for what a crash may do.

mod disk;
mod error;
mod lock;
mod permissions;
mod simulated;
mod writer;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::DiskFiles;
pub use error::{FileError, Operation};
pub use lock::{DirectoryLock, Holder, LOCK_FILE_NAME};
pub use permissions::{DIRECTORY_MODE, directory_mode, file_mode};
pub use simulated::{Fault, Lie, SimulatedFiles};
pub use writer::{FileWriter, put_in_place, replace_file, write_aside};

/// How [`FileSystem::open`] treats a file that is there, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file is made; one that is already there is emptied.
    Create,
    /// The file must be there; its contents stay.
    Existing,
}

/// A disk: directories, files, and the lock that keeps a second process out.
///
/// Every method returns a [`FileError`] that names the path and the operation. All are callable from any thread.
pub trait FileSystem: Send + Sync + Debug {
    /// Makes `dir` and its missing parents, and makes their names durable.
    ///
    /// # Errors
    /// When a directory cannot be made or synced; some of the parents may have been made.
    fn create_dir_all(&self, dir: &Path) -> Result<(), FileError>;

    /// The names of the files (not of the directories) in `dir`, sorted.
    ///
    /// # Errors
    /// When `dir` cannot be read.
    fn list(&self, dir: &Path) -> Result<Vec<String>, FileError>;

    /// Opens `path` for writing. A name made here is durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// When the file cannot be made, or is not there with [`OpenMode::Existing`].
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, FileError>;

    /// The whole contents of `path`, copied: a failing disk shows as an error here, never as a signal.
    ///
    /// # Errors
    /// When the file is not there or cannot be read.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError>;

    /// Opens `path` to read parts of it. Removing its name is fine: an open handle stays good.
    ///
    /// # Errors
    /// When the file is not there or cannot be opened.
    fn open_to_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>, FileError>;

    /// Gives the file `from` the name `to`, in one step; a file that had that name loses it. Open handles stay
    /// good. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// When it fails; the names are then as before.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError>;

    /// Removes the file's name; open handles and mappings stay good. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// When the file is not there or cannot be removed.
    fn remove(&self, path: &Path) -> Result<(), FileError>;

    /// Makes all names in `dir` durable as they are now.
    ///
    /// # Errors
    /// When it fails; the names may then be durable or not.
    fn sync_dir(&self, dir: &Path) -> Result<(), FileError>;

    /// Whether a file or directory has this name.
    ///
    /// # Errors
    /// When the disk cannot tell.
    fn exists(&self, path: &Path) -> Result<bool, FileError>;

    /// The length of the file in bytes.
    ///
    /// # Errors
    /// When the file is not there.
    fn len(&self, path: &Path) -> Result<u64, FileError>;

    /// Takes the exclusive lock of `dir` (file [`LOCK_FILE_NAME`]) for as long as the guard lives. The system
    /// takes it back when the process dies, so a lock never outlives its holder.
    ///
    /// # Errors
    /// [`FileError::DirectoryInUse`], naming the holder, when another process (or another guard in this one)
    /// has it.
    fn lock(&self, dir: &Path) -> Result<DirectoryLock, FileError>;
}

/// A file open for writing. Shared handles may write and sync at the same time: a sync covers what was written
/// before it was called and may or may not cover more.
pub trait File: Send + Sync + Debug {
    /// The name the file had when it was opened.
    fn path(&self) -> &Path;

    /// Writes all of `bytes` at `offset`, one system call in the common case; a gap before `offset` reads as
    /// zeros. Visible to readers at once, durable after a sync.
    ///
    /// # Errors
    /// When it fails; any part of `bytes` may then have been written.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError>;

    /// Makes contents and length durable.
    ///
    /// # Errors
    /// When it fails; unsynced bytes may then be durable or not, and a later sync that succeeds proves nothing
    /// about them.
    fn sync_data(&self) -> Result<(), FileError>;

    /// As [`File::sync_data`], and all other attributes. Use it after [`File::set_len`] made a file shorter.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    fn sync_all(&self) -> Result<(), FileError>;

    /// The length in bytes.
    ///
    /// # Errors
    /// When the disk cannot tell.
    fn len(&self) -> Result<u64, FileError>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`File::len`].
    fn is_empty(&self) -> Result<bool, FileError> {
        Ok(self.len()? == 0)
    }

    /// Makes the file hold zeros from `offset`, its end, on: as writing them, but without writing them where the file
    /// system can reserve room.
    ///
    /// # Errors
    /// When it fails, above all without room; the file may then be longer than before, and what is behind its former end
    /// reads as zeros.
    fn allocate(&self, offset: u64, len: u64) -> Result<(), FileError> {
        write_zeros(self, offset, len)
    }

    /// Cuts the file off at `len`, or extends it to `len` with zeros.
    ///
    /// # Errors
    /// When it fails; the length is then as before.
    fn set_len(&self, len: u64) -> Result<(), FileError>;
}

/// A file open for reading. Nothing of it is mapped into memory: a disk that fails is an error here, never a signal.
pub trait ReadFile: Send + Sync + Debug {
    /// The length in bytes.
    ///
    /// # Errors
    /// When the disk cannot tell.
    fn len(&self) -> Result<u64, FileError>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`ReadFile::len`].
    fn is_empty(&self) -> Result<bool, FileError> {
        Ok(self.len()? == 0)
    }

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When they cannot be read or the file ends before ([`FileError::is_past_the_end`]); `into` may hold anything then.
    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError>;
}

/// Writes zeros from `offset` on.
pub(crate) fn write_zeros(file: &(impl File + ?Sized), offset: u64, len: u64) -> Result<(), FileError> {
    let zeros = [0; 64 << 10];
    let mut written = 0;
    while written < len {
        let count = (len - written).min(zeros.len() as u64);
        let piece = usize::try_from(count).expect("at most a buffer");
        file.write_all_at(offset + written, &zeros[..piece])?;
        written += count;
    }
    Ok(())
}

/// The directory that holds `path`; `.` for a bare name.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests;
