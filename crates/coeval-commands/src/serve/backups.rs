// SPDX-License-Identifier: Apache-2.0
//! Backups that a server makes when it is asked for them, by `coeval_backup()` and so by `coeval backup`.

use super::spread_place::SpreadPlace;
use crate::archive::send;
use crate::failure::Failure;
use coeval::{BackupExtent, Backups, Database, SqlError, SqlState, Store};
use coeval_archive::{Archive, ArchiveError, SpreadRows};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Offers backups of the database in a directory; `place` says who has the rows of spread tables.
///
/// # Errors
/// If the directory cannot be looked at.
pub(super) fn offer(database: &Database, dir: &Path, place: &SpreadPlace) -> Result<(), Failure> {
    let whole = dir.canonicalize();
    let directory =
        whole.map_err(|error| Failure::work(format_args!("cannot look at {}", dir.display()), error))?;
    database.engine().set_backups(Arc::new(Offered { directory, spread: place.clone() }));
    Ok(())
}

/// See the module.
struct Offered {
    directory: PathBuf,
    spread: SpreadPlace,
}

impl Backups for Offered {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn back_up(
        &self,
        store: &Store,
        place: &str,
        extent: BackupExtent,
        stop: &Arc<AtomicBool>,
    ) -> Result<String, SqlError> {
        // Who opens a directory for the backup alone waits for no replicas. Here those may still come.
        if !store.has_confirmed() {
            return Err(refused(place, ArchiveError::Unconfirmed));
        }
        let rows = match (extent, self.spread.node()) {
            (BackupExtent::RowTables, _) => SpreadRows::LeftOut,
            (BackupExtent::Whole, Some(node)) => SpreadRows::Of(&**node),
            (BackupExtent::Whole, None) => SpreadRows::Elsewhere,
        };
        let archive = Archive::create(place).map(|archive| archive.until(Arc::clone(stop)));
        match archive.and_then(|archive| send(store, &archive, rows)) {
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
        ArchiveError::Spread(_) => SqlState::CannotConnectNow,
        ArchiveError::SpreadElsewhere { .. } => {
            return SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
                .with_hint("coeval_backup('PLACE', '', 'row tables') leaves these rows out.");
        }
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
