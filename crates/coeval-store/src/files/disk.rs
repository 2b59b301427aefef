// SPDX-License-Identifier: Apache-2.0
//! [`DiskFiles`]: the files of the operating system.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::files::lock::lock_on_disk;
use crate::files::permissions::{DIRECTORY_MODE, file_mode};
use crate::files::{
    DirectoryLock, File, FileError, FileSystem, OpenMode, Operation, ReadFile, parent_of, write_zeros,
};

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFiles;

impl FileSystem for DiskFiles {
    fn create_dir_all(&self, dir: &Path) -> Result<(), FileError> {
        let mut missing: Vec<&Path> = Vec::new();
        let mut place = dir;
        while !place.as_os_str().is_empty() && !self.exists(place)? {
            missing.push(place);
            match place.parent() {
                Some(parent) => place = parent,
                None => break,
            }
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(dir)
            .map_err(|source| FileError::new(Operation::CreateDir, dir, source))?;
        // Each new name is an entry in its parent; outermost first, so that a durable name never hangs in the air.
        for made in missing.iter().rev() {
            self.sync_dir(&parent_of(made))?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, FileError> {
        let failed = |source: io::Error| FileError::new(Operation::List, dir, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().map_err(failed)?.is_dir()
                && let Ok(name) = entry.file_name().into_string()
            {
                // A name that is not UTF-8 is none of ours.
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match mode {
            OpenMode::Create => options.create(true).truncate(true).mode(file_mode(&parent_of(path))),
            OpenMode::Existing => &mut options,
        };
        let file = options.open(path).map_err(|source| FileError::new(Operation::Open, path, source))?;
        Ok(Arc::new(DiskFile { file, path: path.to_path_buf() }))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        fs::read(path).map_err(|source| FileError::new(Operation::Read, path, source))
    }

    fn open_to_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>, FileError> {
        let file = fs::File::open(path).map_err(|source| FileError::new(Operation::Open, path, source))?;
        Ok(Arc::new(DiskFile { file, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        fs::rename(from, to).map_err(|source| FileError::new(Operation::Rename, from, source))
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        fs::remove_file(path).map_err(|source| FileError::new(Operation::Remove, path, source))
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::new(Operation::SyncDir, dir, source);
        fs::File::open(dir).map_err(failed)?.sync_all().map_err(failed)
    }

    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        fs::exists(path).map_err(|source| FileError::new(Operation::Inspect, path, source))
    }

    fn len(&self, path: &Path) -> Result<u64, FileError> {
        let attributes =
            fs::metadata(path).map_err(|source| FileError::new(Operation::Inspect, path, source))?;
        Ok(attributes.len())
    }

    fn lock(&self, dir: &Path) -> Result<DirectoryLock, FileError> {
        lock_on_disk(dir)
    }
}

/// An open file of the operating system.
#[derive(Debug)]
struct DiskFile {
    file: fs::File,
    path: PathBuf,
}

impl ReadFile for DiskFile {
    fn len(&self) -> Result<u64, FileError> {
        File::len(self)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.file
            .read_exact_at(into, offset)
            .map_err(|source| FileError::at(Operation::Read, &self.path, offset, source))
    }
}

impl File for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|source| FileError::at(Operation::Write, &self.path, offset, source))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), FileError> {
        match fallocate(&self.file, FallocateFlags::empty(), offset, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(self, offset, len),
            outcome => {
                outcome.map_err(|source| FileError::at(Operation::Write, &self.path, offset, source.into()))
            }
        }
    }

    fn sync_data(&self) -> Result<(), FileError> {
        self.file.sync_data().map_err(|source| FileError::new(Operation::Sync, &self.path, source))
    }

    fn sync_all(&self) -> Result<(), FileError> {
        self.file.sync_all().map_err(|source| FileError::new(Operation::Sync, &self.path, source))
    }

    fn len(&self) -> Result<u64, FileError> {
        let attributes =
            self.file.metadata().map_err(|source| FileError::new(Operation::Inspect, &self.path, source))?;
        Ok(attributes.len())
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.file.set_len(len).map_err(|source| FileError::at(Operation::SetLen, &self.path, len, source))
    }
}
