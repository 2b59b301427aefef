// SPDX-License-Identifier: Apache-2.0
//! The leaf of physical plans that reads a table which is spread over a cluster.
//!
//! The bricks that any node has are listed when the plan is made, and those are left out that no row of the answer can be in, by
//! the ranges of their dimensions: what is in a brick is known where it is. Texts are in no order, and their codes are the
//! cluster's, so they leave out nothing. Filters stay above the scan; what joins find out while they run leaves out bricks by the same
//! ranges when it is their turn, and is kept for whoever has the scan done elsewhere ([`SpreadScan::hints`]). Each part reads its bricks one
//! after the other, from this node or from another one, and has the rows of one in memory.

use super::bricks::{as_declared, value_of};
use super::prune::{Pruner, SourceColumn};
use super::request::ScanRequest;
use super::scan::with_zeros;
use crate::cluster::ClusterSnapshot;
use crate::engine::{brick_schema, spread_number};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coeval_store::{BrickId, BrickSchema, ChunkStats, ColumnStats, Number, Physical, TableDef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Reads columns of those bricks of a spread table that may have rows of the answer.
#[derive(Clone)]
pub(crate) struct SpreadScan {
    source: BrickReader,
    /// The table's.
    name: Arc<str>,
    output: SchemaRef,
    /// Into so many parts it is divided at most.
    partitions: usize,
    /// What each part reads.
    parts: Arc<[Vec<u64>]>,
    /// How many bricks they are.
    bricks: usize,
    /// How many have no row of the answer.
    pruned: usize,
    /// What operators above find out while they run of rows that they can use.
    hints: Arc<[Arc<dyn PhysicalExpr>]>,
    /// Nothing on a node that does a piece: it is told bricks and not what is known of them.
    ranges: Option<Arc<BrickRanges>>,
    properties: Arc<PlanProperties>,
}

/// What the number of a brick says of its rows.
struct BrickRanges {
    schema: BrickSchema,
    def: Arc<TableDef>,
    /// The columns that go out.
    columns: Vec<SourceColumn>,
}

/// Where the rows of bricks come from.
#[derive(Clone)]
pub(crate) struct BrickReader {
    pub(crate) snapshot: Arc<dyn ClusterSnapshot>,
    /// The table's number in the cluster.
    pub(crate) table: u64,
    /// The columns that are read, by position among the table's live ones; one at least, so that rows are counted.
    pub(crate) columns: Arc<[usize]>,
}

impl BrickReader {
    /// The rows of a brick, as they go out, in batches of no more than so many.
    async fn rows(self, brick: u64, output: SchemaRef, rows_max: usize) -> Result<Vec<Result<RecordBatch>>> {
        let batches = self.snapshot.rows(self.table, brick, self.columns.to_vec()).await?;
        let mut slices = Vec::new();
        for batch in batches {
            let rows = batch.num_rows();
            let starts = (0..rows).step_by(rows_max.max(1));
            slices.extend(
                starts.map(|start| as_declared(&batch.slice(start, rows_max.min(rows - start)), &output)),
            );
        }
        Ok(slices)
    }
}

impl SpreadScan {
    /// The scan, once the bricks are listed.
    ///
    /// # Errors
    /// If no holder of some bricks could be asked.
    pub(super) async fn try_new(snapshot: Arc<dyn ClusterSnapshot>, request: ScanRequest) -> Result<Self> {
        let Some(mut places) = request.places() else {
            return internal_err!("a column of a spread table that is not one of its rows");
        };
        if places.is_empty() {
            places.push(0);
        }
        let source_columns = request.source_columns();
        let pruner = Pruner::of_all(&request.filters, &source_columns);
        let ScanRequest { def, schema, projection, partitions, .. } = request;
        let columns = projection.iter().map(|field| source_columns[*field]).collect();
        let (name, table) = (def.name.to_string().into(), spread_number(def.id));
        let ranges = BrickRanges { schema: brick_schema(&def)?, def, columns };
        let all = snapshot.bricks(table).await?;
        let kept: Vec<u64> = all.iter().copied().filter(|brick| ranges.may_match(&pruner, *brick)).collect();
        let output = Arc::new(schema.project(&projection)?);
        let source = BrickReader { snapshot, table, columns: places.into() };
        let scan = Self::of_bricks(source, (name, output), &kept, partitions);
        Ok(Self { pruned: all.len() - kept.len(), ranges: Some(Arc::new(ranges)), ..scan })
    }

    /// A scan of these bricks of the table of this name, whose rows come out as these columns, in at most so many parts.
    pub(crate) fn of_bricks(
        source: BrickReader,
        (name, output): (Arc<str>, SchemaRef),
        bricks: &[u64],
        partitions: usize,
    ) -> Self {
        let parts: Arc<[Vec<u64>]> = divided(bricks, partitions).into();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&output)),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let (bricks, pruned) = (bricks.len(), 0);
        let hints: Arc<[Arc<dyn PhysicalExpr>]> = Arc::new([]);
        Self { source, name, output, partitions, parts, bricks, pruned, hints, ranges: None, properties }
    }

    /// The same of these of its bricks, without hints.
    pub(crate) fn with_bricks(&self, bricks: &[u64]) -> Self {
        let what = (Arc::clone(&self.name), Arc::clone(&self.output));
        let scan = Self::of_bricks(self.source.clone(), what, bricks, self.partitions);
        Self { pruned: self.pruned, ranges: self.ranges.clone(), ..scan }
    }

    /// The same with these hints, over what goes out, and no others.
    pub(crate) fn with_hints(self, hints: &[Arc<dyn PhysicalExpr>]) -> Self {
        Self { hints: hints.into(), ..self }
    }

    /// Those of these bricks that may have rows for which all hints hold, as far as is known now.
    pub(crate) fn matching(&self, mut bricks: Vec<u64>) -> Vec<u64> {
        let Some(ranges) = self.ranges.as_ref().filter(|_| !self.hints.is_empty()) else { return bricks };
        // A hint that cannot be looked at says nothing.
        let now = self.hints.iter().filter_map(|hint| snapshot_physical_expr(Arc::clone(hint)).ok());
        let now: Vec<_> = now.collect();
        let pruner = Pruner::of_all(&now, &ranges.columns);
        bricks.retain(|brick| ranges.may_match(&pruner, *brick));
        bricks
    }

    /// The bricks that it reads.
    pub(crate) fn bricks(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flatten().copied()
    }

    /// Where their rows come from.
    pub(crate) fn source(&self) -> &BrickReader {
        &self.source
    }

    /// What operators above find out while they run of rows that they can use: filters over what goes out, which change. The scan itself
    /// leaves out bricks by them, and no rows.
    pub(crate) fn hints(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.hints
    }

    /// The name of the table.
    pub(crate) fn table_name(&self) -> &str {
        &self.name
    }
}

impl BrickRanges {
    /// Whether a brick may have rows for which this holds.
    fn may_match(&self, pruner: &Pruner, brick: u64) -> bool {
        *pruner == Pruner::Unknown
            || stats_of(&self.schema, &self.def, brick).is_none_or(|stats| pruner.may_match(&stats))
    }
}

/// The bricks in at most `count` parts of as many; one part at least. Neighbours are in different parts: who asks for some days of
/// many gets them from all threads.
fn divided(bricks: &[u64], count: usize) -> Vec<Vec<u64>> {
    let count = count.min(bricks.len()).max(1);
    (0..count).map(|part| bricks.iter().skip(part).step_by(count).copied().collect()).collect()
}

/// What is known of a brick's rows by its number: between which values they lie in dimensions of numbers. `None` if no row of the
/// table can be in it. Of all other columns nothing is known, so there may be NULLs among them, and others.
fn stats_of(schema: &BrickSchema, def: &TableDef, brick: u64) -> Option<ChunkStats> {
    let brick = BrickId::new(brick);
    if !schema.layout().may_be(brick) {
        return None;
    }
    let unknown = || ColumnStats { min: None, max: None, null_count: 1 };
    let mut columns: Vec<ColumnStats> = def.columns.iter().map(|_| unknown()).collect();
    let dimensions = def.bricks.iter().flat_map(|bricks| &bricks.dimensions);
    for (dimension, ordinals) in dimensions.zip(schema.layout().ordinals(brick)) {
        let ty = def.columns[dimension.column].ty;
        let (min, max) = if matches!(ty.physical(), Physical::Text) {
            (None, None)
        } else {
            let value = |ordinal: u64| {
                value_of(Number::Integer(i128::from(dimension.origin) + i128::from(ordinal)), ty)
            };
            (value(*ordinals.start()), value(*ordinals.end()))
        };
        columns[dimension.column] = ColumnStats { min, max, null_count: 0 };
    }
    Some(ChunkStats { rows: 2, columns })
}

impl fmt::Debug for SpreadScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpreadScan").field("table", &self.name).finish_non_exhaustive()
    }
}

impl DisplayAs for SpreadScan {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.output.fields().iter().map(|field| field.name().as_str()).collect();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let (name, names, parts) = (&self.name, names.join(", "), self.parts.len());
                let (bricks, pruned) = (self.bricks, self.pruned);
                write!(f, "SpreadScan: table={name}, columns=[{names}], parts={parts}")?;
                write!(f, ", bricks={bricks}, pruned={pruned}, spread over a cluster")
            }
            DisplayFormatType::TreeRender => write!(f, "table={}", self.name),
        }
    }
}

impl ExecutionPlan for SpreadScan {
    fn name(&self) -> &'static str {
        "SpreadScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    /// A join makes a filter of its keys only if somebody below has it.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.hints.iter(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(bricks) = self.parts.get(partition).cloned() else {
            return internal_err!("the scan has {} parts, part {partition} was asked for", self.parts.len());
        };
        let rows_max = task.session_config().batch_size();
        let (source, output) = (self.source.clone(), Arc::clone(&self.output));
        let scan = self.clone();
        let wanted = bricks.into_iter().filter(move |brick| !scan.matching(vec![*brick]).is_empty());
        let read =
            stream::iter(wanted).then(move |brick| source.clone().rows(brick, Arc::clone(&output), rows_max));
        let batches = read.map_ok(stream::iter).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), batches)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.output)))
    }

    /// Takes no filter upon itself: hints are noted, and whoever gives them does without.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut hints = self.hints.to_vec();
        if phase == FilterPushdownPhase::Post {
            for parent in &result.parent_filters {
                if parent.filter.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
                    hints.push(with_zeros(Arc::clone(&parent.filter), &self.output)?);
                }
            }
        }
        let answers = FilterPushdownPropagation::all_unsupported(result);
        if hints.len() == self.hints.len() {
            return Ok(answers);
        }
        Ok(answers.with_updated_node(Arc::new(Self { hints: hints.into(), ..self.clone() })))
    }
}
