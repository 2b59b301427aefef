// SPDX-License-Identifier: Apache-2.0
//! Backups that a server makes when it is asked for them, by `coeval_backup()` and so by `coeval backup`.

use crate::archive::send;
use crate::failure::Failure;
use coeval::{Backups, Database, SqlError, SqlState, Store};
use coeval_archive::{Archive, ArchiveError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Offers backups of the database in a directory.
///
/// # Errors
/// If the directory cannot be looked at.
pub(super) fn offer(database: &Database, dir: &Path) -> Result<(), Failure> {
    let whole = dir.canonicalize();
    let directory =
        whole.map_err(|error| Failure::work(format_args!("cannot look at {}", dir.display()), error))?;
    database.engine().set_backups(Arc::new(Offered { directory }));
    Ok(())
}

/// See the module.
struct Offered {
    directory: PathBuf,
}

impl Backups for Offered {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn back_up(&self, store: &Store, place: &str, stop: &Arc<AtomicBool>) -> Result<String, SqlError> {
        let archive = Archive::create(place).map(|archive| archive.until(Arc::clone(stop)));
        match archive.and_then(|archive| send(store, &archive)) {
            Ok(report) => {
                tracing::info!(place, report, "a backup was made that somebody has asked for");
                Ok(report)
            }
            Err(error) => Err(refused(place, error)),
        }
    }
}

/// What the statement answers. Whoever asks may have set what this process was not started with.
fn refused(place: &str, error: ArchiveError) -> SqlError {
    let message = error.to_string();
    let state = match error {
        ArchiveError::Store(error) => return error.into(),
        ArchiveError::Stopping => SqlState::QueryCanceled,
        ArchiveError::AnotherDatabase { .. }
        | ArchiveError::Collecting { .. }
        | ArchiveError::TookTooLong { .. }
        | ArchiveError::Unconfirmed
        | ArchiveError::Unpublished => SqlState::ObjectNotInPrerequisiteState,
        ArchiveError::HeldTooMuch { .. } => {
            return SqlError::new(SqlState::ConfigurationLimitExceeded, message).with_hint(
                "max_slot_wal_keep_size says how much log may be held for a backup, as for a slot: a superuser may SET it while the \
                 server runs.",
            );
        }
        _ => SqlState::IoError,
    };
    let error = SqlError::new(state, message);
    let is_cloud = place.contains("://") && !place.starts_with("file:");
    if state == SqlState::IoError && is_cloud {
        return error.with_hint(
            "The server reads keys and addresses of the cloud (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL ...) from its own environment, \
             and not from that of who asks it for a backup.",
        );
    }
    error
}
