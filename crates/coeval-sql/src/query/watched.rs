// SPDX-License-Identifier: Apache-2.0
//! A query that ends soon after its statement has: what its threads look at while they work.
//!
//! DataFusion ends a query by dropping its tasks, which happens where they wait. A join that finds much, or seeks long and
//! finds nothing, waits nowhere: its threads went on for minutes after the answer was cancelled, and every other query waited
//! for them. So before a plan runs, its operators are watched: each batch looks at the [`Lifeline`], what the operator calls
//! meanwhile finds it by [`check`](crate::cancel::check), what makes more rows of those that it reads gives the thread to
//! others now and then, and so does every operator once the thread has worked for some milliseconds ([a piece](crate::turns)). A join looks once more with each piece that its condition is
//! asked about, because it may go through all pairs of rows before a batch comes out.

use super::packed_lists::with_packed_lists;
use super::second_runs::with_second_run;
use super::series::SERIES_EXEC;
use super::window_memory::with_counted_window;
use crate::allowance::{Allowance, making};
use crate::cancel::Lifeline;
use crate::carried::Carry;
use crate::turns::is_piece_over;
use crate::wrapped::as_wrapped;
use arrow::array::RecordBatch;
use coeval_operators::join_filter::with_changed_filter;
use coeval_operators::over_one_input;
use coeval_operators::shared_subplans::connect;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::StreamExt;
use futures::stream::poll_fn;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::Poll;

/// Operators that give many batches for one that they read, or all of them at the end.
const MAKE_MORE: [&str; 13] = [
    "AggregateExec",
    "CrossJoinExec",
    "HashJoinExec",
    "IntegerHashJoinExec",
    "NestedLoopJoinExec",
    "PackedGroupsExec",
    "PiecewiseMergeJoinExec",
    "RecursiveQueryExec",
    "RunningWindowsExec",
    SERIES_EXEC,
    "SortExec",
    "SortMergeJoinExec",
    "UnnestExec",
];

/// What plans call an operator that is watched.
pub(crate) const WATCHED: &str = "Watched";

/// What the threads of a statement's query look at; nothing if the options are of no statement.
pub(super) fn lifeline_of(options: &ConfigOptions) -> Option<&Lifeline> {
    Allowance::carried_by(options).map(Allowance::lifeline)
}

/// The plan, watched, as it will run: readers of shared subplans are connected with what makes their rows.
///
/// # Errors
/// If a part of it cannot be made anew.
pub(crate) fn watched(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(lifeline) = lifeline_of(options) else {
        connect(&plan)?;
        return Ok(plan);
    };
    let watch = |node: Arc<dyn ExecutionPlan>| {
        let properties = Arc::clone(node.properties());
        let node = with_watched_condition(with_second_run(node)?, lifeline)?;
        let input = with_counted_window(node)?;
        let watched = Watched { input, properties, lifeline: lifeline.clone() };
        Ok::<_, DataFusionError>(Arc::new(watched) as Arc<dyn ExecutionPlan>)
    };
    let watched = plan.transform_up(|node| Ok(Transformed::yes(watch(with_packed_lists(node, watch)?)?)))?;
    connect(&watched.data)?;
    Ok(watched.data)
}

/// The node; as a join, its condition looks too.
fn with_watched_condition(
    node: Arc<dyn ExecutionPlan>,
    lifeline: &Lifeline,
) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = with_changed_filter(node.as_ref(), |filter| {
        let inner = Arc::clone(filter.expression());
        let watched = Arc::new(WatchedCondition { inner, lifeline: lifeline.clone() });
        Ok(Some(JoinFilter::new(watched, filter.column_indices().to_vec(), Arc::clone(filter.schema()))))
    })?;
    Ok(watched.unwrap_or(node))
}

/// An operator each batch of which looks at the lifeline.
#[derive(Debug)]
struct Watched {
    input: Arc<dyn ExecutionPlan>,
    /// Those of the operator before its condition looked too: a nested loop join with another one is made anew, with properties that say
    /// the same and are not known to.
    properties: Arc<PlanProperties>,
    lifeline: Lifeline,
}

impl DisplayAs for Watched {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &'static str {
        WATCHED
    }

    /// The same ones, so that nothing above has to be planned anew.
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_one_input!(input, |old, input| Arc::new(Self {
        properties: Arc::clone(input.properties()),
        input,
        lifeline: old.lifeline.clone(),
    }));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = Arc::clone(task.memory_pool());
        let mut input = self.lifeline.during(|| self.input.execute(partition, task))?;
        if MAKE_MORE.contains(&self.input.name()) {
            input = make_cooperative(input);
        }
        let (schema, lifeline) = (input.schema(), self.lifeline.clone());
        let batches = poll_fn(move |context| {
            if let Err(error) = lifeline.check() {
                return Poll::Ready(Some(Err(error.into())));
            }
            if is_piece_over() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            making(&memory, || lifeline.during(|| input.poll_next_unpin(context)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// A join's condition that looks at the lifeline before it is computed.
#[derive(Debug, Eq)]
struct WatchedCondition {
    inner: Arc<dyn PhysicalExpr>,
    lifeline: Lifeline,
}

// By hand: who looks makes no difference.
impl PartialEq for WatchedCondition {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Hash for WatchedCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for WatchedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for WatchedCondition {
    as_wrapped!(inner: data_type, nullable, return_field, fmt_sql);

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        self.lifeline.check()?;
        self.inner.evaluate(rows)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(inner) if children.is_empty() => {
                Ok(Arc::new(Self { inner, lifeline: self.lifeline.clone() }))
            }
            _ => internal_err!("one condition is watched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{JoinSide, JoinType};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::NestedLoopJoinExec;
    use datafusion::physical_plan::joins::utils::ColumnIndex;

    /// To break it: tell above of the properties of the join that was made anew.
    #[test]
    fn nothing_above_a_watched_join_is_planned_anew() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let side = || Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let condition = BinaryExpr::new(Arc::new(Column::new("a", 0)), Operator::Gt, lit(1_i64));
        let columns = vec![ColumnIndex { index: 0, side: JoinSide::Left }];
        let filter = JoinFilter::new(Arc::new(condition), columns, Arc::clone(&schema));
        let join = NestedLoopJoinExec::try_new(side(), side(), Some(filter), &JoinType::Inner, None);
        let above: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::new(join.unwrap())));
        let mut options = ConfigOptions::default();
        Allowance::of(&RuntimeEnv::default()).carry_in(&mut options);
        let watched = watched(Arc::clone(&above), &options).unwrap();
        assert_eq!(watched.name(), WATCHED);
        assert!(Arc::ptr_eq(watched.properties(), above.properties()));
    }
}
