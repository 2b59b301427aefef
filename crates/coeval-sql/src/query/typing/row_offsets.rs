// SPDX-License-Identifier: Apache-2.0
//! `lag`, `lead` and `nth_value` whose second argument is not the same for all rows: `lag(x, n) OVER (ORDER BY x)`. DataFusion takes
//! a constant alone, so the dialect calls these instead, which look at the argument of the row at hand as PostgreSQL does; also of
//! `nth_value` for a constant that is no place.

use crate::error::{SqlError, SqlState};
use crate::types::common_arrow_type;
use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use std::ops::Range;
use std::sync::Arc;

/// The functions, each with the name of the one that it stands for.
pub(in crate::query) const BY_ROW: [(&str, &str); 3] =
    [("lag", "coeval_lag"), ("lead", "coeval_lead"), ("nth_value", NTH_VALUE_BY_ROW)];

/// The one for `nth_value`.
pub(in crate::query) const NTH_VALUE_BY_ROW: &str = "coeval_nth_value";

/// Those functions, for the engine's registry.
pub(super) fn functions() -> [Arc<WindowUDF>; 3] {
    [Kind::Lag, Kind::Lead, Kind::Nth].map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(WindowUDF::new_from_impl(ByRow { kind, signature }))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Lag,
    Lead,
    Nth,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByRow {
    kind: Kind,
    signature: Signature,
}

impl WindowUDFImpl for ByRow {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Lag => BY_ROW[0].1,
            Kind::Lead => BY_ROW[1].1,
            Kind::Nth => BY_ROW[2].1,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, types) {
            (_, [value, _]) => Ok(vec![value.clone(), DataType::Int64]),
            (Kind::Lag | Kind::Lead, [value, _, default]) => {
                let common = common_arrow_type([value, default]).unwrap_or_else(|| value.clone());
                Ok(vec![common.clone(), DataType::Int64, common])
            }
            _ => {
                let message = format!("function {} does not exist", self.name());
                Err(SqlError::new(SqlState::UndefinedFunction, message).into())
            }
        }
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(match self.kind {
            Kind::Lag | Kind::Lead => Box::new(Shifted { is_ahead: self.kind == Kind::Lead }),
            Kind::Nth => Box::new(Nth { row: 0 }),
        })
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let Some(value) = arguments.get_input_field(0) else {
            return Err(SqlError::internal("a function of rows takes arguments").into());
        };
        Ok(Arc::new(value.as_ref().clone().with_name(arguments.name()).with_nullable(true)))
    }
}

/// `lag` and `lead`: values so many rows before or behind the one at hand, whatever its frame is.
#[derive(Debug)]
struct Shifted {
    is_ahead: bool,
}

impl Shifted {
    /// The row that is so far from this one; `None` if it is none of so many.
    fn row_from(&self, row: usize, offset: i64, rows: usize) -> Option<usize> {
        let offset = if self.is_ahead { offset } else { offset.checked_neg()? };
        let place = i64::try_from(row).ok()?.checked_add(offset)?;
        usize::try_from(place).ok().filter(|&place| place < rows)
    }
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let offsets = values[1].as_primitive::<Int64Type>();
        let nulls = new_null_array(values[0].data_type(), 1);
        let default = values.get(2);
        let place_of = |row: usize| {
            if offsets.is_null(row) {
                return (1, 0);
            }
            match (self.row_from(row, offsets.value(row), rows), default) {
                (Some(place), _) => (0, place),
                (None, Some(_)) => (2, row),
                (None, None) => (1, 0),
            }
        };
        let places: Vec<(usize, usize)> = (0..rows).map(place_of).collect();
        let arrays: [&dyn Array; 3] = [&values[0], &nulls, default.unwrap_or(&nulls)];
        Ok(interleave(&arrays, &places)?)
    }
}

/// `nth_value`: the value of the row at a place in the frame. Rows are asked for in their order.
#[derive(Debug)]
struct Nth {
    row: usize,
}

impl PartitionEvaluator for Nth {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let row = self.row;
        self.row += 1;
        let places = values[1].as_primitive::<Int64Type>();
        let place = if places.is_null(row) { None } else { Some(places.value(row)) };
        if place.is_some_and(|place| place < 1) {
            let message = "argument of nth_value must be greater than zero";
            return Err(SqlError::new(SqlState::InvalidArgumentForNthValue, message).into());
        }
        let before = place.and_then(|place| usize::try_from(place - 1).ok());
        let found = before.and_then(|before| frame.start.checked_add(before)).filter(|at| *at < frame.end);
        match found {
            Some(at) => ScalarValue::try_from_array(&values[0], at),
            None => ScalarValue::try_from(values[0].data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}
