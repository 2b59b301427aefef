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
//! A key of 64 bits takes half of the memory, and less time, than one of 128. So where columns would need more than 64 bits, and the statistics
//! of the input say between which bounds their values are, the key has room for those, and not for all. Others may come all the same: such
//! rows are kept in a table beside, and their key is a number.
//!
//! ```text
//! layout.rs     where the columns' values stand in a key; how they get there, and out again
//! expected.rs   which values are expected
//! outliers.rs   the rows with others
//! key.rs        the layout as an expression
//! ```

mod expected;
mod key;
mod layout;
mod outliers;
#[cfg(test)]
mod tests;

pub(crate) use expected::Expected;

use crate::inputs::{groups_and_calls, in_place_of_aggregate};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
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
    /// By which the layout was made.
    expected: Expected,
    /// The same, by keys.
    by_key: Arc<dyn ExecutionPlan>,
}

impl PackedGroupsExec {
    /// The operator that it stands for.
    #[must_use]
    pub fn aggregate(&self) -> &AggregateExec {
        &self.aggregate
    }

    /// The operator that does what this one does; `None` if it is of a kind that stays as it is: a single column to group by or columns
    /// that do not fit into a key, rows in their order, grouping sets, groups of which not all are wanted, aggregates with an order.
    ///
    /// # Errors
    ///
    /// Those of the plan's own expressions, when their types are asked for, and of making the operator with other groups.
    pub fn in_place_of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        Self::expecting(aggregate, &expected_values(aggregate)?)
    }

    /// The same with these values expected, whatever the statistics of the input are.
    ///
    /// # Errors
    ///
    /// As above.
    pub(crate) fn expecting(aggregate: &AggregateExec, expected: &Expected) -> Result<Option<Self>> {
        if !is_plain(aggregate) {
            return Ok(None);
        }
        let columns = aggregate.group_expr().input_exprs();
        let kinds = kinds_of_groups(aggregate)?;
        let short = Layout::can_be_shorter(&kinds).then(|| Layout::within(kinds.clone(), expected)).flatten();
        let Some(layout) = short.or_else(|| Layout::of(kinds)) else { return Ok(None) };
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
            expected: expected.clone(),
            by_key: Arc::new(by_key) as Arc<dyn ExecutionPlan>,
        }))
    }

    /// The same in the place of this aggregate, which is its own over other rows. That comes about several times for each plan: a rule that
    /// puts something in below makes all above anew, and whoever runs a plan watches each of its operators. Rows with the same columns
    /// have the same keys.
    fn over(&self, aggregate: &AggregateExec) -> Result<Option<Self>> {
        let rows = aggregate.input();
        if !is_plain(aggregate) || rows.schema() != self.aggregate.input().schema() {
            return Self::expecting(aggregate, &self.expected);
        }
        let rows = match (aggregate.mode().input_mode(), self.by_key.children().as_slice()) {
            (AggregateInputMode::Partial, &[keyed]) => {
                replace_children_if_necessary(Arc::clone(keyed), vec![Arc::clone(rows)])?
            }
            _ => Arc::clone(rows),
        };
        Ok(Some(Self {
            aggregate: aggregate.clone(),
            layout: Arc::clone(&self.layout),
            expected: self.expected.clone(),
            by_key: replace_children_if_necessary(Arc::clone(&self.by_key), vec![rows])?,
        }))
    }
}

/// Whether an aggregate is of the kind that the operator can stand for, whatever it groups by.
fn is_plain(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && aggregate.group_expr().is_single()
        && aggregate.aggr_expr().iter().all(|call| call.order_bys().is_empty())
}

/// The type of each column that is grouped by, and whether it may be NULL.
fn kinds_of_groups(aggregate: &AggregateExec) -> Result<Vec<(DataType, bool)>> {
    let schema = aggregate.input().schema();
    let columns = aggregate.group_expr().input_exprs();
    let kind = |column: &Arc<dyn PhysicalExpr>| {
        Ok::<_, DataFusionError>((column.data_type(&schema)?, column.nullable(&schema)?))
    };
    columns.iter().map(kind).collect()
}

/// The values that are expected in the columns that an aggregate groups by, if that can make keys shorter.
///
/// # Errors
///
/// Those of the plan's own expressions, when their types are asked for.
pub(crate) fn expected_values(aggregate: &AggregateExec) -> Result<Expected> {
    if !is_plain(aggregate) {
        return Ok(Expected::default());
    }
    let kinds = kinds_of_groups(aggregate)?;
    if !Layout::can_be_shorter(&kinds) {
        return Ok(Expected::default());
    }
    let types: Vec<DataType> = kinds.into_iter().map(|(ty, _)| ty).collect();
    Ok(Expected::of(&aggregate.group_expr().input_exprs(), &types, aggregate.input()))
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
        write!(f, "PackedGroupsExec: mode={mode:?}, {shown}, bits={}", self.layout.bits())?;
        if self.layout.is_of_expected_values() { f.write_str(" of expected values") } else { Ok(()) }
    }
}

impl ExecutionPlan for PackedGroupsExec {
    fn name(&self) -> &'static str {
        "PackedGroupsExec"
    }

    in_place_of_aggregate!(aggregate, |operator, aggregate| operator.over(aggregate));

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
