// SPDX-License-Identifier: Apache-2.0
//! [`FileError`]: what failed, on which file, where in it, and whether the disk is full.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::Holder;

/// The operation that failed, as the message names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Making a directory.
    CreateDir,
    /// Listing a directory.
    List,
    /// Opening or making a file.
    Open,
    /// Reading a file.
    Read,
    /// Writing to a file.
    Write,
    /// Making a file's contents durable.
    Sync,
    /// Changing a file's length.
    SetLen,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a directory's names durable.
    SyncDir,
    /// Asking for a file's attributes.
    Inspect,
    /// Locking a directory.
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Operation::CreateDir => "create directory",
            Operation::List => "list directory",
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::SetLen => "set length of",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::SyncDir => "sync directory",
            Operation::Inspect => "inspect",
            Operation::Lock => "lock",
        })
    }
}

/// An error of the file layer. Cheap to clone, so that a log that has stopped can go on naming the first one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no room (or quota) left for what was to be written.
    #[error("cannot {operation} {}{}: disk full ({source})", path.display(), At(*offset))]
    DiskFull {
        /// What was tried.
        operation: Operation,
        /// The file or directory.
        path: PathBuf,
        /// Where in the file, if the operation has a place.
        offset: Option<u64>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Any other failure of the system.
    #[error("cannot {operation} {}{}: {source}", path.display(), At(*offset))]
    Failed {
        /// What was tried.
        operation: Operation,
        /// The file or directory.
        path: PathBuf,
        /// Where in the file, if the operation has a place.
        offset: Option<u64>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Another process has the directory open.
    #[error("directory {} is in use by {holder}", path.display())]
    DirectoryInUse {
        /// The directory.
        path: PathBuf,
        /// Who holds it.
        holder: Holder,
    },
}

/// Prints ` at offset n`, or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(formatter, " at offset {offset}"),
            None => Ok(()),
        }
    }
}

impl FileError {
    /// An error of `operation` on `path` as a whole.
    pub(crate) fn new(operation: Operation, path: &Path, source: io::Error) -> FileError {
        FileError::build(operation, path, None, source)
    }

    /// An error of `operation` at `offset` of `path`.
    pub(crate) fn at(operation: Operation, path: &Path, offset: u64, source: io::Error) -> FileError {
        FileError::build(operation, path, Some(offset), source)
    }

    fn build(operation: Operation, path: &Path, offset: Option<u64>, source: io::Error) -> FileError {
        let path = path.to_path_buf();
        let disk_full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let source = Arc::new(source);
        if disk_full {
            FileError::DiskFull { operation, path, offset, source }
        } else {
            FileError::Failed { operation, path, offset, source }
        }
    }

    /// Whether the reason is a full disk (or quota).
    pub fn is_disk_full(&self) -> bool {
        matches!(self, FileError::DiskFull { .. })
    }

    /// Whether the reason is that the file is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, FileError::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the reason is that the file ends before what was to be read.
    pub fn is_past_the_end(&self) -> bool {
        matches!(self, FileError::Failed { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// The file or directory that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            FileError::DiskFull { path, .. }
            | FileError::Failed { path, .. }
            | FileError::DirectoryInUse { path, .. } => path,
        }
    }
}
