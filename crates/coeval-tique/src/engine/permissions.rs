// SPDX-License-Identifier: Apache-2.0
//! Who may read what engines of this process write: its owner, and his group where the directory lets it in. It is the rule of the
//! files of a database, which tables of a server have no less than their share of.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes a directory, and those above it, for nobody else; one that is there stays as it is.
pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The mode of a new file in this directory: 0640 where the directory has 0750, else 0600.
pub(super) fn file_mode(directory: &Path) -> u32 {
    let mode = fs::metadata(directory).map_or(0o700, |attributes| attributes.permissions().mode());
    if mode & 0o777 == 0o750 { 0o640 } else { 0o600 }
}
