// SPDX-License-Identifier: Apache-2.0
//! What one partition does: reads its pieces of bricks block by block, and adds them to states.

use super::super::bricks::{BrickPart, as_declared};
use super::filter::Filter;
use super::{Call, Task};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::UInt32Type;
use coeval_store::{BrickView, Grouping};
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_plan::metrics::Count;
use std::sync::Arc;

/// What came of a step.
pub(super) enum Step {
    /// A block was read, or a piece begun.
    Read,
    /// States that are complete.
    Out(RecordBatch),
    /// There is nothing more.
    Done,
}

/// The work of one partition, and how far it is.
pub(super) struct Fold {
    task: Arc<Task>,
    pieces: std::vec::IntoIter<BrickPart>,
    reading: Option<Reading>,
    states: Option<States>,
    batch_rows: usize,
    rows_scanned: Count,
}

/// The piece that is being read.
struct Reading {
    brick: BrickView,
    blocks: Box<dyn Iterator<Item = RecordBatch> + Send>,
    /// What its rows must satisfy still.
    filter: Option<Filter>,
}

/// The states of all aggregates.
enum States {
    /// Of all rows.
    Whole(Vec<Box<dyn Accumulator>>),
    /// Of each group of the brick that is being read.
    Grouped(GroupStates),
}

struct GroupStates {
    grouping: Grouping,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// For each group whether it has a row.
    is_there: Vec<bool>,
    missing: usize,
}

impl Fold {
    pub(super) fn new(
        task: Arc<Task>,
        pieces: Vec<BrickPart>,
        batch_rows: usize,
        rows_scanned: Count,
    ) -> Result<Self> {
        let states = States::new(&task)?;
        let pieces = pieces.into_iter();
        Ok(Self { task, pieces, reading: None, states: Some(states), batch_rows, rows_scanned })
    }

    /// Goes on by a block.
    pub(super) fn step(&mut self) -> Result<Step> {
        let Some(reading) = &mut self.reading else { return self.next_piece() };
        if let Some(block) = reading.blocks.next() {
            self.rows_scanned.add(block.num_rows());
            let states = self.states.as_mut().expect("there are states as long as something is read");
            for start in (0..block.num_rows()).step_by(self.batch_rows) {
                let rows = block.slice(start, self.batch_rows.min(block.num_rows() - start));
                states.add(&self.task, &rows, reading.filter.as_ref())?;
            }
            return Ok(Step::Read);
        }
        let brick = self.reading.take().expect("just looked at").brick;
        match &mut self.states {
            Some(States::Grouped(groups)) => {
                let batch = groups.emit(&self.task, &brick)?;
                Ok(batch.map_or(Step::Read, Step::Out))
            }
            _ => Ok(Step::Read),
        }
    }

    fn next_piece(&mut self) -> Result<Step> {
        if let Some(BrickPart { brick, rows }) = self.pieces.next() {
            let Task { source, projection, scanned, conjuncts, grouping, .. } = self.task.as_ref();
            let blocks = source.snapshot.batches_within(&brick, rows, projection, grouping.as_ref());
            let filter = Filter::of(conjuncts, scanned, &brick);
            self.reading = Some(Reading { blocks: Box::new(blocks), brick, filter });
            return Ok(Step::Read);
        }
        match self.states.take() {
            Some(States::Whole(accumulators)) => whole_state(&self.task, accumulators).map(Step::Out),
            _ => Ok(Step::Done),
        }
    }
}

impl States {
    fn new(task: &Task) -> Result<Self> {
        let functions = task.calls.iter().map(|call| &call.function);
        let Some(grouping) = task.grouping.clone() else {
            let accumulators = functions.map(|function| function.create_accumulator());
            return Ok(Self::Whole(accumulators.collect::<Result<_>>()?));
        };
        let groups = grouping.groups();
        let accumulators = functions.map(|function| function.create_groups_accumulator());
        let accumulators = accumulators.collect::<Result<_>>()?;
        Ok(Self::Grouped(GroupStates {
            grouping,
            accumulators,
            is_there: vec![false; groups],
            missing: groups,
        }))
    }

    /// Adds those of the rows that pass the filter.
    fn add(&mut self, task: &Task, rows: &RecordBatch, filter: Option<&Filter>) -> Result<()> {
        let (rows, groups) = declared(task, rows)?;
        let mask = filter.map(|filter| filter.mask(&rows)).transpose()?.filter(BooleanArray::has_false);
        if mask.as_ref().is_some_and(|mask| !mask.has_true()) {
            return Ok(());
        }
        let inputs = Inputs { task, rows: &rows, mask: mask.as_ref() };
        match self {
            Self::Whole(accumulators) => inputs.add_to(accumulators),
            Self::Grouped(states) => states.add(&inputs, groups.as_ref().expect("there is a grouping")),
        }
    }
}

/// The rows with columns as SQL has them, and the groups.
fn declared(task: &Task, rows: &RecordBatch) -> Result<(RecordBatch, Option<ArrayRef>)> {
    let groups = rows.columns().get(task.projection.len()).cloned();
    Ok((as_declared(rows, &task.scanned)?, groups))
}

/// Rows and which of them count.
struct Inputs<'a> {
    task: &'a Task,
    rows: &'a RecordBatch,
    mask: Option<&'a BooleanArray>,
}

impl Inputs<'_> {
    /// What arguments are made of, of the rows that count; `more` columns follow.
    fn kept(&self, more: Option<&ArrayRef>) -> Result<(RecordBatch, Option<ArrayRef>)> {
        let first = (0..self.task.input_columns).collect::<Vec<_>>();
        let mut rows = self.rows.project(&first)?;
        let mut more = more.cloned();
        if let Some(mask) = self.mask {
            more = more.map(|column| arrow::compute::filter(&column, mask)).transpose()?;
            rows = filter_record_batch(&rows, mask)?;
        }
        let count = rows.num_rows();
        let columns = self.task.inputs.iter().map(|input| input.evaluate(&rows)?.into_array(count));
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.task.input_schema);
        Ok((RecordBatch::try_new_with_options(schema, columns, &options)?, more))
    }

    /// Adds the rows to one state of each aggregate.
    fn add_to(&self, accumulators: &mut [Box<dyn Accumulator>]) -> Result<()> {
        let mut kept: Option<RecordBatch> = None;
        for (call, accumulator) in self.task.calls.iter().zip(accumulators) {
            if let Some(column) = call.nullable_argument {
                let values = self.rows.column(column);
                match self.mask {
                    Some(mask) => accumulator.update_batch(&[null_where_not(values, mask)?])?,
                    None => accumulator.update_batch(std::slice::from_ref(values))?,
                }
                continue;
            }
            let rows = match &mut kept {
                Some(rows) => rows,
                none => none.insert(self.kept(None)?.0),
            };
            accumulator.update_batch(&call.arguments_of(rows)?)?;
        }
        Ok(())
    }
}

impl Call {
    fn arguments_of(&self, inputs: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = inputs.num_rows();
        self.arguments.iter().map(|argument| argument.evaluate(inputs)?.into_array(rows)).collect()
    }
}

/// The values, NULL where the mask is false. The values themselves are shared.
fn null_where_not(values: &ArrayRef, mask: &BooleanArray) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(values.nulls(), Some(&NullBuffer::new(mask.values().clone())));
    Ok(make_array(values.to_data().into_builder().nulls(nulls).build()?))
}

impl GroupStates {
    fn add(&mut self, inputs: &Inputs<'_>, groups: &ArrayRef) -> Result<()> {
        let (rows, groups) = inputs.kept(Some(groups))?;
        let groups = groups.expect("it was given");
        let groups: Vec<usize> =
            groups.as_primitive::<UInt32Type>().values().iter().map(|group| *group as usize).collect();
        if self.missing > 0 {
            for group in &groups {
                self.missing -= usize::from(!self.is_there[*group]);
                self.is_there[*group] = true;
            }
        }
        let count = self.grouping.groups();
        for (call, accumulator) in inputs.task.calls.iter().zip(&mut self.accumulators) {
            accumulator.update_batch(&call.arguments_of(&rows)?, &groups, None, count)?;
        }
        Ok(())
    }

    /// The states of the groups of this brick that are there; none are afterwards.
    fn emit(&mut self, task: &Task, brick: &BrickView) -> Result<Option<RecordBatch>> {
        let count = self.grouping.groups();
        if self.missing == count {
            return Ok(None);
        }
        let there = (0_u32..).zip(&self.is_there).filter_map(|(group, is_there)| is_there.then_some(group));
        let there = UInt32Array::from_iter_values(there);
        let mut columns = task.source.snapshot.group_values(brick, &self.grouping, there.values());
        for accumulator in &mut self.accumulators {
            for state in accumulator.state(EmitTo::All)? {
                columns.push(if self.missing == 0 { state } else { take(&state, &there, None)? });
            }
        }
        self.is_there.fill(false);
        self.missing = count;
        as_output(task, columns).map(Some)
    }
}

fn whole_state(task: &Task, accumulators: Vec<Box<dyn Accumulator>>) -> Result<RecordBatch> {
    let mut columns = Vec::new();
    for mut accumulator in accumulators {
        for state in accumulator.state()? {
            columns.push(state.to_array()?);
        }
    }
    as_output(task, columns)
}

fn as_output(task: &Task, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(1, |column| column.len());
    let columns = columns.into_iter().zip(task.output.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() { Ok(column) } else { cast(&column, field.data_type()) }
    });
    let columns = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&task.output), columns, &options)?)
}
