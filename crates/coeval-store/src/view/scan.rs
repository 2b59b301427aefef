// SPDX-License-Identifier: Apache-2.0
//! A running scan of a part of a table: batches of rows in key order, out of chunks and their changes.

use super::window::{ChangedRows, ScanWindow, Shape};
use super::{SCAN_BATCH_ROWS, ScanPart};
use crate::chunk::Chunk;
use crate::chunk_stats::ChunkStats;
use crate::column::constant_column;
use crate::error::StoreError;
use crate::pieces::{Changes, Piece};
use crate::table::Table;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::ops::Range;
use std::sync::Arc;

/// What a scan has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Chunks read.
    pub chunks_read: usize,
    /// Chunks passed over because their statistics rule them out.
    pub chunks_pruned: usize,
    /// Rows that came from the delta.
    pub delta_rows: usize,
}

/// A running scan: an iterator over batches, which are in key order and so are their rows. Ends behind an
/// error.
///
/// Whoever leaves out rows asks for [windows](Self::next_window) instead: changed rows are not copied together there before
/// it is known which of them are wanted.
pub struct BatchScan<P> {
    table: Arc<Table>,
    shape: Arc<Shape>,
    projection: Box<[usize]>,
    may_match: P,
    pieces: Arc<[Piece]>,
    /// Those that have not been opened.
    waiting: Range<usize>,
    open: Option<OpenPiece>,
    counters: ScanCounters,
}

/// The piece that is being read.
struct OpenPiece {
    /// The chunk's columns, if it is read.
    chunk: Option<Vec<ArrayRef>>,
    /// The changes, if there are any, and the new rows' columns.
    new: Option<(Arc<Changes>, Arc<[ArrayRef]>)>,
    index: usize,
    rows: usize,
    next: usize,
}

impl<P: Fn(&ChunkStats) -> bool> BatchScan<P> {
    pub(super) fn new(
        table: Arc<Table>,
        schema: SchemaRef,
        projection: &[usize],
        part: ScanPart,
        may_match: P,
    ) -> Self {
        let types = projection.iter().map(|&column| table.def().columns[column].ty).collect();
        Self {
            table,
            shape: Arc::new(Shape { schema, types }),
            projection: projection.into(),
            may_match,
            pieces: part.pieces,
            waiting: part.range,
            open: None,
            counters: ScanCounters::default(),
        }
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.shape.schema
    }

    /// What has been read so far.
    #[must_use]
    pub fn counters(&self) -> ScanCounters {
        self.counters
    }

    /// Opens the next piece; false at the end.
    fn open_next(&mut self) -> Result<bool, StoreError> {
        let Some(index) = self.waiting.next() else { return Ok(false) };
        let chunk = self.pieces[index].chunk().cloned();
        let is_read = chunk.as_ref().is_some_and(|chunk| (self.may_match)(chunk.stats()));
        let def = self.table.def();
        let changes = self.pieces[index].changes(self.table.rows().delta(), def.columns.len())?.cloned();
        let new_rows = changes.as_ref().map_or(0, |changes| changes.rows());
        let new = changes.map(|changes| {
            let columns = changes.columns(def, self.table.missing(), &self.projection);
            (changes, columns.into())
        });
        let (columns, rows) = match &chunk {
            Some(chunk) if is_read => (Some(self.chunk_columns(chunk)?), chunk.rows()),
            Some(_) | None => (None, new_rows),
        };
        self.counters.chunks_read += usize::from(is_read);
        self.counters.chunks_pruned += usize::from(chunk.is_some() && !is_read);
        self.counters.delta_rows += new_rows;
        self.open = Some(OpenPiece { chunk: columns, new, index, rows, next: 0 });
        Ok(true)
    }

    fn chunk_columns(&self, chunk: &Chunk) -> Result<Vec<ArrayRef>, StoreError> {
        let columns = self.projection.iter().zip(chunk.read_columns(&self.projection)?);
        let or_missing = columns.map(|(&column, array)| {
            array.unwrap_or_else(|| {
                let ty = self.table.def().columns[column].ty;
                constant_column(ty.stored(), &self.table.missing()[column], chunk.rows())
            })
        });
        Ok(or_missing.collect())
    }

    /// The next rows of the open piece; `None` at its end.
    fn next_of_piece(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let window = open.next..open.rows.min(open.next + SCAN_BATCH_ROWS);
        if window.is_empty() {
            self.open = None;
            return Ok(None);
        }
        open.next = window.end;
        let (old, changed) = match (&open.chunk, &open.new) {
            (None, None) => return Ok(None),
            (Some(columns), changed) => (slices(columns, &window), changed.as_ref()),
            (None, Some((_, new))) => (slices(new, &window), None),
        };
        if let Some((changes, new)) = changed {
            let (unchanged, new_places) =
                (changes.unchanged_in(&window), changes.new_rows_in(&window, open.rows));
            if !new_places.is_empty() || unchanged.has_false() {
                return Ok(Some(ScanWindow::Changed(ChangedRows {
                    shape: Arc::clone(&self.shape),
                    piece: open.index,
                    changes: Arc::clone(changes),
                    start: window.start,
                    old,
                    unchanged,
                    new: Arc::clone(new),
                    new_places,
                })));
            }
        }
        Ok(Some(ScanWindow::Plain(self.shape.batch(old, window.len())?)))
    }

    fn read(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        loop {
            match self.next_of_piece()? {
                Some(window) if window.rows() > 0 => return Ok(Some(window)),
                // One whose rows are all deleted.
                Some(_) => {}
                None if self.open_next()? => {}
                None => return Ok(None),
            }
        }
    }

    /// The next rows, at least one; `None` at the end, or behind an error.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a chunk is damaged; [`StoreError::File`] if the disk cannot give it.
    pub fn next_window(&mut self) -> Result<Option<ScanWindow>, StoreError> {
        let outcome = self.read();
        if outcome.is_err() {
            self.waiting = 0..0;
            self.open = None;
        }
        outcome
    }
}

impl<P: Fn(&ChunkStats) -> bool> Iterator for BatchScan<P> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_window().transpose().map(|window| window.and_then(ScanWindow::into_batch))
    }
}

/// These rows of all columns.
fn slices(columns: &[ArrayRef], rows: &Range<usize>) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(rows.start, rows.len())).collect()
}
