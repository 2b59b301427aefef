// SPDX-License-Identifier: Apache-2.0
//! The operator against plans without it, on random rows.

use super::GROUP_TOP;
use super::best::{Best, FREE, Ranking};
use crate::carried::Carry;
use crate::plan_rule::SwitchedOff;
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray,
};
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Values of each column: few, so that groups are large and keys equal; NULLs; extremes.
fn batch(random: &mut StdRng, rows: usize, groups: i32) -> RecordBatch {
    let floats = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN, 7.0];
    let texts = [
        "",
        "a",
        "b",
        "the same first bytes, then a",
        "the same first bytes, then b",
        "ä",
        "\u{0}",
        "a\u{0}",
    ];
    let is_there = |random: &mut StdRng| random.random_bool(0.9);
    let mut column = |make: &mut dyn FnMut(&mut StdRng) -> ArrayRef| make(random);
    let numbers = |random: &mut StdRng, below: i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter(
            (0..rows).map(|_| is_there(random).then(|| random.random_range(0..below))),
        ))
    };
    let group = column(&mut |random| numbers(random, groups));
    let number = column(&mut |random| numbers(random, 20));
    let text = column(&mut |random| {
        let values = (0..rows).map(|_| is_there(random).then(|| texts[random.random_range(0..texts.len())]));
        Arc::new(values.collect::<StringArray>())
    });
    let float = column(&mut |random| {
        let values =
            (0..rows).map(|_| is_there(random).then(|| floats[random.random_range(0..floats.len())]));
        Arc::new(values.collect::<Float64Array>())
    });
    let decimal = column(&mut |random| {
        let value = |random: &mut StdRng| random.random_range(-3_i128..3) * 10_i128.pow(37);
        let values: Decimal128Array = (0..rows).map(|_| is_there(random).then(|| value(random))).collect();
        Arc::new(values.with_precision_and_scale(38, 2).expect("a type of decimals"))
    });
    let flag = column(&mut |random| {
        Arc::new(
            (0..rows).map(|_| is_there(random).then(|| random.random_bool(0.5))).collect::<BooleanArray>(),
        )
    });
    let row = Arc::new(Int32Array::from_iter_values((0..rows).map(|_| random.random_range(0..i32::MAX))))
        as ArrayRef;
    let columns =
        [("g", group), ("n", number), ("t", text), ("f", float), ("d", decimal), ("b", flag), ("r", row)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("a batch")
}

/// Whether rows are dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dropping {
    On,
    Off,
}

/// A context over a table `t`, with the rule or without.
fn context(partitions: &[Vec<RecordBatch>], dropping: Dropping) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(64);
    if dropping == Dropping::Off {
        SwitchedOff(vec!["coeval.group_top"]).carry_in(config.options_mut());
    }
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(GROUP_TOP))
        .build();
    let context = SessionContext::new_with_state(state);
    let table = MemTable::try_new(partitions[0][0].schema(), partitions.to_vec()).expect("a table");
    context.register_table("t", Arc::new(table)).expect("a name that is free");
    context
}

/// The lines of a result, sorted, and whether the operator was in the plan.
async fn run(context: &SessionContext, query: &str) -> (Vec<String>, bool) {
    let plan = context.sql(query).await.expect("a query").create_physical_plan().await.expect("a plan");
    let has_operator = displayable(plan.as_ref()).indent(false).to_string().contains("GroupTopExec");
    let task = context.task_ctx();
    let batches = datafusion::physical_plan::collect(plan, task).await.expect("rows");
    let text = pretty_format_batches(&batches).expect("a table of texts").to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (lines, has_operator)
}

fn compare(random: &mut StdRng, query: &str) {
    let rows = random.random_range(1..400);
    let groups = [1, 3, 50, 400][random.random_range(0..4)];
    let batches = |random: &mut StdRng| vec![batch(random, rows, groups), batch(random, rows / 2, groups)];
    let partitions = [batches(random), batches(random)];
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (with, has_operator) = run(&context(&partitions, Dropping::On), query).await;
        let (without, has_none) = run(&context(&partitions, Dropping::Off), query).await;
        assert!(has_operator && !has_none, "the operator is in the plan of {query}, and can be left out");
        assert_eq!(with, without, "{query}");
    });
}

/// Queries whose answers do not depend on how equal rows are numbered.
fn query(random: &mut StdRng) -> String {
    let mut one_of = |texts: &[&str]| texts[random.random_range(0..texts.len())].to_owned();
    let group = one_of(&["g", "t", "g, b", "n % 3", "d"]);
    let first = one_of(&["n", "t", "f", "d", "b", "r"]);
    let direction = one_of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let rest = one_of(&["", ", r", ", t DESC, n"]);
    let condition = one_of(&["= 1", "<= 1", "<= 2", "< 4", "<= 7", "BETWEEN 2 AND 5"]);
    let more = one_of(&["", " AND n > 3", " AND b"]);
    let window = format!("OVER (PARTITION BY {group} ORDER BY {first}{direction}{rest})");
    let window_of_rows = format!("OVER (PARTITION BY {group} ORDER BY {first}{direction})");
    let inner = match one_of(&["rank", "dense_rank", "row_number", "numbered", "two", "running"]).as_str() {
        // The key of the row that has a number is the same however equal rows are numbered.
        "row_number" => {
            let groups = group.replace("n % 3", "n % 3 AS n3");
            return format!(
                "SELECT * FROM (SELECT {groups}, {first} AS k, row_number() {window_of_rows} AS x FROM t) AS s WHERE x {condition}"
            );
        }
        // No two rows are equal for the order, but for its first column they are.
        "numbered" => {
            format!(
                "SELECT *, row_number() OVER (PARTITION BY {group} ORDER BY {first}{direction}, r) AS x FROM t"
            )
        }
        "two" => format!("SELECT *, dense_rank() {window} AS y, rank() {window} AS x FROM t"),
        // What they see of a row are those before it and its equals.
        "running" => {
            let ranked = one_of(&["rank", "dense_rank"]);
            format!("SELECT *, sum(r) {window} AS y, count(n) {window} AS z, {ranked}() {window} AS x FROM t")
        }
        function => format!("SELECT *, {function}() {window} AS x FROM t"),
    };
    format!("SELECT * FROM ({inner}) AS s WHERE x {condition}{more}")
}

#[test]
fn answers_are_those_without_it() {
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let query = query(&mut random);
        compare(&mut random, &query);
    }
}

#[test]
fn what_could_be_wrong_is_left_alone() {
    let mut random = StdRng::seed_from_u64(1);
    let partitions = [vec![batch(&mut random, 50, 3)], vec![batch(&mut random, 50, 3)]];
    let context = context(&partitions, Dropping::On);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let queries = [
        // No group: the sort keeps the first ones itself.
        "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY n) AS x FROM t) AS s WHERE x <= 3",
        // What sees rows behind a row.
        "SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY g ORDER BY n ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS y, \
         row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s WHERE x <= 3",
        "SELECT * FROM (SELECT *, lead(n) OVER (PARTITION BY g ORDER BY n) AS y, row_number() OVER (PARTITION BY g ORDER BY n) AS x \
         FROM t) AS s WHERE x <= 3",
        // Zeros have signs.
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY f ORDER BY n) AS x FROM t) AS s WHERE x <= 3",
        // No bound, or one from below.
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s WHERE x >= 3",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s WHERE x <= 3 OR n = 1",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s WHERE x <= 0",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s WHERE x <= 1000000",
        // Another window below it, which sees what would be dropped: sorted alike, and otherwise.
        "SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY g) AS y, row_number() OVER (PARTITION BY g ORDER BY n) AS x FROM t) AS s \
         WHERE x <= 3",
        "SELECT * FROM (SELECT *, sum(n) OVER (PARTITION BY b ORDER BY r) AS y, row_number() OVER (PARTITION BY g ORDER BY n) AS x \
         FROM t) AS s WHERE x <= 3",
        // One that needs no sort of its own, as its order is the beginning of the other one's.
        "SELECT * FROM (SELECT *, sum(n) OVER (PARTITION BY g ORDER BY n, r) AS y, row_number() OVER (PARTITION BY g ORDER BY n) AS x \
         FROM t) AS s WHERE x <= 3",
        // A second window that sees the rows that would be dropped.
        "SELECT * FROM (SELECT *, sum(n) OVER (PARTITION BY t) AS y FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n) \
         AS x FROM t) AS i) AS s WHERE x <= 3",
    ];
    for query in queries {
        let (_, has_operator) = runtime.block_on(run(&context, query));
        assert!(!has_operator, "{query}");
    }
}

/// A group's rows, in the order in which they come; what stays, by counting all that came so far.
#[test]
fn a_row_is_dropped_when_enough_come_before_it_and_not_sooner() {
    for seed in 0..3_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let keep = random.random_range(1..6);
        let ranking = [Ranking::Rows, Ranking::Ranks, Ranking::Values][random.random_range(0..3)];
        let mut best = Best::new(ranking, keep);
        best.grow(3);
        let mut before = Vec::new();
        for _ in 0..random.random_range(0..40) {
            let key = [-2, -1, 0, 1, 2, 3, FREE - 1][random.random_range(0..7)];
            let mut counted: Vec<i128> = before.iter().copied().filter(|&other| other < key).collect();
            match ranking {
                Ranking::Rows => counted.extend(before.iter().filter(|&&other| other == key)),
                Ranking::Ranks => {}
                Ranking::Values => {
                    counted.sort_unstable();
                    counted.dedup();
                }
            }
            assert_eq!(best.see(1, key), counted.len() < keep, "{ranking:?} {keep}: {key} behind {before:?}");
            before.push(key);
        }
    }
}
