// SPDX-License-Identifier: Apache-2.0
//! `median` of the floats of each group.
//!
//! DataFusion has a list for each group. Each value is appended to one of many lists, which grow by being copied, and lie so far apart that
//! addresses are looked up for each; the lists are copied when they go from thread to thread, and again into those of the second step.
//!
//! Here groups whose numbers are neighbours share a *shelf*, to which values are appended as they come, each with its group's place on the
//! shelf. There are few shelves, so their ends stay in a core's cache. Once all values are there, each shelf is put in the order of its
//! groups, which is done in a cache, too. Lists that come from other threads stay where they are until the median is looked for.
//!
//! ```text
//! groups   3 0 3 200 1 ...            shelf 0, groups 0 to 127      members 3 0 3 1 ...    values a b c e ...
//! values   a b c d   e ...            shelf 1, groups 128 to 255    members 72 ...         values d ...
//! ```
//!
//! A value takes nine bytes, and eight more while its state is made or the median of its group is found; those of one shelf at a time eight
//! more for their order. The median is found as DataFusion finds it: by the order of all floats, and as the mean of the two in the middle where
//! there are two. Its states are DataFusion's, and so is all that is not of groups.

use super::kept_rows::KeptRows;
use crate::cancel;
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, resources_err};
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::iter::repeat_n;
use std::mem;
use std::sync::{Arc, LazyLock};

/// So many groups share a shelf: their values are put in order by as many places, which a core keeps at hand.
const SHELF_GROUPS: usize = 128;

/// Lists of fewer values are not worth to be remembered, and become values of a shelf.
const RUN_VALUES_MIN: usize = 16;

/// The aggregate of floats of 64 bits.
pub(super) fn function() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(FloatMedian { plain: median_udaf(), signature }))
    });
    Arc::clone(&FUNCTION)
}

/// DataFusion's function, but for how the medians of groups are found.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatMedian {
    plain: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for FloatMedian {
    as_wrapped!(plain: name, return_type, groups_accumulator_supported, create_sliding_accumulator);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(arguments)
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Medians::default()))
    }
}

/// The values of some groups.
#[derive(Debug, Default)]
struct Shelf {
    /// Of each value the place of its group on the shelf.
    members: Vec<u8>,
    values: Vec<f64>,
}

impl Shelf {
    /// The values group by group, and where those of each end. They are in memory once when this returns.
    fn by_group(self) -> (Vec<f64>, [usize; SHELF_GROUPS]) {
        let mut ends = [0; SHELF_GROUPS];
        self.members.iter().for_each(|member| ends[usize::from(*member)] += 1);
        let mut before = 0;
        for end in &mut ends {
            let count = mem::replace(end, before);
            before += count;
        }
        // Each begins as the start of its group, and has moved to the end once all values are there.
        let mut values = vec![0.0; self.values.len()];
        for (member, value) in self.members.iter().zip(&self.values) {
            let end = &mut ends[usize::from(*member)];
            values[*end] = *value;
            *end += 1;
        }
        (values, ends)
    }

    fn bytes(&self) -> usize {
        self.members.capacity() + self.values.capacity() * size_of::<f64>()
    }
}

/// Values of a group that came as a list: a part of an array.
#[derive(Debug)]
struct Run {
    group: usize,
    array: u32,
    start: u32,
    end: u32,
}

/// The values of all groups.
#[derive(Debug, Default)]
struct Medians {
    groups: usize,
    shelves: Vec<Shelf>,
    runs: Vec<Run>,
    /// What runs are parts of.
    arrays: Vec<ScalarBuffer<f64>>,
    /// How many values there are in runs.
    run_values: usize,
    /// How many values came with the arrays, those of a shelf among them: an array stays as a whole.
    array_values: usize,
}

impl Medians {
    fn grow(&mut self, groups: usize) {
        self.groups = self.groups.max(groups);
        let shelves = self.groups.div_ceil(SHELF_GROUPS);
        if shelves > self.shelves.len() {
            self.shelves.resize_with(shelves, Shelf::default);
        }
    }

    #[inline]
    fn push(&mut self, group: usize, value: f64) {
        let shelf = &mut self.shelves[group / SHELF_GROUPS];
        shelf.members.push((group % SHELF_GROUPS) as u8);
        shelf.values.push(value);
    }

    fn values_of(&self, run: &Run) -> &[f64] {
        &self.arrays[run.array as usize][run.start as usize..run.end as usize]
    }

    /// How many values there are.
    fn len(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.values.len()).sum::<usize>() + self.run_values
    }

    /// Takes groups away, the first ones or all. Others have numbers from 0 again.
    fn take(&mut self, emit_to: EmitTo) -> Self {
        let all = mem::take(self);
        let EmitTo::First(count) = emit_to else { return all };
        let mut first = Self::default();
        first.grow(count);
        self.grow(all.groups.saturating_sub(count));
        for (place, shelf) in all.shelves.iter().enumerate() {
            for (member, value) in shelf.members.iter().zip(&shelf.values) {
                let group = place * SHELF_GROUPS + usize::from(*member);
                match group.checked_sub(count) {
                    None => first.push(group, *value),
                    Some(later) => self.push(later, *value),
                }
            }
        }
        // What stays is little where groups come in their order, and arrays must not pile up then.
        for run in &all.runs {
            let values = all.values_of(run).iter();
            match run.group.checked_sub(count) {
                None => values.for_each(|value| first.push(run.group, *value)),
                Some(later) => values.for_each(|value| self.push(later, *value)),
            }
        }
        first
    }

    /// Calls `take` with the values of each group, in any order and in parts, group by group. They may be most of what there is memory for,
    /// so each is copied once, and a shelf goes before the next one is put in order.
    ///
    /// # Errors
    /// That of a cancelled statement.
    fn each_group(mut self, mut take: impl FnMut(&[&[f64]])) -> Result<()> {
        self.runs.sort_unstable_by_key(|run| run.group);
        let shelves = mem::take(&mut self.shelves);
        let mut runs = self.runs.iter().peekable();
        for (place, shelf) in shelves.into_iter().enumerate() {
            let (values, ends) = shelf.by_group();
            let mut parts: Vec<&[f64]> = Vec::new();
            let mut start = 0;
            for (group, end) in (place * SHELF_GROUPS..self.groups).zip(ends) {
                cancel::check()?;
                parts.clear();
                parts.push(&values[start..end]);
                start = end;
                while let Some(run) = runs.next_if(|run| run.group == group) {
                    parts.push(self.values_of(run));
                }
                take(&parts);
            }
        }
        Ok(())
    }
}

impl GroupsAccumulator for Medians {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.grow(total);
        let floats = values[0].as_primitive::<Float64Type>();
        let kept = KeptRows::of(filter).into_nulls();
        match NullBuffer::union(floats.nulls(), kept.as_ref()) {
            None => {
                groups.iter().zip(floats.values().iter()).for_each(|(group, value)| self.push(*group, *value))
            }
            Some(there) => there.valid_indices().for_each(|row| self.push(groups[row], floats.value(row))),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.grow(total);
        let lists = states[0].as_list::<i32>();
        let values = lists.values().as_primitive::<Float64Type>().values();
        let (array, runs) = (self.arrays.len() as u32, self.runs.len());
        for (row, ends) in lists.value_offsets().windows(2).enumerate() {
            let (start, end) = (ends[0].cast_unsigned(), ends[1].cast_unsigned());
            let own = &values[start as usize..end as usize];
            if lists.is_null(row) {
                continue;
            }
            if own.len() < RUN_VALUES_MIN {
                own.iter().for_each(|value| self.push(groups[row], *value));
            } else {
                self.runs.push(Run { group: groups[row], array, start, end });
                self.run_values += own.len();
            }
        }
        if self.runs.len() > runs {
            self.arrays.push(values.clone());
            // Of the array that these rows may be a part of.
            let ends = lists.value_offsets();
            self.array_values += (ends[ends.len() - 1] - ends[0]).cast_unsigned() as usize;
        }
        Ok(())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = self.take(emit_to);
        let count = taken.len();
        if i32::try_from(count).is_err() {
            return resources_err!("Medians of {count} values in one step of one thread");
        }
        let mut values: Vec<f64> = Vec::with_capacity(count);
        let mut lengths = Vec::with_capacity(taken.groups);
        taken.each_group(|parts| {
            parts.iter().for_each(|part| values.extend_from_slice(part));
            lengths.push(parts.iter().map(|part| part.len()).sum::<usize>());
        })?;
        lists(lengths, values.into(), None)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = self.take(emit_to);
        let (mut places, mut medians) = (Vec::new(), Vec::with_capacity(taken.groups));
        taken.each_group(|parts| {
            places.clear();
            for part in parts {
                places.extend(part.iter().map(|value| place_of(*value)));
            }
            medians.push(median(&mut places));
        })?;
        Ok(Arc::new(Float64Array::from(medians)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let floats = values[0].as_primitive::<Float64Type>();
        let kept = KeptRows::of(filter).into_nulls();
        let there = NullBuffer::union(floats.nulls(), kept.as_ref());
        lists(repeat_n(1, floats.len()), floats.values().clone(), there)
    }

    fn size(&self) -> usize {
        let shelves = self.shelves.iter().map(Shelf::bytes).sum::<usize>();
        size_of_val(self)
            + shelves
            + self.shelves.capacity() * size_of::<Shelf>()
            + self.runs.capacity() * size_of::<Run>()
            + self.array_values * size_of::<f64>()
    }
}

/// A state: lists of these lengths.
fn lists(
    lengths: impl IntoIterator<Item = usize>,
    values: ScalarBuffer<f64>,
    there: Option<NullBuffer>,
) -> Result<Vec<ArrayRef>> {
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let values = Arc::new(Float64Array::new(values, None));
    let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, there)?;
    Ok(vec![Arc::new(lists)])
}

/// A float's place in the order of all of them, which is that of `f64::total_cmp`. Numbers are compared faster.
#[inline]
fn place_of(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    // The greater the bits behind the sign, the farther from zero, on both sides.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The float at a place.
fn value_at(place: i64) -> f64 {
    let bits = if place < 0 { place ^ i64::MAX } else { place };
    f64::from_bits(bits.cast_unsigned())
}

/// The median of the floats at these places.
fn median(places: &mut [i64]) -> Option<f64> {
    if places.is_empty() {
        return None;
    }
    let has_two = places.len().is_multiple_of(2);
    let (below, middle, _) = places.select_nth_unstable(places.len() / 2);
    let middle = value_at(*middle);
    let other = if has_two { below.iter().max() } else { None };
    Some(other.map_or(middle, |other| (value_at(*other) + middle) / 2.0))
}

#[cfg(test)]
mod tests;
