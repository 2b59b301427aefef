// SPDX-License-Identifier: Apache-2.0
//! Memory for the entries of a new index.
//!
//! The store collects the entries of all rows, sorts them, and only then makes chunks of them. It does not count them, so
//! what they will take is estimated from a sample of the rows and kept while the index is built.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::memory::{Kept, bytes_of_rows};
use coeval_store::{IndexDef, KEY_INLINE_MAX, TableDef};

/// The index of a table with fewer rows takes little.
const ROWS_MIN: u64 = 10_000;

const SAMPLE_ROWS: usize = 1_000;

/// What an entry takes in the list: it holds short keys, and may have grown to twice what it needs.
const LISTED_BYTES: usize = 2 * (KEY_INLINE_MAX + 2);

/// What longer ones take beside it, with the allocator's share.
const ALLOCATION_BYTES: usize = 16;

/// A column's mark in an entry, and the end of a text.
const MARK_BYTES: usize = 2;

/// Keeps memory for building what `changed` has of indexes and the table has not; nothing if that is little.
///
/// # Errors
/// `53200` if there is not so much.
pub(super) fn keep(context: &StatementContext<'_>, changed: &TableDef) -> Result<Vec<Kept>, SqlError> {
    let known = context.transaction.table_def(changed.id)?;
    let is_new = |index: &&IndexDef| known.indexes.iter().all(|old| old.id != index.id);
    let new: Vec<&IndexDef> = changed.indexes.iter().filter(is_new).collect();
    if new.is_empty() || known.bricks.is_some() {
        return Ok(Vec::new());
    }
    let view = context.transaction.view(changed.id)?;
    let rows = view.row_count();
    if rows < ROWS_MIN {
        return Ok(Vec::new());
    }
    let kept = |index: &IndexDef| {
        let columns = index.columns.iter().chain(&changed.primary_key).copied();
        // Of columns that are generated for the index there are no values yet.
        let read: Vec<usize> = columns.clone().filter(|&column| column < known.columns.len()).collect();
        let sample = view.sample(&read, SAMPLE_ROWS)?.batch;
        let values = bytes_of_rows(&sample)?.div_ceil(sample.num_rows().max(1));
        let entry = values + columns.count() * MARK_BYTES;
        let allocated = if entry > KEY_INLINE_MAX { entry + ALLOCATION_BYTES } else { 0 };
        let each = LISTED_BYTES + allocated + entry;
        let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(each);
        context.engine.queries.keep(bytes, &format!("the entries of index {}", index.name))
    };
    new.into_iter().map(kept).collect()
}
