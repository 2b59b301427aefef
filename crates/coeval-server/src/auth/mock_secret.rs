// SPDX-License-Identifier: Apache-2.0
//! The secret that salts of unknown names are made of.
//!
//! Whoever asks for a name that has no password is told a salt all the same. It has to be the same one each time, also
//! after a restart: a salt that changes would tell names that there are from names that there are not.

use crate::error::ServerError;
use coeval_secret::read_secret_file;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(super) const BYTES: usize = 32;

/// The secret in this file, which is made if it is not there; one of this process without a file.
///
/// # Errors
/// If the file cannot be read or made, others can read it, or it holds something else.
pub(super) fn of(file: Option<&Path>) -> Result<[u8; BYTES], ServerError> {
    let Some(file) = file else { return Ok(random()) };
    let is_there = file.try_exists().map_err(|error| failed(file, &error))?;
    if !is_there {
        make(file).map_err(|error| failed(file, &error))?;
    }
    let held = read_secret_file(file)?;
    let wrong = || io::Error::new(ErrorKind::InvalidData, format!("it does not hold {BYTES} bytes"));
    held.try_into().map_err(|_| failed(file, &wrong()))
}

fn failed(file: &Path, error: &io::Error) -> ServerError {
    ServerError::MockSecret(format!(
        "cannot use {}: {error}; without the file, another secret is made at the next start",
        file.display()
    ))
}

fn random() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

/// Makes the file, whole or not at all.
fn make(file: &Path) -> io::Result<()> {
    let aside = file.with_extension("new");
    let mut options = OpenOptions::new();
    let mut made = options.write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    made.write_all(&random())?;
    made.sync_all()?;
    std::fs::rename(&aside, file)?;
    match file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_outlives_the_process_and_is_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mock-secret");
        let secret = of(Some(&file)).unwrap();
        assert_eq!(of(Some(&file)).unwrap(), secret);
        assert_ne!(of(None).unwrap(), secret);
        std::fs::write(&file, b"short").unwrap();
        assert!(matches!(of(Some(&file)), Err(ServerError::MockSecret(_))));
        std::fs::remove_file(&file).unwrap();
        assert_ne!(of(Some(&file)).unwrap(), secret);
        let entries = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(entries, 1, "nothing else is left");
    }
}
