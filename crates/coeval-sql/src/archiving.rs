// SPDX-License-Identifier: Apache-2.0
//! The archive of a database, as `pg_stat_archiver` and the figures show it. Who archives is above this crate, and tells it here.

use coeval_store::LogTime;
use coeval_store::log::Lsn;

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

/// Who knows how far the archive is.
pub trait Archiving: Send + Sync {
    /// How far it is now. Costs locks that are held for moments.
    fn status(&self) -> ArchivingStatus;
}
