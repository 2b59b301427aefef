// SPDX-License-Identifier: Apache-2.0
//! Functions over windows.
//!
//! | | PostgreSQL and here | DataFusion |
//! |---|---|---|
//! | `row_number`, `rank`, `dense_rank` | `bigint`; `ntile` is `int` | 64 bits without a sign, which no sum of `int` is |
//! | `array_agg(x) OVER (ORDER BY x DESC)` | in the order of the window | the other way round, if the rows come so |

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, WindowFunctionDefinition,
};
use std::sync::Arc;

/// The type of what counts places in a window; `None` for other functions.
pub(super) fn type_of_place(function: &WindowFunctionDefinition) -> Option<DataType> {
    let WindowFunctionDefinition::WindowUDF(function) = function else { return None };
    match function.name() {
        "row_number" | "rank" | "dense_rank" => Some(DataType::Int64),
        "ntile" => Some(DataType::Int32),
        _ => None,
    }
}

/// The function whose result depends on the order of its rows, as one that is not computed from the window's end.
pub(super) fn in_order(function: &WindowFunctionDefinition) -> Option<WindowFunctionDefinition> {
    let WindowFunctionDefinition::AggregateUDF(plain) = function else { return None };
    matches!(plain.name(), "array_agg" | "string_agg").then(|| {
        let ordered = InOrder { plain: Arc::clone(plain) };
        WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::new_from_impl(ordered)))
    })
}

/// An aggregate that is not turned round: DataFusion's turns the frame, and leaves the elements as they come.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InOrder {
    plain: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for InOrder {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(types)
    }
}
