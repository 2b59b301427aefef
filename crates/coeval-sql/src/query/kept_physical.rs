// SPDX-License-Identifier: Apache-2.0
//! The physical plan of a query, kept for its next execution over the same versions of its tables.
//!
//! To make it takes some milliseconds, a fifth of the time of a small query, and most of that is done before operators begin to tell the
//! scans below what they look for. What stands by then is kept beside the [optimized plan](super::kept_plan), as a *template*: each execution
//! takes a copy, hands down what operators look for, and goes on with our own operators.
//!
//! # Why a copy gives the right rows
//! - Exact numbers of rows and bounds are part of the plan. They are those of the versions of the tables, and a template is used for the
//!   same versions only. A version is known by its place in memory, which no other one takes as long as somebody remembers it
//!   ([`Versions`]), that of bricks also by the epochs that are seen. What a transaction has written itself is in a version of its own; where
//!   it has written to bricks there is no template.
//! - Nothing runs in a template. It shares nothing with the plan that it was made of, nor do copies with it, of what is run: the channels of
//!   exchanges, the sides that joins collect, the filters of sorts and extremes, figures. Operators that are not known for that are in no
//!   template ([`is_copied_whole`]).
//! - Only the places where expressions find the values of scalar subqueries are those of all copies, and of the plan that the template was
//!   made of. They are empty when a copy begins: who [uses them](super::deferred_subqueries) holds what is lent.
//! - Functions have the options of the statement that the template was made in. In these is no snapshot, and the memory and the request to
//!   end are [lent](LentAllowance) by the statement that runs. Two statements cannot lend at once: so one runs a copy, and others make plans.
//! - Reads are noted as they were when the template was made, in statements that note reads as that one did.
//! - Settings, definitions and rights are as they were: the template goes with the optimized plan.
//!
//! To find that a plan can be a template and to make one is not worth it where tables change between two executions. So it is done in an
//! execution that sees the versions that the one before saw.
//!
//! # Cost
//! A template keeps operators and expressions, no version of a table and no rows: some kilobytes for each operator, which are
//! [estimated](super::plan::PlannedQuery::bytes) with the plan before there is one.

use crate::allowance::{Allowance, LentAllowance, Loan, LoanInPlanning};
use crate::carried::Carry;
use crate::plan_rule::PlanRule;
use crate::provider::{PlannedScan, StatementSnapshot, Versions, scan_of_template, template_of_scan};
use crate::stack::with_room;
use coeval_operators::unordered::UnorderedExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::physical_optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::operator_statistics::StatisticsRegistry;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// The setting that switches it off.
pub(super) const KEPT_PLANS_SETTING: &str = "coeval.kept_plans";

const TEMPLATES_NAME: &str = "coeval_templates";

/// The rule that notes the plan as it stands before operators hand down what they look for. It changes nothing.
pub(crate) const TEMPLATES: PlanRule = PlanRule::new(TEMPLATES_NAME, |plan, options| {
    if let Some(noted) = Noted::carried_by(options) {
        *noted.0.lock() = Some(Arc::clone(&plan));
    }
    Ok(plan)
});

/// Where [`TEMPLATES`] notes the plan of a statement that is to make a template.
///
/// # Locking
/// Held to put the plan there, and to take it.
#[derive(Clone, Debug, Default)]
struct Noted(Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>);

impl Carry for Noted {
    const NAME: &'static str = "coeval_noted_plan";
}

/// What is known of the physical plans of one optimized plan.
///
/// # Locking
/// Held to compare versions and to put a template there, never while a plan is made.
#[derive(Debug, Default)]
pub(super) struct KeptPhysical(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What the last execution saw.
    versions: Option<Versions>,
    template: Option<Arc<Template>>,
    /// The plan has what cannot be copied, and is not asked again.
    is_refused: bool,
}

/// What an execution does about a template.
pub(super) enum Turn {
    /// It runs a copy.
    Copies(Copied),
    /// It makes one.
    Makes(Making),
    Neither,
}

impl KeptPhysical {
    /// Of a plan that was optimized in an execution in this snapshot.
    pub(super) fn begun(snapshot: &StatementSnapshot) -> Self {
        Self(Mutex::new(Known { versions: snapshot.versions(), ..Known::default() }))
    }

    /// What an execution in this snapshot does, whose functions may take this.
    pub(super) fn turn(&self, snapshot: &StatementSnapshot, allowance: &Allowance) -> Turn {
        let Some(versions) = snapshot.versions() else { return Turn::Neither };
        let mut known = self.0.lock();
        if known.is_refused {
            return Turn::Neither;
        }
        if known.versions.as_ref() != Some(&versions) {
            *known = Known { versions: Some(versions), ..Known::default() };
            return Turn::Neither;
        }
        match &known.template {
            None => Making::begin(allowance).map_or(Turn::Neither, Turn::Makes),
            Some(template) => match template.lent.lend(allowance) {
                Some(loan) => Turn::Copies(Copied { template: Arc::clone(template), loan: Arc::new(loan) }),
                None => Turn::Neither,
            },
        }
    }

    /// Keeps what an execution has made in this snapshot, with the scans that it noted. Gives the loan for as long as it runs.
    pub(super) fn keep(
        &self,
        making: Making,
        snapshot: &StatementSnapshot,
        scans: &[PlannedScan],
    ) -> Arc<Loan> {
        let Making { lent, loan, noted } = making;
        let plan = noted.0.lock().take();
        let template = plan.and_then(|plan| template_of(&plan));
        let mut known = self.0.lock();
        if known.versions == snapshot.versions() {
            known.is_refused = template.is_none();
            known.template = template.map(|plan| Arc::new(Template { plan, scans: scans.to_vec(), lent }));
        }
        loan
    }

    /// Whether a template is kept.
    #[cfg(test)]
    pub(super) fn has_template(&self) -> bool {
        self.0.lock().template.is_some()
    }

    /// Whether an execution that sees the same versions runs a copy now.
    #[cfg(test)]
    pub(super) fn may_be_copied(&self) -> bool {
        self.0.lock().template.as_ref().is_some_and(|template| template.lent.is_free())
    }
}

/// See the module.
#[derive(Debug)]
struct Template {
    plan: Arc<dyn ExecutionPlan>,
    /// What its scans read, as far as that is noted.
    scans: Vec<PlannedScan>,
    lent: LentAllowance,
}

/// An execution that makes a template.
pub(super) struct Making {
    lent: LentAllowance,
    loan: Arc<Loan>,
    noted: Noted,
}

impl Making {
    fn begin(allowance: &Allowance) -> Option<Self> {
        let lent = LentAllowance::new();
        let loan = Arc::new(lent.lend(allowance)?);
        Some(Self { lent, loan, noted: Noted::default() })
    }

    /// Puts what it takes into the options that rules see, and into those that functions keep, which have no snapshot then.
    pub(super) fn carry_in(&self, of_rules: &mut ConfigOptions, of_functions: &mut ConfigOptions) {
        self.noted.clone().carry_in(of_rules);
        LoanInPlanning::of(&self.loan).carry_in(of_rules);
        StatementSnapshot::new([]).carry_in(of_functions);
        self.lent.clone().carry_in(of_functions);
    }
}

/// An execution that runs a copy of a template.
pub(super) struct Copied {
    template: Arc<Template>,
    loan: Arc<Loan>,
}

impl Copied {
    /// Puts what it takes into the options that rules see.
    pub(super) fn carry_in(&self, of_rules: &mut ConfigOptions) {
        LoanInPlanning::of(&self.loan).carry_in(of_rules);
    }

    /// The copy, which goes through the rules behind [`TEMPLATES`], and the loan for as long as it runs.
    ///
    /// # Errors
    /// Those of the rules.
    pub(super) fn plan(
        self,
        snapshot: &StatementSnapshot,
        state: &SessionState,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<Loan>)> {
        for scan in &self.template.scans {
            snapshot.add_scan(scan.clone())?;
        }
        let mut plan = copy_of(&self.template.plan, snapshot)?;
        let rules = state.physical_optimizers().iter().skip_while(|rule| rule.name() != TEMPLATES_NAME);
        for rule in rules.skip(1) {
            plan = rule.optimize_with_context(plan, &Rules(state))?;
        }
        Ok((plan, self.loan))
    }
}

/// What rules look at.
struct Rules<'a>(&'a SessionState);

impl PhysicalOptimizerContext for Rules<'_> {
    fn config_options(&self) -> &ConfigOptions {
        self.0.config_options()
    }

    fn statistics_registry(&self) -> Option<&StatisticsRegistry> {
        self.0.statistics_registry()
    }
}

/// The plan with templates in the places of its scans; `None` if it has what cannot be copied.
fn template_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(template) = template_of_scan(plan.as_ref()) {
        return Some(template);
    }
    if !is_copied_whole(plan.as_ref()) {
        return None;
    }
    let inputs = plan.children().into_iter().map(|input| with_room(|| template_of(input)));
    let inputs = inputs.collect::<Option<Vec<_>>>()?;
    with_inputs(plan, inputs).ok()
}

/// A copy of a template, with scans of this snapshot in the places of their templates.
fn copy_of(
    template: &Arc<dyn ExecutionPlan>,
    snapshot: &StatementSnapshot,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = scan_of_template(template.as_ref(), snapshot) {
        return scan;
    }
    let inputs = template.children().into_iter().map(|input| with_room(|| copy_of(input, snapshot)));
    with_inputs(template, inputs.collect::<Result<Vec<_>>>()?)
}

/// The node over these inputs, which say the same of their rows as those before, with nothing of what was or will be run in the one before.
fn with_inputs(
    node: &Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if inputs.is_empty() {
        return Ok(Arc::clone(node));
    }
    let keeping = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let made = Arc::clone(node).replace_children(inputs, keeping)?;
    if let Some(aggregate) = made.downcast_ref::<AggregateExec>() {
        let filters = aggregate.dynamic_expressions_produced();
        return if filters.is_empty() { Ok(made) } else { with_own_filter(aggregate) };
    }
    // Over other inputs a join has the side that the one before collects, and a sort its figures and what it takes for the limit.
    if made.is::<HashJoinExec>() {
        return made.reset_state();
    }
    match made.downcast_ref::<SortExec>().map(|sort| sort.fetch().is_some()) {
        None => Ok(made),
        Some(true) => made.reset_state(),
        Some(false) => {
            // Any sort has a filter then, which one without a limit never moves.
            let reset = made.reset_state()?;
            Ok(reset.with_fetch(None).unwrap_or(reset))
        }
    }
}

/// The extremes with a filter of their own, which says what they have seen. It goes along where an aggregate gets another input.
fn with_own_filter(extremes: &AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let made = AggregateExec::try_new(
        *extremes.mode(),
        extremes.group_expr().clone(),
        extremes.aggr_expr().to_vec(),
        extremes.filter_expr().to_vec(),
        Arc::clone(extremes.input()),
        extremes.input_schema(),
    )?;
    if made.schema() != extremes.schema() {
        return internal_err!("extremes that were made anew have other columns");
    }
    Ok(Arc::new(made.with_limit_options(extremes.limit_options())))
}

/// Whether [`with_inputs`] is known to leave nothing in a node of what is run in the one that it was made of. That is another question than whether
/// [parts can be compared](super::shared_subplans): each kind was read for it.
fn is_copied_whole(node: &dyn ExecutionPlan) -> bool {
    node.is::<AggregateExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<EmptyExec>()
        || node.is::<FilterExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<HashJoinExec>()
        || node.is::<InterleaveExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<PlaceholderRowExec>()
        || node.is::<ProjectionExec>()
        || node.is::<RepartitionExec>()
        || node.is::<ScalarSubqueryExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<UnorderedExec>()
        || node.is::<WindowAggExec>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::RecordBatch;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{JoinType, NullEquality};
    use datafusion::execution::TaskContext;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::functions_aggregate::min_max::max_udaf;
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::{Column, lit};
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
    use datafusion::physical_plan::aggregates::{AggregateMode, PhysicalGroupBy};
    use datafusion::physical_plan::joins::PartitionMode;
    use datafusion::physical_plan::{PhysicalExpr, collect};
    use std::collections::HashSet;

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("n", 0))
    }

    fn copied(template: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        copy_of(template, &StatementSnapshot::new([])).unwrap()
    }

    fn figures(plan: &Arc<dyn ExecutionPlan>) -> usize {
        plan.metrics().map_or(0, |figures| figures.iter().count())
    }

    /// To break it: reset no sort without a limit. Each execution would leave its figures in the template.
    #[test]
    fn sorts_have_figures_and_filters_of_their_own() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let order = LexOrdering::from([PhysicalSortExpr::new_default(column())]);
        for limit in [None, Some(1)] {
            let rows = Arc::new(PlaceholderRowExec::new(Arc::clone(&schema)));
            let sort: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order.clone(), rows).with_fetch(limit));
            let template = template_of(&sort).expect("it can be one");
            for run in [sort, copied(&template)] {
                drop(run.execute(0, Arc::default()).unwrap());
                assert!(figures(&run) > 0);
            }
            let next = copied(&template);
            assert_eq!(figures(&next), 0);
            assert_eq!(next.dynamic_expressions_produced().len(), usize::from(limit.is_some()));
        }
    }

    /// To break it: leave an aggregate its filter. What one execution has seen would leave out rows of the next one.
    #[test]
    fn extremes_have_filters_of_their_own() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let rows = Arc::new(PlaceholderRowExec::new(Arc::clone(&schema)));
        let greatest = AggregateExprBuilder::new(max_udaf(), vec![column()]);
        let greatest = greatest.schema(Arc::clone(&schema)).alias("max(n)").build().unwrap();
        let (groups, calls) = (PhysicalGroupBy::new_single(Vec::new()), vec![Arc::new(greatest)]);
        let extremes =
            AggregateExec::try_new(AggregateMode::Partial, groups, calls, vec![None], rows, schema).unwrap();
        let extremes: Arc<dyn ExecutionPlan> = Arc::new(extremes);
        let template = template_of(&extremes).expect("it can be one");
        let plans = [Arc::clone(&template), copied(&template), copied(&template), extremes];
        let filters = plans.iter().flat_map(|plan| plan.dynamic_expressions_produced());
        let filters: HashSet<u64> = filters.filter_map(|filter| filter.expression_id()).collect();
        assert_eq!(filters.len(), plans.len());
    }

    /// To break it: make templates without resetting joins. What the first execution collects would stay, and its memory with it.
    #[test]
    fn a_template_keeps_no_rows_of_the_plan_that_it_was_made_of() {
        let row = || {
            let nothing = Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())));
            Arc::new(ProjectionExec::try_new([(lit(1_i64), "n".to_owned())], nothing).unwrap())
        };
        let (on, kind) = (vec![(column(), column())], JoinType::Inner);
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let join = HashJoinExec::try_new(row(), row(), on, None, &kind, None, mode, nulls, false).unwrap();
        let join: Arc<dyn ExecutionPlan> = Arc::new(join);
        let template = template_of(&join).expect("it can be one");
        let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let environment = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&memory)).build_arc().unwrap();
        let task = Arc::new(TaskContext::default().with_runtime(environment));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let rows = runtime.block_on(collect(Arc::clone(&join), task)).unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        assert!(memory.reserved() > 0, "the join has the side that it has collected");
        drop(join);
        assert_eq!(memory.reserved(), 0);
        assert!(template.is::<HashJoinExec>());
    }
}
