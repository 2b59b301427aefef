// SPDX-License-Identifier: Apache-2.0
//! The batches of one partition of a scan: read, filtered, gathered to full size.
//!
//! Columns that no filter reads come late: no values are made for rows that are left out.
//!
//! Where rows of a chunk are gone or there are new ones, filters are asked of the chunk's arrays as they are, with a mask, and of all its
//! new rows at once. Rows that were updated are mostly among the chunk's, with their new values. What is left of both is put together in the
//! order of keys; if nobody can tell the order, new rows are gathered in batches of their own, which spares the others a copy.

use super::gathered::GatheredRows;
use super::prune::{Pruner, SourceColumn};
use super::row_filter::Filter;
use super::row_filters::{Passing, RowFilters};
use super::scan_keys::ScanKeys;
use super::scan_metrics::ScanMetrics;
use super::steps::{self, Step};
use super::text_filter::TextFilter;
use crate::error::SqlError;
use arrow::array::{ArrayRef, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use coeval_store::{BatchScan, ChangedRows, ChunkStats, SCAN_BATCH_ROWS, ScanPart, ScanWindow, TableView};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::PhysicalExpr;
use futures::stream::Stream;
use std::sync::Arc;

/// In which order the rows of a part come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// In that of keys.
    OfKeys,
    /// In any: the plan promises none, and rows that have changed may come behind others.
    Any,
}

/// What the partitions of one scan share.
pub(super) struct ScanTask {
    pub(super) view: TableView,
    pub(super) columns: Arc<[SourceColumn]>,
    /// What is read, with the marks of types that Arrow does not tell apart, codes and 64-bit integers: filters go by them.
    pub(super) source: SchemaRef,
    /// How many of the columns go out; those behind them are only for filters.
    pub(super) output: SchemaRef,
    /// The places of the texts that come as codes, and go out so.
    pub(super) coded: Arc<[usize]>,
    /// The places of the decimals that are read as 64-bit integers, those behind the output included.
    pub(super) narrow: Arc<[usize]>,
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) join_keys: Vec<ScanKeys>,
    pub(super) limit: Option<usize>,
    pub(super) order: RowOrder,
}

impl ScanTask {
    /// The places of the columns that no filter reads; none if there is no filter.
    fn late(&self) -> Vec<usize> {
        if self.filters.is_empty() && self.join_keys.is_empty() {
            return Vec::new();
        }
        let of_filters = self.filters.iter().flat_map(collect_columns).map(|column| column.index());
        let of_joins = self.join_keys.iter().flat_map(|keys| keys.columns().iter().copied());
        let read: Vec<usize> = of_filters.chain(of_joins).collect();
        (0..self.columns.len()).filter(|place| !read.contains(place)).collect()
    }
}

type MayMatch = Box<dyn Fn(&ChunkStats) -> bool + Send>;

/// The batches of one part.
pub(super) struct Batches {
    scan: BatchScan<MayMatch>,
    filters: RowFilters,
    source: SchemaRef,
    output: SchemaRef,
    gathered: GatheredRows,
    /// Of new rows of chunks, if they may come in any order. Between full batches of a chunk a few more rows would have all
    /// of them copied once more.
    new_rows: Option<GatheredRows>,
    /// Which of the scan's pieces was read last of which rows have changed, and which of its new rows pass.
    new_passing: Option<(usize, BooleanBuffer)>,
    rows_left: usize,
    metrics: ScanMetrics,
    done: bool,
}

impl Batches {
    pub(super) fn new(task: ScanTask, part: ScanPart, metrics: ScanMetrics) -> Result<Self> {
        let (dynamic, fixed): (Vec<_>, Vec<_>) = task
            .filters
            .iter()
            .cloned()
            .partition(|filter| DynamicFilterTracking::classify(filter).contains_dynamic_filter());
        let fixed_pruner = Pruner::of_all(&fixed, &task.columns);
        let moving = dynamic.clone();
        let columns = Arc::clone(&task.columns);
        let join_keys = task.join_keys.clone();
        let may_match: MayMatch = Box::new(move |stats| {
            fixed_pruner.may_match(stats)
                && moving.iter().all(|filter| match snapshot_physical_expr(Arc::clone(filter)) {
                    Ok(now) => Pruner::of_all([&now], &columns).may_match(stats),
                    Err(_) => true,
                })
                && join_keys.iter().all(|keys| keys.may_match(stats, &columns))
        });
        let indexes: Vec<usize> = task.columns.iter().map(|column| column.index).collect();
        let scan = task.view.scan(part, &indexes, may_match);
        let scan = scan.with_codes(&task.coded).with_narrow(&task.narrow).with_late(&task.late());
        let (mut filters, mut others) = (Vec::new(), Vec::new());
        for filter in fixed {
            match TextFilter::of(&filter, &task.source, &task.coded)? {
                Some(of_texts) => filters.push(Filter::of_texts(of_texts)),
                None => others.push(filter),
            }
        }
        filters.extend(Filter::required(others, &task.source));
        filters.extend(Filter::that_save_work(dynamic, &task.join_keys));
        let width = task.output.fields().len();
        let going_out: Vec<usize> = task.coded.iter().copied().filter(|column| *column < width).collect();
        let gathered = || GatheredRows::new(&task.output, &going_out);
        Ok(Self {
            scan,
            filters: RowFilters::new(filters, task.source.clone()),
            gathered: gathered(),
            new_rows: (task.order == RowOrder::Any).then(gathered),
            new_passing: None,
            source: task.source,
            output: task.output,
            rows_left: task.limit.unwrap_or(usize::MAX),
            metrics,
            done: false,
        })
    }

    /// Its batches. Others get their turn while filters leave no rows.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        steps::batches(self, Self::step)
    }

    /// Goes on by a window.
    fn step(&mut self) -> Result<Step> {
        let time = self.metrics.baseline.elapsed_compute().clone();
        let timer = time.timer();
        let step = self.read();
        timer.done();
        self.metrics.note_read(self.scan.counters());
        if let Ok(Step::Out(batch)) = &step {
            self.metrics.baseline.record_output(batch.num_rows());
        }
        step
    }

    /// Gives a batch that is complete, or reads the next window.
    fn read(&mut self) -> Result<Step> {
        if self.rows_left == 0 {
            return Ok(Step::Done);
        }
        if let Some(batch) = self.next_gathered()? {
            return Ok(Step::Out(self.limited(batch)));
        }
        if self.done {
            return Ok(Step::Done);
        }
        let Some(window) = self.scan.next_window().map_err(SqlError::from)? else {
            self.done = true;
            self.gathered.finish()?;
            if let Some(new_rows) = &mut self.new_rows {
                new_rows.finish()?;
            }
            return Ok(Step::Read);
        };
        self.metrics.rows_scanned.add(window.rows());
        match window {
            ScanWindow::Plain(rows) if self.filters.is_empty() && self.gathered.is_empty() => {
                let batch = outgoing(&self.output, &rows.into_batch().map_err(SqlError::from)?)?;
                return Ok(Step::Out(self.limited(batch)));
            }
            ScanWindow::Plain(rows) => {
                let batch = self.readied(rows.batch())?;
                let without_partner = &self.metrics.without_partner;
                if let Some(passing) = self.filters.passing(batch, None, without_partner)? {
                    push(&mut self.gathered, &self.output, &passing.with_late(&rows)?)?;
                }
            }
            ScanWindow::Changed(changed) => self.push_changed(&changed)?,
        }
        Ok(Step::Read)
    }

    /// The next batch that is complete.
    fn next_gathered(&mut self) -> Result<Option<RecordBatch>> {
        match (self.gathered.next_batch()?, &mut self.new_rows) {
            (None, Some(new_rows)) => new_rows.next_batch(),
            (batch, _) => Ok(batch),
        }
    }

    /// Puts what passes of changed rows where they are gathered.
    fn push_changed(&mut self, changed: &ChangedRows) -> Result<()> {
        let new = self.new_passing(changed)?;
        let old = self.readied(&changed.old_rows().map_err(SqlError::from)?)?;
        let unchanged = changed.unchanged().clone();
        let old = self.filters.passing(old, Some(unchanged), &self.metrics.without_partner)?;
        let new_count = new.count_set_bits();
        match old {
            // The new rows, if any of them pass, have gone where their order does not matter.
            Some(old) if self.new_rows.is_some() || new_count == 0 => {
                push(&mut self.gathered, &self.output, &old)
            }
            None if self.new_rows.is_some() || new_count == 0 => Ok(()),
            old => {
                let none = || BooleanBuffer::new_unset(changed.unchanged().len());
                let rows = old.as_ref().map_or(0, Passing::rows) + new_count;
                let old = old.map_or_else(none, |old| old.of_all());
                let picked =
                    changed.picked(self.output.fields().len(), &old, &new).map_err(SqlError::from)?;
                self.gathered.push(with_schema(&self.output, picked, rows)?, None)
            }
        }
    }

    /// Which of the new rows among these pass. Filters are asked of all new rows of a chunk at once; if they may come in any
    /// order, they are gathered then.
    fn new_passing(&mut self, changed: &ChangedRows) -> Result<BooleanBuffer> {
        let places = changed.new_places();
        if let Some((piece, passing)) = &self.new_passing
            && *piece == changed.piece()
        {
            return Ok(passing.slice(places.start, places.len()));
        }
        let all = changed.new_row_count();
        let mut passing = BooleanBufferBuilder::new(all);
        for start in (0..all).step_by(SCAN_BATCH_ROWS) {
            let count = SCAN_BATCH_ROWS.min(all - start);
            let rows = self.readied(&changed.new_rows(start..start + count).map_err(SqlError::from)?)?;
            match self.filters.passing(rows, None, &self.metrics.without_partner)? {
                Some(passed) => {
                    passing.append_buffer(&passed.of_all());
                    if let Some(new_rows) = &mut self.new_rows {
                        push(new_rows, &self.output, &passed)?;
                    }
                }
                None => passing.append_n(count, false),
            }
        }
        let passing = passing.finish();
        let here = passing.slice(places.start, places.len());
        self.new_passing = Some((changed.piece(), passing));
        Ok(here)
    }

    /// The batch with the marks of types that filters go by.
    fn readied(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        with_schema(&self.source, batch.columns().to_vec(), batch.num_rows())
    }

    fn limited(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = batch.num_rows().min(self.rows_left);
        self.rows_left -= rows;
        if rows < batch.num_rows() { batch.slice(0, rows) } else { batch }
    }
}

/// The columns that go out.
fn outgoing(output: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    with_schema(output, batch.columns()[..output.fields().len()].to_vec(), batch.num_rows())
}

/// Puts the rows that have passed among those that are gathered.
fn push(gathered: &mut GatheredRows, output: &SchemaRef, passing: &Passing) -> Result<()> {
    let rows = outgoing(output, passing.batch())?;
    gathered.push(rows, passing.mask().filter(|mask| passing.rows() < mask.len()))
}

/// The columns under the fields of this schema.
pub(super) fn with_schema(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

#[cfg(test)]
mod tests;
