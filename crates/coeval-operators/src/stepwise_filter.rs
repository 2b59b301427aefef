// SPDX-License-Identifier: Apache-2.0
//! Filters whose conditions are asked one after the other, each of the rows that are left.
//!
//! What a filter asks that stands above a join, an aggregate or a window no scan can answer. DataFusion's operator takes all of it for one
//! expression: each comparison makes an array of all rows of a batch, AND combines the arrays, all columns are copied with the rows that
//! pass, and once more where small batches become larger ones. Here the conditions that have to hold together are taken apart:
//!
//! ```text
//! FilterExec: ordered < shipped AND total - paid > 5 AND note LIKE '%x%' AND kind IN (1, 2)
//!
//! ordered < shipped      compared by loops (`predicate.rs`): first the one that takes away most rows for what it costs,
//! kind IN (1, 2)         by its type, and once some batches have gone by, by what it did
//! total - paid > 5       by DataFusion as they are written; where few rows are left, only these, taken out of the columns
//! note LIKE '%x%'        that the condition looks at
//! ```
//!
//! What remains is one selection of rows, by which the columns that go out are copied, once, into batches of full size.
//!
//! Comparisons do not fail, so they may come first, whatever they guard. Other conditions may fail by rows that one in front of them
//! leaves out (`b % 2 = 1 AND 10 / b > 5`), or by ones that one behind them does. So what fails is asked again without the rows that are
//! left out already, and if it fails still, it comes behind the others; an error is one that remains at the end. A condition of which each
//! call counts (`random() < 0.5`) has to be asked of the rows that it always was, and its filter stays DataFusion's.
//!
//! The operator is put into plans behind all rules that look for filters or push something through them, so it says of itself what the
//! filter does in whose place it stands: its schema, order, equivalences, statistics and limit.
//!
//! ```text
//! steps.rs      the conditions, and which rows of a batch pass them
//! work.rs       one partition of the plan: batches in, batches of full size out, up to the limit
//! ```

mod steps;
#[cfg(test)]
mod tests;
mod work;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricType, MetricsSet,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;
use steps::{Conditions, Steps};
use work::Work;

/// Makes of a condition one whose parts guard each other where it is evaluated as a whole.
pub type Guarding = fn(Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr>;

/// The plan with the operator in the place of each filter that it can be quicker than.
///
/// # Errors
///
/// None of its own: those of making the nodes above anew.
pub fn with_stepwise_filters(
    plan: Arc<dyn ExecutionPlan>,
    guarded: Guarding,
) -> Result<Arc<dyn ExecutionPlan>> {
    let stepwise = plan.transform_up(|node| {
        let filter = node.downcast_ref::<FilterExec>();
        Ok(match filter.and_then(|filter| StepwiseFilterExec::in_place_of(filter, guarded)) {
            Some(stepwise) => Transformed::yes(Arc::new(stepwise) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(stepwise.data)
}

/// The filter that a node is, or stands for.
#[must_use]
pub fn filter_of(node: &Arc<dyn ExecutionPlan>) -> Option<&FilterExec> {
    match node.downcast_ref::<StepwiseFilterExec>() {
        Some(stepwise) => Some(&stepwise.filter),
        None => node.downcast_ref(),
    }
}

/// See the module.
#[derive(Debug)]
pub struct StepwiseFilterExec {
    /// What it stands for.
    filter: FilterExec,
    conditions: Arc<Conditions>,
    metrics: ExecutionPlanMetricsSet,
}

impl StepwiseFilterExec {
    /// The operator that does what this one does; `None` if there is nothing to compare by a loop and only one condition, or if one is
    /// volatile.
    #[must_use]
    pub fn in_place_of(filter: &FilterExec, guarded: Guarding) -> Option<Self> {
        let conditions = Conditions::of(filter.predicate(), &filter.input().schema(), guarded)?;
        let (filter, conditions) = (filter.clone(), Arc::new(conditions));
        Some(Self { filter, conditions, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The same in the place of this node, which is a filter by the same conditions.
    fn in_the_same_way(&self, filter: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let filter = filter.downcast_ref::<FilterExec>()?.clone();
        let conditions = Arc::clone(&self.conditions);
        Some(Arc::new(Self { filter, conditions, metrics: ExecutionPlanMetricsSet::new() }))
    }
}

impl DisplayAs for StepwiseFilterExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In a tree the node's name stands above.
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("Stepwise")?;
        }
        self.filter.fmt_as(t, f)
    }
}

impl ExecutionPlan for StepwiseFilterExec {
    fn name(&self) -> &'static str {
        "StepwiseFilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.filter.properties()
    }

    fn schema(&self) -> SchemaRef {
        self.filter.schema()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.filter.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.filter.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // It knows what of its properties comes from the rows.
        let filter = replace_children_if_necessary(Arc::new(self.filter.clone()), children)?;
        let Some(stepwise) = self.in_the_same_way(&filter) else {
            return internal_err!("a filter of other rows is one");
        };
        Ok(stepwise)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.filter.maintains_input_order()
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let selectivity = MetricBuilder::new(&self.metrics)
            .with_type(MetricType::Summary)
            .ratio_metrics("selectivity", partition);
        let rows = self.filter.input().execute(partition, task)?;
        let steps = Steps::new(Arc::clone(&self.conditions));
        let work = Work::new(rows, steps, &self.filter, (metrics.elapsed_compute().clone(), selectivity));
        let batches = stream::try_unfold(work, Work::next);
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.filter.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.filter.statistics_from_inputs(inputs, arguments)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.filter.cardinality_effect()
    }

    fn fetch(&self) -> Option<usize> {
        self.filter.fetch()
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.in_the_same_way(&self.filter.with_fetch(fetch)?)
    }
}
