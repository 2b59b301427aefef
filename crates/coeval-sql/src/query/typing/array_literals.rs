// SPDX-License-Identifier: Apache-2.0
//! `ARRAY[...]` as DataFusion makes it, with the type of its elements where Arrow does not tell it: JSON is text there. Texts among
//! elements of another type stay until [`settle`](super::settle) reads them as literals: DataFusion casts none to times and `uuid`.

use super::exact_types::is_any_numeric;
use crate::types::{column_type_of_field, common_arrow_type, marked_field, require_common_type};
use crate::wrapped::as_wrapped;
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{ColumnType, ElementType};
use datafusion::common::Result;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{Expr, ReturnFieldArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::{Arc, LazyLock};

/// The array of these elements.
pub(super) fn array_of(elements: Vec<Expr>) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(function);
    FUNCTION.call(elements)
}

/// The function, for the engine's registry.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(MakeArray { general: make_array_udf() })
}

/// The type of elements that stay of several types until they are settled: texts beside others, and numbers beside numerics without digits.
fn type_of_unlike<'t>(types: impl Iterator<Item = &'t DataType> + Clone) -> Option<DataType> {
    if let Some(number) = types.clone().find(|ty| is_any_numeric(ty))
        && types.clone().all(|ty| ty == number || ty.is_null() || (ty.is_numeric() && !ty.is_floating()))
    {
        return Some(number.clone());
    }
    type_beside_texts(types)
}

/// The type of elements among which there are texts; `None` if there are none, or nothing else.
fn type_beside_texts<'t>(types: impl Iterator<Item = &'t DataType>) -> Option<DataType> {
    let (texts, others): (Vec<_>, Vec<_>) = types.partition(|ty| ty.is_string());
    if texts.is_empty() { None } else { common_arrow_type(others) }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MakeArray {
    general: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for MakeArray {
    as_wrapped!(general: name, aliases, signature, return_type, invoke_with_args);

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let all = arguments.arg_fields.iter().map(|field| field.data_type());
        if let Some(element) = type_of_unlike(all) {
            let list = DataType::List(Arc::new(Field::new_list_field(element, true)));
            return Ok(Arc::new(Field::new(self.name(), list, true)));
        }
        let types: Vec<ColumnType> =
            arguments.arg_fields.iter().filter_map(|field| column_type_of_field(field)).collect();
        let field = self.general.return_field_from_args(arguments)?;
        let element = types.first().filter(|first| types.iter().all(|ty| ty == *first));
        let element = element.filter(|ty| matches!(ty, ColumnType::Json | ColumnType::Jsonb));
        match element.and_then(|ty| ElementType::of(*ty)) {
            Some(element) => {
                let field = Field::new(field.name(), field.data_type().clone(), field.is_nullable());
                Ok(Arc::new(marked_field(field, ColumnType::Array(element))))
            }
            None => Ok(field),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        require_common_type("ARRAY", types.iter().filter(|ty| !ty.is_string()))?;
        if let Some(element) = type_of_unlike(types.iter()) {
            // NULL is one of such numbers by itself, without being settled.
            let is_number = |ty: &DataType| ty.is_null() && is_any_numeric(&element);
            let known = |ty: &DataType| if is_number(ty) { element.clone() } else { ty.clone() };
            return Ok(types.iter().map(known).collect());
        }
        // Of some types DataFusion does not know that NULL is one of them.
        let mut known = types.iter().filter(|ty| !ty.is_null());
        match known.next() {
            Some(element) if known.all(|ty| ty == element) => Ok(vec![element.clone(); types.len()]),
            _ => self.general.coerce_types(types),
        }
    }
}
