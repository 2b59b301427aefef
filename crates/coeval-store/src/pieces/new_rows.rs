// SPDX-License-Identifier: Apache-2.0
//! New rows that are read beside those of a chunk, and which of the chunk's rows are read with them.

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct NewRows {
    /// Their columns.
    pub(crate) columns: Vec<ArrayRef>,
    /// For each the chunk's row that it takes the place of, or that it goes before.
    places: Arc<[u32]>,
    /// Which of the chunk's rows are neither deleted nor replaced by one of these.
    kept: BooleanBuffer,
}

impl NewRows {
    pub(super) fn new(columns: Vec<ArrayRef>, places: &Arc<[u32]>, kept: &BooleanBuffer) -> Self {
        Self { columns, places: Arc::clone(places), kept: kept.clone() }
    }

    /// How many they are.
    pub(crate) fn rows(&self) -> usize {
        self.places.len()
    }

    /// How many of them are read with the rows of the chunk before this one, of `chunk_rows`. Those that go behind the last one are
    /// read with it.
    pub(crate) fn before(&self, row: usize, chunk_rows: usize) -> usize {
        if row == chunk_rows {
            self.rows()
        } else {
            self.places.partition_point(|place| (*place as usize) < row)
        }
    }

    /// Which of these rows of the chunk are neither deleted nor replaced by one of the new rows.
    pub(crate) fn kept_in(&self, window: &Range<usize>) -> BooleanBuffer {
        self.kept.slice(window.start, window.len())
    }

    /// The chunk's row that a new row takes the place of, or that it goes before.
    pub(crate) fn place(&self, new_row: usize) -> usize {
        self.places[new_row] as usize
    }
}
