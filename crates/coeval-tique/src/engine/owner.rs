// SPDX-License-Identifier: Apache-2.0
//! The lock on a file that says who owns the tables beside it.

use super::permissions::file_mode;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock on a file, of one process and one owner in it. The system drops it with the process.
pub(super) struct Owner {
    file: File,
}

impl Owner {
    /// Locks the file, which is created if needed; nothing if somebody else has it.
    pub(super) fn lock(path: &Path) -> io::Result<Option<Self>> {
        let mode = path.parent().map_or(0o600, file_mode);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Closing alone would not do: a child process that is just being started has a copy of the open file for a moment, and
        // the lock would live on with the copy. Should this fail, closing gives the lock back all the same.
        drop(self.file.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_free_though_a_copy_of_the_file_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let owner = Owner::lock(&path).unwrap().unwrap();
        assert!(Owner::lock(&path).unwrap().is_none());
        // As a child has one between its start and its program's.
        let copy = owner.file.try_clone().unwrap();
        drop(owner);
        assert!(Owner::lock(&path).unwrap().is_some());
        drop(copy);
    }
}
