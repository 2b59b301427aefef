// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

use super::with_packed_groups;
use crate::coded_groups::{with_coded_groups, with_packed_remainders};
use crate::model::{Rows, both_ways, differences};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
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
