// SPDX-License-Identifier: Apache-2.0
//! [`SpreadShares`]: windows, and what is above them, done by each node for a share of the rows.
//!
//! ```text
//!   BoundedWindowAggExec                           SpreadShares: by=[region], here, node 2, node 3
//!     SortExec: region, day                          CoalescePartitionsExec              \
//!       RepartitionExec: Hash([region], 2)             BoundedWindowAggExec               | done here for share 0, and the
//!         FilterExec                       ==>           SortExec: region, day            | same on each of the other
//!           SpreadScan: bricks=8                           RepartitionExec: Hash([region]) /  nodes for another share
//!                                                            SpreadPieces
//!                                                              ShareExec: share=0 of 3, by=[region]
//!                                                                FilterExec
//!                                                                  SpreadScan: bricks=2
//! ```
//! **Why that is right.** Threads exchange rows by the hash of keys, so whatever is planned above such an exchange needs no more than that
//! rows with equal keys are together. In a share they are. So all that follows an exchange, part by part, can be done share by share:
//! windows, filters, projections, sorts of a part, groups of which each is in one part, and a first step of others.
//!
//! **Which exchange.** The first one above the bricks, if there is a window above it. Windows with other partitions follow another exchange,
//! which is done on the node of the query.
//!
//! **When a node fails.** Its share is made here, of rows that are asked for as for the share that is made here anyway.

use super::aggregates::is_plain;
use super::asking::{Asking, Figures};
use super::codec::{Along, Opened, Steps, encoded, give_the_same};
use super::exchange::Exchange;
use super::plan::{SpreadPieces, Whole, fitted, while_running};
use super::rule::PieceMaker;
use super::share::ShareExec;
use crate::cluster::PlacedBricks;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use coeval_operators::over_one_input;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::stream::{self, StreamExt};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// What follows an exchange by the hash of keys.
struct Following {
    /// The highest first; the last one is the exchange.
    nodes: Vec<Arc<dyn ExecutionPlan>>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// What is exchanged.
    rows: Arc<dyn ExecutionPlan>,
}

impl Following {
    /// What a plan is; `None` if it is something else, or has no window.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut nodes, mut below, mut has_window) = (Vec::new(), plan, false);
        loop {
            if let Some(exchange) = below.downcast_ref::<RepartitionExec>() {
                let Partitioning::Hash(keys, _) = exchange.partitioning() else { return None };
                if !has_window || exchange.preserve_order() {
                    return None;
                }
                let (keys, rows) = (keys.clone(), Arc::clone(exchange.input()));
                nodes.push(Arc::clone(below));
                return Some(Self { nodes, keys, rows });
            }
            let is_window = below.is::<BoundedWindowAggExec>() || below.is::<WindowAggExec>();
            if !is_window && !is_done_by_parts(below, &nodes) {
                return None;
            }
            has_window |= is_window;
            nodes.push(Arc::clone(below));
            below = below.children().first().copied()?;
        }
    }
}

/// Whether a node does with each part of its rows what it does with all of them, and gives as many parts, below these.
fn is_done_by_parts(node: &Arc<dyn ExecutionPlan>, above: &[Arc<dyn ExecutionPlan>]) -> bool {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let is_step = match aggregate.mode() {
            AggregateMode::Partial => above.is_empty(),
            AggregateMode::SinglePartitioned => true,
            _ => false,
        };
        return is_step && is_plain(aggregate);
    }
    let filter = node.downcast_ref::<FilterExec>();
    let sort = node.downcast_ref::<SortExec>();
    node.is::<ProjectionExec>()
        || filter.is_some_and(|filter| filter.fetch().is_none())
        || sort.is_some_and(SortExec::preserve_partitioning)
}

/// What whoever is above some rows needs of them, besides that they are all there.
enum Needs {
    Nothing,
    /// That they are in this order.
    Order(LexOrdering),
    /// Whatever they have been in: an order, and parts by a hash.
    AsBefore,
}

impl PieceMaker<'_> {
    /// What does the same as this part of a plan, with shares of rows below it; `None` if it is no such part.
    pub(super) fn in_shares(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let exchange = node.downcast_ref::<RepartitionExec>();
        let needs = if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
            Needs::Order(merge.expr().clone())
        } else if node.is::<CoalescePartitionsExec>()
            || exchange.is_some_and(|exchange| !exchange.preserve_order())
        {
            Needs::Nothing
        } else {
            return self.shares(node, Needs::AsBefore);
        };
        let Some(input) = node.children().first().copied() else { return Ok(None) };
        let Some(shares) = self.shares(input, needs)? else { return Ok(None) };
        Ok(Some(replace_children_if_necessary(Arc::clone(node), vec![shares])?))
    }

    /// The same of a whole plan: nobody is above it who needs its rows in an order, or in parts.
    pub(super) fn whole_in_shares(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.shares(plan, Needs::Nothing)
    }

    fn shares(&self, plan: &Arc<dyn ExecutionPlan>, needs: Needs) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(following) = Following::of(plan) else { return Ok(None) };
        let properties = plan.properties();
        let (order, parts) = match needs {
            Needs::Nothing => (None, None),
            Needs::Order(order) => (Some(order), None),
            Needs::AsBefore => {
                (properties.output_ordering().cloned(), Some(properties.output_partitioning()))
            }
        };
        let is_ordered = order.is_some();
        let Some(shares) = SpreadShares::of(&following, order, plan, self)? else { return Ok(None) };
        let Some(Partitioning::Hash(keys, count)) = parts else { return Ok(Some(Arc::new(shares))) };
        if keys.iter().any(|key| key.is::<UnKnownColumn>()) {
            // A column that does not go out: nobody above can name it.
            return Ok(Some(Arc::new(shares)));
        }
        // The other side of a join is in parts by the same hash.
        let parts = RepartitionExec::try_new(Arc::new(shares), Partitioning::Hash(keys.clone(), *count))?;
        Ok(Some(Arc::new(if is_ordered { parts.with_preserve_order() } else { parts })))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct SpreadShares {
    shares: Arc<Shares>,
    /// What is done for the share of this node. It has one part.
    here: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What all parts of the node know.
#[derive(Debug)]
struct Shares {
    table: String,
    keys: String,
    /// The other nodes, each with what it makes of its share.
    elsewhere: Vec<(PlacedBricks, Arc<Whole>)>,
    /// In which rows go out.
    output: SchemaRef,
    order: Option<LexOrdering>,
}

impl SpreadShares {
    /// The shares of what follows an exchange, whose rows come as they do of this part of a plan, each share in this order; `None` if they cannot
    /// be written down, or all bricks are here.
    ///
    /// # Errors
    /// None that anybody could do something about: what was written down is not read.
    fn of(
        following: &Following,
        order: Option<LexOrdering>,
        plan: &Arc<dyn ExecutionPlan>,
        maker: &PieceMaker<'_>,
    ) -> Result<Option<Self>> {
        let Some((steps, pieces)) = first_share(following, maker)? else { return Ok(None) };
        let zone = maker.options.execution.time_zone.as_deref().unwrap_or_default();
        let written = |exchange: Exchange| -> Option<(Steps, Bytes)> {
            let rows = (steps.scan.clone(), exchange);
            let steps = Steps::exchanged(&following.nodes, order.clone(), rows);
            let order = encoded(&steps, &Along::default(), maker.known, zone)?;
            Some((steps, order))
        };
        let mut elsewhere = Vec::new();
        for (place, at) in pieces.elsewhere().iter().enumerate() {
            let share = place + 1;
            let Some(piece) = pieces.order_of_share(share) else { return Ok(None) };
            let exchange = Exchange { piece, sources: pieces.all_but(at.node) };
            let Some(written) = written(exchange) else { return Ok(None) };
            let whole = Whole::of_share(share, written, (maker.known, zone), plan.schema());
            elsewhere.push((at.clone(), Arc::new(whole)));
        }
        let Some((_, own)) = written(Exchange::default()) else { return Ok(None) };
        let options = Arc::new(while_running(maker.options));
        let here = Opened::of(&own)?.over(Arc::new(pieces), &[], maker.known, &options)?;
        if !give_the_same(here.as_ref(), plan.as_ref()) {
            return Ok(None);
        }
        let keys: Vec<String> = following.keys.iter().map(ToString::to_string).collect();
        let (table, keys) = (steps.scan.table_name().to_owned(), keys.join(", "));
        let shares = Shares { table, keys, elsewhere, output: plan.schema(), order };
        Ok(Some(Self::with(Arc::new(shares), here, ExecutionPlanMetricsSet::new())))
    }

    fn with(shares: Arc<Shares>, here: Arc<dyn ExecutionPlan>, metrics: ExecutionPlanMetricsSet) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&shares.output), shares.order.clone()),
            Partitioning::UnknownPartitioning(1 + shares.elsewhere.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { shares, here, properties, metrics }
    }
}

/// What is done with the rows before they are exchanged, and the pieces of the first of as many shares as there are nodes; `None` if they
/// cannot be had like that.
fn first_share(following: &Following, maker: &PieceMaker<'_>) -> Result<Option<(Steps, SpreadPieces)>> {
    // What gathers gives few rows: to gather them again for each node would take longer than what follows.
    let steps = Steps::of(&following.rows).filter(|steps| steps.joins().next().is_none() && !steps.gather());
    let Some(steps) = steps else { return Ok(None) };
    let (source, bricks): (_, Vec<u64>) = (steps.scan.source(), steps.scan.bricks().collect());
    let placed = source.snapshot.place(source.table, &bricks, &[]);
    let count = 1 + placed.iter().filter(|at| !at.is_own).count();
    let share = ShareExec::new(Arc::clone(&following.rows), following.keys.clone(), count);
    let share: Arc<dyn ExecutionPlan> = Arc::new(share);
    let Some(in_share) = Steps::of(&share) else { return Ok(None) };
    // What joins above look for would have to be known to all nodes.
    let maker = PieceMaker { known: maker.known, options: maker.options, joins: HashSet::new() };
    let pieces = SpreadPieces::of(in_share, &share, &maker)?;
    // Bricks may have moved meanwhile.
    let pieces = pieces.filter(|pieces| pieces.elsewhere().len() + 1 == count);
    Ok(pieces.map(|pieces| (steps, pieces)))
}

/// What is done here for one share, for another one.
///
/// # Errors
/// If a part of it cannot be made anew: a bug.
pub(super) fn in_share(plan: Arc<dyn ExecutionPlan>, share: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let other = plan.transform_up(|node| {
        if let Some(rows) = node.downcast_ref::<ShareExec>() {
            return Ok(Transformed::yes(Arc::new(rows.with_index(share)) as Arc<dyn ExecutionPlan>));
        }
        Ok(match node.downcast_ref::<SpreadPieces>() {
            Some(pieces) => Transformed::yes(Arc::new(pieces.of_share(share)?) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    })?;
    Ok(other.data)
}

impl DisplayAs for SpreadShares {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { table, keys, elsewhere, .. } = self.shares.as_ref();
        if matches!(t, DisplayFormatType::TreeRender) {
            return write!(f, "table={table}");
        }
        write!(f, "SpreadShares: table={table}, by=[{keys}], here")?;
        elsewhere.iter().try_for_each(|(at, _)| write!(f, ", node {}", at.node))
    }
}

impl ExecutionPlan for SpreadShares {
    fn name(&self) -> &'static str {
        "SpreadShares"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    // What other nodes do stays as it was written down, as of pieces.
    over_one_input!(here, |old, here| Arc::new(Self::with(
        Arc::clone(&old.shares),
        here,
        old.metrics.clone()
    )));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let output = Arc::clone(&self.shares.output);
        let Some(place) = partition.checked_sub(1) else {
            let schema = Arc::clone(&output);
            let batches = self.here.execute(0, task)?.map(move |batch| fitted(&batch?, &schema));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)));
        };
        let Some((placed, whole)) = self.shares.elsewhere.get(place) else {
            return internal_err!("there is no share {partition}");
        };
        let figures = Figures::new(self.metrics.clone(), partition);
        let plan = (Arc::clone(whole), Arc::clone(&self.here));
        let asking = Asking::new(plan, placed, task, figures);
        let batches = stream::try_unfold(asking, Asking::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
