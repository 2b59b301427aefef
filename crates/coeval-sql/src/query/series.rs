// SPDX-License-Identifier: Apache-2.0
//! `generate_series` in pieces: a set is made while it is read.
//!
//! DataFusion makes an array of a set and takes it apart again: `unnest(coeval_series(first, last, step))` is a projection that
//! computes the array below an operator that makes rows of its members. A series of a billion members, or one without
//! end, has no array. So in the physical plan one operator takes the place of the two, which gives each row that it reads
//! several times to the second of them, with one piece of the series each time:
//!
//! ```text
//! SeriesExec                                    1 a, 2 a, 3 a, ...
//!   |  UnnestExec
//!   |    Pieces: coeval_series(1, n), name      [1 .. 8192] a, [8193 .. 16384] a, ...
//!   scan                                        n, name
//! ```
//! The two stay together: an exchange between threads would take pieces as fast as they are made.
//!
//! Where several sets stand side by side (`SELECT generate_series(1, 3), unnest(tags)`), all are cut at the same members:
//! then what is missing of the shorter one in the last piece is NULL, as it is for whole arrays.
//!
//! In memory are the batch that was read and the piece; a LIMIT above ends it like any other operator.

use super::spreading::COUNTED;
use super::typing::{SERIES, Steps, arguments_of_series, array_of_members};
use crate::plan_rule::PlanRule;
use crate::types::session_zone;
use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use chrono_tz::Tz;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What plans call the operator.
pub(super) const SERIES_EXEC: &str = "SeriesExec";

/// The rule that puts the operator in. To come first: behind it other operators may come between the two that it looks for.
pub(crate) const STREAM_SERIES: PlanRule =
    PlanRule::new("coeval_stream_series", |plan, _| plan.transform_up(streamed).map(|done| done.data))
        .about(|node| node.is::<UnnestExec>());

fn streamed(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(unnest) = node.downcast_ref::<UnnestExec>() else { return Ok(Transformed::no(node)) };
    let Some(pieces) = Pieces::below(unnest) else { return Ok(Transformed::no(node)) };
    let rows = replace_children_if_necessary(node, vec![Arc::new(pieces)])?;
    Ok(Transformed::yes(Arc::new(SeriesExec { rows }) as _))
}

/// The operator.
#[derive(Debug)]
struct SeriesExec {
    /// What makes rows of pieces, over [`Pieces`].
    rows: Arc<dyn ExecutionPlan>,
}

impl SeriesExec {
    /// What makes the pieces.
    fn pieces(&self) -> Option<&Pieces> {
        self.rows.children().first().and_then(|child| child.downcast_ref())
    }
}

impl DisplayAs for SeriesExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().map_or(Ok(()), |pieces| pieces.fmt_as(kind, f))
    }
}

impl ExecutionPlan for SeriesExec {
    fn name(&self) -> &'static str {
        SERIES_EXEC
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.rows.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.pieces().map(|pieces| pieces.whole.input()).into_iter().collect()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.pieces().map_or(Ok(TreeNodeRecursion::Continue), |pieces| pieces.apply_expressions(visit))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(pieces) = self.rows.children().first().map(|pieces| Arc::clone(pieces)) else {
            return internal_err!("rows are made of pieces");
        };
        let pieces = replace_children_if_necessary(pieces, children)?;
        let rows = replace_children_if_necessary(Arc::clone(&self.rows), vec![pieces])?;
        Ok(Arc::new(Self { rows }))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.rows.execute(partition, task)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.rows.metrics()
    }
}

/// A projection whose series come in pieces.
#[derive(Debug)]
struct Pieces {
    /// What it gives if arrays are not cut.
    whole: ProjectionExec,
    /// The places of the columns that are to be cut.
    lists: Vec<usize>,
}

impl Pieces {
    /// In the place of the projection below an operator that makes rows of arrays, if a series is among these.
    fn below(unnest: &UnnestExec) -> Option<Self> {
        let whole = unnest.input().downcast_ref::<ProjectionExec>()?;
        let lists = unnest.list_column_indices();
        if !unnest.struct_column_indices().is_empty() || lists.iter().any(|list| list.depth != 1) {
            return None;
        }
        let lists: Vec<usize> = lists.iter().map(|list| list.index_in_input_schema).collect();
        let schema = whole.schema();
        let is_list = |&place: &usize| matches!(schema.field(place).data_type(), DataType::List(_));
        let has_series = lists.iter().any(|&place| series_of(&whole.expr()[place].expr).is_some());
        (has_series && lists.iter().all(is_list)).then(|| Self { whole: whole.clone(), lists })
    }
}

/// The arguments of the series that an expression is.
fn series_of(expression: &Arc<dyn PhysicalExpr>) -> Option<&[Arc<dyn PhysicalExpr>]> {
    let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
    match (call.fun().name(), call.args()) {
        (SERIES, arguments) => Some(arguments),
        (COUNTED, [counted]) => series_of(counted),
        _ => None,
    }
}

impl DisplayAs for Pieces {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.whole.expr().iter().map(|column| column.expr.to_string()).collect();
        write!(f, "{SERIES_EXEC}: expr=[{}]", columns.join(", "))
    }
}

impl ExecutionPlan for Pieces {
    fn name(&self) -> &'static str {
        "Pieces"
    }

    /// Those of the projection: to give a row several times changes neither the order nor what columns are equal.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.whole.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.whole.input()]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.whole.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                let columns = self.whole.expr().iter().cloned();
                let whole =
                    ProjectionExec::try_new_with_schema_metadata(columns, input, &self.whole.schema())?;
                Ok(Arc::new(Self { whole, lists: self.lists.clone() }))
            }
            _ => internal_err!("a series has one input"),
        }
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.whole.input().execute(partition, Arc::clone(&task))?;
        let (schema, lists) = (self.whole.schema(), self.lists.clone());
        let columns: Vec<_> = self.whole.expr().iter().map(|column| Arc::clone(&column.expr)).collect();
        let output = Arc::clone(&schema);
        let of_batch = move |batch: RecordBatch| {
            let rows = Rows::of_batch(&batch, &columns, &lists, &output, &task);
            rows.map(stream::iter)
        };
        let pieces = input.map(move |batch| batch.and_then(&of_batch)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, pieces)))
    }
}

/// The rows of one batch, those of them that are not given yet.
struct Rows {
    columns: Vec<Column>,
    schema: SchemaRef,
    row: usize,
    rows: usize,
    /// Members of a batch.
    members_max: usize,
    /// It has failed.
    is_over: bool,
}

enum Column {
    /// The same in each piece.
    Plain(ArrayRef),
    Cut(Box<Cut>),
}

impl Rows {
    fn of_batch(
        batch: &RecordBatch,
        columns: &[Arc<dyn PhysicalExpr>],
        lists: &[usize],
        schema: &SchemaRef,
        task: &TaskContext,
    ) -> Result<Self> {
        let rows = batch.num_rows();
        let zone = session_zone(task.session_config().options());
        let column = |(place, expression): (usize, &Arc<dyn PhysicalExpr>)| {
            let whole = || expression.evaluate(batch)?.into_array(rows);
            let DataType::List(field) = schema.field(place).data_type() else {
                return Ok(Column::Plain(whole()?));
            };
            if !lists.contains(&place) {
                return Ok(Column::Plain(whole()?));
            }
            let members = match series_of(expression) {
                Some(arguments) => {
                    let arguments = arguments.iter().map(|argument| argument.evaluate(batch));
                    let arguments = arguments.collect::<Result<Vec<_>>>()?;
                    let arguments = arguments_of_series(&arguments, rows, field.data_type(), zone)?;
                    Members::Series { arguments, zone, steps: None, made: Vec::new() }
                }
                None => Members::List { list: whole()?.as_list().clone(), left: 0..0, taken: Vec::new() },
            };
            Ok(Column::Cut(Box::new(Cut::new(field, members))))
        };
        let columns = columns.iter().enumerate().map(column).collect::<Result<_>>()?;
        let members_max = task.session_config().batch_size();
        let mut all =
            Self { columns, schema: Arc::clone(schema), row: 0, rows, members_max, is_over: rows == 0 };
        if !all.is_over {
            all.begin_row()?;
        }
        Ok(all)
    }

    fn begin_row(&mut self) -> Result<()> {
        let row = self.row;
        self.cuts().try_for_each(|cut| cut.begin(row))
    }

    fn cuts(&mut self) -> impl Iterator<Item = &mut Cut> {
        self.columns.iter_mut().filter_map(|column| match column {
            Column::Cut(cut) => Some(cut.as_mut()),
            Column::Plain(_) => None,
        })
    }

    /// The next rows, with about as many members together as a batch has rows.
    fn piece(&mut self) -> Result<RecordBatch> {
        let mut given: Vec<u32> = Vec::new();
        let mut room = self.members_max;
        while room > 0 && self.row < self.rows {
            let longest = self.cuts().map(|cut| cut.cut(room)).max().unwrap_or(0);
            // A row without members takes a place too.
            room -= longest.max(1);
            // Arrow's batches have fewer rows than that.
            given.push(self.row as u32);
            if !self.cuts().any(|cut| cut.has_more()) {
                self.row += 1;
                if self.row < self.rows {
                    self.begin_row()?;
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(given.len()));
        let given = UInt32Array::from(given);
        let column = |column: &mut Column| match column {
            Column::Plain(values) => Ok(take(values, &given, None)?),
            Column::Cut(cut) => cut.array(),
        };
        let columns = self.columns.iter_mut().map(column).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over || self.row == self.rows {
            return None;
        }
        let piece = self.piece();
        self.is_over = piece.is_err();
        Some(piece)
    }
}

/// A column of arrays that is being cut.
struct Cut {
    field: FieldRef,
    members: Members,
    /// The lengths of the pieces since the last array, and whether each is an array.
    lengths: Vec<usize>,
    valid: Vec<bool>,
    /// Whether the row's array is NULL; only its first piece is.
    is_null: bool,
}

/// What is left of the row's array, and what was taken since the last array.
enum Members {
    Series { arguments: Vec<ArrayRef>, zone: Tz, steps: Option<Steps>, made: Vec<i128> },
    List { list: ListArray, left: Range<u64>, taken: Vec<u64> },
}

impl Cut {
    fn new(field: &FieldRef, members: Members) -> Self {
        Self { field: Arc::clone(field), members, lengths: Vec::new(), valid: Vec::new(), is_null: false }
    }

    /// The next pieces are of this row.
    fn begin(&mut self, row: usize) -> Result<()> {
        self.is_null = match &mut self.members {
            Members::Series { arguments, zone, steps, .. } => {
                *steps = Steps::of_row(arguments, row, *zone)?;
                steps.is_none()
            }
            Members::List { list, left, .. } => {
                // Offsets are not negative.
                let offsets =
                    [list.value_offsets()[row], list.value_offsets()[row + 1]].map(|place| place as u64);
                *left = if list.is_null(row) { 0..0 } else { offsets[0]..offsets[1] };
                list.is_null(row)
            }
        };
        Ok(())
    }

    /// Takes so many members, or those that are left; how many that are.
    fn cut(&mut self, room: usize) -> usize {
        let length = match &mut self.members {
            Members::Series { steps, made, .. } => {
                let before = made.len();
                made.extend(steps.iter_mut().flatten().take(room));
                made.len() - before
            }
            Members::List { left, taken, .. } => {
                let before = taken.len();
                taken.extend(left.by_ref().take(room));
                taken.len() - before
            }
        };
        self.lengths.push(length);
        self.valid.push(!std::mem::take(&mut self.is_null));
        length
    }

    fn has_more(&self) -> bool {
        match &self.members {
            Members::Series { steps, .. } => steps.as_ref().is_some_and(Steps::has_more),
            Members::List { left, .. } => !left.is_empty(),
        }
    }

    /// The pieces since the last time.
    fn array(&mut self) -> Result<ArrayRef> {
        let members = match &mut self.members {
            Members::Series { made, .. } => array_of_members(std::mem::take(made), self.field.data_type())?,
            Members::List { list, taken, .. } => {
                take(list.values(), &UInt64Array::from(std::mem::take(taken)), None)?
            }
        };
        let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut self.lengths));
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        let field = Arc::clone(&self.field);
        Ok(Arc::new(ListArray::try_new(field, offsets, members, Some(nulls))?))
    }
}
