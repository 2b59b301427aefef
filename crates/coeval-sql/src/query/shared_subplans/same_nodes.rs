// SPDX-License-Identifier: Apache-2.0
//! Whether two nodes of a plan do the same with the same inputs.
//!
//! Only kinds of nodes are compared of which it is known what they are made of. What DataFusion shows of a node in a plan is nearly all of
//! it: how a join is done, what a limit is. What it does not show, or shows too shortly, is compared beside it: expressions by themselves,
//! since a text does not tell an integer from a longer one, types of columns, which side of a join a condition's columns are of, and all
//! of an aggregate or a window.
//!
//! Rules that give names to what they make number them through a whole statement, so that copies differ in them. These numbers are left
//! out: a column is found by its place, and a name says no more of it.

use crate::provider::{is_scan, read_the_same};
use arrow::datatypes::{FieldRef, Schema};
use coeval_operators::unordered::UnorderedExec;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
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
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What names begin with that are numbered through a statement: those of common subexpressions, of subqueries that became joins, of
/// fields taken out of rows, of values that follow from the key of a group, and of aggregates that are begun below joins.
const NUMBERED: [&str; 6] = [
    "__common_expr_",
    "__correlated_sq_",
    "__datafusion_extracted_",
    "__scalar_sq_",
    "coeval_any_",
    "coeval_part_",
];

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
        || node.is::<UnorderedExec>()
        || node.is::<WindowAggExec>()
}

/// What a node computes, without numbers in names; `None` if that may be something else the next time, or depends on when it is computed.
/// Filters that a node is to fill while it runs are no part of it: nobody reads them yet.
pub(super) fn comparable_expressions(node: &dyn ExecutionPlan) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let mut expressions = Vec::new();
    let visited = node.apply_expressions(&mut |expression: &Arc<dyn PhysicalExpr>| {
        if !expression.is::<DynamicFilterPhysicalExpr>() {
            expressions.push(comparable(expression));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if visited.is_err() {
        return None;
    }
    expressions.into_iter().collect()
}

/// The expression without numbers in names, if it gives the same each time, and at any time: the value of a subquery is there once that
/// has run, in its own part of the plan.
fn comparable(expression: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let depends = expression.exists(|part| Ok(part.is_volatile_node() || part.is::<ScalarSubqueryExpr>()));
    if !matches!(depends, Ok(false)) {
        return None;
    }
    let renamed = Arc::clone(expression).transform(|part| {
        let numbered = part.downcast_ref::<Column>().filter(|column| is_numbered(column.name()));
        let renamed = numbered.map(|column| Column::new(&without_numbers(column.name()), column.index()));
        Ok(match renamed {
            Some(column) => Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(part),
        })
    });
    renamed.ok().map(|renamed| renamed.data)
}

fn is_numbered(name: &str) -> bool {
    NUMBERED.iter().any(|prefix| name.contains(prefix))
}

/// The text in which numbered names have no numbers.
fn without_numbers(text: &str) -> String {
    NUMBERED.into_iter().fold(text.to_owned(), |text, prefix| {
        let mut parts = text.split(prefix);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |before, part| {
            before + prefix + part.trim_start_matches(|letter: char| letter.is_ascii_digit())
        })
    })
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
    let text = |node: &dyn ExecutionPlan| without_numbers(&displayable(node).one_line().to_string());
    one.name() == other.name()
        && partitions(one) == partitions(other)
        && have_same_fields(&one.schema(), &other.schema())
        && have_same_parts(one, other)
        && text(one) == text(other)
}

/// Whether what is not shown of two nodes is the same.
fn have_same_parts(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    if let Some((one, other)) = both::<AggregateExec>(one, other) {
        let functions = |aggregate: &AggregateExec| {
            aggregate.aggr_expr().iter().map(|call| call.fun().clone()).collect::<Vec<_>>()
        };
        return functions(one) == functions(other)
            && one.limit_options() == other.limit_options()
            && have_same_fields(&one.input_schema(), &other.input_schema())
            && are_alike(one.group_expr(), other.group_expr())
            && are_alike(one.filter_expr(), other.filter_expr())
            && are_alike(one.aggr_expr(), other.aggr_expr());
    }
    if let Some((one, other)) = both::<BoundedWindowAggExec>(one, other) {
        return are_alike(one.window_expr(), other.window_expr());
    }
    if let Some((one, other)) = both::<WindowAggExec>(one, other) {
        return are_alike(one.window_expr(), other.window_expr());
    }
    if let Some((one, other)) = both::<HashJoinExec>(one, other) {
        return are_over_the_same(one.filter(), other.filter());
    }
    if let Some((one, other)) = both::<NestedLoopJoinExec>(one, other) {
        return are_over_the_same(one.filter(), other.filter());
    }
    true
}

/// Whether all that two values are made of is the same, except numbers in names.
fn are_alike<T: Debug + ?Sized>(one: &T, other: &T) -> bool {
    without_numbers(&format!("{one:?}")) == without_numbers(&format!("{other:?}"))
}

/// Whether columns are the same, except numbers in their names.
fn have_same_fields(one: &Schema, other: &Schema) -> bool {
    let is_same = |(one, other): (&FieldRef, &FieldRef)| {
        one.data_type() == other.data_type()
            && one.is_nullable() == other.is_nullable()
            && one.metadata() == other.metadata()
            && (one.name() == other.name() || without_numbers(one.name()) == without_numbers(other.name()))
    };
    one.fields().len() == other.fields().len() && one.fields().iter().zip(other.fields()).all(is_same)
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
            one.column_indices() == other.column_indices() && have_same_fields(one.schema(), other.schema())
        }
        _ => false,
    }
}
