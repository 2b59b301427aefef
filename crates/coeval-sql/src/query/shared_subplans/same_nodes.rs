// SPDX-License-Identifier: Apache-2.0
//! Whether two nodes of a plan do the same with the same inputs.
//!
//! Only kinds of nodes are compared of which it is known what they are made of. What DataFusion shows of a node in a plan is nearly all of
//! it: how a join is done, what a limit is. What it does not show, or shows too shortly, is compared beside it: expressions by themselves,
//! since a text does not tell an integer from a longer one, types and names of columns, which side of a join a condition's columns are
//! of, and all of an aggregate or a window.

use crate::provider::{is_scan, read_the_same};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, displayable};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Whether it is known what nodes of this kind are made of.
pub(super) fn is_known(node: &dyn ExecutionPlan) -> bool {
    is_scan(node)
        || node.is::<AggregateExec>()
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
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<WindowAggExec>()
}

/// What a node computes; `None` if that may be something else the next time, or depends on when it is computed. Filters that a node is to
/// fill while it runs are no part of it: nobody reads them yet.
pub(super) fn comparable_expressions(node: &dyn ExecutionPlan) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let (mut expressions, mut are_comparable) = (Vec::new(), true);
    let visited = node.apply_expressions(&mut |expression: &Arc<dyn PhysicalExpr>| {
        if !expression.is::<DynamicFilterPhysicalExpr>() {
            are_comparable &= is_comparable(expression);
            expressions.push(Arc::clone(expression));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    (visited.is_ok() && are_comparable).then_some(expressions)
}

/// Whether it gives the same each time, and at any time: the value of a subquery is there once that has run, in its own part of the plan.
fn is_comparable(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let depends = expression.exists(|part| Ok(part.is_volatile_node() || part.is::<ScalarSubqueryExpr>()));
    matches!(depends, Ok(false))
}

/// The same for nodes that are the same.
pub(super) fn hash_of(
    node: &dyn ExecutionPlan,
    inputs: &[usize],
    expressions: &[Arc<dyn PhysicalExpr>],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node.name(), inputs, expressions).hash(&mut hasher);
    hasher.finish()
}

/// Whether two known nodes of equal expressions are the same but for their inputs.
pub(super) fn are_same(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    if is_scan(one) || is_scan(other) {
        return read_the_same(one, other);
    }
    let partitions = |node: &dyn ExecutionPlan| node.properties().output_partitioning().partition_count();
    let text = |node: &dyn ExecutionPlan| displayable(node).one_line().to_string();
    one.name() == other.name()
        && partitions(one) == partitions(other)
        && one.schema() == other.schema()
        && have_same_parts(one, other)
        && text(one) == text(other)
}

/// Whether what is not shown of two nodes is the same.
fn have_same_parts(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    if let Some((one, other)) = both::<AggregateExec>(one, other) {
        return one.group_expr() == other.group_expr()
            && one.filter_expr() == other.filter_expr()
            && one.limit_options() == other.limit_options()
            && one.input_schema() == other.input_schema()
            && one.aggr_expr() == other.aggr_expr()
            && format!("{:?}", one.aggr_expr()) == format!("{:?}", other.aggr_expr());
    }
    if let Some((one, other)) = both::<BoundedWindowAggExec>(one, other) {
        return format!("{:?}", one.window_expr()) == format!("{:?}", other.window_expr());
    }
    if let Some((one, other)) = both::<WindowAggExec>(one, other) {
        return format!("{:?}", one.window_expr()) == format!("{:?}", other.window_expr());
    }
    if let Some((one, other)) = both::<HashJoinExec>(one, other) {
        return are_over_the_same(one.filter(), other.filter());
    }
    if let Some((one, other)) = both::<NestedLoopJoinExec>(one, other) {
        return are_over_the_same(one.filter(), other.filter());
    }
    true
}

/// Both nodes, if both are of this type.
fn both<'n, N: ExecutionPlan>(
    one: &'n dyn ExecutionPlan,
    other: &'n dyn ExecutionPlan,
) -> Option<(&'n N, &'n N)> {
    Some((one.downcast_ref::<N>()?, other.downcast_ref::<N>()?))
}

/// Whether the conditions of two joins, which are equal, are over the same columns.
fn are_over_the_same(one: Option<&JoinFilter>, other: Option<&JoinFilter>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.column_indices() == other.column_indices() && one.schema() == other.schema()
        }
        _ => false,
    }
}
