// SPDX-License-Identifier: Apache-2.0
//! Errors of files that statements name.

use super::texts::system_words;
use super::{SqlError, SqlState};
use std::io;
use std::path::Path;

/// What is said of a file that is to be read and cannot be opened: `58P01` if it is not there, `58030` otherwise.
pub(crate) fn cannot_read(path: &Path, error: &io::Error) -> SqlError {
    file_error(error, path, "open", "reading")
}

/// What is said of a file with which something cannot be done.
pub(crate) fn file_error(error: &io::Error, path: &Path, what: &str, purpose: &str) -> SqlError {
    let state = match error.kind() {
        io::ErrorKind::NotFound => SqlState::UndefinedFile,
        _ => SqlState::of_io(error),
    };
    let words = system_words(error);
    SqlError::new(state, format!("could not {what} file \"{}\" for {purpose}: {words}", path.display()))
}
