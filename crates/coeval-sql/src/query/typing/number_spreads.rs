// SPDX-License-Identifier: Apache-2.0
//! `variance`, `stddev` and their like of `numeric` without digits, from exact sums. Of all other values they are the functions that were
//! there; those of [integers and decimals](super::variances) and of [floats](super::float_spreads) take their places once the types are settled.
//!
//! With `n` values the variance is `(n * squares - sum * sum) / (n * (n - 1))`. It is NaN if a value is NaN or infinite.

use super::exact_types::is_any_numeric;
use super::number_functions::with_numbers;
use super::variances::{Of, Spread};
use crate::cancel;
use crate::error::SqlError;
use crate::types::any_numeric::AnyNumeric;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use coeval_store::AnyNumberRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature};
use std::sync::Arc;

/// The functions of a registry, which know such numbers beside what they know already.
///
/// # Errors
/// If one of them is missing there: a bug.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<Arc<AggregateUDF>>> {
    let known = Spread::EACH.into_iter().map(|spread| {
        let general = registry.udaf(spread.name())?;
        let signature = with_numbers(general.signature());
        Ok(Arc::new(AggregateUDF::new_from_impl(NumberSpread { spread, general, signature })))
    });
    known.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumberSpread {
    spread: Spread,
    general: Arc<AggregateUDF>,
    signature: Signature,
}

fn is_of_numbers(arguments: &AccumulatorArgs<'_>) -> bool {
    is_any_numeric(arguments.return_field.data_type())
}

impl AggregateUDFImpl for NumberSpread {
    fn name(&self) -> &str {
        self.spread.name()
    }

    fn aliases(&self) -> &[String] {
        self.general.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.iter().any(is_any_numeric) { Ok(types.to_vec()) } else { self.general.coerce_types(types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty] if is_any_numeric(ty) => Ok(ty.clone()),
            types => self.general.return_type(types),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !is_of_numbers(&arguments) {
            return self.general.accumulator(arguments);
        }
        if arguments.is_distinct {
            let what = format!("{}(DISTINCT x) of numeric without digits", self.name());
            let hint = "Cast it to a numeric with digits: x::numeric(38,10).";
            return Err(SqlError::unsupported(what).with_hint(hint).into());
        }
        let none = AnyNumeric::whole(0);
        Ok(Box::new(Sums { spread: self.spread, count: 0, sum: none.clone(), squares: none }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let number = arguments.return_field.data_type().clone();
        if !is_any_numeric(&number) {
            return self.general.state_fields(arguments);
        }
        let field = |name: &str, ty| Arc::new(Field::new(name, ty, true));
        Ok(vec![field("count", DataType::UInt64), field("sum", number.clone()), field("squares", number)])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !is_of_numbers(&arguments) && self.general.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.general.create_groups_accumulator(arguments)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_of_numbers(&arguments) {
            return self.accumulator(arguments);
        }
        self.general.create_sliding_accumulator(arguments)
    }
}

/// How many values there are, their sum and that of their squares.
#[derive(Debug)]
struct Sums {
    spread: Spread,
    count: u64,
    sum: AnyNumeric,
    squares: AnyNumeric,
}

/// The numbers of a column that are not NULL.
fn numbers(values: &ArrayRef) -> impl Iterator<Item = AnyNumeric> + '_ {
    values.as_binary::<i64>().iter().flatten().map(|bytes| AnyNumeric::of(AnyNumberRef::new(bytes)))
}

fn scalar(number: &AnyNumeric) -> Result<ScalarValue> {
    Ok(ScalarValue::LargeBinary(Some(number.number()?.borrow().as_bytes().to_vec())))
}

impl Sums {
    /// The variance or deviation; `None` of too few values.
    fn outcome(&self) -> Result<Option<AnyNumeric>, SqlError> {
        let (Spread::Variance(of) | Spread::Deviation(of)) = self.spread;
        let degrees = if of == Of::Sample { self.count.saturating_sub(1) } else { self.count };
        if degrees == 0 {
            return Ok(None);
        }
        let (Some(_), Some(_)) = (self.sum.scale(), self.squares.scale()) else {
            return Ok(Some(AnyNumeric::NaN));
        };
        let count = AnyNumeric::whole(self.count);
        let numerator = self.squares.product(&count).difference(&self.sum.product(&self.sum));
        if numerator.is_negative() || numerator.is_zero() {
            return Ok(Some(AnyNumeric::whole(0)));
        }
        let variance = numerator.quotient(&count.product(&AnyNumeric::whole(degrees)))?;
        match self.spread {
            Spread::Variance(_) => Ok(Some(variance)),
            Spread::Deviation(_) => Ok(Some(variance.root_with_its_digits())),
        }
    }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for number in numbers(&values[0]) {
            cancel::check()?;
            self.sum = self.sum.sum(&number);
            self.squares = self.squares.sum(&number.product(&number));
            self.count += 1;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.count += arrow::compute::sum(states[0].as_primitive::<UInt64Type>()).unwrap_or(0);
        for (sum, squares) in numbers(&states[1]).zip(numbers(&states[2])) {
            cancel::check()?;
            self.sum = self.sum.sum(&sum);
            self.squares = self.squares.sum(&squares);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.count)), scalar(&self.sum)?, scalar(&self.squares)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        cancel::check()?;
        match self.outcome()? {
            Some(outcome) => scalar(&outcome),
            None => Ok(ScalarValue::LargeBinary(None)),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + digits_bytes(&self.sum) + digits_bytes(&self.squares)
    }
}

/// What the digits of a number take.
fn digits_bytes(number: &AnyNumeric) -> usize {
    match number {
        AnyNumeric::Finite(finite) => usize::try_from(finite.units.bits() / 8).unwrap_or(usize::MAX),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::any_numeric::parse_number;
    use arrow::array::LargeBinaryArray;

    #[test]
    fn sums_of_numbers_with_many_digits_say_what_they_take() {
        let none = AnyNumeric::whole(0);
        let spread = Spread::Variance(Of::Sample);
        let mut sums = Sums { spread, count: 0, sum: none.clone(), squares: none };
        // Few bytes, but sixty thousand digits, and twice as many of its square.
        let number = parse_number("1e60000").unwrap();
        let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([number.borrow().as_bytes()]));
        sums.update_batch(&[values]).unwrap();
        assert!(sums.size() > 70_000, "{} bytes", sums.size());
    }
}
