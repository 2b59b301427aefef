// SPDX-License-Identifier: Apache-2.0
//! Scalar subqueries that depend on no outer row: each is computed once, and its error is raised where its value is asked for.
//!
//! DataFusion computes them before the query around them, and fails with the first one that fails, also if no row ever asks for its value:
//! no row is left by the conditions before (`k > 1000 AND y = (SELECT 1 / (max(y) - 3) FROM e)`), or a CASE goes another way. PostgreSQL
//! computes such a subquery when its value is first asked for. Here it is still computed before, beside the others; but if it fails by
//! values, its place among the results stays empty, and the rows around it are made all the same. Who asks for an empty place fails, within
//! whatever guards it (a CASE, [AND and OR](crate::guarded), the filters of a scan), and that error becomes the one of the subquery.
//!
//! Edges:
//! - Errors that say nothing of values (the statement was cancelled, there is no memory, a file is damaged, the transaction has to end) are
//!   raised at once, whoever asks: they are none of the subquery alone.
//! - Where several subqueries fail, the error is that of the first one in the query, whichever was asked for.
//! - What asks for a value of no row, as a join for the keys of an empty side, raises the error too.

use crate::error::{SqlError, SqlState};
use crate::plan_rule::PlanRule;
use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, Statistics, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::future::{BoxFuture, Shared, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The rule. Behind those of DataFusion, some of which look for its operator, which this one takes the place of.
pub(crate) const DEFERRED_SUBQUERIES: PlanRule =
    PlanRule::new("coeval_deferred_subqueries", |plan, _| plan.transform_up(deferred).map(|done| done.data))
        .about(|node| node.is::<ScalarSubqueryExec>());

fn deferred(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(eager) = node.downcast_ref::<ScalarSubqueryExec>() else { return Ok(Transformed::no(node)) };
    let operator = DeferredSubqueriesExec {
        input: Arc::clone(eager.input()),
        subqueries: eager.subqueries().to_vec(),
        results: eager.results().clone(),
        begun: OnceLock::new(),
    };
    Ok(Transformed::yes(Arc::new(operator) as _))
}

/// The error that waits until somebody asks for a value that is not there, if there is one; or one that does not wait.
type Computed = Result<Option<Arc<DataFusionError>>, Arc<DataFusionError>>;

/// The rows of its input, whose expressions read the values of subqueries.
#[derive(Debug)]
struct DeferredSubqueriesExec {
    input: Arc<dyn ExecutionPlan>,
    subqueries: Vec<ScalarSubqueryLink>,
    /// Where the expressions find the values.
    results: ScalarSubqueryResults,
    /// The computation that all partitions wait for, once one of them has begun.
    begun: OnceLock<Shared<BoxFuture<'static, Computed>>>,
}

impl DisplayAs for DeferredSubqueriesExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: subqueries={}", self.name(), self.subqueries.len())
            }
        }
    }
}

impl ExecutionPlan for DeferredSubqueriesExec {
    fn name(&self) -> &'static str {
        "DeferredSubqueriesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    /// The input, then the subqueries.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.input).chain(self.subqueries.iter().map(|subquery| &subquery.plan)).collect()
    }

    coeval_operators::without_expressions!();

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut children = children.into_iter();
        let Some(input) = children.next().filter(|_| children.len() == self.subqueries.len()) else {
            return internal_err!("{} has an input and its subqueries", self.name());
        };
        let links = self.subqueries.iter().zip(children);
        let subqueries = links.map(|(old, plan)| ScalarSubqueryLink { plan, index: old.index }).collect();
        Ok(Arc::new(Self { input, subqueries, results: self.results.clone(), begun: OnceLock::new() }))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.results.clear();
        Ok(Arc::new(Self {
            input: Arc::clone(&self.input),
            subqueries: self.subqueries.clone(),
            results: self.results.clone(),
            begun: OnceLock::new(),
        }))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        let mut maintained = vec![false; self.subqueries.len() + 1];
        maintained[0] = true;
        maintained
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.subqueries.len() + 1]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let begin = || computed(self.subqueries.clone(), self.results.clone(), Arc::clone(&task));
        let values = self.begun.get_or_init(|| begin().boxed().shared()).clone();
        let (input, schema) = (Arc::clone(&self.input), self.schema());
        let rows = async move {
            let waiting = values.await.map_err(DataFusionError::Shared)?;
            let rows =
                input.execute(partition, task).map_err(|error| as_asked_for(error, waiting.as_ref()))?;
            let told = rows.map(move |batch| batch.map_err(|error| as_asked_for(error, waiting.as_ref())));
            Ok::<_, DataFusionError>(told)
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        let mut requests = vec![ChildStats::Skip; self.subqueries.len() + 1];
        requests[0] = ChildStats::At(partition);
        requests
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs.first() {
            Some(rows) => Ok(Arc::clone(rows)),
            None => internal_err!("{} has an input", self.name()),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// Computes all of them at a time, and puts the values where expressions find them.
async fn computed(
    subqueries: Vec<ScalarSubqueryLink>,
    results: ScalarSubqueryResults,
    task: Arc<TaskContext>,
) -> Computed {
    let each = subqueries.into_iter().map(|ScalarSubqueryLink { plan, index }| {
        let (results, task) = (results.clone(), Arc::clone(&task));
        async move {
            match value(plan, task).await.and_then(|value| results.set(index, value)) {
                Ok(()) => Ok(None),
                Err(error) => if_it_waits(Arc::new(error)).map(Some),
            }
        }
    });
    let waiting = try_join_all(each).await?;
    Ok(waiting.into_iter().flatten().next())
}

/// The value of a subquery: NULL if it has no row.
async fn value(plan: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Result<ScalarValue> {
    let schema = plan.schema();
    let mut rows = execute_stream(plan, task)?;
    let mut value = None;
    while let Some(batch) = rows.try_next().await? {
        match batch.num_rows() {
            0 => {}
            1 if value.is_none() => value = Some(only_value(&batch)?),
            _ => return Err(several_rows().into()),
        }
    }
    value.map_or_else(|| ScalarValue::try_from(schema.field(0).data_type()), Ok)
}

fn only_value(batch: &RecordBatch) -> Result<ScalarValue> {
    ScalarValue::try_from_array(batch.column(0), 0)
}

fn several_rows() -> SqlError {
    let message = "more than one row returned by a subquery used as an expression";
    SqlError::new(SqlState::CardinalityViolation, message)
}

/// The error of a subquery, if it waits until its value is asked for.
///
/// # Errors
/// The error itself, if it does not.
fn if_it_waits(error: Arc<DataFusionError>) -> Result<Arc<DataFusionError>, Arc<DataFusionError>> {
    let is_of_values = SqlError::from(DataFusionError::Shared(Arc::clone(&error))).is_of_values();
    if is_of_values { Ok(error) } else { Err(error) }
}

/// The error of who asked for a value that is not there, as that of the subquery which has no value; any other as it is. DataFusion calls
/// it a bug of its own that there is no value, which no row is blamed for.
fn as_asked_for(error: DataFusionError, waiting: Option<&Arc<DataFusionError>>) -> DataFusionError {
    match waiting {
        Some(waiting) if matches!(error.find_root(), DataFusionError::Internal(_)) => {
            DataFusionError::Shared(Arc::clone(waiting))
        }
        _ => error,
    }
}
