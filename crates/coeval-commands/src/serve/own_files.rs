// SPDX-License-Identifier: Apache-2.0
//! What a server keeps in a database's directory that is no part of the database, and of no copy of it: the rules of who may come, and
//! a secret.
//!
//! A former primary's directory may be put aside, for a copy to come in its place. These files go on in the new one: without its rules
//! the next start would let in whoever has a password, from anywhere.
//!
//! ```text
//! 1 made      DIR.next has copies of them
//! 2 aside     DIR is renamed
//! 3 in place  DIR.next is renamed to DIR
//! ```
//! Each step is durable before the next. If the program ends between the last two there is no `DIR`; the next start goes on with the
//! third one.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The rules of a database directory, if the command line names no others.
pub(super) const RULES_FILE: &str = "pg_hba.conf";

/// The secret of a database directory that salts of unknown names are made of.
pub(super) const MOCK_SECRET_FILE: &str = "mock-secret";

/// Renames a directory, and puts a new one in its place that has the server's own files and nothing else.
///
/// # Errors
/// Those of the file system. The directory is where it was, or that is to be [gone on with](go_on).
pub(super) fn put_aside(dir: &Path, aside: &Path) -> io::Result<()> {
    let next = next_of(dir);
    if next.exists() {
        if !is_ours(&next)? {
            let message = format!("{} is in the way: move it", next.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        // Of an attempt that came no further.
        std::fs::remove_dir_all(&next)?;
    }
    let mode = std::fs::metadata(dir)?.permissions().mode() & 0o777;
    DirBuilder::new().mode(0o700).create(&next)?;
    for name in [RULES_FILE, MOCK_SECRET_FILE] {
        let (from, to) = (dir.join(name), next.join(name));
        if from.exists() {
            // With its mode.
            std::fs::copy(from, &to)?;
            File::open(to)?.sync_all()?;
        }
    }
    std::fs::set_permissions(&next, Permissions::from_mode(mode))?;
    File::open(&next)?.sync_all()?;
    sync_parent(dir)?;
    std::fs::rename(dir, aside)?;
    go_on(dir)
}

/// Puts the new directory in its place, if an earlier start did not come to that.
///
/// # Errors
/// Those of the file system: that is to be gone on with again.
pub(super) fn go_on(dir: &Path) -> io::Result<()> {
    let next = next_of(dir);
    if dir.exists() || !next.exists() || !is_ours(&next)? {
        return Ok(());
    }
    std::fs::rename(next, dir)?;
    sync_parent(dir)
}

/// Whether a directory of that name has nothing but what is made here, and is nobody's own.
fn is_ours(next: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(next)? {
        let name = entry?.file_name();
        if name != RULES_FILE && name != MOCK_SECRET_FILE {
            return Ok(false);
        }
    }
    Ok(true)
}

fn next_of(dir: &Path) -> PathBuf {
    // Without a slash at the end.
    let dir: PathBuf = dir.components().collect();
    let mut name = dir.into_os_string();
    name.push(".next");
    name.into()
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the directory is renamed and nothing else, if a secret gets another mode, and if what a killed program has left is not
    /// gone on with.
    #[test]
    fn rules_and_secret_go_on_where_a_directory_is_put_aside() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, aside) = (parent.path().join("data"), parent.path().join("data.term-1"));
        std::fs::create_dir(&dir).unwrap();
        for name in [RULES_FILE, MOCK_SECRET_FILE, "MANIFEST"] {
            std::fs::write(dir.join(name), name).unwrap();
        }
        std::fs::set_permissions(dir.join(MOCK_SECRET_FILE), Permissions::from_mode(0o600)).unwrap();
        put_aside(&dir.join(""), &aside).unwrap();
        let names = |dir: &Path| {
            let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&dir), [MOCK_SECRET_FILE, RULES_FILE]);
        assert_eq!(names(&aside), ["MANIFEST", MOCK_SECRET_FILE, RULES_FILE]);
        assert_eq!(std::fs::read_to_string(dir.join(RULES_FILE)).unwrap(), RULES_FILE);
        let mode = std::fs::metadata(dir.join(MOCK_SECRET_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(parent.path()), ["data", "data.term-1"]);

        // The program ended between the two renames.
        std::fs::rename(&dir, next_of(&dir)).unwrap();
        go_on(&dir).unwrap();
        assert_eq!(names(&dir), [MOCK_SECRET_FILE, RULES_FILE]);
        go_on(&dir).unwrap();
        go_on(&parent.path().join("another")).unwrap();
        assert_eq!(names(parent.path()), ["data", "data.term-1"]);
    }

    /// It was removed, or taken for the directory.
    #[test]
    fn a_directory_of_that_name_that_is_somebodys_own_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, aside) = (parent.path().join("data"), parent.path().join("data.term-1"));
        let own = next_of(&dir).join("MANIFEST");
        std::fs::create_dir(&dir).unwrap();
        std::fs::create_dir(next_of(&dir)).unwrap();
        std::fs::write(&own, "a restored database").unwrap();
        let refused = put_aside(&dir, &aside).unwrap_err();
        assert!(refused.to_string().contains("data.next is in the way"), "{refused}");
        assert!(dir.exists() && !aside.exists() && own.exists());
        std::fs::remove_dir(&dir).unwrap();
        go_on(&dir).unwrap();
        assert!(!dir.exists() && own.exists());
    }
}
