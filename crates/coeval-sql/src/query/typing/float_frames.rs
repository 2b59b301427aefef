// SPDX-License-Identifier: Apache-2.0
//! Sums of floats over a frame that moves: of the values that are in it, and nothing of those that have left it.
//!
//! DataFusion takes a value that leaves the frame off the sum: `1e20` takes all smaller ones with it, and infinities and NaN
//! stay for ever. Sums are kept in two stacks instead: the older one has for each value the sum of all behind it, the newer one
//! values and their sum; when the older one is empty the newer one becomes it. So a value costs two additions.

use super::float_sums::added_in_order;
use crate::types::double_with_one_nan;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// The accumulator of a sum of floats.
pub(super) fn sum() -> Box<dyn Accumulator> {
    Box::new(FrameSum::default())
}

fn floats(values: &ArrayRef) -> Result<impl Iterator<Item = f64> + use<>> {
    let values = cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone();
    let known: Vec<f64> = values.iter().flatten().collect();
    Ok(known.into_iter())
}

#[derive(Debug, Default)]
struct FrameSum {
    /// The first ones of the frame, the oldest last, each with the sum of it and those behind it in here.
    older: Vec<(f64, f64)>,
    newer: Vec<f64>,
    sum_of_newer: Option<f64>,
    /// How many values are infinite or NaN.
    not_finite: usize,
}

impl FrameSum {
    fn drop_oldest(&mut self) {
        if self.older.is_empty() {
            let mut sum = None;
            for value in self.newer.drain(..).rev() {
                let next = sum.map_or(value, |sum: f64| value + sum);
                self.older.push((value, next));
                sum = Some(next);
            }
            self.sum_of_newer = None;
        }
        if let Some((value, _)) = self.older.pop() {
            self.not_finite -= usize::from(!value.is_finite());
        }
    }
}

impl Accumulator for FrameSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in floats(&values[0])? {
            self.newer.push(value);
            self.sum_of_newer = Some(self.sum_of_newer.map_or(value, |sum| sum + value));
            self.not_finite += usize::from(!value.is_finite());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (values[0].null_count()..values[0].len()).for_each(|_| self.drop_oldest());
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
        let sum = match (self.older.last(), self.sum_of_newer) {
            (Some((_, older)), Some(newer)) => Some(older + newer),
            (older, newer) => older.map(|(_, sum)| *sum).or(newer),
        };
        let may_overflow = self.not_finite == 0 && sum.is_some_and(|sum| !sum.is_finite());
        let sum = if may_overflow {
            // Parts of the frame may leave the range though its values, in their order, do not.
            let older = self.older.iter().rev().map(|(value, _)| *value);
            added_in_order(None, older.chain(self.newer.iter().copied()))?
        } else {
            sum
        };
        Ok(ScalarValue::Float64(sum.map(double_with_one_nan)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.older.capacity() * size_of::<(f64, f64)>()
            + self.newer.capacity() * size_of::<f64>()
    }
}
