// SPDX-License-Identifier: Apache-2.0
//! Files with a password or a private key: only whoever runs the server may read them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file with a secret is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretFileError {
    /// It cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answers.
        error: io::Error,
    },
    /// Others can read it, so that it is no secret.
    #[error(
        "{path} can be read by others (its mode is {mode:03o}): chmod 600 it, or 640 if it belongs to root"
    )]
    ReadByOthers {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// What a file with a secret holds.
///
/// # Errors
/// If it cannot be read, or if others than its owner may read or change it. The group may read it if it belongs to
/// root, as where a system keeps the keys of its services.
pub fn read_secret_file(path: &Path) -> Result<Vec<u8>, SecretFileError> {
    let failed = |error| SecretFileError::Read { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(failed)?;
    let attributes = file.metadata().map_err(failed)?;
    let mode = attributes.permissions().mode() & 0o777;
    let forbidden = if attributes.uid() == 0 { 0o037 } else { 0o077 };
    // What is no file, a pipe for one, is not there to be read again.
    if attributes.is_file() && mode & forbidden != 0 {
        return Err(SecretFileError::ReadByOthers { path: path.to_owned(), mode });
    }
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).map_err(failed)?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        write(&path, "geheim").unwrap();
        let read = |mode: u32| {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_secret_file(&path)
        };
        assert_eq!(read(0o600).unwrap(), b"geheim");
        for mode in [0o644, 0o604, 0o660, 0o666, 0o602] {
            let refused = read(mode).unwrap_err().to_string();
            assert!(refused.contains(&format!("{mode:03o}")) && refused.contains("chmod 600"), "{refused}");
        }
    }
}
