// SPDX-License-Identifier: Apache-2.0
//! Table views: one table of one snapshot, to be scanned column-wise.
//!
//! A scan gives the rows in key order: each chunk's rows as slices of its arrays, or arrays of integers that it has in few bytes, merged
//! with the delta's entries of that chunk's key range, then the rows behind the last chunk. It is TiQuE's anti-join as a merge of
//! two sorted sequences. Rows among which there is no changed key cost nothing beyond that, nor do updated ones if no column
//! that is read has changed; new numbers, bits and codes of texts are put into copies of such slices (`pieces/patch.rs`). Where rows are
//! gone or there are others, a scan that leaves out rows is given both sides apart, with a mask of the chunk's rows (`window.rs`).

mod codes;
mod late;
mod merge;
mod sample;
mod scan;
mod window;

pub use codes::coded_text_type;
pub use sample::TableSample;
pub use scan::{BatchScan, ScanCounters};
pub use window::{ChangedRows, PlainRows, ScanWindow};

use crate::catalog::TableDef;
use crate::chunk_stats::ChunkStats;
use crate::error::StoreError;
use crate::key::Key;
use crate::narrow_decimals::narrow_decimal_type;
use crate::pieces::Piece;
use crate::table::{RowRef, Table};
use crate::table_summary::TableSummary;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

/// Rows in a batch of a scan: what DataFusion's operators are tuned for.
pub const SCAN_BATCH_ROWS: usize = 8_192;

/// One table of one snapshot. Owned, cheap to clone, and unchanging.
#[derive(Clone, Debug)]
pub struct TableView {
    table: Arc<Table>,
}

/// Pieces of a table's key range: chunks with the changes that belong to them.
#[derive(Clone, Debug)]
pub struct ScanPart {
    pieces: Arc<[Piece]>,
    /// Which of them, in key order.
    numbers: Vec<usize>,
}

impl ScanPart {
    /// Rows in the part's chunks.
    #[must_use]
    pub fn base_rows(&self) -> usize {
        let chunks = self.numbers.iter().filter_map(|number| self.pieces[*number].chunk());
        chunks.map(|chunk| chunk.rows()).sum()
    }
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
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the chunk that would hold it is damaged.
    pub fn get(&self, key: &Key) -> Result<Option<RowRef<'_>>, StoreError> {
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

    /// Rows, and bounds and NULLs of each column, from what is known of the chunks. With a delta the bounds are
    /// estimates, and only NOT NULL columns have a NULL count. Reads no rows, and is kept with the version.
    #[must_use]
    pub fn summary(&self) -> &Arc<TableSummary> {
        self.table.summary()
    }

    /// Whether most rows have one of few different texts in this column, as far as the files of chunks tell without being read.
    #[must_use]
    pub fn has_few_texts(&self, column: usize) -> bool {
        let chunks = self.table.pieces().iter().filter_map(Piece::chunk);
        let few = chunks.filter(|chunk| chunk.has_few_texts(column));
        let rows: u64 = few.map(|chunk| chunk.rows() as u64).sum();
        rows > 0 && rows * 2 >= self.row_count()
    }

    /// Whether this is a column of decimals of few digits that most rows have in a file, where they are integers: then it pays to have scans
    /// give them [so](BatchScan::with_narrow). Of rows that are in memory alone integers are made anew for each scan.
    #[must_use]
    pub fn has_narrow_decimals(&self, column: usize) -> bool {
        if narrow_decimal_type(&self.def().columns[column].ty.arrow()).is_none() {
            return false;
        }
        let chunks = self.table.pieces().iter().filter_map(Piece::chunk);
        let with_files = chunks.filter(|chunk| chunk.segment().is_some());
        let rows: u64 = with_files.map(|chunk| chunk.rows() as u64).sum();
        rows > 0 && rows * 2 >= self.row_count()
    }

    /// Cuts the table into at most `count` parts of about equal numbers of rows, one behind the other in key order.
    #[must_use]
    pub fn partition(&self, count: usize) -> Vec<ScanPart> {
        let pieces = self.table.pieces();
        let total: usize = pieces.iter().map(Piece::weight).sum();
        let target = total.div_ceil(count.max(1)).max(1);
        let mut parts = Vec::new();
        let (mut start, mut weight) = (0, 0);
        for (index, piece) in pieces.iter().enumerate() {
            weight += piece.weight();
            let is_last = index + 1 == pieces.len();
            if is_last || (weight >= target && parts.len() + 1 < count) {
                parts.push(ScanPart { pieces: Arc::clone(pieces), numbers: (start..=index).collect() });
                (start, weight) = (index + 1, 0);
            }
        }
        if parts.is_empty() {
            parts.push(ScanPart { pieces: Arc::clone(pieces), numbers: Vec::new() });
        }
        parts
    }

    /// Deals the table out to at most `count` parts of about equal numbers of rows, piece by piece, each of which is in key order. So each
    /// has its share of rows that lie together, as those of a month do if they are what a scan is left with.
    #[must_use]
    pub fn dealt(&self, count: usize) -> Vec<ScanPart> {
        let pieces = self.table.pieces();
        let count = count.clamp(1, pieces.len().max(1));
        let mut parts = vec![ScanPart { pieces: Arc::clone(pieces), numbers: Vec::new() }; count];
        let mut weights = vec![0; count];
        for (number, piece) in pieces.iter().enumerate() {
            let lightest = (0..count).min_by_key(|part| weights[*part]).unwrap_or(0);
            parts[lightest].numbers.push(number);
            weights[lightest] += piece.weight().max(1);
        }
        parts
    }

    /// Scans a part: the columns at these indexes of the definition, in this order, the rows in key order. A
    /// chunk for which `may_match` is false is passed over. Its new rows are if it is false for what is known of them, which are bounds
    /// and NULLs of the columns that are read: it is to ask of these alone.
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
        BatchScan::new(Arc::clone(&self.table), schema, projection, part, may_match)
    }
}

#[cfg(test)]
mod tests;
