// SPDX-License-Identifier: Apache-2.0
//! What a log record says to those who keep logs without applying them.

use super::{decode_earliest_out, decode_mark};
use crate::clock::LogTime;
use crate::error::StoreError;
use crate::log::LogRecord;
use crate::terms::Term;
use coeval_txn::Version;
use std::path::Path;

/// What a record says of the log as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMark {
    /// A commit batch: the world behind it has this version.
    Batch(Version),
    /// Here a term begins.
    Term(Term),
    /// What comes behind was committed at this time or later.
    Time(LogTime),
    /// Anything else.
    Other,
}

impl LogMark {
    /// What a record says. Costs a look at its first bytes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not what a store writes.
    pub fn of(record: &LogRecord) -> Result<Self, StoreError> {
        decode_mark(&record.payload)
            .map_err(|error| StoreError::corrupt(Path::new("log"), record.start().get(), &error.to_string()))
    }

    /// Whether a transaction of this record has an antidependency to a commit of this version or an earlier one: then it belongs to the
    /// safe snapshot of that version, though it is of a later one. Costs a look at each transaction's first bytes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not what a store writes.
    pub fn has_antidependency(record: &LogRecord, version: Version) -> Result<bool, StoreError> {
        let earliest = decode_earliest_out(&record.payload).map_err(|error| {
            StoreError::corrupt(Path::new("log"), record.start().get(), &error.to_string())
        })?;
        Ok(earliest.is_some_and(|earliest| earliest <= version))
    }
}
