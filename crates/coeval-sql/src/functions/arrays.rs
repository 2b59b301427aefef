// SPDX-License-Identifier: Apache-2.0
//! Arrays that are made of others, or of a value.

use super::call::{Call, invalid, text};
use super::choice::{Form, Takes};
use super::members::with_member;
use super::{Entry, called, strict};
use crate::error::{SqlError, SqlState};
use crate::parse::ARRAY_WITH;
use crate::types::{assign, column_type_of_arrow};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, ElementType, ListEncoder, Value};
use datafusion::common::ScalarValue;

const INT: Takes = Takes::Type(ColumnType::Int);
const TEXT: Takes = Takes::Type(ColumnType::Text);

/// The most elements that a function makes of nothing.
const LENGTH_MAX: i64 = 1 << 27;

pub(super) const ENTRIES: &[Entry] = &[
    called(
        ARRAY_WITH,
        &[
            Form::new(&[Takes::Any, INT, Takes::Any], ColumnType::Text, with_element).giving(as_first),
            // What is a text here is a document there.
            Form::new(&[TEXT, Takes::Any, TEXT], ColumnType::Jsonb, with_member),
            // With more subscripts the last argument is the value, whatever number it has.
            Form::new(&[TEXT, Takes::Any, Takes::Any, Takes::Any], ColumnType::Jsonb, with_member).variadic(),
            Form::new(&[Takes::Any; 4], ColumnType::Text, |_| {
                Err(SqlError::unsupported("setting an element of an array of several dimensions"))
            })
            .variadic()
            .giving(as_first),
        ],
    ),
    strict("trim_array", &[Form::new(&[Takes::Any, INT], ColumnType::Text, trimmed).giving(as_first)]),
    strict(
        "array_ndims",
        &[Form::new(&[Takes::Any], ColumnType::Int, |call| {
            Ok(if call.elements(0).is_empty() { Value::Null } else { Value::Int32(1) })
        })],
    ),
    strict(
        "array_dims",
        &[Form::new(&[Takes::Any], ColumnType::Text, |call| {
            let length = call.elements(0).len();
            Ok(if length == 0 { Value::Null } else { text(format!("[1:{length}]")) })
        })],
    ),
    called(
        "array_positions",
        &[Form::new(&[Takes::Any, Takes::Any], ColumnType::Array(ElementType::Int), positions)],
    ),
    called(
        "array_remove_all",
        &[Form::new(&[Takes::Any, Takes::Any], ColumnType::Text, removed).giving(as_first)],
    ),
    called(
        "array_fill",
        &[Form::new(&[Takes::Any, Takes::Array(ElementType::Int)], ColumnType::Text, filled).giving(
            |types, _| ColumnType::Array(types.first().and_then(element_type).unwrap_or(ElementType::Text)),
        )],
    ),
];

fn element_type(ty: &DataType) -> Option<ElementType> {
    column_type_of_arrow(ty).and_then(ElementType::of)
}

/// The type of the first argument.
fn as_first(types: &[DataType], _: &[Option<&ScalarValue>]) -> ColumnType {
    types.first().and_then(column_type_of_arrow).unwrap_or(ColumnType::Text)
}

/// The element type of what is given.
fn element_of(call: &Call<'_>) -> Result<ElementType, SqlError> {
    match call.result {
        ColumnType::Array(element) => Ok(element),
        other => {
            let message = format!("cannot subscript type {other} because it does not support subscripting");
            Err(SqlError::new(SqlState::DatatypeMismatch, message))
        }
    }
}

fn list(elements: &[Value]) -> Value {
    let mut list = ListEncoder::default();
    elements.iter().for_each(|element| list.push(element.borrow()));
    list.value()
}

/// The array with another value at a place; places between its end and that are NULL.
fn with_element(call: &Call<'_>) -> Result<Value, SqlError> {
    let element = element_of(call)?;
    if !call.has(1) {
        let message = "array subscript in assignment must not be null";
        return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
    }
    let mut elements = call.elements(0);
    let place = call.int(1);
    if place < 1 || (elements.is_empty() && place != 1) {
        return Err(SqlError::unsupported("an array whose first subscript is not 1"));
    }
    if place > LENGTH_MAX {
        return Err(SqlError::new(SqlState::ProgramLimitExceeded, "array size exceeds the maximum allowed"));
    }
    let value = match call.values[2].is_null() {
        true => Value::Null,
        false => assign(call.values[2].to_owned(), call.types[2], element.column_type(), call.zone)?,
    };
    let place = place as usize;
    call.meter.take(place.saturating_sub(elements.len()) * size_of::<Value>())?;
    if place > elements.len() {
        elements.resize(place, Value::Null);
    }
    elements[place - 1] = value;
    Ok(list(&elements))
}

/// The elements, and the value that is looked for as one of them; `None` for no array.
fn sought(call: &Call<'_>, element: ElementType) -> Result<Option<(Vec<Value>, Value)>, SqlError> {
    if !call.has(0) {
        return Ok(None);
    }
    let value = match call.values[1].is_null() {
        true => Value::Null,
        false => assign(call.values[1].to_owned(), call.types[1], element.column_type(), call.zone)?,
    };
    Ok(Some((call.elements(0), value)))
}

/// The places of all elements that are the value, also if that is NULL.
fn positions(call: &Call<'_>) -> Result<Value, SqlError> {
    let ColumnType::Array(element) = call.types[0] else { return Ok(Value::Null) };
    let Some((elements, value)) = sought(call, element)? else { return Ok(Value::Null) };
    let found = elements.iter().enumerate().filter(|(_, element)| **element == value);
    let places = found.map(|(place, _)| Value::Int32(i32::try_from(place + 1).unwrap_or(i32::MAX)));
    Ok(list(&places.collect::<Vec<_>>()))
}

/// The array without the elements that are the value, also if that is NULL.
fn removed(call: &Call<'_>) -> Result<Value, SqlError> {
    let Some((elements, value)) = sought(call, element_of(call)?)? else { return Ok(Value::Null) };
    Ok(list(&elements.into_iter().filter(|element| *element != value).collect::<Vec<_>>()))
}

/// The array without so many elements at its end.
fn trimmed(call: &Call<'_>) -> Result<Value, SqlError> {
    element_of(call)?;
    let elements = call.elements(0);
    let count = usize::try_from(call.int(1)).ok().filter(|&count| count <= elements.len());
    let count = count.ok_or_else(|| {
        let message = format!("number of elements to trim must be between 0 and {}", elements.len());
        SqlError::new(SqlState::ArraySubscriptError, message)
    })?;
    Ok(list(&elements[..elements.len() - count]))
}

/// `array_fill(value, ARRAY[length])`.
fn filled(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(1) {
        let message = "dimension array or low bound array cannot be null";
        return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
    }
    let length = match call.elements(1).as_slice() {
        [] => 0,
        [Value::Int32(length)] => i64::from(*length),
        [_] => return Err(SqlError::new(SqlState::NullValueNotAllowed, "dimension values cannot be null")),
        _ => return Err(SqlError::unsupported("an array of several dimensions")),
    };
    if !(0..=LENGTH_MAX).contains(&length) {
        return Err(invalid("array size exceeds the maximum allowed"));
    }
    let mut elements = ListEncoder::default();
    for made in 0..length {
        elements.push(call.values[0]);
        if made == 0 {
            // As many as the first one, before the others are there.
            call.meter.value(elements.size().saturating_mul(length as usize))?;
        }
        call.meter.step()?;
    }
    Ok(elements.value())
}
