// SPDX-License-Identifier: Apache-2.0
//! Rows whose order nobody is told.
//!
//! A scan gives rows in the order of the primary key. Where GROUP BY has the key's first column among others, DataFusion's operator uses
//! that: whenever the column changes, the groups of the value before are complete, and go out. The groups take little memory then, but it
//! looks for such an end in each batch, and takes groups out of its table one part after the other; on TPC-DS that costs more than
//! to keep all groups, and [`coded_groups`](crate::coded_groups) is for rows in no order.
//!
//! So this operator stands below the first step of such a GROUP BY, hands on what it gets, and does not say that it has an order. It is put
//! there before the exchanges and sorts are, so that whoever needs an order gets a sort.
//!
//! Where only the first groups are wanted in that order (`GROUP BY a, b ORDER BY a LIMIT 10`), the order stays: they are there long
//! before the last row is read. The same goes for a GROUP BY of which all columns are in order, for which no table is needed.
//!
//! # Below several grouping sets
//!
//! In `GROUP BY ROLLUP (a, b)` columns are NULL in the groups of those sets that leave them out. DataFusion takes what it knows of the rows for
//! known of the groups all the same: their order, which columns are equal, and which are constants. Then it leaves out sorts that are needed
//! (`ORDER BY a`), and divides no rows for `PARTITION BY`. So it is told nothing of rows that are grouped by sets.

use crate::over_one_input;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode, PhysicalExpr,
    PlanProperties,
};
use std::fmt;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The plan with the operator below each first step of a GROUP BY that would go by the order of a part of its columns. For plans that
/// have no exchanges and sorts for their own sake yet.
///
/// # Errors
///
/// Those of making operators with other inputs.
pub fn with_unordered_groups(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    visit(plan, First::All)
}

/// Which rows of an operator are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// All of them.
    All,
    /// The first ones, maybe, so that it pays to give them early.
    Early,
}

/// The plan with the operator below each first step of a GROUP BY of several sets, of whose rows something is known. For plans that have no
/// exchanges and sorts for their own sake yet.
///
/// # Errors
///
/// Those of making operators with other inputs.
pub fn with_sets_of_unknown_rows(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let done = plan.transform_up(|node| {
        if !makes_sets_of_known_rows(node.as_ref()) {
            return Ok(Transformed::no(node));
        }
        let unknown = |rows: &Arc<dyn ExecutionPlan>| {
            Arc::new(UnorderedExec::telling(Arc::clone(rows), Told::Nothing)) as Arc<dyn ExecutionPlan>
        };
        let children = node.children().into_iter().map(unknown).collect();
        replace_children_if_necessary(node, children).map(Transformed::yes)
    })?;
    Ok(done.data)
}

fn makes_sets_of_known_rows(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        let known = aggregate.input().equivalence_properties();
        aggregate.group_expr().has_grouping_set()
            && !(known.eq_group().is_empty() && known.oeq_class().is_empty())
    })
}

fn visit(plan: Arc<dyn ExecutionPlan>, wanted: First) -> Result<Arc<dyn ExecutionPlan>> {
    let below = wanted_below(plan.as_ref(), wanted);
    let mut children = Vec::new();
    for child in plan.children() {
        children.push(visit(Arc::clone(child), below)?);
    }
    if goes_by_a_part_of_an_order(plan.as_ref()) && wanted == First::All {
        children = children.into_iter().map(|rows| Arc::new(UnorderedExec::new(rows)) as _).collect();
    }
    replace_children_if_necessary(plan, children)
}

fn wanted_below(plan: &dyn ExecutionPlan, wanted: First) -> First {
    if plan.downcast_ref::<GlobalLimitExec>().is_some() || plan.downcast_ref::<LocalLimitExec>().is_some() {
        return First::Early;
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>()
        && sort.fetch().is_some()
    {
        let begins_in_order =
            sort.input().equivalence_properties().ordering_satisfy([sort.expr().first().clone()]);
        return if begins_in_order.unwrap_or(true) { First::Early } else { First::All };
    }
    let hands_on = plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<SortPreservingMergeExec>().is_some()
        || plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
            matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
        })
        || plan.name() == "FilterExec";
    if hands_on { wanted } else { First::All }
}

/// Whether it is a first step of a GROUP BY whose rows are in the order of some of its columns.
fn goes_by_a_part_of_an_order(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        *aggregate.mode() == AggregateMode::Partial
            && matches!(aggregate.input_order_mode(), InputOrderMode::PartiallySorted(_))
            && aggregate.aggr_expr().iter().all(|call| call.order_bys().is_empty())
            // A column that a filter leaves one value of counts as in order, too.
            && !aggregate.input().equivalence_properties().oeq_class().is_empty()
    })
}

/// What is told of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// All but their order.
    AllButOrder,
    /// Not even which columns are equal or constant.
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub struct UnorderedExec {
    rows: Arc<dyn ExecutionPlan>,
    told: Told,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    /// These rows.
    #[must_use]
    pub fn new(rows: Arc<dyn ExecutionPlan>) -> Self {
        Self::telling(rows, Told::AllButOrder)
    }

    fn telling(rows: Arc<dyn ExecutionPlan>, told: Told) -> Self {
        let equivalences = match told {
            Told::AllButOrder => {
                let mut known = rows.equivalence_properties().clone();
                known.clear_orderings();
                known
            }
            Told::Nothing => EquivalenceProperties::new(rows.schema()),
        };
        let properties = PlanProperties::new(
            equivalences,
            rows.output_partitioning().clone(),
            rows.pipeline_behavior(),
            rows.boundedness(),
        );
        Self { rows, told, properties: Arc::new(properties) }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => f.write_str("UnorderedExec"),
            DisplayFormatType::TreeRender => Ok(()),
        }
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    over_one_input!(rows, |old, rows| Arc::new(Self::telling(rows, old.told)));

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.rows.execute(partition, task)
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

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if projection.expr().len() >= self.schema().fields().len() {
            return Ok(None);
        }
        let below = make_with_child(projection, &self.rows)?;
        Ok(Some(Arc::new(Self::telling(below, self.told))))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
