// SPDX-License-Identifier: Apache-2.0
//! Bounds of what clients make a server keep: for one session, and for all of them together.
//!
//! A session that wants more gets an error that names what there is too much of; the others notice nothing as long as
//! there is some left for all.

use crate::error::{SqlError, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much there may be of something, and how much there is.
///
/// # Locking
/// `used` is a count and guards nothing: it is never above the bound for longer than a failed attempt to take takes.
#[derive(Debug)]
pub struct Quota {
    /// What it is, in the plural.
    what: &'static str,
    /// What to do when there is too much.
    hint: &'static str,
    each_max: usize,
    all_max: usize,
    used: AtomicUsize,
}

impl Quota {
    /// A bound for each session and one for all of them together.
    #[must_use]
    pub fn new(what: &'static str, hint: &'static str, each_max: usize, all_max: usize) -> Arc<Self> {
        Arc::new(Self { what, hint, each_max, all_max, used: AtomicUsize::new(0) })
    }

    /// How much of it all sessions have.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn refused(&self, state: SqlState, whose: &str, max: usize) -> SqlError {
        SqlError::new(state, format!("too many {}: {whose} may have {max}", self.what)).with_hint(self.hint)
    }
}

/// What one session has of it; dropping it gives all of that back.
#[derive(Debug)]
pub struct QuotaShare {
    quota: Arc<Quota>,
    amount: usize,
}

impl QuotaShare {
    /// Nothing yet.
    #[must_use]
    pub fn of(quota: &Arc<Quota>) -> Self {
        Self { quota: Arc::clone(quota), amount: 0 }
    }

    /// How much it is.
    #[must_use]
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes so much more.
    ///
    /// # Errors
    /// `54000` if that is more than a session may have, `53200` if it is more than is left. Nothing is taken then.
    pub fn take(&mut self, amount: usize) -> Result<(), SqlError> {
        let quota = &*self.quota;
        if self.amount.saturating_add(amount) > quota.each_max {
            return Err(quota.refused(SqlState::ProgramLimitExceeded, "a session", quota.each_max));
        }
        let before = quota.used.fetch_add(amount, Ordering::Relaxed);
        if before.saturating_add(amount) > quota.all_max {
            quota.used.fetch_sub(amount, Ordering::Relaxed);
            return Err(quota.refused(SqlState::OutOfMemory, "all sessions together", quota.all_max));
        }
        self.amount += amount;
        Ok(())
    }

    /// Gives so much back.
    ///
    /// # Panics
    /// If it is more than there is.
    pub fn give_back(&mut self, amount: usize) {
        assert!(amount <= self.amount, "only what was taken is given back");
        // Each transaction ends with this, and the count is everybody's.
        if amount == 0 {
            return;
        }
        self.amount -= amount;
        self.quota.used.fetch_sub(amount, Ordering::Relaxed);
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

/// The bounds of what sessions keep.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub(crate) advisory_locks: Arc<Quota>,
    /// In bytes, see [`prepared_bytes`].
    pub(crate) prepared_statements: Arc<Quota>,
    pub(crate) cursors: Arc<Quota>,
    /// In bytes: the texts that `pg_cursors` shows.
    pub(crate) cursor_texts: Arc<Quota>,
    /// In bytes, see [`savepoint_bytes`].
    pub(crate) savepoints: Arc<Quota>,
    /// In bytes. Nobody is refused for it: what finds no room is not kept.
    pub(crate) kept_statements: Arc<Quota>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            // A lock takes some 200 bytes.
            advisory_locks: Quota::new(
                "advisory locks",
                "Unlock those that are not needed any more, or end the transaction that has them.",
                10_000,
                1_000_000,
            ),
            prepared_statements: Quota::new(
                "bytes of prepared statements",
                "DEALLOCATE those that are not needed any more.",
                64 << 20,
                1 << 30,
            ),
            cursors: Quota::new("cursors", "CLOSE those that are not needed any more.", 1_000, 100_000),
            cursor_texts: Quota::new(
                "bytes of texts of cursors",
                "CLOSE those that are not needed any more, or give long values as parameters.",
                64 << 20,
                1 << 30,
            ),
            savepoints: Quota::new(
                "bytes of savepoints",
                "RELEASE those that are not needed any more.",
                256 << 20,
                1 << 30,
            ),
            kept_statements: Quota::new("bytes of statements kept by their text", "", usize::MAX, 512 << 20),
        }
    }
}

/// About what a prepared statement takes: its syntax and plan are many times as long as its text.
pub(crate) fn prepared_bytes(sql: &str) -> usize {
    const LEAST: usize = 4 << 10;
    const OF_EACH_BYTE: usize = 8;
    sql.len().saturating_mul(OF_EACH_BYTE).saturating_add(LEAST)
}

/// About what a savepoint takes beside the settings that it keeps.
pub(crate) fn savepoint_bytes(name: &str) -> usize {
    const LEAST: usize = 1 << 10;
    name.len().saturating_add(LEAST)
}

#[cfg(test)]
mod tests;
