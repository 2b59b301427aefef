// SPDX-License-Identifier: Apache-2.0
//! Aggregates of a brick table, begun where its rows are.
//!
//! DataFusion filters a scan's batches, copies what passes, and looks each row's group up in a hash table. Bricks know
//! better: a row's offsets in the dimensions, the codes of its strings, and numbers between bounds that are known number its
//! group densely, so that an array replaces the hash table, and strings are made only for groups; a
//! condition on a dimension holds for whole bricks, and is not asked of their rows; and what a filter leaves need not be
//! copied to be added up. The states of the aggregates go out, and are merged above as those of any other partial
//! aggregate.
//!
//! The rule that puts this leaf into plans is in `rule.rs`, what one partition does in `fold.rs`, its groups are in
//! `groups.rs`, which rows count in `filter.rs`.

mod filter;
mod fold;
mod groups;
mod rule;

use super::brick_hints::BrickHints;
use super::bricks::BrickSource;
use super::hinted_bricks::PassedOver;
use super::scan::CountedScan;
use super::steps::{self, Step};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use coeval_store::{Grouping, Selection};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, apply_expression_roots,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use fold::{Counts, Fold};
pub(crate) use rule::BEGIN_BRICK_AGGREGATES;
use std::fmt;
use std::sync::Arc;

/// What its memory is reserved as.
const CONSUMER: &str = "BrickAggregate";

/// What each partition of the leaf does.
pub(super) struct Task {
    source: BrickSource,
    /// What operators above find out while they run, which bricks are asked.
    hints: BrickHints,
    /// The columns that are read, by position among the table's live columns: first those that inputs are made of, then
    /// those of conjuncts alone.
    projection: Vec<usize>,
    /// The same as SQL has them.
    scanned: SchemaRef,
    /// So many columns come first.
    input_columns: usize,
    /// A row must satisfy all of these; over the columns that are read.
    conjuncts: Vec<Conjunct>,
    /// What arguments are made of, over the columns that come first.
    inputs: Vec<Arc<dyn PhysicalExpr>>,
    input_schema: SchemaRef,
    calls: Vec<Call>,
    /// None if all rows are one group.
    grouping: Option<Grouping>,
    /// The groups' columns, then the states.
    output: SchemaRef,
}

/// A part of what a row must satisfy.
struct Conjunct {
    predicate: Arc<dyn PhysicalExpr>,
    /// The rows that satisfy it, if it is a condition on a dimension.
    selected: Option<Selection>,
}

/// One aggregate.
struct Call {
    function: Arc<AggregateFunctionExpr>,
    /// Over the inputs.
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    /// The column that is read and is the only argument, if NULLs of it change nothing: a row that does not pass can be a NULL
    /// then instead of being left out.
    nullable_argument: Option<usize>,
}

impl Task {
    /// So many rows of the output, with columns as they were made.
    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let columns = columns.into_iter().zip(self.output.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                cast(&column, field.data_type())
            }
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?)
    }
}

impl Call {
    fn arguments_of(&self, inputs: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = inputs.num_rows();
        self.arguments.iter().map(|argument| argument.evaluate(inputs)?.into_array(rows)).collect()
    }
}

/// The leaf: states of aggregates over the rows of a brick table.
pub(super) struct BrickAggregate {
    task: Arc<Task>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BrickAggregate {
    fn new(task: Task) -> Self {
        let emission = if task.grouping.is_some() { EmissionType::Incremental } else { EmissionType::Final };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&task.output)),
            Partitioning::UnknownPartitioning(task.source.parts.len()),
            emission,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        Self { task: Arc::new(task), properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What counts the rows that it reads.
    pub(super) fn counted(&self) -> CountedScan {
        self.task.source.counted(&self.metrics)
    }
}

impl fmt::Debug for BrickAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrickAggregate").field("table", &self.task.source.def.name).finish_non_exhaustive()
    }
}

impl DisplayAs for BrickAggregate {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { source, hints, conjuncts, calls, grouping, output, .. } = self.task.as_ref();
        if matches!(t, DisplayFormatType::TreeRender) {
            return write!(f, "table={}", source.def.name);
        }
        let groups = output.fields().iter().take(grouping.as_ref().map_or(0, Grouping::columns));
        let groups: Vec<&str> = groups.map(|field| field.name().as_str()).collect();
        let calls: Vec<&str> = calls.iter().map(|call| call.function.name()).collect();
        write!(f, "BrickAggregate: table={}, groups=[{}]", source.def.name, groups.join(", "))?;
        write!(f, ", aggregates=[{}]", calls.join(", "))?;
        if !conjuncts.is_empty() {
            let texts = conjuncts.iter().map(|conjunct| fmt_sql(conjunct.predicate.as_ref()).to_string());
            write!(f, ", filter={}", texts.collect::<Vec<_>>().join(" AND "))?;
        }
        hints.show_filters(f)?;
        write!(f, ", parts={}, bricks={}, pruned={}", source.parts.len(), source.bricks, source.pruned)
    }
}

impl ExecutionPlan for BrickAggregate {
    fn name(&self) -> &'static str {
        "BrickAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let predicates = self.task.conjuncts.iter().map(|conjunct| &conjunct.predicate);
        let all = predicates.chain(&self.task.inputs).chain(self.task.hints.filters());
        let all: Vec<_> = all.cloned().collect();
        apply_expression_roots(&all, f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let parts = &self.task.source.parts;
        let Some(pieces) = parts.get(partition).cloned() else {
            return internal_err!("the scan has {} parts, part {partition} was asked for", parts.len());
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows_scanned = MetricBuilder::new(&self.metrics).counter("rows_scanned", partition);
        let batch_rows = context.session_config().batch_size();
        let reservation = MemoryConsumer::new(CONSUMER).register(context.memory_pool());
        let counts = Counts { rows_scanned, passed_over: PassedOver::new(&self.metrics, partition) };
        let fold = Fold::new(Arc::clone(&self.task), pieces, batch_rows, counts, reservation)?;
        let states = steps::batches((fold, baseline), |(fold, baseline)| {
            let timer = baseline.elapsed_compute().timer();
            let step = fold.step();
            timer.done();
            if let Ok(Step::Out(states)) = &step {
                baseline.record_output(states.num_rows());
            }
            step
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.task.output), states)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[cfg(test)]
mod tests;
