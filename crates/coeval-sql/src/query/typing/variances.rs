// SPDX-License-Identifier: Apache-2.0
//! `variance`, `stddev` and their like of integers and `numeric`: a `numeric`, from sums that are exact. Those of floats are
//! [`float_spreads`](super::float_spreads)'.
//!
//! DataFusion computes them as floats. Here the number of values, their sum and the sum of their squares are kept, which
//! windows take away again as exactly as they were added: with `n` values the variance is
//! `(n * squares - sum * sum) / (n * (n - 1))`. All is of 256 bits; what does not fit is `22003`. Nearly all of them fit into 128
//! bits, where the same digits are found in a small part of the time ([`narrow`]). Sums of `smallint` and `integer` always do
//! ([`small_integers`]). Of DISTINCT values each is kept ([`different`]).

mod different;
mod narrow;
mod small_integers;

use super::kept_rows::KeptRows;
use crate::error::SqlError;
use crate::types::numeric::{DECIMAL_LIMIT, overflow};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, i256,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use different::Different;
use std::sync::{Arc, LazyLock};

/// Digits behind the point of the results, as a quotient has at least.
const SCALE: u32 = 16;

/// The type of the sums.
const SUM: DataType = DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0);

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spread {
    Variance(Of),
    Deviation(Of),
}

/// Whether the values are all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Sample,
    Population,
}

impl Spread {
    /// Each of them, in an order that stays.
    pub(super) const EACH: [Self; 4] = [
        Self::Variance(Of::Sample),
        Self::Variance(Of::Population),
        Self::Deviation(Of::Sample),
        Self::Deviation(Of::Population),
    ];

    /// What DataFusion's aggregate of this name computes; `None` if it is another one.
    pub(super) fn of(function: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|spread| spread.name() == function)
    }

    /// Whether it is computed exactly of values of this type.
    pub(super) fn is_exact(ty: &DataType) -> bool {
        ty.is_integer() || matches!(ty, DataType::Decimal128(_, 0..))
    }

    /// All such aggregates, in an order that stays.
    pub(super) fn all() -> impl Iterator<Item = Arc<AggregateUDF>> {
        Self::EACH.into_iter().map(Self::function)
    }

    /// The aggregate of exact numbers.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        static FUNCTIONS: LazyLock<Vec<(Spread, Arc<AggregateUDF>)>> = LazyLock::new(|| {
            let function = |spread| {
                let signature = Signature::any(1, Volatility::Immutable);
                (spread, Arc::new(AggregateUDF::new_from_impl(ExactSpread { spread, signature })))
            };
            Spread::EACH.into_iter().map(function).collect()
        });
        let of_this = FUNCTIONS.iter().find(|(spread, _)| *spread == self);
        of_this.map(|(_, function)| Arc::clone(function)).expect("there is one of each")
    }

    /// The name of the aggregate in DataFusion.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Variance(Of::Sample) => "var",
            Self::Variance(Of::Population) => "var_pop",
            Self::Deviation(Of::Sample) => "stddev",
            Self::Deviation(Of::Population) => "stddev_pop",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSpread {
    spread: Spread,
    signature: Signature,
}

impl AggregateUDFImpl for ExactSpread {
    fn name(&self) -> &str {
        self.spread.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, SCALE as i8))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return Ok(Box::new(Different::new(Sums::new(self.spread, &arguments))));
        }
        if small_integers::are_of(arguments.expr_fields) {
            return Ok(small_integers::of_all(self.spread));
        }
        Ok(Box::new(Sums::new(self.spread, &arguments)))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if small_integers::are_of(arguments.expr_fields) {
            return Ok(small_integers::of_groups(self.spread));
        }
        Ok(Box::new(GroupSums { none: Sums::new(self.spread, &arguments), groups: Vec::new() }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct {
            return Ok(Different::state_fields());
        }
        if small_integers::are_of(arguments.input_fields) {
            return Ok(small_integers::state_fields());
        }
        let field = |name, ty| Arc::new(Field::new(name, ty, true));
        Ok(vec![field("count", DataType::UInt64), field("sum", SUM), field("squares", SUM)])
    }
}

/// What is known of the values so far.
#[derive(Clone, Debug)]
struct Sums {
    spread: Spread,
    /// The digits behind the point of a value.
    scale: u32,
    count: u64,
    sum: i256,
    squares: i256,
}

impl Sums {
    fn new(spread: Spread, arguments: &AccumulatorArgs<'_>) -> Self {
        let scale = match arguments.expr_fields.first().map(|field| field.data_type()) {
            Some(DataType::Decimal128(_, scale)) => u32::from(scale.unsigned_abs()),
            _ => 0,
        };
        Self { spread, scale, count: 0, sum: i256::ZERO, squares: i256::ZERO }
    }

    fn add(&mut self, count: u64, sum: i256, squares: i256) -> Result<()> {
        self.count += count;
        self.sum = self.sum.checked_add(sum).ok_or_else(overflow)?;
        self.squares = self.squares.checked_add(squares).ok_or_else(overflow)?;
        Ok(())
    }

    /// How many values these are, their sum and that of their squares.
    fn of(values: &ArrayRef) -> Result<(u64, i256, i256)> {
        let values = decimals(values)?;
        let (mut sum, mut squares) = (i256::ZERO, i256::ZERO);
        for value in values.iter().flatten() {
            sum = sum.checked_add(i256::from_i128(value)).ok_or_else(overflow)?;
            squares = squares.checked_add(square(value)?).ok_or_else(overflow)?;
        }
        Ok(((values.len() - values.null_count()) as u64, sum, squares))
    }

    /// The variance as a fraction of integers, the squares of whose units are `10^-scale` each.
    fn fraction(&self, of: Of) -> Option<(i256, i256)> {
        let wide = |count: u64| i256::from_i128(i128::from(count));
        let squared = self.sum.checked_mul(self.sum)?;
        let numerator = self.squares.checked_mul(wide(self.count))?.checked_sub(squared)?;
        let degrees = if of == Of::Sample { self.count - 1 } else { self.count };
        Some((numerator, wide(self.count).checked_mul(wide(degrees))?))
    }

    /// The variance or deviation in units of its scale; `None` of too few values.
    fn outcome(&self) -> Result<Option<i128>> {
        let (Spread::Variance(of) | Spread::Deviation(of)) = self.spread;
        let least = if of == Of::Sample { 2 } else { 1 };
        if self.count < least {
            return Ok(None);
        }
        let fits = |result: &i128| *result < DECIMAL_LIMIT;
        let result = narrow::result(self, of).or_else(|| self.wide_result(of));
        Ok(Some(result.filter(fits).ok_or_else(overflow)?))
    }

    /// In 256 bits.
    fn wide_result(&self, of: Of) -> Option<i128> {
        let (numerator, denominator) = self.fraction(of)?;
        let squared_scale = 2 * self.scale;
        let leading = (leading(numerator, squared_scale), leading(denominator, 0));
        let digits = digits_behind_point(leading, squared_scale);
        let variance = rounded(numerator, denominator, digits as i32 - squared_scale as i32)?;
        let ten = i256::from_i128(10);
        let result = match self.spread {
            Spread::Variance(_) => i256::from_i128(variance),
            Spread::Deviation(_) => root(i256::from_i128(variance).checked_mul(ten.checked_pow(digits)?)?),
        };
        result.checked_mul(ten.checked_pow(SCALE - digits)?)?.to_i128()
    }
}

/// The values as decimals of the scale that they have.
fn decimals(values: &ArrayRef) -> Result<PrimitiveArray<Decimal128Type>> {
    Ok(match values.data_type() {
        DataType::Decimal128(..) => values.as_primitive().clone(),
        _ => cast(values, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))?.as_primitive().clone(),
    })
}

fn square(value: i128) -> Result<i256> {
    let wide = || i256::from_i128(value).checked_mul(i256::from_i128(value));
    let square = value.checked_mul(value).map(i256::from_i128).or_else(wide);
    Ok(square.ok_or_else(overflow)?)
}

/// The place of a number's first digit to the base 10,000, and the digit. Zero has no first one.
type Leading = (i32, u32);

/// How many digits behind the point PostgreSQL gives a quotient: so many that there are some sixteen in all, and no fewer than
/// the numerator has, which is `scale`; here at most as many as the type has.
fn digits_behind_point((numerator, denominator): (Leading, Leading), scale: u32) -> u32 {
    let weight = numerator.0 - denominator.0 - i32::from(numerator.1 <= denominator.1);
    let digits = SCALE as i32 - weight * DIGITS_PER_PLACE;
    digits.max(scale as i32).clamp(0, SCALE as i32) as u32
}

/// The decimal digits of one digit to the base that PostgreSQL computes in.
const DIGITS_PER_PLACE: i32 = 4;

fn leading(number: i256, scale: u32) -> Leading {
    if number == i256::ZERO {
        return (0, 0);
    }
    let digits = number.wrapping_abs().to_string();
    let exponent = digits.len() as i32 - 1 - scale as i32;
    let weight = exponent.div_euclid(DIGITS_PER_PLACE);
    let count = (exponent - weight * DIGITS_PER_PLACE + 1) as usize;
    let first: String = digits.chars().chain(std::iter::repeat('0')).take(count).collect();
    (weight, first.parse().unwrap_or_default())
}

/// `numerator / denominator * 10^shift`, cut off.
fn quotient(numerator: i256, denominator: i256, shift: i32) -> Option<i256> {
    let factor = i256::from_i128(10).checked_pow(shift.unsigned_abs())?;
    if shift >= 0 {
        numerator.checked_mul(factor)?.checked_div(denominator)
    } else {
        numerator.checked_div(denominator.checked_mul(factor)?)
    }
}

/// The same, rounded half up: a variance is not negative.
fn rounded(numerator: i256, denominator: i256, shift: i32) -> Option<i128> {
    let twice = quotient(numerator.checked_mul(i256::from_i128(2))?, denominator, shift)?;
    let half = twice.checked_add(i256::ONE)?.checked_div(i256::from_i128(2))?;
    half.to_i128()
}

/// The square root of what is not negative, rounded to the nearest integer.
fn root(square: i256) -> i256 {
    let two = i256::from_i128(2);
    let mut root = square;
    let mut next = (square.wrapping_add(i256::ONE)).wrapping_div(two);
    while next < root {
        root = next;
        next = root.wrapping_add(square.wrapping_div(root)).wrapping_div(two);
    }
    // What is left of the square is above a half of the next step.
    if square.wrapping_sub(root.wrapping_mul(root)) > root { root.wrapping_add(i256::ONE) } else { root }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (count, sum, squares) = Self::of(&values[0])?;
        self.add(count, sum, squares)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (count, sum, squares) = Self::of(&values[0])?;
        self.count -= count;
        self.add(0, sum.wrapping_neg(), squares.wrapping_neg())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = States::of(states)?;
        (0..states.counts.len()).try_for_each(|row| states.add_to(self, row))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = |sum| ScalarValue::Decimal256(Some(sum), DECIMAL256_MAX_PRECISION, 0);
        Ok(vec![ScalarValue::UInt64(Some(self.count)), sum(self.sum), sum(self.squares)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128(self.outcome()?, DECIMAL128_MAX_PRECISION, SCALE as i8))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The same of each group.
#[derive(Debug)]
struct GroupSums {
    /// Of no values.
    none: Sums,
    groups: Vec<Sums>,
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, self.none.clone());
        let values = decimals(&values[0])?;
        let kept_rows = KeptRows::of(filter);
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && kept_rows.has(row) {
                let value = values.value(row);
                self.groups[group].add(1, i256::from_i128(value), square(value)?)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, self.none.clone());
        let states = States::of(states)?;
        groups.iter().enumerate().try_for_each(|(row, &group)| states.add_to(&mut self.groups[group], row))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        let counts = UInt64Array::from_iter_values(groups.iter().map(|group| group.count));
        let wide = |values: Vec<i256>| {
            Ok::<ArrayRef, DataFusionError>(Arc::new(
                PrimitiveArray::<Decimal256Type>::from_iter_values(values)
                    .with_precision_and_scale(DECIMAL256_MAX_PRECISION, 0)?,
            ))
        };
        let sums = wide(groups.iter().map(|group| group.sum).collect())?;
        let squares = wide(groups.iter().map(|group| group.squares).collect())?;
        Ok(vec![Arc::new(counts), sums, squares])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let outcomes =
            groups.iter().map(Sums::outcome).collect::<Result<PrimitiveArray<Decimal128Type>>>()?;
        Ok(Arc::new(outcomes.with_precision_and_scale(DECIMAL128_MAX_PRECISION, SCALE as i8)?))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self { none: self.none.clone(), groups: Vec::new() };
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<Sums>()
    }
}

/// States that are merged.
struct States<'s> {
    counts: &'s UInt64Array,
    sums: &'s PrimitiveArray<Decimal256Type>,
    squares: &'s PrimitiveArray<Decimal256Type>,
}

impl<'s> States<'s> {
    fn of(states: &'s [ArrayRef]) -> Result<Self> {
        let [counts, sums, squares] = states else {
            return Err(SqlError::internal("the state of a variance has three parts").into());
        };
        let (counts, sums) = (counts.as_primitive(), sums.as_primitive());
        Ok(Self { counts, sums, squares: squares.as_primitive() })
    }

    fn add_to(&self, known: &mut Sums, row: usize) -> Result<()> {
        known.add(self.counts.value(row), self.sums.value(row), self.squares.value(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_those_of_the_nearest_integer() {
        for (square, wanted) in
            [(0, 0), (1, 1), (2, 1), (3, 2), (6, 2), (7, 3), (99, 10), (10_i128.pow(36), 10_i128.pow(18))]
        {
            assert_eq!(root(i256::from_i128(square)), i256::from_i128(wanted), "{square}");
        }
    }

    #[test]
    fn fractions_are_rounded_half_up() {
        let number = i256::from_i128;
        for (numerator, denominator, shift, wanted) in
            [(1, 2, 0, 1), (1, 3, 2, 33), (2, 3, 2, 67), (151, 1, -2, 2), (149, 1, -2, 1)]
        {
            assert_eq!(rounded(number(numerator), number(denominator), shift), Some(wanted), "{numerator}");
        }
    }

    /// Some rows at once, some as states of others, some left out by a filter.
    #[test]
    fn each_group_has_what_its_values_alone_have() {
        let none = |spread| Sums { spread, scale: 2, count: 0, sum: i256::ZERO, squares: i256::ZERO };
        let decimal = |values: &[Option<i128>]| -> ArrayRef {
            Arc::new(values.iter().copied().collect::<PrimitiveArray<Decimal128Type>>())
        };
        let rows: Vec<(usize, Option<i128>, bool)> = (0..600_i128)
            .map(|row| {
                let value =
                    (row % 7 != 0).then_some((row * 7_919 % 1_009 - 500) * 10_i128.pow((row % 3) as u32 * 4));
                ((row * row % 11) as usize, value, row % 5 != 0)
            })
            .collect();
        let of = |rows: &[(usize, Option<i128>, bool)]| {
            let groups: Vec<usize> = rows.iter().map(|row| row.0).collect();
            let filter: BooleanArray = rows.iter().map(|row| Some(row.2)).collect();
            (decimal(&rows.iter().map(|row| row.1).collect::<Vec<_>>()), groups, filter)
        };
        for spread in Spread::EACH {
            let mut grouped = GroupSums { none: none(spread), groups: Vec::new() };
            let (first, second) = rows.split_at(250);
            let (values, groups, filter) = of(first);
            grouped.update_batch(&[values], &groups, Some(&filter), 11).expect("small numbers");
            let (values, groups, filter) = of(second);
            let states = grouped.convert_to_state(&[values], Some(&filter)).expect("small numbers");
            grouped.merge_batch(&states, &groups, 11).expect("small numbers");
            let found = grouped.evaluate(EmitTo::All).expect("small numbers");
            let found: Vec<Option<i128>> = found.as_primitive::<Decimal128Type>().iter().collect();
            let alone = |group: usize| {
                let own = rows.iter().filter(|row| row.0 == group && row.2).map(|row| row.1);
                let mut sums = none(spread);
                sums.update_batch(&[decimal(&own.collect::<Vec<_>>())]).expect("small numbers");
                sums.outcome().expect("small numbers")
            };
            assert_eq!(found, (0..11).map(alone).collect::<Vec<_>>(), "{spread:?}");
        }
    }
}
