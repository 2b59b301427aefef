// SPDX-License-Identifier: Apache-2.0
//! `array_agg` and `string_agg` with DISTINCT, which DataFusion is not to turn round.
//!
//! Where rows come in the opposite order, or another aggregate of the query asks for it, DataFusion has an aggregate with
//! ORDER BY read them backwards and turns its order round. With DISTINCT the values are sorted at the end by the order
//! that the aggregate has then, so that they came out in the wrong one.

use crate::wrapped::as_wrapped;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, ReversedUDAF};
use std::sync::Arc;

/// The function, but that it has no form for the opposite order.
pub(super) fn unreversed(plain: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Unreversed { plain }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Unreversed {
    plain: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Unreversed {
    as_wrapped!(plain: name, signature, return_type, order_sensitivity);

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(fields)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let plain = AggregateUDF::clone(&self.plain).with_beneficial_ordering(is_ordered)?;
        Ok(plain.map(|plain| Arc::new(Self { plain: Arc::new(plain) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(ty)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }
}
