// SPDX-License-Identifier: Apache-2.0
//! How many of its rows a statement has written, for whoever waits for it.

use crate::cancel::{self, ShownProgress};
use crate::error::SqlError;
use crate::progress::{QueryProgress, RowWork};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fewer rows are written before anybody looks.
const SHOWN_FROM: usize = 1_000;

/// The rows of a statement that are written one by one. Whoever waits sees how many were, until this is dropped.
pub(super) struct Writing {
    /// `None` if they are few.
    written: Option<Arc<AtomicU64>>,
    _shown: Option<ShownProgress>,
}

impl Writing {
    /// So many rows are going to be written.
    pub(super) fn begin(rows: usize) -> Self {
        let Some(statement) = cancel::running().filter(|_| rows >= SHOWN_FROM) else {
            return Self { written: None, _shown: None };
        };
        let (written, rows) = (Arc::new(AtomicU64::new(0)), rows as u64);
        let counted = Arc::clone(&written);
        let shown = statement.show_progress(Some(Arc::new(move || {
            let passed = counted.load(Ordering::Relaxed).min(rows);
            QueryProgress { work: RowWork::Writing, passed, rows }
        })));
        Self { written: Some(written), _shown: Some(shown) }
    }

    /// One of them is next, unless the statement is to end.
    ///
    /// # Errors
    /// That of the cancelled statement.
    #[inline]
    pub(super) fn row(&self) -> Result<(), SqlError> {
        if let Some(written) = &self.written {
            written.fetch_add(1, Ordering::Relaxed);
        }
        cancel::check()
    }
}
