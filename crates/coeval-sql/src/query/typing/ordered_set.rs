// SPDX-License-Identifier: Apache-2.0
//! All values of a group but NULLs, in any order: what `percentile_disc`, `percentile_cont` and `mode` look in.
//!
//! An array as that of `array_agg`, and kept and counted as that one is. It knows the type of its elements, by which they
//! are ordered: those of a `jsonb` are texts as well.

use super::collected;
use crate::functions::ORDERED_SET;
use crate::types::{column_type_of_field, marked_field};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{ColumnType, ElementType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The aggregate.
pub(super) fn ordered_set() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(OrderedSet { array: collected::array_agg(), signature }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    array: Arc<AggregateUDF>,
    signature: Signature,
}

/// The call as one that passes NULLs over.
fn without_nulls(arguments: AccumulatorArgs<'_>) -> AccumulatorArgs<'_> {
    AccumulatorArgs { ignore_nulls: true, ..arguments }
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        ORDERED_SET
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.array.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let element = fields.first().and_then(|field| column_type_of_field(field)).and_then(ElementType::of);
        Ok(Arc::new(match element {
            Some(element) => marked_field(field, ColumnType::Array(element)),
            None => field,
        }))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.array.accumulator(without_nulls(arguments))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.array.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.array.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.array.create_groups_accumulator(without_nulls(arguments))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.array.default_value(ty)
    }
}
