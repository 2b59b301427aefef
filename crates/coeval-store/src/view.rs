// SPDX-License-Identifier: Apache-2.0
//! Table views: one table of one snapshot, to be scanned column-wise.
//!
//! A scan gives each chunk's rows as slices of its arrays, without those whose key has an entry in the delta,
//! and then the delta's rows of that chunk's key range as one more batch: TiQuE's anti-join as a merge of two
//! sorted sequences. A chunk whose range has no changed key costs nothing beyond its slices.

use crate::catalog::TableDef;
use crate::chunk::{Chunk, ChunkStats};
use crate::column::{ColumnBuilder, constant_column};
use crate::delta::Delta;
use crate::key::Key;
use crate::range::KeyRange;
use crate::row::Row;
use crate::table::{RowRef, Table};
use crate::value::Value;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Rows in a batch of a scan: what DataFusion's operators are tuned for.
pub const SCAN_BATCH_ROWS: usize = 8_192;

/// One table of one snapshot. Owned, cheap to clone, and unchanging.
#[derive(Clone, Debug)]
pub struct TableView {
    table: Arc<Table>,
}

/// What is known of a column without reading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSummary {
    /// A lower bound of the values; the least one if `exact`.
    pub min: Option<Value>,
    /// An upper bound of the values; the greatest one if `exact`.
    pub max: Option<Value>,
    /// How many are NULL, if known exactly.
    pub null_count: Option<u64>,
}

/// What is known of a table without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSummary {
    /// How many rows, exactly.
    pub rows: u64,
    /// Whether the columns' bounds are exact: the delta is empty.
    pub exact: bool,
    /// Per column of the definition.
    pub columns: Vec<ColumnSummary>,
}

/// A contiguous piece of a table's key range: chunks with the changes that belong to them.
#[derive(Clone, Debug)]
pub struct ScanPart {
    pieces: Vec<Piece>,
}

/// A chunk (or none) and the key range whose changes are read with it.
#[derive(Clone, Debug)]
struct Piece {
    chunk: Option<Arc<Chunk>>,
    range: KeyRange,
}

impl ScanPart {
    /// Rows in the part's chunks.
    #[must_use]
    pub fn base_rows(&self) -> usize {
        self.pieces.iter().filter_map(|piece| piece.chunk.as_ref()).map(|chunk| chunk.rows()).sum()
    }
}

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

impl TableView {
    /// The view of this table version.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Self {
        Self { table }
    }

    /// The table version.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The definition.
    #[must_use]
    pub fn def(&self) -> &Arc<TableDef> {
        self.table.def()
    }

    /// How many rows, exactly.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.table.row_count()
    }

    /// The row with this key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<RowRef<'_>> {
        self.table.get(key)
    }

    /// All columns of the definition, in its order.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<_> = self
            .def()
            .columns
            .iter()
            .map(|column| Field::new(&column.name, column.ty.arrow(), !column.not_null))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// Rows, and bounds and NULLs of each column. Reads no rows unless there are few changed ones.
    #[must_use]
    pub fn summary(&self) -> TableSummary {
        let def = self.def();
        let delta_is_empty = self.table.rows().delta().is_empty();
        let mut columns: Vec<Option<ColumnSummary>> = vec![None; def.columns.len()];
        for (_, chunk) in self.table.rows().base().iter() {
            for (column, summary) in columns.iter_mut().enumerate() {
                merge_stats(summary, chunk.stats(), column);
            }
        }
        let mut columns: Vec<_> = columns.into_iter().map(Option::unwrap_or_default).collect();
        if !delta_is_empty {
            // Rows of the delta may lie outside of the chunks' bounds.
            columns.iter_mut().for_each(|column| *column = ColumnSummary::default());
        }
        for (summary, column) in columns.iter_mut().zip(&def.columns) {
            if column.not_null {
                summary.null_count = Some(0);
            }
        }
        TableSummary { rows: self.row_count(), exact: delta_is_empty, columns }
    }

    /// Cuts the table into at most `count` parts of about equal numbers of chunk rows, in key order.
    ///
    /// # Panics
    /// Never: the first piece opens a part.
    #[must_use]
    pub fn partition(&self, count: usize) -> Vec<ScanPart> {
        let pieces = self.pieces();
        let total: usize = pieces.iter().map(piece_weight).sum();
        let target = total.div_ceil(count.max(1)).max(1);
        let mut parts: Vec<ScanPart> = Vec::new();
        let mut weight = target;
        for piece in pieces {
            if weight >= target && parts.len() < count.max(1) {
                parts.push(ScanPart { pieces: Vec::new() });
                weight = 0;
            }
            weight += piece_weight(&piece);
            parts.last_mut().expect("the first piece opens a part").pieces.push(piece);
        }
        parts
    }

    fn pieces(&self) -> Vec<Piece> {
        let base = self.table.rows().base();
        let chunks: Vec<_> = base.iter().map(|(key, chunk)| (key.clone(), Arc::clone(chunk))).collect();
        if chunks.is_empty() {
            return vec![Piece { chunk: None, range: KeyRange::all() }];
        }
        let starts: Vec<_> = chunks.iter().map(|(key, _)| key.clone()).collect();
        chunks
            .into_iter()
            .enumerate()
            .map(|(index, (first, chunk))| {
                let lower = if index == 0 { Bound::Unbounded } else { Bound::Included(first) };
                let upper =
                    starts.get(index + 1).map_or(Bound::Unbounded, |next| Bound::Excluded(next.clone()));
                Piece { chunk: Some(chunk), range: KeyRange { lower, upper } }
            })
            .collect()
    }

    /// Scans a part: the columns at these indexes of the definition, in this order. A chunk for which
    /// `may_match` is false is passed over; its changed rows are not.
    ///
    /// # Panics
    /// If the definition has no such column.
    pub fn scan<P: Fn(&ChunkStats) -> bool>(
        &self,
        part: ScanPart,
        projection: &[usize],
        may_match: P,
    ) -> BatchScan<P> {
        let schema = Arc::new(self.schema().project(projection).expect("the projection names columns"));
        BatchScan {
            table: Arc::clone(&self.table),
            schema,
            projection: projection.into(),
            may_match,
            pieces: part.pieces.into(),
            chunk: None,
            delta_rows: VecDeque::new(),
            counters: ScanCounters::default(),
        }
    }
}

fn piece_weight(piece: &Piece) -> usize {
    piece.chunk.as_ref().map_or(1, |chunk| chunk.rows())
}

fn merge_stats(summary: &mut Option<ColumnSummary>, stats: &ChunkStats, column: usize) {
    let Some(stats) = stats.columns.get(column) else {
        *summary = Some(ColumnSummary::default());
        return;
    };
    let of_chunk =
        ColumnSummary { min: stats.min.clone(), max: stats.max.clone(), null_count: Some(stats.null_count) };
    *summary = Some(match summary.take() {
        None => of_chunk,
        Some(sum) => ColumnSummary {
            min: pick(sum.min, of_chunk.min, |a, b| a <= b),
            max: pick(sum.max, of_chunk.max, |a, b| a >= b),
            null_count: sum.null_count.zip(of_chunk.null_count).map(|(a, b)| a + b),
        },
    });
}

fn pick(a: Option<Value>, b: Option<Value>, keep: impl Fn(&Value, &Value) -> bool) -> Option<Value> {
    let (a, b) = (a?, b?);
    Some(if keep(&a, &b) { a } else { b })
}

/// A running scan: an iterator over batches.
pub struct BatchScan<P> {
    table: Arc<Table>,
    schema: SchemaRef,
    projection: Box<[usize]>,
    may_match: P,
    pieces: VecDeque<Piece>,
    chunk: Option<ChunkScan>,
    /// Changed rows that wait to be given out.
    delta_rows: VecDeque<Row>,
    counters: ScanCounters,
}

/// The rest of a chunk.
struct ChunkScan {
    columns: Vec<ArrayRef>,
    rows: usize,
    /// Which rows have no entry in the delta; `None`: none has.
    unchanged: Option<BooleanBuffer>,
    next: usize,
}

impl<P: Fn(&ChunkStats) -> bool> BatchScan<P> {
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
    fn open_piece(&mut self) -> bool {
        let Some(piece) = self.pieces.pop_front() else { return false };
        let delta = self.table.rows().delta();
        let matches = piece.chunk.as_ref().is_some_and(|chunk| (self.may_match)(chunk.stats()));
        let mut changed = ChangedRows::new(piece.chunk.as_deref());
        if !delta.is_empty() {
            changed.collect(delta, &piece.range, &mut self.delta_rows);
        }
        self.counters.delta_rows += changed.rows;
        match &piece.chunk {
            Some(chunk) if matches => {
                self.counters.chunks_read += 1;
                self.chunk = Some(ChunkScan {
                    columns: self.chunk_columns(chunk),
                    rows: chunk.rows(),
                    unchanged: changed.finish(),
                    next: 0,
                });
            }
            Some(_) => self.counters.chunks_pruned += 1,
            None => {}
        }
        true
    }

    fn chunk_columns(&self, chunk: &Chunk) -> Vec<ArrayRef> {
        let of_column = |&column: &usize| match chunk.column(column) {
            Some(array) => Arc::clone(array),
            None => {
                let ty = self.table.def().columns[column].ty;
                constant_column(ty, &self.table.missing()[column], chunk.rows())
            }
        };
        self.projection.iter().map(of_column).collect()
    }

    fn next_of_chunk(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let scan = self.chunk.as_mut()?;
        if scan.next == scan.rows {
            self.chunk = None;
            return None;
        }
        let length = SCAN_BATCH_ROWS.min(scan.rows - scan.next);
        let columns = scan.columns.iter().map(|column| column.slice(scan.next, length)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let batch = match &scan.unchanged {
            None => batch,
            Some(unchanged) => batch.and_then(|batch| {
                let keep = unchanged.slice(scan.next, length);
                if keep.count_set_bits() == length {
                    return Ok(batch);
                }
                filter_record_batch(&batch, &BooleanArray::new(keep, None))
            }),
        };
        scan.next += length;
        Some(batch)
    }

    fn next_of_delta(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if self.delta_rows.is_empty() {
            return None;
        }
        let length = SCAN_BATCH_ROWS.min(self.delta_rows.len());
        let rows: Vec<Row> = self.delta_rows.drain(..length).collect();
        Some(self.batch_of_rows(&rows))
    }

    fn batch_of_rows(&self, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
        let def = self.table.def();
        let missing = self.table.missing();
        let columns = self
            .projection
            .iter()
            .map(|&column| {
                let mut builder = ColumnBuilder::new(def.columns[column].ty, rows.len());
                for row in rows {
                    builder.push(row.get(def.layout(), column).unwrap_or_else(|| missing[column].borrow()));
                }
                builder.finish()
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

impl<P: Fn(&ChunkStats) -> bool> Iterator for BatchScan<P> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.next_of_chunk() {
                if batch.as_ref().is_ok_and(|batch| batch.num_rows() == 0) {
                    continue;
                }
                return Some(batch);
            }
            // Changed rows of several chunks are gathered into one batch.
            let is_last = self.pieces.is_empty();
            if (self.delta_rows.len() >= SCAN_BATCH_ROWS || is_last)
                && let Some(batch) = self.next_of_delta()
            {
                return Some(batch);
            }
            if !self.open_piece() {
                return None;
            }
        }
    }
}

/// Marks the rows of a chunk that the delta has entries for.
struct ChangedRows<'a> {
    chunk: Option<&'a Chunk>,
    /// Bit set: unchanged. Made at the first changed row.
    unchanged: Option<Vec<u64>>,
    rows: usize,
}

impl<'a> ChangedRows<'a> {
    fn new(chunk: Option<&'a Chunk>) -> Self {
        Self { chunk, unchanged: None, rows: 0 }
    }

    fn collect(&mut self, delta: &Delta, range: &KeyRange, rows: &mut VecDeque<Row>) {
        for (key, entry) in delta.iter_range(range.clone()) {
            if let Some(row) = entry.row() {
                rows.push_back(row.clone());
                self.rows += 1;
            }
            let Some(chunk) = self.chunk else { continue };
            let index = match (entry.change(), entry.position().index()) {
                (crate::delta::Change::Inserted, _) => continue,
                (_, Some(index)) => index,
                (_, None) => chunk
                    .keys()
                    .search(key.as_slice())
                    .expect("a key that was replaced or deleted is in the base"),
            };
            let words = self.unchanged.get_or_insert_with(|| vec![u64::MAX; chunk.rows().div_ceil(64)]);
            words[index / 64] &= !(1 << (index % 64));
        }
    }

    fn finish(self) -> Option<BooleanBuffer> {
        let chunk = self.chunk?;
        let words = self.unchanged?;
        Some(BooleanBuffer::new(arrow::buffer::Buffer::from_vec(words), 0, chunk.rows()))
    }
}
