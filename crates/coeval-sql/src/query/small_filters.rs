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
//! many of them, it stays where it is.

use super::substitution::grows_too_large;
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

/// Whether a condition would become too large below what it is about.
fn becomes_too_large(filter: &Filter) -> Result<bool> {
    let input = filter.input.as_ref();
    let computed = match input {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        _ => return Ok(false),
    };
    let value_of = |column: &Column| computed.get(input.schema().maybe_index_of_column(column)?);
    grows_too_large(&filter.predicate, value_of)
}
