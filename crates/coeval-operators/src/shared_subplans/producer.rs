// SPDX-License-Identifier: Apache-2.0
//! The top of a shared subplan: the first of its readers, with the plan that makes the rows below it.

use super::reader::SharedReaderExec;
use super::subplan::Subplan;
use crate::over_one_input;
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// See the module.
pub struct SharedExec {
    subplan: Arc<Subplan>,
    input: Arc<dyn ExecutionPlan>,
}

impl SharedExec {
    /// The top of this plan, which plans show with this number.
    #[must_use]
    pub fn new(number: usize, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { subplan: Arc::new(Subplan::new(number)), input }
    }

    /// What stands for another copy of the plan, with the copy's properties and what is estimated of its rows. Columns may have other
    /// names in the copy.
    #[must_use]
    pub fn reader(&self, properties: Arc<PlanProperties>, statistics: Arc<Statistics>) -> SharedReaderExec {
        SharedReaderExec::new(Arc::clone(&self.subplan), properties, statistics)
    }

    pub(super) fn subplan(&self) -> &Arc<Subplan> {
        &self.subplan
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl fmt::Debug for SharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExec").field("number", &self.subplan.number()).finish_non_exhaustive()
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.subplan.number())
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    over_one_input!(input, |old, input| Arc::new(Self { subplan: Arc::clone(&old.subplan), input }));

    /// A second run would read what the first one has left.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("shared subplan {} cannot be run again", self.subplan.number())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.subplan.read(partition, &task, self.subplan.metrics())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.subplan.metrics().clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [rows] => Ok(Arc::clone(rows)),
            _ => internal_err!("a shared subplan has one input"),
        }
    }

    /// None passes: what one reader does not want, another one may.
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        Ok(FilterDescription::all_unsupported(&filters, &self.children()))
    }
}
