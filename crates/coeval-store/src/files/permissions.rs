// SPDX-License-Identifier: Apache-2.0
//! Permissions of a database's files: its owner may read them, and the owner's group if the directory's mode lets it in.
//!
//! As in PostgreSQL: a directory is made with mode 0700 and a file with 0600. Whoever gives a directory mode 0750, so
//! that a backup of the same group can read it, gets files of mode 0640 in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The mode of a new directory.
pub(super) const DIRECTORY_MODE: u32 = 0o700;

/// The mode of a directory whose group may read it.
const GROUP_DIRECTORY_MODE: u32 = 0o750;

/// The mode of a new file in this directory. One that cannot be looked at gives nobody else anything.
pub(super) fn file_mode(directory: &Path) -> u32 {
    let mode = fs::metadata(directory).map_or(DIRECTORY_MODE, |attributes| attributes.permissions().mode());
    if mode & 0o777 == GROUP_DIRECTORY_MODE { 0o640 } else { 0o600 }
}
