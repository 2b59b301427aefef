// SPDX-License-Identifier: Apache-2.0
//! The first step of GROUP BY, by codes in the place of values.
//!
//! DataFusion's operator hashes the columns of each row's group, compares them with those of a group in a table, and hands all rows to
//! each aggregate in turn, which keeps its states in an array of its own. Here each column's values get numbers first: integers and
//! dates their distance from the least one, texts and decimals by a dictionary. A group's codes stand side by side in 64 bits; while
//! they are few bits, a group is found by one load. The states of the plain aggregates (`count`, `sum`, `min`, `max`, and so `avg`)
//! stand side by side, too, and a value that several of them ask for is made once. So do those of variances and deviations of integers, if
//! they are the number of values, their sum and that of their squares, and those of correlations of integers and their like. Other aggregates
//! are DataFusion's own, given the groups' numbers.
//!
//! ```text
//! AggregateExec: mode=FinalPartitioned       as before
//!   RepartitionExec: hash of the groups      as before
//!     CodedGroupsExec                        in the place of AggregateExec: mode=Partial
//!       the rows
//! ```
//!
//! Texts may come as `Dictionary(UInt16, Utf8View)` where the aggregate was planned for `Utf8View` ([`CodedGroupsExec::grouped_texts`]): a
//! text of a dictionary is then looked up once for all batches that have it in common. Decimals of few digits that are added up, or computed
//! with by 64-bit integers, may come as such ([`CodedGroupsExec::folded_decimals`]).
//!
//! A first step may give a group several times: the second one merges. So the operator gives up without harm at any batch, and it does
//! when the groups are too many, when they are nearly as many as rows, or when memory is refused: it gives the groups that it has, and
//! lets DataFusion's operator, which can put groups aside on disk, do the rest of the rows.
//!
//! ```text
//! keys.rs        a column's codes: integers.rs, texts.rs, decimals.rs, booleans.rs; dictionary.rs below them
//! groups.rs      codes side by side, and the number of each group
//! folds.rs       the states of the plain aggregates
//! values.rs      what is folded: decimals as 64-bit integers where they fit
//! pairs.rs       sums of pairs of integers
//! records.rs     the states of each group side by side
//! plan.rs        which aggregates are done here, and what of each is shared
//! work.rs        one partition's groups and states
//! coded_rows.rs  texts that come as numbers of a dictionary's texts, and decimals that come as 64-bit integers
//! remainder.rs   the rows that are left to DataFusion's operator
//! ```

mod booleans;
mod coded_rows;
mod decimals;
mod dictionary;
mod folds;
mod groups;
mod integers;
mod keys;
mod pairs;
mod plan;
mod records;
mod remainder;
#[cfg(test)]
mod tests;
mod texts;
mod values;
mod work;

use crate::inputs::{groups_and_calls, in_place_of_aggregate};
use crate::packed_groups::{Expected, PackedGroupsExec, expected_values};
use arrow::array::RecordBatch;
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType};
use coded_rows::{as_planned, grouped_texts, schema_as_planned};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, InputOrderMode, PhysicalExpr,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use plan::{Call, Plan};
use remainder::Remainder;
use std::fmt;
use std::sync::Arc;
use work::Work;

/// What its memory is reserved as.
pub(crate) const CONSUMER: &str = "CodedGroups";

/// The plan with the operator in the place of each first step that it can stand for.
///
/// # Errors
///
/// Those of [`CodedGroupsExec::in_place_of`].
pub fn with_coded_groups(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let coded = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        Ok(match aggregate.map(CodedGroupsExec::in_place_of).transpose()?.flatten() {
            Some(coded) => Transformed::yes(Arc::new(coded) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(coded.data)
}

/// The plan whose operators of this kind leave rows to [`PackedGroupsExec`] where that can stand for
/// DataFusion's.
///
/// # Errors
///
/// Those of making operators with other inputs, and of the plan's own expressions, when their types are asked for.
pub fn with_packed_remainders(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let packed = plan.transform_up(|node| {
        Ok(match node.downcast_ref::<CodedGroupsExec>() {
            Some(coded) => Transformed::yes(Arc::new(coded.with_packed_rest()?) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(packed.data)
}

/// See the module.
pub struct CodedGroupsExec {
    /// What it stands for.
    aggregate: AggregateExec,
    plan: Arc<Plan>,
    /// What keys are made by if rows that are left are grouped by packed keys.
    packs_rest: Option<Expected>,
    metrics: ExecutionPlanMetricsSet,
}

impl CodedGroupsExec {
    /// The operator that does what this one does; `None` if it is no first step, or of a kind that stays as it is: no columns to group
    /// by, rows in their order, grouping sets, columns that have no codes (floats, arrays), aggregates that take one row at a time.
    ///
    /// # Errors
    ///
    /// Those of the plan's own expressions, when their types are asked for.
    pub fn in_place_of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let Some(plan) = Plan::of(aggregate)? else { return Ok(None) };
        Ok(Some(Self {
            aggregate: aggregate.clone(),
            plan: Arc::new(plan),
            packs_rest: None,
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The columns of its input that may come as `Decimal64`, though the aggregate is planned for `Decimal128` of as many digits: decimals that
    /// it reads for nothing but sums, least and greatest values, and what it computes by 64-bit integers. Some of them may, or all.
    #[must_use]
    pub fn folded_decimals(&self) -> Vec<usize> {
        let wide = self.plan.wide_columns();
        let (schema, mut folded) = (self.aggregate.input().schema(), Vec::new());
        for (index, field) in schema.fields().iter().enumerate() {
            let has_few_digits = matches!(
                field.data_type(),
                DataType::Decimal128(precision, _) if *precision <= DECIMAL64_MAX_PRECISION
            );
            if has_few_digits && !wide.contains(&index) {
                folded.push(index);
            }
        }
        folded
    }

    /// The columns of its input that may come as `Dictionary(UInt16, Utf8View)`, though the aggregate is planned for `Utf8View`: texts that
    /// it groups by as they are, and reads for nothing else. Some of them may, or all; of one column all batches are of one type.
    #[must_use]
    pub fn grouped_texts(&self) -> Vec<usize> {
        grouped_texts(&self.aggregate)
    }

    /// The operator that it stands for.
    #[must_use]
    pub fn aggregate(&self) -> &AggregateExec {
        &self.aggregate
    }

    /// The same that groups the rows that are left by packed keys, if it can.
    fn with_packed_rest(&self) -> Result<Self> {
        Ok(Self {
            aggregate: self.aggregate.clone(),
            plan: Arc::clone(&self.plan),
            packs_rest: Some(expected_values(&self.aggregate)?),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same in the place of this aggregate, which is its own over other rows. That comes about several times for each plan: a rule that
    /// puts something in below makes all above anew, and whoever runs a plan watches each of its operators. What is done with rows does
    /// not depend on them, unless they are in an order.
    fn over(&self, aggregate: &AggregateExec) -> Result<Option<Self>> {
        let packs_rest = self.packs_rest.clone();
        let mut calls = aggregate.aggr_expr().iter().zip(self.aggregate.aggr_expr());
        let is_the_same = *aggregate.input_order_mode() == InputOrderMode::Linear
            && calls.all(|(now, before)| Arc::ptr_eq(now, before));
        if !is_the_same {
            return Self::in_place_of(aggregate).map(|coded| coded.map(|coded| Self { packs_rest, ..coded }));
        }
        Ok(Some(Self {
            aggregate: aggregate.clone(),
            plan: Arc::clone(&self.plan),
            packs_rest,
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

impl fmt::Debug for CodedGroupsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodedGroupsExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for CodedGroupsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            return Ok(());
        }
        write!(f, "CodedGroupsExec: {}", groups_and_calls(&self.aggregate))?;
        let general = self.plan.calls.iter().filter(|call| matches!(call, Call::General { .. })).count();
        if general > 0 { write!(f, ", general={general}") } else { Ok(()) }
    }
}

impl ExecutionPlan for CodedGroupsExec {
    fn name(&self) -> &'static str {
        "CodedGroupsExec"
    }

    in_place_of_aggregate!(aggregate, |operator, aggregate| operator.over(aggregate));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.aggregate.input();
        let pool = task.memory_pool();
        let counted = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let grouping = Grouping {
            rows: input.execute(partition, Arc::clone(&task))?,
            work: Work::new(Arc::clone(&self.plan))?,
            reservation: MemoryConsumer::new(CONSUMER).register(pool),
            rest: Rest {
                aggregate: self.aggregate.clone(),
                packed: self.packs_rest.clone(),
                partition,
                task,
                left_rows: counted("left_rows"),
            },
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let output = self.aggregate.schema();
        let metrics = grouping.metrics.clone();
        let groups = stream::once(grouping.run()).try_flatten().inspect_ok(move |batch| {
            metrics.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, groups)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition at its work.
struct Grouping {
    rows: SendableRecordBatchStream,
    work: Work,
    reservation: MemoryReservation,
    rest: Rest,
    metrics: BaselineMetrics,
}

/// What does the rows that are left.
struct Rest {
    aggregate: AggregateExec,
    /// What keys are made by if it is by packed keys.
    packed: Option<Expected>,
    partition: usize,
    task: Arc<TaskContext>,
    left_rows: Count,
}

type Batches = stream::BoxStream<'static, Result<RecordBatch>>;

impl Grouping {
    /// Reads all rows, or as many as it is of use for; then gives the groups, and what comes of the other rows.
    async fn run(mut self) -> Result<Batches> {
        let time = self.metrics.elapsed_compute().clone();
        let mut left = None;
        while let Some(batch) = self.rows.next().await.transpose()? {
            let timer = time.timer();
            let was_added = self.work.add(&batch)?;
            let goes_on = was_added && !self.work.is_past_use();
            timer.done();
            if !goes_on || self.reservation.try_resize(self.work.bytes()).is_err() {
                left = Some((!was_added).then_some(batch));
                break;
            }
        }
        let timer = time.timer();
        let groups = self.work.finish(&self.rest.aggregate.schema())?;
        timer.done();
        let rows_max = self.rest.task.session_config().batch_size();
        let given = stream::iter(slices(groups, rows_max)).map(Ok);
        // The groups are counted until the last of them was taken.
        let reservation = self.reservation;
        let counted = std::iter::once_with(move || drop(reservation)).filter_map(|()| None);
        let given = given.chain(stream::iter(counted));
        Ok(match left {
            Some(unadded) => given.chain(self.rest.run(self.rows, unadded)?).boxed(),
            None => given.boxed(),
        })
    }
}

impl Rest {
    /// What DataFusion's operator makes of these rows, or the one that stands in its place.
    fn run(
        self,
        rows: SendableRecordBatchStream,
        unadded: Option<RecordBatch>,
    ) -> Result<SendableRecordBatchStream> {
        let expected = schema_as_planned(&rows.schema(), &self.aggregate);
        let schema = expected.clone().unwrap_or_else(|| rows.schema());
        let left_rows = self.left_rows;
        let rows = stream::iter(unadded.map(Ok)).chain(rows).inspect(move |batch| {
            left_rows.add(batch.as_ref().map_or(0, RecordBatch::num_rows));
        });
        let rows = rows.map(move |batch| match &expected {
            Some(expected) => as_planned(&batch?, expected),
            None => batch,
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        let remainder = Remainder::new(self.aggregate.input(), self.partition, rows);
        let aggregate = replace_children_if_necessary(Arc::new(self.aggregate), vec![Arc::new(remainder)])?;
        let packed = match (&self.packed, aggregate.downcast_ref::<AggregateExec>()) {
            (Some(expected), Some(plain)) => PackedGroupsExec::expecting(plain, expected)?,
            _ => None,
        };
        let aggregate = packed.map_or(aggregate, |packed| Arc::new(packed) as Arc<dyn ExecutionPlan>);
        aggregate.execute(self.partition, self.task)
    }
}

/// The batch in pieces of at most so many rows; none of an empty one.
fn slices(batch: RecordBatch, rows_max: usize) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows).step_by(rows_max.max(1)).map(move |at| batch.slice(at, rows_max.min(rows - at)))
}
