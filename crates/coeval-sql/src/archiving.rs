// SPDX-License-Identifier: Apache-2.0
//! The archive of a database, as `pg_stat_archiver` and the figures show it, and the backups that `coeval_backup()` asks for. Who
//! archives and makes backups is above this crate, and says so here.

use crate::error::SqlError;
use coeval_store::log::Lsn;
use coeval_store::{LogTime, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How far an archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivingStatus {
    /// It has the log up to here; `None` until it is known what it has.
    pub archived: Option<Lsn>,
    /// When what it was sent last was committed; [`LogTime::ZERO`] if nothing was sent yet.
    pub archived_time: LogTime,
    /// Bytes of log that are durable here and not in the archive.
    pub bytes_behind: u64,
    /// Stretches of log that were sent since it began.
    pub sent: u64,
    /// Attempts that have failed since it began, and when the last of them did.
    pub failures: u64,
    /// See `failures`.
    pub last_failed: Option<LogTime>,
    /// When the last complete backup was made.
    pub last_backup: Option<LogTime>,
}

/// Tells how far the archive is.
pub trait Archiving: Send + Sync {
    /// How far it is now. Costs locks that are held for moments.
    fn status(&self) -> ArchivingStatus;
}

/// What is to be in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupExtent {
    /// All there is: of tables that are spread over a cluster the rows, too, or there is no backup.
    Whole,
    /// All but the rows of tables that are spread over a cluster.
    RowTables,
}

/// Makes backups of the database that this process has open.
pub trait Backups: Send + Sync {
    /// The directory of the database: absolute, and without links.
    fn directory(&self) -> &Path;

    /// Makes a backup into the archive at this place, while the database is used; returns a description of it. Blocks the thread, which
    /// must belong to no async runtime, for as long as it takes to send what is new. Ends soon after `stop` was set, with some error.
    ///
    /// # Errors
    /// Why there is no backup; the database is as it was, and what was sent stays in the archive for the next one.
    fn back_up(
        &self,
        store: &Store,
        place: &str,
        extent: BackupExtent,
        stop: &Arc<AtomicBool>,
    ) -> Result<String, SqlError>;
}
