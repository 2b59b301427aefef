// SPDX-License-Identifier: Apache-2.0
//! `corr`, `covar_pop` and their like as they are planned: they take `numeric` without digits beside what they take already. Once the types
//! are settled [those of floats](super::regressions) stand in their places.

use super::exact_types::is_any_numeric;
use super::number_functions::with_numbers;
use super::regressions::Regression;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature};
use std::sync::Arc;

/// The functions of a registry, which take such numbers, too.
///
/// # Errors
/// If one of them is missing there: a bug.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<Arc<AggregateUDF>>> {
    let known = Regression::all().map(|of_floats| {
        let general = registry.udaf(of_floats.name())?;
        let signature = with_numbers(general.signature());
        Ok(Arc::new(AggregateUDF::new_from_impl(NumberPairs { general, signature })))
    });
    known.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumberPairs {
    general: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for NumberPairs {
    fn name(&self) -> &str {
        self.general.name()
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
        // The numbers are floats by then.
        let as_float = |ty: &DataType| if is_any_numeric(ty) { DataType::Float64 } else { ty.clone() };
        self.general.return_type(&types.iter().map(as_float).collect::<Vec<_>>())
    }

    fn is_nullable(&self) -> bool {
        self.general.is_nullable()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.general.default_value(ty)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.general.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.general.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.general.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.general.create_groups_accumulator(arguments)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.general.create_sliding_accumulator(arguments)
    }
}
