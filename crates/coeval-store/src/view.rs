// SPDX-License-Identifier: Apache-2.0
//! Table views: one table of one snapshot, to be scanned column-wise.
//!
//! A scan gives the rows in key order: each chunk's rows as slices of its arrays, merged with the delta's
//! entries of that chunk's key range, then the rows behind the last chunk. It is TiQuE's anti-join as a merge of
//! two sorted sequences. A chunk whose range has no changed key costs nothing beyond its slices.

mod merge;
mod sample;
mod scan;

pub use sample::TableSample;
pub use scan::{BatchScan, ScanCounters};

use crate::catalog::TableDef;
use crate::chunk_stats::ChunkStats;
use crate::error::StoreError;
use crate::key::Key;
use crate::pieces::Piece;
use crate::table::{RowRef, Table};
use crate::value::Value;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::ops::Range;
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
    /// The least value; of the base alone unless the summary is `exact`.
    pub min: Option<Value>,
    /// The greatest value; of the base alone unless the summary is `exact`.
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
    pieces: Arc<[Piece]>,
    range: Range<usize>,
}

impl ScanPart {
    /// Rows in the part's chunks.
    #[must_use]
    pub fn base_rows(&self) -> usize {
        let chunks = self.pieces[self.range.clone()].iter().filter_map(Piece::chunk);
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
    /// estimates, and only NOT NULL columns have a NULL count. Reads no rows.
    #[must_use]
    pub fn summary(&self) -> TableSummary {
        let def = self.def();
        let exact = self.table.rows().delta().is_empty();
        let mut columns: Vec<Option<ColumnSummary>> = vec![None; def.columns.len()];
        for (_, chunk) in self.table.rows().base().iter() {
            for (column, summary) in columns.iter_mut().enumerate() {
                merge_stats(summary, chunk.stats(), column);
            }
        }
        let mut columns: Vec<_> = columns.into_iter().map(Option::unwrap_or_default).collect();
        for (summary, column) in columns.iter_mut().zip(&def.columns) {
            if column.not_null {
                summary.null_count = Some(0);
            } else if !exact {
                summary.null_count = None;
            }
        }
        TableSummary { rows: self.row_count(), exact, columns }
    }

    /// Cuts the table into at most `count` parts of about equal numbers of rows, in key order.
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
                parts.push(ScanPart { pieces: Arc::clone(pieces), range: start..index + 1 });
                (start, weight) = (index + 1, 0);
            }
        }
        if parts.is_empty() {
            parts.push(ScanPart { pieces: Arc::clone(pieces), range: 0..0 });
        }
        parts
    }

    /// Scans a part: the columns at these indexes of the definition, in this order, the rows in key order. A
    /// chunk for which `may_match` is false is passed over; its changed rows are not.
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

#[cfg(test)]
mod tests;
