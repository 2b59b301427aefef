// SPDX-License-Identifier: Apache-2.0
//! One partition of the plan at its work.

use super::steps::Steps;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::projection::ProjectionRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{RatioMetrics, Time};
use futures::StreamExt;

/// See the module.
pub(super) struct Work {
    /// None once all that is wanted has been read.
    rows: Option<SendableRecordBatchStream>,
    steps: Steps,
    /// The columns that go out; all if it is not there.
    projection: Option<ProjectionRef>,
    coalescer: BatchCoalescer,
    /// How many rows may still pass.
    wanted: usize,
    time: Time,
    selectivity: RatioMetrics,
}

impl Work {
    /// Of these rows those that pass the steps, as this filter would give them.
    pub(super) fn new(
        rows: SendableRecordBatchStream,
        steps: Steps,
        filter: &FilterExec,
        (time, selectivity): (Time, RatioMetrics),
    ) -> Self {
        let batch_rows = filter.batch_size();
        let coalescer = BatchCoalescer::new(filter.schema(), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        let wanted = filter.fetch().unwrap_or(usize::MAX);
        let projection = filter.projection().clone();
        Self { rows: Some(rows), steps, projection, coalescer, wanted, time, selectivity }
    }

    /// The next batch that is complete; `None` behind the last one.
    pub(super) async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                self.selectivity.add_part(batch.num_rows());
                return Ok(Some((batch, self)));
            }
            let batch = match &mut self.rows {
                None => return Ok(None),
                Some(_) if self.wanted == 0 => None,
                Some(rows) => rows.next().await.transpose()?,
            };
            let time = self.time.clone();
            let timer = time.timer();
            match batch {
                Some(batch) => self.take_in(batch)?,
                None => {
                    self.rows = None;
                    self.coalescer.finish_buffered_batch()?;
                }
            }
            timer.done();
        }
    }

    fn take_in(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.selectivity.add_total(rows.num_rows());
        let mut passing = self.steps.passing(&rows)?;
        let count = passing.count_set_bits();
        if count == 0 {
            return Ok(());
        }
        let mut outgoing = match &self.projection {
            Some(projection) => rows.project(projection)?,
            None => rows,
        };
        if count > self.wanted {
            let end = passing.find_nth_set_bit_position(0, self.wanted);
            (passing, outgoing) = (passing.slice(0, end), outgoing.slice(0, end));
        }
        self.wanted -= count.min(self.wanted);
        self.coalescer.push_batch_with_filter(outgoing, &BooleanArray::new(passing, None))?;
        Ok(())
    }
}
