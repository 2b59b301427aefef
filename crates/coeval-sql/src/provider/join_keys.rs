// SPDX-License-Identifier: Apache-2.0
//! Scans that ask what hash joins above them look for.
//!
//! The filter that a join hands down to a scan goes on ruling out chunks, or bricks, by its bounds. Rows are asked what
//! [`coeval_operators::join_keys`] notes below the join. Of a join on one column that is asked instead of the join's filter: the bits of its
//! values, or their Bloom filter if these are far apart. Of a join on several columns it is asked before: the bits of each column, and then
//! the filter of all of them together; the join's look-up comes behind. Each of these is dropped by itself if it takes away too few rows
//! (`row_filter.rs`).
//!
//! The filter of a join on several columns comes to a scan only if all of them come from there. Where one is computed, as in
//!
//! ```text
//! WHERE price = (SELECT min(o.price) FROM offers o WHERE o.part = parts.part)
//! ```
//! with a join on the part and the least price, the other columns are noted each by itself ([`by_column`]).

mod by_column;
mod told_scan;

use super::scan_keys::ScanKeys;
use crate::plan_rule::PlanRule;
use arrow::datatypes::{DataType, Schema};
use coeval_operators::join_keys::{JoinKeys, NotedKeysExec, Numbers};
use datafusion::common::NullEquality;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use told_scan::ToldScan;

/// Scans of fewer rows are not told: they take about as long as to plan for it.
const SCANNED_ROWS_MIN: u64 = 65_536;

/// The smaller side counts if the scan has so many rows for each of its rows: to put a row into a set costs more than to look for one.
const SCANNED_ROWS_PER_KEY_MIN: u64 = 2;

/// The smaller side has so many rows at most. The filter of all columns together has 8 MiB for them; with more, a look-up in it is no cheaper than
/// one in the join's table.
const KEYS_MAX: u64 = 1 << 22;

/// The rule. Behind those that take joins and scans to pieces or send them elsewhere.
pub(crate) const JOIN_KEYS: PlanRule = PlanRule::new("coeval_join_keys", |plan, _| with_join_keys(plan))
    .about(|node| node.is::<HashJoinExec>())
    .switched_by("coeval.join_keys");

fn with_join_keys(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let told = plan.transform_up(|node| {
        let inputs = node.downcast_ref::<HashJoinExec>().map(told_inputs).transpose()?.flatten();
        Ok(match inputs {
            Some(inputs) => Transformed::yes(replace_children_if_necessary(node, inputs)?),
            None => Transformed::no(node),
        })
    })?;
    Ok(told.data)
}

/// The inputs of a join such that its keys are noted, and scans of its larger side ask for them; `None` if there are no such scans.
fn told_inputs(join: &HashJoinExec) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    let Some(sought) = Sought::by(join) else { return by_column::told_inputs(join) };
    let mut rows = 0;
    join.right().apply(|node| {
        if let Some(scan) = ToldScan::of(node)
            && sought.columns_in(scan).is_some()
        {
            rows = rows.max(scan.row_count());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if rows < SCANNED_ROWS_MIN {
        return by_column::told_inputs(join);
    }
    let keys = keys_for(rows);
    let told = Arc::clone(join.right()).transform_up(|node| {
        let scan = ToldScan::of(&node).and_then(|scan| {
            let columns = sought.columns_in(scan)?;
            let of_filter = sought.is_whole().then_some(sought.filter_id);
            Some(scan.with_join_keys(ScanKeys::new(Arc::clone(&keys), columns, of_filter)))
        });
        Ok(match scan {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(node),
        })
    })?;
    let columns = sought.keys.iter().map(|key| key.column);
    let noted = NotedKeysExec::new(Arc::clone(join.left()), columns, Arc::clone(&keys));
    let noted: Arc<dyn ExecutionPlan> = Arc::new(noted);
    Ok(Some(vec![noted, told.data]))
}

/// Room for keys that a scan of so many rows is asked for.
fn keys_for(rows: u64) -> Arc<JoinKeys> {
    Arc::new(JoinKeys::new((rows / SCANNED_ROWS_PER_KEY_MIN).min(KEYS_MAX) as usize))
}

/// Whether a join looks for what is in sets. One that takes NULL for equal to NULL looks for what is in no set, as does one that a single
/// NULL of the larger side decides: `NOT IN`. Of one that is divided among threads no part knows all keys.
fn looks_for_members(join: &HashJoinExec) -> bool {
    join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware
        && *join.partition_mode() == PartitionMode::CollectLeft
}

/// What a join looks for, as far as sets can be made of it.
struct Sought {
    /// By which the join's filter is known wherever it has been handed to.
    filter_id: u64,
    /// How many columns the join is on.
    key_count: usize,
    keys: Vec<Key>,
}

struct Key {
    /// Its place among those of the join.
    place: usize,
    /// Its column in the smaller side.
    column: usize,
    ty: DataType,
}

impl Sought {
    /// `None` if the join is of another kind.
    fn by(join: &HashJoinExec) -> Option<Self> {
        if !looks_for_members(join) {
            return None;
        }
        // Only a join that may lose rows of its larger side has a filter.
        let filter_id = join.dynamic_expressions_produced().first()?.expression_id()?;
        let schema = join.left().schema();
        let keys = join.on().iter().enumerate().filter_map(|(place, (smaller, _))| {
            let column = smaller.downcast_ref::<Column>()?.index();
            let ty = schema.field(column).data_type().clone();
            Numbers::are_of(&ty).then_some(Key { place, column, ty })
        });
        let keys: Vec<Key> = keys.collect();
        (!keys.is_empty()).then_some(Self { filter_id, key_count: join.on().len(), keys })
    }

    /// Whether the set says all that the join's filter does: it is of the join's only key.
    fn is_whole(&self) -> bool {
        self.key_count == 1
    }

    /// The columns of a scan that it is looked for in; `None` if the join's filter has not come there, or not as columns.
    fn columns_in(&self, scan: ToldScan<'_>) -> Option<Vec<usize>> {
        scan.filters().iter().find_map(|filter| self.columns_of(filter, scan.source()))
    }

    fn columns_of(&self, filter: &Arc<dyn PhysicalExpr>, source: &Schema) -> Option<Vec<usize>> {
        let mut found = None;
        let looked_for = filter.apply(|part| {
            let moving = part.downcast_ref::<DynamicFilterPhysicalExpr>();
            Ok(match moving.filter(|moving| moving.expression_id() == Some(self.filter_id)) {
                Some(moving) => {
                    found = self.columns_among(&moving.children(), source);
                    TreeNodeRecursion::Stop
                }
                None => TreeNodeRecursion::Continue,
            })
        });
        looked_for.ok()?;
        found
    }

    /// The columns of the keys among what the join's filter is of.
    fn columns_among(&self, filtered: &[&Arc<dyn PhysicalExpr>], source: &Schema) -> Option<Vec<usize>> {
        let column_of = |key: &Key| {
            let column = filtered.get(key.place)?.downcast_ref::<Column>()?.index();
            (source.fields().get(column)?.data_type() == &key.ty).then_some(column)
        };
        self.keys.iter().map(column_of).collect()
    }
}

#[cfg(test)]
mod tests;
