// SPDX-License-Identifier: Apache-2.0
//! Columns of decimals that go from the scan of a row table to who computes with them as 64-bit integers.
//!
//! ```text
//! CodedGroupsExec: aggr=[sum(price), sum(price * (1 - discount))]
//!   ProjectionExec: expr=[price, price * (1 - discount)]        passes on the one, computes the other by 64-bit integers
//!     CooperativeExec
//!       CoevalScan: columns=[price, discount], narrow=[price, discount]
//! ```
//!
//! In its file such a column is integers already. A row then has eight bytes in memory in the place of sixteen, and nothing is made of them
//! before they are computed with. It is done for decimals of up to 18 digits, of which no value has more bits, and where all that reads them
//! can take them so: groups that add them up, arithmetic by 64-bit integers, and filters of the scan that compare them. What only filters
//! read is compared so, too. Other columns stay what they are.

use super::scan::Scan;
use crate::plan_rule::PlanRule;
use coeval_operators::coded_groups::CodedGroupsExec;
use coeval_operators::narrow_decimals::wide_columns;
use coeval_operators::unordered::UnorderedExec;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// The rule. Behind those that put operators and arithmetic into plans that take 64-bit integers, and those that give filters to scans.
pub(crate) const NARROW_SCANS: PlanRule =
    PlanRule::new("coeval_narrow_scans", |plan, _| with_narrow_scans(plan))
        .about(|node| node.is::<CodedGroupsExec>() || node.is::<AggregateExec>())
        .switched_by("coeval.narrow_scans");

fn with_narrow_scans(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        let columns = if let Some(groups) = node.downcast_ref::<CodedGroupsExec>() {
            groups.folded_decimals()
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            if aggregate.mode().input_mode() != AggregateInputMode::Raw {
                return Ok(Transformed::no(node));
            }
            computed_columns(aggregate)?
        } else {
            return Ok(Transformed::no(node));
        };
        Ok(match narrow(node.children()[0], &columns)? {
            Some(input) => Transformed::yes(replace_children_if_necessary(node, vec![input])?),
            None => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// The columns of its input that an aggregate does not read, or only where it computes by 64-bit integers.
fn computed_columns(aggregate: &AggregateExec) -> Result<Vec<usize>> {
    let mut wide = Vec::new();
    aggregate.apply_expressions(&mut |expression| {
        wide.extend(wide_columns(expression));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns_but(&wide, aggregate.input()))
}

/// The rows with some of these columns as 64-bit integers, and some that are read for nothing but what is computed on the way; `None` if all
/// stay what they are.
fn narrow(rows: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = rows.downcast_ref::<Scan>() {
        return Ok(scan.with_narrow(columns).map(|scan| Arc::new(scan) as _));
    }
    if rows.is::<CooperativeExec>() || rows.is::<UnorderedExec>() {
        let input = narrow(rows.children()[0], columns)?;
        let changed = input.map(|input| replace_children_if_necessary(Arc::clone(rows), vec![input]));
        return changed.transpose();
    }
    if let Some(projection) = rows.downcast_ref::<ProjectionExec>() {
        let Some(input) = narrow(projection.input(), &passed_on(projection, columns))? else {
            return Ok(None);
        };
        // What fields say beside their types is of the values, and stays.
        let schema = projection.schema();
        let expressions = projection.expr().to_vec();
        let projection = ProjectionExec::try_new_with_schema_metadata(expressions, input, &schema)?;
        return Ok(Some(Arc::new(projection)));
    }
    Ok(None)
}

/// The columns of its input that a projection only passes on as these, or computes with by 64-bit integers.
fn passed_on(projection: &ProjectionExec, columns: &[usize]) -> Vec<usize> {
    let others = projection.expr().iter().enumerate().filter(|(place, output)| {
        let is_one_of_these = columns.contains(place);
        !(is_one_of_these && output.expr.is::<Column>())
    });
    let wide: Vec<usize> = others.flat_map(|(_, output)| wide_columns(&output.expr)).collect();
    columns_but(&wide, projection.input())
}

/// All columns of these rows but some.
fn columns_but(without: &[usize], rows: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
    (0..rows.schema().fields().len()).filter(|column| !without.contains(column)).collect()
}

#[cfg(test)]
mod tests;
