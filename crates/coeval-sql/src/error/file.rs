// SPDX-License-Identifier: Apache-2.0
//! Errors of files that statements name.

use super::texts::system_words;
use super::{SqlError, SqlState};
use std::fs::Metadata;
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

/// `42809`: what is said of something that is not read as a plain file is.
pub(crate) fn not_plain(path: &Path, metadata: &Metadata) -> SqlError {
    let path = path.display();
    if metadata.is_dir() {
        return SqlError::new(SqlState::WrongObjectType, format!("\"{path}\" is a directory"));
    }
    SqlError::new(SqlState::WrongObjectType, format!("\"{path}\" is not a regular file"))
        .with_hint("COPY ... FROM reads a pipe: text, CSV and the binary format.")
}
