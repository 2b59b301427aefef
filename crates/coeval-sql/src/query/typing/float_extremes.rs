// SPDX-License-Identifier: Apache-2.0
//! `min` and `max` of floats in PostgreSQL's order: NaN is above all numbers, and infinities are numbers like others.
//!
//! DataFusion begins the extremes of groups with the least and the greatest finite number, which infinities are not beyond, and lets
//! whatever follows a NaN take its place. Of one group, and over windows, it goes by Arrow's order, which is PostgreSQL's once there
//! is [one NaN](with_one_nan).

use super::kept_rows::KeptRows;
use crate::error::SqlError;
use crate::types::with_one_nan;
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};
use datafusion::physical_expr::NullState;
use std::sync::{Arc, LazyLock};

/// Which float is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    /// What an aggregate finds; `None` if it is another one.
    pub(super) fn of(function: &str) -> Option<Self> {
        match function {
            "min" => Some(Self::Least),
            "max" => Some(Self::Greatest),
            _ => None,
        }
    }

    /// The aggregate of floats.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
            [(Extreme::Least, min_udaf()), (Extreme::Greatest, max_udaf())].map(|(extreme, plain)| {
                let signature = Signature::any(1, Volatility::Immutable);
                Arc::new(AggregateUDF::new_from_impl(ExtremeFloat { extreme, plain, signature }))
            })
        });
        let [least, greatest] = &*FUNCTIONS;
        Arc::clone(if self == Self::Least { least } else { greatest })
    }

    /// Whether a value takes the place of the extreme so far.
    fn is_beyond<N: ArrowNativeTypeOp>(self, value: N, so_far: N) -> bool {
        match self {
            Self::Least => value.is_lt(so_far),
            Self::Greatest => value.is_gt(so_far),
        }
    }

    /// What all values are beyond.
    fn of_none<N: ArrowNativeTypeOp>(self) -> N {
        match self {
            Self::Least => N::MAX_TOTAL_ORDER,
            Self::Greatest => N::MIN_TOTAL_ORDER,
        }
    }
}

/// DataFusion's function, but for the order of floats.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtremeFloat {
    extreme: Extreme,
    plain: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for ExtremeFloat {
    as_wrapped!(plain: name, return_type, is_descending, order_sensitivity);
    as_wrapped!(plain: value_from_stats, set_monotonicity);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OfOneNan { plain: self.plain.accumulator(arguments)? }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match arguments.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(ExtremesOfGroups::<Float32Type>::new(self.extreme))),
            DataType::Float64 => Ok(Box::new(ExtremesOfGroups::<Float64Type>::new(self.extreme))),
            other => Err(SqlError::internal(format!("{other} is no type of floats")).into()),
        }
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OfOneNan { plain: self.plain.create_sliding_accumulator(arguments)? }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// An accumulator that goes by Arrow's order, of floats with one NaN.
#[derive(Debug)]
struct OfOneNan {
    plain: Box<dyn Accumulator>,
}

impl Accumulator for OfOneNan {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.plain.update_batch(&[with_one_nan(&values[0])])
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.plain.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.plain.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.plain.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.plain.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.plain.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.plain.size()
    }
}

/// The extreme of each group.
struct ExtremesOfGroups<T: ArrowPrimitiveType> {
    extreme: Extreme,
    extremes: Vec<T::Native>,
    nulls: NullState,
}

impl<T: ArrowPrimitiveType> ExtremesOfGroups<T> {
    fn new(extreme: Extreme) -> Self {
        Self { extreme, extremes: Vec::new(), nulls: NullState::new() }
    }
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for ExtremesOfGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let (extreme, extremes) = (self.extreme, &mut self.extremes);
        extremes.resize(total, extreme.of_none());
        let floats = with_one_nan(&values[0]);
        self.nulls.accumulate(groups, floats.as_primitive::<T>(), filter, total, |group, value| {
            let so_far = &mut extremes[group];
            if extreme.is_beyond(value, *so_far) {
                *so_far = value;
            }
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let extremes = emit_to.take_needed(&mut self.extremes);
        Ok(Arc::new(PrimitiveArray::<T>::new(extremes.into(), self.nulls.build(emit_to))))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let floats = values[0].as_primitive::<T>();
        let kept = KeptRows::of(filter).into_nulls();
        let nulls = NullBuffer::union(floats.nulls(), kept.as_ref());
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(floats.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        self.extremes.capacity() * size_of::<T::Native>() + self.nulls.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;

    /// The extremes of rows in two groups.
    fn extremes(extreme: Extreme, rows: &[(usize, f64)]) -> Vec<Option<f64>> {
        let mut accumulator = ExtremesOfGroups::<Float64Type>::new(extreme);
        // Each row comes by itself, through a state.
        for (group, value) in rows {
            let values: ArrayRef = Arc::new(Float64Array::from(vec![*value]));
            let state = accumulator.convert_to_state(&[values], None).expect("one value");
            accumulator.merge_batch(&state, &[*group], 2).expect("one state");
        }
        let found = accumulator.evaluate(EmitTo::All).expect("two groups");
        found.as_primitive::<Float64Type>().iter().collect()
    }

    #[test]
    fn extremes_of_groups_go_by_an_order_of_all_floats() {
        let shown = |extreme, rows: &[(usize, f64)]| format!("{:?}", extremes(extreme, rows));
        let infinite = [(0, f64::NEG_INFINITY), (1, f64::INFINITY)];
        assert_eq!(shown(Extreme::Greatest, &infinite), "[Some(-inf), Some(inf)]");
        assert_eq!(shown(Extreme::Least, &infinite), "[Some(-inf), Some(inf)]");
        let mixed = [(0, f64::NAN), (0, 1.0), (1, 2.0), (1, -f64::NAN), (1, f64::INFINITY)];
        assert_eq!(shown(Extreme::Greatest, &mixed), "[Some(NaN), Some(NaN)]");
        assert_eq!(shown(Extreme::Least, &mixed), "[Some(1.0), Some(2.0)]");
        let of_nan = [(0, -f64::NAN), (1, f64::INFINITY)];
        assert_eq!(shown(Extreme::Least, &of_nan), "[Some(NaN), Some(inf)]");
        assert_eq!(extremes(Extreme::Least, &of_nan)[0].map(f64::to_bits), Some(f64::NAN.to_bits()));
    }
}
