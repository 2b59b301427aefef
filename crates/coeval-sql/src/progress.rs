// SPDX-License-Identifier: Apache-2.0
//! How far the query of a running statement is, for whoever waits for it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How many rows of its tables a query has come by, and how many there are. Rows that are passed over, because nothing of them
/// can be wanted, count with the others; a table that is read twice counts twice. Brick tables and other engines do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryProgress {
    /// Rows that it has come by.
    pub passed: u64,
    /// Rows that it will have come by at its end, unless it ends before.
    pub rows: u64,
}

/// What counts the rows of a query that runs.
pub(crate) type Counting = Arc<dyn Fn() -> QueryProgress + Send + Sync>;

/// What counts the rows of the query that a session runs, if one does.
///
/// # Locking
/// `counting` is a leaf, held for a move.
#[derive(Default)]
pub(crate) struct Shown {
    counting: Mutex<Option<Counting>>,
}

impl Shown {
    /// From now on this counts; gives what did before.
    pub(crate) fn replace(&self, counting: Option<Counting>) -> Option<Counting> {
        std::mem::replace(&mut *self.counting.lock().unwrap_or_else(PoisonError::into_inner), counting)
    }

    /// How far the query is; `None` if none runs.
    pub(crate) fn now(&self) -> Option<QueryProgress> {
        let counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        counting.map(|counting| counting())
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}
