// SPDX-License-Identifier: Apache-2.0
//! Columns of a scan that come late: where rows are filtered by other columns, arrays are made of those rows only that are left.
//!
//! Chunks keep integers in few bytes (`packed_column.rs`) and few texts as codes, so an array has to be made of what is read. A filter that
//! leaves one row in a hundred would throw nearly all of that away. So whoever filters says which columns no filter reads
//! ([`with_late`](super::BatchScan::with_late)). The rows that are filtered have blanks in their place, zeros or empty texts, the same array
//! for all, and [`put_late`](super::PlainRows::put_late) puts the values in when it is known which rows are left.

use super::SCAN_BATCH_ROWS;
use crate::chunk_column::ChunkColumn;
use arrow::array::{Array, ArrayRef};
use arrow::error::ArrowError;

/// Which columns of a scan come late, unless rows of the chunk that is read are slices of its array.
#[derive(Debug, Default)]
pub(super) struct LateColumns {
    /// Their places in the projection.
    places: Box<[usize]>,
    /// Of each, blanks for as many rows as are read at once. Made when they are first wanted.
    blanks: Box<[Option<ArrayRef>]>,
}

/// The rows of such a column that are read.
#[derive(Debug)]
pub(super) struct LateColumn {
    pub(super) place: usize,
    pub(super) rows: ChunkColumn,
}

impl LateColumns {
    /// Those at these places of the projection.
    pub(super) fn new(places: &[usize]) -> Self {
        Self { places: places.into(), blanks: places.iter().map(|_| None).collect() }
    }

    /// What stands in the place of so many rows of this column, at most [`SCAN_BATCH_ROWS`]; `None` if it does not come late.
    ///
    /// # Errors
    /// If Arrow refuses the array: a bug.
    pub(super) fn blank(
        &mut self,
        place: usize,
        column: &ChunkColumn,
        rows: usize,
    ) -> Result<Option<ArrayRef>, ArrowError> {
        let place = self.places.iter().position(|late| *late == place);
        let (Some(place), ChunkColumn::Packed(_) | ChunkColumn::Coded(_)) = (place, column) else {
            return Ok(None);
        };
        let blank = &mut self.blanks[place];
        if blank.is_none() {
            *blank = column.blank(SCAN_BATCH_ROWS)?;
        }
        Ok(blank.as_ref().map(|blank| blank.slice(0, rows)))
    }
}
