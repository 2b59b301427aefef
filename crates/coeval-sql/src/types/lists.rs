// SPDX-License-Identifier: Apache-2.0
//! Arrays of one dimension as text and in binary form, and what becomes of their elements on the way into a column.

use super::array_text::{each_element, is_blank};
use super::assign::assign;
use super::binary::{decode_binary, encode_binary};
use super::facts::type_number;
use super::text::{format_value, parse_value};
use crate::error::{SqlError, SqlState};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType, ListEncoder, ListRef, Value, ValueRef};

/// Appends `{1,NULL,"a b"}`.
pub(super) fn format_list(list: ListRef<'_>, element: ElementType, zone: Tz, out: &mut String) {
    let mut text = String::new();
    let mut is_first = true;
    out.push('{');
    list.for_each(element, |value| {
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        if value.is_null() {
            out.push_str("NULL");
            return;
        }
        text.clear();
        format_value(value, element.column_type(), zone, &mut text);
        push_element(&text, out);
    });
    out.push('}');
}

/// Appends an element of an array, in quotes if it needs them.
fn push_element(text: &str, out: &mut String) {
    let is_special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || is_blank(c);
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(is_special) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

/// The array that the text stands for.
///
/// # Errors
/// `22P02` for text that is no array, `0A000` for one of several dimensions, what the type says of an element.
pub(super) fn parse_list(text: &str, element: ElementType, zone: Tz) -> Result<Value, SqlError> {
    let mut list = ListEncoder::default();
    each_element(text, |part| {
        match part {
            None => list.push(ValueRef::Null),
            Some(part) => list.push(parse_value(part, element.column_type(), zone)?.borrow()),
        }
        Ok(())
    })?;
    Ok(list.value())
}

fn several_dimensions() -> SqlError {
    SqlError::unsupported("an array of several dimensions")
        .with_hint("Keep it as jsonb, or its rows in a table of their own.")
}

/// The array, with elements of type `from`, as a column of type `to` takes it.
///
/// # Errors
/// As for an assignment of each element; `42804` if `to` is neither an array nor text.
pub(super) fn assign_list(
    list: ListRef<'_>,
    from: ElementType,
    to: ColumnType,
    zone: Tz,
) -> Result<Value, SqlError> {
    match to {
        ColumnType::Array(element) => {
            let mut assigned = ListEncoder::default();
            for value in list.elements(from) {
                let value = assign(value, from.column_type(), element.column_type(), zone)?;
                assigned.push(value.borrow());
            }
            Ok(assigned.value())
        }
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
            let mut text = String::new();
            format_list(list, from, zone, &mut text);
            parse_value(&text, to, zone)
        }
        _ => Err(super::assign::no_cast(ColumnType::Array(from), to)),
    }
}

/// Appends dimensions, whether there are NULLs, the element type, the length, the lower bound; then the elements.
///
/// # Errors
/// What an element's type says of it; what was appended is worthless then.
pub(super) fn encode_list(
    list: ListRef<'_>,
    element: ElementType,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let elements = list.elements(element);
    let has_nulls = elements.iter().any(|value| value.borrow().is_null());
    out.extend_from_slice(&i32::from(!elements.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&type_number(element.column_type()).to_be_bytes());
    if elements.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for value in &elements {
        let start = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if !value.borrow().is_null() {
            encode_binary(value.borrow(), element.column_type(), out)?;
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// The array that the bytes stand for.
///
/// # Errors
/// `22P03` for bytes that are no array, `42804` for one of another type, `0A000` for one of several dimensions, what
/// the type says of an element.
pub(super) fn decode_list(bytes: &[u8], element: ElementType) -> Result<Value, SqlError> {
    let ty = element.column_type();
    let malformed = || {
        let message = format!("incorrect binary data format for type {ty}[]");
        SqlError::new(SqlState::InvalidBinaryRepresentation, message)
    };
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at_checked(count).ok_or_else(malformed)?;
        rest = behind;
        Ok::<_, SqlError>(taken)
    };
    let int = |bytes: &[u8]| bytes.try_into().map(i32::from_be_bytes).map_err(|_| malformed());
    let dimensions = int(take(4)?)?;
    take(4)?;
    let number = int(take(4)?)?;
    if number != type_number(ty) && !(is_text(number) && is_text(type_number(ty))) {
        let message = format!(
            "binary data has array element type {number} instead of expected {} ({ty})",
            type_number(ty)
        );
        return Err(SqlError::new(SqlState::DatatypeMismatch, message));
    }
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = int(take(4)?)?;
            take(4)?;
            count
        }
        _ => return Err(several_dimensions()),
    };
    let mut list = ListEncoder::default();
    for _ in 0..count {
        match usize::try_from(int(take(4)?)?) {
            Err(_) => list.push(ValueRef::Null),
            Ok(length) => list.push(decode_binary(take(length)?, ty)?.borrow()),
        }
    }
    if rest.is_empty() { Ok(list.value()) } else { Err(malformed()) }
}

/// Whether the number is that of `text`, `varchar`, `char(n)` or `name`, whose binary forms are alike.
fn is_text(number: i32) -> bool {
    matches!(number, 25 | 1043 | 1042 | 19)
}
