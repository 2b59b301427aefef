// SPDX-License-Identifier: Apache-2.0
//! The operator beside DataFusion's own, over random rows: the model is what it stands in the place of.

use super::{StepwiseFilterExec, filter_of, with_stepwise_filters};
use crate::model::{Rows, both_ways, differences};
use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, collect, displayable};
use datafusion::prelude::SessionContext;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Rows with dictionaries, other floats than numbers, and a column of nothing but NULLs. The limit keeps filters above.
const SOURCE: &str = "(SELECT *, arrow_cast(word, 'Dictionary(Int32, Utf8)') AS coded,
    CASE small % 5 WHEN 0 THEN 'NaN'::double WHEN 1 THEN -0.0 WHEN 2 THEN 'inf'::double ELSE real END AS odd,
    NULL AS nothing FROM t LIMIT 1000000) x";

/// Some are compared by loops, and some are not.
const CONDITIONS: [&str; 30] = [
    "tiny > 0",
    "small >= -500 AND small < 90000",
    "small < wide",
    "tiny <> wide",
    "wide IN (-1, 0, 1, 2, 3, 4, 5)",
    "tiny NOT IN (0, 2)",
    "real > 10.5",
    "odd = 'NaN'::double",
    "odd <= 0.0",
    "odd < real",
    "date >= DATE '1970-03-01'",
    "date <> DATE '1970-01-07'",
    "moment >= '1969-12-01T00:00:00Z'",
    "amount > CAST(100 AS DECIMAL(12, 2))",
    "amount < long",
    "long < CAST(5 AS DECIMAL(38, 4))",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "nothing IS NULL",
    "coded IS NOT NULL",
    "coded = 'w7'",
    "word = 'w3' OR word = 'w4' OR tiny = 1",
    "word LIKE 'w1%'",
    "text > word",
    "text LIKE '%long%' OR small > 7",
    "wide IS NOT NULL OR text IS NULL",
    "small % 3 = 1",
    "abs(small) > 100",
    "small + tiny > wide OR flag",
];

const OUTPUTS: [&str; 4] = ["*", "count(*)", "small, word, coded", "text, odd, amount"];

fn stepwise(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_stepwise_filters(plan, |condition| condition)
}

#[tokio::test]
async fn rows_are_those_of_datafusion() -> Result<()> {
    let mut replaced = 0;
    for seed in 0..25 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = Rows::random(&mut random);
        for _ in 0..4 {
            let count = random.random_range(1..6);
            let conditions: Vec<String> = (0..count)
                .map(|_| format!("({})", CONDITIONS[random.random_range(0..CONDITIONS.len())]))
                .collect();
            let output = OUTPUTS[random.random_range(0..OUTPUTS.len())];
            let query = format!("SELECT {output} FROM {SOURCE} WHERE {}", conditions.join(" AND "));
            let (ours, theirs) = both_ways(&rows, &query, stepwise, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "seed {seed}: {query}");
            assert_eq!(theirs.replaced, 0);
            replaced += ours.replaced;
        }
    }
    assert!(replaced > 50, "{replaced} of 100 filters");
    Ok(())
}

#[tokio::test]
async fn filters_above_joins_and_aggregates_are_replaced() -> Result<()> {
    let rows = Rows::repeated(50, 40);
    for query in [
        "SELECT wide, count(*) AS n, min(small) AS least FROM t GROUP BY wide HAVING count(*) > 10 AND min(small) < 0",
        "SELECT a.small FROM t a LEFT JOIN t b ON a.wide = b.wide AND b.tiny = 1 WHERE b.wide IS NULL AND a.tiny > 0",
    ] {
        let (ours, theirs) = both_ways(&rows, query, stepwise, None).await?;
        assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
        assert!(ours.replaced > 0, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn a_single_condition_that_is_evaluated_and_volatile_ones_stay_as_they_are() -> Result<()> {
    let rows = Rows::random(&mut SmallRng::seed_from_u64(1));
    for condition in ["small % 3 = 1", "random() >= 0.0 AND small > 5"] {
        let query = format!("SELECT small FROM {SOURCE} WHERE {condition}");
        let (ours, theirs) = both_ways(&rows, &query, stepwise, None).await?;
        assert_eq!((ours.replaced, differences(&ours.rows, &theirs.rows)), (0, None), "{query}");
    }
    Ok(())
}

/// `a` = 0, 1, 2, …; `b` = `a` modulo 100; a text; in batches of so many rows.
fn numbers(rows: usize, batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let all: Vec<usize> = (0..rows).collect();
    let batch = |rows: &[usize]| {
        let numbers = || rows.iter().map(|row| *row as i64);
        let a: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers()));
        let b: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers().map(|row| (row % 100) as i32)));
        let texts = numbers().map(|row| format!("the text of row {row}"));
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        RecordBatch::try_from_iter([("a", a), ("b", b), ("text", text)])
    };
    Ok(all.chunks(batch_rows).map(batch).collect::<Result<Vec<_>, _>>()?)
}

type Parts = Vec<Arc<dyn PhysicalExpr>>;

/// A filter by all of these conditions over rows of [`numbers`].
fn filter(batches: Vec<RecordBatch>, parts: Parts) -> Result<FilterExecBuilder> {
    let schema = batches[0].schema();
    let rows = MemorySourceConfig::try_new_exec(&[batches], schema, None)?;
    Ok(FilterExecBuilder::new(conjunction(parts), rows).with_batch_size(100))
}

fn in_place_of(filter: &FilterExec) -> Arc<dyn ExecutionPlan> {
    Arc::new(StepwiseFilterExec::in_place_of(filter, |condition| condition).expect("it can be replaced"))
}

/// `a >= 5 AND 10 / b > 1 AND …`: the parts by their places, over the rows' schema.
fn parts(batches: &[RecordBatch], wanted: &[&str]) -> Result<Parts> {
    let schema = batches[0].schema();
    let part = |wanted: &&str| {
        let (a, b) = (col("a", &schema)?, col("b", &schema)?);
        match *wanted {
            "a >= 5" => binary(a, Operator::GtEq, lit(5_i64), &schema),
            "b <> 0" => binary(b, Operator::NotEq, lit(0_i32), &schema),
            "b = 7" => binary(b, Operator::Eq, lit(7_i32), &schema),
            "b % 100 <> 0" => {
                let rest = binary(b, Operator::Modulo, lit(100_i32), &schema)?;
                binary(rest, Operator::NotEq, lit(0_i32), &schema)
            }
            "10 / b > 1" => {
                let quotient = binary(lit(10_i32), Operator::Divide, b, &schema)?;
                binary(quotient, Operator::Gt, lit(1_i32), &schema)
            }
            other => unreachable!("{other}"),
        }
    };
    wanted.iter().map(part).collect()
}

async fn rows_of(plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>> {
    collect(reset_plan_states(plan)?, SessionContext::new().task_ctx()).await
}

#[tokio::test]
async fn limits_projections_and_order_are_those_of_the_filter() -> Result<()> {
    let batches = numbers(20_000, 1_000)?;
    for wanted in [vec!["b = 7"], vec!["a >= 5", "b <> 0"], vec!["a >= 5", "10 / b > 1", "b <> 0"]] {
        for fetch in [Some(0), Some(1), Some(5), Some(100), Some(777), None] {
            for projection in [None, Some(vec![]), Some(vec![2, 0])] {
                let parts = parts(&batches, &wanted)?;
                // DataFusion divides by the zeros that the others leave out.
                let model = parts.iter().zip(&wanted).filter(|(_, name)| !name.contains('/'));
                let model = model.map(|(part, _)| Arc::clone(part)).collect::<Vec<_>>();
                let is_complete = model.len() == parts.len();
                let made = |parts| {
                    filter(batches.clone(), parts)?
                        .apply_projection(projection.clone())?
                        .with_fetch(fetch)
                        .build()
                };
                let ours = in_place_of(&made(parts)?);
                let rows = concat_batches(&ours.schema(), &rows_of(Arc::clone(&ours)).await?)?;
                if is_complete {
                    let theirs: Arc<dyn ExecutionPlan> = Arc::new(made(model)?);
                    let schema = theirs.schema();
                    assert_eq!(ours.schema(), schema);
                    let theirs = concat_batches(&schema, &rows_of(theirs).await?)?;
                    assert_eq!(rows, theirs, "{wanted:?} {fetch:?}");
                } else {
                    // Of a hundred values of `b` those from 1 to 5, but for the rows in front of the fifth.
                    let all = 200 * 5 - 4;
                    let expected = fetch.map_or(all, |fetch: usize| fetch.min(all));
                    assert_eq!(rows.num_rows(), expected, "{fetch:?}");
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn few_rows_of_many_batches_become_full_batches() -> Result<()> {
    let batches = numbers(30_000, 1_000)?;
    let parts = parts(&batches, &["b = 7", "a >= 5"])?;
    let ours = rows_of(in_place_of(&filter(batches, parts)?.build()?)).await?;
    assert_eq!(ours.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [100, 100, 100]);
    Ok(())
}

#[tokio::test]
async fn conditions_guard_what_fails_whatever_their_order() -> Result<()> {
    let batches = numbers(1_000, 300)?;
    for wanted in [
        ["b <> 0", "10 / b > 1"],
        ["10 / b > 1", "b <> 0"],
        ["b % 100 <> 0", "10 / b > 1"],
        ["10 / b > 1", "b % 100 <> 0"],
    ] {
        let ours = in_place_of(&filter(batches.clone(), parts(&batches, &wanted)?)?.build()?);
        let rows: usize = rows_of(ours).await?.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 50, "{wanted:?}");
    }
    let parts = parts(&batches, &["a >= 5", "10 / b > 1"])?;
    let unguarded = in_place_of(&filter(batches, parts)?.build()?);
    assert!(rows_of(unguarded).await.is_err(), "of the rows that are left some divide by zero");
    Ok(())
}

/// What others know of it, before and after it has got other rows.
#[tokio::test]
async fn it_says_of_itself_what_the_filter_does() -> Result<()> {
    let batches = numbers(1_000, 300)?;
    let build = || {
        let parts = parts(&batches, &["b = 7", "a >= 5"])?;
        filter(batches.clone(), parts)?.with_fetch(Some(9)).build()
    };
    let theirs: Arc<dyn ExecutionPlan> = Arc::new(build()?);
    let rows = filter(batches.clone(), Vec::new())?.with_batch_size(10).build()?;
    let ours = in_place_of(&build()?);
    let over_others = replace_children_if_necessary(Arc::clone(&ours), vec![Arc::clone(rows.input())])?;
    let statistics = |plan: &Arc<dyn ExecutionPlan>| {
        StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())
    };
    for plan in [ours, over_others] {
        assert!(plan.downcast_ref::<StepwiseFilterExec>().is_some());
        assert_eq!(statistics(&plan)?, statistics(&theirs)?);
        assert_eq!(plan.fetch(), theirs.fetch());
        let (known, expected) = (plan.properties(), theirs.properties());
        assert_eq!(known.equivalence_properties().to_string(), expected.equivalence_properties().to_string());
        let lines = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(false).to_string();
        let shown = lines(&plan);
        assert!(shown.starts_with("StepwiseFilterExec: b@1 = 7 AND a@0 >= 5, fetch=9\n"), "{shown}");
        assert_eq!(shown, format!("Stepwise{}", lines(&theirs)));
        let (filter, model) = (filter_of(&plan), filter_of(&theirs));
        let predicate = |filter: Option<&FilterExec>| filter.map(|filter| filter.predicate().to_string());
        assert_eq!(predicate(filter), predicate(model));
        let rows: usize = rows_of(plan).await?.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 9);
    }
    Ok(())
}

/// A condition that is no comparison and says NULL of some rows.
#[tokio::test]
async fn null_is_not_true() -> Result<()> {
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None, Some(true)]));
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, None, Some(5)]));
    let batch = RecordBatch::try_from_iter_with_nullable([("flag", flags, true), ("a", a, true)])?;
    let schema = batch.schema();
    let sum = binary(col("a", &schema)?, Operator::Plus, lit(1_i64), &schema)?;
    let parts = vec![col("flag", &schema)?, binary(sum, Operator::Gt, lit(2_i64), &schema)?];
    let ours = rows_of(in_place_of(&filter(vec![batch.clone()], parts)?.build()?)).await?;
    assert_eq!(ours, [batch.slice(4, 1)]);
    Ok(())
}
