// SPDX-License-Identifier: Apache-2.0
//! Rows as DataRow messages.

use super::{Column, Kind};
use crate::protocol::backend::{EmptyRow, Open, Output};
use crate::protocol::frontend::{Format, Formats};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use chrono_tz::Tz;
use coeval::{ColumnType, ElementType, SqlError, Value, ValueRef, format_value, value_at};
use coeval_sql::{encode_binary, format_shown};
use std::sync::Arc;

const NULL_LENGTH: i32 = -1;

/// Writes rows of one result.
#[derive(Clone, Debug)]
pub(crate) struct RowEncoder {
    columns: Arc<[Column]>,
    formats: Box<[Format]>,
    zone: Tz,
    /// One value as text.
    text: String,
}

impl RowEncoder {
    /// An encoder for these columns, in the forms that the client asked for.
    pub(crate) fn new(columns: Arc<[Column]>, formats: Formats<'_>, zone: Tz) -> Self {
        let formats = (0..columns.len()).map(|index| formats.of(index)).collect();
        Self { columns, formats, zone, text: String::new() }
    }

    /// Writes a row of values.
    ///
    /// # Errors
    /// `54000` for a row that is too long, `22008` for a value that has no binary form; nothing of the row is written
    /// then.
    pub(crate) fn values(&mut self, row: &[Value], output: &mut Output) -> Result<(), SqlError> {
        let open = output.begin(b'D');
        let written = self.write_values(row, output.buffer());
        finished(open, written, output)
    }

    fn write_values(&mut self, row: &[Value], out: &mut Vec<u8>) -> Result<(), SqlError> {
        out.extend_from_slice(&(row.len() as u16).to_be_bytes());
        for (index, value) in row.iter().enumerate() {
            let ty = match self.columns[index].kind {
                Kind::Scalar(ty) => ty,
                Kind::List(element) => ElementType::of(element).map_or(element, ColumnType::Array),
                Kind::Shown => unreachable!("values are of column types"),
            };
            write_value(value.borrow(), ty, self.formats[index], self.zone, &mut self.text, out)?;
        }
        Ok(())
    }

    /// The columns of a batch, of the types that were announced.
    ///
    /// # Errors
    /// If one cannot be made of it: a bug.
    pub(crate) fn arrays(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, SqlError> {
        let arrays = batch.columns().iter().zip(self.columns.iter());
        let arrays = arrays.map(|(array, column)| match column.kind {
            Kind::Scalar(ty) => of_type(array, &ty.arrow()),
            Kind::List(element) => {
                let list = match array.data_type() {
                    DataType::List(_) => Arc::clone(array),
                    other => {
                        let (DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = other else {
                            return Err(SqlError::internal("a list was announced"));
                        };
                        cast(array, &DataType::List(Arc::clone(item)))?
                    }
                };
                let DataType::List(item) = list.data_type() else {
                    return Err(SqlError::internal("a list was announced"));
                };
                let item = item.as_ref().clone().with_data_type(element.arrow());
                of_type(&list, &DataType::List(Arc::new(item)))
            }
            Kind::Shown => Ok(Arc::clone(array)),
        });
        arrays.collect()
    }

    /// Writes a row of [`arrays`](Self::arrays).
    ///
    /// # Errors
    /// If a value has no text; `54000` for a row that is too long, `22008` for a value that has no binary form.
    /// Nothing of the row is written then.
    pub(crate) fn row(
        &mut self,
        arrays: &[ArrayRef],
        row: usize,
        output: &mut Output,
    ) -> Result<(), SqlError> {
        let open = output.begin(b'D');
        let written = self.write_row(arrays, row, output.buffer());
        finished(open, written, output)
    }

    fn write_row(&mut self, arrays: &[ArrayRef], row: usize, out: &mut Vec<u8>) -> Result<(), SqlError> {
        out.extend_from_slice(&(arrays.len() as u16).to_be_bytes());
        for (index, array) in arrays.iter().enumerate() {
            let format = self.formats[index];
            match self.columns[index].kind {
                Kind::Scalar(ty) => {
                    let value = value_at(array.as_ref(), row);
                    write_value(value, ty, format, self.zone, &mut self.text, out)?;
                }
                _ if array.is_null(row) => out.extend_from_slice(&NULL_LENGTH.to_be_bytes()),
                Kind::List(element) => {
                    let list = array.as_list::<i32>().value(row);
                    let oid = self.columns[index].element_oid(element);
                    prefixed(out, |out| match format {
                        Format::Text => {
                            list_text(&list, element, self.zone, &mut self.text, out);
                            Ok(())
                        }
                        Format::Binary => list_binary(&list, element, oid, out),
                    })?;
                }
                Kind::Shown => {
                    let shown = format_shown(array, row, self.zone)?.unwrap_or_default();
                    prefixed(out, |out| {
                        out.extend_from_slice(shown.as_bytes());
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Ends the message of a row, or forgets it.
fn finished(open: Open, written: Result<(), SqlError>, output: &mut Output) -> Result<(), SqlError> {
    match written {
        Ok(()) => output.end_row(open, EmptyRow::Sent),
        Err(error) => {
            output.drop_message(open);
            Err(error)
        }
    }
}

fn of_type(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, SqlError> {
    if array.data_type() == ty { Ok(Arc::clone(array)) } else { Ok(cast(array, ty)?) }
}

/// Writes what `write` writes, with its length before it. A value is shorter than 4 GiB, and its row is refused if it
/// is long.
fn prefixed(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[inline]
fn write_value(
    value: ValueRef<'_>,
    ty: ColumnType,
    format: Format,
    zone: Tz,
    text: &mut String,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if value.is_null() {
        out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
        return Ok(());
    }
    prefixed(out, |out| match format {
        Format::Binary => encode_binary(value, ty, out),
        Format::Text => {
            write_text(value, ty, zone, text, out);
            Ok(())
        }
    })
}

fn write_text(value: ValueRef<'_>, ty: ColumnType, zone: Tz, text: &mut String, out: &mut Vec<u8>) {
    match (value, ty) {
        // Text that is its own output needs no copy.
        (
            ValueRef::Text(own),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json | ColumnType::Jsonb,
        ) => {
            out.extend_from_slice(own.as_bytes());
        }
        (ValueRef::Int16(v), ColumnType::SmallInt) => write_integer(i64::from(v), out),
        (ValueRef::Int32(v), ColumnType::Int) => write_integer(i64::from(v), out),
        (ValueRef::Int64(v), ColumnType::BigInt) => write_integer(v, out),
        _ => {
            text.clear();
            format_value(value, ty, zone, text);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn write_integer(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// `{1,NULL,"a b"}`
fn list_text(list: &ArrayRef, element: ColumnType, zone: Tz, text: &mut String, out: &mut Vec<u8>) {
    out.push(b'{');
    for index in 0..list.len() {
        if index > 0 {
            out.push(b',');
        }
        let value = value_at(list.as_ref(), index);
        if value.is_null() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        text.clear();
        format_value(value, element, zone, text);
        write_list_element(text, out);
    }
    out.push(b'}');
}

/// An element of an array, in quotes if it needs them.
pub(super) fn write_list_element(text: &str, out: &mut Vec<u8>) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special) {
        out.push(b'"');
        for byte in text.bytes() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Dimensions, whether there are NULLs, the element type; for the dimension its length and lower bound; the elements.
fn list_binary(list: &ArrayRef, element: ColumnType, oid: u32, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let dimensions = i32::from(!list.is_empty());
    out.extend_from_slice(&dimensions.to_be_bytes());
    out.extend_from_slice(&i32::from(list.null_count() > 0).to_be_bytes());
    out.extend_from_slice(&oid.to_be_bytes());
    if dimensions == 0 {
        return Ok(());
    }
    out.extend_from_slice(&(list.len() as u32).to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for index in 0..list.len() {
        let value = value_at(list.as_ref(), index);
        if value.is_null() {
            out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
        } else {
            prefixed(out, |out| encode_binary(value, element, out))?;
        }
    }
    Ok(())
}
