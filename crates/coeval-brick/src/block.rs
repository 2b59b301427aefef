// SPDX-License-Identifier: Apache-2.0
//! A block: a fixed number of rows of a brick, column by column. The last block of a brick is the one that grows.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;
use parking_lot::Mutex;

use crate::column::{ColumnValues, StoredColumn, Values};
use crate::declaration::{Nulls, Storage};
use crate::fixed_buffer::FixedBufferWriter;
use crate::schema::BrickSchema;
use crate::statistics::ColumnStatistics;

/// The rows of a brick's first block. Bricks can be many and small; large ones have blocks of `BLOCK_ROWS_MAX` rows.
pub(crate) const BLOCK_ROWS_MIN: usize = 1 << 10;

/// The values of some rows: of a load in the order of their bricks, or of another block.
#[derive(Clone, Debug)]
pub(crate) struct RowValues {
    pub(crate) rows: usize,
    /// The packed offsets of the dimensions, if they take any bytes.
    pub(crate) bess: Option<ColumnValues>,
    /// One for each metric.
    pub(crate) columns: Vec<ColumnValues>,
}

/// The reading side of a block.
pub(crate) struct Block {
    /// What its rows came as.
    schema: Arc<BrickSchema>,
    capacity: usize,
    bess: Option<StoredColumn>,
    columns: Box<[StoredColumn]>,
    /// The rows that are published. The columns' own lengths are never behind it.
    rows: AtomicUsize,
    /// One for each metric, known once the block is full.
    statistics: OnceLock<Box<[ColumnStatistics]>>,
    /// What is known of each metric's first rows, as of the last look; empty before the first.
    ///
    /// # Locking
    /// A leaf lock, held while the rows since then are looked at. Its writer does not take it.
    so_far: Mutex<Vec<ColumnStatistics>>,
}

/// The writing side of a block; there is one.
pub(crate) struct BlockWriter {
    block: Arc<Block>,
    bess: Option<FixedBufferWriter>,
    columns: Vec<Option<FixedBufferWriter>>,
}

impl BlockWriter {
    /// An empty block for `capacity` rows.
    pub(crate) fn new(schema: &Arc<BrickSchema>, capacity: usize) -> Self {
        assert!(capacity > 0, "a block has room for a row");
        let (mut bess, mut bess_writer) = (None, None);
        if schema.layout().bess_bytes() > 0 {
            let (column, writer) =
                StoredColumn::new(Storage::Fixed(schema.layout().bess_bytes()), Nulls::Refused, capacity);
            (bess, bess_writer) = (Some(column), writer);
        }
        let metrics = schema
            .storages()
            .iter()
            .enumerate()
            .map(|(index, storage)| StoredColumn::new(*storage, schema.metric(index).nulls, capacity));
        let (columns, writers): (Vec<_>, Vec<_>) = metrics.unzip();
        let block = Block {
            schema: Arc::clone(schema),
            capacity,
            bess,
            columns: columns.into(),
            rows: AtomicUsize::new(0),
            statistics: OnceLock::new(),
            so_far: Mutex::default(),
        };
        Self { block: Arc::new(block), bess: bess_writer, columns: writers }
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// The rows that still fit.
    pub(crate) fn room(&self) -> usize {
        self.block.capacity - self.block.rows()
    }

    /// Appends the rows `from` of `source` and publishes them. A block that is full by that gets its statistics.
    ///
    /// # Panics
    ///
    /// If they do not fit, or have other columns.
    pub(crate) fn append(&mut self, source: &RowValues, from: Range<usize>) {
        let rows = self.block.rows();
        assert!(from.len() <= self.room(), "the rows fit into the block");
        assert!(from.end <= source.rows, "the rows are the source's");
        assert_eq!(source.columns.len(), self.columns.len(), "the rows have the block's columns");
        if let (Some(stored), Some(values)) = (&self.block.bess, &source.bess) {
            stored.append(&mut self.bess, rows, values, from.clone());
        }
        for ((stored, values), writer) in
            self.block.columns.iter().zip(&source.columns).zip(&mut self.columns)
        {
            stored.append(writer, rows, values, from.clone());
        }
        self.block.rows.store(rows + from.len(), Ordering::Release);
        if self.room() == 0 {
            self.close();
        }
    }

    /// Notes what is known of the rows, no other one following.
    pub(crate) fn close(&self) {
        let block = &self.block;
        block.statistics.get_or_init(|| block.compute_statistics(block.rows()));
    }
}

impl Block {
    /// What its rows came as.
    pub(crate) fn schema(&self) -> &Arc<BrickSchema> {
        &self.schema
    }

    /// The published rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Acquire)
    }

    /// The values of `rows`.
    ///
    /// # Panics
    ///
    /// If they are not all published.
    pub(crate) fn read(&self, rows: Range<usize>) -> RowValues {
        assert!(rows.end <= self.rows(), "only published rows are read");
        RowValues {
            rows: rows.len(),
            bess: self.bess.as_ref().map(|bess| bess.read(rows.clone())),
            columns: self.columns.iter().map(|column| column.read(rows.clone())).collect(),
        }
    }

    /// The values of `rows` as rows of `schema`.
    ///
    /// # Panics
    ///
    /// If they are not all published.
    pub(crate) fn read_as(&self, schema: &BrickSchema, rows: Range<usize>) -> RowValues {
        assert!(rows.end <= self.rows(), "only published rows are read");
        let metrics = 0..schema.storages().len();
        RowValues {
            rows: rows.len(),
            bess: self.bess.as_ref().map(|bess| bess.read(rows.clone())),
            columns: metrics.map(|metric| self.read_metric(schema, metric, rows.clone())).collect(),
        }
    }

    /// The values of one metric of `schema` in `rows`.
    ///
    /// # Panics
    ///
    /// If they are not all published.
    pub(crate) fn read_metric(
        &self,
        schema: &BrickSchema,
        metric: usize,
        rows: Range<usize>,
    ) -> ColumnValues {
        assert!(rows.end <= self.rows(), "only published rows are read");
        if self.schema.has_metric_of(schema, metric) {
            self.columns[metric].read(rows)
        } else {
            schema.missing(metric, rows.len())
        }
    }

    /// The packed offsets of `rows`, and the bytes of one; `None` if they take none.
    ///
    /// # Panics
    ///
    /// If they are not all published.
    pub(crate) fn read_bess(&self, rows: Range<usize>) -> Option<(usize, Buffer)> {
        assert!(rows.end <= self.rows(), "only published rows are read");
        match self.bess.as_ref()?.read(rows).values {
            Values::Bytes(width, bytes) => Some((width, bytes)),
            Values::Bits(_) => unreachable!("a bess has bytes"),
        }
    }

    /// What is known of a metric of `schema` in all rows, if no other row comes.
    pub(crate) fn statistics(&self, schema: &BrickSchema, metric: usize) -> Option<ColumnStatistics> {
        if self.schema.has_metric_of(schema, metric) {
            return self.statistics.get().map(|statistics| statistics[metric]);
        }
        Some(self.compute_metric_statistics(schema, metric, self.rows()))
    }

    /// What is known of a metric of `schema` in the first `rows` rows. Cost: a look at those that have come since the last
    /// call for as many or fewer.
    pub(crate) fn statistics_up_to(
        &self,
        schema: &BrickSchema,
        metric: usize,
        rows: usize,
    ) -> ColumnStatistics {
        if let Some(known) = self.statistics(schema, metric).filter(|known| known.rows == rows) {
            return known;
        }
        if !self.schema.has_metric_of(schema, metric) {
            return self.compute_metric_statistics(schema, metric, rows);
        }
        let mut so_far = self.so_far.lock();
        so_far.resize(self.columns.len(), ColumnStatistics::default());
        let known = so_far[metric];
        if known.rows > rows {
            drop(so_far);
            return self.compute_metric_statistics(schema, metric, rows);
        }
        let new = self.read_metric(schema, metric, known.rows..rows);
        let new = new.statistics(&schema.metric(metric).data_type, rows - known.rows);
        so_far[metric] = known.with(&new);
        so_far[metric]
    }

    /// What is known of a metric of `schema` in the first `rows` rows. Cost: a look at each.
    fn compute_metric_statistics(
        &self,
        schema: &BrickSchema,
        metric: usize,
        rows: usize,
    ) -> ColumnStatistics {
        let values = self.read_metric(schema, metric, 0..rows);
        values.statistics(&schema.metric(metric).data_type, rows)
    }

    fn compute_statistics(&self, rows: usize) -> Box<[ColumnStatistics]> {
        let of = |metric| self.compute_metric_statistics(&self.schema, metric, rows);
        (0..self.columns.len()).map(of).collect()
    }

    /// The bytes of `rows` rows' values.
    pub(crate) fn value_bytes(&self, rows: usize) -> usize {
        let columns = self.columns.iter().chain(&self.bess);
        columns.map(|column| column.bytes_for(rows)).sum()
    }

    /// The bytes of values, NULLs and statistics by capacity.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let nulls: usize = self.columns.iter().map(StoredColumn::null_bytes).sum();
        let statistics =
            self.statistics.get().map_or(0, |statistics| size_of_val::<[ColumnStatistics]>(statistics));
        let statistics = statistics + size_of_val::<[ColumnStatistics]>(&self.so_far.lock());
        size_of::<Self>() + self.value_bytes(self.capacity) + nulls + statistics
    }
}
