// SPDX-License-Identifier: Apache-2.0
//! Columns of few different texts that go from the scan of a row table to GROUP BY, or to the scan's own filters, as the codes that its
//! files have of them.
//!
//! ```text
//! CodedGroupsExec: gby=[id1]                  groups by id1, and reads it for nothing else
//!   CooperativeExec                           as may projections that pass it on
//!     CoevalScan: columns=[id1, v1], codes=[id1]
//! ```
//!
//! A text then costs a row the load of its number, where it cost a hash and a comparison, and two bytes of memory instead of sixteen. It pays
//! where few texts are in most chunks ([`coeval_store::TableView::has_few_texts`]); other columns stay what they are. A scan's filter that
//! compares such a column with constants is asked once for each text (`text_filter.rs`), also where the column is read for the filter
//! alone; what has other filters, or is looked for by joins, stays, too.

use super::scan::Scan;
use crate::plan_rule::PlanRule;
use coeval_operators::coded_groups::CodedGroupsExec;
use coeval_operators::unordered::UnorderedExec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// The rule. Behind those that put operators that group by codes into plans, and those that give filters to scans.
pub(crate) const TEXT_CODES: PlanRule = PlanRule::new("coeval_text_codes", |plan, _| with_text_codes(plan))
    .about(|node| {
        node.is::<CodedGroupsExec>() || node.downcast_ref::<Scan>().is_some_and(Scan::has_texts_for_filters)
    })
    .switched_by("coeval.text_codes");

fn with_text_codes(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            return Ok(match scan.with_codes_for_filters() {
                Some(scan) => Transformed::yes(Arc::new(scan) as _),
                None => Transformed::no(node),
            });
        }
        let input = match node.downcast_ref::<CodedGroupsExec>() {
            Some(groups) => coded(node.children()[0], &groups.grouped_texts())?,
            None => None,
        };
        Ok(match input {
            Some(input) => Transformed::yes(replace_children_if_necessary(node, vec![input])?),
            None => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// The rows with some of these columns as codes; `None` if they stay what they are.
fn coded(rows: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = rows.downcast_ref::<Scan>() {
        return Ok(scan.with_codes(columns).map(|scan| Arc::new(scan) as _));
    }
    if rows.is::<CooperativeExec>() || rows.is::<UnorderedExec>() {
        let input = coded(rows.children()[0], columns)?;
        let changed = input.map(|input| replace_children_if_necessary(Arc::clone(rows), vec![input]));
        return changed.transpose();
    }
    if let Some(projection) = rows.downcast_ref::<ProjectionExec>() {
        let expressions = projection.expr();
        let Some(input) = coded(projection.input(), &passed_on(expressions, columns))? else {
            return Ok(None);
        };
        // What fields say beside their types is of the values, and stays.
        let schema = projection.schema();
        let expressions = expressions.to_vec();
        let projection = ProjectionExec::try_new_with_schema_metadata(expressions, input, &schema)?;
        return Ok(Some(Arc::new(projection)));
    }
    Ok(None)
}

/// The columns of a projection's input that it passes on as these and reads for nothing else.
fn passed_on(expressions: &[ProjectionExpr], columns: &[usize]) -> Vec<usize> {
    let source = |place: usize| expressions[place].expr.downcast_ref::<Column>().map(Column::index);
    let is_read_for_more = |index: usize| {
        let others = expressions.iter().enumerate().filter(|(place, _)| {
            let is_one_of_these = columns.contains(place);
            !(is_one_of_these && source(*place).is_some())
        });
        let mut read = others.flat_map(|(_, other)| collect_columns(&other.expr));
        read.any(|column| column.index() == index)
    };
    let sources = columns.iter().filter_map(|place| source(*place));
    sources.filter(|index| !is_read_for_more(*index)).collect()
}

#[cfg(test)]
mod tests;
