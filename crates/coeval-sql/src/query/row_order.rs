// SPDX-License-Identifier: Apache-2.0
//! Rows that get numbers of sequences one after the other: in the order in which the query gives them, as in PostgreSQL.
//!
//! Threads hand the rows of a query over as they come by them, so that rows which are numbered behind that had their numbers in another
//! order each time. A query that takes numbers, or whose rows are given some when they are inserted, is run by one thread, unless it says
//! itself in which order its rows come, or gives groups, of which nobody expects an order. What parts of it give one after the other, as
//! those of UNION ALL, is read in that order too.
//!
//! ```text
//! SELECT nextval('s'), v FROM t ORDER BY v
//!   -> SELECT nextval('s'), v of (SELECT v FROM t ORDER BY v)
//! ```
//! That holds in subqueries too. But where rows are sorted again around one without a LIMIT, DataFusion leaves out what sorts them first.

use super::rewriting::rewrite_plan;
use crate::sequences::is_sequence_function;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

/// What a column is called that a number is computed of, a name that no query has.
const INPUT: &str = "coeval numbered ";

/// In which order the rows of a query come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// As the query says, else as threads come by them.
    Any,
    /// As one thread comes by them.
    OfOneThread,
}

/// Whether several threads may give the rows of a plan in an order that somebody would miss.
pub(super) fn depends_on_threads(mut plan: &LogicalPlan) -> bool {
    // Sorted rows of which something is computed are divided among threads again.
    let mut is_computed = false;
    loop {
        plan = match plan {
            LogicalPlan::Projection(node) => {
                is_computed |= !node.expr.iter().all(is_as_read);
                node.input.as_ref()
            }
            LogicalPlan::Filter(node) => {
                is_computed = true;
                node.input.as_ref()
            }
            LogicalPlan::Limit(node) => node.input.as_ref(),
            LogicalPlan::SubqueryAlias(node) => node.input.as_ref(),
            LogicalPlan::Sort(_) => return is_computed,
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => return false,
            _ => return true,
        }
    }
}

/// Whether an output is a column or a constant.
fn is_as_read(output: &Expr) -> bool {
    match output {
        Expr::Alias(alias) => is_as_read(&alias.expr),
        Expr::Column(_) | Expr::Literal(..) => true,
        _ => false,
    }
}

/// Begins to run a plan whose rows come in this order.
///
/// # Errors
/// Those of its operators.
pub(super) fn execute_in(
    order: RowOrder,
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let partitions = plan.output_partitioning().partition_count();
    if order == RowOrder::Any || partitions < 2 {
        return execute_stream(plan, task);
    }
    let (schema, task) = (plan.schema(), one_after_the_other(&task));
    let execute = move |partition| plan.execute(partition, Arc::clone(&task));
    let rows = stream::iter(0..partitions).map(execute).try_flatten();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The task of partitions that run one after the other. A join that tells the scans of its larger side what it looks for waits until all
/// partitions have come to it, so that the first one would wait without an end for the others: none tells them anything.
fn one_after_the_other(task: &TaskContext) -> Arc<TaskContext> {
    let mut config = task.session_config().clone();
    config.options_mut().optimizer.enable_join_dynamic_filter_pushdown = false;
    Arc::new(TaskContext::new(
        task.task_id(),
        task.session_id(),
        config,
        task.scalar_functions().clone(),
        task.higher_order_functions().clone(),
        task.aggregate_functions().clone(),
        task.window_functions().clone(),
        task.runtime_env(),
    ))
}

/// The plan, in which numbers that are selected are taken behind the ORDER BY beside them, in subqueries too.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn with_numbers_behind_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_plan(plan, &mut |node, _| behind_order(node)).map(|done| done.data)
}

/// The node, of the same columns, with its numbers behind it if it sorts them.
fn behind_order(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Sort(sort) = &node
        && let LogicalPlan::Projection(selected) = sort.input.as_ref()
        && let Some(behind) = numbers_behind(sort, selected)?
    {
        return Ok(Transformed::yes(behind));
    }
    Ok(Transformed::no(node))
}

/// The sorted rows with their numbers; `None` if there are none, or they are what is sorted by.
fn numbers_behind(sort: &Sort, selected: &Projection) -> Result<Option<LogicalPlan>> {
    let outputs = selected.schema.columns();
    let is_number = selected.expr.iter().map(takes_number).collect::<Result<Vec<bool>>>()?;
    let is_sorted_by = |output: &Column| sort.expr.iter().any(|key| key.expr.column_refs().contains(output));
    let mut numbers = outputs.iter().zip(&is_number).filter(|(_, is_number)| **is_number).peekable();
    if numbers.peek().is_none() || numbers.any(|(output, _)| is_sorted_by(output)) {
        return Ok(None);
    }
    let mut inputs: Vec<Column> = Vec::new();
    let mut below: Vec<Expr> = Vec::new();
    let mut above: Vec<Expr> = Vec::new();
    for ((expression, output), is_number) in selected.expr.iter().zip(outputs).zip(is_number) {
        if is_number {
            let number = of_inputs(expression.clone(), &mut inputs)?;
            let has_name = matches!(number, Expr::Alias(_));
            above.push(if has_name { number } else { number.alias_qualified(output.relation, output.name) });
        } else {
            below.push(expression.clone());
            above.push(Expr::Column(output));
        }
    }
    let named = inputs.into_iter().enumerate();
    below.extend(named.map(|(place, input)| Expr::Column(input).alias(format!("{INPUT}{place}"))));
    if below.is_empty() {
        return Ok(None);
    }
    let narrow = LogicalPlan::Projection(Projection::try_new(below, Arc::clone(&selected.input))?);
    let sorted = Sort { expr: sort.expr.clone(), input: Arc::new(narrow), fetch: sort.fetch };
    let all = Projection::try_new(above, Arc::new(LogicalPlan::Sort(sorted)))?;
    Ok(Some(LogicalPlan::Projection(all)))
}

/// Whether an expression takes a number, or asks for one that was taken, for each row.
///
/// # Errors
/// If the expression cannot be looked at: a bug.
pub(super) fn takes_number(expression: &Expr) -> Result<bool> {
    expression.exists(|part| {
        Ok(matches!(part, Expr::ScalarFunction(call) if is_sequence_function(call.func.name())))
    })
}

/// The expression, whose columns are those of the sorted rows; each of its inputs is noted once.
fn of_inputs(expression: Expr, inputs: &mut Vec<Column>) -> Result<Expr> {
    let done = expression.transform(|part| {
        let Expr::Column(column) = part else { return Ok(Transformed::no(part)) };
        let known = inputs.iter().position(|input| *input == column);
        let place = known.unwrap_or_else(|| {
            inputs.push(column);
            inputs.len() - 1
        });
        Ok(Transformed::yes(Expr::Column(Column::from_name(format!("{INPUT}{place}")))))
    })?;
    Ok(done.data)
}
