// SPDX-License-Identifier: Apache-2.0
//! For tests: random rows, and a query over them with an operator of ours and without.

use crate::coded_groups::{CONSUMER, CodedGroupsExec};
use crate::grouping_sets::GroupingSetsExec;
use crate::packed_groups::PackedGroupsExec;
use crate::running_windows::RunningWindowsExec;
use crate::stepwise_filter::StepwiseFilterExec;
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::util::display::array_value_to_string;
use datafusion::common::resources_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::Rng;
use rand::rngs::SmallRng;
use std::fmt;
use std::sync::Arc;

/// The table `t`, in two partitions.
pub(crate) struct Rows(Vec<Vec<RecordBatch>>);

impl Rows {
    /// Of any number, with NULLs, extremes, texts of all lengths; values change from batch to batch.
    pub(crate) fn random(random: &mut SmallRng) -> Self {
        let partitions = (0..2).map(|_| {
            let batches = random.random_range(0..5);
            (0..batches).map(|_| random_batch(random)).collect()
        });
        Self(partitions.collect())
    }

    /// Each row is a group of its own.
    pub(crate) fn distinct(rows: usize) -> Self {
        Self::repeated(rows, 1)
    }

    /// So many groups, each with so many rows in each partition.
    pub(crate) fn repeated(groups: usize, times: usize) -> Self {
        let mut random = <SmallRng as rand::SeedableRng>::seed_from_u64(3);
        let partition = |part: usize| {
            let all: Vec<usize> = (0..groups * times).collect();
            all.chunks(8192)
                .map(|rows| {
                    let key = |row: &usize| (row % groups) * 2_654_435_761 + part % 2;
                    let mut batch = Batch::random(&mut random, rows.len());
                    batch.wide = rows.iter().map(|row| Some(key(row) as i64)).collect();
                    batch.text =
                        rows.iter().map(|row| Some(format!("the text of group {}", key(row)))).collect();
                    batch.into()
                })
                .collect::<Vec<RecordBatch>>()
        };
        let mut partition = partition;
        Self(vec![partition(0), partition(1)])
    }
}

#[derive(Default)]
struct Batch {
    tiny: Vec<Option<i16>>,
    small: Vec<Option<i32>>,
    wide: Vec<Option<i64>>,
    real: Vec<Option<f64>>,
    date: Vec<Option<i32>>,
    moment: Vec<Option<i64>>,
    flag: Vec<Option<bool>>,
    amount: Vec<Option<i128>>,
    long: Vec<Option<i128>>,
    word: Vec<Option<String>>,
    text: Vec<Option<String>>,
}

impl Batch {
    fn random(random: &mut SmallRng, rows: usize) -> Self {
        let (nulls, spread) = ([0.0, 0.1, 1.0][random.random_range(0..3)], 1 << random.random_range(0..28));
        let base = random.random_range(-100_000..100_000);
        // Batches whose values have 64 bits beside others.
        let unit = if random.random_bool(0.3) { 10_i128.pow(20) } else { 1 };
        let mut batch = Self::default();
        for _ in 0..rows {
            let mut there = || !random.random_bool(nulls);
            let are_there = [(); 11].map(|()| there());
            let value = base + random.random_range(0..spread);
            batch.tiny.push(are_there[0].then(|| random.random_range(-3..3)));
            batch.small.push(are_there[1].then_some(value));
            batch.wide.push(are_there[2].then(|| match random.random_range(0..50) {
                0 => i64::from(i32::MAX) * 100_000,
                1 => i64::from(i32::MIN) * 100_000,
                _ => i64::from(value),
            }));
            // Whole numbers: sums do not depend on their order.
            batch.real.push(are_there[3].then(|| f64::from(value % 1000)));
            batch.date.push(are_there[4].then_some(value % 500));
            batch.moment.push(are_there[5].then(|| i64::from(value) * 3_600_000_000));
            batch.flag.push(are_there[6].then(|| random.random_bool(0.5)));
            batch.amount.push(are_there[7].then(|| i128::from(value % 300) * 125));
            batch.long.push(are_there[10].then(|| i128::from(value) * unit));
            batch.word.push(are_there[8].then(|| format!("w{}", value % 40)));
            batch.text.push(
                are_there[9].then(|| "long ".repeat(random.random_range(0..6)) + &(value % 7).to_string()),
            );
        }
        batch
    }
}

impl From<Batch> for RecordBatch {
    fn from(batch: Batch) -> Self {
        let amount =
            Decimal128Array::from(batch.amount).with_precision_and_scale(12, 2).expect("small numbers");
        let long = Decimal128Array::from(batch.long).with_precision_and_scale(38, 4).expect("38 digits");
        let columns: [(&str, ArrayRef); 11] = [
            ("tiny", Arc::new(Int16Array::from(batch.tiny))),
            ("small", Arc::new(Int32Array::from(batch.small))),
            ("wide", Arc::new(Int64Array::from(batch.wide))),
            ("real", Arc::new(Float64Array::from(batch.real))),
            ("date", Arc::new(Date32Array::from(batch.date))),
            ("moment", Arc::new(TimestampMicrosecondArray::from(batch.moment).with_timezone("UTC"))),
            ("flag", Arc::new(BooleanArray::from(batch.flag))),
            ("amount", Arc::new(amount)),
            ("long", Arc::new(long)),
            ("word", Arc::new(batch.word.into_iter().collect::<StringViewArray>())),
            ("text", Arc::new(batch.text.into_iter().collect::<StringViewArray>())),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }
}

fn random_batch(random: &mut SmallRng) -> RecordBatch {
    let rows = [0, 1, 7, 500, 8192][random.random_range(0..5)];
    Batch::random(random, rows).into()
}

/// What came of a query.
pub(crate) struct Outcome {
    /// In order, each row as one text.
    pub(crate) rows: Vec<String>,
    /// How often an operator of ours stands in the plan.
    pub(crate) replaced: usize,
    /// Rows that it left to DataFusion's.
    pub(crate) left_rows: usize,
}

/// Memory of which the operator gets little, and others what they ask for.
#[derive(Debug)]
struct Refusing {
    bytes: usize,
    all: UnboundedMemoryPool,
}

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, reservation: &MemoryReservation, more: usize) {
        self.all.grow(reservation, more);
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        self.all.shrink(reservation, less);
    }

    fn try_grow(&self, reservation: &MemoryReservation, more: usize) -> Result<()> {
        if reservation.consumer().name() == CONSUMER && reservation.size() + more > self.bytes {
            return resources_err!("{CONSUMER} asked for {more} bytes more");
        }
        self.all.try_grow(reservation, more)
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }
}

impl fmt::Display for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refusing(more than {} bytes)", self.bytes)
    }
}

/// What puts an operator of ours into a plan.
pub(crate) type Rule = fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>;

/// The query with what the rule puts into it, and without; `memory`: bytes that coded groups may have.
pub(crate) async fn both_ways(
    rows: &Rows,
    query: &str,
    rule: Rule,
    memory: Option<usize>,
) -> Result<(Outcome, Outcome)> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(bytes) = memory {
        runtime = runtime.with_memory_pool(Arc::new(Refusing { bytes, all: UnboundedMemoryPool::default() }));
    }
    let config = SessionConfig::new().with_target_partitions(2);
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
    let empty: RecordBatch = Batch::default().into();
    context.register_table("t", Arc::new(MemTable::try_new(empty.schema(), rows.0.clone())?))?;
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let ours = rule(Arc::clone(&plan))?;
    Ok((outcome(ours, &context).await?, outcome(plan, &context).await?))
}

/// The first operator of this kind that the rule puts into the query, and the same over other rows with the same columns.
pub(crate) async fn over_other_rows<T: ExecutionPlan>(
    rows: &Rows,
    query: &str,
    rule: Rule,
) -> Result<[Arc<dyn ExecutionPlan>; 2]> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let empty: RecordBatch = Batch::default().into();
    context.register_table("t", Arc::new(MemTable::try_new(empty.schema(), rows.0.clone())?))?;
    let plan = rule(context.sql(query).await?.create_physical_plan().await?)?;
    let mut found = None;
    plan.apply(|node| {
        if !node.is::<T>() {
            return Ok(TreeNodeRecursion::Continue);
        }
        found = Some(Arc::clone(node));
        Ok(TreeNodeRecursion::Stop)
    })?;
    let operator = found.expect("the rule puts one in");
    let other = |rows: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        Arc::new(CooperativeExec::new(Arc::clone(rows)))
    };
    let others = operator.children().into_iter().map(other).collect();
    let over_others = replace_children_if_necessary(Arc::clone(&operator), others)?;
    Ok([operator, over_others])
}

async fn outcome(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Outcome> {
    let plan = reset_plan_states(plan)?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row));
            rows.push(values.collect::<Result<Vec<_>, _>>()?.join("|"));
        }
    }
    rows.sort_unstable();
    let (mut replaced, mut left_rows) = (0, 0);
    plan.apply(|node| {
        if node.downcast_ref::<CodedGroupsExec>().is_some() {
            replaced += 1;
            let metrics = node.metrics().and_then(|metrics| metrics.sum_by_name("left_rows"));
            left_rows += metrics.map_or(0, |count| count.as_usize());
        }
        replaced += usize::from(node.downcast_ref::<GroupingSetsExec>().is_some());
        replaced += usize::from(node.downcast_ref::<PackedGroupsExec>().is_some());
        replaced += usize::from(node.downcast_ref::<RunningWindowsExec>().is_some());
        replaced += usize::from(node.downcast_ref::<StepwiseFilterExec>().is_some());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(Outcome { rows, replaced, left_rows })
}

/// The first row in which they differ.
pub(crate) fn differences(ours: &[String], theirs: &[String]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} groups, {} in the model", ours.len(), theirs.len()));
    }
    let pairs = ours.iter().zip(theirs);
    pairs
        .filter(|(ours, theirs)| !are_equal(ours, theirs))
        .map(|(ours, theirs)| format!("{ours}, not {theirs}"))
        .next()
}

/// Floats may differ in their last digits: states are merged in another order.
fn are_equal(ours: &str, theirs: &str) -> bool {
    ours.split('|').zip(theirs.split('|')).all(|(ours, theirs)| {
        ours == theirs
            || match (ours.parse::<f64>(), theirs.parse::<f64>()) {
                (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= 1e-9 * ours.abs().max(theirs.abs()),
                _ => false,
            }
    })
}
