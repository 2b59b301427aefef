// SPDX-License-Identifier: Apache-2.0
//! Accumulators of aggregates whose state is a few sums of floats, which can be merged: of all values, of a frame that moves, of groups.

use super::kept_rows::KeptRows;
use crate::error::SqlError;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, PrimitiveArray};
use arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

/// What is known of some values.
pub(super) trait Moments: Copy + Debug + Default + Send + Sync + 'static {
    /// Which result is asked for.
    type Wanted: Copy + Debug + Send + Sync + 'static;
    /// What is added: a float, or several.
    type Value: Copy + Debug + Send + Sync + 'static;
    /// So many floats are kept.
    const PARTS: usize;

    /// Calls `take` with each row in which there is a value.
    ///
    /// # Errors
    /// Those of `take`.
    fn each(columns: &[ArrayRef], take: impl FnMut(usize, Self::Value) -> Result<()>) -> Result<()>;

    /// # Errors
    /// `22003` for what overflows.
    fn add(&mut self, value: Self::Value) -> Result<()>;

    /// # Errors
    /// `22003` for what overflows.
    fn merge(&mut self, other: &Self) -> Result<()>;

    /// One of the floats that are kept.
    fn part(&self, place: usize) -> f64;

    /// What has these parts.
    fn of_parts(part: impl Fn(usize) -> f64) -> Self;

    fn outcome(&self, wanted: Self::Wanted) -> ScalarValue;

    /// The same of many.
    fn outcomes(all: &[Self], wanted: Self::Wanted) -> ArrayRef;

    /// What is known of these.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    fn of(values: impl IntoIterator<Item = Self::Value>) -> Result<Self> {
        let mut moments = Self::default();
        values.into_iter().try_for_each(|value| moments.add(value))?;
        Ok(moments)
    }
}

/// States that are merged.
fn states<M: Moments>(parts: &[ArrayRef]) -> Result<Vec<M>> {
    if parts.len() != M::PARTS {
        return Err(SqlError::internal("a state has another number of parts").into());
    }
    let parts: Vec<&PrimitiveArray<Float64Type>> = parts.iter().map(|part| part.as_primitive()).collect();
    Ok((0..parts[0].len()).map(|row| M::of_parts(|place| parts[place].value(row))).collect())
}

/// The states as [`states`] reads them.
fn parts_of<M: Moments>(all: &[M]) -> Vec<ArrayRef> {
    let part = |place: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(all.iter().map(|moments| moments.part(place))))
    };
    (0..M::PARTS).map(part).collect()
}

/// Of all values.
#[derive(Debug)]
pub(super) struct All<M: Moments> {
    wanted: M::Wanted,
    moments: M,
}

impl<M: Moments> All<M> {
    pub(super) fn new(wanted: M::Wanted) -> Self {
        Self { wanted, moments: M::default() }
    }
}

impl<M: Moments> Accumulator for All<M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        M::each(values, |_, value| self.moments.add(value))
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> Result<()> {
        states(parts)?.iter().try_for_each(|other| self.moments.merge(other))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok((0..M::PARTS).map(|place| ScalarValue::Float64(Some(self.moments.part(place)))).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.moments.outcome(self.wanted))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Of the values in a frame that moves: they are all added anew.
#[derive(Debug)]
pub(super) struct Frame<M: Moments> {
    wanted: M::Wanted,
    values: VecDeque<M::Value>,
}

impl<M: Moments> Frame<M> {
    pub(super) fn new(wanted: M::Wanted) -> Self {
        Self { wanted, values: VecDeque::new() }
    }
}

impl<M: Moments> Accumulator for Frame<M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        M::each(values, |_, value| {
            self.values.push_back(value);
            Ok(())
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        M::each(values, |_, _| {
            self.values.pop_front();
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(SqlError::internal("frames are not merged").into())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(SqlError::internal("frames are not merged").into())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(M::of(self.values.iter().copied())?.outcome(self.wanted))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<M::Value>()
    }
}

/// Of each group.
#[derive(Debug)]
pub(super) struct Groups<M: Moments> {
    wanted: M::Wanted,
    groups: Vec<M>,
}

impl<M: Moments> Groups<M> {
    pub(super) fn new(wanted: M::Wanted) -> Self {
        Self { wanted, groups: Vec::new() }
    }
}

impl<M: Moments> GroupsAccumulator for Groups<M> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, M::default());
        let kept_rows = KeptRows::of(filter);
        M::each(
            values,
            |row, value| {
                if kept_rows.has(row) { self.groups[groups[row]].add(value) } else { Ok(()) }
            },
        )
    }

    fn merge_batch(&mut self, parts: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, M::default());
        let states = states(parts)?;
        states.iter().zip(groups).try_for_each(|(other, &group)| self.groups[group].merge(other))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(parts_of(&emit_to.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self::new(self.wanted);
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(M::outcomes(&emit_to.take_needed(&mut self.groups), self.wanted))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<M>()
    }
}
