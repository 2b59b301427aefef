// SPDX-License-Identifier: Apache-2.0
//! [`SpreadPieces`]: the node of a plan below which every node of the cluster does the same with the bricks that it has.

use super::asking::{Asking, Figures};
use super::codec::{Along, Opened, Steps, encoded, give_the_same};
use super::keys::{found, names, told};
use super::known::Known;
use super::rule::PieceMaker;
use super::sent_input::{rows_to_send, sent_inputs};
use crate::allowance::Allowance;
use crate::carried::Carry;
use crate::cluster::PlacedBricks;
use crate::provider::SpreadScan;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::stream::{self, StreamExt};
use std::fmt;
use std::sync::Arc;

/// So many bricks another node is asked to read at once, if rows come of it: an answer that is lost is a small one. What aggregates make
/// of bricks is less the more of them there are, and so are the first rows of them. What is sorted is one answer.
const BRICKS_AT_ONCE: usize = 16;

/// What all parts of the node know.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    /// Of all bricks.
    steps: Steps,
    /// The piece, written down.
    order: Bytes,
    /// What joins above tell of the rows that they look for, which the piece is not written down with.
    told: Vec<Arc<dyn PhysicalExpr>>,
    known: Arc<Known>,
    zone: Box<str>,
    /// In which rows go out.
    pub(super) output: SchemaRef,
    /// How many bricks a node is asked to read at once.
    pub(super) at_once: usize,
    own: Vec<u64>,
    elsewhere: Vec<PlacedBricks>,
    /// The number of this node, if it has some of the bricks.
    own_node: Option<u32>,
    /// Which share of rows it is that nodes exchange, if it is one: then it is another node's, with all bricks.
    share: Option<usize>,
}

impl Whole {
    /// What another node makes of its share, which is written down like this. `share` is not 0: that is this node's.
    pub(super) fn of_share(
        share: usize,
        (steps, order): (Steps, Bytes),
        (known, zone): (&Arc<Known>, &str),
        output: SchemaRef,
    ) -> Self {
        Self {
            steps,
            order,
            told: Vec::new(),
            known: Arc::clone(known),
            zone: zone.into(),
            output,
            at_once: usize::MAX,
            own: Vec::new(),
            elsewhere: Vec::new(),
            own_node: None,
            share: Some(share),
        }
    }

    /// Which share of rows another node makes, if it is one.
    pub(super) fn share(&self) -> Option<usize> {
        self.share
    }

    /// Whether what a node gives cannot be put together of what others give for its bricks: all rows come in an order, or are a share.
    pub(super) fn is_one_answer(&self) -> bool {
        self.steps.order().is_some() || self.share.is_some()
    }

    /// The scan of all bricks.
    pub(super) fn scan(&self) -> &SpreadScan {
        &self.steps.scan
    }

    /// The scan of these bricks alone.
    pub(super) fn scan_of(&self, bricks: &[u64]) -> SpreadScan {
        self.scan().with_bricks(bricks).with_hints(&self.told)
    }

    /// The piece, written down with what joins above have found and the inputs of joins in it, which are waited for; `None` if that is
    /// too much to be sent. `here` is the piece as it is done here.
    ///
    /// # Errors
    /// That of an input.
    pub(super) async fn order(
        &self,
        here: &Arc<dyn ExecutionPlan>,
        task: &Arc<TaskContext>,
    ) -> Result<Option<Bytes>> {
        let inputs = sent_inputs(here);
        if self.told.is_empty() && inputs.is_empty() {
            return Ok(Some(self.order.clone()));
        }
        let Some(inputs) = rows_to_send(&inputs, task).await? else { return Ok(None) };
        let along = Along { conditions: found(&self.told).await?, inputs };
        Ok(encoded(&self.steps, &along, &self.known, &self.zone))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SpreadPieces {
    whole: Arc<Whole>,
    /// The piece over the bricks that are here.
    here: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpreadPieces {
    /// These steps, which give the columns of this part of a plan; `None` if they cannot be written down, nothing would be saved, or
    /// all bricks are here.
    ///
    /// # Errors
    /// None that anybody could do something about: what was written down is not read.
    pub(super) fn of(
        steps: Steps,
        plan: &Arc<dyn ExecutionPlan>,
        maker: &PieceMaker<'_>,
    ) -> Result<Option<Self>> {
        let told = told(&steps, &maker.joins);
        let has_joins = steps.joins().next().is_some();
        if !steps.reduce() && (has_joins || told.is_empty()) {
            return Ok(None);
        }
        let (known, options) = (maker.known, maker.options);
        let bricks: Vec<u64> = steps.scan.bricks().collect();
        let source = steps.scan.source();
        let placed = source.snapshot.place(source.table, &bricks, &[]);
        let count: usize = placed.iter().map(|at| at.bricks.len()).sum();
        let (own, elsewhere): (Vec<_>, Vec<_>) = placed.into_iter().partition(|at| at.is_own);
        if elsewhere.is_empty() || count < bricks.len() {
            return Ok(None);
        }
        let zone = options.execution.time_zone.as_deref().unwrap_or_default();
        let Some(order) = encoded(&steps, &Along::default(), known, zone) else { return Ok(None) };
        let own_node = own.first().map(|at| at.node);
        let own: Vec<u64> = own.into_iter().flat_map(|at| at.bricks).collect();
        let scan = CooperativeExec::new(Arc::new(steps.scan.with_bricks(&own).with_hints(&told)));
        let opened = Opened::of(&order)?;
        let inputs: Vec<_> = steps.joins().map(|join| Arc::clone(join.left())).collect();
        let here = opened.over(Arc::new(scan), &inputs, known, &Arc::new(while_running(options)))?;
        if !give_the_same(here.as_ref(), plan.as_ref()) {
            return Ok(None);
        }
        let is_one_answer = steps.gather() || steps.order().is_some();
        let at_once = if is_one_answer { usize::MAX } else { BRICKS_AT_ONCE };
        let (known, zone, output) = (Arc::clone(known), zone.into(), plan.schema());
        let share = None;
        let whole =
            Whole { steps, order, told, known, zone, output, at_once, own, elsewhere, own_node, share };
        Ok(Some(Self::with(Arc::new(whole), here, ExecutionPlanMetricsSet::new())))
    }

    /// The other nodes, with their bricks.
    pub(super) fn elsewhere(&self) -> &[PlacedBricks] {
        &self.whole.elsewhere
    }

    /// Who has which of the bricks, but for this node of the others.
    pub(super) fn all_but(&self, node: u32) -> Vec<(u32, Vec<u64>)> {
        let here = self.whole.own_node.map(|own| (own, self.whole.own.clone()));
        let others = self.whole.elsewhere.iter().filter(|at| at.node != node);
        here.into_iter().chain(others.map(|at| (at.node, at.bricks.clone()))).collect()
    }

    /// The piece for another share of the rows, written down; `None` if it cannot be.
    pub(super) fn order_of_share(&self, share: usize) -> Option<Bytes> {
        let Whole { steps, known, zone, .. } = self.whole.as_ref();
        encoded(&steps.in_share(share), &Along::default(), known, zone)
    }

    /// The same for another share of the rows, of which the piece that is done here is one already.
    ///
    /// # Errors
    /// None: what could be written down for one share can be for another.
    pub(super) fn of_share(&self, share: usize) -> Result<Self> {
        let Some(order) = self.order_of_share(share) else { return internal_err!("a share has no order") };
        let whole = Whole { steps: self.whole.steps.in_share(share), order, ..Whole::clone(&self.whole) };
        Ok(Self::with(Arc::new(whole), Arc::clone(&self.here), self.metrics.clone()))
    }

    fn with(whole: Arc<Whole>, here: Arc<dyn ExecutionPlan>, metrics: ExecutionPlanMetricsSet) -> Self {
        let parts = parts_here(&whole, &here) + whole.elsewhere.len();
        let orders = whole.steps.order().cloned();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&whole.output), orders),
            Partitioning::UnknownPartitioning(parts),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { whole, here, properties, metrics }
    }

    /// The bricks that are read, here and elsewhere.
    pub(crate) fn bricks(&self) -> impl Iterator<Item = u64> {
        self.whole.scan().bricks()
    }
}

/// What functions are told that run later: those of a plan that is made get other options than its rules.
pub(super) fn while_running(options: &ConfigOptions) -> ConfigOptions {
    let mut told = options.clone();
    if let Some(allowance) = Allowance::carried_by(options) {
        allowance.while_running().carry_in(&mut told);
    }
    told
}

/// Into how many parts the bricks that are here are divided; none, if there are none.
fn parts_here(whole: &Whole, here: &Arc<dyn ExecutionPlan>) -> usize {
    if whole.own.is_empty() { 0 } else { here.properties().output_partitioning().partition_count() }
}

/// A batch with the names and marks of this schema, whose types it has.
pub(super) fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

impl DisplayAs for SpreadPieces {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Whole { steps, told, own, elsewhere, .. } = self.whole.as_ref();
        let name = steps.scan.table_name();
        if matches!(t, DisplayFormatType::TreeRender) {
            return write!(f, "table={name}");
        }
        write!(f, "SpreadPieces: table={name}, here={} bricks", own.len())?;
        elsewhere.iter().try_for_each(|at| write!(f, ", node {}={} bricks", at.node, at.bricks.len()))?;
        if told.is_empty() { Ok(()) } else { write!(f, ", keys of joins=[{}]", names(told)) }
    }
}

impl ExecutionPlan for SpreadPieces {
    fn name(&self) -> &'static str {
        "SpreadPieces"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.here]
    }

    /// A join completes its filter only if somebody below has it.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.whole.told, f)
    }

    /// What other nodes do stays as it was written down: whoever puts something in the place of what is done here does the same.
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(here) if children.is_empty() => {
                Ok(Arc::new(Self::with(Arc::clone(&self.whole), here, self.metrics.clone())))
            }
            _ => internal_err!("one piece is done here"),
        }
    }

    /// A join that is begun anew tells nothing to those that it told before.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let whole = Whole { told: Vec::new(), ..Whole::clone(&self.whole) };
        Ok(Arc::new(Self::with(Arc::new(whole), Arc::clone(&self.here), self.metrics.clone())))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let output = Arc::clone(&self.whole.output);
        let parts = parts_here(&self.whole, &self.here);
        if partition < parts {
            let schema = Arc::clone(&output);
            let batches = self.here.execute(partition, task)?;
            let batches = batches.map(move |batch| fitted(&batch?, &schema));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)));
        }
        let Some(placed) = self.whole.elsewhere.get(partition - parts) else {
            return internal_err!("there is no part {partition} of a piece");
        };
        let figures = Figures::new(self.metrics.clone(), partition);
        let plan = (Arc::clone(&self.whole), Arc::clone(&self.here));
        let asking = Asking::new(plan, placed, task, figures);
        let batches = stream::try_unfold(asking, Asking::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.whole.output)))
    }
}
