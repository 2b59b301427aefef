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
//!
//! # Plans that are run one after the other
//! An expression holds the place where it finds the value. It may stand anywhere: in a filter of a scan, in the keys of a join, in what an
//! aggregate computes. So copies of a [kept plan](super::kept_physical) share the places, and use them one after the other: what runs the
//! subqueries, and what gives rows that were made by their values, holds the [`Places`], and with them the [`Loan`] of its statement. There
//! is no other copy before the last of these is gone, which leaves the places empty. A thread that learns late that its statement has ended
//! may look there even then, but nobody takes the rows that it makes.

use crate::allowance::{Loan, LoanInPlanning};
use crate::carried::Carry;
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
    PlanRule::new("coeval_deferred_subqueries", |plan, options| {
        let loan = LoanInPlanning::carried_by(options).and_then(LoanInPlanning::loan);
        plan.transform_up(|node| Ok(deferred(node, loan.as_ref()))).map(|done| done.data)
    })
    .about(|node| node.is::<ScalarSubqueryExec>());

fn deferred(node: Arc<dyn ExecutionPlan>, loan: Option<&Arc<Loan>>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let Some(eager) = node.downcast_ref::<ScalarSubqueryExec>() else { return Transformed::no(node) };
    let (results, subqueries) = (eager.results(), eager.subqueries());
    debug_assert!(
        subqueries.iter().all(|subquery| results.get(subquery.index).is_none()),
        "a plan is run while another one has values in its places"
    );
    let operator = DeferredSubqueriesExec {
        input: Arc::clone(eager.input()),
        subqueries: subqueries.to_vec(),
        places: Arc::new(Places { results: results.clone(), _loan: loan.cloned() }),
        begun: OnceLock::new(),
    };
    Transformed::yes(Arc::new(operator) as _)
}

/// Where the expressions of an execution find the values of subqueries: empty before it, and behind it.
#[derive(Debug)]
struct Places {
    results: ScalarSubqueryResults,
    /// That of its statement, if its plan is a kept one. It goes when the values have gone.
    _loan: Option<Arc<Loan>>,
}

impl Drop for Places {
    fn drop(&mut self) {
        self.results.clear();
    }
}

/// Subqueries that have run.
#[derive(Clone)]
struct Computed {
    /// Who makes rows by the values holds this.
    _places: Arc<Places>,
    /// The error that waits until somebody asks for a value that is not there, if there is one.
    waiting: Option<Arc<DataFusionError>>,
}

/// Subqueries that have run, or an error that does not wait.
type Outcome = Result<Computed, Arc<DataFusionError>>;

/// The rows of its input, whose expressions read the values of subqueries.
#[derive(Debug)]
struct DeferredSubqueriesExec {
    input: Arc<dyn ExecutionPlan>,
    subqueries: Vec<ScalarSubqueryLink>,
    places: Arc<Places>,
    /// The computation that all partitions wait for, once one of them has begun.
    begun: OnceLock<Shared<BoxFuture<'static, Outcome>>>,
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
        Ok(Arc::new(Self { input, subqueries, places: Arc::clone(&self.places), begun: OnceLock::new() }))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.places.results.clear();
        Ok(Arc::new(Self {
            input: Arc::clone(&self.input),
            subqueries: self.subqueries.clone(),
            places: Arc::clone(&self.places),
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
        let begin = || computed(self.subqueries.clone(), Arc::clone(&self.places), Arc::clone(&task));
        let begun = self.begun.get_or_init(|| begin().boxed().shared()).clone();
        let (input, schema) = (Arc::clone(&self.input), self.schema());
        let rows = async move {
            let computed = begun.await.map_err(DataFusionError::Shared)?;
            let rows = input.execute(partition, task).map_err(|error| computed.as_asked_for(error))?;
            let told = rows.map(move |batch| batch.map_err(|error| computed.as_asked_for(error)));
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
    places: Arc<Places>,
    task: Arc<TaskContext>,
) -> Outcome {
    let each = subqueries.into_iter().map(|ScalarSubqueryLink { plan, index }| {
        let (results, task) = (places.results.clone(), Arc::clone(&task));
        async move {
            match value(plan, task).await.and_then(|value| results.set(index, value)) {
                Ok(()) => Ok(None),
                Err(error) => if_it_waits(Arc::new(error)).map(Some),
            }
        }
    });
    let waiting = try_join_all(each).await?.into_iter().flatten().next();
    Ok(Computed { _places: places, waiting })
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

impl Computed {
    /// The error of who asked for a value that is not there, as that of the subquery which has no value; any other as it is. DataFusion calls
    /// it a bug of its own that there is no value, which no row is blamed for.
    fn as_asked_for(&self, error: DataFusionError) -> DataFusionError {
        match &self.waiting {
            Some(waiting) if matches!(error.find_root(), DataFusionError::Internal(_)) => {
                DataFusionError::Shared(Arc::clone(waiting))
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::{Allowance, LentAllowance};
    use arrow::datatypes::{DataType, Schema};
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::logical_expr::physical_planning_context::SubqueryIndex;
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_plan::PhysicalExpr;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::projection::ProjectionExec;

    fn row(value: Arc<dyn PhysicalExpr>) -> Arc<dyn ExecutionPlan> {
        let nothing = Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())));
        Arc::new(ProjectionExec::try_new([(value, "n".to_owned())], nothing).unwrap())
    }

    /// To break it: hold no loan beside the places, or leave values in them.
    #[test]
    fn who_has_values_holds_the_loan_and_leaves_the_places_empty() {
        let (results, first) = (ScalarSubqueryResults::new(1), SubqueryIndex::new(0));
        let asks = ScalarSubqueryExpr::new(DataType::Int64, true, first, results.clone());
        let links = vec![ScalarSubqueryLink { plan: row(lit(7_i64)), index: first }];
        let eager = ScalarSubqueryExec::new(row(Arc::new(asks)), links, results.clone());
        let eager: Arc<dyn ExecutionPlan> = Arc::new(eager);
        let (lent, allowance) = (LentAllowance::new(), Allowance::of(&RuntimeEnv::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..3 {
            let loan = Arc::new(lent.lend(&allowance).expect("nobody lends"));
            let mut options = ConfigOptions::default();
            LoanInPlanning::of(&loan).carry_in(&mut options);
            let plan = DEFERRED_SUBQUERIES.optimize(Arc::clone(&eager), &options).unwrap();
            drop(loan);
            assert!(!lent.is_free(), "the plan may run");
            let mut rows = plan.execute(0, Arc::default()).unwrap();
            drop(plan);
            let batch = runtime.block_on(rows.try_next()).unwrap().expect("there is a row");
            assert_eq!(only_value(&batch).unwrap(), ScalarValue::Int64(Some(7)));
            assert!(!lent.is_free(), "there may be more rows");
            assert!(results.get(first).is_some());
            drop(rows);
            assert!(lent.is_free());
            assert!(results.get(first).is_none());
        }
    }
}
