// SPDX-License-Identifier: Apache-2.0
//! Values as JSON: what `to_json` makes of them.

use super::canonical::push_string;
use crate::error::SqlError;
use crate::query::column_type_of_field;
use crate::types::format_value;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use chrono_tz::Tz;
use coeval_store::{ColumnType, EnumType, value_at};

/// The value of a field at a row as JSON; NULL is `null`.
///
/// # Errors
/// `0A000` for values of a type that has no text.
pub(super) fn push_value(
    array: &ArrayRef,
    row: usize,
    field: &Field,
    out: &mut String,
) -> Result<(), SqlError> {
    if array.is_null(row) || array.data_type().is_null() {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::List(element) => return push_elements(&array.as_list::<i32>().value(row), element, out),
        DataType::Struct(fields) if EnumType::of_arrow(array.data_type()).is_none() => {
            let members = array.as_struct();
            out.push('{');
            for (place, (field, column)) in fields.iter().zip(members.columns()).enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                push_string(field.name(), out);
                out.push(':');
                push_value(column, row, field, out)?;
            }
            out.push('}');
            return Ok(());
        }
        _ => {}
    }
    let unknown = || SqlError::unsupported(format_args!("{} as JSON", array.data_type()));
    let ty = column_type_of_field(field).ok_or_else(unknown)?;
    let one = cast(&array.slice(row, 1), &ty.arrow())?;
    let mut text = String::new();
    format_value(value_at(&one, 0), ty, Tz::UTC, &mut text);
    push_typed(&text, ty, out);
    Ok(())
}

/// A value that is not NULL, and no array, of its text.
pub(super) fn push_typed(text: &str, ty: ColumnType, out: &mut String) {
    match ty {
        ColumnType::Boolean => out.push_str(if text == "t" { "true" } else { "false" }),
        ColumnType::Json | ColumnType::Jsonb => out.push_str(text),
        ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt | ColumnType::Numeric { .. } => {
            out.push_str(text)
        }
        // Numbers of JSON are finite.
        ColumnType::Real | ColumnType::Double if !text.contains(['N', 'I']) => out.push_str(text),
        ColumnType::Timestamp => push_string(&text.replacen(' ', "T", 1), out),
        ColumnType::TimestampTz => push_string(&format!("{}:00", text.replacen(' ', "T", 1)), out),
        _ => push_string(text, out),
    }
}

/// The elements of a list as an array.
fn push_elements(elements: &ArrayRef, field: &Field, out: &mut String) -> Result<(), SqlError> {
    out.push('[');
    for row in 0..elements.len() {
        out.push_str(if row == 0 { "" } else { "," });
        push_value(elements, row, field, out)?;
    }
    out.push(']');
    Ok(())
}
