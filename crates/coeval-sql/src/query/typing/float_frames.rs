// SPDX-License-Identifier: Apache-2.0
//! Sums and spreads of floats over a frame that moves: of the values that are in it, and nothing of those that have left it.
//!
//! DataFusion takes a value that leaves the frame off the sum: `1e20` takes all smaller ones with it, and infinities and NaN
//! stay for ever. Sums are kept in two stacks instead: the older one has for each value the sum of all behind it, the newer one
//! values and their sum; when the older one is empty the newer one becomes it. So a value costs two additions. A variance is
//! computed of all values of the frame anew, as PostgreSQL does.

use super::variances::{Of, Spread};
use crate::types::double_with_one_nan;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use std::collections::VecDeque;
use std::sync::Arc;

/// The accumulator of a sum of floats.
pub(super) fn sum() -> Box<dyn Accumulator> {
    Box::new(FrameSum::default())
}

/// DataFusion's aggregate of a spread of floats, for windows.
pub(super) fn spread(plain: &Arc<AggregateUDF>, spread: Spread) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(FloatSpread { plain: Arc::clone(plain), spread }))
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
    fn drop_oldest(&mut self) {
        if self.older.is_empty() {
            let mut sum = None;
            for value in self.newer.drain(..).rev() {
                let next = sum.map_or(value, |sum| value + sum);
                self.older.push(next);
                sum = Some(next);
            }
            self.sum_of_newer = None;
        }
        self.older.pop();
    }
}

impl Accumulator for FrameSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in floats(&values[0])? {
            self.newer.push(value);
            self.sum_of_newer = Some(self.sum_of_newer.map_or(value, |sum| sum + value));
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
        let older = self.older.last().copied();
        let sum = older.map_or(self.sum_of_newer, |sum| Some(sum + self.sum_of_newer.unwrap_or(0.0)));
        Ok(ScalarValue::Float64(sum.map(double_with_one_nan)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<f64>()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatSpread {
    plain: Arc<AggregateUDF>,
    spread: Spread,
}

impl AggregateUDFImpl for FloatSpread {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(FrameSpread { spread: self.spread, frame: VecDeque::new() }))
    }
}

#[derive(Debug)]
struct FrameSpread {
    spread: Spread,
    frame: VecDeque<f64>,
}

impl Accumulator for FrameSpread {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.frame.extend(floats(&values[0])?);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].null_count();
        self.frame.drain(..gone.min(self.frame.len()));
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
        let (Spread::Variance(of) | Spread::Deviation(of)) = self.spread;
        let count = self.frame.len();
        let degrees = if of == Of::Sample { count.saturating_sub(1) } else { count };
        if degrees == 0 {
            return Ok(ScalarValue::Float64(None));
        }
        let mean = self.frame.iter().sum::<f64>() / count as f64;
        let squares: f64 = self.frame.iter().map(|value| (value - mean) * (value - mean)).sum();
        let variance = squares / degrees as f64;
        let result = if matches!(self.spread, Spread::Deviation(_)) { variance.sqrt() } else { variance };
        Ok(ScalarValue::Float64(Some(double_with_one_nan(result))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.capacity() * size_of::<f64>()
    }
}
