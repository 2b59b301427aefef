// SPDX-License-Identifier: Apache-2.0
//! Rows that are there several times are left out below the joins of a DISTINCT.
//!
//! `SELECT DISTINCT c.name, d.day FROM sales s JOIN customers c ON .. JOIN days d ON ..` reads two numbers of each sale, and a customer buys
//! ten things at once: ten rows that are the same are joined with the same name and the same day, which are hashed ten times. Whether
//! such a row comes once or ten times makes no difference to a DISTINCT above inner joins, so it is asked for below them, too:
//!
//! ```text
//! AggregateExec: mode=Partial, gby=[name, day], aggr=[]       as before
//!   joins, projections, exchanges                             as before
//!     AggregateExec: mode=Partial, gby=[all columns], aggr=[]
//!       a scan
//! ```
//!
//! What stands there is the first step of a GROUP BY, without a second one: it may give a row several times. It becomes one by codes
//! ([`coded_groups`](crate::coded_groups)), which gives up when rows do not become fewer. That costs what was grouped in vain, so it is only tried
//! where scans give many rows of few whole numbers or dates, of which there are not too many combinations by their bounds.

use crate::unordered::UnorderedExec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, PhysicalGroupBy,
};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode, PhysicalExpr};
use std::sync::Arc;

/// Fewer rows are joined as they are.
const ROWS_MIN: usize = 20_000;

/// So many times more combinations of values than rows there may be. If columns did not depend on each other, no row would be there twice
/// then; but who buys at a day buys several things.
const COMBINATIONS_PER_ROW_MAX: f64 = 512.0;

/// The plan with such a step below the joins of each DISTINCT where it may pay. For plans whose GROUP BY has its steps already.
///
/// # Errors
///
/// Those of making operators with other inputs.
pub fn with_distinct_below_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|one| is_distinct(one)) else {
            return Ok(Transformed::no(node));
        };
        match begun_below(aggregate.input(), 0)? {
            Some(input) => Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(changed.data)
}

/// Whether it reads rows and gives each of its groups, whatever number of rows that has.
fn is_distinct(aggregate: &AggregateExec) -> bool {
    let group_by = aggregate.group_expr();
    matches!(aggregate.mode().input_mode(), AggregateInputMode::Raw)
        && aggregate.aggr_expr().is_empty()
        && aggregate.limit_options().is_none()
        && group_by.is_single()
        && !group_by.expr().iter().any(|(value, _)| is_volatile(value))
}

/// The node over rows that are less often there several times; `None` if it stays as it is. So many joins were passed on the way.
fn begun_below(node: &Arc<dyn ExecutionPlan>, joins: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(place) = passed_on(node.as_ref()) else {
        return if joins > 0 { distinct(node) } else { Ok(None) };
    };
    let joins = joins + usize::from(node.is::<HashJoinExec>());
    let mut children: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().map(Arc::clone).collect();
    let Some(child) = begun_below(&children[place], joins)? else { return Ok(None) };
    children[place] = child;
    replace_children_if_necessary(Arc::clone(node), children).map(Some)
}

/// Which of its inputs a node takes rows of, so that the same rows make the same rows, and nothing comes of their number; of a join the
/// one that is looked up, as it has more rows.
fn passed_on(node: &dyn ExecutionPlan) -> Option<usize> {
    if node.fetch().is_some() {
        return None;
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let is_steady = !projection.expr().iter().any(|one| is_volatile(&one.expr));
        return is_steady.then_some(0);
    }
    if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        return (!exchange.preserve_order()).then_some(0);
    }
    let join = node.downcast_ref::<HashJoinExec>()?;
    let is_steady = join.filter().is_none_or(|filter| !is_volatile(filter.expression()));
    (*join.join_type() == JoinType::Inner && is_steady).then_some(1)
}

/// The distinct ones of these rows, or most of them; `None` if they stay as they are.
fn distinct(rows: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !is_scan(rows) || !may_pay(rows) {
        return Ok(None);
    }
    let schema = rows.schema();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        columns.push((column, field.name().clone()));
    }
    let (groups, input) = (PhysicalGroupBy::new_single(columns), Arc::clone(rows));
    let first_step = AggregateMode::Partial;
    let distinct =
        AggregateExec::try_new(first_step, groups, Vec::new(), Vec::new(), input, Arc::clone(&schema))?;
    let is_plain = *distinct.input_order_mode() == InputOrderMode::Linear && distinct.schema() == schema;
    Ok(is_plain.then(|| Arc::new(distinct) as Arc<dyn ExecutionPlan>))
}

/// Whether a node gives the rows of a leaf, or some of them.
fn is_scan(rows: &Arc<dyn ExecutionPlan>) -> bool {
    let is_passing = rows.is::<FilterExec>() || rows.is::<CooperativeExec>() || rows.is::<UnorderedExec>();
    match rows.children().as_slice() {
        [] => true,
        [below] => is_passing && is_scan(below),
        _ => false,
    }
}

/// Whether these are many rows of whole numbers or dates, which have few combinations of values.
fn may_pay(rows: &Arc<dyn ExecutionPlan>) -> bool {
    let Ok(statistics) = StatisticsContext::new().compute(rows.as_ref(), &StatisticsArgs::new()) else {
        return false;
    };
    let columns = &statistics.column_statistics;
    let Some(count) = statistics.num_rows.get_value().filter(|count| **count >= ROWS_MIN) else {
        return false;
    };
    if columns.is_empty() || columns.len() != rows.schema().fields().len() {
        return false;
    }
    let mut combinations = 1.0;
    for column in columns {
        let bounds = [&column.min_value, &column.max_value].map(|bound| number(bound.get_value()?));
        let [Some(least), Some(most)] = bounds else { return false };
        combinations *= least.abs_diff(most) as f64 + 1.0;
    }
    combinations <= *count as f64 * COMBINATIONS_PER_ROW_MAX
}

/// A whole number, or the number of a date.
fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}
