// SPDX-License-Identifier: Apache-2.0
//! A log of records in a file: appended in batches, each synced as one.
//!
//! ```text
//!   file:    "COEVALCL" | version (u32)
//!   batch:   "BTCH" | number (u64) | length of the body (u32) | CRC-32C of number, length and body (u32) | body
//!   body:    records, each: length (u32) | bytes
//! ```
//! All numbers of the frame are little-endian; batches are counted from 0.
//!
//! **What is promised.** A batch is written and synced before the next one is written. So at most one batch is torn by a
//! crash, the last one, and nothing was acknowledged by it: opening cuts it off. Bytes that are no batch and have a later
//! batch behind them are no torn end but damage: the log is refused, since what was acknowledged may be missing.
//!
//! **What is not.** With [`Durability::Off`] nothing is synced; then a crash of the machine (not of the process) may leave
//! holes, and the log is refused or shorter. A file is never cut from its beginning: who wants that goes on in another one ([`Turn`]), whose
//! batches are synced before it counts and not one by one.

mod log_file;
mod syncing;

pub(crate) use log_file::{Batch, LogFile};
pub(crate) use syncing::{LogWriter, Turn};

use std::io;
use std::path::PathBuf;

/// Whether what was logged is on disk before it is said to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is.
    #[default]
    Synced,
    /// It is given to the operating system now and then: a crash of the machine may take what was acknowledged.
    Off,
}

/// Why a log cannot be used. Nothing of it was changed, but for what a failed write has left behind its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file system refuses.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process has it open.
    #[error("{0} is in use")]
    InUse(PathBuf),
    /// It is no log, or of a later version.
    #[error("{path} is no log that this program reads: {what}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is different.
        what: &'static str,
    },
    /// It has rows of a table that is neither declared nor said to be gone. Nothing of it was changed: once that is done, it can
    /// be opened.
    #[error("the log in {directory} has rows of table {table}, which is not declared here")]
    NoTable {
        /// Where the log is.
        directory: PathBuf,
        /// The table.
        table: u64,
    },
    /// Its rows cannot be made bricks again, as they are none of their table. Nothing of it was changed.
    #[error("the log in {directory} has rows that are no bricks here: {why}")]
    Rows {
        /// Where the log is.
        directory: PathBuf,
        /// Why.
        why: String,
    },
    /// Something before its end was changed. What was acknowledged may be missing: the node can only begin anew, with an
    /// empty log, and get its bricks from others.
    #[error("{path} is damaged at byte {at}, before its end")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
    },
}

#[cfg(test)]
mod tests;
