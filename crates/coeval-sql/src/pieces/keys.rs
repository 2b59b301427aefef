// SPDX-License-Identifier: Apache-2.0
//! What hash joins above a piece look for, sent along with it: so only rows travel that some join may have a partner for.
//!
//! ```text
//!   HashJoinExec: on=[(region, region)]
//!     CoevalScan: table=regions                  its keys are collected first: 'a', 'c'
//!     SpreadPieces: keys of joins=[region]       then other nodes are asked, and told: region IN ('a', 'c')
//! ```
//! A join collects its smaller side before it looks at the other one, and tells the scans on that side what it has found, as a filter that
//! it completes then: least and greatest key, and a list of them if they are few. These are values, whose rows nobody else has to
//! know, so this is right at every isolation level. It is only there to save work: the join looks at the rows that come all the same.
//!
//! **Why nobody waits for ever.** What is waited for is told before a join takes the first row of the side on which the piece is, and by no
//! other way than its other side, which does not wait for this one. Sorts and aggregates tell scans such filters, too, while they read: these are
//! never waited for. Nor is a join that is begun anew, as within `WITH RECURSIVE`: see [`SpreadPieces`](super::plan::SpreadPieces).

use super::codec::Steps;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The filters that hash joins of a plan complete, by their ids. Those of joins that build a table for each part are about a part each,
/// told apart by a hash that is nobody else's.
///
/// # Errors
/// None: looking at a plan does not fail.
pub(super) fn of_joins(plan: &Arc<dyn ExecutionPlan>) -> Result<HashSet<u64>> {
    let mut ids = HashSet::new();
    plan.apply(|node| {
        let join = node.downcast_ref::<HashJoinExec>();
        let join = join.filter(|join| *join.partition_mode() == PartitionMode::CollectLeft);
        let filters = join.map(ExecutionPlan::dynamic_expressions_produced).unwrap_or_default();
        ids.extend(filters.iter().filter_map(|filter| filter.expression_id()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(ids)
}

/// What these joins tell the scan of a piece, if they are not in it, and as far as it is about columns alone: nothing else could fail for a
/// row that is dropped further up.
pub(super) fn told(steps: &Steps, joins: &HashSet<u64>) -> Vec<Arc<dyn PhysicalExpr>> {
    let inside = steps.joins().flat_map(ExecutionPlan::dynamic_expressions_produced);
    let inside: HashSet<u64> = inside.filter_map(|filter| filter.expression_id()).collect();
    let above: HashSet<u64> = joins.difference(&inside).copied().collect();
    let is_of_joins = |hint: &&Arc<dyn PhysicalExpr>| {
        let filters = filters_in(hint);
        !filters.is_empty() && filters.into_iter().all(|filter| is_of_join(filter, &above))
    };
    steps.scan.hints().iter().filter(is_of_joins).cloned().collect()
}

fn is_of_join(filter: &DynamicFilterPhysicalExpr, joins: &HashSet<u64>) -> bool {
    let is_column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().is_some();
    let is_plain = |key: &Arc<dyn PhysicalExpr>| {
        is_column(key) || key.downcast_ref::<CastExpr>().is_some_and(|cast| is_column(cast.expr()))
    };
    let is_known = filter.expression_id().is_some_and(|id| joins.contains(&id));
    is_known && filter.children().into_iter().all(is_plain)
}

/// What changes while the plan runs, of a hint.
fn filters_in(hint: &Arc<dyn PhysicalExpr>) -> Vec<&DynamicFilterPhysicalExpr> {
    match hint.downcast_ref::<DynamicFilterPhysicalExpr>() {
        Some(filter) => vec![filter],
        None => hint.children().into_iter().flat_map(filters_in).collect(),
    }
}

/// What joins have found, once all of them have.
///
/// # Errors
/// If DataFusion cannot put it in terms of the scan's columns.
pub(super) async fn found(told: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let filters: Vec<_> = told.iter().flat_map(filters_in).collect();
    for filter in filters {
        filter.wait_complete().await;
    }
    told.iter().map(|hint| snapshot_physical_expr(Arc::clone(hint))).collect()
}

/// The columns by which joins look for rows.
pub(super) fn names(told: &[Arc<dyn PhysicalExpr>]) -> String {
    let columns = told.iter().flat_map(collect_columns);
    let names: BTreeSet<String> = columns.map(|column| column.name().to_owned()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
