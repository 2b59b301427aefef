// SPDX-License-Identifier: Apache-2.0
//! Rows of a scan that follow one another: as they lie in a chunk, or with what has become of them.
//!
//! New values of rows that were updated are put into copies of the chunk's columns if these are numbers, bits, or codes of texts, or
//! if they are the chunk's own values: then nothing else tells such a row from others. Where other columns have changed, updated rows
//! are new rows, as those are that were inserted.
//!
//! Whoever filters rows asks the two sides of changed rows apart: the chunk's rows, with a mask of those that are still there,
//! and the new rows, all of the chunk at once. Only what passes is put together, or is not at all where nobody asks for the order.
//!
//! ```text
//! chunk              0 .......... 8191 | 8192 .......... 16383 | 16384 ...
//! old rows           a window           the next one             mask: which are still there
//! new rows of it     0 ... 409 | 410 ... 812 | 813 ...           which of them are among the window's rows
//! ```

use super::codes::{each_its_own, merged};
use super::late::LateColumn;
use super::merge::Merge;
use crate::column::shown;
use crate::error::StoreError;
use crate::pieces::NewRows;
use crate::types::ColumnType;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a scan that follow one another.
#[derive(Debug)]
pub enum ScanWindow {
    /// Rows all of which come out, as they lie there or with new values in their places.
    Plain(PlainRows),
    /// Rows of a chunk of which some are gone, or among which there are new ones.
    Changed(ChangedRows),
}

/// Rows that follow one another and all come out, as they lie there or with new values in their places.
#[derive(Debug)]
pub struct PlainRows {
    pub(super) shape: Arc<Shape>,
    /// With blanks where columns come late.
    pub(super) batch: RecordBatch,
    pub(super) late: Vec<LateColumn>,
}

/// Rows of a chunk that follow one another, some of which may not be read, and the new rows among them: no more of either than
/// [`SCAN_BATCH_ROWS`](super::SCAN_BATCH_ROWS).
#[derive(Debug)]
pub struct ChangedRows {
    pub(super) shape: Arc<Shape>,
    /// Which of the scan's pieces they are of.
    pub(super) piece: usize,
    /// Where they begin in the chunk.
    pub(super) start: usize,
    /// The chunk's columns of these rows, with the new values that are put into them.
    pub(super) old: Vec<ArrayRef>,
    pub(super) unchanged: BooleanBuffer,
    /// All new rows of the chunk that are read beside it.
    pub(super) new: Arc<NewRows>,
    pub(super) new_places: Range<usize>,
}

/// What the batches of a scan look like.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) schema: SchemaRef,
    pub(super) types: Box<[ColumnType]>,
    /// The places of texts that go out as codes.
    pub(super) coded: Box<[usize]>,
}

impl Shape {
    /// Columns as chunks keep them as a batch that queries see.
    pub(super) fn batch(&self, mut columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
        for place in &self.coded {
            let column = &mut columns[*place];
            if *column.data_type() == DataType::Utf8View {
                *column = each_its_own(column)?;
            }
        }
        let columns = self.shown(columns);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }

    /// The first columns, which chunks keep so, as queries see them.
    fn shown(&self, columns: Vec<ArrayRef>) -> Vec<ArrayRef> {
        columns.into_iter().zip(&self.types).map(|(column, ty)| shown(column, *ty)).collect()
    }
}

impl ScanWindow {
    /// How many rows come out of it.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Plain(plain) => plain.batch().num_rows(),
            Self::Changed(changed) => changed.unchanged.count_set_bits() + changed.new_places.len(),
        }
    }

    /// All of its rows, in key order.
    ///
    /// # Errors
    /// [`StoreError::Arrow`] if columns do not fit together: a bug.
    pub fn into_batch(self) -> Result<RecordBatch, StoreError> {
        match self {
            Self::Plain(plain) => plain.into_batch(),
            Self::Changed(changed) => {
                let all_new = BooleanBuffer::new_set(changed.new_places.len());
                let rows = changed.unchanged.count_set_bits() + all_new.len();
                let columns = changed.merged(changed.old.len(), &changed.unchanged, &all_new)?;
                Ok(changed.shape.batch(columns, rows)?)
            }
        }
    }
}

impl PlainRows {
    /// The rows. Columns that [come late](super::BatchScan::with_late) may hold zeros and empty texts.
    #[must_use]
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Whether there are such in the place of columns that come late.
    #[must_use]
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Puts the columns that come late into their places among the columns of these rows, or of those of them that are marked.
    ///
    /// # Errors
    /// As [`ScanWindow::into_batch`].
    pub fn put_late(
        &self,
        columns: &mut [ArrayRef],
        marked: Option<&BooleanBuffer>,
    ) -> Result<(), StoreError> {
        let marked = marked.map(|marked| UInt32Array::from_iter_values(marked.set_indices_u32()));
        for late in &self.late {
            let array = match &marked {
                Some(marked) => late.rows.taken(marked)?,
                None => late.rows.array()?,
            };
            columns[late.place] = shown(array, self.shape.types[late.place]);
        }
        Ok(())
    }

    /// All of them, with the columns that come late.
    ///
    /// # Errors
    /// As [`ScanWindow::into_batch`].
    pub fn into_batch(self) -> Result<RecordBatch, StoreError> {
        if self.late.is_empty() {
            return Ok(self.batch);
        }
        let mut columns = self.batch.columns().to_vec();
        self.put_late(&mut columns, None)?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.batch.schema(), columns, &options)?)
    }
}

impl ChangedRows {
    /// The chunk's rows, those among them that are deleted or replaced by new rows, too.
    ///
    /// # Errors
    /// As [`ScanWindow::into_batch`].
    pub fn old_rows(&self) -> Result<RecordBatch, StoreError> {
        Ok(self.shape.batch(self.old.clone(), self.unchanged.len())?)
    }

    /// Which of the chunk's rows are neither deleted nor replaced by new rows.
    #[must_use]
    pub fn unchanged(&self) -> &BooleanBuffer {
        &self.unchanged
    }

    /// Which of the scan's pieces they are of: the same chunk, and the same new rows.
    #[must_use]
    pub fn piece(&self) -> usize {
        self.piece
    }

    /// How many new rows are read beside the chunk, also among other rows of it.
    #[must_use]
    pub fn new_row_count(&self) -> usize {
        self.new.rows()
    }

    /// These of all new rows of the chunk.
    ///
    /// # Errors
    /// As [`ScanWindow::into_batch`]; also if texts go out as codes, and there are more rows than codes.
    pub fn new_rows(&self, rows: Range<usize>) -> Result<RecordBatch, StoreError> {
        let columns = self.new.columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
        Ok(self.shape.batch(columns, rows.len())?)
    }

    /// Which of the new rows are among these rows.
    #[must_use]
    pub fn new_places(&self) -> Range<usize> {
        self.new_places.clone()
    }

    /// The first `columns` columns of the rows that are marked on either side, in key order: of the old rows, only
    /// [unchanged](Self::unchanged) ones, and of the new rows [among them](Self::new_places).
    ///
    /// # Errors
    /// As [`ScanWindow::into_batch`].
    pub fn picked(
        &self,
        columns: usize,
        old: &BooleanBuffer,
        new: &BooleanBuffer,
    ) -> Result<Vec<ArrayRef>, StoreError> {
        Ok(self.shape.shown(self.merged(columns, old, new)?))
    }

    fn merged(
        &self,
        columns: usize,
        old: &BooleanBuffer,
        new: &BooleanBuffer,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let first = self.new_places.start;
        let merge = Merge::new(old, new, |row| self.new.place(first + row) - self.start);
        let new_here = |column: &ArrayRef| column.slice(first, self.new_places.len());
        let sides = self.old.iter().zip(&self.new.columns).take(columns).enumerate();
        let column = |(place, (old, new)): (usize, (&ArrayRef, &ArrayRef))| {
            let new = new_here(new);
            if self.shape.coded.contains(&place) {
                merged(&merge, old, &new)
            } else {
                merge.column(old, &new)
            }
        };
        sides.map(column).collect()
    }
}
