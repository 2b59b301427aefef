// SPDX-License-Identifier: Apache-2.0
//! `coalesce` as DataFusion has it, but with literals of arrays among its arguments: `coalesce(tags, '{}')`.
//!
//! While a query is planned such a literal is still a text; [`settle`](super::settle) makes an array of it then.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The function, for the engine's registry.
pub(crate) fn coalesce() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { general: core::coalesce() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    general: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.general.name()
    }

    fn signature(&self) -> &Signature {
        self.general.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.general.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.general.return_field_from_args(arguments)
    }

    /// Texts among arrays are arrays.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let list = types.iter().find(|ty| matches!(ty, DataType::List(_)));
        let as_list = |ty: &DataType| match list {
            Some(list) if ty.is_string() => list.clone(),
            _ => ty.clone(),
        };
        self.general.coerce_types(&types.iter().map(as_list).collect::<Vec<_>>())
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.general.simplify(arguments, info)
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.general.conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.general.short_circuits()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.general.invoke_with_args(arguments)
    }
}
