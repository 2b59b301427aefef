// SPDX-License-Identifier: Apache-2.0
//! The groups and states of one partition.

use super::folds::Folds;
use super::groups::Groups;
use super::pairs::SQUARES;
use super::plan::{Call, Plan};
use super::values::Values;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// So many groups are kept at most: beyond, few rows meet their group in a cache, and DataFusion's operator, which can put groups
/// aside on disk, is no slower.
const GROUPS_MAX: usize = 1 << 18;

/// Once so many rows were seen, there must be fewer groups than this many tenths of them: otherwise grouping does not pay. Of few rows
/// more may be groups of their own, for others of the same groups may follow: a day's rows are of different items, and the next day's are of
/// the same ones. To see that costs nothing where groups are found by loads alone, as DataFusion's operator hashes each row. So what is first
/// here is asked of other groups only.
pub(super) const JUDGED: [(usize, usize); 2] = [(1 << 15, 9), (1 << 17, 8)];

/// See the module.
pub(super) struct Work {
    plan: Arc<Plan>,
    groups: Groups,
    folds: Folds,
    /// Of each call that is not folded.
    accumulators: Vec<Option<Box<dyn GroupsAccumulator>>>,
    rows: usize,
    /// Of a batch: each row's group.
    members: Vec<u32>,
    /// The same for DataFusion's accumulators, once one of them needs it.
    places: Vec<usize>,
}

impl Work {
    pub(super) fn new(plan: Arc<Plan>) -> Result<Self> {
        let groups = Groups::new(plan.key_types.iter().cloned())
            .ok_or_else(|| internal_datafusion_err!("a column without codes"))?;
        let accumulator = |call: &Call| match call {
            Call::General { function, .. } | Call::LongSum { function, .. } => {
                function.create_groups_accumulator().map(Some)
            }
            Call::Count(_) | Call::Folded { .. } | Call::Spread { .. } | Call::Pairs { .. } => Ok(None),
        };
        let accumulators = plan.calls.iter().map(accumulator).collect::<Result<_>>()?;
        let folds = Folds::new(&plan.kinds, plan.inputs.len(), plan.counting());
        Ok(Self { plan, groups, folds, accumulators, rows: 0, members: Vec::new(), places: Vec::new() })
    }

    /// Adds rows. `false`: these rows were not added, nor can others be.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let rows = batch.num_rows();
        let keys = plan.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        if self.groups.assign(&keys.collect::<Result<Vec<_>>>()?, &mut self.members).is_err() {
            return Ok(false);
        }
        self.rows += rows;
        let groups = self.groups.len();
        self.folds.begin(&self.members, groups);
        self.places.clear();
        for (place, input) in plan.inputs.iter().enumerate() {
            let values = input.values(batch)?;
            let passes = input.filter.as_ref().map(|filter| filter.passing(batch)).transpose()?;
            self.folds.add((place, &input.folds), &self.members, values.as_ref(), passes.as_ref())?;
            if let Some(Values::Array(long)) = values.filter(|_| input.is_of_long_sums()) {
                self.add_long(place, long, passes.as_ref())?;
            }
        }
        if plan.calls.iter().any(|call| matches!(call, Call::General { .. })) {
            self.find_places();
        }
        for (call, accumulator) in plan.calls.iter().zip(&mut self.accumulators) {
            let (Call::General { arguments, filter, .. }, Some(accumulator)) = (call, accumulator) else {
                continue;
            };
            let values = arguments.iter().map(|one| one.evaluate(batch)?.into_array(rows));
            let passes = filter.as_ref().map(|filter| filter.passing(batch)).transpose()?;
            let values = values.collect::<Result<Vec<ArrayRef>>>()?;
            accumulator.update_batch(&values, &self.places, passes.as_ref(), groups)?;
        }
        Ok(true)
    }

    /// Adds values of an input that do not have 64 bits to its sums.
    fn add_long(&mut self, of: usize, values: ArrayRef, passes: Option<&BooleanArray>) -> Result<()> {
        self.find_places();
        let (values, groups) = ([values], self.groups.len());
        for (call, accumulator) in self.plan.calls.iter().zip(&mut self.accumulators) {
            let (Call::LongSum { input, .. }, Some(accumulator)) = (call, accumulator) else { continue };
            if *input == of {
                accumulator.update_batch(&values, &self.places, passes, groups)?;
            }
        }
        Ok(())
    }

    /// Fills in the places of a batch's rows, unless they are there.
    fn find_places(&mut self) {
        if self.places.is_empty() {
            self.places.extend(self.members.iter().map(|group| *group as usize));
        }
    }

    /// Whether it is better to add no more.
    pub(super) fn is_past_use(&self) -> bool {
        let groups = self.groups.len();
        let are_too_many = |(rows, tenths)| self.rows >= rows && groups * 10 > self.rows * tenths;
        let unasked = usize::from(self.groups.are_found_by_loads());
        groups > GROUPS_MAX || JUDGED.into_iter().skip(unasked).any(are_too_many)
    }

    /// The groups' values and states, as the operator gives them.
    pub(super) fn finish(mut self, output: &SchemaRef) -> Result<RecordBatch> {
        if self.rows == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(output)));
        }
        let mut columns = self.groups.values();
        for (call, accumulator) in self.plan.calls.iter().zip(&mut self.accumulators) {
            match (call, accumulator) {
                (Call::Count(input), _) => columns.push(self.folds.counts(*input)),
                (Call::Folded { input, fold, ty }, _) => {
                    columns.push(self.folds.state(fold, *input, ty)?);
                }
                (Call::Spread { input, sum, squares }, _) => {
                    columns.push(self.folds.counts(Some(*input)));
                    columns.push(self.folds.state(sum, *input, &DataType::Int64)?);
                    columns.push(self.folds.state(squares, *input, &SQUARES)?);
                }
                (Call::Pairs { input, sums }, _) => {
                    columns.push(self.folds.counts(Some(*input)));
                    columns.extend(self.folds.pair_sums(sums)?);
                }
                (Call::General { .. }, Some(accumulator)) => columns.extend(accumulator.state(EmitTo::All)?),
                (Call::LongSum { input, fold, ty, .. }, Some(accumulator)) => {
                    let groups: Vec<usize> = (0..self.groups.len()).collect();
                    let folded = self.folds.state(fold, *input, ty)?;
                    accumulator.update_batch(&[folded], &groups, None, groups.len())?;
                    // It takes groups for seen whose rows were all folded, be they NULL or not.
                    let sums = accumulator.state(EmitTo::All)?;
                    columns.extend(sums.iter().map(|sums| self.folds.with_nulls(sums, *input)));
                }
                (Call::General { .. } | Call::LongSum { .. }, None) => {
                    unreachable!("each such call has one")
                }
            }
        }
        let columns = columns.into_iter().zip(output.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                cast(&column, field.data_type())
            }
        });
        Ok(RecordBatch::try_new(Arc::clone(output), columns.collect::<Result<_, _>>()?)?)
    }

    /// Bytes that it holds, and while the states go out once more.
    pub(super) fn bytes(&self) -> usize {
        let general = self.accumulators.iter().flatten().map(|one| one.size()).sum::<usize>();
        (self.groups.bytes() + self.folds.bytes() + general) * 2
            + self.members.capacity() * size_of::<u32>()
            + self.places.capacity() * size_of::<usize>()
    }
}
