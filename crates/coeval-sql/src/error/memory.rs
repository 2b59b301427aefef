// SPDX-License-Identifier: Apache-2.0
//! Errors of what needs more memory than it may have.

use super::{SqlError, SqlState};

/// The error of a transaction whose changes need more memory than they may have.
pub(crate) fn out_of_memory_for_changes(what: String) -> SqlError {
    SqlError::new(SqlState::OutOfMemory, "out of memory for the changes of a transaction")
        .with_detail(what)
        .with_hint(
            "What a transaction has written, defined or locked is kept in memory until it ends. Commit after fewer rows, \
             or give more memory (coeval serve --query-memory).",
        )
}

/// The error of a statement that needs more memory than it may have; `text` is what DataFusion says of it.
pub(crate) fn out_of_memory(text: &str) -> SqlError {
    let what = text.lines().next().unwrap_or_default();
    SqlError::new(SqlState::OutOfMemory, "out of memory for queries").with_detail(what).with_hint(
        "The statement needs more memory than its share of what all queries may have; other statements go on. \
         Give queries more (coeval serve --query-memory), or let the statement read or group fewer rows. Where the detail \
         speaks of the process, the machine has no more: try again, or give tables less (--data-memory).",
    )
}
