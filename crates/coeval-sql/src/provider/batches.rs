// SPDX-License-Identifier: Apache-2.0
//! The batches of one partition of a scan: read, filtered, gathered to full size.

use super::coded_columns::CodedColumns;
use super::join_keys::ScanKeys;
use super::prune::{Pruner, SourceColumn};
use super::row_filter::Filter;
use super::text_filter::TextFilter;
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{BatchCoalescer, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use coeval_store::{BatchScan, ChunkStats, SCAN_BATCH_ROWS, ScanPart, TableView};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};
use std::collections::VecDeque;
use std::sync::Arc;

/// A filter that leaves fewer rows than one in this many is applied before the next one is evaluated.
const COMPACT_BELOW: usize = 5;

/// After this many batches filters that only save work are put in the order of what they leave.
const TRIAL_BATCHES: usize = 4;

/// What a scan counts, shown by EXPLAIN ANALYZE.
pub(super) struct ScanMetrics {
    pub(super) baseline: BaselineMetrics,
    chunks_read: Count,
    chunks_pruned: Count,
    delta_rows: Count,
    rows_scanned: Count,
    /// Rows that joins do not look for, if their keys are noted.
    rows_without_partner: Option<Count>,
}

impl ScanMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            chunks_read: count("chunks_read"),
            chunks_pruned: count("chunks_pruned"),
            delta_rows: count("delta_rows"),
            rows_scanned: count("rows_scanned"),
            rows_without_partner: None,
        }
    }

    /// Those of a scan that asks for keys of joins.
    pub(super) fn with_join_keys(self, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let rows = MetricBuilder::new(metrics).counter("rows_without_partner", partition);
        Self { rows_without_partner: Some(rows), ..self }
    }

    /// So many rows were left before a filter was asked, and so many behind it.
    fn note(&self, filter: &Filter, asked: usize, passed: usize) {
        if let Some(rows) = self.rows_without_partner.as_ref().filter(|_| filter.is_of_join_keys()) {
            rows.add(asked - passed);
        }
    }
}

/// What the partitions of one scan share.
pub(super) struct ScanTask {
    pub(super) view: TableView,
    pub(super) columns: Arc<[SourceColumn]>,
    /// What is read, with the marks of types that Arrow does not tell apart: filters go by them.
    pub(super) source: SchemaRef,
    /// How many of the columns go out; those behind them are only for filters.
    pub(super) output: SchemaRef,
    /// The places of the texts that go out as codes.
    pub(super) coded: Arc<[usize]>,
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) join_keys: Vec<ScanKeys>,
    pub(super) limit: Option<usize>,
}

type MayMatch = Box<dyn Fn(&ChunkStats) -> bool + Send>;

/// The batches of one part.
pub(super) struct Batches {
    scan: BatchScan<MayMatch>,
    filters: Vec<Filter>,
    source: SchemaRef,
    output: SchemaRef,
    codes: CodedColumns,
    coalescer: BatchCoalescer,
    /// What was gathered before others came, which have codes of other texts.
    gathered: VecDeque<RecordBatch>,
    rows_left: usize,
    batches_read: usize,
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
        let scan = task.view.scan(part, &indexes, may_match).with_codes(&task.coded);
        let (mut filters, mut others) = (Vec::new(), Vec::new());
        for filter in fixed {
            match TextFilter::of(&filter, &task.source, &task.coded)? {
                Some(of_texts) => filters.push(Filter::of_texts(of_texts)),
                None => others.push(filter),
            }
        }
        filters.extend(Filter::required(others, &task.source));
        let several = task.join_keys.iter().filter(|keys| !keys.are_instead_of_any(&dynamic));
        filters.extend(several.flat_map(Filter::of_join_keys));
        filters.extend(dynamic.into_iter().map(|filter| {
            let keys = task.join_keys.iter().find(|keys| keys.are_instead_of(&filter)).cloned();
            Filter::optional(filter, keys)
        }));
        let codes = CodedColumns::new(&task.output, &task.coded);
        let coalescer = BatchCoalescer::new(Arc::clone(codes.gathered()), SCAN_BATCH_ROWS)
            .with_biggest_coalesce_batch_size(Some(SCAN_BATCH_ROWS / 2));
        Ok(Self {
            scan,
            filters,
            source: task.source,
            output: task.output,
            codes,
            coalescer,
            gathered: VecDeque::new(),
            rows_left: task.limit.unwrap_or(usize::MAX),
            batches_read: 0,
            metrics,
            done: false,
        })
    }

    fn note_counters(&mut self) {
        let now = self.scan.counters();
        let metrics = &self.metrics;
        for (metric, value) in [
            (&metrics.chunks_read, now.chunks_read),
            (&metrics.chunks_pruned, now.chunks_pruned),
            (&metrics.delta_rows, now.delta_rows),
        ] {
            metric.add(value - metric.value().min(value));
        }
    }

    /// Reads on until there is a batch to give.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.gathered.pop_front() {
                return Ok(Some(self.limited(batch)));
            }
            if let Some(batch) = self.coalescer.next_completed_batch() {
                let batch = self.codes.coded(batch)?;
                return Ok(Some(self.limited(batch)));
            }
            if self.done || self.rows_left == 0 {
                return Ok(None);
            }
            match self.scan.next() {
                None => {
                    self.done = true;
                    self.coalescer.finish_buffered_batch()?;
                }
                Some(batch) => {
                    let batch = batch.map_err(SqlError::from)?;
                    self.metrics.rows_scanned.add(batch.num_rows());
                    if self.filters.is_empty() && self.coalescer.is_empty() {
                        let batch = self.outgoing(&batch)?;
                        return Ok(Some(self.limited(batch)));
                    }
                    let columns = batch.columns().to_vec();
                    self.push_filtered(with_schema(&self.source, columns, batch.num_rows())?)?;
                }
            }
        }
    }

    fn limited(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = batch.num_rows().min(self.rows_left);
        self.rows_left -= rows;
        if rows < batch.num_rows() { batch.slice(0, rows) } else { batch }
    }

    /// The columns that go out.
    fn outgoing(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns()[..self.output.fields().len()].to_vec();
        with_schema(&self.output, columns, batch.num_rows())
    }

    /// Puts the rows that pass all filters into the coalescer.
    fn push_filtered(&mut self, mut batch: RecordBatch) -> Result<()> {
        // The rows that have passed so far; all if it is not there.
        let mut left: Option<BooleanArray> = None;
        let count = self.filters.len();
        let (mut index, mut deferred) = (0, 0);
        if self.batches_read == TRIAL_BATCHES {
            self.filters.sort_by_key(Filter::rank);
        }
        self.batches_read += 1;
        while let Some(filter) = self.filters.get_mut(index) {
            if !filter.is_worth_it() {
                index += 1;
                continue;
            }
            filter.prepare(&self.source, batch.num_rows());
            let asked = left.as_ref().map_or(batch.num_rows(), BooleanArray::true_count);
            if let Some(passing) = filter.passing(&batch, left.as_ref().map(BooleanArray::values))? {
                left = Some(BooleanArray::new(passing, None));
            }
            if let Some(rest) = filter.rest().cloned()
                && left.as_ref().is_none_or(BooleanArray::has_true)
            {
                // Few rows are left: the filter is spared the others.
                if let Some(mask) = &left
                    && mask.true_count() * COMPACT_BELOW < mask.len()
                {
                    batch = filter_record_batch(&batch, mask)?;
                    left = None;
                }
                let mut answers = rest.evaluate(&batch);
                // By a row, maybe, that the filters before leave out: `b <> 0 AND 10 / b > 5`.
                if answers.is_err()
                    && let Some(mask) = left.take()
                {
                    batch = filter_record_batch(&batch, &mask)?;
                    answers = rest.evaluate(&batch);
                }
                // Or by one that is left out further up, which only one that saves work comes by: all rows are let through.
                if answers.is_err() && filter.is_optional() {
                    answers = Ok(ColumnarValue::Scalar(true.into()));
                }
                // Or by one that those behind leave out.
                if answers.is_err() && index + deferred + 1 < count {
                    deferred += 1;
                    self.filters[index..].rotate_left(1);
                    continue;
                }
                left = match answers? {
                    ColumnarValue::Scalar(value) if is_true(&value) => left,
                    ColumnarValue::Scalar(_) => {
                        Some(BooleanArray::new(BooleanBuffer::new_unset(batch.num_rows()), None))
                    }
                    ColumnarValue::Array(array) => {
                        let mask = plain_mask(as_boolean_array(&array)?);
                        Some(match &left {
                            Some(before) => arrow::compute::and(before, &mask)?,
                            None => mask,
                        })
                    }
                };
            }
            (index, deferred) = (index + 1, 0);
            let passed = left.as_ref().map_or(batch.num_rows(), BooleanArray::true_count);
            filter.note(asked, passed);
            self.metrics.note(filter, asked, passed);
            if passed == 0 {
                return Ok(());
            }
        }
        self.push(&batch, left)
    }

    /// Puts the rows that are left, or all, into the coalescer.
    fn push(&mut self, batch: &RecordBatch, left: Option<BooleanArray>) -> Result<()> {
        let outgoing = self.outgoing(batch)?;
        if self.codes.are_of_others(&outgoing) {
            self.coalescer.finish_buffered_batch()?;
            while let Some(gathered) = self.coalescer.next_completed_batch() {
                self.gathered.push_back(self.codes.coded(gathered)?);
            }
            self.codes.note_texts_of(&outgoing);
        }
        let outgoing = self.codes.numbered(outgoing)?;
        match left {
            Some(mask) if mask.true_count() < mask.len() => {
                self.coalescer.push_batch_with_filter(outgoing, &mask)?;
            }
            Some(_) | None => self.coalescer.push_batch(outgoing)?,
        }
        Ok(())
    }
}

/// The columns under the fields of this schema.
pub(super) fn with_schema(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Whether a filter's answer for all rows is yes.
pub(super) fn is_true(value: &datafusion::common::ScalarValue) -> bool {
    matches!(value, datafusion::common::ScalarValue::Boolean(Some(true)))
}

/// NULL counts as false.
pub(super) fn plain_mask(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let time = self.metrics.baseline.elapsed_compute().clone();
        let timer = time.timer();
        let outcome = self.read();
        timer.done();
        self.note_counters();
        let item = outcome.transpose();
        if let Some(Ok(batch)) = &item {
            self.metrics.baseline.record_output(batch.num_rows());
        }
        item
    }
}
