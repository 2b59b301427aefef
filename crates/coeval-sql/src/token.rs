// SPDX-License-Identifier: Apache-2.0
//! Tokens: a short text that stands for a snapshot, and finds it, or a newer one, on another machine.
//!
//! `SELECT coeval_snapshot_token()` gives that of the statement's snapshot, which has all that the session has committed.
//! `SET coeval.wait_for_token = '...'` on a replica waits until that is there.
//!
//! ```text
//! 3-8f21c5d09a7b4e16-1a2b3c-2f0
//! |  |                |      |
//! |  |                |      a safe snapshot has it whose boundary is at or beyond this version
//! |  |                a plain snapshot has it if readers see the log up to here
//! |  the id of the term whose log that is
//! the number of the term
//! ```
//! # Behind a failover
//! A place belongs to the history of its term. It is that behind the records of what is published when the token is given, and not the
//! end of the log: there may be commits of others which a failover loses, though it keeps the snapshot's. Where that history has ended before the place, what the token stands for may
//! be lost, and that is an error. A term that a replica has not heard of yet is waited for; one that it has gone past
//! without is not part of its history.

use crate::error::{SqlError, SqlState};
use coeval_store::Store;
use coeval_store::log::Lsn;
use coeval_txn::Version;
use coeval_txn::ssi::SessionFloor;
use std::fmt;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotToken {
    /// The number of the term.
    number: u64,
    /// The id of the term.
    term: u64,
    /// The snapshot's commits are in the log up to here.
    end: Lsn,
    /// Its version.
    version: Version,
}

impl SnapshotToken {
    /// Of a snapshot of this version. `None` in memory.
    pub(crate) fn of(store: &Store, version: Version) -> Option<Self> {
        let (end, term) = store.end_of_snapshot(version)?;
        Some(Self { number: term.number, term: term.id, end, version })
    }

    /// Reads one.
    ///
    /// # Errors
    /// `22023`.
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        let mut parts = text.trim().split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let mut next = || parts.next().flatten();
        match (next(), next(), next(), next(), next()) {
            (Some(number), Some(term), Some(end), Some(version), None) => {
                Ok(Self { number, term, end: Lsn::new(end), version: Version::new(version) })
            }
            _ => Err(SqlError::new(
                SqlState::InvalidParameterValue,
                format!("\"{text}\" is no token of a snapshot"),
            )
            .with_hint("SELECT coeval_snapshot_token() gives one.")),
        }
    }

    /// The id of the history that it belongs to.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Its version in that history.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Up to where the log has the snapshot's commits.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// What a session must find that reads the snapshot or a newer one.
    pub(crate) fn raise(&self, floor: &mut SessionFloor) {
        floor.note_snapshot(self.version);
    }

    /// Whether readers of plain snapshots see it here.
    ///
    /// # Errors
    /// `55000` if the history here has left its term before it.
    pub(crate) fn is_shown(&self, store: &Store) -> Result<bool, SqlError> {
        let terms = store.terms();
        let is_known = terms.terms().iter().any(|term| term.id == self.term);
        let last = terms.last().map_or(0, |term| term.number);
        if !is_known && last < self.number {
            return Ok(false);
        }
        if let Err(parted) = terms.check_follower(Some(self.term), self.end) {
            return Err(SqlError::new(
                SqlState::ObjectNotInPrerequisiteState,
                "the snapshot of the token is not part of this database's history",
            )
            .with_detail(format!("{parted}: a failover has lost what the token may stand for."))
            .with_hint("Take a new token from the primary, and look whether the transaction is there."));
        }
        Ok(store.shown_position().is_some_and(|shown| shown >= self.end) || !store.is_following())
    }
}

impl fmt::Display for SnapshotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, term, end, version } = self;
        write!(f, "{number:x}-{term:016x}-{:x}-{:x}", end.get(), version.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = SnapshotToken {
            number: 3,
            term: 0x8f21_c5d0_9a7b_4e16,
            end: Lsn::new(0x1a_2b3c),
            version: Version::new(752),
        };
        assert_eq!(token.to_string(), "3-8f21c5d09a7b4e16-1a2b3c-2f0");
        assert_eq!(SnapshotToken::parse(" 3-8f21c5d09a7b4e16-1a2b3c-2f0 ").unwrap(), token);
        for wrong in ["", "3", "3-8-1", "3-8-1-x", "3-8-1-2-3", "-1-2-3-4", "3-8f21c5d09a7b4e161-1-1"] {
            assert_eq!(
                SnapshotToken::parse(wrong).unwrap_err().state,
                SqlState::InvalidParameterValue,
                "{wrong}"
            );
        }
    }
}
