// SPDX-License-Identifier: Apache-2.0
//! First steps of aggregates over a union, begun in each branch of it.
//!
//! ```text
//!   AggregateExec: mode=Partial            UnionExec
//!     UnionExec                              SpreadPieces
//!       SpreadScan: table=old       ==>        AggregateExec: mode=Partial
//!       SpreadScan: table=new                    SpreadScan: table=old
//!                                            SpreadPieces
//!                                              ...
//! ```
//! A first step may give a group more than once, so those of the branches together are one of the whole: what is above puts the states of a
//! group together, wherever they come from.

use super::aggregates::is_plain;
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use std::sync::Arc;

/// A first step, done over each branch of the union that it is done over; none if it is over something else.
///
/// # Errors
/// None: branches have the columns of their union.
pub(super) fn steps_of_branches(aggregate: &AggregateExec) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let union = union_below(aggregate.input()).filter(|_| is_plain(aggregate));
    let branches = union.map(UnionExec::inputs).into_iter().flatten();
    let steps = branches.map(|branch| -> Result<Arc<dyn ExecutionPlan>> {
        let step = AggregateExec::try_new(
            *aggregate.mode(),
            aggregate.group_expr().clone(),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(branch),
            aggregate.input_schema(),
        )?;
        Ok(Arc::new(step.with_limit_options(aggregate.limit_options())))
    });
    steps.collect()
}

/// The union that a plan is, whose rows may be divided among threads.
fn union_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&UnionExec> {
    let exchange = plan.downcast_ref::<RepartitionExec>();
    let divides = exchange.filter(|one| matches!(one.partitioning(), Partitioning::RoundRobinBatch(_)));
    match divides {
        Some(exchange) => union_below(exchange.input()),
        None => plan.downcast_ref::<UnionExec>(),
    }
}
