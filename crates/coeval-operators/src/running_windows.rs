// SPDX-License-Identifier: Apache-2.0
//! Aggregates over windows whose frames begin with their partition, computed batch by batch.
//!
//! DataFusion's operators give each row of a window to an accumulator by itself, and take a value out of it for each: some hundred
//! nanoseconds for what is one addition. Besides, one of them looks up the partition of each run of rows in a table, and the other one
//! keeps all rows until the last one has come. Where a frame begins with the partition, what an aggregate comes to only grows while rows
//! go by, and where rows come in the order of the window, one loop over a batch gives the totals of all its rows. A row's value is then a
//! total, which one depends on where its frame ends:
//!
//! ```text
//! ROWS ... AND CURRENT ROW            the total of the row
//! RANGE ... AND CURRENT ROW           that of the last row with the same ORDER BY, its last peer
//! ... AND UNBOUNDED FOLLOWING         that of the last row of the partition
//! ```
//!
//! So rows whose last peer has not come yet are kept, or those of one partition, never more; their memory is reserved.
//!
//! Done here are `count`, `sum`, `min` and `max` of whole numbers and decimals, `min` and `max` of dates and instants, `count` of all
//! plain types, and `sum` of floats by ROWS: they are added one by one there, in one order. A sum that leaves its range, or is no finite
//! number, is asked of the aggregate itself, so that an error or an infinity is the one that it knows. A node with anything else stays
//! DataFusion's.
//!
//! ```text
//! calls.rs      which aggregates are computed here, and which rows share a value
//! totals.rs     the totals of the rows of a batch
//! work.rs       one partition of the plan: batches in, batches with values out, rows that are kept in between
//! ```

mod calls;
#[cfg(test)]
mod tests;
mod totals;
mod work;

use arrow::datatypes::SchemaRef;
use calls::Calls;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowExpr};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, InputOrderMode, PhysicalExpr,
    PlanProperties,
};
use futures::{TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;
use work::{Rows, Work};

/// What its memory is reserved as.
const CONSUMER: &str = "the rows of a window";

/// Whether an aggregate over a window is one of all rows of its frame, without a FILTER. DataFusion's expression does not say so: who has
/// planned it knows.
pub type IsUnfiltered = fn(&AggregateUDF) -> bool;

/// The plan with the operator in the place of each window that it can compute.
///
/// # Errors
///
/// Those of [`RunningWindowsExec::in_place_of`].
pub fn with_running_windows(
    plan: Arc<dyn ExecutionPlan>,
    is_unfiltered: IsUnfiltered,
) -> Result<Arc<dyn ExecutionPlan>> {
    let running = plan.transform_up(|node| {
        Ok(match RunningWindowsExec::in_place_of(&node, is_unfiltered)? {
            Some(running) => Transformed::yes(Arc::new(running) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(running.data)
}

/// See the module.
#[derive(Debug)]
pub struct RunningWindowsExec {
    /// What it stands for.
    window: Arc<dyn ExecutionPlan>,
    rows: Arc<dyn ExecutionPlan>,
    calls: Arc<Calls>,
    metrics: ExecutionPlanMetricsSet,
}

impl RunningWindowsExec {
    /// The operator that does what this one does; `None` if it is no window, its rows do not come in the window's order, or one of its
    /// functions is not computed here.
    ///
    /// # Errors
    ///
    /// Those of an expression, when its type is asked for.
    pub fn in_place_of(window: &Arc<dyn ExecutionPlan>, is_unfiltered: IsUnfiltered) -> Result<Option<Self>> {
        let Some((functions, rows)) = functions_in_order(window) else { return Ok(None) };
        let Some(calls) = Calls::of(functions, &rows.schema(), is_unfiltered)? else { return Ok(None) };
        Ok(Some(Self {
            window: Arc::clone(window),
            rows: Arc::clone(rows),
            calls: Arc::new(calls),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

type Functions<'w> = &'w [Arc<dyn WindowExpr>];

/// The functions of a window whose rows come partition by partition, and its input.
fn functions_in_order(node: &Arc<dyn ExecutionPlan>) -> Option<(Functions<'_>, &Arc<dyn ExecutionPlan>)> {
    if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        return Some((window.window_expr(), window.input()));
    }
    let window = node.downcast_ref::<BoundedWindowAggExec>()?;
    let is_in_order = window.input_order_mode == InputOrderMode::Sorted && window.state_observer().is_none();
    is_in_order.then(|| (window.window_expr(), window.input()))
}

impl DisplayAs for RunningWindowsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.calls.names().join(", ");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "RunningWindowsExec: wdw=[{names}]")
            }
            DisplayFormatType::TreeRender => writeln!(f, "select_list={names}"),
        }
    }
}

impl ExecutionPlan for RunningWindowsExec {
    fn name(&self) -> &'static str {
        "RunningWindowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn schema(&self) -> SchemaRef {
        self.window.schema()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.rows]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // It knows what of its properties comes from the rows.
        let window = replace_children_if_necessary(Arc::clone(&self.window), children)?;
        let Some((_, rows)) = functions_in_order(&window) else {
            return internal_err!("a window over other rows is one");
        };
        let rows = Arc::clone(rows);
        let (calls, metrics) = (Arc::clone(&self.calls), ExecutionPlanMetricsSet::new());
        Ok(Arc::new(Self { window, rows, calls, metrics }))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, metrics) = (self.schema(), BaselineMetrics::new(&self.metrics, partition));
        let reservation = MemoryConsumer::new(CONSUMER).register(task.memory_pool());
        let rows = self.rows.execute(partition, task)?;
        let time = metrics.elapsed_compute().clone();
        let work = Work::new(rows, Arc::clone(&self.calls), reservation, time);
        let output = Arc::clone(&schema);
        // One batch after the other: values that many rows share take no memory before somebody wants them.
        let batches_of = move |complete: Vec<Rows>| {
            let output = Arc::clone(&output);
            stream::iter(complete.into_iter().map(move |rows| rows.into_batch(&output)))
        };
        let batches = stream::try_unfold(work, Work::next).map_ok(batches_of).try_flatten();
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
