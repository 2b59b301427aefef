// SPDX-License-Identifier: Apache-2.0
//! Aggregates over windows that look whether their statement is to end, and ask for what they make.
//!
//! A window gives its operator a value for each row, in one go for all rows that it has, and a value may be an array of
//! all rows before (`array_agg(x) OVER (ORDER BY y)`): then a hundred thousand rows make ten thousand million members. The
//! operator counts nothing and looks at nothing, but it asks the aggregate for each row.

use crate::allowance::made;
use crate::cancel;
use crate::wrapped::as_wrapped;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ReversedUDAF, SetMonotonicity,
    WindowFunctionDefinition,
};
use std::sync::Arc;

/// Memory is asked for in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// A value is there by itself, and once more in the column that is made of all.
const COPIES: usize = 2;

/// The function of a window with this FILTER, as one that looks; `None` if it does already or is no aggregate.
pub(super) fn windowed(
    function: &WindowFunctionDefinition,
    filter: Option<&Expr>,
) -> Option<WindowFunctionDefinition> {
    match function {
        WindowFunctionDefinition::AggregateUDF(plain)
            if plain.inner().downcast_ref::<Windowed>().is_none() =>
        {
            let looking = Windowed { plain: Arc::clone(plain), has_filter: filter.is_some() };
            Some(WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::new_from_impl(looking))))
        }
        _ => None,
    }
}

/// Whether it is the function of a window without a FILTER, made by [`windowed`].
pub(crate) fn is_unfiltered(function: &AggregateUDF) -> bool {
    plain_of_unfiltered(function).is_some()
}

/// What [`windowed`] has made the function of a window without a FILTER of; `None` if it is another function.
pub(crate) fn plain_of_unfiltered(function: &AggregateUDF) -> Option<&AggregateUDF> {
    let windowed = function.inner().downcast_ref::<Windowed>().filter(|windowed| !windowed.has_filter)?;
    Some(windowed.plain.as_ref())
}

/// The function that [`windowed`] makes of this one, for a window without a FILTER.
pub(crate) fn unfiltered_of_plain(plain: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Windowed { plain, has_filter: false }))
}

/// An aggregate over a window.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Windowed {
    plain: Arc<AggregateUDF>,
    /// Kept here because the physical expression of a window does not tell it.
    has_filter: bool,
}

impl AggregateUDFImpl for Windowed {
    as_wrapped!(plain: name, aliases, signature, return_type, coerce_types, order_sensitivity, is_descending);

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Looking { plain: self.plain.accumulator(arguments)?, unasked: 0 }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Looking { plain: self.plain.create_sliding_accumulator(arguments)?, unasked: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(arguments)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let plain = Arc::clone(self.plain.inner()).with_beneficial_ordering(beneficial_ordering)?;
        let has_filter = self.has_filter;
        Ok(plain.map(|plain| {
            Arc::new(Self { plain: Arc::new(AggregateUDF::new_from_shared_impl(plain)), has_filter }) as _
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.plain.reverse_udf() {
            ReversedUDAF::Reversed(plain) => {
                let reversed = Self { plain, has_filter: self.has_filter };
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(reversed)))
            }
            kept => kept,
        }
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(ty)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    /// Nothing is said, because DataFusion makes too much of it, and leaves out sorts that are needed: it takes what grows with its frame for
    /// sorted with NULLs last, though NULLs come first there, before the first value; and the count of rows in a frame that moves for
    /// sorted over all partitions, and where NULLs come into the frame.
    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}

/// The aggregate of one window.
#[derive(Debug)]
struct Looking {
    plain: Box<dyn Accumulator>,
    /// Bytes of values that are not asked for yet.
    unasked: usize,
}

impl Accumulator for Looking {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        cancel::check()?;
        self.plain.update_batch(values)
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
        cancel::check()?;
        let value = self.plain.evaluate()?;
        // The values themselves are counted where the rows are kept.
        self.unasked += (value.size() - size_of::<ScalarValue>()) * COPIES;
        if self.unasked >= STEP_BYTES {
            made(std::mem::take(&mut self.unasked))?;
        }
        Ok(value)
    }

    fn size(&self) -> usize {
        self.plain.size() + size_of::<Self>()
    }
}
