// SPDX-License-Identifier: Apache-2.0
//! Values as JSON: what `to_json` makes of them.

use crate::error::SqlError;
use crate::types::json::{Kind, Part, push_long_string, push_string};
use crate::types::{column_type_of_field, format_value, marked_field};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use chrono_tz::Tz;
use coeval_store::{ColumnType, EnumType, ValueRef, value_at};

/// The value of a field at a row as JSON, instants as local times of `zone`; NULL is `null`.
///
/// # Errors
/// `0A000` for values of a type that has no text.
pub(super) fn push_value(
    array: &ArrayRef,
    row: usize,
    field: &Field,
    zone: Tz,
    out: &mut String,
) -> Result<(), SqlError> {
    if array.is_null(row) || array.data_type().is_null() {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::List(element) => {
            // The mark of the array says of what type its elements are.
            let element = match column_type_of_field(field) {
                Some(ColumnType::Array(ty)) => &marked_field(element.as_ref().clone(), ty.column_type()),
                _ => element.as_ref(),
            };
            return push_elements(&array.as_list::<i32>().value(row), element, zone, out);
        }
        DataType::Struct(fields) if EnumType::of_arrow(array.data_type()).is_none() => {
            let members = array.as_struct();
            let is_unnamed = is_unnamed(fields);
            out.push('{');
            for (place, (field, column)) in fields.iter().zip(members.columns()).enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                if is_unnamed {
                    push_string(&format!("f{}", place + 1), out);
                } else {
                    push_string(field.name(), out);
                }
                out.push(':');
                push_value(column, row, field, zone, out)?;
            }
            out.push('}');
            return Ok(());
        }
        _ => {}
    }
    let unknown = || SqlError::unsupported(format_args!("{} as JSON", array.data_type()));
    let ty = column_type_of_field(field).ok_or_else(unknown)?;
    let one = cast(&array.slice(row, 1), &ty.arrow())?;
    let value = value_at(&one, 0);
    // All texts but these are strings as they are kept; a `char(n)` is kept without the blanks that it has in JSON.
    let is_written = matches!(ty, ColumnType::Json | ColumnType::Jsonb | ColumnType::Char(_));
    if let (ValueRef::Text(text), false) = (value, is_written) {
        return push_long_string(text, out);
    }
    let mut text = String::new();
    format_value(value, ty, zone, &mut text);
    push_typed(&text, ty, out);
    Ok(())
}

/// Whether a row was written without names: DataFusion then calls its fields `c0`, `c1`, and PostgreSQL `f1`, `f2`.
fn is_unnamed(fields: &Fields) -> bool {
    let place_of = |name: &str| name.strip_prefix('c').and_then(|place| place.parse::<usize>().ok());
    fields.iter().enumerate().all(|(place, field)| place_of(field.name()) == Some(place))
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
        ColumnType::Real | ColumnType::Double | ColumnType::AnyNumeric if !text.contains(['N', 'I']) => {
            out.push_str(text)
        }
        ColumnType::Timestamp => push_string(&text.replacen(' ', "T", 1), out),
        ColumnType::TimestampTz => push_string(&with_minutes(text), out),
        _ => push_string(text, out),
    }
}

/// An instant as ISO 8601 has it: a `T` before the time, and an offset with minutes.
fn with_minutes(text: &str) -> String {
    let Some((date, time)) = text.split_once(' ') else { return text.to_owned() };
    let (time, era) =
        time.split_once(' ').map_or((time, String::new()), |(time, era)| (time, format!(" {era}")));
    let has_minutes = time.rsplit(['+', '-']).next().is_some_and(|offset| offset.contains(':'));
    format!("{date}T{time}{}{era}", if has_minutes { "" } else { ":00" })
}

/// A document with each of its members or elements in a line of its own; what is within those stays as it is written.
pub(super) fn in_lines(document: Part<'_>) -> String {
    const BREAK: &str = ",\n ";
    match document.kind() {
        Kind::Object => {
            let members = document.members().map(|(key, value)| format!("{}:{}", key.text(), value.text()));
            format!("{{{}}}", members.collect::<Vec<_>>().join(BREAK))
        }
        Kind::Array => format!("[{}]", document.elements().map(Part::text).collect::<Vec<_>>().join(BREAK)),
        Kind::String | Kind::Number | Kind::Boolean | Kind::Null => document.text().to_owned(),
    }
}

/// The elements of a list as an array.
fn push_elements(elements: &ArrayRef, field: &Field, zone: Tz, out: &mut String) -> Result<(), SqlError> {
    out.push('[');
    for row in 0..elements.len() {
        out.push_str(if row == 0 { "" } else { "," });
        push_value(elements, row, field, zone, out)?;
    }
    out.push(']');
    Ok(())
}
