// SPDX-License-Identifier: Apache-2.0
//! How far the query of a running statement is, for whoever waits for it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What is done with rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowWork {
    /// They are read.
    #[default]
    Reading,
    /// They are added, changed or deleted, all of them having been found.
    Writing,
}

/// How many rows a statement has come by, and how many there are.
///
/// Those that it reads are its tables': rows that are passed over, because nothing of them can be wanted, count with the others,
/// but for whole bricks, which are left out before it begins; a table that is read twice counts twice. Rows of other engines and
/// other nodes do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryProgress {
    /// What is done with them.
    pub work: RowWork,
    /// Rows that it has come by.
    pub passed: u64,
    /// Rows that it will have come by at its end, unless it ends before.
    pub rows: u64,
}

/// What counts the rows of a query that runs.
pub(crate) type Counting = Arc<dyn Fn() -> QueryProgress + Send + Sync>;

/// What counts the rows of the queries that a session runs: one within another, and those whose rows are still read while the next
/// statement runs.
///
/// # Locking
/// `queries` is a leaf, held for a move.
#[derive(Default)]
pub(crate) struct Shown {
    queries: Mutex<Queries>,
}

/// Queries in the order that they began in, by their numbers. Of some nothing is known.
#[derive(Default)]
struct Queries {
    begun: u64,
    running: Vec<(u64, Option<Counting>)>,
}

impl Shown {
    /// A query begins, which this counts. It is [over](Self::end) by the number that this gives.
    pub(crate) fn begin(&self, counting: Option<Counting>) -> u64 {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        queries.begun += 1;
        let number = queries.begun;
        queries.running.push((number, counting));
        number
    }

    /// The query of this number is over.
    pub(crate) fn end(&self, number: u64) {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let place = queries.running.iter().position(|(running, _)| *running == number);
        let ended = place.map(|place| queries.running.remove(place));
        drop(queries);
        // What it counts by may hold much of the query.
        drop(ended);
    }

    /// How far the query is that began last; `None` if none runs, or nothing is known of it.
    pub(crate) fn now(&self) -> Option<QueryProgress> {
        let queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let counting = queries.running.last().and_then(|(_, counting)| counting.clone());
        drop(queries);
        counting.map(|counting| counting())
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(passed: u64) -> Option<Counting> {
        Some(Arc::new(move || QueryProgress { passed, rows: 10, ..QueryProgress::default() }))
    }

    #[test]
    fn the_query_that_began_last_is_shown_whichever_ends_first() {
        let shown = Shown::default();
        let passed = || shown.now().map(|progress| progress.passed);
        let streamed = shown.begin(counting(1));
        let next = shown.begin(counting(2));
        assert_eq!(passed(), Some(2));
        let within = shown.begin(None);
        assert_eq!(passed(), None);
        shown.end(within);
        shown.end(streamed);
        assert_eq!(passed(), Some(2));
        shown.end(next);
        assert_eq!(passed(), None);
    }
}
