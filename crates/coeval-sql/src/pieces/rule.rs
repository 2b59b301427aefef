// SPDX-License-Identifier: Apache-2.0
//! Which part of a plan becomes a piece: the highest that can.

use super::aggregates::is_plain;
use super::known::Known;
use super::plan::SpreadPieces;
use crate::carried::Carry;
use crate::query::WithoutPieces;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::{Arc, OnceLock};

/// The rule. Behind those that divide aggregates into steps, before those that put operators of their own into the place of these and
/// hide what conditions look like.
#[derive(Debug, Default)]
pub(crate) struct PushPieces {
    /// Told once the engine's functions are registered, which is behind the rules.
    known: OnceLock<Known>,
}

impl PushPieces {
    /// These are the functions of the engine. Once.
    pub(crate) fn know(&self, state: &SessionState) {
        // Whoever comes second has the same functions.
        let _ = self.known.set(Known::of(state));
    }
}

impl PhysicalOptimizerRule for PushPieces {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let known = self.known.get().filter(|_| WithoutPieces::carried_by(options).is_none());
        let Some(known) = known else { return Ok(plan) };
        let pushed = plan.transform_down(|node| {
            Ok(match in_pieces(&node, known, options)? {
                Some(pieces) => Transformed::new(pieces, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })?;
        Ok(pushed.data)
    }

    fn name(&self) -> &'static str {
        "coeval_push_pieces"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What does the same as this part of a plan, with pieces; `None` if it is no such part.
fn in_pieces(
    node: &Arc<dyn ExecutionPlan>,
    known: &Known,
    options: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return match aggregate.mode() {
            AggregateMode::Partial => as_divided(node, known, options),
            AggregateMode::Single if is_plain(aggregate) => in_two_steps(aggregate, known, options),
            _ => Ok(None),
        };
    }
    let is_of_rows =
        node.downcast_ref::<FilterExec>().is_some() || node.downcast_ref::<ProjectionExec>().is_some();
    if is_of_rows { as_divided(node, known, options) } else { Ok(None) }
}

/// The pieces of this, in as many parts as whatever is above may take: in one, if it was one.
fn as_divided(
    node: &Arc<dyn ExecutionPlan>,
    known: &Known,
    options: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let parts = |plan: &dyn ExecutionPlan| plan.properties().output_partitioning().partition_count();
    let pieces = SpreadPieces::of(node, known, options)?;
    Ok(pieces.map(|pieces| -> Arc<dyn ExecutionPlan> {
        let divides = parts(&pieces) > 1 && parts(node.as_ref()) == 1;
        let pieces: Arc<dyn ExecutionPlan> = Arc::new(pieces);
        if divides { Arc::new(CoalescePartitionsExec::new(pieces)) as _ } else { pieces }
    }))
}

/// An aggregate in one step as one in two, of which the first is done in pieces.
fn in_two_steps(
    aggregate: &AggregateExec,
    known: &Known,
    options: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (functions, filters) = (aggregate.aggr_expr().to_vec(), aggregate.filter_expr().to_vec());
    let step = |mode: AggregateMode, groups: PhysicalGroupBy, input: Arc<dyn ExecutionPlan>| {
        let (functions, filters) = (functions.clone(), filters.clone());
        AggregateExec::try_new(mode, groups, functions, filters, input, aggregate.input_schema())
    };
    let groups = aggregate.group_expr().clone();
    let first = step(AggregateMode::Partial, groups, Arc::clone(aggregate.input()))?;
    let last_groups = first.group_expr().as_final();
    let first: Arc<dyn ExecutionPlan> = Arc::new(first);
    let Some(pieces) = SpreadPieces::of(&first, known, options)? else { return Ok(None) };
    let gathered = Arc::new(CoalescePartitionsExec::new(Arc::new(pieces)));
    let last = step(AggregateMode::Final, last_groups, gathered)?;
    // Types and names are those that the plan above knows.
    Ok((last.schema() == aggregate.schema()).then(|| Arc::new(last) as Arc<dyn ExecutionPlan>))
}
