// SPDX-License-Identifier: Apache-2.0
//! `SET doc['a'] = value`: a document with another value at a subscript.

use super::call::{Call, text};
use crate::error::{SqlError, SqlState};
use crate::types::json::{Kind, Part, canonical, push_string};
use crate::types::parse_value;
use coeval_store::{ColumnType, Value};

/// The most elements that an array is filled up to.
const LENGTH_MAX: usize = 1 << 24;

/// The document with a value at a key or a place; NULL becomes an object or an array, and an array is filled up with nulls.
///
/// # Errors
/// `22004` for a subscript that is NULL, `22P02` for a key of an array and a value that is no document, `22023` for a document without
/// parts and a place before the first element, `54000` for one too far behind the last.
pub(super) fn with_member(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(1) {
        let message = "jsonb subscript in assignment must not be null";
        return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
    }
    let step = call.shown(1);
    let is_key = matches!(call.types.get(1), Some(ColumnType::Text));
    let value = match call.has(2) {
        true => parse_value(call.text(2), ColumnType::Jsonb, call.zone)?,
        false => text("null"),
    };
    let Value::Text(value) = &value else {
        return Err(SqlError::internal("a document is a text"));
    };
    let document = match call.has(0) {
        true => call.text(0),
        false if is_key => "{}",
        false => "[]",
    };
    let part = Part::of(document);
    let changed = match part.kind() {
        Kind::Object => object_with(part, &step, value),
        Kind::Array => array_with(part, &step, value, call)?,
        Kind::String | Kind::Number | Kind::Boolean | Kind::Null => {
            let error = SqlError::new(SqlState::InvalidParameterValue, "cannot replace existing key");
            return Err(
                error.with_detail("The path assumes key is a composite object, but it is a scalar value.")
            );
        }
    };
    call.meter.value(changed.len())?;
    Ok(text(canonical(&changed)?))
}

fn object_with(object: Part<'_>, key: &str, value: &str) -> String {
    let mut out = String::from("{");
    for (name, member) in object.members().filter(|(name, _)| name.string().is_none_or(|name| name != key)) {
        out.push_str(name.text());
        out.push(':');
        out.push_str(member.text());
        out.push(',');
    }
    push_string(key, &mut out);
    out.push(':');
    out.push_str(value);
    out.push('}');
    out
}

fn array_with(array: Part<'_>, step: &str, value: &str, call: &Call<'_>) -> Result<String, SqlError> {
    let place: i64 = step.trim().parse().map_err(|_| {
        let message = format!("path element at position 1 is not an integer: \"{step}\"");
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    })?;
    let mut elements: Vec<&str> = array.elements().map(|element| element.text()).collect();
    let place = match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => {
            usize::try_from(place.unsigned_abs()).ok().and_then(|back| elements.len().checked_sub(back))
        }
    };
    let place = place.ok_or_else(|| {
        let message = format!("path element at position 1 is out of range: {step}");
        SqlError::new(SqlState::InvalidParameterValue, message)
    })?;
    if place >= LENGTH_MAX {
        return Err(SqlError::new(SqlState::ProgramLimitExceeded, "array size exceeds the maximum allowed"));
    }
    if place >= elements.len() {
        call.meter.take((place - elements.len() + 1) * size_of::<&str>())?;
        elements.resize(place + 1, "null");
    }
    elements[place] = value;
    Ok(format!("[{}]", elements.join(",")))
}
