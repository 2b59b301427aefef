// SPDX-License-Identifier: Apache-2.0
//! Sums of floats over a frame that moves: of the values that are in it, and nothing of those that have left it.
//!
//! DataFusion takes a value that leaves the frame off the sum: `1e20` takes all smaller ones with it, and infinities and NaN
//! stay for ever. Sums are kept in two stacks instead: the older one has for each value the sum of all behind it, the newer one
//! values and their sum; when the older one is empty the newer one becomes it. So a value costs two additions.

use super::float_sums::added;
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
    /// Of each value that came before the others the sum of it and those behind it in here; the oldest one last.
    older: Vec<f64>,
    newer: Vec<f64>,
    sum_of_newer: Option<f64>,
}

impl FrameSum {
    fn drop_oldest(&mut self) -> Result<()> {
        if self.older.is_empty() {
            let mut sum = None;
            for value in self.newer.drain(..).rev() {
                let next = sum.map_or(Ok(value), |sum| added(value, sum))?;
                self.older.push(next);
                sum = Some(next);
            }
            self.sum_of_newer = None;
        }
        self.older.pop();
        Ok(())
    }
}

impl Accumulator for FrameSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in floats(&values[0])? {
            self.newer.push(value);
            self.sum_of_newer = Some(self.sum_of_newer.map_or(Ok(value), |sum| added(sum, value))?);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (values[0].null_count()..values[0].len()).try_for_each(|_| self.drop_oldest())
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
            (Some(older), Some(newer)) => Some(added(*older, newer)?),
            (older, newer) => older.copied().or(newer),
        };
        Ok(ScalarValue::Float64(sum.map(double_with_one_nan)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<f64>()
    }
}
