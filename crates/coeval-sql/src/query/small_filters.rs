// SPDX-License-Identifier: Apache-2.0
//! Conditions go down, unless they would become too large.
//!
//! DataFusion's rule puts a condition below the query that computes its columns, and what computes them in their places. A column that
//! is named three times there is three columns then:
//!
//! ```text
//! FROM (SELECT c + c - c AS c FROM (SELECT c + c - c AS c FROM ... ) x) y WHERE c = 1
//! ```
//! Of twenty such queries within each other that is an expression of thousands of millions of parts. Where a condition would grow by too
//! many of them, it stays where it is. The rule makes one condition of those right above each other, as one behind HAVING, and puts that down
//! at once, so they are counted together.

use super::substitution::grow_too_large;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Filter, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule, for conditions that stay small.
#[derive(Debug, Default)]
pub(crate) struct SmallFilters(PushDownFilter);

impl OptimizerRule for SmallFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && becomes_too_large(filter)?
        {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Whether a condition, with those right below it, would become too large below what they are about.
fn becomes_too_large(filter: &Filter) -> Result<bool> {
    let (mut conditions, mut input) = (vec![&filter.predicate], filter.input.as_ref());
    while let LogicalPlan::Filter(below) = input {
        conditions.push(&below.predicate);
        input = below.input.as_ref();
    }
    let computed = match input {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        _ => return Ok(false),
    };
    let value_of = |column: &Column| computed.get(input.schema().maybe_index_of_column(column)?);
    grow_too_large(&conditions, value_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::utils::conjunction;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use datafusion::optimizer::OptimizerContext;

    #[test]
    fn conditions_right_above_each_other_are_counted_together() {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let computed = rows.project([(col("column1") + lit(1_i64)).alias("a")]).unwrap();
        let long = |least: i64| conjunction((0..150).map(|n| col("a").not_eq(lit(least + n)))).unwrap();
        let one = computed.filter(long(0)).unwrap();
        let both = one.clone().filter(long(1_000)).unwrap().build().unwrap();
        let goes_down = |plan| {
            let rewritten = SmallFilters::default().rewrite(plan, &OptimizerContext::new()).unwrap();
            matches!(rewritten.data, LogicalPlan::Projection(_))
        };
        assert!(goes_down(one.build().unwrap()));
        assert!(!goes_down(both));
    }
}
