// SPDX-License-Identifier: Apache-2.0
//! `greatest` and `least` of values that are in an order of their own: of pairs of a key and a value, the value with the
//! greatest or least key. NULLs are passed over.

use crate::constants::made_of_columns;
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

/// Which of the values is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    Greatest,
    Least,
}

impl Choice {
    /// The choice that a function makes; `None` if it is another function.
    pub(super) fn of(function: &str) -> Option<Self> {
        match function {
            "greatest" => Some(Self::Greatest),
            "least" => Some(Self::Least),
            _ => None,
        }
    }

    /// One of the values, by their keys; all values are of one type, and so are all keys.
    pub(super) fn among(self, pairs: impl IntoIterator<Item = (Expr, Expr)>) -> Expr {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
            [Choice::Greatest, Choice::Least].map(|choice| {
                let signature = Signature::variadic_any(Volatility::Immutable);
                Arc::new(ScalarUDF::new_from_impl(ChoiceByKey { choice, signature }))
            })
        });
        let [greatest, least] = &*FUNCTIONS;
        let function = if self == Self::Greatest { greatest } else { least };
        let arguments = pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), arguments))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ChoiceByKey {
    choice: Choice,
    signature: Signature,
}

impl ScalarUDFImpl for ChoiceByKey {
    fn name(&self) -> &str {
        match self.choice {
            Choice::Greatest => "greatest_by_key",
            Choice::Least => "least_by_key",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.get(1).cloned().ok_or_else(|| SqlError::internal("a choice without values").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(first) = arguments.arg_fields.get(1) else {
            return Err(SqlError::internal("a choice without values").into());
        };
        Ok(Arc::new(first.as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        made_of_columns(&arguments, |arrays| self.choose(arrays))
    }
}

impl ChoiceByKey {
    fn choose(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let keys: Vec<&ArrayRef> = arrays.iter().step_by(2).collect();
        let values: Vec<&dyn Array> = arrays.iter().skip(1).step_by(2).map(AsRef::as_ref).collect();
        // Within an array NULL is above all else.
        let order = SortOptions { descending: false, nulls_first: false };
        let mut best = vec![0; arrays[0].len()];
        for place in 1..keys.len() {
            // Against each of those before, since any of them may be the best so far.
            let comparators = (0..place)
                .map(|other| make_comparator(keys[place], keys[other], order))
                .collect::<Result<Vec<_>, _>>()?;
            for (row, best) in best.iter_mut().enumerate() {
                let wanted = if self.choice == Choice::Greatest { Ordering::Greater } else { Ordering::Less };
                let is_better = keys[place].is_valid(row)
                    && (keys[*best].is_null(row) || comparators[*best](row, row) == wanted);
                if is_better {
                    *best = place;
                }
            }
        }
        let places: Vec<(usize, usize)> =
            best.into_iter().enumerate().map(|(row, best)| (best, row)).collect();
        Ok(interleave(&values, &places)?)
    }
}
