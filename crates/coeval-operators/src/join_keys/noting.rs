// SPDX-License-Identifier: Apache-2.0
//! The operator that notes columns of the rows that it hands on.

use super::set::JoinKeys;
use crate::over_one_input;
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use futures::stream::poll_fn;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// See the module.
#[derive(Debug)]
pub struct NotedKeysExec {
    rows: Arc<dyn ExecutionPlan>,
    /// Which columns.
    columns: Arc<[usize]>,
    keys: Arc<JoinKeys>,
}

impl NotedKeysExec {
    /// These rows, which have a single partition, with these of their columns noted as keys.
    #[must_use]
    pub fn new(
        rows: Arc<dyn ExecutionPlan>,
        columns: impl IntoIterator<Item = usize>,
        keys: Arc<JoinKeys>,
    ) -> Self {
        Self { rows, columns: columns.into_iter().collect(), keys }
    }

    fn over(&self, rows: Arc<dyn ExecutionPlan>) -> Self {
        Self { rows, columns: Arc::clone(&self.columns), keys: Arc::clone(&self.keys) }
    }
}

impl DisplayAs for NotedKeysExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        let schema = self.rows.schema();
        let names = self.columns.iter().map(|column| schema.field(*column).name().as_str());
        let names: Vec<&str> = names.collect();
        write!(f, "NotedKeysExec: columns=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for NotedKeysExec {
    fn name(&self) -> &'static str {
        "NotedKeysExec"
    }

    /// The same ones: rows come as they are.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.rows.properties()
    }

    over_one_input!(rows, |old, rows| Arc::new(old.over(rows)));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.keys.forget();
        let mut rows = self.rows.execute(partition, task)?;
        if self.rows.output_partitioning().partition_count() != 1 {
            return Ok(rows);
        }
        let mut notes = Some(Notes::new(&self.columns, &self.keys));
        let schema = rows.schema();
        let batches = poll_fn(move |context| {
            let polled = rows.poll_next_unpin(context);
            match &polled {
                Poll::Ready(Some(Ok(batch))) => notes = notes.take().and_then(|notes| notes.with(batch)),
                Poll::Ready(Some(Err(_))) => notes = None,
                Poll::Ready(None) => {
                    if let Some(notes) = notes.take() {
                        notes.hand_over();
                    }
                }
                Poll::Pending => {}
            }
            polled
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// What is noted so far.
struct Notes {
    columns: Arc<[usize]>,
    keys: Arc<JoinKeys>,
    batches: Vec<Vec<ArrayRef>>,
    rows: usize,
}

impl Notes {
    fn new(columns: &Arc<[usize]>, keys: &Arc<JoinKeys>) -> Self {
        Self { columns: Arc::clone(columns), keys: Arc::clone(keys), batches: Vec::new(), rows: 0 }
    }

    /// With a batch more; `None` if these are too many rows, whose arrays are let go.
    fn with(mut self, batch: &RecordBatch) -> Option<Self> {
        self.rows += batch.num_rows();
        if self.rows > self.keys.rows_max() {
            return None;
        }
        if batch.num_rows() > 0 {
            let columns = self.columns.iter().map(|column| Arc::clone(batch.column(*column)));
            self.batches.push(columns.collect());
        }
        Some(self)
    }

    fn hand_over(self) {
        self.keys.note(self.batches);
    }
}
