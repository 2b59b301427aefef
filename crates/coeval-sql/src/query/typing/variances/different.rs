// SPDX-License-Identifier: Apache-2.0
//! Variances and deviations of different values, `stddev(DISTINCT x)`, where rows are not grouped by these first: beside other aggregates.

use super::{Sums, decimals, square};
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, i256};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use std::collections::HashSet;
use std::sync::Arc;

/// The type of values without their scale, which is the same for all.
const VALUE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// The values so far, each once.
#[derive(Debug)]
pub(super) struct Different {
    /// What is computed of them, as it is of none.
    none: Sums,
    /// Without their scale.
    values: HashSet<i128>,
}

impl Different {
    /// None yet.
    pub(super) fn new(none: Sums) -> Self {
        Self { none, values: HashSet::new() }
    }

    /// The parts of what is known of values.
    pub(super) fn state_fields() -> Vec<FieldRef> {
        let values = DataType::List(Arc::new(Field::new_list_field(VALUE, true)));
        vec![Arc::new(Field::new("values", values, true))]
    }
}

impl Accumulator for Different {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(decimals(&values[0])?.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = PrimitiveArray::<Decimal128Type>::from_iter_values(self.values.iter().copied());
        let values: ArrayRef = Arc::new(values.with_data_type(VALUE));
        Ok(vec![SingleRowListArrayBuilder::new(values).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sums = self.none.clone();
        for &value in &self.values {
            sums.add(1, i256::from_i128(value), square(value)?)?;
        }
        sums.evaluate()
    }

    fn size(&self) -> usize {
        // A byte of each place tells whether there is a value.
        size_of_val(self) + self.values.capacity() * (size_of::<i128>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spread;
    use super::*;
    use arrow::array::{Array, Int32Array, Int64Array};

    /// Some values come as rows, some as the states of others, and most of them more than once.
    #[test]
    fn each_value_counts_once() {
        let array = |values: &[Option<i32>]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
        for spread in Spread::EACH {
            let none = || Sums { spread, scale: 0, count: 0, sum: i256::ZERO, squares: i256::ZERO };
            let (mut ours, mut others) = (Different::new(none()), Different::new(none()));
            ours.update_batch(&[array(&[Some(7), None, Some(7), Some(i32::MIN), Some(0)])]).unwrap();
            others.update_batch(&[array(&[Some(0), Some(7), Some(12), Some(12)])]).unwrap();
            let nothing = Different::new(none()).state().unwrap();
            for state in [others.state().unwrap(), nothing] {
                let state: Vec<ArrayRef> = state.iter().map(|part| part.to_array().unwrap()).collect();
                assert_eq!(state[0].data_type(), Different::state_fields()[0].data_type());
                ours.merge_batch(&state).unwrap();
            }
            let each: ArrayRef = Arc::new(Int64Array::from(vec![7, i64::from(i32::MIN), 0, 12]));
            let mut once = none();
            once.update_batch(&[each]).unwrap();
            assert_eq!(ours.evaluate().unwrap(), once.evaluate().unwrap(), "{spread:?}");
        }
    }
}
