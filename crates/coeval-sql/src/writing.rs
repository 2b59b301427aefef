// SPDX-License-Identifier: Apache-2.0
//! How many of its rows a statement has written, for whoever waits for it.

use crate::cancel::{self, ShownProgress};
use crate::error::SqlError;
use crate::progress::{QueryProgress, RowWork};
use coeval_store::TableDef;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fewer rows are written before anybody looks.
const SHOWN_FROM: u64 = 1_000;

/// The rows of a statement that are written one by one. Whoever waits sees how many were, until this is dropped.
pub(crate) struct Writing {
    written: Arc<AtomicU64>,
    /// `None` if they are few.
    _shown: Option<ShownProgress>,
}

impl Writing {
    /// So many rows are going into a table at once. Bricks take them as a whole, so nothing is shown of those.
    pub(crate) fn begin_load(def: &TableDef, rows: u64) -> Self {
        Self::begin(if def.bricks.is_some() { 0 } else { rows })
    }

    /// So many rows are going to be written.
    pub(crate) fn begin(rows: u64) -> Self {
        let written = Arc::new(AtomicU64::new(0));
        let statement = cancel::running().filter(|_| rows >= SHOWN_FROM);
        let shown = statement.map(|statement| {
            let counted = Arc::clone(&written);
            statement.show_progress(Some(Arc::new(move || {
                let passed = counted.load(Ordering::Relaxed).min(rows);
                QueryProgress { work: RowWork::Writing, passed, rows }
            })))
        });
        Self { written, _shown: shown }
    }

    /// Where the store counts them that writes them all.
    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.written
    }

    /// One of them is next, unless the statement is to end.
    ///
    /// # Errors
    /// That of the cancelled statement.
    #[inline]
    pub(crate) fn row(&self) -> Result<(), SqlError> {
        self.written.fetch_add(1, Ordering::Relaxed);
        cancel::check()
    }
}
