// SPDX-License-Identifier: Apache-2.0
//! Hash joins by whole numbers, dates and instants, whose looked-up rows mostly go out as they came.
//!
//! DataFusion's join makes a pair of indices for each row that it looks up and copies all columns of both sides by these. In most joins each
//! row that is looked up meets one row, as a fact has one day and one product, and as the scan below has left out already what meets none
//! (`join_keys.rs`): then its columns are right as they are, and only those of the built side are copied.
//!
//! The built side's keys become numbers: how far each column is from its least value, one beside the other. Where there are few such
//! numbers, they are places of an array; else of a hash table, whose entries are compared by one number, however many columns there are.
//!
//! ```text
//! codes.rs     keys as numbers
//! table.rs     which rows of the built side have a key
//! built.rs     the built side, which all parts of the looked-up side share, or one for each part
//! sought.rs    what scans of the looked-up side are told
//! shape.rs     which columns and rows go out, by the kind of join
//! work.rs      one part of the looked-up side: batches in, batches of full size out
//! ```
//!
//! All kinds of joins are there, with filters. DataFusion's is left where NULL equals NULL or decides what goes out (`NOT IN`), where a
//! column of the key is of another type, and where columns have more than 128 bits together. Rows go out in the order of the looked-up
//! side, and within it of the built side. Both sides are read in the order in which DataFusion reads them, and it fails for want of memory where
//! DataFusion's does: the built side has to fit.
//!
//! The operator is put into plans behind all rules that look for joins, so it says of itself what the join does in whose place it stands: its
//! schema, order, partitions, equivalences and statistics.

mod built;
mod codes;
mod shape;
mod sought;
mod table;
#[cfg(test)]
mod tests;
mod work;

use crate::join_keys::Numbers;
use arrow::datatypes::DataType;
use built::{BuildMetrics, Building, Plan};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullEquality, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOnRef};
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PhysicalExpr, PlanProperties,
};
use futures::{TryStreamExt, stream};
use shape::Shape;
use sought::Sought;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use work::Work;

/// As which it asks for memory.
const CONSUMER: &str = "IntegerHashJoin";

/// The plan with the operator in the place of each hash join that it can do.
///
/// # Errors
///
/// None of its own: those of making the nodes above anew.
pub fn with_integer_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let joined = plan.transform_up(|node| {
        let join = node.is::<HashJoinExec>().then(|| in_place_of(Arc::clone(&node))).transpose()?;
        Ok(join.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(joined.data)
}

/// See the module.
///
/// # Locking
/// `building` is held while the built side begins to be executed, by the first part that asks; what is below has locks of its own, and none of
/// it asks for this one.
#[derive(Debug)]
pub struct IntegerHashJoinExec {
    /// What it stands for.
    join: Arc<HashJoinExec>,
    shape: Arc<Shape>,
    sought: Option<Arc<Sought>>,
    /// The built side that all parts share, once one of them has begun.
    building: Mutex<Option<Building>>,
    metrics: ExecutionPlanMetricsSet,
}

impl IntegerHashJoinExec {
    /// The operator that does what this one does; `None` if it cannot.
    #[must_use]
    pub fn in_place_of(join: &Arc<HashJoinExec>) -> Option<Self> {
        let [parts, looked_up_parts] =
            [join.left(), join.right()].map(|side| side.output_partitioning().partition_count());
        // DataFusion's says what is wrong with sides that are divided otherwise; rows would be missing here.
        let is_divided_for_it = match join.partition_mode() {
            PartitionMode::CollectLeft => parts == 1,
            PartitionMode::Partitioned => parts == looked_up_parts,
            PartitionMode::Auto => false,
        };
        let is_of_the_kind = join.null_equality() == NullEquality::NullEqualsNothing
            && !join.null_aware
            && join.fetch().is_none();
        if !is_divided_for_it || !is_of_the_kind {
            return None;
        }
        let types = key_types(join)?;
        let filter = join.dynamic_expressions_produced().into_iter().next();
        let filter: Option<Arc<dyn Any + Send + Sync>> = filter.map(|filter| filter as _);
        let sought =
            filter.and_then(|filter| filter.downcast::<DynamicFilterPhysicalExpr>().ok()).map(|filter| {
                let keys = join.on().iter().map(|(_, key)| Arc::clone(key));
                Arc::new(Sought::new(filter, keys.zip(types).collect(), join.right().schema(), parts))
            });
        let shape = Arc::new(Shape::of(join));
        let (building, metrics) = (Mutex::new(None), ExecutionPlanMetricsSet::new());
        Some(Self { join: Arc::clone(join), shape, sought, building, metrics })
    }

    /// What makes the keys of both sides.
    #[must_use]
    pub fn on(&self) -> JoinOnRef<'_> {
        self.join.on()
    }

    /// What a pair of rows must satisfy beside having equal keys.
    #[must_use]
    pub fn filter(&self) -> Option<&JoinFilter> {
        self.join.filter()
    }

    /// The same with another filter.
    ///
    /// # Errors
    ///
    /// Those of making the join.
    pub fn with_filter(&self, filter: JoinFilter) -> Result<Arc<dyn ExecutionPlan>> {
        let join = HashJoinExecBuilder::from(self.join.as_ref()).with_filter(Some(filter)).build()?;
        in_place_of(Arc::new(join))
    }

    /// The built side that this part of the looked-up side looks into.
    fn building(&self, partition: usize, task: &Arc<TaskContext>) -> Result<Building> {
        let options = task.session_config().options();
        let listed_max = options.optimizer.hash_join_inlist_pushdown_max_distinct_values;
        let shares = *self.join.partition_mode() == PartitionMode::CollectLeft;
        let begin = |partition, parts| -> Result<Building> {
            let plan = Plan {
                rows: self.join.left().execute(partition, Arc::clone(task))?,
                keys: self.join.on().iter().map(|(key, _)| Arc::clone(key)).collect(),
                parts,
                memory: MemoryConsumer::new(CONSUMER).register(task.memory_pool()),
                sought: self.sought.clone(),
                listed_max,
                metrics: BuildMetrics::new(&self.metrics, partition),
            };
            Ok(plan.building())
        };
        if !shares {
            return begin(partition, 1);
        }
        let mut building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if building.is_none() {
            let parts = self.join.right().output_partitioning().partition_count();
            *building = Some(begin(0, parts)?);
        }
        building.clone().map_or_else(|| internal_err!("the built side has begun"), Ok)
    }
}

/// The operator in the place of this join, if it can do it, or the join.
fn in_place_of(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let any: Arc<dyn Any + Send + Sync> = join;
    let Ok(join) = any.downcast::<HashJoinExec>() else {
        return internal_err!("a hash join of other rows is one");
    };
    Ok(match IntegerHashJoinExec::in_place_of(&join) {
        Some(made) => Arc::new(made),
        None => join,
    })
}

/// The types of the columns of a join's key, if all are those of numbers, the same on both sides, and not too wide together.
fn key_types(join: &HashJoinExec) -> Option<Vec<DataType>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let type_of = |(of_left, of_right): &(PhysicalExprRef, PhysicalExprRef)| {
        let ty = of_left.data_type(&left).ok()?;
        (Numbers::are_of(&ty) && of_right.data_type(&right).ok()? == ty).then_some(ty)
    };
    let types = join.on().iter().map(type_of).collect::<Option<Vec<DataType>>>()?;
    let bytes: usize = types.iter().filter_map(DataType::primitive_width).sum();
    (!types.is_empty() && bytes <= size_of::<u128>()).then_some(types)
}

impl DisplayAs for IntegerHashJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In a tree the node's name stands above.
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("Integer")?;
        }
        self.join.fmt_as(t, f)
    }
}

impl ExecutionPlan for IntegerHashJoinExec {
    fn name(&self) -> &'static str {
        "IntegerHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(visit)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // It knows what of its properties comes from the rows.
        in_place_of(replace_children_if_necessary(Arc::clone(&self.join) as _, children)?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        in_place_of(Arc::clone(&self.join).reset_state()?)
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let building = self.building(partition, &task)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = task.session_config().batch_size();
        let rows = self.join.right().execute(partition, task)?;
        let time = metrics.elapsed_compute().clone();
        let work = Work::begin(Arc::clone(&self.shape), building, rows, batch_rows, time);
        let batches = stream::once(work).map_ok(|work| stream::try_unfold(work, Work::next)).try_flatten();
        let batches = batches.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, arguments)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.join.cardinality_effect()
    }
}
