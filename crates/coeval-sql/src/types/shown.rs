// SPDX-License-Identifier: Apache-2.0
//! Values of Arrow as PostgreSQL writes them, also of types that no column has: arrays of arrays, rows.

use super::array_text::is_blank;
use super::names::column_type_of_arrow;
use super::text::format_value;
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval_store::{EnumType, value_at};
use datafusion::common::ScalarValue;

/// A value as text, as [`format_shown`] has it, where the type says what it is; NULL is none.
///
/// # Errors
/// If the value has no text.
pub(crate) fn element_text(elements: &ArrayRef, row: usize, zone: Tz) -> Result<Option<String>, SqlError> {
    if elements.is_null(row) {
        return Ok(None);
    }
    let is_row = matches!(elements.data_type(), DataType::Struct(_))
        && EnumType::of_arrow(elements.data_type()).is_none();
    if is_row || matches!(elements.data_type(), DataType::List(_)) {
        return format_shown(elements, row, zone);
    }
    let known = column_type_of_arrow(elements.data_type());
    let Some(ty) = known else { return Ok(Some(ScalarValue::try_from_array(elements, row)?.to_string())) };
    let plain = cast(elements, &ty.arrow())?;
    let mut text = String::new();
    format_value(value_at(&plain, row), ty, zone, &mut text);
    Ok(Some(text))
}

/// `{1,2,NULL,"a b"}`, instants as local times of the zone.
///
/// # Errors
/// If an element has no text.
pub(crate) fn shown_elements(elements: &ArrayRef, zone: Tz) -> Result<String, SqlError> {
    let mut texts = Vec::with_capacity(elements.len());
    let is_nested = matches!(elements.data_type(), DataType::List(_));
    for row in 0..elements.len() {
        texts.push(match element_text(elements, row, zone)? {
            None => "NULL".to_owned(),
            Some(text) if is_nested || is_bare(&text) => text,
            Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        });
    }
    Ok(format!("{{{}}}", texts.join(",")))
}

/// The value at a row as PostgreSQL writes it, also of types that no column has: arrays of arrays, rows. Instants are local
/// times of `zone`. `None` if it is NULL.
///
/// # Errors
/// If the value has no text.
pub fn format_shown(values: &ArrayRef, row: usize, zone: Tz) -> Result<Option<String>, SqlError> {
    if values.data_type().is_null() || values.is_null(row) {
        return Ok(None);
    }
    match values.data_type() {
        DataType::List(_) => shown_elements(&values.as_list::<i32>().value(row), zone).map(Some),
        DataType::Struct(_) if EnumType::of_arrow(values.data_type()).is_none() => {
            row_text(values.as_struct(), row, zone).map(Some)
        }
        _ => element_text(values, row, zone),
    }
}

/// `(1,"a b",,"")`: NULL is nothing.
fn row_text(rows: &StructArray, row: usize, zone: Tz) -> Result<String, SqlError> {
    let mut text = String::from("(");
    for (place, column) in rows.columns().iter().enumerate() {
        text.push_str(if place == 0 { "" } else { "," });
        match format_shown(column, row, zone)? {
            None => {}
            Some(field) if is_bare_field(&field) => text.push_str(&field),
            Some(field) => {
                text.push('"');
                text.push_str(&field.replace('\\', "\\\\").replace('"', "\"\""));
                text.push('"');
            }
        }
    }
    text.push(')');
    Ok(text)
}

/// Whether a field of a row needs no quotes.
fn is_bare_field(text: &str) -> bool {
    let needs_quotes = |letter: char| matches!(letter, '(' | ')' | ',' | '"' | '\\') || is_blank(letter);
    !text.is_empty() && !text.contains(needs_quotes)
}

/// Whether an element needs no quotes.
fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(|letter: char| matches!(letter, '{' | '}' | ',' | '"' | '\\') || is_blank(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_with_a_blank_of_postgresql_is_quoted_and_other_blanks_are_letters() {
        assert!(!is_bare("a\u{b}") && is_bare("a\u{a0}"));
    }
}
