// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

use super::expected::{Bounds, Expected};
use super::{PackedGroupsExec, with_packed_groups};
use crate::coded_groups::{with_coded_groups, with_packed_remainders};
use crate::model::{Rows, both_ways, differences, over_other_rows};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Columns to group by; `model.rs` says what is in them.
const KEYS: [&str; 7] = [
    "tiny, small",
    "small, date",
    "wide, tiny",
    "date, moment",
    "tiny, small, date",
    "date, wide",
    "small % 3, small + tiny",
];

const CALLS: [&str; 7] = [
    "count(*), count(small), count(text)",
    "sum(small), sum(tiny), min(small), max(wide)",
    "avg(real), sum(amount), avg(amount)",
    "sum(small) FILTER (WHERE flag), count(*) FILTER (WHERE tiny > 1)",
    "min(word), max(text), stddev(real)",
    "count(DISTINCT small), sum(small)",
    "median(small), bool_or(flag), max(moment)",
];

/// As plans of the SQL layer have it: first steps are begun by codes, and what is left of them and the second steps go by keys.
fn by_keys_behind_codes(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_packed_remainders(with_packed_groups(with_coded_groups(plan)?)?)
}

/// Keys that have room for small numbers, of which there are some in all columns.
fn by_keys_of_small_numbers(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let expected: Expected = [Some(Bounds { least: -200, most: 1_000 }); 3].into_iter().collect();
    let packed = plan.transform_up(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        let packed = aggregate.map(|aggregate| PackedGroupsExec::expecting(aggregate, &expected));
        Ok(match packed.transpose()?.flatten() {
            Some(packed) => Transformed::yes(Arc::new(packed) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(packed.data)
}

#[tokio::test]
async fn groups_of_other_values_than_expected_are_those_of_datafusion() -> Result<()> {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for keys in ["wide, tiny", "date, moment", "wide, moment", "tiny, small, date"] {
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let query = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys}");
            let (ours, theirs) = both_ways(&rows, &query, by_keys_of_small_numbers, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
            assert!(ours.replaced > 0, "seed {seed}: {query}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn groups_are_those_of_datafusion() -> Result<()> {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..6 {
            let keys = KEYS[random.random_range(0..KEYS.len())];
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let query = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys}");
            let rule = if random.random() { with_packed_groups } else { by_keys_behind_codes };
            let (ours, theirs) = both_ways(&rows, &query, rule, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
            assert!(ours.replaced > 0 && theirs.replaced == 0, "seed {seed}: {query}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn groups_alone_are_those_of_datafusion() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(5));
    for keys in KEYS {
        let query = format!("SELECT DISTINCT {keys} FROM t");
        let (ours, theirs) = both_ways(&rows, &query, with_packed_groups, None).await?;
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
        assert!(ours.replaced > 0, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn joined_groups_meet_each_other() -> Result<()> {
    let rows = Rows::distinct(20_000);
    let query = "SELECT a.small, a.date, n, m
        FROM (SELECT small, date, count(*) AS n FROM t GROUP BY small, date) a
        FULL JOIN (SELECT small, date, sum(tiny) AS m FROM t WHERE tiny > 0 GROUP BY small, date) b
        ON a.small = b.small AND a.date = b.date";
    let (ours, theirs) = both_ways(&rows, query, with_packed_groups, None).await?;
    assert_eq!(differences(&ours.rows, &theirs.rows), None);
    assert!(ours.replaced > 1);
    Ok(())
}

#[tokio::test]
async fn rows_that_codes_leave_over_are_grouped_by_keys() -> Result<()> {
    let rows = Rows::distinct(100_000);
    let query = "SELECT wide, tiny, count(*), sum(small) FROM t GROUP BY wide, tiny";
    let (ours, theirs) = both_ways(&rows, query, by_keys_behind_codes, None).await?;
    assert_eq!(differences(&ours.rows, &theirs.rows), None);
    assert!(ours.left_rows > 0);
    Ok(())
}

#[tokio::test]
async fn other_groups_stay_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for keys in ["small", "tiny, word", "real, small", "wide, moment", "ROLLUP (tiny, small, word)"] {
        let query = format!("SELECT count(*), sum(small) FROM t GROUP BY {keys}");
        let (ours, theirs) = both_ways(&rows, &query, with_packed_groups, None).await?;
        assert_eq!(ours.replaced, 0, "{query}");
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
    }
    Ok(())
}

/// To break it: make the layout anew for other rows.
#[tokio::test]
async fn other_rows_with_the_same_columns_have_the_same_keys() -> Result<()> {
    let rows = Rows::distinct(20_000);
    let query = "SELECT wide, tiny, count(*), sum(small) FROM t GROUP BY wide, tiny";
    let packed = over_other_rows::<PackedGroupsExec>(&rows, query, with_packed_groups).await?;
    let layouts = packed.each_ref().map(|operator| {
        let packed: &PackedGroupsExec = operator.downcast_ref().expect("it stays of its kind");
        Arc::clone(&packed.layout)
    });
    assert!(Arc::ptr_eq(&layouts[0], &layouts[1]));
    Ok(())
}

const GROUPS: i64 = 100_000;

/// A number for each group, in no order, up to the ends of 64 bits.
fn number_of(group: i64) -> i64 {
    (group * 7919 % GROUPS - GROUPS / 2) * 184_467_440_737_095
}

/// Keys of 128 bits, which are no decimals of 38 digits, are put aside and merged as such by DataFusion's operator.
#[tokio::test]
async fn groups_that_do_not_fit_are_put_aside_and_come_back() -> Result<()> {
    const ENOUGH: usize = 1 << 30;
    let batch = |first: i64| {
        let groups = first..first + 1000;
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from_iter_values(groups.clone().map(number_of)))),
            ("b", Arc::new(Int64Array::from_iter_values(groups.map(|group| -number_of(group))))),
        ];
        RecordBatch::try_from_iter(columns)
    };
    let once = (0..GROUPS).step_by(1000).map(batch).collect::<Result<Vec<_>, _>>()?;
    let twice = [once.clone(), once].concat();
    let query = "SELECT count(*), sum(c), count(*) FILTER (WHERE a + b = 0)
        FROM (SELECT a, b, count(*) AS c FROM t GROUP BY a, b)";
    for bytes in [2 << 20, 4 << 20, 8 << 20, ENOUGH] {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
        let config = SessionConfig::new().with_target_partitions(1);
        let context = SessionContext::new_with_config_rt(config, runtime.build_arc()?);
        let table = MemTable::try_new(twice[0].schema(), vec![twice.clone()])?;
        context.register_table("t", Arc::new(table))?;
        let plan = with_packed_groups(context.sql(query).await?.create_physical_plan().await?)?;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert!(shown.contains("bits=128"), "{shown}");
        match collect(plan, context.task_ctx()).await {
            Ok(found) => {
                let columns = found[0].columns().iter();
                let numbers: Vec<i64> =
                    columns.map(|column| column.as_primitive::<Int64Type>().value(0)).collect();
                assert_eq!(numbers, [GROUPS, 2 * GROUPS, GROUPS], "{bytes} bytes");
            }
            Err(error) => {
                let is_for_memory = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
                assert!(is_for_memory && bytes < ENOUGH, "{bytes} bytes: {error}");
            }
        }
    }
    Ok(())
}
