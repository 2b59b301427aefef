// SPDX-License-Identifier: Apache-2.0
//! `SET doc['a']['b'] = value`: a document with another value behind some subscripts.

use super::call::{Call, text};
use crate::error::{SqlError, SqlState};
use crate::types::json::{Kind, Part, canonical, push_string};
use crate::types::{no_document, parse_value};
use coeval_store::{ColumnType, Value};
use std::borrow::Cow;

/// The most elements that an array is filled up to.
const LENGTH_MAX: usize = 1 << 24;

/// The document with a value behind the keys and places that are between it and the value among the arguments. NULL becomes an
/// object or an array, an array is filled up with nulls, and what is not there on the way is made.
///
/// # Errors
/// `22004` for a subscript that is NULL, `22P02` for a key of an array and a value that is no document, `22023` for a value without
/// parts on the way and a place before the first element, `42804` for a value of another type, `54000` for a place too far behind the
/// last.
pub(super) fn with_member(call: &Call<'_>) -> Result<Value, SqlError> {
    let last = call.count().saturating_sub(1);
    if (1..last).any(|place| !call.has(place)) {
        let message = "jsonb subscript in assignment must not be null";
        return Err(SqlError::new(SqlState::NullValueNotAllowed, message));
    }
    if let Some(other) = call.types.get(last).filter(|ty| **ty != ColumnType::Text) {
        return Err(no_document(*other));
    }
    let value = match call.has(last) {
        true => parse_value(call.text(last), ColumnType::Jsonb, call.zone)?,
        false => text("null"),
    };
    let Value::Text(value) = &value else {
        return Err(SqlError::internal("a document is a text"));
    };
    let document = match (call.has(0), call.types.get(1)) {
        (true, _) => call.text(0),
        (false, Some(ColumnType::Text)) => "{}",
        (false, _) => "[]",
    };
    let steps: Vec<Cow<'_, str>> = (1..last).map(|place| call.shown(place)).collect();
    let changed = with_value(Part::of(document), &steps, 0, value, call)?;
    call.meter.value(changed.len())?;
    Ok(text(canonical(&changed)?))
}

/// A part of a document, `depth` steps below its top, with the value behind the steps that are left.
fn with_value(
    part: Part<'_>,
    steps: &[Cow<'_, str>],
    depth: usize,
    value: &str,
    call: &Call<'_>,
) -> Result<String, SqlError> {
    let Some(step) = steps.get(depth) else { return Ok(value.to_owned()) };
    let step: &str = step;
    let inside = |old: Option<Part<'_>>| match old {
        Some(old) if depth + 1 < steps.len() => with_value(old, steps, depth + 1, value, call),
        _ => made(&steps[depth + 1..], value, call),
    };
    match part.kind() {
        Kind::Object => {
            let is_meant = |name: Part<'_>| name.string().is_some_and(|name| name == step);
            let old = part.members().find(|(name, _)| is_meant(*name)).map(|(_, member)| member);
            Ok(object_with(part, step, &inside(old)?))
        }
        Kind::Array => {
            let elements: Vec<Part<'_>> = part.elements().collect();
            let place = place_of(step, depth, elements.len())?;
            let new = inside(elements.get(place).copied())?;
            let texts = elements.iter().map(|element| element.text()).collect();
            array_with(texts, place, &new, call)
        }
        Kind::String | Kind::Number | Kind::Boolean | Kind::Null => {
            let error = SqlError::new(SqlState::InvalidParameterValue, "cannot replace existing key");
            Err(error.with_detail("The path assumes key is a composite object, but it is a scalar value."))
        }
    }
}

/// What is put where nothing was on the way: an array for a step that is a number, an object for any other, and the value innermost.
fn made(steps: &[Cow<'_, str>], value: &str, call: &Call<'_>) -> Result<String, SqlError> {
    let mut made = value.to_owned();
    for step in steps.iter().rev() {
        made = match step.parse::<i32>() {
            // No element is in front of the first.
            Ok(place) => array_with(Vec::new(), usize::try_from(place).unwrap_or(0), &made, call)?,
            Err(_) => object_with(Part::of("{}"), step, &made),
        };
        call.meter.value(made.len())?;
    }
    Ok(made)
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

/// The place of an array of `count` elements that a step means, which counts from the end if it is negative.
fn place_of(step: &str, depth: usize, count: usize) -> Result<usize, SqlError> {
    let place: i64 = step.trim().parse().map_err(|_| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", depth + 1);
        SqlError::new(SqlState::InvalidTextRepresentation, message)
    })?;
    let place = match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => usize::try_from(place.unsigned_abs()).ok().and_then(|back| count.checked_sub(back)),
    };
    place.ok_or_else(|| {
        let message = format!("path element at position {} is out of range: {step}", depth + 1);
        SqlError::new(SqlState::InvalidParameterValue, message)
    })
}

/// An array of these elements with another one at a place, and nulls in front of it where there is nothing.
fn array_with<'a>(
    mut elements: Vec<&'a str>,
    place: usize,
    value: &'a str,
    call: &Call<'_>,
) -> Result<String, SqlError> {
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
