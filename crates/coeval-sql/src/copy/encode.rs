// SPDX-License-Identifier: Apache-2.0
//! Batches in, bytes of text, CSV or the binary format out.

use super::binary;
use super::options::{CopyFormat, CopyOptions, Header};
use crate::error::{SqlError, SqlState};
use crate::parse::ALL_COLUMNS;
use crate::types::{assign_array, format_value};
use arrow::array::{ArrayRef, RecordBatch};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ValueRef, value_at};

/// Writes text, CSV or the binary format.
pub(super) struct Encoder {
    options: CopyOptions,
    columns: Vec<(String, ColumnType)>,
    /// For each column whether it is quoted always.
    quoting: Vec<Quoting>,
    zone: Tz,
    /// One value as text.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Always,
    Needed,
}

impl Encoder {
    /// An encoder for these columns.
    ///
    /// # Errors
    /// 42703 if an option names a column that is not copied.
    pub(super) fn new(
        columns: &[(String, ColumnType)],
        options: &CopyOptions,
        zone: Tz,
    ) -> Result<Self, SqlError> {
        let quotes_all = options.force_quote.iter().any(|name| name == ALL_COLUMNS);
        for name in options.force_quote.iter().filter(|_| !quotes_all) {
            if !columns.iter().any(|(column, _)| column == name) {
                let message = format!("FORCE_QUOTE column \"{name}\" not referenced by COPY");
                return Err(SqlError::new(SqlState::InvalidColumnReference, message));
            }
        }
        let quoting = columns
            .iter()
            .map(|(name, _)| {
                let is_forced = quotes_all || options.force_quote.contains(name);
                if is_forced { Quoting::Always } else { Quoting::Needed }
            })
            .collect();
        Ok(Self { options: options.clone(), columns: columns.to_vec(), quoting, zone, text: String::new() })
    }

    /// Writes what stands before the rows: the signature of the binary format, or the line of column names if one
    /// is asked for.
    pub(super) fn header(&mut self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            return binary::write_header(out);
        }
        if self.options.header == Header::Absent {
            return;
        }
        for (index, (name, _)) in self.columns.iter().enumerate() {
            if index > 0 {
                out.push(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Csv => write_csv(name, Quoting::Needed, &self.options, out),
                CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => {
                    write_text(name, self.options.delimiter, out);
                }
            }
        }
        out.push(b'\n');
    }

    /// Writes what stands behind the rows.
    pub(super) fn trailer(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            binary::write_trailer(out);
        }
    }

    /// The columns of a batch, of the types that are written.
    ///
    /// # Errors
    /// If a column is of a type that has no text.
    pub(super) fn arrays(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, SqlError> {
        let arrays = batch.columns().iter().zip(&self.columns).map(|(array, (_, ty))| {
            if *array.data_type() == ty.arrow() {
                Ok(array.clone())
            } else {
                assign_array(array, *ty, self.zone)
            }
        });
        arrays.collect()
    }

    /// Writes a row of [`arrays`](Self::arrays).
    ///
    /// # Errors
    /// `22008` for a value that has no binary form; a part of the row is written then.
    pub(super) fn encode_row(
        &mut self,
        arrays: &[ArrayRef],
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        if self.options.format == CopyFormat::Binary {
            let values = arrays.iter().zip(&self.columns);
            let values = values.map(|(array, (_, ty))| (value_at(array.as_ref(), row), *ty));
            return binary::write_row(values, out);
        }
        for (index, array) in arrays.iter().enumerate() {
            if index > 0 {
                out.push(self.options.delimiter);
            }
            self.write_value(index, value_at(array.as_ref(), row), out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn write_value(&mut self, index: usize, value: ValueRef<'_>, out: &mut Vec<u8>) {
        if value.is_null() {
            out.extend_from_slice(self.options.null.as_bytes());
            return;
        }
        let ty = self.columns[index].1;
        // Text that is its own output needs no copy.
        let text = match (value, ty) {
            (
                ValueRef::Text(text),
                ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json | ColumnType::Jsonb,
            ) => text,
            _ => {
                self.text.clear();
                format_value(value, ty, self.zone, &mut self.text);
                &self.text
            }
        };
        match self.options.format {
            CopyFormat::Csv => write_csv(text, self.quoting[index], &self.options, out),
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => {
                write_text(text, self.options.delimiter, out);
            }
        }
    }
}

/// Text with what would end or change a field escaped by a backslash.
fn write_text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    let special =
        |byte: &u8| matches!(byte, b'\\' | 0x08 | 0x09 | 0x0A | 0x0B | 0x0C | 0x0D) || *byte == delimiter;
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(match rest[at] {
            0x08 => b'b',
            0x09 => b't',
            0x0A => b'n',
            0x0B => b'v',
            0x0C => b'f',
            0x0D => b'r',
            byte => byte,
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Text in quotes where it would otherwise be read as something else.
fn write_csv(text: &str, quoting: Quoting, options: &CopyOptions, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let special =
        |&byte: &u8| byte == options.delimiter || byte == options.quote || matches!(byte, b'\n' | b'\r');
    let needed = text == options.null || text == "\\." || bytes.iter().any(special);
    if quoting == Quoting::Needed && !needed {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(options.quote);
    for &byte in bytes {
        if byte == options.quote || byte == options.escape {
            out.push(options.escape);
        }
        out.push(byte);
    }
    out.push(options.quote);
}
