// SPDX-License-Identifier: Apache-2.0
//! The rules that put operators and expressions of `coeval-operators` into plans, in the order in which they come.

use super::windowed::is_unfiltered;
use crate::guarded::guarded;
use crate::plan_rule::PlanRule;
use coeval_operators::coded_groups::{CodedGroupsExec, with_coded_groups, with_packed_remainders};
use coeval_operators::compared_pairs::with_compared_pairs;
use coeval_operators::distinct_below_joins::with_distinct_below_joins;
use coeval_operators::grouping_sets::with_grouping_sets;
use coeval_operators::integer_join::with_integer_joins;
use coeval_operators::narrow_decimals::with_narrow_decimals;
use coeval_operators::packed_groups::with_packed_groups;
use coeval_operators::running_windows::with_running_windows;
use coeval_operators::stepwise_filter::with_stepwise_filters;
use coeval_operators::unordered::{with_sets_of_unknown_rows, with_unordered_groups};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

/// Behind the one that decides which side of a join is built, as rows go out in the order of the other, and before those that divide rows
/// among threads and sort them: rows that are in the order of some of the columns they are grouped by are grouped as if they were not.
pub(crate) const UNORDERED_GROUPS: PlanRule =
    PlanRule::new("coeval_unordered_groups", |plan, _| with_unordered_groups(plan))
        .about(|node| node.is::<AggregateExec>())
        .switched_by("coeval.coded_groups");

/// Beside it: what is known of rows is not known of their groups by several sets of columns.
pub(crate) const UNKNOWN_SETS: PlanRule =
    PlanRule::new("coeval_unknown_sets", |plan, _| with_sets_of_unknown_rows(plan)).about(has_grouping_sets);

/// Behind those that divide aggregates into steps, and before those that make the first step quicker, at bricks or by codes.
pub(crate) const GROUPING_SETS: PlanRule =
    PlanRule::new("coeval_grouping_sets", |plan, _| with_grouping_sets(plan))
        .about(has_grouping_sets)
        .switched_by("coeval.grouping_sets");

/// Behind those that write parts of a plan down for other nodes or look for operators in its expressions, and before the one that
/// groups by codes, which asks the expressions for integers.
pub(crate) const NARROW_DECIMALS: PlanRule =
    PlanRule::new("coeval_narrow_decimals", |plan, _| with_narrow_decimals(plan))
        .switched_by("coeval.narrow_decimals");

/// Behind those that divide aggregates into steps, and the one that begins them at bricks. What a DISTINCT asks for below its joins is for
/// codes alone.
pub(crate) const CODED_GROUPS: PlanRule =
    PlanRule::new("coeval_coded_groups", |plan, _| with_coded_groups(with_distinct_below_joins(plan)?))
        .about(|node| node.is::<AggregateExec>())
        .switched_by("coeval.coded_groups");

/// Behind the one that groups by codes, which is quicker while groups are few: this one is for the steps that are left, and for the rows
/// that the codes leave over.
pub(crate) const PACKED_GROUPS: PlanRule =
    PlanRule::new("coeval_packed_groups", |plan, _| with_packed_remainders(with_packed_groups(plan)?))
        .about(|node| node.is::<AggregateExec>() || node.is::<CodedGroupsExec>())
        .switched_by("coeval.packed_groups");

/// Behind those that look for DataFusion's windows: the one that keeps the best rows of groups, and the one that finds subplans again.
pub(crate) const RUNNING_WINDOWS: PlanRule =
    PlanRule::new("coeval_running_windows", |plan, _| with_running_windows(plan, is_unfiltered))
        .about(|node| node.is::<BoundedWindowAggExec>() || node.is::<WindowAggExec>())
        .switched_by("coeval.running_windows");

/// Behind all that look for filters, and before the one that lets the conditions of a filter guard each other: this operator does so itself,
/// and has the parts of each condition guarded. What joins ask of pairs is compared by the same loops.
pub(crate) const STEPWISE_FILTERS: PlanRule = PlanRule::new("coeval_stepwise_filters", |plan, _| {
    with_stepwise_filters(with_compared_pairs(plan)?, guarded)
})
.about(|node| node.is::<FilterExec>() || node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>())
.switched_by("coeval.stepwise_filters");

/// Comes last: all others look for DataFusion's joins, and the conditions of joins guard each other by then.
pub(crate) const INTEGER_JOINS: PlanRule =
    PlanRule::new("coeval_integer_joins", |plan, _| with_integer_joins(plan))
        .about(|node| node.is::<HashJoinExec>())
        .switched_by("coeval.integer_joins");

fn has_grouping_sets(node: &dyn ExecutionPlan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| aggregate.group_expr().has_grouping_set())
}

#[cfg(test)]
mod tests;
