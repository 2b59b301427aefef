// SPDX-License-Identifier: Apache-2.0
//! The file that remembers what was typed, for the user's eyes alone.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

/// How many statements are remembered.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// The file, in the user's data directory: `$XDG_DATA_HOME/coeval/history`, by default under `~/.local/share`. `None`
/// if there is no such place; nothing is remembered then.
pub(crate) fn path() -> Option<PathBuf> {
    let directory = directory(std::env::var_os("XDG_DATA_HOME"), std::env::home_dir())?;
    make_private(&directory).ok()?;
    Some(directory.join("history"))
}

fn directory(data_home: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let data_home = data_home.map(PathBuf::from).filter(|path| path.is_absolute());
    let data_home = data_home.or_else(|| Some(home?.join(".local").join("share")))?;
    Some(data_home.join("coeval"))
}

/// Makes the directory, which only its owner may enter. The file in it is made with mode 0600 by `rustyline`.
fn make_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_is_the_users() {
        let home = || Some(PathBuf::from("/h"));
        assert_eq!(directory(Some("/data".into()), home()), Some(PathBuf::from("/data/coeval")));
        assert_eq!(directory(None, home()), Some(PathBuf::from("/h/.local/share/coeval")));
        assert_eq!(directory(Some("relative".into()), home()), Some(PathBuf::from("/h/.local/share/coeval")));
        assert_eq!(directory(None, None), None);
    }
}
