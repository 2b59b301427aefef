// SPDX-License-Identifier: Apache-2.0
//! Which part of a plan becomes a piece: the highest that can. Where none can, rows may be exchanged among nodes (`shares.rs`).

use super::aggregates::is_plain;
use super::codec::Steps;
use super::first_rows::{any_rows, merged, parts};
use super::joins::reads_bricks;
use super::keys::of_joins;
use super::known::Known;
use super::plan::SpreadPieces;
use super::unions::steps_of_branches;
use crate::carried::Carry;
use crate::provider::SpreadScan;
use crate::query::{GroupTopExec, WithoutPieces};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// The rule. Behind those that divide aggregates into steps and drop rows below sorts, before those that put operators of their own into the
/// place of these and hide what conditions look like.
#[derive(Debug, Default)]
pub(crate) struct PushPieces {
    /// Told once the engine's functions are registered, which is behind the rules.
    known: OnceLock<Arc<Known>>,
}

impl PushPieces {
    /// These are the functions of the engine. Once.
    pub(crate) fn know(&self, state: &SessionState) {
        // Whoever comes second has the same functions.
        let _ = self.known.set(Arc::new(Known::of(state)));
    }
}

impl PhysicalOptimizerRule for PushPieces {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let known = self.known.get().filter(|_| WithoutPieces::carried_by(options).is_none());
        let Some(known) = known.filter(|_| reads_bricks(&plan)) else { return Ok(plan) };
        let maker = PieceMaker { known, options, joins: of_joins(&plan)? };
        let whole = match maker.as_pieces(&plan)? {
            None => maker.whole_in_shares(&plan)?,
            pieces => pieces,
        };
        whole.map_or_else(|| maker.pushed(plan), Ok)
    }

    fn name(&self) -> &'static str {
        "coeval_push_pieces"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What pieces of a plan are made with.
pub(super) struct PieceMaker<'p> {
    pub(super) known: &'p Arc<Known>,
    pub(super) options: &'p ConfigOptions,
    /// See [`of_joins`].
    pub(super) joins: HashSet<u64>,
}

impl PieceMaker<'_> {
    /// A plan with pieces where there can be some.
    fn pushed(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_down(|node| {
            Ok(match self.in_pieces(&node)? {
                Some(pieces) => Transformed::new(pieces, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })?;
        Ok(pushed.data)
    }

    /// What does the same as this part of a plan, with pieces or with shares; `None` if it is no such part.
    fn in_pieces(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match self.as_pieces(node)? {
            None => self.in_shares(node),
            pieces => Ok(pieces),
        }
    }

    fn as_pieces(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            return match aggregate.mode() {
                AggregateMode::Partial => match self.as_divided(node)? {
                    None => self.of_union(aggregate),
                    pieces => Ok(pieces),
                },
                AggregateMode::Single if is_plain(aggregate) => self.in_two_steps(aggregate),
                _ => Ok(None),
            };
        }
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            return self.of_sort(node, sort);
        }
        if let Some(rows) = rows_wanted(node) {
            return self.of_limit(node, rows);
        }
        let is_of_rows = node.downcast_ref::<FilterExec>().is_some()
            || node.downcast_ref::<ProjectionExec>().is_some()
            || node.downcast_ref::<GroupTopExec>().is_some()
            || node.downcast_ref::<SpreadScan>().is_some();
        if is_of_rows { self.as_divided(node) } else { Ok(None) }
    }

    /// The pieces of this, in as many parts as whatever is above may take: in one, if it was one.
    fn as_divided(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(steps) = Steps::of(node) else { return Ok(None) };
        let limit = steps.limit();
        let Some(pieces) = SpreadPieces::of(steps, node, self)? else { return Ok(None) };
        Ok(Some(in_parts(pieces, parts(node.as_ref()), limit)))
    }

    /// A first step over a union, begun in its branches, if it is a piece in one of them.
    fn of_union(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let steps = steps_of_branches(aggregate)?;
        let pieces: Vec<_> = steps.iter().map(|step| self.in_pieces(step)).collect::<Result<_>>()?;
        if pieces.iter().all(Option::is_none) {
            return Ok(None);
        }
        let steps = steps.into_iter().zip(pieces);
        let branches = steps.map(|(step, pieces)| pieces.map_or_else(|| self.pushed(step), Ok));
        let union = UnionExec::try_new(branches.collect::<Result<_>>()?)?;
        // Types and names are those that the plan above knows.
        if union.schema() != aggregate.schema() {
            return Ok(None);
        }
        let gathers = parts(aggregate) == 1 && parts(union.as_ref()) > 1;
        let gathered = |union| Arc::new(CoalescePartitionsExec::new(union)) as Arc<dyn ExecutionPlan>;
        Ok(Some(if gathers { gathered(union) } else { union }))
    }

    /// A sort that gives the first rows, over those that are the first on each node; of all rows, what merges those that each node has
    /// sorted.
    fn of_sort(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        sort: &SortExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let gathered = sort.input().downcast_ref::<CoalescePartitionsExec>();
        let input = match gathered.filter(|gathered| gathered.fetch().is_none()) {
            Some(gathered) => gathered.input(),
            None => sort.input(),
        };
        let Some(steps) = Steps::of(input).and_then(|steps| steps.sorted(node)) else { return Ok(None) };
        let Some(pieces) = SpreadPieces::of(steps, input, self)? else { return Ok(None) };
        if sort.fetch().is_none() {
            return Ok(Some(merged(Arc::new(pieces), sort.expr(), parts(node.as_ref()))));
        }
        let pieces = in_parts(pieces, parts(sort.input().as_ref()), None);
        Ok(Some(replace_children_if_necessary(Arc::clone(node), vec![pieces])?))
    }

    /// What takes so many rows of its input, over as many from each node.
    fn of_limit(&self, node: &Arc<dyn ExecutionPlan>, rows: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(input) = node.children().first().copied() else { return Ok(None) };
        let Some(steps) = Steps::of(input) else { return Ok(None) };
        // What is below the node wants fewer.
        let fewer = steps.limit().filter(|limit| *limit < rows);
        let Some(steps) = steps.limited(rows) else { return Ok(None) };
        let Some(pieces) = SpreadPieces::of(steps, input, self)? else { return Ok(None) };
        let pieces = in_parts(pieces, parts(input.as_ref()), fewer);
        Ok(Some(replace_children_if_necessary(Arc::clone(node), vec![pieces])?))
    }

    /// An aggregate in one step as one in two, of which the first is done in pieces.
    fn in_two_steps(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (functions, filters) = (aggregate.aggr_expr().to_vec(), aggregate.filter_expr().to_vec());
        let step = |mode: AggregateMode, groups: PhysicalGroupBy, input: Arc<dyn ExecutionPlan>| {
            let (functions, filters) = (functions.clone(), filters.clone());
            AggregateExec::try_new(mode, groups, functions, filters, input, aggregate.input_schema())
        };
        let groups = aggregate.group_expr().clone();
        let first = step(AggregateMode::Partial, groups, Arc::clone(aggregate.input()))?;
        let first = first.with_limit_options(aggregate.limit_options());
        let last_groups = first.group_expr().as_final();
        let first: Arc<dyn ExecutionPlan> = Arc::new(first);
        let Some(steps) = Steps::of(&first) else { return Ok(None) };
        let Some(pieces) = SpreadPieces::of(steps, &first, self)? else { return Ok(None) };
        let gathered = Arc::new(CoalescePartitionsExec::new(Arc::new(pieces)));
        let last = step(AggregateMode::Final, last_groups, gathered)?;
        // Types and names are those that the plan above knows.
        Ok((last.schema() == aggregate.schema()).then(|| Arc::new(last) as Arc<dyn ExecutionPlan>))
    }
}

/// How many rows of its input a node takes at most, whichever come first.
fn rows_wanted(node: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(gathered) = node.downcast_ref::<CoalescePartitionsExec>() {
        return gathered.fetch();
    }
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        return limit.fetch()?.checked_add(limit.skip());
    }
    node.downcast_ref::<LocalLimitExec>().map(LocalLimitExec::fetch)
}

/// Pieces in the place of what came in so many parts, each of which had no more rows than the limit.
fn in_parts(pieces: SpreadPieces, count: usize, limit: Option<usize>) -> Arc<dyn ExecutionPlan> {
    let gathers = count == 1 && parts(&pieces) > 1;
    let pieces: Arc<dyn ExecutionPlan> = Arc::new(pieces);
    match limit {
        Some(rows) if gathers => any_rows(pieces, rows),
        Some(rows) => Arc::new(LocalLimitExec::new(pieces, rows)),
        None if gathers => Arc::new(CoalescePartitionsExec::new(pieces)),
        None => pieces,
    }
}
