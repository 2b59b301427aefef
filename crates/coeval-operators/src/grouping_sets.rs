// SPDX-License-Identifier: Apache-2.0
//! GROUPING SETS, ROLLUP and CUBE, made of the finest groups in the place of the rows.
//!
//! DataFusion's first step puts each row into a group of each set: a ROLLUP by four columns hashes and compares each row's columns five
//! times. Here rows are grouped once, by all columns of all sets. What comes of that, a state of each aggregate for each of these
//! groups, is then given once for each set, with NULL for the columns that the set has not. The second step, which merges states
//! anyway, does the rest.
//!
//! ```text
//! AggregateExec: mode=FinalPartitioned         as before
//!   RepartitionExec: hash of groups and set    as before
//!     GroupingSetsExec                         in the place of AggregateExec: mode=Partial over the sets
//!       AggregateExec: mode=Partial            by all columns: coded_groups.rs can take its place
//!         the rows
//! ```
//!
//! That is as much better as there are fewer of the finest groups than rows. If there are nearly as many, as many states go to the
//! second step as rows went into groups before. Sets of which none has all columns stay as they are: the finest groups, which are none
//! of theirs, may be far more than theirs.

use crate::over_one_input;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_datafusion_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The plan with the operator in the place of each first step over several grouping sets.
///
/// # Errors
///
/// Those of [`GroupingSetsExec::in_place_of`].
pub fn with_grouping_sets(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let staged = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(GroupingSetsExec::in_place_of).transpose()?.flatten() {
            Some(staged) => Transformed::yes(Arc::new(staged) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(staged.data)
}

/// One grouping set.
#[derive(Clone, Debug)]
struct GroupingSet {
    /// Of each column whether the set is without it.
    is_left_out: Vec<bool>,
    /// What DataFusion has in `__grouping_id` for its rows.
    id: u64,
}

/// See the module.
pub struct GroupingSetsExec {
    /// What it stands for, together with its input.
    aggregate: AggregateExec,
    sets: Arc<[GroupingSet]>,
    /// The finest groups, with the aggregates' states.
    groups: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupingSetsExec {
    /// The operator, over a first step by all columns, that does what this one does; `None` if it is no first step over several sets of
    /// which one has all columns, or of a kind that stays as it is: rows in an order, a limit, columns that are another value each time
    /// they are asked for.
    ///
    /// # Errors
    ///
    /// Those of making the first step by all columns.
    pub fn in_place_of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let group_by = aggregate.group_expr();
        let is_for_here = *aggregate.mode() == AggregateMode::Partial
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.limit_options().is_none()
            && group_by.has_grouping_set()
            && group_by.groups().len() > 1
            && group_by.groups().iter().any(|set| !set.contains(&true))
            && !group_by.is_empty()
            && !group_by.expr().iter().any(|(column, _)| is_volatile(column));
        if !is_for_here {
            return Ok(None);
        }
        let groups = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(group_by.expr().to_vec()),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(aggregate.input()),
            aggregate.input_schema(),
        )?;
        Ok(Some(Self {
            aggregate: aggregate.clone(),
            sets: numbered(group_by.groups()).into(),
            groups: Arc::new(groups),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// The sets with the numbers that DataFusion gives them: a bit for each column that is left out, the first column's the highest; above
/// them which of several sets of the same columns it is.
fn numbered(sets: &[Vec<bool>]) -> Vec<GroupingSet> {
    let mut before: HashMap<&[bool], u64> = HashMap::new();
    let set = |is_left_out: &'_ Vec<bool>, ordinal: u64| {
        let columns = is_left_out.iter().fold(0_u64, |bits, left_out| bits << 1 | u64::from(*left_out));
        GroupingSet { is_left_out: is_left_out.clone(), id: columns | ordinal << is_left_out.len() }
    };
    let numbered = sets.iter().map(|columns| {
        let seen = before.entry(columns).or_insert(0);
        let ordinal = *seen;
        *seen += 1;
        set(columns, ordinal)
    });
    numbered.collect()
}

impl fmt::Debug for GroupingSetsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupingSetsExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for GroupingSetsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        let names = self.aggregate.group_expr().expr();
        let sets = self.sets.iter().map(|set| {
            let there = names.iter().zip(&set.is_left_out).filter(|(_, is_left_out)| !**is_left_out);
            format!("({})", there.map(|((_, name), _)| name.as_str()).collect::<Vec<_>>().join(", "))
        });
        write!(f, "GroupingSetsExec: sets=[{}]", sets.collect::<Vec<_>>().join(", "))
    }
}

impl ExecutionPlan for GroupingSetsExec {
    fn name(&self) -> &'static str {
        "GroupingSetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    over_one_input!(groups, |old, groups| Arc::new(Self {
        aggregate: old.aggregate.clone(),
        sets: Arc::clone(&old.sets),
        groups,
        metrics: ExecutionPlanMetricsSet::new(),
    }));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let made = Made {
            groups: self.groups.execute(partition, Arc::clone(&task))?,
            sets: Arc::clone(&self.sets),
            output: self.aggregate.schema(),
            of_nothing: Some(OfNothing { aggregate: self.aggregate.clone(), partition, task }),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let (schema, metrics) = (self.aggregate.schema(), made.metrics.clone());
        let made = stream::try_unfold(made, Made::next).try_flatten();
        let made = made.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, made)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

type Batches = stream::BoxStream<'static, Result<RecordBatch>>;

/// One partition at its work.
struct Made {
    groups: SendableRecordBatchStream,
    sets: Arc<[GroupingSet]>,
    output: SchemaRef,
    /// As long as no group has come.
    of_nothing: Option<OfNothing>,
    metrics: BaselineMetrics,
}

impl Made {
    /// What comes of the next groups: of each set a batch.
    async fn next(mut self) -> Result<Option<(Batches, Self)>> {
        let Some(groups) = self.groups.next().await.transpose()? else {
            let Some(of_nothing) = self.of_nothing.take() else { return Ok(None) };
            return Ok(Some((of_nothing.rows()?, self)));
        };
        if groups.num_rows() > 0 {
            self.of_nothing = None;
        }
        let timer = self.metrics.elapsed_compute().timer();
        let made = self.sets.iter().map(|set| of_set(set, &groups, &self.output));
        let made: Vec<Result<RecordBatch>> = made.collect();
        timer.done();
        Ok(Some((stream::iter(made).boxed(), self)))
    }
}

/// The groups of one set, of which several may be the same.
fn of_set(set: &GroupingSet, groups: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
    let rows = groups.num_rows();
    let (columns, states) = groups.columns().split_at(set.is_left_out.len());
    let columns = columns.iter().zip(&set.is_left_out).map(|(column, is_left_out)| {
        if *is_left_out { new_null_array(column.data_type(), rows) } else { Arc::clone(column) }
    });
    let id_type = output.field(set.is_left_out.len()).data_type();
    let id = cast(&UInt64Array::from_value(set.id, rows), id_type)?;
    let columns: Vec<ArrayRef> = columns.chain([id]).chain(states.iter().map(Arc::clone)).collect();
    Ok(RecordBatch::try_new(Arc::clone(output), columns)?)
}

/// What comes of no rows at all: a set of no columns has a group all the same.
struct OfNothing {
    aggregate: AggregateExec,
    partition: usize,
    task: Arc<TaskContext>,
}

impl OfNothing {
    fn rows(self) -> Result<Batches> {
        let input = self.aggregate.input();
        let partitions = input.output_partitioning().partition_count();
        let nothing = Arc::new(EmptyExec::new(input.schema()).with_partitions(partitions));
        let aggregate = replace_children_if_necessary(Arc::new(self.aggregate.clone()), vec![nothing])?;
        let aggregate = aggregate
            .downcast_ref::<AggregateExec>()
            .ok_or_else(|| internal_datafusion_err!("an aggregate with other input is one"))?;
        Ok(aggregate.execute(self.partition, self.task)?.boxed())
    }
}
