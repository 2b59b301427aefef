// SPDX-License-Identifier: Apache-2.0
//! The node's folder in the database's directory: how it is made, and how what is in it is written.
//!
//! What the node was told of its cluster is there in `membership.log`, which [`Membership`](coeval_cluster::Membership) keeps. Beside
//! it lies an empty file `founding`, from before the cluster is founded until there are records of views. Why: a crash in between
//! leaves a founder without records, which founds again. One without that file has had records, and has lost them; to found again
//! would make a second cluster of the same name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Says that the cluster is being founded.
const FOUNDING: &str = "founding";

/// Makes a directory for a node, which nobody else may look into. One that is there is left as it is.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(directory.parent().unwrap_or(directory)),
    }
}

/// Writes down durably that a cluster is about to be founded.
pub(super) fn begin_founding(directory: &Path) -> io::Result<()> {
    write_file(directory, FOUNDING, "")
}

/// Whether founding a cluster was begun, and was not over when the process ended.
pub(super) fn is_founding(directory: &Path) -> io::Result<bool> {
    directory.join(FOUNDING).try_exists()
}

/// Writes down durably that no cluster is being founded, whether or not one was.
pub(super) fn end_founding(directory: &Path) -> io::Result<()> {
    match std::fs::remove_file(directory.join(FOUNDING)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => sync_directory(directory),
    }
}

/// Writes a file of a node's directory, all of it or as it was before. It is durable when this returns.
pub(super) fn write_file(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let next = directory.join(format!("{name}.tmp"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(next, directory.join(name))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To break it: have `end_founding` leave the file. A founder whose records are lost founds a second cluster then.
    #[test]
    fn founding_begins_and_is_over() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("cluster");
        assert!(!is_founding(&directory).unwrap());
        make(&directory).unwrap();
        make(&directory).unwrap();
        end_founding(&directory).unwrap();
        begin_founding(&directory).unwrap();
        begin_founding(&directory).unwrap();
        assert!(is_founding(&directory).unwrap());
        end_founding(&directory).unwrap();
        assert!(!is_founding(&directory).unwrap());
    }
}
