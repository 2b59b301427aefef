// SPDX-License-Identifier: Apache-2.0
//! A piece of a query, written down and read.
//!
//! ```text
//!   format (1 byte) | version of the program | version of DataFusion | time zone
//!   fields           those that are named below, as a schema in Arrow's stream format
//!   values           constants, as a row in Arrow's stream format; no bytes if there are none
//!   scan             name of the table | columns that are read, by position | fields in which they go out
//!   exchange         0, or 1 and: the piece whose rows nodes exchange | which nodes are asked for it, and for which bricks
//!   steps            count | of each its kind and what it is made of, the lowest first
//! ```
//! What joins look for is a filter below all other steps.
//!
//! Numbers have eight bytes, the lowest first; bytes, texts and lists have their length in front. Why not the form of `datafusion-proto`:
//! it does not know most of our functions, each of which would need words of ours all the same; it makes the program larger by some
//! hundred kinds of messages; and what is written here is not kept, so it needs no form that outlives a version.

use super::exchange::Exchange;
use super::joins::{can_be_divided, has_small_input};
use super::known::Known;
use super::share::ShareExec;
use super::wire::{Reader, Writer, malformed, read, written};
use crate::error::SqlError;
use crate::provider::SpreadScan;
use crate::query::GroupTopExec;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::DATAFUSION_VERSION;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::{LexOrdering, Partitioning, conjunction, split_conjunction};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

const FORMAT: u8 = 7;

const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

const FILTER: u8 = 0;
const PROJECTION: u8 = 1;
const AGGREGATE: u8 = 2;
const SORT: u8 = 3;
const LIMIT: u8 = 4;
const JOIN: u8 = 5;
const GROUP_TOP: u8 = 6;
const WINDOW: u8 = 7;
const SHARE: u8 = 8;
const DIVIDED: u8 = 9;
const SORT_OF_PARTS: u8 = 10;
const GATHERED: u8 = 11;

/// How many bytes a text is taken for, when what goes into a piece is compared with what comes out.
const TEXT_BYTES: usize = 32;

/// A step of a piece.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// What this part of a plan does with the rows of the step below.
    Node(Arc<dyn ExecutionPlan>),
    /// No more than so many of them are wanted, and it does not matter which.
    Limit(usize),
    /// All of them, as one sequence: in this order, or in any.
    Gathered(Option<LexOrdering>),
}

impl Step {
    fn is<T: ExecutionPlan>(&self) -> bool {
        match self {
            Self::Node(node) => node.downcast_ref::<T>().is_some(),
            Self::Limit(_) | Self::Gathered(_) => false,
        }
    }

    fn join(&self) -> Option<&HashJoinExec> {
        match self {
            Self::Node(node) => node.downcast_ref::<HashJoinExec>(),
            Self::Limit(_) | Self::Gathered(_) => None,
        }
    }

    /// The same; as one that keeps a share of rows, for this share.
    fn in_share(&self, index: usize) -> Self {
        let share = match self {
            Self::Node(node) => node.downcast_ref::<ShareExec>(),
            Self::Limit(_) | Self::Gathered(_) => None,
        };
        share.map_or_else(|| self.clone(), |share| Self::Node(Arc::new(share.with_index(index))))
    }
}

/// What a plan is made of, as far as a piece can be made of it: steps, the highest first, above a scan.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    steps: Vec<Step>,
    pub(super) scan: SpreadScan,
    /// Which rows come below the steps, if they are not those of the scan.
    exchange: Option<Exchange>,
}

impl Steps {
    /// Of filters, projections, joins with small inputs, and perhaps an aggregate, or what keeps the best rows of groups, above these; `None`
    /// if it is something else.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut steps, mut below): (Vec<Step>, _) = (Vec::new(), plan);
        loop {
            if let Some(scan) = below.downcast_ref::<SpreadScan>() {
                let found = Self { steps, scan: scan.clone(), exchange: None };
                let are_small = found.joins().all(has_small_input);
                return are_small.then_some(found);
            }
            let join = below.downcast_ref::<HashJoinExec>();
            if let Some(join) = join.filter(|join| can_be_divided(join)) {
                steps.push(Step::Node(Arc::clone(below)));
                below = join.right();
                continue;
            }
            let filter = below.downcast_ref::<FilterExec>();
            if let Some(rows) = filter.and_then(|filter| filter.fetch()) {
                // What counts, sorts or drops those rows has to have all parts of them.
                if !steps.iter().all(Step::is::<ProjectionExec>) {
                    return None;
                }
                steps.push(Step::Limit(rows));
            }
            let projection = below.downcast_ref::<ProjectionExec>();
            let gathers = steps.is_empty() && (below.is::<AggregateExec>() || below.is::<GroupTopExec>());
            let exchange = below.downcast_ref::<RepartitionExec>();
            let divides =
                exchange.filter(|one| matches!(one.partitioning(), Partitioning::RoundRobinBatch(_)));
            let is_step = filter.is_some() || projection.is_some() || below.is::<ShareExec>();
            if is_step || gathers {
                steps.push(Step::Node(Arc::clone(below)));
            } else if divides.is_none() && below.downcast_ref::<CooperativeExec>().is_none() {
                return None;
            }
            below = below.children().first().copied()?;
        }
    }

    /// These, the highest first, above rows of this scan that nodes have exchanged; what comes out is one sequence, in this order or in any.
    pub(super) fn exchanged(
        nodes: &[Arc<dyn ExecutionPlan>],
        order: Option<LexOrdering>,
        (scan, exchange): (SpreadScan, Exchange),
    ) -> Self {
        let nodes = nodes.iter().cloned().map(Step::Node);
        let steps = std::iter::once(Step::Gathered(order)).chain(nodes).collect();
        Self { steps, scan, exchange: Some(exchange) }
    }

    /// The same for another share of the rows.
    pub(super) fn in_share(&self, index: usize) -> Self {
        Self { steps: self.steps.iter().map(|step| step.in_share(index)).collect(), ..self.clone() }
    }

    /// The same with a sort on top, whose rows these are; `None` if these are not all.
    pub(super) fn sorted(mut self, sort: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        sort.downcast_ref::<SortExec>()?;
        if self.limit().is_some() || self.aggregates() {
            return None;
        }
        self.steps.insert(0, Step::Node(Arc::clone(sort)));
        Some(self)
    }

    /// The same, of whose rows no more than so many are wanted; `None` if they are what an aggregate makes of more.
    pub(super) fn limited(mut self, rows: usize) -> Option<Self> {
        if self.aggregates() {
            return None;
        }
        self.steps.insert(0, Step::Limit(rows));
        Some(self)
    }

    /// How many of the rows are wanted at most, if it does not matter which.
    pub(super) fn limit(&self) -> Option<usize> {
        let limit = |step: &Step| match step {
            Step::Limit(rows) => Some(*rows),
            Step::Node(_) | Step::Gathered(_) => None,
        };
        self.steps.iter().filter_map(limit).min()
    }

    /// In which order all rows come out, if they do in one.
    pub(super) fn order(&self) -> Option<&LexOrdering> {
        let Some(Step::Node(top)) = self.steps.first() else { return None };
        top.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()).map(SortExec::expr)
    }

    /// Joins with small inputs, the lowest one first.
    pub(super) fn joins(&self) -> impl Iterator<Item = &HashJoinExec> {
        self.steps.iter().rev().filter_map(Step::join)
    }

    fn aggregates(&self) -> bool {
        self.steps.iter().any(Step::is::<AggregateExec>)
    }

    /// Whether fewer rows, smaller ones, or what is made of many, come out.
    pub(super) fn reduce(&self) -> bool {
        if self.joins().next().is_some() {
            return self.gather();
        }
        let changes = |step: &Step| !step.is::<ProjectionExec>();
        match self.steps.first() {
            Some(Step::Node(top)) if !self.steps.iter().any(changes) => {
                row_bytes(&top.schema()) < row_bytes(&self.scan.schema())
            }
            top => top.is_some(),
        }
    }

    /// Whether what comes out is the smaller the more bricks it is made of at once.
    pub(super) fn gather(&self) -> bool {
        let has_first_rows = self.order().is_none() && self.steps.iter().any(Step::is::<SortExec>);
        let has_best_rows = self.steps.iter().any(Step::is::<GroupTopExec>);
        self.limit().is_some() || self.aggregates() || has_first_rows || has_best_rows
    }
}

/// About how many bytes a row of these columns has.
fn row_bytes(schema: &Schema) -> usize {
    let bytes = |field: &FieldRef| match field.data_type() {
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or(TEXT_BYTES),
    };
    schema.fields().iter().map(bytes).sum()
}

/// A piece that is being written.
pub(super) struct Encoder<'k> {
    pub(super) known: &'k Known,
    pub(super) out: Writer,
    pub(super) depth: usize,
    /// Whether its rows are those of a share, which nodes have exchanged.
    pub(super) is_of_share: bool,
    fields: Vec<FieldRef>,
    values: Vec<(FieldRef, ArrayRef)>,
    /// Of joins that are not written yet, the lowest one's first.
    inputs: std::slice::Iter<'k, Arc<[RecordBatch]>>,
}

/// What goes along with the steps of a piece, and is not known before the plan runs.
#[derive(Debug, Default)]
pub(super) struct Along {
    /// Rows of the scan that these do not hold for need not go further, as far as that can be written down.
    pub(super) conditions: Vec<Arc<dyn PhysicalExpr>>,
    /// The rows of the small inputs of joins, the lowest one's first.
    pub(super) inputs: Vec<Arc<[RecordBatch]>>,
}

/// The steps, written down; `None` if they cannot be.
pub(super) fn encoded(steps: &Steps, along: &Along, known: &Known, zone: &str) -> Option<Bytes> {
    let (fields, values, inputs) = (Vec::new(), Vec::new(), along.inputs.iter());
    let is_of_share = steps.exchange.is_some();
    let mut encoder =
        Encoder { known, out: Writer::default(), depth: 0, is_of_share, fields, values, inputs };
    encoder.scan(&steps.scan);
    encoder.exchange(steps.exchange.as_ref());
    let conditions = encoder.writable(&along.conditions);
    encoder.out.number(steps.steps.len() + usize::from(!conditions.is_empty()));
    if !conditions.is_empty() {
        encoder.out.byte(FILTER);
        encoder.expression(&conjunction(conditions))?;
        encoder.kept(None);
    }
    steps.steps.iter().rev().try_for_each(|step| encoder.step(step))?;
    let Encoder { out: body, fields, values, .. } = encoder;
    let mut out = Writer::default();
    out.byte(FORMAT);
    out.text(PROGRAM_VERSION);
    out.text(DATAFUSION_VERSION);
    out.text(zone);
    out.bytes(&written(&Schema::new(fields), None).ok()?);
    out.bytes(&row_of(values)?);
    out.bytes.extend_from_slice(&body.bytes);
    Some(out.bytes.into())
}

/// Constants as a row.
fn row_of(values: Vec<(FieldRef, ArrayRef)>) -> Option<Vec<u8>> {
    if values.is_empty() {
        return Some(Vec::new());
    }
    let (fields, columns): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let row = RecordBatch::try_new(Arc::clone(&schema), columns).ok()?;
    written(&schema, Some(&row)).ok()
}

impl Encoder<'_> {
    /// Writes which field is meant.
    pub(super) fn field(&mut self, field: &FieldRef) {
        let known = self.fields.iter().position(|known| known == field);
        let place = known.unwrap_or_else(|| {
            self.fields.push(Arc::clone(field));
            self.fields.len() - 1
        });
        self.out.number(place);
    }

    /// Writes which constant is meant.
    pub(super) fn value(&mut self, field: FieldRef, value: ArrayRef) {
        self.out.number(self.values.len());
        self.values.push((field, value));
    }

    /// The rows of the small input of the next join; none before they are known.
    pub(super) fn next_input(&mut self) -> Arc<[RecordBatch]> {
        self.inputs.next().map_or_else(|| Arc::from([]), Arc::clone)
    }

    /// Writes which columns of its rows a step keeps; all, if it does not say so.
    pub(super) fn kept(&mut self, kept: Option<&[usize]>) {
        self.out.byte(u8::from(kept.is_some()));
        if let Some(kept) = kept {
            self.out.number(kept.len());
            kept.iter().for_each(|place| self.out.number(*place));
        }
    }

    fn scan(&mut self, scan: &SpreadScan) {
        self.out.text(scan.table_name());
        let columns = &scan.source().columns;
        self.out.number(columns.len());
        columns.iter().for_each(|column| self.out.number(*column));
        let output = scan.schema();
        self.out.number(output.fields().len());
        output.fields().iter().for_each(|field| self.field(field));
    }

    /// Those of these conditions that can be written and say something. Nothing is written by that.
    fn writable(&mut self, conditions: &[Arc<dyn PhysicalExpr>]) -> Vec<Arc<dyn PhysicalExpr>> {
        let (bytes, fields, values) = (self.out.bytes.len(), self.fields.len(), self.values.len());
        let can_be = |condition: &&Arc<dyn PhysicalExpr>| {
            let is_written = !is_true(condition) && self.expression(condition).is_some();
            self.out.bytes.truncate(bytes);
            self.fields.truncate(fields);
            self.values.truncate(values);
            is_written
        };
        conditions.iter().flat_map(split_conjunction).filter(can_be).cloned().collect()
    }

    fn step(&mut self, step: &Step) -> Option<()> {
        let node = match step {
            Step::Limit(rows) => {
                self.out.byte(LIMIT);
                self.out.number(*rows);
                return Some(());
            }
            Step::Gathered(order) => {
                self.out.byte(GATHERED);
                return self.order(order.as_deref().unwrap_or_default());
            }
            Step::Node(node) => node,
        };
        if let Some(share) = node.downcast_ref::<ShareExec>() {
            self.out.byte(SHARE);
            return self.share(share);
        }
        if self.is_of_share && (node.is::<BoundedWindowAggExec>() || node.is::<WindowAggExec>()) {
            self.out.byte(WINDOW);
            return self.window(node.as_ref());
        }
        if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
            self.out.byte(DIVIDED);
            return self.divided(exchange);
        }
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            self.out.byte(FILTER);
            return self.filter(filter);
        }
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            self.out.byte(if self.is_of_share { SORT_OF_PARTS } else { SORT });
            return self.sort(sort);
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            self.out.byte(JOIN);
            return self.join(join);
        }
        if let Some(best) = node.downcast_ref::<GroupTopExec>() {
            self.out.byte(GROUP_TOP);
            return self.group_top(best.top());
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            self.out.byte(PROJECTION);
            self.out.number(projection.expr().len());
            return projection.expr().iter().try_for_each(|one| {
                self.out.text(&one.alias);
                self.expression(&one.expr)
            });
        }
        self.out.byte(AGGREGATE);
        self.aggregate(node.downcast_ref::<AggregateExec>()?)
    }

    /// Without its limit, which is a step of its own, and without what other operators find out while they run: they leave out those rows
    /// themselves.
    fn filter(&mut self, filter: &FilterExec) -> Option<()> {
        let all = split_conjunction(filter.predicate());
        let (found, fixed): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|part| part.is::<DynamicFilterPhysicalExpr>());
        if found.is_empty() {
            self.expression(filter.predicate())?;
        } else {
            self.expression(&conjunction(fixed.into_iter().cloned()))?;
        }
        self.kept(filter.projection().as_deref());
        Some(())
    }
}

/// A piece whose scan is read.
pub(super) struct Opened<'b> {
    pub(super) zone: &'b str,
    pub(super) table_name: &'b str,
    /// The columns that are read, by position among the table's live ones.
    pub(super) columns: Vec<usize>,
    /// In which they go out.
    pub(super) output: SchemaRef,
    /// Which rows come below the steps, if they are not those of the scan.
    pub(super) exchange: Option<Exchange>,
    from: Reader<'b>,
    fields: Schema,
    values: Option<RecordBatch>,
}

impl<'b> Opened<'b> {
    /// Reads as far as the scan.
    ///
    /// # Errors
    /// If it is none, or one of another version.
    pub(super) fn of(bytes: &'b [u8]) -> Result<Self, SqlError> {
        let mut from = Reader::new(bytes);
        if from.byte()? != FORMAT {
            return Err(malformed("it is of another version"));
        }
        if from.text()? != PROGRAM_VERSION || from.text()? != DATAFUSION_VERSION {
            return Err(malformed("it is of another version"));
        }
        let zone = from.text()?;
        let (fields, _) = read(from.bytes()?)?;
        let values = match from.bytes()? {
            [] => None,
            row => read(row)?.1,
        };
        let table_name = from.text()?;
        let columns = from.list(Reader::number)?;
        let output = from.list(|from| field_of(&fields, from.number()?))?;
        if columns.is_empty() || output.len() > columns.len() {
            return Err(malformed("the scan does not read what it gives"));
        }
        let output = Arc::new(Schema::new(output));
        let exchange = Exchange::read(&mut from)?;
        Ok(Self { zone, table_name, columns, output, exchange, from, fields, values })
    }

    /// What is done with the rows of this scan, or with those that nodes have exchanged. The small inputs of joins are these, the lowest one's
    /// first, or the rows that were sent.
    ///
    /// # Errors
    /// If the bytes are no piece, or do not fit the scan.
    pub(super) fn over(
        self,
        scan: Arc<dyn ExecutionPlan>,
        inputs: &'b [Arc<dyn ExecutionPlan>],
        known: &'b Known,
        options: &Arc<ConfigOptions>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Self { from, fields, values, .. } = self;
        let options = Arc::clone(options);
        let mut decoder = Decoder { known, options, inputs, inputs_read: 0, from, depth: 0, fields, values };
        let count = decoder.from.count()?;
        let plan = (0..count).try_fold(scan, |below, _| decoder.step(below))?;
        decoder.from.end()?;
        Ok(plan)
    }
}

fn field_of(fields: &Schema, place: usize) -> Result<FieldRef, SqlError> {
    fields.fields().get(place).cloned().ok_or_else(|| malformed("there is no such field"))
}

/// A piece that is being read.
pub(super) struct Decoder<'b> {
    pub(super) known: &'b Known,
    /// What functions are told.
    pub(super) options: Arc<ConfigOptions>,
    /// The small inputs of joins, if they are here.
    pub(super) inputs: &'b [Arc<dyn ExecutionPlan>],
    /// How many joins are read.
    pub(super) inputs_read: usize,
    pub(super) from: Reader<'b>,
    pub(super) depth: usize,
    fields: Schema,
    values: Option<RecordBatch>,
}

impl Decoder<'_> {
    pub(super) fn flag(&mut self) -> Result<bool, SqlError> {
        match self.from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("a flag is neither")),
        }
    }

    pub(super) fn field(&mut self) -> Result<FieldRef, SqlError> {
        field_of(&self.fields, self.from.number()?)
    }

    /// A constant, as an array of one.
    pub(super) fn value(&mut self) -> Result<(FieldRef, ArrayRef), SqlError> {
        let place = self.from.number()?;
        let missing = || malformed("there is no such constant");
        let row = self.values.as_ref().filter(|row| row.num_rows() == 1).ok_or_else(missing)?;
        let field = row.schema_ref().fields().get(place).cloned().ok_or_else(missing)?;
        Ok((field, Arc::clone(row.column(place))))
    }

    /// Which columns of its rows a step keeps; nothing if it keeps all.
    pub(super) fn kept(&mut self) -> Result<Option<Vec<usize>>, SqlError> {
        Ok(if self.flag()? { Some(self.from.list(Reader::number)?) } else { None })
    }

    fn step(&mut self, below: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = below.schema();
        match self.from.byte()? {
            FILTER => {
                let mut builder = FilterExecBuilder::new(self.expression(&schema)?, below);
                if let Some(kept) = self.kept()? {
                    builder = builder.apply_projection(Some(kept))?;
                }
                Ok(Arc::new(builder.build()?))
            }
            PROJECTION => {
                let count = self.from.count()?;
                let mut columns = Vec::new();
                for _ in 0..count {
                    let name = self.from.text()?;
                    columns.push(ProjectionExpr::new(self.expression(&schema)?, name));
                }
                Ok(Arc::new(ProjectionExec::try_new(columns, below)?))
            }
            AGGREGATE => self.aggregate(below),
            SORT => self.sort(below),
            LIMIT => self.limit(below),
            JOIN => self.join(below),
            GROUP_TOP => self.group_top(below),
            WINDOW => self.window(below),
            SHARE => self.share(below),
            DIVIDED => self.divided(below),
            SORT_OF_PARTS => self.sort_of_parts(below),
            GATHERED => self.gathered(below),
            _ => Err(malformed("there is no such step").into()),
        }
    }
}

/// Whether a condition holds for all rows.
fn is_true(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let constant = condition.downcast_ref::<Literal>();
    constant.is_some_and(|constant| *constant.value() == ScalarValue::Boolean(Some(true)))
}

/// Whether plans give columns of the same types.
pub(super) fn give_the_same(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    let (one, other) = (one.schema(), other.schema());
    let types = |schema: &SchemaRef| {
        schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>()
    };
    types(&one) == types(&other)
}
