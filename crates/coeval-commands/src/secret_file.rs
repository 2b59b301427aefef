// SPDX-License-Identifier: Apache-2.0
//! Passwords and tokens out of files that the command line names.

use crate::failure::Failure;
use coeval_server::read_secret_file;
use std::path::Path;

/// What a file holds that nobody else may read, a password or a token, without what an editor adds at the end.
pub(crate) fn secret_in(file: &Path) -> Result<String, Failure> {
    let held = read_secret_file(file).map_err(|error| Failure::Work(error.to_string()))?;
    let text = String::from_utf8(held)
        .map_err(|_| Failure::Work(format!("{} does not hold text", file.display())))?;
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(Failure::Work(format!("{} is empty", file.display()))),
        secret => Ok(secret.to_owned()),
    }
}
