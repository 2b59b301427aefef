// SPDX-License-Identifier: Apache-2.0
//! What stands in the place of another copy of a shared subplan.

use super::subplan::Subplan;
use crate::over_no_input;
use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// See the module.
pub struct SharedReaderExec {
    subplan: Arc<Subplan>,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedReaderExec {
    pub(super) fn new(
        subplan: Arc<Subplan>,
        properties: Arc<PlanProperties>,
        statistics: Arc<Statistics>,
    ) -> Self {
        Self { subplan, properties, statistics, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(super) fn subplan(&self) -> &Arc<Subplan> {
        &self.subplan
    }
}

impl fmt::Debug for SharedReaderExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReaderExec").field("number", &self.subplan.number()).finish_non_exhaustive()
    }
}

impl DisplayAs for SharedReaderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedReader: {}", self.subplan.number())
    }
}

impl ExecutionPlan for SharedReaderExec {
    fn name(&self) -> &'static str {
        "SharedReaderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_no_input!();

    /// As [`SharedExec`](super::SharedExec)'s.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("shared subplan {} cannot be read again", self.subplan.number())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.subplan.read(partition, &task, &self.metrics)?;
        let schema = self.schema();
        if rows.schema() == schema {
            return Ok(rows);
        }
        // The copy that makes the rows may have other names for the same columns.
        let named = Arc::clone(&schema);
        let rows = rows.map(move |batch| {
            let batch = batch?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            Ok(RecordBatch::try_new_with_options(Arc::clone(&named), columns, &options)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.statistics)),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    /// None is used here: what this reader does not want, another one may.
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::all_unsupported(result))
    }
}
