// SPDX-License-Identifier: Apache-2.0
//! The archive of a database in any object storage: backups, its log as it is written, and restores to any moment of it.
//!
//! # Owns
//! What lies in an archive and under which names; when something is sent, and when something goes. The threads that send.
//!
//! # Never does
//! It applies no record and reads no row: what it keeps is what `coeval-store` gave. It never holds up a commit, and never
//! overwrites an object.
//!
//! # Invariants
//! - Only what is durable in the database is archived.
//! - An object is written once, with a checksum, after all that it names. So whatever ends a backup, what the archive
//!   names is there.
//! - Log of different histories has different names: those of terms. A restore follows one history.
//! - What an unfinished backup names is not collected.
//! - A backup has the rows of tables that are spread over a cluster, or says of which tables it has none.
//!
//! # Start reading at
//! [`backup()`], then `entry.rs` and `log_chunk.rs` (what is kept), [`restore()`], [`Archiver`], [`collect()`]. Rows that are
//! on the nodes of a cluster: `spread_rows.rs`, then `restored_rows.rs`. `docs/backup.md`
//! is for who operates it, `docs/formats.md` has the bytes.

mod announcement;
mod archive;
mod archiver;
mod backup;
mod check;
mod cloud;
mod collect;
mod contents;
mod entry;
mod error;
mod following;
mod found_files;
mod gap;
mod history;
mod log_chunk;
mod log_sender;
mod names;
mod patience;
mod pieces;
mod refusal;
mod restore;
mod restored_rows;
mod sealed;
mod spread_rows;
mod spread_sender;
mod synced_files;

pub use archive::Archive;
pub use archiver::{Archiver, ArchiverOptions, ArchiverStatus, ArchiverWatch};
pub use backup::{BackupProgress, BackupReport, backup, backup_with};
pub use check::{ArchivedHistory, CheckReport, Problem, SpreadInBackup, check};
pub use collect::{CollectReport, Keep, collect};
pub use error::ArchiveError;
pub use following::{
    ArchivedFilePart, ArchivedLog, ArchivedPart, ArchivedStretch, BackupChoice, copy_backup, copy_newest,
};
pub use gap::Gap;
pub use patience::Patience;
pub use restore::{RestoreReport, RestoredSpread, Target, restore};
pub use restored_rows::{RestoredPart, RestoredRows, RestoredTable};
pub use spread_rows::{SpreadNext, SpreadPart, SpreadRows, SpreadSnapshot, SpreadSource, spread_tables};

#[cfg(test)]
mod tests;
