// SPDX-License-Identifier: Apache-2.0
//! `variance`, `stddev` and their like of floats, as PostgreSQL computes them.
//!
//! Kept are the number of values, their sum, and the sum of the squares of their distances from the mean (Youngs and Cramer, 1971), with
//! PostgreSQL's steps in their order, so that all digits are the same. What overflows is `22003`, where DataFusion gives an infinity;
//! what an infinity or NaN is among is NaN. Over a frame that moves, all values in it are added anew.

use super::float_sums::added;
use super::kept_rows::KeptRows;
use super::variances::{Of, Spread};
use crate::error::SqlError;
use crate::types::{double_with_one_nan, float_overflow};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::VecDeque;
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
        Ok(Box::new(All { spread: self.spread, sums: Sums::default() }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { spread: self.spread, values: VecDeque::new() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { spread: self.spread, groups: Vec::new() }))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", self.name()), DataType::Float64, true));
        Ok(["count", "sum", "squares"].into_iter().map(field).collect())
    }
}

fn floats(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// What is known of values. The squares are those of the distances from the mean.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn of(values: impl IntoIterator<Item = f64>) -> Result<Self> {
        let mut sums = Self::default();
        values.into_iter().try_for_each(|value| sums.add(value))?;
        Ok(sums)
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

    fn parts(&self) -> [f64; 3] {
        [self.count, self.sum, self.squares]
    }

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

/// States that are merged.
fn states(parts: &[ArrayRef]) -> Result<Vec<Sums>> {
    let [count, sum, squares] = parts else {
        return Err(SqlError::internal("the state of a spread has three parts").into());
    };
    let [count, sum, squares] = [count, sum, squares].map(|part| part.as_primitive::<Float64Type>());
    let sums = |row| Sums { count: count.value(row), sum: sum.value(row), squares: squares.value(row) };
    Ok((0..count.len()).map(sums).collect())
}

/// The states as [`states`] reads them.
fn parts_of(sums: &[Sums]) -> Vec<ArrayRef> {
    let part = |place: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(sums.iter().map(|sums| sums.parts()[place])))
    };
    (0..Sums::default().parts().len()).map(part).collect()
}

/// Of all values.
#[derive(Debug)]
struct All {
    spread: Spread,
    sums: Sums,
}

impl Accumulator for All {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        floats(&values[0])?.iter().flatten().try_for_each(|value| self.sums.add(value))
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> Result<()> {
        states(parts)?.iter().try_for_each(|other| self.sums.merge(other))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.sums.parts().into_iter().map(|part| ScalarValue::Float64(Some(part))).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sums.result(self.spread)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Of the values in a frame that moves.
#[derive(Debug)]
struct Frame {
    spread: Spread,
    values: VecDeque<f64>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(floats(&values[0])?.iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].null_count();
        self.values.drain(..gone.min(self.values.len()));
        Ok(())
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
        Ok(ScalarValue::Float64(Sums::of(self.values.iter().copied())?.result(self.spread)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

/// Of each group.
#[derive(Debug)]
struct Groups {
    spread: Spread,
    groups: Vec<Sums>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, Sums::default());
        let kept_rows = KeptRows::of(filter);
        for (row, (value, &group)) in floats(&values[0])?.iter().zip(groups).enumerate() {
            if let Some(value) = value.filter(|_| kept_rows.has(row)) {
                self.groups[group].add(value)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, parts: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, Sums::default());
        let states = states(parts)?;
        states.iter().zip(groups).try_for_each(|(other, &group)| self.groups[group].merge(other))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(parts_of(&emit_to.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self { spread: self.spread, groups: Vec::new() };
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results: Float64Array = groups.iter().map(|sums| sums.result(self.spread)).collect();
        Ok(Arc::new(results))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<Sums>()
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
        for (one, other) in merged.parts().into_iter().zip(whole.parts()) {
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
