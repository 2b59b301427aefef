// SPDX-License-Identifier: Apache-2.0
//! Functions over columns: what is made of constants alone is made once, and is a constant.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// What `make` makes in so many rows: in one, as a constant, if all that it is made of are constants.
///
/// # Errors
/// Those of `make`.
pub(crate) fn made_of(
    arguments: &[ColumnarValue],
    rows: usize,
    make: impl FnOnce(usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    if arguments.iter().any(|argument| matches!(argument, ColumnarValue::Array(_))) {
        return make(rows).map(ColumnarValue::Array);
    }
    Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&make(1)?, 0)?))
}

/// The same of all arguments, as columns.
///
/// # Errors
/// Those of `make`.
pub(crate) fn made_of_columns(
    arguments: &ScalarFunctionArgs,
    make: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    made_of(&arguments.args, arguments.number_rows, |rows| {
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
        make(&columns.collect::<Result<Vec<_>>>()?)
    })
}
