// SPDX-License-Identifier: Apache-2.0
//! Where a database is, as programs say it.

use crate::errors::refused;
use adbc_core::error::Result;
use coeval::SqlState;
use std::path::PathBuf;

const SCHEME: &str = "coeval:";
const IN_MEMORY: &str = ":memory:";

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In memory, as long as its object is there.
    Memory,
    /// In a directory, which is made if it is not there.
    Directory(PathBuf),
}

impl Location {
    /// What a URI names: a directory, with or without `coeval:` or `coeval://` before it, or `:memory:`, or nothing, which is in
    /// memory too.
    ///
    /// # Errors
    /// For a URI of a server: this driver has the database in the process.
    pub(crate) fn of_uri(uri: &str) -> Result<Self> {
        if uri.starts_with("postgres://") || uri.starts_with("postgresql://") {
            let message = "this driver opens databases in the process, and is none for servers\n\
                           HINT: ADBC's driver for PostgreSQL connects to a server of Coeval.";
            return Err(refused(SqlState::FeatureNotSupported, message));
        }
        let place = uri.strip_prefix(SCHEME).unwrap_or(uri);
        let place = if place.len() < uri.len() { place.strip_prefix("//").unwrap_or(place) } else { place };
        Ok(Self::of_path(place))
    }

    /// What a path names, which is no URI.
    pub(crate) fn of_path(path: &str) -> Self {
        if path.is_empty() || path == IN_MEMORY { Self::Memory } else { Self::Directory(path.into()) }
    }
}
