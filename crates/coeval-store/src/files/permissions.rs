// SPDX-License-Identifier: Apache-2.0
//! Permissions of a database's files: its owner may read them, and the owner's group if the directory's mode lets it in.
//!
//! As in PostgreSQL: a directory is made with mode 0700 and a file with 0600. Whoever gives a directory mode 0750, so
//! that a backup of the same group can read it, gets files of mode 0640 in it. An archive, which makes directories as it grows, has
//! the same rule.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The mode of a new directory.
pub const DIRECTORY_MODE: u32 = 0o700;

/// The mode of a directory whose group may read it.
const GROUP_DIRECTORY_MODE: u32 = 0o750;

/// Whether the directory lets its group in, and nobody else. One that cannot be looked at lets nobody in.
fn lets_group_in(directory: &Path) -> bool {
    let mode = fs::metadata(directory).map_or(DIRECTORY_MODE, |attributes| attributes.permissions().mode());
    mode & 0o777 == GROUP_DIRECTORY_MODE
}

/// The mode of a new file in this directory: 0640 where the directory has 0750, else 0600.
#[must_use]
pub fn file_mode(directory: &Path) -> u32 {
    if lets_group_in(directory) { 0o640 } else { 0o600 }
}

/// The mode of a new directory of somebody who keeps all that he has in this one: 0750 where it has that, else 0700.
#[must_use]
pub fn directory_mode(root: &Path) -> u32 {
    if lets_group_in(root) { GROUP_DIRECTORY_MODE } else { DIRECTORY_MODE }
}
