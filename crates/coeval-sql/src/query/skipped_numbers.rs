// SPDX-License-Identifier: Apache-2.0
//! Rows that OFFSET skips take numbers of sequences as the others do.
//!
//! DataFusion looks for the rows of an OFFSET with a LIMIT below what is selected, so that those that are skipped would take none. An
//! OFFSET alone stays where it is.
//!
//! ```text
//! (SELECT nextval('s'), v FROM t) LIMIT 3 OFFSET 2
//!   -> (SELECT nextval('s'), v FROM (t LIMIT 5)) OFFSET 2
//! ```

use super::row_order::takes_number;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, Projection, SkipType, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule. To come before the one that moves limits.
#[derive(Debug)]
pub(crate) struct SkippedNumbers;

impl OptimizerRule for SkippedNumbers {
    fn name(&self) -> &'static str {
        "coeval_skipped_numbers"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Limit(limit) = plan else { return Ok(Transformed::no(plan)) };
        let Some(input) = numbered(&limit)? else { return Ok(Transformed::no(LogicalPlan::Limit(limit))) };
        let behind = Limit { skip: limit.skip, fetch: None, input: Arc::new(input) };
        Ok(Transformed::yes(LogicalPlan::Limit(behind)))
    }
}

/// What is selected, of no more rows than are skipped and given; `None` if none are skipped, or no numbers are taken.
fn numbered(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let (SkipType::Literal(skipped @ 1..), FetchType::Literal(Some(given))) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return Ok(None);
    };
    match i64::try_from(skipped.saturating_add(given)) {
        Ok(rows) => of_rows(&limit.input, rows),
        Err(_) => Ok(None),
    }
}

fn of_rows(plan: &LogicalPlan, rows: i64) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(selected) = plan else { return Ok(None) };
    let takes_numbers = selected.expr.iter().map(takes_number).collect::<Result<Vec<bool>>>()?;
    let input = if takes_numbers.contains(&true) {
        let input = Arc::clone(&selected.input);
        Some(LogicalPlan::Limit(Limit { skip: None, fetch: Some(Box::new(lit(rows))), input }))
    } else {
        of_rows(&selected.input, rows)?
    };
    let Some(input) = input else { return Ok(None) };
    let schema = Arc::clone(&selected.schema);
    let selected = Projection::try_new_with_schema(selected.expr.clone(), Arc::new(input), schema)?;
    Ok(Some(LogicalPlan::Projection(selected)))
}
