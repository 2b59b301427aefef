// SPDX-License-Identifier: Apache-2.0
//! Which aggregates are left without an order, and that their groups are the same.

use super::{with_sets_of_unknown_rows, with_unordered_groups};
use crate::coded_groups::with_coded_groups;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use std::sync::Arc;

/// Two partitions of a table that is in the order of `a`.
async fn ordered() -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let partition = |from: i64| {
        let a: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3_000).map(|row| from + row / 10)));
        let b: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3_000).map(|row| row % 3)));
        RecordBatch::try_from_iter([("a", a), ("b", b)]).map(|batch| vec![batch])
    };
    let partitions = vec![partition(0)?, partition(300)?];
    let order = vec![vec![col("a").sort(true, false)]];
    let table = MemTable::try_new(partitions[0][0].schema(), partitions)?.with_sort_order(order);
    context.register_table("t", Arc::new(table))?;
    Ok(context)
}

/// The plan before any rule, and what rules make of it with ours in front.
async fn planned(context: &SessionContext, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let state = context.state();
    let logical = state.optimize(&state.create_logical_plan(query).await?)?;
    let rules = state.physical_optimizers().to_vec();
    let bare = datafusion::execution::SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(Vec::new())
        .build();
    let mut plan = DefaultPhysicalPlanner::default().create_physical_plan(&logical, &bare).await?;
    plan = with_sets_of_unknown_rows(with_unordered_groups(plan)?)?;
    for rule in rules {
        plan = rule.optimize(plan, state.config_options())?;
    }
    Ok(plan)
}

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn groups_by_more_than_the_order_are_made_without_it() -> Result<()> {
    let context = ordered().await?;
    let query = "SELECT a, b, count(*) FROM t GROUP BY a, b";
    let plan = planned(&context, query).await?;
    assert!(
        text(&plan).contains("UnorderedExec") && !text(&plan).contains("PartiallySorted"),
        "{}",
        text(&plan)
    );
    let coded = with_coded_groups(Arc::clone(&plan))?;
    assert!(text(&coded).contains("CodedGroupsExec"), "{}", text(&coded));
    let sorted = format!("SELECT * FROM ({query}) g ORDER BY a, b");
    let ours = collect(planned(&context, &sorted).await?, context.task_ctx()).await?;
    let theirs = context.sql(&sorted).await?.collect().await?;
    assert_eq!(pretty_format_batches(&ours)?.to_string(), pretty_format_batches(&theirs)?.to_string());
    Ok(())
}

#[tokio::test]
async fn an_order_stays_where_it_is_of_use() -> Result<()> {
    let context = ordered().await?;
    for query in [
        "SELECT a, count(*) FROM t GROUP BY a",
        "SELECT a, b, count(*) FROM t GROUP BY a, b ORDER BY a LIMIT 3",
        "SELECT a, b, count(*) FROM t GROUP BY a, b LIMIT 3",
        "SELECT b, count(*) FROM t GROUP BY b",
    ] {
        let plan = planned(&context, query).await?;
        assert!(!text(&plan).contains("UnorderedExec"), "{query}\n{}", text(&plan));
    }
    Ok(())
}

#[tokio::test]
async fn what_is_known_of_rows_is_not_known_of_groups_by_several_sets() -> Result<()> {
    let context = ordered().await?;
    let groups = "SELECT a, k, count(*) AS n FROM (SELECT a, 'x' AS k FROM t) r GROUP BY ROLLUP (k, a)";
    let query = format!("{groups} ORDER BY k NULLS FIRST, a NULLS FIRST LIMIT 3");
    let rows = collect(planned(&context, &query).await?, context.task_ctx()).await?;
    let expected = [
        "+---+---+------+",
        "| a | k | n    |",
        "+---+---+------+",
        "|   |   | 6000 |",
        "|   | x | 6000 |",
        "| 0 | x | 10   |",
        "+---+---+------+",
    ];
    assert_eq!(pretty_format_batches(&rows)?.to_string(), expected.join("\n"));
    Ok(())
}
