// SPDX-License-Identifier: Apache-2.0
//! What `string_agg` is made of where each text has a delimiter of its own: the texts, each behind its delimiter, are collected and
//! put together without that of the first one.
//!
//! In front of a delimiter stands its length: `1:-text`.

use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::long::joined;
use super::{Entry, called, strict};
use crate::error::SqlError;
use coeval_store::{ColumnType, ElementType, Value};

/// The function that puts a delimiter in front of a text, and NULL in the place of NULL.
pub(crate) const DELIMITED: &str = "coeval_delimited";
/// The function that puts together what the other one has given.
pub(crate) const JOINED: &str = "coeval_joined";

const TEXT: Takes = Takes::Type(ColumnType::Text);

pub(super) const ENTRIES: &[Entry] = &[
    called(DELIMITED, &[Form::new(&[TEXT, TEXT], ColumnType::Text, delimited)]),
    strict(JOINED, &[Form::new(&[Takes::Array(ElementType::Text)], ColumnType::Text, all)]),
];

fn delimited(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(0) {
        return Ok(Value::Null);
    }
    // A delimiter that is NULL is none.
    let delimiter = call.text(1);
    let length = format!("{}:", delimiter.len());
    Ok(text(joined(&[length.as_str(), delimiter, call.text(0)], call.meter)?))
}

fn all(call: &Call<'_>) -> Result<Value, SqlError> {
    let elements = call.elements(0);
    let mut parts: Vec<&str> = Vec::with_capacity(elements.len());
    for element in &elements {
        let Value::Text(element) = element else { continue };
        let Some((length, rest)) = element.split_once(':') else { continue };
        let own = if parts.is_empty() { length.parse().unwrap_or(0) } else { 0 };
        parts.push(rest.get(own..).unwrap_or_default());
    }
    if parts.is_empty() {
        return Ok(Value::Null);
    }
    Ok(text(joined(&parts, call.meter)?))
}
