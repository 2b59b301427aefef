// SPDX-License-Identifier: Apache-2.0
//! Whole directories of databases that nobody writes to: how large they are, and copies of them.

use crate::error::BenchError;
use std::fs;
use std::path::{Path, PathBuf};

/// The size of all files in a directory and those below.
///
/// # Errors
/// If one cannot be looked at.
pub(crate) fn directory_bytes(directory: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    for (path, kind) in entries(directory)? {
        bytes += match kind {
            Kind::Directory => directory_bytes(&path)?,
            Kind::File(length) => length,
        };
    }
    Ok(bytes)
}

/// Copies a directory with all that is in it. Files that are there under the same names are written over.
///
/// # Errors
/// If a file cannot be read or written; some are there then.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(to).map_err(|source| BenchError::file(to, source))?;
    for (path, kind) in entries(from)? {
        let target = to.join(path.file_name().expect("an entry of a directory has a name"));
        match kind {
            Kind::Directory => copy_directory(&path, &target)?,
            Kind::File(_) => {
                fs::copy(&path, &target).map_err(|source| BenchError::file(&path, source))?;
            }
        }
    }
    Ok(())
}

/// The place of a directory of this name; what an earlier run has left there is gone.
///
/// # Errors
/// If that cannot be removed.
pub(crate) fn removed(place: &Path, name: &str) -> Result<PathBuf, BenchError> {
    let path = place.join(name);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|source| BenchError::file(&path, source))?;
    }
    Ok(path)
}

enum Kind {
    Directory,
    File(u64),
}

fn entries(directory: &Path) -> Result<Vec<(PathBuf, Kind)>, BenchError> {
    let failed = |source| BenchError::file(directory, source);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        let kind = if metadata.is_dir() { Kind::Directory } else { Kind::File(metadata.len()) };
        found.push((entry.path(), kind));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_directory_has_the_same_size() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("one"), [1; 10]).unwrap();
        fs::write(from.join("inner/two"), [2; 20]).unwrap();
        copy_directory(&from, &to).unwrap();
        assert_eq!((directory_bytes(&from).unwrap(), directory_bytes(&to).unwrap()), (30, 30));
    }
}
