// SPDX-License-Identifier: Apache-2.0
//! `array_has` as DataFusion has it, but also of arrays of enums, which its kernels do not compare. A literal is a label of
//! theirs once [`settle`](super::settle) has read it.

use arrow::array::{Array, AsArray, BooleanArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{EnumType, value_at};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The function, for the engine's registry.
pub(super) fn function() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(ArrayHas { general: array_has_udf(), signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayHas {
    general: Arc<ScalarUDF>,
    signature: Signature,
}

/// The enum that the elements of an array are of.
pub(super) fn enum_of_elements(ty: &DataType) -> Option<EnumType> {
    match ty {
        DataType::List(item) => EnumType::of_arrow(item.data_type()),
        _ => None,
    }
}

impl ScalarUDFImpl for ArrayHas {
    fn name(&self) -> &str {
        self.general.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.general.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.general.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let [list, element] = types
            && let Some(ty) = enum_of_elements(list)
            && (element.is_string() || *element == ty.arrow())
        {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|ty| Arc::new(Field::new("argument", ty.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, self.general.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_of_enums = matches!(arguments.first(), Some(list)
            if info.get_data_type(list).is_ok_and(|ty| enum_of_elements(&ty).is_some()));
        if is_of_enums {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        self.general.simplify(arguments, info)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list, element] = &arguments.args[..] else { return self.general.invoke_with_args(arguments) };
        if enum_of_elements(&list.data_type()).is_none() {
            return self.general.invoke_with_args(arguments);
        }
        let is_scalar = matches!((list, element), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let (lists, wanted) = (list.to_array(rows)?, element.to_array(rows)?);
        let lists = lists.as_list::<i32>();
        let elements: &StructArray = lists.values().as_struct();
        let answers = (0..rows).map(|row| {
            let wanted = value_at(&wanted, row);
            let offsets = lists.value_offsets();
            (!lists.is_null(row) && !wanted.is_null()).then(|| {
                (offsets[row]..offsets[row + 1]).any(|place| value_at(elements, place as usize) == wanted)
            })
        });
        let answers: BooleanArray = answers.collect();
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(Arc::new(answers)),
        })
    }
}
