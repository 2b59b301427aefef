// SPDX-License-Identifier: Apache-2.0
//! A server that archives its database.

use super::changes::ArchivedChanges;
use super::spread_place::SpreadPlace;
use crate::arguments::ServeArguments;
use crate::failure::Failure;
use coeval::{Archiving, ArchivingStatus, Database};
use coeval_archive::{Archive, Archiver, ArchiverOptions, ArchiverWatch, SpreadSource};
use std::sync::Arc;
use std::time::Duration;

const SECONDS_OF_HOUR: f64 = 3_600.0;

/// Begins to archive; on a replica, to hold what the archive lacks. `spread` is going to say who has the rows of spread tables.
///
/// # Errors
/// If the place cannot be used, or no thread be started. Whether it answers shows later, in the log.
pub(super) fn begin(
    place: &str,
    arguments: &ServeArguments,
    (database, spread): (&Database, &SpreadPlace),
) -> Result<Archiver, Failure> {
    let failed = |error| Failure::work("cannot archive", error);
    let archive = Archive::create(place).map_err(failed)?;
    let options = ArchiverOptions {
        archive_timeout: Duration::from_secs_f64(arguments.archive_timeout),
        backup_interval: Duration::from_secs_f64(arguments.backup_hours * SECONDS_OF_HOUR),
        keep: arguments.keep.keep(),
        ..ArchiverOptions::default()
    };
    let engine = database.engine();
    let is_node = arguments.node.cluster.is_some();
    let source = is_node.then(|| Arc::new(spread.clone()) as Arc<dyn SpreadSource>);
    let store = engine.store().clone();
    let archiver = Archiver::start_with(store, archive.clone(), options, source).map_err(failed)?;
    // A replica sends nothing: alarms on its backups would be false.
    if !engine.store().is_following() {
        engine.set_change_source(Arc::new(ArchivedChanges { archive }));
        engine.set_archiving(Arc::new(Shown(archiver.watch())));
    }
    Ok(archiver)
}

/// How far the archive is, for who asks the database.
struct Shown(ArchiverWatch);

impl Archiving for Shown {
    fn status(&self) -> ArchivingStatus {
        let status = self.0.status();
        ArchivingStatus {
            archived: status.archived,
            archived_time: status.archived_time,
            bytes_behind: status.bytes_behind,
            sent: status.chunks_sent,
            failures: status.failures_in_all,
            last_failed: status.last_failed,
            last_backup: status.last_backup.map(|(_, time)| time),
        }
    }
}

/// Sends what waits, and says how far the archive is.
pub(super) fn end(archiver: Archiver) {
    let status = archiver.stop();
    if status.last_backup.is_none() {
        tracing::warn!(
            "the archive has no complete backup of this database yet: nothing can be restored from it"
        );
    }
    match (&status.last_error, status.bytes_behind) {
        (None, 0) => tracing::info!("the archive has everything"),
        (error, behind) => {
            tracing::warn!(behind, ?error, "the archive does not have the last bytes of the log")
        }
    }
}
