// SPDX-License-Identifier: Apache-2.0
//! The operator that drops rows: what it keeps of each group are keys, not rows.
//!
//! Rows flow through, in their order. In memory are the batch, the groups that were seen and a few keys of each, all of it counted. When
//! memory is short, or nearly all rows pass, it forgets the groups and passes every row from there on: that is never wrong.

use super::Top;
use super::best::{Best, Ranking};
use super::order_keys::OrderKey;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Rows that are seen before it is judged whether the operator pays, and from one judgement to the next.
const JUDGED_ROWS: usize = 1 << 18;

/// It does not pay if so much of them pass, in tenths.
const PASSING_TENTHS: usize = 9;

/// Whether values that are equal as keys of a group are those that a window takes for equal. Floats are not: zeros have signs.
pub(super) fn groups_by(kind: &DataType) -> bool {
    match kind {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Decimal128(..) => true,
        other => other.is_integer(),
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct GroupTopExec {
    input: Arc<dyn ExecutionPlan>,
    top: Top,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupTopExec {
    /// Drops of these rows those that cannot be among the best.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, top: Top) -> Self {
        Self { input, top, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What is left of each group.
    pub(crate) fn top(&self) -> &Top {
        &self.top
    }
}

impl DisplayAs for GroupTopExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Top { ranking, keep, group, order } = &self.top;
        let what = match ranking {
            Ranking::Rows => "rows",
            Ranking::Ranks => "ranks",
            Ranking::Values => "values",
        };
        let group: Vec<String> = group.iter().map(ToString::to_string).collect();
        write!(f, "GroupTopExec: keep={keep} {what}, group=[{}]", group.join(", "))?;
        order.iter().try_for_each(|order| write!(f, ", order={order}"))
    }
}

impl ExecutionPlan for GroupTopExec {
    fn name(&self) -> &'static str {
        "GroupTopExec"
    }

    /// Those of the input: to drop rows changes neither the order nor what columns are equal.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let order = self.top.order.iter().map(OrderKey::expression);
        let mut going = TreeNodeRecursion::Continue;
        for expression in self.top.group.iter().chain(order) {
            if going == TreeNodeRecursion::Stop {
                break;
            }
            going = visit(expression)?;
        }
        Ok(going)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self::new(input, self.top.clone()))),
            _ => internal_err!("it has one input"),
        }
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&task))?;
        let schema = input.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let dropping = Dropping::new(self, &schema, &task, metrics)?;
        let passing = Passing {
            rows: BatchCoalescer::new(Arc::clone(&schema), task.session_config().batch_size()),
            input,
            dropping,
            has_ended: false,
        };
        let batches = stream::try_unfold(passing, |mut passing| async {
            Ok(passing.next().await?.map(|batch| (batch, passing)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows of one partition on their way.
struct Passing {
    input: SendableRecordBatchStream,
    dropping: Dropping,
    /// Gathers the few rows that are left of a batch.
    rows: BatchCoalescer,
    has_ended: bool,
}

impl Passing {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.rows.next_completed_batch() {
                self.dropping.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if self.has_ended {
                self.dropping.metrics.done();
                return Ok(None);
            }
            match self.input.next().await.transpose()? {
                Some(batch) => match self.dropping.wanted(&batch)? {
                    Some(wanted) => self.rows.push_batch_with_filter(batch, &wanted)?,
                    None => self.rows.push_batch(batch)?,
                },
                None => {
                    self.has_ended = true;
                    self.rows.finish_buffered_batch()?;
                }
            }
        }
    }
}

/// What rows of one partition are dropped by.
struct Dropping {
    group: Vec<Arc<dyn PhysicalExpr>>,
    order: Option<OrderKey>,
    /// `None` once nothing is dropped any more.
    seen: Option<Seen>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    /// Rows since the last judgement, and how many of them have passed.
    judged: (usize, usize),
}

/// The groups that were seen.
struct Seen {
    groups: Box<dyn GroupValues>,
    best: Best,
    /// Of the batch: the group and the key of each row.
    members: Vec<usize>,
    keys: Vec<i128>,
}

impl Dropping {
    fn new(
        exec: &GroupTopExec,
        schema: &Schema,
        task: &TaskContext,
        metrics: BaselineMetrics,
    ) -> Result<Self> {
        let field = |(number, expression): (usize, &Arc<dyn PhysicalExpr>)| {
            Ok(Field::new(format!("group_{number}"), expression.data_type(schema)?, true))
        };
        let fields: Result<Vec<Field>> = exec.top.group.iter().enumerate().map(field).collect();
        let seen = Seen {
            groups: new_group_values(SchemaRef::new(Schema::new(fields?)), &GroupOrdering::None)?,
            best: Best::new(exec.top.ranking, exec.top.keep),
            members: Vec::new(),
            keys: Vec::new(),
        };
        Ok(Self {
            group: exec.top.group.clone(),
            order: exec.top.order.clone(),
            seen: Some(seen),
            reservation: MemoryConsumer::new("GroupTop").register(task.memory_pool()),
            metrics,
            judged: (0, 0),
        })
    }

    /// Which rows of a batch stay; `None`: all.
    fn wanted(&mut self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let Some(seen) = &mut self.seen else { return Ok(None) };
        let value = |expression: &Arc<dyn PhysicalExpr>| {
            expression.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()))
        };
        let group: Result<Vec<ArrayRef>> = self.group.iter().map(value).collect();
        match &self.order {
            Some(order) => order.keys(batch, &mut seen.keys)?,
            // All rows are equal.
            None => {
                seen.keys.clear();
                seen.keys.resize(batch.num_rows(), 0);
            }
        }
        seen.groups.intern(&group?, &mut seen.members)?;
        let bytes = seen.groups.size() + seen.best.bytes().max(seen.best.bytes_of(seen.groups.len()));
        if self.reservation.try_resize(bytes).is_err() {
            self.give_up();
            return Ok(None);
        }
        seen.best.grow(seen.groups.len());
        let wanted = BooleanBuffer::collect_bool(batch.num_rows(), |row| {
            seen.best.see(seen.members[row], seen.keys[row])
        });
        self.judged.0 += batch.num_rows();
        self.judged.1 += wanted.count_set_bits();
        self.judge();
        Ok(Some(BooleanArray::new(wanted, None)))
    }

    fn judge(&mut self) {
        let (rows, passed) = self.judged;
        if rows < JUDGED_ROWS {
            return;
        }
        self.judged = (0, 0);
        if passed * 10 > rows * PASSING_TENTHS {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.seen = None;
        self.reservation.free();
    }
}
