// SPDX-License-Identifier: Apache-2.0
//! What a scan of a table reads, for callers that take a view and say themselves which part of it they look at.

use super::Transaction;
use crate::error::StoreError;
use crate::ids::SpaceId;
use crate::range::{Direction, KeyRange};
use crate::view::TableView;
use std::ops::Bound;

/// A part of a table that holds every row which a scan's result depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The rows whose primary keys lie in one of these ranges; of a brick table, the bricks with a mark in one of them.
    Keys(Vec<KeyRange>),
    /// The rows that have an entry in one of these ranges of an index.
    Entries {
        /// The index.
        index: SpaceId,
        /// Ranges of its entries.
        ranges: Vec<KeyRange>,
    },
    /// So many rows, the first by primary key.
    First(usize),
}

/// With more entries or rows than this, [`Scanned::Entries`] and [`Scanned::First`] are given up: finding each of the
/// rows would cost more than what is gained by it.
pub const NOTED_ROWS_MAX: usize = 1_024;

impl Transaction {
    /// Whether it notes what it reads: it may be certified by that.
    #[must_use]
    pub fn notes_reads(&self) -> bool {
        self.serializing.is_some()
    }

    /// As [`view`](Self::view), for a caller that says by [`note_scanned`](Self::note_scanned) what it looks at:
    /// until then the table's definition alone counts as read.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn view_to_note(&self, table: SpaceId) -> Result<TableView, StoreError> {
        self.note_definition(table);
        self.view_of(table)
    }

    /// Notes what a scan of a table reads: each of `candidates` holds all of it, the most precise first. Without one
    /// that can be noted in little space, the whole table counts as read.
    ///
    /// Cost: of ranges of keys, a clone of their bounds; of index entries and first rows, finding at most
    /// [`NOTED_ROWS_MAX`] of them.
    ///
    /// # Errors
    /// [`StoreError::UnknownSpace`] if there is no such table or index; [`StoreError::Corrupt`] if a file is damaged
    /// where an index entry or row is looked for.
    pub fn note_scanned(&self, table: SpaceId, candidates: &[Scanned]) -> Result<(), StoreError> {
        if !self.notes_reads() {
            return Ok(());
        }
        for candidate in candidates {
            let is_noted = match candidate {
                Scanned::Keys(ranges) => {
                    ranges.iter().for_each(|range| self.note_keys(table, range));
                    true
                }
                Scanned::Entries { index, ranges } => self.note_entries(table, *index, ranges)?,
                Scanned::First(rows) => self.note_first(table, *rows)?,
            };
            if is_noted {
                return Ok(());
            }
        }
        self.note_table(table);
        Ok(())
    }

    fn note_keys(&self, table: SpaceId, range: &KeyRange) {
        match (&range.lower, &range.upper) {
            (Bound::Included(first), Bound::Included(last)) if first == last => self.note_key(table, first),
            _ => self.note_range(table, table, range),
        }
    }

    /// Notes the entries of these ranges and the rows behind them, by finding them.
    fn note_entries(&self, table: SpaceId, index: SpaceId, ranges: &[KeyRange]) -> Result<bool, StoreError> {
        let mut rows_left = NOTED_ROWS_MAX;
        for range in ranges {
            for entry in self.scan_index(table, index, range, Direction::Forward)? {
                let entry = entry?;
                if rows_left == 0 {
                    return Ok(false);
                }
                rows_left -= 1;
                self.note_key(table, &entry.primary_key);
            }
        }
        Ok(true)
    }

    /// Notes the first rows, by finding them.
    fn note_first(&self, table: SpaceId, rows: usize) -> Result<bool, StoreError> {
        if rows > NOTED_ROWS_MAX {
            return Ok(false);
        }
        for found in self.scan(table, &KeyRange::all(), Direction::Forward)?.take(rows) {
            found?;
        }
        Ok(true)
    }
}
