// SPDX-License-Identifier: Apache-2.0
//! Joins with the expression in their conditions, and without it, over random rows.

use super::{ComparedCondition, with_compared_pairs};
use crate::model::{Rows, both_ways, differences};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{Column, binary, col, lit};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, displayable};
use std::sync::Arc;

fn compared(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let compared = with_compared_pairs(plan)?;
    let shown = displayable(compared.as_ref()).indent(false).to_string();
    assert!(shown.contains("compared("), "{shown}");
    Ok(compared)
}

/// Each has parts that are compared, of both sides of a join.
const CONDITIONS: [&str; 4] = [
    "a.small < b.small",
    "a.date <> b.date AND a.amount >= b.amount AND a.small % 2 <> b.tiny",
    "(a.tiny = 1 AND b.long > CAST(10 AS DECIMAL(38, 4))) OR (b.tiny IN (0, 2) AND a.word = 'w3') OR a.date < b.date",
    "a.real >= b.real AND b.small <> 0 AND a.small / (abs(b.small) + 1) < 5",
];

const JOINS: [&str; 6] = [
    "SELECT count(*), sum(a.small), max(b.date) FROM t a JOIN t b ON a.wide = b.wide AND (CONDITION)",
    "SELECT count(*), sum(a.small), count(b.wide) FROM t a LEFT JOIN t b ON a.wide = b.wide AND (CONDITION)",
    "SELECT count(a.wide), sum(a.small), count(b.wide) FROM t a FULL JOIN t b ON a.wide = b.wide AND (CONDITION)",
    "SELECT sum(a.small) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE a.wide = b.wide AND (CONDITION))",
    "SELECT sum(a.small) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE a.wide = b.wide AND (CONDITION))",
    "SELECT count(*) FROM few a JOIN few b ON (CONDITION)",
];

#[tokio::test]
async fn pairs_are_those_of_datafusion() -> Result<()> {
    // Of a hundred and twenty of them all pairs are looked at.
    const FEW: &str = "WITH few AS (SELECT * FROM t WHERE wide < 13000000000)";
    let rows = Rows::repeated(700, 12);
    for condition in CONDITIONS {
        for join in JOINS {
            let query = format!("{FEW} {}", join.replace("CONDITION", condition));
            let (ours, theirs) = both_ways(&rows, &query, compared, None).await?;
            assert_eq!(differences(&ours.rows, &theirs.rows), None, "{query}");
        }
    }
    Ok(())
}

fn truths(condition: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<Vec<Option<bool>>> {
    let answers = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(as_boolean_array(&answers)?.iter().collect())
}

/// Others look for its columns, and may put other columns or expressions into their places.
#[test]
fn a_condition_goes_along_with_its_columns() -> Result<()> {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(5), None]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(4), Some(6)]));
    let rows = RecordBatch::try_from_iter_with_nullable([("a", a, true), ("b", b, true)])?;
    let schema = rows.schema();
    let less = binary(col("a", &schema)?, Operator::Lt, col("b", &schema)?, &schema)?;
    let less: Arc<dyn PhysicalExpr> = Arc::new(ComparedCondition::new(less));
    assert_eq!(truths(&less, &rows)?, [Some(true), Some(false), Some(false)]);
    let children: Vec<String> = less.children().into_iter().map(ToString::to_string).collect();
    assert_eq!(children, ["a@0", "b@1"]);

    let more = Arc::clone(&less).with_new_children(vec![
        Arc::new(Column::new("b", 1)) as Arc<dyn PhysicalExpr>,
        Arc::new(Column::new("a", 0)),
    ])?;
    assert!(more.is::<ComparedCondition>());
    assert_eq!(more.to_string(), "compared(b@1 < a@0)");
    assert_eq!(truths(&more, &rows)?, [Some(false), Some(true), Some(false)]);

    let sum = binary(col("a", &schema)?, Operator::Plus, lit(3_i64), &schema)?;
    let plain = less.with_new_children(vec![sum, col("b", &schema)?])?;
    assert_eq!(plain.to_string(), "a@0 + 3 < b@1");
    assert_eq!(truths(&plain, &rows)?, [Some(false), Some(false), None]);
    Ok(())
}
