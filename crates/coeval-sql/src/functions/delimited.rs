// SPDX-License-Identifier: Apache-2.0
//! What `string_agg` is made of where each text, or bytes, have a delimiter of their own: the texts, each behind its delimiter, are
//! collected and put together without that of the first one.
//!
//! In front of a delimiter stands its length: `1:-text`; of bytes in eight bytes, the lowest first.

use super::call::{Call, text};
use super::choice::{Form, Takes};
use super::long::joined;
use super::{Entry, called, strict};
use crate::error::SqlError;
use coeval_store::{ColumnType, ElementType, Value};

/// The bytes of a length in front of bytes.
const LENGTH_BYTES: usize = size_of::<u64>();

/// The function that puts a delimiter in front of a text, and NULL in the place of NULL.
pub(crate) const DELIMITED: &str = "coeval_delimited";
/// The function that puts together what the other one has given.
pub(crate) const JOINED: &str = "coeval_joined";

const TEXT: Takes = Takes::Type(ColumnType::Text);
const BYTEA: Takes = Takes::Type(ColumnType::Bytea);

pub(super) const ENTRIES: &[Entry] = &[
    called(
        DELIMITED,
        &[
            Form::new(&[TEXT, TEXT], ColumnType::Text, delimited),
            Form::new(&[BYTEA, BYTEA], ColumnType::Bytea, delimited_bytes),
        ],
    ),
    strict(
        JOINED,
        &[
            Form::new(&[Takes::Array(ElementType::Text)], ColumnType::Text, all),
            Form::new(&[Takes::Array(ElementType::Bytea)], ColumnType::Bytea, all_bytes),
        ],
    ),
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

fn delimited_bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    if !call.has(0) {
        return Ok(Value::Null);
    }
    // A delimiter that is NULL is none.
    let delimiter = call.bytes(1);
    let length = (delimiter.len() as u64).to_le_bytes();
    call.meter.value(LENGTH_BYTES + delimiter.len() + call.bytes(0).len())?;
    Ok(Value::Bytes([length.as_slice(), delimiter, call.bytes(0)].concat().into()))
}

fn all_bytes(call: &Call<'_>) -> Result<Value, SqlError> {
    let elements = call.elements(0);
    let mut parts: Vec<&[u8]> = Vec::with_capacity(elements.len());
    for element in &elements {
        let Value::Bytes(element) = element else { continue };
        let Some((length, rest)) = element.split_first_chunk::<LENGTH_BYTES>() else { continue };
        // The first one stands without its delimiter.
        let left_out = if parts.is_empty() { u64::from_le_bytes(*length) } else { 0 };
        let rest = usize::try_from(left_out).ok().and_then(|left_out| rest.get(left_out..));
        parts.push(rest.unwrap_or_default());
    }
    if parts.is_empty() {
        return Ok(Value::Null);
    }
    call.meter.value(parts.iter().map(|part| part.len()).sum())?;
    Ok(Value::Bytes(parts.concat().into()))
}
