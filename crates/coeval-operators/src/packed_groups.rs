// SPDX-License-Identifier: Apache-2.0
//! GROUP BY of several integers, dates or times, as if they were one column.
//!
//! DataFusion's table of groups keeps an array for each column, and compares them one after the other; for a single column of integers it
//! has another table, which is several times as quick. Columns whose values have 128 bits together, with one more for each that may be
//! NULL, stand side by side in one integer, which goes through that other table, and come out of it again:
//!
//! ```text
//!                                                PackedGroupsExec, which gives and takes what the other one does:
//! AggregateExec: mode=FinalPartitioned             the columns, out of the keys
//!   gby=[day, item], aggr=[sum(price)]     ==>     AggregateExec: mode=FinalPartitioned, gby=[key], aggr=[sum(price)]
//!                                                  the key of each row in front of its states
//! ```
//!
//! What is below and above does not notice: rows are exchanged by the columns themselves, so that a join finds them where it expects
//! them. Memory, files for groups that have no room in it, and the aggregates are those of DataFusion's operator as before.
//!
//! ```text
//! layout.rs   where the columns' values stand in a key; how they get there, and out again
//! key.rs      the same as an expression
//! ```

mod key;
mod layout;
#[cfg(test)]
mod tests;

use crate::inputs::{groups_and_calls, in_place_of_aggregate};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, InputOrderMode, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;
use key::PackedKey;
use layout::Layout;
use std::fmt;
use std::sync::Arc;

/// What the column of keys is called, which is never seen from outside.
const KEY: &str = "key";

/// The plan with the operator in the place of each step of a GROUP BY that it can stand for.
///
/// # Errors
///
/// Those of [`PackedGroupsExec::in_place_of`].
pub fn with_packed_groups(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let packed = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(PackedGroupsExec::in_place_of).transpose()?.flatten() {
            Some(packed) => Transformed::yes(Arc::new(packed) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(packed.data)
}

/// See the module.
pub struct PackedGroupsExec {
    /// What it stands for.
    aggregate: AggregateExec,
    layout: Arc<Layout>,
    /// The same, by keys.
    by_key: Arc<dyn ExecutionPlan>,
}

impl PackedGroupsExec {
    /// The operator that does what this one does; `None` if it is of a kind that stays as it is: a single column to group by or columns
    /// that do not fit into a key, rows in their order, grouping sets, groups of which not all are wanted, aggregates with an order.
    ///
    /// # Errors
    ///
    /// Those of the plan's own expressions, when their types are asked for, and of making the operator with other groups.
    pub fn in_place_of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let group_by = aggregate.group_expr();
        let is_plain = *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.limit_options().is_none()
            && group_by.is_single()
            && aggregate.aggr_expr().iter().all(|call| call.order_bys().is_empty());
        if !is_plain {
            return Ok(None);
        }
        let (columns, schema) = (group_by.input_exprs(), aggregate.input().schema());
        let kinds = columns
            .iter()
            .map(|column| Ok::<_, DataFusionError>((column.data_type(&schema)?, column.nullable(&schema)?)));
        let Some(layout) = Layout::of(kinds.collect::<Result<Vec<_>>>()?) else { return Ok(None) };
        let (layout, count) = (Arc::new(layout), columns.len());
        let key: Arc<dyn PhysicalExpr> = Arc::new(PackedKey::new(columns, Arc::clone(&layout)));
        let by_key = by_key(aggregate, count, key)?;
        let (ours, theirs) = (by_key.schema(), aggregate.schema());
        let are_the_same = ours.fields()[1..]
            .iter()
            .map(|field| field.data_type())
            .eq(theirs.fields()[count..].iter().map(|field| field.data_type()));
        Ok(are_the_same.then(|| Self {
            aggregate: aggregate.clone(),
            layout,
            by_key: Arc::new(by_key) as Arc<dyn ExecutionPlan>,
        }))
    }
}

/// The operator with this key for the columns that it groups by, which are so many.
fn by_key(aggregate: &AggregateExec, columns: usize, key: Arc<dyn PhysicalExpr>) -> Result<AggregateExec> {
    let input = aggregate.input();
    let (key, input) = match aggregate.mode().input_mode() {
        AggregateInputMode::Raw => (key, Arc::clone(input)),
        // The states are found by their places behind what is grouped by.
        AggregateInputMode::Partial => {
            let first: Arc<dyn PhysicalExpr> = Arc::new(Column::new(KEY, 0));
            (first, with_key_for(columns, key, input)?)
        }
    };
    AggregateExec::try_new(
        *aggregate.mode(),
        PhysicalGroupBy::new_single(vec![(key, KEY.to_owned())]),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )
}

/// The rows with the key in the place of the first columns, which are so many.
fn with_key_for(
    columns: usize,
    key: Arc<dyn PhysicalExpr>,
    rows: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let mut expressions = vec![ProjectionExpr { expr: key, alias: KEY.to_owned() }];
    for (place, field) in schema.fields().iter().enumerate().skip(columns) {
        let state: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
        expressions.push(ProjectionExpr { expr: state, alias: field.name().clone() });
    }
    Ok(Arc::new(ProjectionExec::try_new(expressions, Arc::clone(rows))?))
}

/// The groups with their columns in the place of the key.
fn with_columns(layout: &Layout, groups: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = layout.unpack(groups.column(0))?;
    columns.extend(groups.columns()[1..].iter().cloned());
    let options = RecordBatchOptions::new().with_row_count(Some(groups.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(output), columns, &options)?)
}

impl fmt::Debug for PackedGroupsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedGroupsExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for PackedGroupsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        let (mode, shown) = (self.aggregate.mode(), groups_and_calls(&self.aggregate));
        write!(f, "PackedGroupsExec: mode={mode:?}, {shown}, bits={}", self.layout.bits())
    }
}

impl ExecutionPlan for PackedGroupsExec {
    fn name(&self) -> &'static str {
        "PackedGroupsExec"
    }

    in_place_of_aggregate!(aggregate, |_operator, packed| packed);

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (layout, output) = (Arc::clone(&self.layout), self.aggregate.schema());
        let groups = self.by_key.execute(partition, task)?;
        let groups = groups.map(move |groups| with_columns(&layout, &groups?, &output));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.aggregate.schema(), groups)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.by_key.metrics()
    }
}
