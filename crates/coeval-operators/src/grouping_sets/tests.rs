// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

use super::with_grouping_sets;
use crate::coded_groups::with_coded_groups;
use crate::model::{Rows, both_ways, differences};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const SETS: [&str; 8] = [
    "ROLLUP (tiny, word)",
    "ROLLUP (word, small % 3, flag)",
    "CUBE (tiny, flag, word)",
    "GROUPING SETS ((tiny, word), (word), ())",
    "GROUPING SETS ((tiny, word), (tiny, word), (tiny), (tiny))",
    "GROUPING SETS ((real, word), (real))",
    "GROUPING SETS ((tiny, date), (tiny), (), ())",
    "tiny, ROLLUP (word)",
];

const CALLS: [&str; 6] = [
    "count(*), sum(small), avg(amount)",
    "min(text), max(date), count(DISTINCT small)",
    "sum(amount) FILTER (WHERE flag), count(wide)",
    "min(real), max(real), count(real)",
    "median(small), bool_or(flag)",
    "sum(small + tiny)",
];

/// By both operators: the finest groups are made by codes.
fn by_codes(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_coded_groups(with_grouping_sets(plan)?)
}

#[tokio::test]
async fn groups_of_all_sets_are_those_of_datafusion() -> Result<()> {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..6 {
            let sets = SETS[random.random_range(0..SETS.len())];
            let calls = CALLS[random.random_range(0..CALLS.len())];
            let grouping = if sets.contains("word") { ", grouping(word)" } else { "" };
            let query = format!("SELECT tiny, {calls}{grouping} FROM (SELECT * FROM t) t GROUP BY {sets}");
            let query = if sets.contains("tiny") { query } else { query.replacen("tiny, ", "", 1) };
            let rule = if random.random() { with_grouping_sets } else { by_codes };
            let (ours, theirs) = both_ways(&rows, &query, rule, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
            assert!(ours.replaced > 0 && theirs.replaced == 0, "seed {seed}: {query}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_set_of_no_columns_has_a_group_without_rows() -> Result<()> {
    let rows = Rows::distinct(0);
    let query = "SELECT tiny, count(*), sum(small) FROM t GROUP BY GROUPING SETS ((tiny), (), ())";
    let (ours, theirs) = both_ways(&rows, query, with_grouping_sets, None).await?;
    assert_eq!(ours.rows, theirs.rows);
    assert_eq!(ours.rows.len(), 2);
    Ok(())
}

#[tokio::test]
async fn sets_of_which_none_has_all_columns_stay_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for query in [
        "SELECT tiny, word, sum(small) FROM t GROUP BY GROUPING SETS ((tiny), (word))",
        "SELECT tiny, word, sum(small) FROM t GROUP BY tiny, word",
    ] {
        let (ours, theirs) = both_ways(&rows, query, with_grouping_sets, None).await?;
        assert_eq!(ours.replaced, 0, "{query}");
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
    }
    Ok(())
}
