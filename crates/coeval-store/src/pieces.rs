// SPDX-License-Identifier: Apache-2.0
//! How one version of a table is cut for scanning: each chunk with the changes of its key range, and behind the
//! last chunk the rows that are only in the delta.
//!
//! Cut at the first scan of a version and kept with it, and so is what scans find out about the changes: the
//! next scan of the same version finds its delta column-wise. It goes when the version goes.

mod changes;
mod coded_patch;
mod new_rows;
mod patch;

use crate::chunk::{CHUNK_ROWS, Chunk};
use crate::delta::Delta;
use crate::error::StoreError;
use crate::range::KeyRange;
use crate::space::Space;
pub(crate) use changes::Changes;
pub(crate) use new_rows::NewRows;
pub(crate) use patch::Patch;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// A chunk (or none) and the key range whose changes are read with it.
#[derive(Debug)]
pub(crate) struct Piece {
    chunk: Option<Arc<Chunk>>,
    range: KeyRange,
    /// Entries of the delta in the range.
    delta_entries: usize,
    changes: OnceLock<Arc<Changes>>,
}

/// The pieces of one version of a table, in key order, made when they are first asked for. A copy of a table
/// becomes another version, so that it starts without.
#[derive(Debug, Default)]
pub(crate) struct Pieces(OnceLock<Arc<[Piece]>>);

impl Clone for Pieces {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Pieces {
    /// The pieces of these rows.
    pub(crate) fn of(&self, rows: &Space) -> &Arc<[Piece]> {
        self.0.get_or_init(|| cut(rows).into())
    }
}

impl Piece {
    fn new(chunk: Option<Arc<Chunk>>, range: KeyRange, delta: &Delta) -> Self {
        let below = |bound: &Bound<_>, unbounded| match bound {
            Bound::Unbounded => unbounded,
            Bound::Included(key) | Bound::Excluded(key) => delta.rank(key),
        };
        // Keys on a bound may be counted to either side: this is a weight.
        let delta_entries = below(&range.upper, delta.len()).saturating_sub(below(&range.lower, 0));
        Self { chunk, range, delta_entries, changes: OnceLock::new() }
    }

    /// The chunk, if there is one.
    pub(crate) fn chunk(&self) -> Option<&Arc<Chunk>> {
        self.chunk.as_ref()
    }

    /// The changes of its key range; `None` if there are none. The first caller collects them from the table's delta, for rows
    /// of so many columns; the chunk's keys are read for that.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if these are damaged.
    pub(crate) fn changes(&self, delta: &Delta, columns: usize) -> Result<Option<&Arc<Changes>>, StoreError> {
        if let Some(changes) = self.changes.get() {
            return Ok(Some(changes));
        }
        if delta.iter_range(self.range.clone()).next().is_none() {
            return Ok(None);
        }
        if let Some(chunk) = &self.chunk {
            chunk.check_keys()?;
        }
        let collect = || Arc::new(Changes::collect(delta, &self.range, self.chunk.as_deref(), columns));
        Ok(Some(self.changes.get_or_init(collect)))
    }

    /// About how much work its scan is.
    pub(crate) fn weight(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.rows()) + self.delta_entries
    }
}

fn cut(rows: &Space) -> Vec<Piece> {
    let delta = rows.delta();
    let chunks: Vec<&Arc<Chunk>> = rows.base().iter().map(|(_, chunk)| chunk).collect();
    let mut pieces = Vec::with_capacity(chunks.len());
    let mut lower = Bound::Unbounded;
    for (index, chunk) in chunks.iter().enumerate() {
        let (upper, next) = match chunks.get(index + 1) {
            Some(next) => (Bound::Excluded(next.first_key()), Bound::Included(next.first_key())),
            None => (Bound::Included(chunk.last_key()), Bound::Excluded(chunk.last_key())),
        };
        pieces.push(Piece::new(Some(Arc::clone(chunk)), KeyRange { lower, upper }, delta));
        lower = next;
    }
    let first = match &lower {
        Bound::Excluded(last) => delta.rank(last) + usize::from(delta.contains_key(last)),
        Bound::Included(_) | Bound::Unbounded => 0,
    };
    // Behind the last chunk, in pieces of a chunk's size: several threads may share them.
    for start in (first..delta.len()).step_by(CHUNK_ROWS) {
        let (upper, next) = match delta.select(start + CHUNK_ROWS) {
            Some((key, _)) => (Bound::Excluded(key.clone()), Bound::Included(key.clone())),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        pieces.push(Piece::new(None, KeyRange { lower, upper }, delta));
        lower = next;
    }
    pieces
}
