// SPDX-License-Identifier: Apache-2.0
//! Sums of intervals: one with too many months or days or too long a time is `22008`, where DataFusion's wrap.

use super::kept_rows::KeptRows;
use crate::error::{SqlError, SqlState};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::NullState;
use std::sync::Arc;

/// The accumulator of one sum, from which values can be taken away.
pub(super) fn one() -> Box<dyn Accumulator> {
    Box::new(IntervalSum::default())
}

/// The accumulator of a sum for each group.
pub(super) fn of_groups() -> Box<dyn GroupsAccumulator> {
    Box::new(IntervalSums { sums: Vec::new(), nulls: NullState::new() })
}

/// Months, days and time by themselves, with room for sums of as many as there can be.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    months: i64,
    days: i64,
    nanoseconds: i128,
}

impl Parts {
    fn add(&mut self, value: IntervalMonthDayNano) {
        self.months += i64::from(value.months);
        self.days += i64::from(value.days);
        self.nanoseconds += i128::from(value.nanoseconds);
    }

    fn take_away(&mut self, value: IntervalMonthDayNano) {
        self.months -= i64::from(value.months);
        self.days -= i64::from(value.days);
        self.nanoseconds -= i128::from(value.nanoseconds);
    }

    /// The interval.
    ///
    /// # Errors
    /// `22008` if it has no room for them.
    fn interval(self) -> Result<IntervalMonthDayNano> {
        let months = i32::try_from(self.months).ok();
        let (days, nanoseconds) = (i32::try_from(self.days).ok(), i64::try_from(self.nanoseconds).ok());
        match (months, days, nanoseconds) {
            (Some(months), Some(days), Some(nanoseconds)) => {
                Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
            }
            _ => Err(SqlError::new(SqlState::DatetimeFieldOverflow, "interval out of range").into()),
        }
    }
}

fn known(values: &ArrayRef) -> impl Iterator<Item = IntervalMonthDayNano> + '_ {
    values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten()
}

#[derive(Debug, Default)]
struct IntervalSum {
    sum: Parts,
    /// How many were added up.
    count: usize,
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        known(&values[0]).for_each(|value| self.sum.add(value));
        self.count += values[0].len() - values[0].null_count();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        known(&values[0]).for_each(|value| self.sum.take_away(value));
        self.count -= values[0].len() - values[0].null_count();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = if self.count == 0 { None } else { Some(self.sum.interval()?) };
        Ok(ScalarValue::IntervalMonthDayNano(sum))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

struct IntervalSums {
    sums: Vec<Parts>,
    nulls: NullState,
}

impl GroupsAccumulator for IntervalSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, Parts::default());
        let sums = &mut self.sums;
        let values = values[0].as_primitive::<IntervalMonthDayNanoType>();
        self.nulls.accumulate(groups, values, filter, total, |group, value| sums[group].add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(&states[..1], groups, None, total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let sums = sums.into_iter().map(Parts::interval).collect::<Result<Vec<_>>>()?;
        let nulls = self.nulls.build(emit_to);
        Ok(Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::new(sums.into(), nulls)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<IntervalMonthDayNanoType>();
        let kept = KeptRows::of(filter).into_nulls();
        let nulls = NullBuffer::union(values.nulls(), kept.as_ref());
        Ok(vec![Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::new(values.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Parts>() + self.nulls.size()
    }
}
