// SPDX-License-Identifier: Apache-2.0
//! What the nodes of one shared subplan have in common, in whatever places of a plan they are.

use super::lock;
use super::part::Part;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::{Arc, Mutex, OnceLock};

/// See the module.
pub(super) struct Subplan {
    /// For who reads the plan.
    number: usize,
    run: OnceLock<Run>,
    /// Those of the top, with what goes to disk.
    metrics: ExecutionPlanMetricsSet,
}

/// A shared subplan whose readers are known.
///
/// # Locking
///
/// `parts` is locked while a partition of the plan begins to be executed, within which parts of other subplans may be locked: those
/// inside of the plan. No plan is inside of itself, so no two wait for each other.
struct Run {
    plan: Arc<dyn ExecutionPlan>,
    readers: usize,
    parts: Mutex<Vec<Option<Arc<Part>>>>,
}

impl Subplan {
    pub(super) fn new(number: usize) -> Self {
        Self { number, run: OnceLock::new(), metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    /// This plan makes its rows, for so many readers.
    ///
    /// # Errors
    ///
    /// If that was said before.
    pub(super) fn connect(&self, plan: &Arc<dyn ExecutionPlan>, readers: usize) -> Result<()> {
        let parts = vec![None; plan.output_partitioning().partition_count()];
        let run = Run { plan: Arc::clone(plan), readers, parts: Mutex::new(parts) };
        if self.run.set(run).is_err() {
            return internal_err!("shared subplan {} is connected twice", self.number);
        }
        Ok(())
    }

    /// The rows of a partition for one reader, which counts them by these metrics.
    ///
    /// # Errors
    ///
    /// If it is not connected or has more readers than were said, or as executing its plan.
    pub(super) fn read(
        &self,
        partition: usize,
        task: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = self.run.get() else {
            return internal_err!("shared subplan {} is not connected", self.number);
        };
        let part = run.part(partition, task, &self.metrics)?;
        let rows = part.begin(BaselineMetrics::new(metrics, partition))?;
        // Batches that are there already could come for long without a pause.
        Ok(make_cooperative(Box::pin(rows)))
    }
}

impl Run {
    /// The partition, which the first reader begins to execute.
    fn part(
        &self,
        partition: usize,
        task: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Arc<Part>> {
        let mut parts = lock(&self.parts);
        let count = parts.len();
        let Some(place) = parts.get_mut(partition) else {
            return internal_err!("a shared subplan has {count} partitions, {partition} was asked for");
        };
        if let Some(part) = place.as_ref() {
            return Ok(Arc::clone(part));
        }
        let rows = self.plan.execute(partition, Arc::clone(task))?;
        let part = Arc::new(Part::new(rows, self.readers, task, SpillMetrics::new(metrics, partition)));
        *place = Some(Arc::clone(&part));
        Ok(part)
    }
}
