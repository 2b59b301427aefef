// SPDX-License-Identifier: Apache-2.0
//! Sums of floats: one that is infinite though no value is has overflowed, which is `22003`.

use super::kept_rows::KeptRows;
use crate::types::{double_with_one_nan, float_overflow, with_one_nan};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::NullState;
use std::sync::Arc;

/// The accumulator of one sum.
pub(super) fn one() -> Box<dyn Accumulator> {
    Box::new(FloatSum::default())
}

/// The accumulator of a sum for each group.
pub(super) fn of_groups() -> Box<dyn GroupsAccumulator> {
    Box::new(FloatSums { sums: Vec::new(), nulls: NullState::new() })
}

/// The sum of two numbers.
///
/// # Errors
/// `22003` if it is infinite and neither of them is.
pub(super) fn added(one: f64, other: f64) -> Result<f64> {
    let sum = one + other;
    if has_overflowed(sum, one, other) {
        return Err(float_overflow().into());
    }
    Ok(sum)
}

/// The sum of values in their order, behind that of others; `None` of none.
///
/// # Errors
/// `22003` if it overflows on its way.
pub(super) fn added_in_order(
    before: Option<f64>,
    mut values: impl Iterator<Item = f64>,
) -> Result<Option<f64>> {
    values.try_fold(before, |sum, value| sum.map_or(Ok(value), |sum| added(sum, value)).map(Some))
}

fn has_overflowed(sum: f64, one: f64, other: f64) -> bool {
    sum.is_infinite() && one.is_finite() && other.is_finite()
}

fn doubles(values: &ArrayRef) -> Result<PrimitiveArray<Float64Type>> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

#[derive(Debug, Default)]
struct FloatSum {
    sum: Option<f64>,
}

impl Accumulator for FloatSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = doubles(&values[0])?;
        let Some(of_these) = arrow::compute::sum(&values) else { return Ok(()) };
        let sum = self.sum.map_or(of_these, |before| before + of_these);
        // Arrow adds several sums side by side, and one of them may leave the range though the values, in their order, do not.
        self.sum =
            if sum.is_finite() { Some(sum) } else { added_in_order(self.sum, values.iter().flatten())? };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sum.map(double_with_one_nan)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

struct FloatSums {
    sums: Vec<f64>,
    nulls: NullState,
}

impl GroupsAccumulator for FloatSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0.0);
        let (sums, mut overflows) = (&mut self.sums, false);
        self.nulls.accumulate(groups, &doubles(&values[0])?, filter, total, |group, value: f64| {
            let sum = &mut sums[group];
            let next = *sum + value;
            overflows |= has_overflowed(next, *sum, value);
            *sum = next;
        });
        if overflows { Err(float_overflow().into()) } else { Ok(()) }
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(&states[..1], groups, None, total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let sums: ArrayRef =
            Arc::new(PrimitiveArray::<Float64Type>::new(sums.into(), self.nulls.build(emit_to)));
        Ok(with_one_nan(&sums))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = doubles(&values[0])?;
        let kept = KeptRows::of(filter).into_nulls();
        let nulls = NullBuffer::union(values.nulls(), kept.as_ref());
        Ok(vec![Arc::new(PrimitiveArray::<Float64Type>::new(values.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<f64>() + self.nulls.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;

    fn sum_of(values: impl IntoIterator<Item = f64>) -> Result<ScalarValue> {
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
        let mut sum = one();
        sum.update_batch(&[values])?;
        sum.evaluate()
    }

    #[test]
    fn a_sum_overflows_only_if_it_does_in_the_order_of_its_values() {
        let turns = (0..64).map(|place| if place % 2 == 0 { 1e308 } else { -1e308 });
        assert_eq!(sum_of(turns).expect("each two are nothing"), ScalarValue::Float64(Some(0.0)));
        assert!(sum_of([1e308, 1e308]).is_err());
        let infinite = sum_of([1.0, f64::INFINITY, f64::MAX]).expect("infinity is no overflow");
        assert_eq!(infinite, ScalarValue::Float64(Some(f64::INFINITY)));
    }
}
