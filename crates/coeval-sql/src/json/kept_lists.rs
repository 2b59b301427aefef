// SPDX-License-Identifier: Apache-2.0
//! Arrays of documents from where it is forgotten that their elements are no texts, such as the row of a subquery.

use crate::types::marked_field;
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{ColumnType, ElementType};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The functions that give the array that they are given, and say what it is of.
const FUNCTIONS: [(&str, ElementType); 2] =
    [("coeval_json_list_kept", ElementType::Json), ("coeval_jsonb_list_kept", ElementType::Jsonb)];

/// The function for arrays of this type; `None` for what is told anyway.
pub(super) fn keeper(element: ElementType) -> Option<&'static str> {
    FUNCTIONS.into_iter().find(|(_, own)| *own == element).map(|(name, _)| name)
}

/// The functions, for the engine's registry.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.into_iter().map(|(name, element)| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(KeptList { name, element, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KeptList {
    name: &'static str,
    element: ElementType,
    signature: Signature,
}

impl ScalarUDFImpl for KeptList {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = arguments.arg_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let field = Field::new(self.name, given, true);
        Ok(Arc::new(marked_field(field, ColumnType::Array(self.element))))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args[0].clone())
    }
}
