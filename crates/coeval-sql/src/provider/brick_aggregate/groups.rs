// SPDX-License-Identifier: Apache-2.0
//! The groups of one partition and their states.
//!
//! A grouping numbers all groups that there can be. The accumulators know those alone of which there are rows, by the order in
//! which they were first seen: they take a group of which they are told nothing for one that has had a value.

use super::{Call, Task};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use coeval_store::{BrickView, Grouping};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// The states of the groups that were seen.
pub(super) struct GroupStates {
    grouping: Grouping,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// By the grouping's number: the group's place and 1, or 0 if it was not seen.
    places: Vec<u32>,
    /// The grouping's numbers of the groups, by place.
    groups: Vec<u32>,
    /// The place of each row's group, of the rows that came last.
    members: Vec<usize>,
    /// The brick that the last rows are of.
    brick: Option<BrickView>,
}

impl GroupStates {
    pub(super) fn new(calls: &[Call], grouping: Grouping) -> Result<Self> {
        let accumulators = calls.iter().map(|call| call.function.create_groups_accumulator());
        let accumulators = accumulators.collect::<Result<_>>()?;
        let places = vec![0; grouping.groups()];
        let (groups, members) = (Vec::new(), Vec::new());
        Ok(Self { grouping, accumulators, places, groups, members, brick: None })
    }

    /// What comes next are rows of this brick.
    ///
    /// # Panics
    /// If there are groups of another brick, and they stand for other values in this one.
    pub(super) fn begin(&mut self, brick: &BrickView) {
        assert!(self.groups.is_empty() || !self.grouping.is_of_brick(), "groups of a brick have gone out");
        self.brick = Some(brick.clone());
    }

    /// Adds rows, of which the grouping has these numbers.
    pub(super) fn add(&mut self, calls: &[Call], rows: &RecordBatch, numbers: &[u32]) -> Result<()> {
        let Self { places, groups, members, .. } = self;
        members.clear();
        members.extend(numbers.iter().map(|number| {
            let place = &mut places[*number as usize];
            if *place == 0 {
                groups.push(*number);
                *place = u32::try_from(groups.len()).expect("there are no more groups than numbers");
            }
            *place as usize - 1
        }));
        for (call, accumulator) in calls.iter().zip(&mut self.accumulators) {
            accumulator.update_batch(&call.arguments_of(rows)?, &self.members, None, self.groups.len())?;
        }
        Ok(())
    }

    /// Takes the groups, if they do not go on in the next brick.
    pub(super) fn end_of_brick(&mut self) -> Result<Option<Complete>> {
        if self.grouping.is_of_brick() { self.take() } else { Ok(None) }
    }

    /// Takes all groups; whatever comes then is of groups that were never seen. None if there are none.
    pub(super) fn take(&mut self) -> Result<Option<Complete>> {
        let Some(brick) = self.brick.clone().filter(|_| !self.groups.is_empty()) else { return Ok(None) };
        let groups = std::mem::take(&mut self.groups);
        for number in &groups {
            self.places[*number as usize] = 0;
        }
        let mut states = Vec::new();
        for accumulator in &mut self.accumulators {
            states.extend(accumulator.state(EmitTo::All)?);
        }
        Ok(Some(Complete { brick, grouping: self.grouping.clone(), groups, states, given: 0 }))
    }

    /// Bytes that they hold, and while the states go out once more.
    pub(super) fn bytes(&self) -> usize {
        let states: usize = self.accumulators.iter().map(|accumulator| accumulator.size()).sum();
        let numbers = self.places.capacity() + self.groups.capacity();
        states * 2 + numbers * size_of::<u32>() + self.members.capacity() * size_of::<usize>()
    }
}

/// Groups with their states, on their way out.
pub(super) struct Complete {
    /// Of which they are, or one of several.
    brick: BrickView,
    grouping: Grouping,
    groups: Vec<u32>,
    states: Vec<ArrayRef>,
    /// So many have gone out.
    given: usize,
}

impl Complete {
    /// The next ones, at most so many; none behind the last.
    pub(super) fn next_batch(&mut self, task: &Task, rows_max: usize) -> Result<Option<RecordBatch>> {
        let rows = rows_max.min(self.groups.len() - self.given);
        if rows == 0 {
            return Ok(None);
        }
        let groups = &self.groups[self.given..self.given + rows];
        let mut columns = task.source.snapshot.group_values(&self.brick, &self.grouping, groups);
        columns.extend(self.states.iter().map(|state| state.slice(self.given, rows)));
        self.given += rows;
        let batch = task.batch(columns, rows)?;
        let columns = batch.columns().iter().enumerate().map(|(place, column)| {
            if place < self.grouping.columns() { compact(column) } else { Arc::clone(column) }
        });
        Ok(Some(RecordBatch::try_new(batch.schema(), columns.collect())?))
    }
}

/// Texts without those of other groups: what is kept of a batch counts with all that its buffers hold.
fn compact(column: &ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_string_view_opt() else { return Arc::clone(column) };
    let held: usize = texts.data_buffers().iter().map(Buffer::len).sum();
    if texts.total_buffer_bytes_used() < held { Arc::new(texts.gc()) } else { Arc::clone(column) }
}
