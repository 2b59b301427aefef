// SPDX-License-Identifier: Apache-2.0
//! A running scan of a part of a table: batches of rows in key order, out of chunks and their changes.

use super::merge::Merge;
use super::{SCAN_BATCH_ROWS, ScanPart};
use crate::chunk::Chunk;
use crate::chunk_stats::ChunkStats;
use crate::column::{constant_column, shown};
use crate::error::StoreError;
use crate::pieces::{Changes, Piece};
use crate::table::Table;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
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
pub struct BatchScan<P> {
    table: Arc<Table>,
    schema: SchemaRef,
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
    /// The new rows' columns, if there are any changes.
    new: Option<Vec<ArrayRef>>,
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
        Self {
            table,
            schema,
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
        &self.schema
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
        let changes = self.pieces[index].changes(self.table.rows().delta(), def.columns.len())?;
        let new = changes.map(|changes| changes.columns(def, self.table.missing(), &self.projection));
        let new_rows = changes.map_or(0, Changes::rows);
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
    fn next_of_piece(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let window = open.next..open.rows.min(open.next + SCAN_BATCH_ROWS);
        if window.is_empty() {
            self.open = None;
            return Ok(None);
        }
        open.next = window.end;
        let slices = |columns: &[ArrayRef]| -> Vec<ArrayRef> {
            columns.iter().map(|column| column.slice(window.start, window.len())).collect()
        };
        let (index, rows) = (open.index, open.rows);
        let (columns, length): (Vec<ArrayRef>, usize) = match (&open.chunk, &open.new) {
            (None, None) => return Ok(None),
            (Some(columns), None) | (None, Some(columns)) => (slices(columns), window.len()),
            (Some(chunk), Some(new)) => {
                let (delta, def) = (self.table.rows().delta(), self.table.def());
                let changes = self.pieces[index].changes(delta, def.columns.len())?;
                let changes = changes.expect("what there are new columns of has changes");
                let merge = Merge::new(window.clone(), changes.of_window(window, rows));
                let columns = chunk.iter().zip(new).map(|(chunk, new)| merge.column(chunk, new));
                (columns.collect::<Result<_, _>>()?, merge.rows())
            }
        };
        let types = self.projection.iter().map(|&column| self.table.def().columns[column].ty);
        let columns = columns.into_iter().zip(types).map(|(column, ty)| shown(column, ty)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            match self.next_of_piece()? {
                Some(batch) if batch.num_rows() > 0 => return Ok(Some(batch)),
                // A window whose rows are all deleted.
                Some(_) => {}
                None if self.open_next()? => {}
                None => return Ok(None),
            }
        }
    }
}

impl<P: Fn(&ChunkStats) -> bool> Iterator for BatchScan<P> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read();
        if item.is_err() {
            self.waiting = 0..0;
            self.open = None;
        }
        item.transpose()
    }
}
