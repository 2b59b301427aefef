// SPDX-License-Identifier: Apache-2.0
//! `||` between texts or between bytes, which counts what it makes.
//!
//! DataFusion's makes whatever it is asked for: ten texts of 100 MB are one of a gigabyte, with another one of 900 MB beside
//! it while it is made. So this function takes the operator's place where plans are complete, and asks before. It does with
//! constants what the operator does not: two of them are one again, not a column.

use crate::allowance::Meter;
use crate::constants::made_of;
use arrow::array::{Array, AsArray, GenericByteViewArray};
use arrow::compute::kernels::concat_elements::{
    concat_elements_binary_view_array, concat_elements_string_view_array,
};
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The name of the function.
pub(super) const CONCATENATION: &str = "coeval_concat";

/// The function.
pub(super) fn function() -> &'static Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Concatenation::new())));
    &FUNCTION
}

/// The expression with the function where it had the operator between texts; `schema` has its columns.
pub(super) fn counted_concatenations(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let are_both = |ty: DataType, left: &Expr, right: &Expr| {
        [left, right].iter().all(|side| side.get_type(schema).is_ok_and(|of| of == ty))
    };
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if are_both(DataType::Utf8View, &left, &right)
                || are_both(DataType::BinaryView, &left, &right) =>
        {
            let call = ScalarFunction { func: Arc::clone(function()), args: vec![*left, *right] };
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        part => Ok(Transformed::no(part)),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    signature: Signature,
}

impl Concatenation {
    fn new() -> Self {
        let sides = [DataType::Utf8View, DataType::BinaryView].map(|ty| TypeSignature::Exact(vec![ty; 2]));
        Self { signature: Signature::one_of(sides.to_vec(), Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &'static str {
        CONCATENATION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let meter = Meter::begin(&arguments.config_options, "||");
        made_of(&arguments.args, arguments.number_rows, |rows| {
            let column = |side: &ColumnarValue| meter.column(side, rows);
            let (left, right) = (column(&arguments.args[0])?, column(&arguments.args[1])?);
            if left.data_type() == &DataType::BinaryView {
                let (left, right) = (left.as_binary_view(), right.as_binary_view());
                count(left, right, &meter)?;
                Ok(Arc::new(concat_elements_binary_view_array(left, right)?))
            } else {
                let (left, right) = (left.as_string_view(), right.as_string_view());
                count(left, right, &meter)?;
                Ok(Arc::new(concat_elements_string_view_array(left, right)?))
            }
        })
    }
}

/// Asks for the memory of what is made of the two.
fn count<T: ByteViewType>(
    left: &GenericByteViewArray<T>,
    right: &GenericByteViewArray<T>,
    meter: &Meter,
) -> Result<()> {
    for (row, (left_length, right_length)) in left.lengths().zip(right.lengths()).enumerate() {
        if left.is_valid(row) && right.is_valid(row) {
            meter.value(left_length as usize + right_length as usize)?;
        }
    }
    Ok(())
}
