// SPDX-License-Identifier: Apache-2.0
//! `variance`, `stddev` and their like of floats, as PostgreSQL computes them.
//!
//! Kept are the number of values, their sum, and the sum of the squares of their distances from the mean (Youngs and Cramer, 1971), with
//! PostgreSQL's steps in their order, so that all digits are the same. What overflows is `22003`, where DataFusion gives an infinity;
//! what an infinity or NaN is among is NaN. Over a frame that moves, all values in it are added anew.

use super::float_moments::{All, Frame, Groups, Moments};
use super::float_sums::added;
use super::variances::{Of, Spread};
use crate::types::{double_with_one_nan, float_overflow};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// The aggregate of floats.
pub(super) fn function(spread: Spread) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(FloatSpread { spread, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatSpread {
    spread: Spread,
    signature: Signature,
}

impl AggregateUDFImpl for FloatSpread {
    fn name(&self) -> &str {
        self.spread.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(All::<Sums>::new(self.spread)))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::<Sums>::new(self.spread)))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::<Sums>::new(self.spread)))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", self.name()), DataType::Float64, true));
        Ok(["count", "sum", "squares"].into_iter().map(field).collect())
    }
}

/// What is known of values. The squares are those of the distances from the mean.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments for Sums {
    type Wanted = Spread;
    type Value = f64;
    const PARTS: usize = 3;

    fn each(columns: &[ArrayRef], mut take: impl FnMut(usize, f64) -> Result<()>) -> Result<()> {
        let values = cast(&columns[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => values.values().iter().enumerate().try_for_each(|(row, value)| take(row, *value)),
            Some(nulls) => nulls.valid_indices().try_for_each(|row| take(row, values.value(row))),
        }
    }

    fn add(&mut self, value: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.sum += value;
        if before.count == 0.0 {
            // Infinity and NaN have no distance, not even from themselves.
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Ok(());
        }
        let distance = value * self.count - self.sum;
        self.squares += distance * distance / (self.count * before.count);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if !before.sum.is_infinite() && !value.is_infinite() {
                return Err(float_overflow().into());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = *other;
            return Ok(());
        }
        let count = self.count + other.count;
        let distance = self.sum / self.count - other.sum / other.count;
        let between = self.count * other.count * distance * distance / count;
        let squares = self.squares + other.squares + between;
        if squares.is_infinite() && !self.squares.is_infinite() && !other.squares.is_infinite() {
            return Err(float_overflow().into());
        }
        *self = Self { count, sum: added(self.sum, other.sum)?, squares };
        Ok(())
    }

    fn part(&self, place: usize) -> f64 {
        [self.count, self.sum, self.squares][place]
    }

    fn of_parts(part: impl Fn(usize) -> f64) -> Self {
        Self { count: part(0), sum: part(1), squares: part(2) }
    }

    fn outcome(&self, wanted: Spread) -> ScalarValue {
        ScalarValue::Float64(self.result(wanted))
    }

    fn outcomes(all: &[Self], wanted: Spread) -> ArrayRef {
        Arc::new(all.iter().map(|sums| sums.result(wanted)).collect::<Float64Array>())
    }
}

impl Sums {
    /// The result; `None` of too few values.
    fn result(&self, spread: Spread) -> Option<f64> {
        let (Spread::Variance(of) | Spread::Deviation(of)) = spread;
        let degrees = if of == Of::Sample { self.count - 1.0 } else { self.count };
        if degrees <= 0.0 {
            return None;
        }
        let variance = self.squares / degrees;
        let result = if matches!(spread, Spread::Deviation(_)) { variance.sqrt() } else { variance };
        Some(double_with_one_nan(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_are_merged_are_those_of_all_values() {
        let all = [1.0, 2.0, 4.0, 8.5, -3.0];
        let (first, second) = all.split_at(2);
        let mut merged = Sums::default();
        for part in [first, &[], second] {
            merged.merge(&Sums::of(part.iter().copied()).expect("small numbers")).expect("small numbers");
        }
        let whole = Sums::of(all).expect("small numbers");
        for place in 0..Sums::PARTS {
            let (one, other) = (merged.part(place), whole.part(place));
            assert!((one - other).abs() < 1e-12, "{merged:?} {whole:?}");
        }
    }

    #[test]
    fn an_infinity_has_no_distance_and_what_overflows_is_an_error() {
        let of = |values: &[f64]| Sums::of(values.iter().copied());
        let variance = Spread::Variance(Of::Sample);
        assert_eq!(of(&[1.0]).expect("one value").result(variance), None);
        let infinite = of(&[1.0, f64::INFINITY]).expect("infinity is no overflow").result(variance);
        assert!(infinite.is_some_and(|result| result.is_nan() && result.is_sign_positive()));
        assert!(of(&[1e308, -1e308]).is_err());
        let mut one = of(&[1e308]).expect("one value");
        assert!(one.merge(&of(&[-1e308]).expect("one value")).is_err());
    }
}
