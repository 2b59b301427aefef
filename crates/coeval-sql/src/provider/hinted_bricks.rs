// SPDX-License-Identifier: Apache-2.0
//! The rows of bricks that somebody above the scan may have use for.
//!
//! ```text
//!   brick, when it is its turn       passed over, if none of its rows can be asked for
//!   batch of its visible rows        filters are asked one after the other, of the rows that are left (`row_filters.rs`)
//!   rows that are left               gathered to batches of full size
//! ```
//! Before filters are asked only the columns that they read are made as SQL has them. Texts of others are looked up for the rows that are left.

use super::brick_hints::BrickHints;
use super::bricks::{BrickPart, BrickSource, as_declared};
use super::gathered::GatheredRows;
use super::row_filters::RowFilters;
use super::scan_metrics::WithoutPartner;
use super::steps::{self, Step};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::stream::Stream;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What all parts of a scan read.
pub(super) struct HintedScan {
    pub(super) source: BrickSource,
    /// What goes out, by position among the table's live columns.
    pub(super) projection: Arc<[usize]>,
    pub(super) output: SchemaRef,
    pub(super) hints: BrickHints,
    /// Filters are asked of so many rows at a time.
    pub(super) rows_max: usize,
}

/// The rows of one part.
pub(super) struct HintedRows {
    scan: HintedScan,
    /// The places of the columns of which something is asked.
    asked: BTreeSet<usize>,
    parts: std::vec::IntoIter<BrickPart>,
    /// What is left of the brick that is being read.
    reading: Option<Box<dyn Iterator<Item = RecordBatch> + Send>>,
    filters: RowFilters,
    gathered: GatheredRows,
    is_done: bool,
    passed_over: PassedOver,
    rows_scanned: Count,
    without_partner: WithoutPartner,
}

/// Counts bricks of which no row was read, each with the part that has its first row, and their rows.
pub(super) struct PassedOver {
    bricks: Count,
    rows: Count,
}

impl PassedOver {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self { bricks: count("bricks_passed_over"), rows: count("rows_passed_over") }
    }

    pub(super) fn note(&self, part: &BrickPart) {
        self.bricks.add(usize::from(part.rows.start == 0));
        self.rows.add(part.rows.len());
    }
}

impl HintedRows {
    pub(super) fn new(
        scan: HintedScan,
        partition: usize,
        parts: Vec<BrickPart>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let has_keys = !scan.hints.join_keys().is_empty();
        Self {
            asked: scan.hints.asked(),
            parts: parts.into_iter(),
            reading: None,
            filters: RowFilters::new(scan.hints.of_rows(), Arc::clone(&scan.output)),
            gathered: GatheredRows::new(&scan.output, &[]),
            is_done: false,
            passed_over: PassedOver::new(metrics, partition),
            rows_scanned: MetricBuilder::new(metrics).counter("rows_scanned", partition),
            without_partner: match has_keys {
                true => WithoutPartner::counted(metrics, partition),
                false => WithoutPartner::default(),
            },
            scan,
        }
    }

    /// The rows in batches. Others get their turn while none are found.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        steps::batches(self, Self::step)
    }

    /// Goes on by a batch, or to the next brick.
    fn step(&mut self) -> Result<Step> {
        if let Some(batch) = self.gathered.next_batch()? {
            return Ok(Step::Out(batch));
        }
        if let Some(batch) = self.reading.as_mut().and_then(Iterator::next) {
            self.push(&batch)?;
            return Ok(Step::Read);
        }
        self.reading = None;
        match self.parts.next() {
            Some(part) if self.scan.hints.may_match(&self.scan.source, &part.brick) => {
                let HintedScan { source, projection, rows_max, .. } = &self.scan;
                self.reading = Some(Box::new(source.batches(part, projection, *rows_max)));
            }
            Some(part) => self.passed_over.note(&part),
            None if self.is_done => return Ok(Step::Done),
            None => {
                self.is_done = true;
                self.gathered.finish()?;
            }
        }
        Ok(Step::Read)
    }

    /// Gathers those of the rows that pass.
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows_scanned.add(batch.num_rows());
        let readied = self.readied(batch)?;
        let Some(passing) = self.filters.passing(readied, None, &self.without_partner)? else {
            return Ok(());
        };
        let left = match passing.mask() {
            Some(mask) if passing.rows() < mask.len() => filter_record_batch(passing.batch(), mask)?,
            _ => passing.batch().clone(),
        };
        self.gathered.push(as_declared(&left, &self.scan.output)?, None)
    }

    /// The batch with those columns as SQL has them of which something is asked, and the others as bricks have them.
    fn readied(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = batch.schema();
        let fields = schema.fields().iter().zip(self.scan.output.fields()).enumerate();
        let fields = fields.map(|(place, (kept, declared))| {
            Arc::clone(if self.asked.contains(&place) { declared } else { kept })
        });
        as_declared(batch, &Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}
