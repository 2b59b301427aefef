// SPDX-License-Identifier: Apache-2.0
//! What one partition does: reads its pieces of bricks block by block, and adds them to states.

use super::super::bricks::{BrickPart, as_declared};
use super::super::hinted_bricks::PassedOver;
use super::super::steps::Step;
use super::Task;
use super::filter::Filter;
use super::groups::{Complete, GroupStates};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt32Type;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Accumulator;
use datafusion::physical_plan::metrics::Count;
use std::sync::Arc;

/// The work of one partition, and how far it is.
pub(super) struct Fold {
    task: Arc<Task>,
    pieces: std::vec::IntoIter<BrickPart>,
    reading: Option<Reading>,
    states: Option<States>,
    /// What goes out before more is read.
    complete: Option<Complete>,
    batch_rows: usize,
    counts: Counts,
    reservation: MemoryReservation,
}

/// What a partition counts.
pub(super) struct Counts {
    pub(super) rows_scanned: Count,
    pub(super) passed_over: PassedOver,
}

/// The piece that is being read.
struct Reading {
    blocks: Box<dyn Iterator<Item = RecordBatch> + Send>,
    /// What its rows must satisfy still.
    filter: Option<Filter>,
}

/// The states of all aggregates.
enum States {
    /// Of all rows.
    Whole(Vec<Box<dyn Accumulator>>),
    /// Of each group.
    Grouped(GroupStates),
}

impl Fold {
    pub(super) fn new(
        task: Arc<Task>,
        pieces: Vec<BrickPart>,
        batch_rows: usize,
        counts: Counts,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let states = Some(States::new(&task)?);
        let pieces = pieces.into_iter();
        Ok(Self { task, pieces, reading: None, states, complete: None, batch_rows, counts, reservation })
    }

    /// Goes on by a block, or by a batch of what is complete.
    pub(super) fn step(&mut self) -> Result<Step> {
        if let Some(complete) = &mut self.complete {
            if let Some(batch) = complete.next_batch(&self.task, self.batch_rows)? {
                return Ok(Step::Out(batch));
            }
            self.complete = None;
            self.reservation.resize(self.states.as_ref().map_or(0, States::bytes));
            return Ok(Step::Read);
        }
        let Some(reading) = &mut self.reading else { return self.next_piece() };
        if let Some(block) = reading.blocks.next() {
            self.counts.rows_scanned.add(block.num_rows());
            let states = self.states.as_mut().expect("there are states as long as something is read");
            for start in (0..block.num_rows()).step_by(self.batch_rows) {
                let rows = block.slice(start, self.batch_rows.min(block.num_rows() - start));
                states.add(&self.task, &rows, reading.filter.as_ref())?;
            }
            self.make_room()?;
            return Ok(Step::Read);
        }
        self.reading = None;
        if let Some(States::Grouped(groups)) = &mut self.states {
            self.complete = groups.end_of_brick()?;
        }
        Ok(Step::Read)
    }

    fn next_piece(&mut self) -> Result<Step> {
        if let Some(part) = self.pieces.next() {
            let Task { source, hints, projection, scanned, conjuncts, grouping, .. } = self.task.as_ref();
            if !hints.may_match(source, &part.brick) {
                self.counts.passed_over.note(&part);
                return Ok(Step::Read);
            }
            let BrickPart { brick, rows } = part;
            let blocks = source.snapshot.batches_within(&brick, rows, projection, grouping.as_ref());
            let filter = Filter::of(conjuncts, scanned, &brick);
            if let Some(States::Grouped(groups)) = &mut self.states {
                groups.begin(&brick);
            }
            self.reading = Some(Reading { blocks: Box::new(blocks), filter });
            return Ok(Step::Read);
        }
        match self.states.take() {
            Some(States::Whole(accumulators)) => whole_state(&self.task, accumulators).map(Step::Out),
            Some(States::Grouped(mut groups)) => {
                self.complete = groups.take()?;
                Ok(Step::Read)
            }
            None => Ok(Step::Done),
        }
    }

    /// Asks for the memory of the states. Groups that are refused it go out and begin anew: whoever merges states can do with several
    /// of a group.
    ///
    /// # Errors
    /// If the states of all rows are refused it.
    fn make_room(&mut self) -> Result<()> {
        let states = self.states.as_mut().expect("there are states as long as something is read");
        let bytes = states.bytes();
        match (self.reservation.try_resize(bytes), states) {
            (Ok(()), _) => Ok(()),
            (Err(_), States::Grouped(groups)) => {
                // They are there, with what one block has added at most.
                self.reservation.resize(bytes);
                self.complete = groups.take()?;
                Ok(())
            }
            (Err(refused), States::Whole(_)) => Err(refused),
        }
    }
}

impl States {
    fn new(task: &Task) -> Result<Self> {
        if let Some(grouping) = task.grouping.clone() {
            return Ok(Self::Grouped(GroupStates::new(&task.calls, grouping)?));
        }
        let accumulators = task.calls.iter().map(|call| call.function.create_accumulator());
        Ok(Self::Whole(accumulators.collect::<Result<_>>()?))
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
            Self::Grouped(states) => {
                let (rows, groups) = inputs.kept(groups.as_ref())?;
                let groups = groups.expect("there is a grouping");
                states.add(&task.calls, &rows, groups.as_primitive::<UInt32Type>().values())
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Whole(accumulators) => accumulators.iter().map(|accumulator| accumulator.size()).sum(),
            Self::Grouped(states) => states.bytes(),
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

/// The values, NULL where the mask is false. The values themselves are shared.
fn null_where_not(values: &ArrayRef, mask: &BooleanArray) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(values.nulls(), Some(&NullBuffer::new(mask.values().clone())));
    Ok(make_array(values.to_data().into_builder().nulls(nulls).build()?))
}

fn whole_state(task: &Task, accumulators: Vec<Box<dyn Accumulator>>) -> Result<RecordBatch> {
    let mut columns = Vec::new();
    for mut accumulator in accumulators {
        for state in accumulator.state()? {
            columns.push(state.to_array()?);
        }
    }
    task.batch(columns, 1)
}
