// SPDX-License-Identifier: Apache-2.0
//! `sum` that never wraps: a sum of `numeric` beyond 38 digits is an error.
//!
//! DataFusion adds decimals modulo 2^128. That cannot be reached by values of up to 28 digits (there would have to be
//! ten thousand million of them), so these keep its accumulators; values of more digits are added by those here. So are
//! those of `bigint`, whose sum is a `numeric` of 38 digits, without each of them becoming one. Those of floats are [`float_sums`]',
//! over a frame that moves [`float_frames`]'; those of intervals [`interval_sums`]'; those of `numeric` without digits
//! [`number_sums`](super::number_sums)'.

use super::exact_types::is_any_numeric;
use super::kept_rows::KeptRows;
use super::number_functions::with_numbers;
use super::number_sums::NumberSum;
use super::{float_frames, float_sums, interval_sums};
use crate::error::SqlError;
use crate::types::numeric::{DECIMAL_LIMIT, overflow};
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, FieldRef, Int64Type, IntervalUnit, UInt64Type,
};
use coeval_operators::vector;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, Signature, Volatility,
};
use datafusion::physical_expr::NullState;
use std::sync::{Arc, LazyLock};

/// Digits of values whose sums are not checked.
const UNCHECKED_DIGITS_MAX: u8 = 28;

/// The function `sum`.
pub(super) fn sum() -> Arc<AggregateUDF> {
    static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let plain = sum_udaf();
        let signature = with_numbers(plain.signature());
        Arc::new(AggregateUDF::new_from_impl(Sum { plain, signature, bigint: BigintSum::Bigint }))
    });
    Arc::clone(&SUM)
}

/// The same with a `numeric` as the sum of `bigint`.
pub(super) fn sum_of_bigint() -> Arc<AggregateUDF> {
    static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Sum {
            plain: sum_udaf(),
            signature,
            bigint: BigintSum::Numeric,
        }))
    });
    Arc::clone(&SUM)
}

/// DataFusion's function, but for the accumulators of long decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    plain: Arc<AggregateUDF>,
    signature: Signature,
    bigint: BigintSum,
}

/// What a sum of 64-bit integers is: of `integer` (which has been made wider by then) a `bigint`, of `bigint` a `numeric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum BigintSum {
    Bigint,
    Numeric,
}

impl Sum {
    /// Whether values are added up here.
    fn is_long(&self, arguments: &AccumulatorArgs<'_>) -> bool {
        let is_long = |field: &FieldRef| match field.data_type() {
            DataType::Decimal128(digits, _) => *digits > UNCHECKED_DIGITS_MAX,
            DataType::Int64 => self.bigint == BigintSum::Numeric,
            _ => false,
        };
        arguments.expr_fields.first().is_some_and(is_long)
    }
}

/// Whether it is a sum of numbers of any number of digits.
fn is_of_numbers(arguments: &AccumulatorArgs<'_>) -> bool {
    is_any_numeric(arguments.return_field.data_type())
}

/// The sum of such numbers.
///
/// # Errors
/// `0A000` of different ones beside other aggregates: alone they are grouped first.
fn sum_of_numbers(arguments: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    if arguments.is_distinct {
        let error =
            SqlError::unsupported("sum(DISTINCT x) of numeric without digits beside other aggregates");
        return Err(error.with_hint("Cast it to a numeric with digits: x::numeric(38,10).").into());
    }
    Ok(Box::new(NumberSum::default()))
}

/// Whether it is a sum of floats, of all of them.
fn is_of_floats(arguments: &AccumulatorArgs<'_>) -> bool {
    arguments.return_field.data_type().is_floating() && !arguments.is_distinct
}

/// Whether it is a sum of intervals, of all of them.
fn is_of_intervals(arguments: &AccumulatorArgs<'_>) -> bool {
    *arguments.return_field.data_type() == DataType::Interval(IntervalUnit::MonthDayNano)
        && !arguments.is_distinct
}

impl AggregateUDFImpl for Sum {
    as_wrapped!(plain: name, value_from_stats, set_monotonicity);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.iter().any(is_any_numeric) { Ok(types.to_vec()) } else { self.plain.coerce_types(types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty] if is_any_numeric(ty) => Ok(ty.clone()),
            [DataType::Int64] if self.bigint == BigintSum::Numeric => {
                Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
            }
            types => self.plain.return_type(types),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_of_numbers(&arguments) {
            return sum_of_numbers(&arguments);
        }
        if is_of_floats(&arguments) {
            return Ok(float_sums::one());
        }
        if is_of_intervals(&arguments) {
            return Ok(interval_sums::one());
        }
        let ty = arguments.return_field.data_type().clone();
        if !ty.is_floating() && !self.is_long(&arguments) {
            return self.plain.accumulator(arguments);
        }
        if arguments.is_distinct {
            return Ok(Box::new(DistinctSum { values: self.plain.accumulator(arguments)?, ty }));
        }
        Ok(Box::new(RunningSum { sum: 0, values: 0, ty }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !is_of_numbers(&arguments) && self.plain.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if is_of_floats(&arguments) {
            return Ok(float_sums::of_groups());
        }
        if is_of_intervals(&arguments) {
            return Ok(interval_sums::of_groups());
        }
        if !self.is_long(&arguments) {
            return self.plain.create_groups_accumulator(arguments);
        }
        let ty = arguments.return_field.data_type().clone();
        Ok(Box::new(GroupSums { sums: Vec::new(), nulls: NullState::new(), ty }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_of_numbers(&arguments) {
            return sum_of_numbers(&arguments);
        }
        if is_of_floats(&arguments) {
            return Ok(float_frames::sum());
        }
        if is_of_intervals(&arguments) {
            return Ok(interval_sums::one());
        }
        if !self.is_long(&arguments) || arguments.is_distinct {
            return self.plain.create_sliding_accumulator(arguments);
        }
        let ty = arguments.return_field.data_type().clone();
        Ok(Box::new(RunningSum { sum: 0, values: 0, ty }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        if self.bigint == BigintSum::Numeric {
            // What DataFusion makes of it mixes the sum with integers.
            return Ok(None);
        }
        self.plain.inner().simplify_expr_op_literal(function, argument, operator, literal, argument_is_left)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }
}

/// Whether a `numeric` can be this value.
fn fits(value: i128) -> bool {
    value.unsigned_abs() < DECIMAL_LIMIT.unsigned_abs()
}

/// A sum that is an error as soon as it leaves the range of `numeric`.
fn added(sum: i128, value: i128) -> Result<i128> {
    let sum = sum.checked_add(value).filter(|sum| fits(*sum));
    Ok(sum.ok_or_else(overflow)?)
}

fn values_of(array: &ArrayRef) -> impl Iterator<Item = i128> + '_ {
    array.as_primitive::<Decimal128Type>().iter().flatten()
}

/// The sum of values of 64 bits.
fn wide_sum(values: &PrimitiveArray<Int64Type>) -> i128 {
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => vector::sum(values.values()),
        Some(nulls) => vector::sum_where(values.values(), nulls.inner()),
    }
}

/// One sum, also over a window whose first values leave it again.
#[derive(Debug)]
struct RunningSum {
    sum: i128,
    /// How many values are in it.
    values: u64,
    ty: DataType,
}

impl Accumulator for RunningSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = match values[0].as_primitive_opt::<Int64Type>() {
            Some(values) => added(self.sum, wide_sum(values))?,
            None => values_of(&values[0]).try_fold(self.sum, added)?,
        };
        self.values += (values[0].len() - values[0].null_count()) as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = match values[0].as_primitive_opt::<Int64Type>() {
            Some(values) => added(self.sum, -wide_sum(values))?,
            None => values_of(&values[0]).try_fold(self.sum, |sum, value| added(sum, -value))?,
        };
        self.values -= (values[0].len() - values[0].null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])?;
        if let Some(counts) = states.get(1) {
            self.values += arrow::compute::sum(counts.as_primitive::<UInt64Type>()).unwrap_or(0);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<Decimal128Type>((self.values > 0).then_some(self.sum), &self.ty)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum of different values, which DataFusion's accumulator collects: of long decimals, or of floats.
#[derive(Debug)]
struct DistinctSum {
    values: Box<dyn Accumulator>,
    ty: DataType,
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum: Box<dyn Accumulator> = match self.ty {
            DataType::Float64 => float_sums::one(),
            _ => Box::new(RunningSum { sum: 0, values: 0, ty: self.ty.clone() }),
        };
        for state in self.values.state()? {
            if let ScalarValue::List(list) = state {
                sum.update_batch(&[Arc::clone(list.values())])?;
            }
        }
        sum.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}

/// What a sum is once it has left the range: no decimal has this value, and nothing brings it back.
const OVERFLOWN: i128 = i128::MIN;

/// A sum for each group.
#[derive(Debug)]
struct GroupSums {
    sums: Vec<i128>,
    nulls: NullState,
    ty: DataType,
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        let sums = &mut self.sums;
        let mut add = |group: usize, value: i128| {
            let sum = &mut sums[group];
            let added = if *sum == OVERFLOWN { None } else { sum.checked_add(value) };
            *sum = added.unwrap_or(OVERFLOWN);
        };
        match values[0].as_primitive_opt::<Int64Type>() {
            Some(values) => {
                self.nulls.accumulate(groups, values, filter, total, |group, value| add(group, value.into()))
            }
            None => {
                let values = values[0].as_primitive::<Decimal128Type>();
                self.nulls.accumulate(groups, values, filter, total, add);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let sums = PrimitiveArray::<Decimal128Type>::new(sums.into(), self.nulls.build(emit_to));
        Ok(vec![Arc::new(sums.with_data_type(self.ty.clone()))])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.state(emit_to)?.swap_remove(0);
        if values_of(&sums).all(fits) { Ok(sums) } else { Err(overflow().into()) }
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let wide = match values[0].as_primitive_opt::<Int64Type>() {
            Some(values) => values.unary::<_, Decimal128Type>(i128::from),
            None => values[0].as_primitive::<Decimal128Type>().clone(),
        };
        let kept = KeptRows::of(filter).into_nulls();
        let nulls = NullBuffer::union(wide.nulls(), kept.as_ref());
        let sums = PrimitiveArray::<Decimal128Type>::new(wide.values().clone(), nulls);
        Ok(vec![Arc::new(sums.with_data_type(self.ty.clone()))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.nulls.size()
    }
}
