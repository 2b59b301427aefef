// SPDX-License-Identifier: Apache-2.0
//! Columns of a scan that come late: where rows are filtered by other columns, arrays are made of those rows only that are left.
//!
//! Chunks keep integers in few bytes (`packed_column.rs`), so an array has to be made of what is read. A filter that leaves one row in a
//! hundred would throw nearly all of that away. So whoever filters says which columns no filter reads
//! ([`with_late`](super::BatchScan::with_late)). The rows that are filtered have zeros in their place, the same array for all, and
//! [`put_late`](super::PlainRows::put_late) puts the values in when it is known which rows are left.

use super::SCAN_BATCH_ROWS;
use crate::packed_column::PackedColumn;
use arrow::array::{Array, ArrayRef};
use arrow::error::ArrowError;

/// Which columns of a scan come late, if the chunk that is read has them as integers of few bytes.
#[derive(Debug, Default)]
pub(super) struct LateColumns {
    /// Their places in the projection.
    places: Box<[usize]>,
    /// Of each, zeros for as many rows as are read at once. Made when they are first wanted.
    zeros: Box<[Option<ArrayRef>]>,
}

/// The rows of such a column that are read.
#[derive(Debug)]
pub(super) struct LateColumn {
    pub(super) place: usize,
    pub(super) rows: PackedColumn,
}

impl LateColumns {
    /// Those at these places of the projection.
    pub(super) fn new(places: &[usize]) -> Self {
        Self { places: places.into(), zeros: places.iter().map(|_| None).collect() }
    }

    /// What stands in the place of so many rows of this column, at most [`SCAN_BATCH_ROWS`]; `None` if it does not come late.
    ///
    /// # Errors
    /// If Arrow refuses the array: a bug.
    pub(super) fn zeros(
        &mut self,
        place: usize,
        column: &PackedColumn,
        rows: usize,
    ) -> Result<Option<ArrayRef>, ArrowError> {
        let Some(index) = self.places.iter().position(|late| *late == place) else { return Ok(None) };
        let zeros = &mut self.zeros[index];
        if zeros.is_none() {
            *zeros = Some(column.zeros(SCAN_BATCH_ROWS)?);
        }
        Ok(zeros.as_ref().map(|zeros| zeros.slice(0, rows)))
    }
}
