// SPDX-License-Identifier: Apache-2.0
//! Arrays: reading and writing their text, bounds, subscripts.

use super::{Call, Entry, Gives, called, strict};
use crate::allowance::Meter;
use crate::catalog::rows::Cell;
use crate::constants::made_of;
use crate::error::{SqlError, SqlResult};
use crate::types::{
    array_elements, column_type, column_type_of_field, element_text, scalar_of, session_zone, shown_elements,
};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StringViewArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType, Value};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The functions with a list of rows.
pub(super) const ENTRIES: &[Entry] = &[
    strict("array_upper", 2..=2, Gives::Int, |call| bound(call, |length| length)),
    strict("array_lower", 2..=2, Gives::Int, |call| bound(call, |_| 1)),
    strict("coeval_array_text", 1..=1, Gives::Text, |call| {
        let zone = session_zone(call.options);
        Ok(elements(&call.arguments[0]).map(|elements| shown_elements(&elements, zone)).transpose()?.into())
    }),
    strict("coeval_vector_text", 1..=1, Gives::Text, |call| {
        let Some(elements) = elements(&call.arguments[0]) else { return Ok(Cell::Null) };
        let zone = session_zone(call.options);
        let texts =
            (0..elements.len()).map(|row| element_text(&elements, row, zone).map(Option::unwrap_or_default));
        Ok(texts.collect::<SqlResult<Vec<_>>>()?.join(" ").into())
    }),
    called("array_to_string", 2..=3, Gives::Text, joined),
];

fn elements(value: &ScalarValue) -> Option<ArrayRef> {
    match value {
        ScalarValue::List(list) if !list.is_null(0) => Some(list.value(0)),
        ScalarValue::LargeList(list) if !list.is_null(0) => Some(list.value(0)),
        ScalarValue::FixedSizeList(list) if !list.is_null(0) => Some(list.value(0)),
        _ => None,
    }
}

fn bound(call: &Call<'_>, pick: fn(usize) -> usize) -> SqlResult<Cell> {
    let length = elements(&call.arguments[0]).map_or(0, |elements| elements.len());
    Ok(if length == 0 || call.int(1) != Some(1) { Cell::Null } else { pick(length).into() })
}

/// `array_to_string(array, delimiter [, what stands for NULL])`.
fn joined(call: &Call<'_>) -> SqlResult<Cell> {
    // NULL as the third argument leaves NULL elements out, as no third argument does.
    let (Some(elements), Some(delimiter)) = (elements(&call.arguments[0]), call.text(1)) else {
        return Ok(Cell::Null);
    };
    let zone = session_zone(call.options);
    let mut joined = String::new();
    let mut is_first = true;
    for row in 0..elements.len() {
        call.meter.step()?;
        let text = element_text(&elements, row, zone)?;
        let Some(text) = text.as_deref().or_else(|| call.text(2)) else { continue };
        let between = if is_first { "" } else { delimiter };
        call.meter.longer(joined.len(), between.len() + text.len())?;
        joined.extend([between, text]);
        is_first = false;
    }
    Ok(joined.into())
}

/// The array that a text like `{1,2}` or, for vectors, `1 2` stands for, times without an offset as local ones of
/// `zone`; NULL for no text.
///
/// # Errors
/// `22P02` for text that is no array, or an element that is not of its type.
pub(crate) fn array_of_text(text: Option<&str>, element: &DataType, zone: Tz) -> SqlResult<ScalarValue> {
    let list = DataType::List(Arc::new(Field::new_list_field(element.clone(), true)));
    let Some(text) = text else { return Ok(ScalarValue::try_new_null(&list)?) };
    let parts = if text.starts_with('{') || !element.is_numeric() {
        array_elements(text)?
    } else {
        text.split_whitespace().map(|part| Some(part.to_owned())).collect()
    };
    let values = parts.iter().map(|part| scalar_of_text(part.as_deref(), element, zone));
    let values = values.collect::<SqlResult<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, element)))
}

fn scalar_of_text(text: Option<&str>, ty: &DataType, zone: Tz) -> SqlResult<ScalarValue> {
    let (Some(text), Some(column)) = (text, crate::types::column_type_of_arrow(ty)) else {
        return Ok(ScalarValue::try_new_null(ty)?);
    };
    let value = match crate::types::parse_value(text, column, zone)? {
        // Without zeros at their ends, as arrays have them.
        Value::Number(number) => Value::Number(number.borrow().shortest()),
        value => value,
    };
    Ok(scalar_of(&value, column)?.cast_to(ty)?)
}

/// A function that makes an array; unnested, it stands for one that returns a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Making {
    /// `coeval_array(value, type)`: the cast to an array type.
    Cast,
    /// `coeval_subscripts(array, first)`.
    Subscripts,
    /// `coeval_expandarray(array)`: each element with its number.
    Expanded,
    /// `coeval_no_oids(any)`: an empty array of object ids.
    NoOids,
    /// `coeval_array_like(value, element)`: the cast to an array of the second argument's type.
    Like,
    /// `coeval_or_empty(array)`: an empty array instead of NULL.
    OrEmpty,
}

/// The function whose array, unnested, is what a function that returns a set gives; `None` if the name is none.
pub(crate) fn set_returning(name: &str) -> Option<&'static str> {
    match name {
        "generate_subscripts" => Some("coeval_subscripts"),
        "_pg_expandarray" => Some("coeval_expandarray"),
        "regexp_split_to_table" => Some("regexp_split_to_array"),
        "string_to_table" => Some("string_to_array"),
        // No table is a partition.
        "pg_partition_ancestors" => Some("coeval_no_oids"),
        _ => None,
    }
}

/// All of them, for the engine's registry.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let making = [
        ("coeval_array", Making::Cast),
        ("coeval_subscripts", Making::Subscripts),
        ("coeval_expandarray", Making::Expanded),
        ("coeval_no_oids", Making::NoOids),
        ("coeval_array_like", Making::Like),
        ("coeval_or_empty", Making::OrEmpty),
    ];
    let function = |(name, making)| {
        let signature = Signature::variadic_any(Volatility::Stable);
        ScalarUDF::from(ArrayFunction { name, making, signature })
    };
    making.into_iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayFunction {
    name: &'static str,
    making: Making,
    signature: Signature,
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

fn element_type(ty: &DataType) -> DataType {
    match ty {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type().clone()
        }
        _ => DataType::Utf8View,
    }
}

fn expanded_fields(element: DataType) -> Fields {
    Fields::from(vec![Field::new("x", element, true), Field::new("n", DataType::Int32, true)])
}

/// The element type that the second argument of the cast names; `None` for object ids, which no column has.
fn named_column(argument: Option<&ScalarValue>) -> SqlResult<Option<ColumnType>> {
    let name = argument.and_then(|argument| argument.try_as_str().flatten()).unwrap_or("text");
    if name == "oid" {
        return Ok(None);
    }
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let parsed = datafusion::sql::sqlparser::parser::Parser::new(&dialect)
        .try_with_sql(name)
        .and_then(|mut parser| parser.parse_data_type())
        .map_err(|error| SqlError::syntax(error.to_string()))?;
    column_type(&parsed).map(Some)
}

fn named_element(argument: Option<&ScalarValue>) -> SqlResult<DataType> {
    Ok(named_column(argument)?.map_or(DataType::Int32, ColumnType::arrow))
}

impl ArrayFunction {
    fn result(
        &self,
        argument: &DataType,
        other: Option<&DataType>,
        second: Option<&ScalarValue>,
    ) -> SqlResult<DataType> {
        Ok(match self.making {
            Making::Cast => list_of(named_element(second)?),
            Making::Like => list_of(other.cloned().unwrap_or(DataType::Utf8View)),
            Making::OrEmpty => argument.clone(),
            Making::Subscripts | Making::NoOids => list_of(DataType::Int32),
            Making::Expanded => list_of(DataType::Struct(expanded_fields(element_type(argument)))),
        })
    }
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("the type of an array depends on its arguments").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let first = arguments.arg_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let second = arguments.arg_fields.get(1).map(|field| field.data_type());
        let ty = self.result(&first, second, arguments.scalar_arguments.get(1).copied().flatten())?;
        let field = Field::new(self.name, ty, true);
        let named = arguments.scalar_arguments.get(1).copied().flatten();
        // Arrow does not tell arrays of JSON from those of text.
        let element = match self.making {
            Making::Cast => named_column(named)?.and_then(ElementType::of),
            Making::OrEmpty => {
                match arguments.arg_fields.first().and_then(|field| column_type_of_field(field)) {
                    Some(ColumnType::Array(element)) => Some(element),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Arc::new(match element {
            Some(element) => crate::types::marked_field(field, ColumnType::Array(element)),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Of the other argument, no more counts than its type or its constant.
        made_of(&args.args[..1], args.number_rows, |rows| {
            let made = self.made(&args, &args.args[0].to_array(rows)?)?;
            Ok(if self.is_of_char(&args) { without_blanks(made.as_list())? } else { made })
        })
    }
}

impl ArrayFunction {
    /// Whether the elements are to be like a `char(n)`.
    fn is_of_char(&self, args: &ScalarFunctionArgs) -> bool {
        let like = args.arg_fields.get(1).filter(|_| self.making == Making::Like);
        like.is_some_and(|field| matches!(column_type_of_field(field), Some(ColumnType::Char(_))))
    }

    fn made(&self, args: &ScalarFunctionArgs, input: &ArrayRef) -> Result<ArrayRef> {
        let ty = args.return_type().clone();
        let is_cast = matches!(self.making, Making::Cast | Making::Like);
        if is_cast && let DataType::List(_) = input.data_type() {
            return cast_elements(input.as_list::<i32>(), &ty, session_zone(&args.config_options));
        }
        if is_cast && *input.data_type() == DataType::Null {
            return Ok(cast(input, &ty)?);
        }
        let meter = Meter::begin(&args.config_options, self.name);
        let first = match args.args.get(1) {
            Some(ColumnarValue::Scalar(scalar)) => match scalar.cast_to(&DataType::Int32) {
                Ok(ScalarValue::Int32(first)) => first.unwrap_or(1),
                _ => 1,
            },
            _ => 1,
        };
        let zone = session_zone(&args.config_options);
        let mut rows = Vec::with_capacity(input.len());
        for row in 0..input.len() {
            meter.step()?;
            let value = ScalarValue::try_from_array(input, row)?;
            let made = self.row(&value, first, &ty, zone)?;
            meter.take(made.size())?;
            rows.push(made);
        }
        if rows.is_empty() {
            return Ok(arrow::array::new_empty_array(&ty));
        }
        ScalarValue::iter_to_array(rows)
    }
}

/// The arrays without the blanks at the end of their texts, which a `char(n)` is kept without.
fn without_blanks(lists: &ListArray) -> Result<ArrayRef> {
    let texts = cast(lists.values(), &DataType::Utf8View)?;
    let trimmed = texts.as_string_view().iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
    let trimmed: StringViewArray = trimmed.collect();
    let element = lists.value_type();
    let values = cast(&trimmed, &element)?;
    let field = Arc::new(Field::new_list_field(element, true));
    Ok(Arc::new(ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned())?))
}

/// The arrays with each element cast.
fn cast_elements(lists: &ListArray, ty: &DataType, zone: Tz) -> Result<ArrayRef> {
    let element = element_type(ty);
    let values = match crate::types::column_type_of_arrow(&element) {
        Some(column) if *lists.values().data_type() != element => {
            let cast_values = crate::scalar::cast_function::cast_members(lists.values(), column, zone)?;
            cast(&cast_values, &element)?
        }
        _ => cast(lists.values(), &element)?,
    };
    let field = Arc::new(Field::new_list_field(element, true));
    Ok(Arc::new(ListArray::try_new(field, lists.offsets().clone(), values, lists.nulls().cloned())?))
}

impl ArrayFunction {
    fn row(&self, value: &ScalarValue, first: i32, ty: &DataType, zone: Tz) -> Result<ScalarValue> {
        let element = element_type(ty);
        if self.making == Making::NoOids || (self.making == Making::OrEmpty && value.is_null()) {
            return Ok(ScalarValue::List(ScalarValue::new_list_nullable(&[], &element)));
        }
        if value.is_null() {
            return ScalarValue::try_new_null(ty);
        }
        if self.making == Making::OrEmpty {
            return Ok(value.clone());
        }
        if matches!(self.making, Making::Cast | Making::Like) {
            return Ok(array_of_text(value.try_as_str().flatten(), &element, zone)?);
        }
        let elements = elements(value).unwrap_or_else(|| arrow::array::new_empty_array(&DataType::Int32));
        let count = i32::try_from(elements.len()).unwrap_or(i32::MAX);
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(first..first.saturating_add(count)));
        let values = match &element {
            DataType::Struct(fields) => {
                Arc::new(StructArray::try_new(fields.clone(), vec![elements, numbers], None)?) as ArrayRef
            }
            _ => numbers,
        };
        let field = Arc::new(Field::new_list_field(element, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?)))
    }
}

#[cfg(test)]
mod tests;
