// SPDX-License-Identifier: Apache-2.0
//! The best few rows of each group, without sorting the rest: rows that cannot be among them are dropped before the sort.
//!
//! `SELECT ... FROM (SELECT ..., row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n <= 3` is planned as a sort of all
//! rows by `g, v`, a count along the sorted rows, and a filter that drops nearly all of them. The rule puts an operator below the
//! sort, and below the exchange between threads if there is one, which drops most of them as they are read:
//!
//! ```text
//! FilterExec: n <= 3                                  as before
//!   BoundedWindowAggExec: row_number() ...            as before, few rows
//!     SortExec: g, v                                  as before, few rows
//!       RepartitionExec: hash of g                    as before, few rows
//!         GroupTopExec: keep=3, group=[g], order=v    drops a row when enough rows of its group come before it
//!           scan
//! ```
//!
//! Nothing above depends on what the operator drops, so it is free to keep too much: it compares the first ORDER BY column alone, of
//! texts the first bytes, and stops dropping when that does not pay or memory is short. What it must not do is drop a row that the
//! filter would pass; [`best`] has the rule for each function, and why it holds.
//!
//! DataFusion has a rule of its own for this (`WindowTopN`, off unless asked for), which keeps a heap of whole rows for each group.

mod best;
mod operator;
mod order_keys;
#[cfg(test)]
mod tests;

pub(crate) use best::Ranking;
pub(crate) use operator::GroupTopExec;

use crate::plan_rule::PlanRule;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Operator, WindowFrameBound};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use order_keys::OrderKey;
use std::sync::Arc;

/// More rows of each group than this are not worth it: the filter passes much of the table.
const KEEP_MAX: u64 = 128;

/// The rule. Behind those that put sorts and exchanges in, and before those that have other nodes do what stands above their bricks.
pub(crate) const GROUP_TOP: PlanRule =
    PlanRule::new("coeval_group_top", |plan, _| plan.transform_up(dropped_early).map(|done| done.data))
        .about(|node| node.is::<BoundedWindowAggExec>())
        .switched_by("coeval.group_top");

fn dropped_early(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(top) = node.downcast_ref::<FilterExec>().and_then(top_of) else {
        return Ok(Transformed::no(node));
    };
    Ok(below_sort(&node, &top)?.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// What a filter above a window leaves of each group.
#[derive(Clone, Debug)]
pub(crate) struct Top {
    ranking: Ranking,
    keep: usize,
    group: Vec<Arc<dyn PhysicalExpr>>,
    order: Option<OrderKey>,
}

impl Top {
    /// So many rows, or values, of each group of rows with these columns, by the first column of an order; `None` if groups or the order
    /// have no keys, or nothing is left, or more than is worth it.
    pub(crate) fn new(
        (ranking, keep): (Ranking, usize),
        group: Vec<Arc<dyn PhysicalExpr>>,
        first: Option<&PhysicalSortExpr>,
        schema: &Schema,
    ) -> Option<Self> {
        let is_group = |expression: &Arc<dyn PhysicalExpr>| {
            let compares_as_equal = |kind| operator::groups_by(&kind);
            !is_volatile(expression) && expression.data_type(schema).is_ok_and(compares_as_equal)
        };
        let is_few = u64::try_from(keep).is_ok_and(|keep| (1..=KEEP_MAX).contains(&keep));
        if !is_few || group.is_empty() || !group.iter().all(is_group) {
            return None;
        }
        let order = match first {
            None => None,
            Some(first) => Some(OrderKey::of(first, schema)?),
        };
        Some(Self { ranking, keep, group, order })
    }

    /// By which function rows are the best.
    pub(crate) fn ranking(&self) -> Ranking {
        self.ranking
    }

    /// How many of them are kept.
    pub(crate) fn keep(&self) -> usize {
        self.keep
    }

    /// What tells groups apart.
    pub(crate) fn group(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.group
    }

    /// The first column of the order.
    pub(crate) fn first(&self) -> Option<PhysicalSortExpr> {
        self.order.as_ref().map(OrderKey::sort_expression)
    }
}

/// What the filter leaves of each group, if one of its conditions bounds a rank right below it.
fn top_of(filter: &FilterExec) -> Option<Top> {
    let window = window_below(filter.input())?;
    let conditions = split_conjunction(filter.predicate());
    conditions.into_iter().find_map(|condition| {
        let (column, keep) = bounded(condition)?;
        let column = column_of_window(filter.input(), column)?;
        let ranked = window.window_expr().get(column.checked_sub(window.input().schema().fields().len())?)?;
        top_of_window(window, ranked, keep)
    })
}

/// Operators that may stand between the filter and the window: they change no row.
fn passes_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_division = |exchange: &RepartitionExec| !exchange.maintains_input_order().contains(&true);
    node.is::<ProjectionExec>() || node.downcast_ref::<RepartitionExec>().is_some_and(is_division)
}

fn window_below(node: &Arc<dyn ExecutionPlan>) -> Option<&BoundedWindowAggExec> {
    match node.downcast_ref::<BoundedWindowAggExec>() {
        Some(window) => Some(window),
        None if passes_rows(node) => window_below(node.children().first()?),
        None => None,
    }
}

/// The place among the window's columns of what is a column of the plan above it.
fn column_of_window(node: &Arc<dyn ExecutionPlan>, column: usize) -> Option<usize> {
    if node.is::<BoundedWindowAggExec>() {
        return Some(column);
    }
    let column = match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => plain_column(&projection.expr().get(column)?.expr)?,
        None => column,
    };
    column_of_window(node.children().first()?, column)
}

/// The column that an expression is, but for its type.
fn plain_column(expression: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        return if cast.cast_type().is_integer() { plain_column(cast.expr()) } else { None };
    }
    expression.downcast_ref::<Column>().map(Column::index)
}

/// The column that a condition bounds, and the highest value that passes.
fn bounded(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, usize)> {
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (comparison.left(), comparison.right());
    let (column, literal, operator) = match (plain_column(left), plain_column(right)) {
        (Some(column), None) => (column, right, *comparison.op()),
        (None, Some(column)) => (column, left, comparison.op().swap()?),
        _ => return None,
    };
    let value = u64::try_from(integer(literal)?).ok()?;
    let keep = match operator {
        Operator::Eq | Operator::LtEq => value,
        Operator::Lt => value.checked_sub(1)?,
        _ => return None,
    };
    (1..=KEEP_MAX).contains(&keep).then_some((column, usize::try_from(keep).ok()?))
}

fn integer(expression: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    use datafusion::common::ScalarValue::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match expression.downcast_ref::<Literal>()?.value() {
        Int8(value) => value.map(i64::from),
        Int16(value) => value.map(i64::from),
        Int32(value) => value.map(i64::from),
        Int64(value) => *value,
        UInt8(value) => value.map(i64::from),
        UInt16(value) => value.map(i64::from),
        UInt32(value) => value.map(i64::from),
        UInt64(value) => value.and_then(|value| i64::try_from(value).ok()),
        _ => None,
    }
}

/// What is left of each group of a window by one of its functions, if all of them see only what comes before a row and its equals.
fn top_of_window(window: &BoundedWindowAggExec, ranked: &Arc<dyn WindowExpr>, keep: usize) -> Option<Top> {
    let expressions = window.window_expr();
    if !expressions.iter().all(|other| ranking_of(other).is_some() || sees_none_behind(other, ranked)) {
        return None;
    }
    let are_all_ranks = expressions.iter().all(|other| ranking_of(other).is_some());
    let (schema, group) = (window.input().schema(), ranked.partition_by().to_vec());
    let top = Top::new((ranking_of(ranked)?, keep), group, ranked.order_by().first(), &schema)?;
    let is_whole = top.order.as_ref().is_none_or(|key| key.is_exact() && ranked.order_by().len() == 1);
    let ranking = match top.ranking {
        // Rows that only the rest of the order tells apart, or that aggregates see together: all of them are kept.
        Ranking::Rows if !(is_whole && are_all_ranks) => Ranking::Ranks,
        ranking => ranking,
    };
    Some(Top { ranking, ..top })
}

/// Whether a function is an aggregate of rows that come before a row in the order of the bounded one, and of rows that are equal to it.
fn sees_none_behind(function: &Arc<dyn WindowExpr>, bounded: &Arc<dyn WindowExpr>) -> bool {
    let kind = function.as_any();
    let is_aggregate = kind.is::<PlainAggregateWindowExpr>() || kind.is::<SlidingAggregateWindowExpr>();
    let ends_at_row = matches!(
        function.get_window_frame().end_bound,
        WindowFrameBound::CurrentRow | WindowFrameBound::Preceding(_)
    );
    is_aggregate
        && ends_at_row
        && function.partition_by() == bounded.partition_by()
        && function.order_by() == bounded.order_by()
}

fn ranking_of(expression: &Arc<dyn WindowExpr>) -> Option<Ranking> {
    let function = expression.as_any().downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
    match function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name() {
        "row_number" => Some(Ranking::Rows),
        "rank" => Some(Ranking::Ranks),
        "dense_rank" => Some(Ranking::Values),
        _ => None,
    }
}

/// The plan from the filter down to the window, with the operator below the sort that the window reads; `None` if it reads something
/// else. Another window would see what the operator drops.
fn below_sort(node: &Arc<dyn ExecutionPlan>, top: &Top) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = node.children();
    let [child] = children.as_slice() else { return Ok(None) };
    let child = if node.is::<BoundedWindowAggExec>() {
        let Some(sort) = child.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
            return Ok(None);
        };
        let rows = below_exchange(sort.input(), top)?;
        Some(replace_children_if_necessary(Arc::clone(child), vec![rows])?)
    } else {
        below_sort(child, top)?
    };
    child.map(|child| replace_children_if_necessary(Arc::clone(node), vec![child])).transpose()
}

/// The plan with the operator at its top, or below what brings the rows of a group together there.
fn below_exchange(node: &Arc<dyn ExecutionPlan>, top: &Top) -> Result<Arc<dyn ExecutionPlan>> {
    let is_by_group = |exchange: &RepartitionExec| {
        matches!(exchange.partitioning(), Partitioning::Hash(..)) && !exchange.preserve_order()
    };
    if node.is::<CoalescePartitionsExec>() || node.downcast_ref().is_some_and(is_by_group) {
        let inputs = node.children().into_iter().map(|input| below_exchange(input, top));
        return replace_children_if_necessary(Arc::clone(node), inputs.collect::<Result<_>>()?);
    }
    Ok(Arc::new(GroupTopExec::new(Arc::clone(node), top.clone())))
}
