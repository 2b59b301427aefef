// SPDX-License-Identifier: Apache-2.0
//! The leaf of physical plans: a scan of one table of the statement's snapshot.

mod template;

use super::answers::{Answers, AskedScan};
use super::batches::{Batches, RowOrder, ScanTask};
use super::coded_columns::with_codes;
use super::narrow_columns::{retain_compared, with_narrow};
use super::prune::SourceColumn;
use super::request::ScanRequest;
use super::scan_keys::ScanKeys;
use super::scan_metrics::ScanMetrics;
use super::selectivity::selectivity;
use super::statistics;
use super::text_filter::is_of_text;
use crate::types::has_elements;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use coeval_store::{ColumnType, ScanPart, TableView, narrow_decimal_type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, DynamicFilterTracking, lit,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Below this many rows a scan is not worth dividing.
const ROWS_PER_PARTITION_MIN: u64 = 16_384;

/// Where a filter from above is used.
enum FilterUse {
    Here,
    Above,
    /// Nowhere: it is a hint.
    Ignored,
}

/// Reads columns of a table, chunk by chunk, without the rows that its filters refuse.
#[derive(Clone)]
pub(super) struct Scan {
    view: TableView,
    /// What goes out: the first columns of `source`.
    output: SchemaRef,
    /// What is read, without codes and 64-bit integers in the place of decimals; filters are over these.
    source: SchemaRef,
    columns: Arc<[SourceColumn]>,
    /// The texts that come as codes, and go out so if they are of the output: filters read them for nothing that is not asked of texts.
    coded: Arc<[usize]>,
    /// The decimals of the source that are read, and go out, as 64-bit integers: filters compare them, and ask nothing else.
    narrow: Arc<[usize]>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins on several columns look for. Hints like filters that move: rows without them are never missed.
    join_keys: Vec<ScanKeys>,
    /// What it was planned with. It gives no more, whatever becomes of `limit`: of what is behind nothing was noted.
    rows_max: Option<usize>,
    limit: Option<usize>,
    /// Into so many parts it was to be divided. There may be fewer: chunks are not cut.
    parts_max: usize,
    parts: Arc<[ScanPart]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    /// What samples of the table have told.
    answers: Arc<Answers>,
    /// Where it is kept what its filters are estimated to leave; `None` if there are more than those that it was planned with.
    asked: Option<AskedScan>,
}

/// A scan, without what it scans: whoever waits for a query keeps no rows.
pub(super) struct CountedScan {
    pub(super) metrics: ExecutionPlanMetricsSet,
    /// Those of its table.
    pub(super) rows: u64,
    /// About, for chunks that are passed over.
    pub(super) rows_per_chunk: u64,
}

impl Scan {
    pub(super) fn try_new(view: TableView, request: ScanRequest) -> Result<Self> {
        let ScanRequest { schema, columns, projection, filters, limit, partitions, .. } = request;
        let mut read = projection.clone();
        for filter in &filters {
            let mut more: Vec<usize> = collect_columns(filter).iter().map(Column::index).collect();
            more.sort_unstable();
            more.retain(|column| !read.contains(column));
            read.extend(more);
        }
        let source = Arc::new(schema.project(&read)?);
        let output = Arc::new(schema.project(&projection)?);
        let filters = filters
            .into_iter()
            .map(|filter| reassign_expr_columns(filter, &source))
            .collect::<Result<Vec<_>>>()?;
        let def = view.def();
        let columns: Arc<[SourceColumn]> = read
            .iter()
            .map(|&field| SourceColumn { index: columns[field], ty: def.columns[columns[field]].ty })
            .collect();
        let worthwhile = usize::try_from(view.row_count() / ROWS_PER_PARTITION_MIN).unwrap_or(usize::MAX);
        let parts_max = partitions.min(worthwhile.max(1));
        let parts = parts_of(&view, parts_max, limit);
        let properties = Arc::new(properties(&view, &output, &columns, parts.len()));
        Ok(Self {
            view,
            output,
            source,
            columns,
            coded: Arc::default(),
            narrow: Arc::default(),
            filters,
            join_keys: Vec::new(),
            rows_max: limit,
            limit,
            parts_max,
            parts,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            statistics: Arc::default(),
            answers: Arc::default(),
            asked: None,
        })
    }

    /// The same scan, which was planned with these filters and finds among these answers what they are estimated to leave, and how many values
    /// there are in columns.
    pub(super) fn asking(mut self, answers: &Arc<Answers>, filters: &[Expr]) -> Self {
        self.answers = Arc::clone(answers);
        if !filters.is_empty() {
            self.asked = AskedScan::new(answers, self.view.def().id, self.places(), filters);
        }
        self
    }

    /// The same scan with more filters, over its output.
    fn with_filters(&self, more: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        let mut scan = self.clone();
        // What moves while the query runs is no part of an estimate.
        if !more.iter().all(is_moving) {
            scan.statistics = Arc::default();
            scan.asked = None;
        }
        scan.filters.extend(more);
        scan
    }

    /// Where the columns that it reads stand in the table's definition.
    fn places(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.index).collect()
    }

    /// The same scan, which asks for these keys, too.
    pub(super) fn with_join_keys(&self, keys: ScanKeys) -> Self {
        let mut scan = self.clone();
        scan.join_keys.push(keys);
        scan
    }

    /// The same scan, which gives those of these columns of its output as codes of their texts that may be; `None` if there are none.
    pub(super) fn with_codes(&self, columns: &[usize]) -> Option<Self> {
        let mut scan = self.with_more_codes(columns.iter().copied())?;
        scan.output = with_codes(&self.output, &scan.coded);
        scan.properties = Arc::new(properties(&scan.view, &scan.output, &scan.columns, scan.parts.len()));
        Some(scan)
    }

    /// The same scan, which reads those columns as codes of their texts that are there for its filters alone; `None` if there are none.
    pub(super) fn with_codes_for_filters(&self) -> Option<Self> {
        self.with_more_codes(self.output.fields().len()..self.source.fields().len())
    }

    fn with_more_codes(&self, columns: impl Iterator<Item = usize>) -> Option<Self> {
        let mut coded: Vec<usize> = columns.filter(|column| self.may_be_coded(*column)).collect();
        if coded.is_empty() {
            return None;
        }
        coded.extend_from_slice(&self.coded);
        coded.sort_unstable();
        coded.dedup();
        Some(Self { coded: coded.into(), ..self.clone() })
    }

    /// Whether a column is one of few texts, of which filters and joins ask nothing that has to be asked of rows.
    fn may_be_coded(&self, column: usize) -> bool {
        *self.source.field(column).data_type() == DataType::Utf8View
            && self.filters.iter().all(|filter| !reads(filter, column) || is_of_text(filter, column))
            && !self.join_keys.iter().any(|keys| keys.columns().contains(&column))
            && self.view.has_few_texts(self.columns[column].index)
    }

    /// Whether its filters read texts that do not go out.
    pub(super) fn has_texts_for_filters(&self) -> bool {
        let fields = self.source.fields().iter().skip(self.output.fields().len());
        fields.into_iter().any(|field| *field.data_type() == DataType::Utf8View)
    }

    /// The same scan, which reads decimals of few digits that are in files as 64-bit integers: those among these columns of its output, and those
    /// that only filters read, as far as filters do nothing but compare them, and joins look for none. `None` if there are no more than it
    /// reads so already.
    pub(super) fn with_narrow(&self, columns: &[usize]) -> Option<Self> {
        let only_compared = self.output.fields().len()..self.source.fields().len();
        let is_narrow_in_files = |column: &usize| {
            narrow_decimal_type(self.source.field(*column).data_type()).is_some()
                && !self.join_keys.iter().any(|keys| keys.columns().contains(column))
                && self.view.has_narrow_decimals(self.columns[*column].index)
        };
        let more = columns.iter().copied().chain(only_compared).filter(is_narrow_in_files);
        let mut narrow: Vec<usize> = self.narrow.iter().copied().chain(more).collect();
        narrow.sort_unstable();
        narrow.dedup();
        retain_compared(&mut narrow, &self.filters, &self.source);
        if narrow[..] == self.narrow[..] {
            return None;
        }
        let mut scan = self.clone();
        scan.output = with_narrow(&self.output, &narrow);
        scan.properties = Arc::new(properties(&scan.view, &scan.output, &scan.columns, scan.parts.len()));
        scan.narrow = narrow.into();
        Some(scan)
    }

    /// Its filters, which are over its [source](Self::source).
    pub(super) fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// What is read.
    pub(super) fn source(&self) -> &SchemaRef {
        &self.source
    }

    /// How many rows its table has.
    pub(super) fn row_count(&self) -> u64 {
        self.view.row_count()
    }

    /// Whether this one of the same statement gives the same rows, divided in the same way.
    pub(super) fn reads_as(&self, other: &Self) -> bool {
        let columns = |scan: &Self| scan.columns.iter().map(|column| column.index).collect::<Vec<_>>();
        Arc::ptr_eq(self.view.table(), other.view.table())
            && self.parts.len() == other.parts.len()
            && self.output == other.output
            && columns(self) == columns(other)
            && self.filters == other.filters
            && self.join_keys == other.join_keys
            && (self.rows_max, self.limit) == (other.rows_max, other.limit)
    }

    /// What counts the rows that it comes by.
    pub(super) fn counted(&self) -> CountedScan {
        let (rows, chunks) = (self.view.row_count(), self.view.table().base_chunks() as u64);
        let rows_per_chunk = rows.checked_div(chunks).unwrap_or(0);
        CountedScan { metrics: self.metrics.clone(), rows, rows_per_chunk }
    }

    /// What becomes of a filter from above.
    ///
    /// One of what a join, a sort or an aggregate has seen of arrays is not used: DataFusion compares them with NULL below all
    /// other elements, though their bounds were found with NULL above, and rows would be lost. It is said to be taken, as it
    /// is only a hint and would be used further up otherwise.
    fn use_of(&self, filter: &Arc<dyn PhysicalExpr>) -> FilterUse {
        if self.coded.iter().chain(&*self.narrow).any(|column| reads(filter, *column)) {
            return FilterUse::Above;
        }
        if !is_moving(filter) {
            return self.use_unless_limited();
        }
        match (is_of_arrays(filter, &self.output), filter.downcast_ref::<DynamicFilterPhysicalExpr>()) {
            (true, Some(_)) => FilterUse::Ignored,
            (true, None) => FilterUse::Above,
            (false, _) => self.use_unless_limited(),
        }
    }

    /// The order in which rows come. Nobody can count on one that the plan does not promise, but whoever looks at a small table
    /// sees its rows in the order of keys, and the first rows are those of the least keys.
    fn row_order(&self) -> RowOrder {
        let is_limited = self.is_limited();
        let is_small = self.view.row_count() < ROWS_PER_PARTITION_MIN;
        if is_limited || is_small || self.properties.output_ordering().is_some() {
            RowOrder::OfKeys
        } else {
            RowOrder::Any
        }
    }

    fn use_unless_limited(&self) -> FilterUse {
        if self.is_limited() { FilterUse::Above } else { FilterUse::Here }
    }

    /// Whether it gives so many of its rows and no more, among which none may be dropped by what is asked from above.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.or(self.rows_max).is_some()
    }

    fn compute_statistics(&self) -> Result<Arc<Statistics>> {
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let mut statistics = Arc::unwrap_or_clone(self.statistics_of_source()?);
        statistics.column_statistics.truncate(self.output.fields().len());
        let statistics = Arc::new(statistics.with_fetch(self.limit, 0, 1)?);
        Ok(Arc::clone(self.statistics.get_or_init(|| statistics)))
    }

    /// What is known of all columns that are read, or what filters are estimated to leave of them, as if there were no limit.
    fn statistics_of_source(&self) -> Result<Arc<Statistics>> {
        let fixed: Vec<_> = self.filters.iter().filter(|filter| !is_moving(filter)).cloned().collect();
        if fixed.is_empty() {
            return Ok(Arc::new(statistics::of_view(&self.view, &self.places(), &self.answers)));
        }
        match &self.asked {
            Some(asked) => asked.statistics(|| self.estimated(fixed)),
            None => self.estimated(fixed).map(Arc::new),
        }
    }

    /// What these filters, which are over the source, are estimated to leave.
    fn estimated(&self, filters: Vec<Arc<dyn PhysicalExpr>>) -> Result<Statistics> {
        let places = self.places();
        let whole = statistics::of_view(&self.view, &places, &self.answers);
        let rows = whole.num_rows;
        let found = selectivity(&self.view, &places, &filters);
        // DataFusion's own estimate of what a filter leaves of the columns, over this scan without filters.
        let mut bare = self.clone();
        bare.output = self.source.clone();
        bare.filters = Vec::new();
        bare.asked = None;
        bare.properties = Arc::new(properties(&bare.view, &bare.output, &bare.columns, bare.parts.len()));
        bare.statistics = Arc::new(OnceLock::from(Arc::new(whole)));
        let filter = FilterExec::try_new(conjunction(filters), Arc::new(bare))?;
        let estimate = StatisticsContext::new().compute(&filter, &StatisticsArgs::new())?;
        let left = Arc::unwrap_or_clone(estimate).to_inexact();
        Ok(match found {
            Some(share) => statistics::scaled(left, rows, share),
            None => left,
        })
    }
}

/// What each part of a scan that gives at most `rows_max` rows reads. Of the rows that are wanted of a table many may lie together, as those of
/// a month whose days are in front of the key: each part gets some of them. The first rows of a few are those of the least keys.
fn parts_of(view: &TableView, parts_max: usize, rows_max: Option<usize>) -> Arc<[ScanPart]> {
    let parts = if rows_max.is_some() { view.partition(parts_max) } else { view.dealt(parts_max) };
    parts.into()
}

/// Whether a filter changes while the query runs.
pub(super) fn is_moving(filter: &Arc<dyn PhysicalExpr>) -> bool {
    DynamicFilterTracking::classify(filter).contains_dynamic_filter()
}

/// Whether a filter that changes while the query runs names arrays, or compares what is made of others.
pub(super) fn is_of_arrays(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let of_column = |column: &Column| has_elements(schema.field(column.index()).data_type());
    let is_array = |value: &Arc<dyn PhysicalExpr>| {
        value.data_type(schema).is_ok_and(|data_type| has_elements(&data_type))
    };
    let moving = filter.downcast_ref::<DynamicFilterPhysicalExpr>();
    collect_columns(filter).iter().any(of_column)
        || moving.is_some_and(|moving| moving.children().into_iter().any(is_array))
}

/// Whether a filter reads this column.
fn reads(filter: &Arc<dyn PhysicalExpr>, column: usize) -> bool {
    collect_columns(filter).iter().any(|read| read.index() == column)
}

/// The filter of a join, made of what it has seen, with zeros let through. The join takes `-0` and `0` for equal; the filter
/// compares with least and greatest values and looks up in lists, for which they are two.
pub(super) fn with_zeros(filter: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let mut zeros = Vec::new();
    filter.apply(|part| {
        if let Some(moving) = part.downcast_ref::<DynamicFilterPhysicalExpr>() {
            for key in moving.children() {
                zeros.extend(is_zero(key, schema)?);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let or = |one, other| -> Arc<dyn PhysicalExpr> { Arc::new(BinaryExpr::new(one, Operator::Or, other)) };
    Ok(zeros.into_iter().fold(filter, or))
}

/// Whether a float is a zero, by its sign; none for what is no float.
fn is_zero(key: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let zeros = match key.data_type(schema)? {
        DataType::Float64 => [lit(0.0_f64), lit(-0.0_f64)],
        DataType::Float32 => [lit(0.0_f32), lit(-0.0_f32)],
        _ => return Ok(Vec::new()),
    };
    let is =
        |zero| -> Arc<dyn PhysicalExpr> { Arc::new(BinaryExpr::new(Arc::clone(key), Operator::Eq, zero)) };
    Ok(zeros.into_iter().map(is).collect())
}

/// Each part is in key order, which is promised as far as columns of the key go out.
fn properties(
    view: &TableView,
    output: &SchemaRef,
    columns: &[SourceColumn],
    parts: usize,
) -> PlanProperties {
    let def = view.def();
    let mut ordering = Vec::new();
    for key in &def.primary_key {
        let place = columns[..output.fields().len()].iter().position(|column| column.index == *key);
        // Intervals of equal length, and numbers that show different digits, are one key and several values.
        let are_one_key = matches!(def.columns[*key].ty, ColumnType::Interval | ColumnType::AnyNumeric);
        let Some(place) = place.filter(|_| !are_one_key) else { break };
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(output.field(place).name(), place));
        ordering.push(PhysicalSortExpr::new(column, arrow::compute::SortOptions::new(false, false)));
    }
    let mut equivalence = EquivalenceProperties::new(output.clone());
    if !ordering.is_empty() {
        equivalence.add_ordering(ordering);
    }
    let partitioning = Partitioning::UnknownPartitioning(parts);
    PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded)
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("table", &self.view.def().name).finish_non_exhaustive()
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.output.fields().iter().map(|field| field.name().as_str()).collect();
        let filters: Vec<String> =
            self.filters.iter().map(|filter| fmt_sql(filter.as_ref()).to_string()).collect();
        let table = self.view.table();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "CoevalScan: table={}, columns=[{}]", self.view.def().name, names.join(", "))?;
                if !self.coded.is_empty() {
                    let name = |column: &usize| self.source.field(*column).name().as_str();
                    let coded: Vec<&str> = self.coded.iter().map(name).collect();
                    write!(f, ", codes=[{}]", coded.join(", "))?;
                }
                if !self.narrow.is_empty() {
                    let name = |column: &usize| self.source.field(*column).name().as_str();
                    let narrow: Vec<&str> = self.narrow.iter().map(name).collect();
                    write!(f, ", narrow=[{}]", narrow.join(", "))?;
                }
                if !filters.is_empty() {
                    write!(f, ", filter={}", filters.join(" AND "))?;
                }
                for keys in &self.join_keys {
                    let name = |column: &usize| self.source.field(*column).name().as_str();
                    let names: Vec<&str> = keys.columns().iter().map(name).collect();
                    write!(f, ", join_keys=[{}]", names.join(", "))?;
                }
                if let Some(limit) = self.limit {
                    write!(f, ", limit={limit}")?;
                }
                write!(
                    f,
                    ", parts={}, chunks={}, delta_rows={}",
                    self.parts.len(),
                    table.base_chunks(),
                    table.delta_rows()
                )
            }
            DisplayFormatType::TreeRender => write!(f, "table={}", self.view.def().name),
        }
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "CoevalScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.filters, f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(part) = self.parts.get(partition) else {
            return internal_err!("the scan has {} parts, part {partition} was asked for", self.parts.len());
        };
        let task = ScanTask {
            view: self.view.clone(),
            columns: Arc::clone(&self.columns),
            source: with_narrow(&with_codes(&self.source, &self.coded), &self.narrow),
            output: self.output.clone(),
            coded: Arc::clone(&self.coded),
            narrow: Arc::clone(&self.narrow),
            filters: self.filters.clone(),
            join_keys: self.join_keys.clone(),
            limit: self.limit.or(self.rows_max),
            order: self.row_order(),
        };
        let mut metrics = ScanMetrics::new(&self.metrics, partition);
        if !self.join_keys.is_empty() {
            metrics = metrics.with_join_keys(&self.metrics, partition);
        }
        let batches = Batches::new(task, part.clone(), metrics)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.output.clone(), batches.into_stream())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let whole = self.compute_statistics()?;
        match args.partition() {
            None => Ok(whole),
            // Parts are about equal; nothing more is known of one.
            Some(_) => {
                let mut part = Arc::unwrap_or_clone(whole).to_inexact();
                let count = self.parts.len().max(1);
                part.num_rows = part.num_rows.map(|rows| rows / count);
                part.total_byte_size = part.total_byte_size.map(|bytes| bytes / count);
                Ok(Arc::new(part))
            }
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut scan = self.clone();
        scan.limit = limit.map(|limit| limit.min(self.rows_max.unwrap_or(limit)));
        scan.statistics = Arc::default();
        Some(Arc::new(scan))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let (mut taken, mut answers) = (Vec::new(), Vec::new());
        for parent in result.parent_filters {
            let (answer, is_taken) = match self.use_of(&parent.filter) {
                FilterUse::Here => (PushedDown::Yes, true),
                FilterUse::Ignored => (PushedDown::Yes, false),
                FilterUse::Above => (PushedDown::No, false),
            };
            answers.push(answer);
            if is_taken {
                taken.push(with_zeros(parent.filter, &self.output)?);
            }
        }
        let answers = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if taken.is_empty() {
            return Ok(answers);
        }
        let scan: Arc<dyn ExecutionPlan> = Arc::new(self.with_filters(taken));
        Ok(answers.with_updated_node(scan))
    }
}
