// SPDX-License-Identifier: Apache-2.0
//! The leaf of physical plans that reads a brick table.
//!
//! Bricks that no row of the answer can be in are left out before any row is touched: by the ranges of dimensions, and
//! by the least and greatest values of metrics. Filters themselves stay above the scan; what operators above find out while they run leaves
//! out more bricks, and rows (`brick_hints.rs`). A brick is read by one part, a large one by several.

mod template;

use super::brick_hints::{BrickHints, is_hint};
use super::column_field::field_of_column;
use super::hinted_bricks::{HintedRows, HintedScan};
use super::prune::{Pruner, SourceColumn};
use super::request::ScanRequest;
use super::scan::CountedScan;
use super::scan_keys::ScanKeys;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, Schema, SchemaRef};
use coeval_store::{
    BrickColumnStatistics, BrickSnapshot, BrickView, ChunkStats, ColumnStats, ColumnType, DimensionBounds,
    Number, ScanOrder, Store, StoreError, TableDef, Value,
};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::stream::{self, BoxStream, StreamExt};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A brick, or the blocks of one whose first row is among `rows`.
#[derive(Clone)]
pub(super) struct BrickPart {
    pub(super) brick: BrickView,
    pub(super) rows: Range<usize>,
}

/// Those bricks of a table that may have rows of the answer.
#[derive(Clone)]
pub(super) struct BrickSource {
    pub(super) snapshot: BrickSnapshot,
    pub(super) def: Arc<TableDef>,
    /// What each part reads.
    pub(super) parts: Arc<[Vec<BrickPart>]>,
    /// How many bricks they are.
    pub(super) bricks: usize,
    /// How many rows of them are visible.
    pub(super) rows: usize,
    /// How many have no row of the answer.
    pub(super) pruned: usize,
}

/// Reads columns of those bricks of a table that may have rows of the answer.
///
/// What it reads can be sent to where it is to be read, as a [`ScanOrder`].
#[derive(Clone)]
pub struct BrickScan {
    pub(super) source: BrickSource,
    pub(super) output: SchemaRef,
    /// What goes out, by position among the table's live columns.
    pub(super) projection: Arc<[usize]>,
    pub(super) limit: Option<usize>,
    /// What operators above find out while they run.
    pub(super) hints: BrickHints,
    /// Into so many parts it was to be divided.
    parts_max: usize,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    /// How many rows it has read, for who waits for them.
    metrics: ExecutionPlanMetricsSet,
}

impl BrickScan {
    pub(super) fn try_new(snapshot: BrickSnapshot, request: ScanRequest) -> Result<Self> {
        let Some(places) = request.places() else {
            return internal_err!("a column of a brick table that is not one of its rows");
        };
        let pruner = Pruner::of_all(&request.filters, &request.source_columns());
        let ScanRequest { def, schema, columns, projection, limit, partitions, .. } = request;
        let types: Vec<ColumnType> = projection.iter().map(|field| def.columns[columns[*field]].ty).collect();
        let all = snapshot.bricks().len();
        let may_match = |brick: &BrickView| {
            pruner == Pruner::Unknown || pruner.may_match(&chunk_stats(&snapshot, &def, brick, |_| true))
        };
        let is_kept = |brick: &&BrickView| snapshot.visible_rows(brick) > 0 && may_match(brick);
        let kept: Vec<BrickView> = snapshot.bricks().iter().filter(is_kept).cloned().collect();
        let pruned = all - kept.len();
        let output = Arc::new(schema.project(&projection)?);
        let what = Kept { snapshot, def, bricks: kept, pruned, places, types };
        Self::of_kept(what, output, limit, partitions)
    }

    /// What it reads, in a form that can be divided and sent. None if its transaction has written to the table, as nobody
    /// else sees these rows. A limit of the scan is no part of it: it would hold for all parts together.
    #[must_use]
    pub fn order(&self) -> Option<ScanOrder> {
        let BrickSource { snapshot, def, parts, .. } = &self.source;
        let live: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
        let columns = self.projection.iter().map(|place| live[*place]).collect();
        snapshot.order(columns, parts.iter().flatten().map(|part| part.brick.id()).collect())
    }

    /// A scan of what was ordered, in at most so many parts.
    ///
    /// # Errors
    /// As [`Store::ordered_scan`].
    pub fn ordered(store: &Store, order: &ScanOrder, partitions: usize) -> Result<Self> {
        let external = |error: StoreError| DataFusionError::External(Box::new(error));
        let (snapshot, places) = store.ordered_scan(order).map_err(external)?;
        let unknown = || external(StoreError::UnknownSpace(order.table()));
        let def = Arc::clone(store.world().table(order.table()).ok_or_else(unknown)?.def());
        let columns = || order.columns().iter().map(|index| &def.columns[*index]);
        let types = columns().map(|column| column.ty).collect();
        let fields: Vec<_> = columns().map(field_of_column).collect();
        let (bricks, output) = (snapshot.bricks().to_vec(), Arc::new(Schema::new(fields)));
        let what = Kept { snapshot, def, bricks, pruned: 0, places, types };
        Self::of_kept(what, output, None, partitions)
    }

    fn of_kept(what: Kept, output: SchemaRef, limit: Option<usize>, parts_max: usize) -> Result<Self> {
        let Kept { snapshot, def, bricks: kept, pruned, places, types } = what;
        let rows = kept.iter().map(|brick| snapshot.visible_rows(brick)).sum();
        let statistics = Arc::new(statistics_of(&snapshot, &kept, rows, &places, &types, limit)?);
        let bricks = kept.len();
        let parts: Arc<[Vec<BrickPart>]> = divided(kept, parts_max).into();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&output)),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let live: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
        let columns = places.iter().zip(types).map(|(place, ty)| SourceColumn { index: live[*place], ty });
        let hints = BrickHints::none(columns.collect());
        let projection = places.into();
        let source = BrickSource { snapshot, def, parts, bricks, rows, pruned };
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { source, output, projection, limit, hints, parts_max, statistics, properties, metrics })
    }

    /// How many rows there are in its bricks.
    pub(super) fn row_count(&self) -> u64 {
        self.source.rows as u64
    }

    /// Whether it gives so many rows and no more, whichever come first.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// The same scan, which asks for these keys, too.
    pub(super) fn with_join_keys(&self, keys: ScanKeys) -> Self {
        Self { hints: self.hints.clone().with_join_keys(keys), ..self.clone() }
    }

    /// Whether this one of the same statement gives the same rows, divided in the same way.
    pub(super) fn reads_as(&self, other: &Self) -> bool {
        let is_same_part = |(part, other): (&BrickPart, &BrickPart)| {
            part.brick.id() == other.brick.id() && part.rows == other.rows
        };
        let are_same_parts = |(parts, others): (&Vec<BrickPart>, &Vec<BrickPart>)| {
            parts.len() == others.len() && parts.iter().zip(others).all(is_same_part)
        };
        let (parts, others) = (&self.source.parts, &other.source.parts);
        self.source.def.id == other.source.def.id
            && parts.len() == others.len()
            && parts.iter().zip(others.iter()).all(are_same_parts)
            && self.output == other.output
            && self.projection == other.projection
            && self.limit == other.limit
            && self.hints.ask_as(&other.hints)
    }

    /// What counts the rows that it reads.
    pub(super) fn counted(&self) -> CountedScan {
        self.source.counted(&self.metrics)
    }
}

impl BrickSource {
    /// What counts the rows that are read of these bricks, by metrics.
    pub(super) fn counted(&self, metrics: &ExecutionPlanMetricsSet) -> CountedScan {
        CountedScan { metrics: metrics.clone(), rows: self.rows as u64, rows_per_chunk: 0 }
    }

    /// The visible rows of a part, in batches of so many at most.
    pub(super) fn batches(
        &self,
        part: BrickPart,
        projection: &[usize],
        rows_max: usize,
    ) -> impl Iterator<Item = RecordBatch> + Send + use<> {
        let BrickPart { brick, rows } = part;
        let blocks = self.snapshot.batches_within(&brick, rows, projection, None);
        blocks.flat_map(move |block| {
            let rows = block.num_rows();
            (0..rows).step_by(rows_max).map(move |start| block.slice(start, rows_max.min(rows - start)))
        })
    }
}

/// The bricks that a scan reads, and which of their columns.
struct Kept {
    snapshot: BrickSnapshot,
    def: Arc<TableDef>,
    bricks: Vec<BrickView>,
    pruned: usize,
    /// What goes out, by position among the live columns, and its types.
    places: Vec<usize>,
    types: Vec<ColumnType>,
}

/// Fewer rows of a brick are not divided.
const PIECE_ROWS_MIN: usize = 1 << 17;

/// Into how many pieces the share of a part is divided at least, if its bricks are large: so that shares come out even.
const PIECES_PER_PART: usize = 4;

/// The bricks in at most `count` parts of about as many rows; one part at least.
fn divided(bricks: Vec<BrickView>, count: usize) -> Vec<Vec<BrickPart>> {
    let rows: usize = bricks.iter().map(BrickView::rows).sum();
    let piece_rows = rows.div_ceil(count.max(1) * PIECES_PER_PART).max(PIECE_ROWS_MIN);
    let pieces = bricks.into_iter().flat_map(|brick| {
        let (rows, pieces) = (brick.rows(), if count > 1 { brick.rows().div_ceil(piece_rows) } else { 1 });
        let bound = move |number: usize| (rows as u128 * number as u128 / pieces as u128) as usize;
        (0..pieces)
            .map(move |number| BrickPart { brick: brick.clone(), rows: bound(number)..bound(number + 1) })
    });
    let mut pieces: Vec<BrickPart> = pieces.collect();
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.rows.len()));
    let mut parts: Vec<(usize, Vec<BrickPart>)> = vec![(0, Vec::new()); count.min(pieces.len()).max(1)];
    for piece in pieces {
        let least = parts.iter_mut().min_by_key(|(rows, _)| *rows).expect("there is a part");
        least.0 += piece.rows.len();
        least.1.push(piece);
    }
    parts.into_iter().map(|(_, pieces)| pieces).collect()
}

/// What is known of a brick's rows without reading them, by column of the definition, of those columns that are wanted.
pub(super) fn chunk_stats(
    snapshot: &BrickSnapshot,
    def: &TableDef,
    brick: &BrickView,
    is_wanted: impl Fn(usize) -> bool,
) -> ChunkStats {
    let unknown = || ColumnStats { min: None, max: None, null_count: 0 };
    let mut columns: Vec<ColumnStats> = def.columns.iter().map(|_| unknown()).collect();
    for (place, (index, column)) in def.live_columns().enumerate() {
        if !is_wanted(index) {
            continue;
        }
        let (bounds, null_count) = match snapshot.dimension_bounds(brick, place) {
            Some(DimensionBounds::Ordered(least, greatest)) => {
                let number = |value: i64| value_of(Number::Integer(value.into()), column.ty);
                (Some((number(least), number(greatest))), 0)
            }
            Some(DimensionBounds::Strings(least, greatest)) => {
                (Some((Some(Value::Text(least.into())), Some(Value::Text(greatest.into())))), 0)
            }
            None => match snapshot.statistics(brick, place) {
                Some(BrickColumnStatistics { bounds, null_count, .. }) => {
                    let bounds = bounds
                        .map(|(least, greatest)| (value_of(least, column.ty), value_of(greatest, column.ty)));
                    (bounds, null_count as u64)
                }
                None => continue,
            },
        };
        let (min, max) = bounds.unwrap_or_default();
        columns[index] = ColumnStats { min, max, null_count };
    }
    ChunkStats { rows: brick.rows(), columns }
}

/// A number as a value of this type; none for floats, which are not compared by bounds.
pub(super) fn value_of(number: Number, ty: ColumnType) -> Option<Value> {
    let Number::Integer(number) = number else { return None };
    match ty {
        ColumnType::SmallInt => i16::try_from(number).ok().map(Value::Int16),
        ColumnType::Int | ColumnType::Date => i32::try_from(number).ok().map(Value::Int32),
        ColumnType::BigInt | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
            i64::try_from(number).ok().map(Value::Int64)
        }
        ColumnType::Numeric { .. } => Some(Value::Decimal(number)),
        _ => None,
    }
}

/// The sum of a column of this type, in the type that SQL gives it; `None` for types that are not integers.
fn sum_of(total: Number, ty: ColumnType) -> Option<ScalarValue> {
    let Number::Integer(total) = total else { return None };
    match ty {
        ColumnType::SmallInt | ColumnType::Int => Some(ScalarValue::Int64(Some(total.try_into().ok()?))),
        ColumnType::BigInt => Some(ScalarValue::Decimal128(Some(total), DECIMAL128_MAX_PRECISION, 0)),
        _ => None,
    }
}

/// Row counts are exact, and so are the bounds and sums of metrics if all rows of all bricks are visible.
fn statistics_of(
    snapshot: &BrickSnapshot,
    bricks: &[BrickView],
    rows: usize,
    projection: &[usize],
    types: &[ColumnType],
    limit: Option<usize>,
) -> Result<Statistics> {
    let sees_all = bricks.iter().all(|brick| snapshot.sees_all(brick));
    let of_column = |(&place, &ty): (&usize, &ColumnType)| {
        let unknown = ColumnStatistics::new_unknown();
        if !sees_all || bricks.is_empty() {
            return unknown;
        }
        let parts = bricks.iter().map(|brick| snapshot.statistics(brick, place));
        let Some(known) = parts.collect::<Option<Vec<_>>>() else { return unknown };
        let sum = known.iter().fold(BrickColumnStatistics::default(), |sum, part| sum.with(part));
        let bound = |number: Option<Number>| {
            let value = number.and_then(|number| value_of(number, ty));
            let scalar = value.and_then(|value| crate::types::scalar_of(&value, ty).ok());
            scalar.map_or(Precision::<ScalarValue>::Absent, Precision::Exact)
        };
        ColumnStatistics {
            sum_value: sum
                .sum
                .and_then(|total| sum_of(total, ty))
                .map_or(Precision::Absent, Precision::Exact),
            null_count: Precision::Exact(sum.null_count),
            min_value: bound(sum.bounds.map(|(least, _)| least)),
            max_value: bound(sum.bounds.map(|(_, greatest)| greatest)),
            ..unknown
        }
    };
    let column_statistics = projection.iter().zip(types).map(of_column).collect();
    let statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Absent,
        column_statistics,
    };
    statistics.with_fetch(limit, 0, 1)
}

impl fmt::Debug for BrickScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrickScan").field("table", &self.source.def.name).finish_non_exhaustive()
    }
}

impl DisplayAs for BrickScan {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.output.fields().iter().map(|field| field.name().as_str()).collect();
        let BrickSource { def, parts, bricks, pruned, .. } = &self.source;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BrickScan: table={}, columns=[{}]", def.name, names.join(", "))?;
                self.hints.show_filters(f)?;
                for keys in self.hints.join_keys() {
                    let names: Vec<&str> = keys.columns().iter().map(|column| names[*column]).collect();
                    write!(f, ", join_keys=[{}]", names.join(", "))?;
                }
                if let Some(limit) = self.limit {
                    write!(f, ", limit={limit}")?;
                }
                write!(f, ", parts={}, bricks={bricks}, pruned={pruned}", parts.len())
            }
            DisplayFormatType::TreeRender => write!(f, "table={}", def.name),
        }
    }
}

impl ExecutionPlan for BrickScan {
    fn name(&self) -> &'static str {
        "BrickScan"
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
        apply_expression_roots(self.hints.filters(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let parts = &self.source.parts;
        let Some(pieces) = parts.get(partition).cloned() else {
            return internal_err!("the scan has {} parts, part {partition} was asked for", parts.len());
        };
        let rows_max = task.session_config().batch_size();
        let (source, projection) = (self.source.clone(), Arc::clone(&self.projection));
        let output = Arc::clone(&self.output);
        let batches: BoxStream<'static, Result<RecordBatch>> = if self.hints.is_empty() {
            let rows_scanned = MetricBuilder::new(&self.metrics).counter("rows_scanned", partition);
            let read = pieces.into_iter().flat_map(move |part| source.batches(part, &projection, rows_max));
            let read = read.inspect(move |batch| rows_scanned.add(batch.num_rows()));
            let mut left = self.limit.unwrap_or(usize::MAX);
            let wanted = read.map_while(move |batch| {
                let rows = batch.num_rows().min(left);
                left -= rows;
                (rows > 0).then(|| batch.slice(0, rows))
            });
            stream::iter(wanted.map(move |batch| as_declared(&batch, &output))).boxed()
        } else {
            let hints = self.hints.clone();
            let scan = HintedScan { source, projection, output, hints, rows_max };
            HintedRows::new(scan, partition, pieces, &self.metrics).into_stream().boxed()
        };
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let batches =
            batches.inspect(move |batch| output_rows.add(batch.as_ref().map_or(0, RecordBatch::num_rows)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.statistics)),
            Some(_) => {
                let mut part = Statistics::clone(&self.statistics).to_inexact();
                let count = self.source.parts.len().max(1);
                part.num_rows = part.num_rows.map(|rows| rows / count);
                Ok(Arc::new(part))
            }
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    /// Takes what moves while the query runs, and only that: other filters stay above, where all rows are asked.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        if phase != FilterPushdownPhase::Post || self.is_limited() {
            return Ok(FilterPushdownPropagation::all_unsupported(result));
        }
        let (mut hints, mut answers, mut is_told) = (self.hints.clone(), Vec::new(), false);
        for parent in result.parent_filters {
            let is_taken = is_hint(&parent.filter, &self.output);
            answers.push(if is_taken { PushedDown::Yes } else { PushedDown::No });
            if is_taken {
                hints = hints.with_filter(parent.filter, &self.output)?;
                is_told = true;
            }
        }
        let answers = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        let told = || Arc::new(Self { hints, ..self.clone() }) as Arc<dyn ExecutionPlan>;
        Ok(if is_told { answers.with_updated_node(told()) } else { answers })
    }
}

/// The batch with columns as SQL has them: bricks keep strings by dictionary.
pub(super) fn as_declared(batch: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(output.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            Ok(cast(column, field.data_type())?)
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(output), columns, &options)?)
}

#[cfg(test)]
mod tests;
