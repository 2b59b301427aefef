// SPDX-License-Identifier: Apache-2.0
//! Memory of the rows that an UPDATE or DELETE by key has found and not written yet.
//!
//! All rows are found before the first one is written, and a range of keys may have millions. So what is kept of them is counted in the
//! budget of queries, until each is written: from then on the transaction counts it among its changes.

use crate::error::SqlError;
use crate::memory::{Kept, QueryEnvironment};
use coeval_store::{Key, Row};

/// What a statement may keep without asking: most change few rows.
const FREE_BYTES: usize = 256 << 10;

/// More is asked for in steps of this size, so that few rows have to ask.
const STEP_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct FoundMemory<'e> {
    queries: &'e QueryEnvironment,
    bytes: usize,
    /// What it has of the budget.
    granted: usize,
    kept: Option<Kept>,
}

impl<'e> FoundMemory<'e> {
    /// Nothing yet, of this budget.
    pub(super) fn of(queries: &'e QueryEnvironment) -> Self {
        Self { queries, bytes: 0, granted: 0, kept: None }
    }

    /// Keeps so many bytes more.
    ///
    /// # Errors
    /// `53200` if there is no memory for them.
    #[inline]
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.granted + FREE_BYTES { self.grow() } else { Ok(()) }
    }

    #[cold]
    fn grow(&mut self) -> Result<(), SqlError> {
        let needed = self.needed();
        let kept = self.kept.get_or_insert_with(|| self.queries.keep_nothing());
        kept.keep_more(needed - self.granted, "the rows that a statement changes")?;
        self.granted = needed;
        Ok(())
    }

    /// So many bytes, of those that are kept, are written.
    pub(super) fn let_go(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "what is let go of was kept");
        self.bytes -= bytes;
        let needed = self.needed();
        if let Some(kept) = self.kept.as_ref().filter(|_| needed < self.granted) {
            kept.keep_less(self.granted - needed);
            self.granted = needed;
        }
    }

    /// What it must have of the budget for what it keeps.
    fn needed(&self) -> usize {
        self.bytes.saturating_sub(FREE_BYTES).div_ceil(STEP_BYTES) * STEP_BYTES
    }
}

/// What the key of a row that was found takes, in a list that grows by doubling.
pub(super) fn bytes_of_key(key: &Key) -> usize {
    2 * size_of::<Key>() + key.as_slice().len()
}

/// What a new row takes beside its key, likewise.
pub(super) fn bytes_of_row(row: &Row) -> usize {
    2 * size_of::<Row>() + row.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{QUERY_MEMORY_MIN, QueryMemory};

    #[test]
    fn what_is_found_is_counted_until_it_is_written_and_refused_beyond_the_budget() {
        let memory = QueryMemory { bytes: Some(QUERY_MEMORY_MIN), ..QueryMemory::default() };
        let queries = QueryEnvironment::new(&memory).unwrap();
        let taken = || queries.standing().taken;
        let mut found = FoundMemory::of(&queries);
        found.keep(FREE_BYTES).unwrap();
        assert_eq!(taken(), 0);
        found.keep(3 * STEP_BYTES - 1).unwrap();
        assert_eq!(taken(), 3 * STEP_BYTES);
        found.let_go(STEP_BYTES);
        assert_eq!(taken(), 2 * STEP_BYTES);
        let refused = found.keep(QUERY_MEMORY_MIN).unwrap_err();
        assert_eq!(refused.state.code(), "53200");
        assert_eq!(taken(), 2 * STEP_BYTES);
        drop(found);
        assert_eq!(taken(), 0);
    }
}
