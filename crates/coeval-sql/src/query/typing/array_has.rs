// SPDX-License-Identifier: Apache-2.0
//! `array_has` as DataFusion has it, but also of arrays of enums, which its kernels do not compare. A literal is a label of
//! theirs, and a value of other elements' type, once [`settle`](super::settle) has read it.

use super::arrays::with_one_zero;
use super::exact_types::{is_any_numeric, is_other_exact};
use crate::allowance::Meter;
use crate::constants::made_of;
use crate::types::{column_type_of_arrow, common_arrow_type, require_comparison};
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{EnumType, value_at};
use datafusion::common::utils::normalize_float_zero_scalar;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
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

/// Copies of a constant array that are made at a time take so much.
const SLICE_BYTES: usize = 4 << 20;

impl ArrayHas {
    /// As DataFusion, which copies an array that is a constant for each row: of a long one few copies at a time.
    fn in_slices(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [ColumnarValue::Scalar(list), ColumnarValue::Array(element)] = &arguments.args[..] else {
            return self.general.invoke_with_args(arguments);
        };
        let at_once = (SLICE_BYTES / list.size().max(1)).max(1);
        if rows <= at_once {
            return self.general.invoke_with_args(arguments);
        }
        let meter = Meter::begin(&arguments.config_options, self.name());
        let mut answers = Vec::with_capacity(rows.div_ceil(at_once));
        for start in (0..rows).step_by(at_once) {
            meter.look()?;
            let count = at_once.min(rows - start);
            let slice = ScalarFunctionArgs {
                args: vec![
                    ColumnarValue::Scalar(list.clone()),
                    ColumnarValue::Array(element.slice(start, count)),
                ],
                arg_fields: arguments.arg_fields.clone(),
                number_rows: count,
                return_field: Arc::clone(&arguments.return_field),
                config_options: Arc::clone(&arguments.config_options),
            };
            answers.push(self.general.invoke_with_args(slice)?.into_array(count)?);
        }
        let answers: Vec<&dyn Array> = answers.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&answers)?))
    }
}

/// The enum that the elements of an array are of.
pub(super) fn enum_of_elements(ty: &DataType) -> Option<EnumType> {
    match ty {
        DataType::List(item) => EnumType::of_arrow(item.data_type()),
        _ => None,
    }
}

/// The argument with `0` in the place of `-0`, which DataFusion takes for another float.
fn argument_with_one_zero(argument: ColumnarValue) -> Result<ColumnarValue> {
    Ok(match argument {
        ColumnarValue::Array(values) => ColumnarValue::Array(with_one_zero(&values)?),
        ColumnarValue::Scalar(ScalarValue::List(list)) => {
            let list: ArrayRef = list;
            let list = with_one_zero(&list)?.as_list::<i32>().clone();
            ColumnarValue::Scalar(ScalarValue::List(Arc::new(list)))
        }
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(normalize_float_zero_scalar(value)),
    })
}

/// Whether one of two types is that of numbers without digits and the other one of other numbers: once the plan is settled, exact ones become
/// such numbers, and both are floats beside floats.
fn are_settled_as_numbers(member: &DataType, sought: &DataType) -> bool {
    let is_other = |ty: &DataType| is_other_exact(ty) || ty.is_floating();
    (is_any_numeric(member) && is_other(sought)) || (is_other(member) && is_any_numeric(sought))
}

/// Types of a list and an element of other numbers, as one: DataFusion looks for no integer among decimals.
fn numbers_of_one_type(types: &[DataType]) -> Option<Vec<DataType>> {
    let [DataType::List(item), element] = types else { return None };
    let common = common_arrow_type([item.data_type(), element])?;
    let item = item.as_ref().clone().with_data_type(common.clone());
    Some(vec![DataType::List(Arc::new(item)), common])
}

impl ScalarUDFImpl for ArrayHas {
    as_wrapped!(general: name, return_type, return_field_from_args);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let [list, element] = types
            && let Some(ty) = enum_of_elements(list)
            && (element.is_string() || *element == ty.arrow())
        {
            return Ok(types.to_vec());
        }
        if let [DataType::List(item), element] = types
            && are_settled_as_numbers(item.data_type(), element)
        {
            return Ok(types.to_vec());
        }
        // What is not compared is a literal, which is read once the plan is settled, or it is refused then.
        if let [DataType::List(item), element] = types
            && !item.data_type().is_null()
            && !element.is_null()
            && let (Some(member), Some(sought)) =
                (column_type_of_arrow(item.data_type()), column_type_of_arrow(element))
            && require_comparison(sought, &"=", member).is_err()
        {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|ty| Arc::new(Field::new("argument", ty.clone(), true))).collect();
        match fields_with_udf(&fields, self.general.as_ref()) {
            Ok(coerced) => Ok(coerced.iter().map(|field| field.data_type().clone()).collect()),
            Err(error) => numbers_of_one_type(types).ok_or(error),
        }
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
        let args = arguments.args.into_iter().map(argument_with_one_zero).collect::<Result<_>>()?;
        let arguments = ScalarFunctionArgs { args, ..arguments };
        let [list, element] = &arguments.args[..] else { return self.general.invoke_with_args(arguments) };
        if enum_of_elements(&list.data_type()).is_none() {
            return self.in_slices(arguments);
        }
        made_of(&arguments.args, arguments.number_rows, |rows| {
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
            Ok(Arc::new(answers.collect::<BooleanArray>()))
        })
    }
}
