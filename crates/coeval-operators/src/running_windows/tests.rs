// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

use super::{RunningWindowsExec, with_running_windows};
use crate::model::{Rows, both_ways, differences};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Of all types that are computed here. The arguments are among what windows are ordered by, so that rows which DataFusion may take in any
/// order are equal rows.
const CALLS: [&str; 8] = [
    "count(*) OVER w, sum(small) OVER w",
    "sum(wide) OVER w, count(wide) OVER w",
    "sum(amount) OVER w, min(amount) OVER w",
    "sum(long) OVER w, max(long) OVER w",
    "min(small) OVER w, max(tiny) OVER w",
    "min(wide) OVER w, max(wide) OVER w",
    "min(date) OVER w, max(moment) OVER w",
    "count(word) OVER w, count(flag) OVER w, count(real) OVER w",
];

const PARTITIONS: [&str; 4] =
    ["", "PARTITION BY tiny", "PARTITION BY word, flag", "PARTITION BY small, date"];

const ORDER: &str = "ORDER BY date, small, wide, amount, long, moment, tiny, word, flag, real";

/// Of which many rows are peers. No call is of another column.
const ORDER_OF_PEERS: &str = "ORDER BY date";

fn running(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    // No query below has a FILTER but where it is said.
    with_running_windows(plan, |_| true)
}

/// The query as both compute it, and that the operator computes it.
async fn is_the_same(rows: &Rows, query: &str, seed: u64) -> Result<()> {
    let (ours, theirs) = both_ways(rows, query, running, None).await?;
    assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
    assert!(ours.replaced > 0 && theirs.replaced == 0, "seed {seed}: {query}");
    Ok(())
}

#[tokio::test]
async fn values_by_rows_are_those_of_datafusion() -> Result<()> {
    for seed in 0..25 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..3 {
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let partition = PARTITIONS[random.random_range(0..PARTITIONS.len())];
            let window = format!("{partition} {ORDER} ROWS UNBOUNDED PRECEDING");
            let query = format!(
                "SELECT date, small, wide, amount, sum(real) OVER w, {calls} FROM t WINDOW w AS ({window})"
            );
            is_the_same(&rows, &query, seed).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn values_of_peers_are_those_of_datafusion() -> Result<()> {
    for seed in 0..25 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..3 {
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let partition = PARTITIONS[random.random_range(0..PARTITIONS.len())];
            let order = [ORDER, ORDER_OF_PEERS][random.random_range(0..2)];
            let query = format!("SELECT date, tiny, {calls} FROM t WINDOW w AS ({partition} {order})");
            is_the_same(&rows, &query, seed).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn values_of_partitions_are_those_of_datafusion() -> Result<()> {
    for seed in 0..25 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..3 {
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let partition = PARTITIONS[random.random_range(0..PARTITIONS.len())];
            let frame = ["", "ORDER BY date ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"];
            let frame = frame[random.random_range(0..2)];
            let query = format!("SELECT small, tiny, {calls} FROM t WINDOW w AS ({partition} {frame})");
            is_the_same(&rows, &query, seed).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn groups_go_on_from_batch_to_batch() -> Result<()> {
    let rows = Rows::repeated(3, 10_000);
    for window in [
        "PARTITION BY wide ORDER BY small, amount ROWS UNBOUNDED PRECEDING",
        "ORDER BY wide",
        "PARTITION BY wide ORDER BY text",
        "PARTITION BY wide",
        "",
    ] {
        let calls = "count(*) OVER w, max(wide) OVER w, min(amount) OVER w, sum(amount) OVER w";
        let query = format!("SELECT wide, small, amount, {calls} FROM t WINDOW w AS ({window})");
        is_the_same(&rows, &query, 0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn sums_of_floats_that_are_not_finite_are_those_of_datafusion() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(7));
    let values =
        "(VALUES (1, 1e0), (2, NULL), (3, 1e308), (4, 1e308), (5, -1e308), (6, 'NaN'::double), (7, 2e0))";
    let query =
        format!("SELECT n, sum(x) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) FROM {values} AS v (n, x)");
    is_the_same(&rows, &query, 7).await
}

#[tokio::test]
async fn other_windows_stay_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for call in [
        "sum(small) OVER (ORDER BY small, date ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "sum(real) OVER (PARTITION BY tiny)",
        "sum(small) OVER (ORDER BY small), max(small) OVER (ORDER BY small ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "rank() OVER (ORDER BY small)",
        "max(word) OVER (ORDER BY small)",
    ] {
        let query = format!("SELECT small, {call} FROM t");
        let (ours, theirs) = both_ways(&rows, &query, running, None).await?;
        assert_eq!(ours.replaced, 0, "{query}");
        assert_eq!(ours.rows.len(), theirs.rows.len(), "{query}");
    }
    let query = "SELECT small, sum(small) FILTER (WHERE flag) OVER (ORDER BY small) FROM t";
    let (ours, _) = both_ways(&rows, query, |plan| with_running_windows(plan, |_| false), None).await?;
    assert_eq!(ours.replaced, 0, "{query}");
    Ok(())
}

/// What comes of a query over rows in the order of `k`, a hundred of its values with a batch each, with memory for some batches.
async fn with_little_memory(query: &str) -> Result<Vec<RecordBatch>> {
    const MEMORY_BYTES: usize = 1 << 20;
    const BATCH_ROWS: usize = 8192;
    let batch = |k: i64| {
        let columns: [(&str, ArrayRef); 2] = [
            ("k", Arc::new(Int64Array::from_value(k, BATCH_ROWS))),
            ("n", Arc::new(Int64Array::from_iter_values(0..BATCH_ROWS as i64))),
        ];
        RecordBatch::try_from_iter(columns)
    };
    let batches = (0..100).map(batch).collect::<Result<Vec<_>, _>>()?;
    let order = vec![vec![col("k").sort(true, true)]];
    let table = MemTable::try_new(batches[0].schema(), vec![batches])?.with_sort_order(order);
    let pool = Arc::new(GreedyMemoryPool::new(MEMORY_BYTES));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config_rt(config, runtime);
    context.register_table("t", Arc::new(table))?;
    let plan = running(context.sql(query).await?.create_physical_plan().await?)?;
    collect(plan, context.task_ctx()).await
}

#[tokio::test]
async fn rows_of_one_partition_are_kept_and_their_memory_is_reserved() -> Result<()> {
    let batches =
        with_little_memory("SELECT k, sum(n) OVER (PARTITION BY k ORDER BY k NULLS FIRST) FROM t").await?;
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100 * 8192);
    for batch in &batches {
        let sums = batch.column(1).as_primitive::<Int64Type>();
        assert!(sums.values().iter().all(|sum| *sum == 8191 * 8192 / 2), "the same for all of a partition");
    }
    let refused = with_little_memory("SELECT sum(n) OVER () FROM t").await;
    let is_for_memory =
        |error: DataFusionError| matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
    assert!(refused.is_err_and(is_for_memory), "all rows at once are too many");
    Ok(())
}

/// What is at the bottom of a plan with one input each.
fn bottom(node: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    node.children().first().map_or_else(|| Arc::clone(node), |below| bottom(below))
}

#[tokio::test]
async fn other_rows_have_to_come_as_the_window_wants_them() -> Result<()> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("n", column)])?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()], vec![batch]])?;
    context.register_table("t", Arc::new(table))?;
    let query = "SELECT n, sum(n) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) AS s FROM t";
    let plan = running(context.sql(query).await?.create_physical_plan().await?)?;
    let is_sound = |plan: &Arc<dyn ExecutionPlan>| {
        SanityCheckPlan::new().optimize(Arc::clone(plan), &ConfigOptions::default()).is_ok()
    };
    assert!(is_sound(&plan));

    let mut window = plan;
    while window.downcast_ref::<RunningWindowsExec>().is_none() {
        let below = Arc::clone(window.children()[0]);
        window = below;
    }
    let mut expressions = 0;
    window.apply_expressions(&mut |_| {
        expressions += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    assert!(expressions > 0, "what it computes is seen by rules");

    // Two partitions of rows in any order.
    let rows = bottom(&window);
    let over_others = replace_children_if_necessary(window, vec![rows])?;
    assert_eq!(over_others.properties().output_partitioning().partition_count(), 2);
    assert!(!is_sound(&over_others));
    Ok(())
}
