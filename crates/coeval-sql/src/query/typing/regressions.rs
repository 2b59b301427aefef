// SPDX-License-Identifier: Apache-2.0
//! `corr`, `covar_pop`, `covar_samp` and `regr_...`: of pairs of floats, as PostgreSQL computes them.
//!
//! DataFusion gives NULL where PostgreSQL gives NaN for infinities, takes back what leaves a frame, and has no `regr_r2` where
//! all `y` are the same. Here sums and sums of squares of the distances from the mean are kept (Youngs and Cramer, 1971), with
//! PostgreSQL's steps in their order, so that all digits are the same. What overflows is `22003`; what an infinity or NaN is among is NaN.
//! Over a frame that moves, all pairs in it are added anew. Pairs of `smallint` and `integer` have sums that are exact ([`integer_pairs`]).

mod integer_pairs;

use super::float_moments::{All, Frame, Groups, Moments};
use crate::error::SqlError;
use crate::types::{double_with_one_nan, float_overflow};
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, TypeSignature, Volatility,
};
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

    /// Whether it is computed of pairs of this type, and of another one of which this is true, as they are.
    pub(super) fn is_exact(ty: &DataType) -> bool {
        integer_pairs::is_small(ty)
    }

    /// The aggregate of two numbers, `y` and `x`: floats, or those of which [`Self::is_exact`].
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        static FUNCTIONS: LazyLock<Vec<(Regression, Arc<AggregateUDF>)>> = LazyLock::new(|| {
            let function = |(regression, name)| {
                let [float, short, long] = [DataType::Float64, DataType::Int16, DataType::Int32];
                let pairs =
                    [[&float, &float], [&short, &short], [&short, &long], [&long, &short], [&long, &long]];
                let pairs = pairs.map(|pair| TypeSignature::Exact(pair.map(DataType::clone).to_vec()));
                let signature = Signature::one_of(pairs.to_vec(), Volatility::Immutable);
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

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if integer_pairs::are_of(arguments.expr_fields) {
            return Ok(integer_pairs::of_all(self.regression));
        }
        Ok(Box::new(All::<Sums>::new(self.regression)))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if integer_pairs::are_of(arguments.expr_fields) {
            return Ok(integer_pairs::of_all(self.regression));
        }
        Ok(Box::new(Frame::<Sums>::new(self.regression)))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if integer_pairs::are_of(arguments.expr_fields) {
            return Ok(integer_pairs::of_groups(self.regression));
        }
        Ok(Box::new(Groups::<Sums>::new(self.regression)))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if integer_pairs::are_of(arguments.input_fields) {
            return Ok(integer_pairs::state_fields());
        }
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", self.name), DataType::Float64, true));
        Ok(["count", "x", "xx", "y", "yy", "xy"].into_iter().map(field).collect())
    }
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

impl Moments for Sums {
    type Wanted = Regression;
    type Value = (f64, f64);
    const PARTS: usize = 6;

    fn each(columns: &[ArrayRef], mut take: impl FnMut(usize, (f64, f64)) -> Result<()>) -> Result<()> {
        let [y, x] = columns else {
            return Err(SqlError::internal("a pair has two parts").into());
        };
        let (y, x) = (cast(y, &DataType::Float64)?, cast(x, &DataType::Float64)?);
        let pairs = y.as_primitive::<Float64Type>().iter().zip(x.as_primitive::<Float64Type>().iter());
        // Of a pair with a NULL nothing is known.
        let mut pairs = pairs.map(|(y, x)| y.zip(x)).enumerate();
        pairs.try_for_each(|(row, pair)| pair.map_or(Ok(()), |pair| take(row, pair)))
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

    fn part(&self, place: usize) -> f64 {
        self.parts()[place]
    }

    fn of_parts(part: impl Fn(usize) -> f64) -> Self {
        let [count, x, xx, y, yy, xy] = [0, 1, 2, 3, 4, 5].map(part);
        Self { count, x, xx, y, yy, xy }
    }

    fn outcome(&self, wanted: Regression) -> ScalarValue {
        let result = self.result(wanted);
        match wanted {
            Regression::Count => ScalarValue::Int64(result.map(|count| count as i64)),
            _ => ScalarValue::Float64(result),
        }
    }

    fn outcomes(all: &[Self], wanted: Regression) -> ArrayRef {
        let results = all.iter().map(|sums| sums.result(wanted));
        match wanted {
            Regression::Count => {
                Arc::new(results.map(|count| count.map(|count| count as i64)).collect::<Int64Array>())
            }
            _ => Arc::new(results.collect::<Float64Array>()),
        }
    }
}

impl Sums {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(pairs: &[(f64, f64)]) -> Vec<Option<f64>> {
        let sums = Sums::of(pairs.iter().copied()).expect("nothing overflows");
        ALL.into_iter().map(|(regression, _)| sums.result(regression)).collect()
    }

    #[test]
    fn one_pair_is_no_line_and_infinity_has_no_distances() {
        assert_eq!(Sums::default().result(Regression::Slope), None);
        assert_eq!(results(&[(1.0, 1.0)])[..4], [None, Some(0.0), None, Some(1.0)]);
        let of_infinity = Sums::of([(f64::INFINITY, 1.0), (2.0, 2.0)]).expect("infinity is no overflow");
        assert!(of_infinity.yy.is_nan() && of_infinity.xy.is_nan());
        assert_eq!((of_infinity.xx, of_infinity.y), (0.5, f64::INFINITY));
        assert!(Sums::of([(1.0, 1e200), (2.0, -1e200)]).is_err(), "squares that overflow");
    }

    #[test]
    fn states_that_are_merged_are_those_of_all_pairs() {
        let all = [(1.0, 2.0), (2.0, 4.5), (4.0, 3.0), (8.0, -1.0)];
        let (first, second) = all.split_at(1);
        let mut merged = Sums::default();
        for part in [first, &[], second] {
            merged.merge(&Sums::of(part.iter().copied()).expect("small numbers")).expect("small numbers");
        }
        let whole = Sums::of(all).expect("small numbers");
        for (one, other) in merged.parts().into_iter().zip(whole.parts()) {
            assert!((one - other).abs() < 1e-12, "{merged:?} {whole:?}");
        }
    }
}
