// SPDX-License-Identifier: Apache-2.0
//! `corr`, `covar_pop`, `covar_samp` and `regr_...`: of pairs of floats, as PostgreSQL computes them.
//!
//! DataFusion gives NULL where PostgreSQL gives NaN for infinities, takes back what leaves a frame, and has no `regr_r2` where
//! all `y` are the same. Here sums and sums of squares of the distances from the mean are kept (Youngs and Cramer, 1971), with
//! PostgreSQL's steps in their order, so that all digits are the same. What overflows is `22003`; what an infinity or NaN is among is NaN.
//! Over a frame that moves, all pairs in it are added anew.

use super::kept_rows::KeptRows;
use crate::error::SqlError;
use crate::types::{double_with_one_nan, float_overflow};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Regression {
    Correlation,
    CovarianceOfPopulation,
    CovarianceOfSample,
    Count,
    SquaresOfX,
    SquaresOfY,
    Products,
    MeanOfX,
    MeanOfY,
    Determination,
    Slope,
    Intercept,
}

const ALL: [(Regression, &str); 12] = [
    (Regression::Correlation, "corr"),
    (Regression::CovarianceOfPopulation, "covar_pop"),
    (Regression::CovarianceOfSample, "covar_samp"),
    (Regression::Count, "regr_count"),
    (Regression::SquaresOfX, "regr_sxx"),
    (Regression::SquaresOfY, "regr_syy"),
    (Regression::Products, "regr_sxy"),
    (Regression::MeanOfX, "regr_avgx"),
    (Regression::MeanOfY, "regr_avgy"),
    (Regression::Determination, "regr_r2"),
    (Regression::Slope, "regr_slope"),
    (Regression::Intercept, "regr_intercept"),
];

impl Regression {
    /// What the aggregate of this name computes; `None` if it is another one.
    pub(super) fn of(function: &str) -> Option<Self> {
        ALL.into_iter().find(|(_, name)| *name == function).map(|(regression, _)| regression)
    }

    /// All such aggregates, in an order that stays.
    pub(super) fn all() -> impl Iterator<Item = Arc<AggregateUDF>> {
        ALL.into_iter().map(|(regression, _)| regression.function())
    }

    /// The aggregate of two floats, `y` and `x`.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        static FUNCTIONS: LazyLock<Vec<(Regression, Arc<AggregateUDF>)>> = LazyLock::new(|| {
            let function = |(regression, name)| {
                let signature = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
                let aggregate = OfPairs { regression, name, signature };
                (regression, Arc::new(AggregateUDF::new_from_impl(aggregate)))
            };
            ALL.into_iter().map(function).collect()
        });
        let of_this = FUNCTIONS.iter().find(|(regression, _)| *regression == self);
        of_this.map(|(_, function)| Arc::clone(function)).expect("there is one of each")
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPairs {
    regression: Regression,
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for OfPairs {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.regression == Regression::Count { DataType::Int64 } else { DataType::Float64 })
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        Ok(Sums::default().outcome(self.regression))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(All { regression: self.regression, sums: Sums::default() }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { regression: self.regression, pairs: VecDeque::new() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { regression: self.regression, groups: Vec::new() }))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", self.name), DataType::Float64, true));
        Ok(["count", "x", "xx", "y", "yy", "xy"].into_iter().map(field).collect())
    }
}

/// The pairs of two columns; `None` where one is NULL.
fn pairs(values: &[ArrayRef]) -> Result<Vec<Option<(f64, f64)>>> {
    let [y, x] = values else {
        return Err(SqlError::internal("a pair has two parts").into());
    };
    let (y, x) = (cast(y, &DataType::Float64)?, cast(x, &DataType::Float64)?);
    let both = y.as_primitive::<Float64Type>().iter().zip(x.as_primitive::<Float64Type>().iter());
    Ok(both.map(|(y, x)| y.zip(x)).collect())
}

/// What is known of pairs. The squares are those of the distances from the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn of<'p>(pairs: impl IntoIterator<Item = &'p (f64, f64)>) -> Result<Self> {
        let mut sums = Self::default();
        pairs.into_iter().try_for_each(|pair| sums.add(*pair))?;
        Ok(sums)
    }

    fn add(&mut self, (y, x): (f64, f64)) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count == 0.0 {
            // Infinity and NaN have no distances, not even from themselves.
            let nothing = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
            (self.xx, self.yy, self.xy) = (nothing(x), nothing(y), nothing(x) + nothing(y));
            return Ok(());
        }
        let (dx, dy) = (x * self.count - self.x, y * self.count - self.y);
        let scale = 1.0 / (self.count * before.count);
        self.xx += dx * dx * scale;
        self.yy += dy * dy * scale;
        self.xy += dx * dy * scale;
        let had_infinite_x = before.x.is_infinite() || x.is_infinite();
        let had_infinite_y = before.y.is_infinite() || y.is_infinite();
        let overflows = (self.x.is_infinite() || self.xx.is_infinite()) && !had_infinite_x
            || (self.y.is_infinite() || self.yy.is_infinite()) && !had_infinite_y
            || self.xy.is_infinite() && !had_infinite_x && !had_infinite_y;
        if overflows {
            return Err(float_overflow().into());
        }
        for squares in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if squares.is_infinite() {
                *squares = f64::NAN;
            }
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
        let (dx, dy) =
            (self.x / self.count - other.x / other.count, self.y / self.count - other.y / other.count);
        let weight = self.count * other.count;
        let merged = Self {
            count,
            x: self.x + other.x,
            xx: self.xx + other.xx + weight * dx * dx / count,
            y: self.y + other.y,
            yy: self.yy + other.yy + weight * dy * dy / count,
            xy: self.xy + other.xy + weight * dx * dy / count,
        };
        let mut sums = self.parts().into_iter().zip(other.parts()).zip(merged.parts());
        if sums.any(|((one, other), sum)| sum.is_infinite() && !one.is_infinite() && !other.is_infinite()) {
            return Err(float_overflow().into());
        }
        *self = merged;
        Ok(())
    }

    fn parts(&self) -> [f64; 6] {
        [self.count, self.x, self.xx, self.y, self.yy, self.xy]
    }

    /// The result; `None` where there is none, of too few pairs or of those on a line that stands upright.
    fn result(&self, regression: Regression) -> Option<f64> {
        let Self { count, x, xx, y, yy, xy } = *self;
        if regression == Regression::Count {
            return Some(count);
        }
        if count < 1.0 {
            return None;
        }
        let result = match regression {
            Regression::Count => Some(count),
            Regression::Correlation => (xx != 0.0 && yy != 0.0).then(|| xy / (xx * yy).sqrt()),
            Regression::CovarianceOfPopulation => Some(xy / count),
            Regression::CovarianceOfSample => (count > 1.0).then(|| xy / (count - 1.0)),
            Regression::SquaresOfX => Some(xx),
            Regression::SquaresOfY => Some(yy),
            Regression::Products => Some(xy),
            Regression::MeanOfX => Some(x / count),
            Regression::MeanOfY => Some(y / count),
            Regression::Determination => {
                (xx != 0.0).then(|| if yy == 0.0 { 1.0 } else { (xy * xy) / (xx * yy) })
            }
            Regression::Slope => (xx != 0.0).then(|| xy / xx),
            Regression::Intercept => (xx != 0.0).then(|| (y - x * xy / xx) / count),
        };
        result.map(double_with_one_nan)
    }

    fn outcome(&self, regression: Regression) -> ScalarValue {
        let result = self.result(regression);
        match regression {
            Regression::Count => ScalarValue::Int64(result.map(|count| count as i64)),
            _ => ScalarValue::Float64(result),
        }
    }
}

/// States that are merged.
fn states(parts: &[ArrayRef]) -> Result<Vec<Sums>> {
    let [count, x, xx, y, yy, xy] = parts else {
        return Err(SqlError::internal("the state of a regression has six parts").into());
    };
    let [count, x, xx, y, yy, xy] = [count, x, xx, y, yy, xy].map(|part| part.as_primitive::<Float64Type>());
    let sums = |row| Sums {
        count: count.value(row),
        x: x.value(row),
        xx: xx.value(row),
        y: y.value(row),
        yy: yy.value(row),
        xy: xy.value(row),
    };
    Ok((0..count.len()).map(sums).collect())
}

/// The states as [`states`] reads them.
fn parts_of(sums: &[Sums]) -> Vec<ArrayRef> {
    let part = |place: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(sums.iter().map(|sums| sums.parts()[place])))
    };
    (0..Sums::default().parts().len()).map(part).collect()
}

/// Of all pairs.
#[derive(Debug)]
struct All {
    regression: Regression,
    sums: Sums,
}

impl Accumulator for All {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        pairs(values)?.into_iter().flatten().try_for_each(|pair| self.sums.add(pair))
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> Result<()> {
        states(parts)?.iter().try_for_each(|other| self.sums.merge(other))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.sums.parts().into_iter().map(|part| ScalarValue::Float64(Some(part))).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.sums.outcome(self.regression))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Of the pairs in a frame that moves.
#[derive(Debug)]
struct Frame {
    regression: Regression,
    pairs: VecDeque<(f64, f64)>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.pairs.extend(pairs(values)?.into_iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = pairs(values)?.into_iter().flatten().count();
        self.pairs.drain(..gone.min(self.pairs.len()));
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
        Ok(Sums::of(&self.pairs)?.outcome(self.regression))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.pairs.capacity() * size_of::<(f64, f64)>()
    }
}

/// Of each group.
#[derive(Debug)]
struct Groups {
    regression: Regression,
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
        for (row, (pair, &group)) in pairs(values)?.into_iter().zip(groups).enumerate() {
            if let Some(pair) = pair.filter(|_| kept_rows.has(row)) {
                self.groups[group].add(pair)?;
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
        let mut each = Self { regression: self.regression, groups: Vec::new() };
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results = groups.iter().map(|sums| sums.result(self.regression));
        let results: ArrayRef = match self.regression {
            Regression::Count => {
                Arc::new(results.map(|count| count.map(|count| count as i64)).collect::<Int64Array>())
            }
            _ => Arc::new(results.collect::<Float64Array>()),
        };
        Ok(results)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<Sums>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(pairs: &[(f64, f64)]) -> Vec<Option<f64>> {
        let sums = Sums::of(pairs).expect("nothing overflows");
        ALL.into_iter().map(|(regression, _)| sums.result(regression)).collect()
    }

    #[test]
    fn one_pair_is_no_line_and_infinity_has_no_distances() {
        assert_eq!(Sums::default().result(Regression::Slope), None);
        assert_eq!(results(&[(1.0, 1.0)])[..4], [None, Some(0.0), None, Some(1.0)]);
        let of_infinity = Sums::of(&[(f64::INFINITY, 1.0), (2.0, 2.0)]).expect("infinity is no overflow");
        assert!(of_infinity.yy.is_nan() && of_infinity.xy.is_nan());
        assert_eq!((of_infinity.xx, of_infinity.y), (0.5, f64::INFINITY));
        assert!(Sums::of(&[(1.0, 1e200), (2.0, -1e200)]).is_err(), "squares that overflow");
    }

    #[test]
    fn states_that_are_merged_are_those_of_all_pairs() {
        let all = [(1.0, 2.0), (2.0, 4.5), (4.0, 3.0), (8.0, -1.0)];
        let (first, second) = all.split_at(1);
        let mut merged = Sums::default();
        for part in [first, &[], second] {
            merged.merge(&Sums::of(part).expect("small numbers")).expect("small numbers");
        }
        let whole = Sums::of(&all).expect("small numbers");
        for (one, other) in merged.parts().into_iter().zip(whole.parts()) {
            assert!((one - other).abs() < 1e-12, "{merged:?} {whole:?}");
        }
    }
}
