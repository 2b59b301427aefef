// SPDX-License-Identifier: Apache-2.0
//! Batches in, bytes of Parquet or of Arrow's stream format out, as they come about.
//!
//! Both have intervals, enums and places in a log as texts, which all readers of either know, and arrays of them likewise. Parquet gathers a group of rows in memory,
//! encoded and compressed, until it has enough rows or bytes; Arrow writes each batch at once, texts and bytes with
//! offsets and not as views, which not all readers know.

use super::options::CopyFormat;
use crate::error::{SqlError, SqlState};
use crate::memory::Kept;
use crate::types::{assign_array, format_value};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use arrow::array::{ArrayRef, RecordBatch, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use chrono_tz::Tz;
use coeval_store::{ColumnType, value_at};
use parking_lot::Mutex;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a group of Parquet.
const ROW_GROUP_ROWS: usize = 131_072;

/// Bytes of a group of Parquet, about, after which it ends even with fewer rows.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// What memory is kept for.
const GROUP: &str = "a group of rows of COPY";

/// A format that has batches and no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columnar {
    Parquet,
    Arrow,
}

impl Columnar {
    /// The one that a format of COPY is, if it is one.
    pub(super) fn of(format: CopyFormat) -> Option<Self> {
        match format {
            CopyFormat::Parquet => Some(Self::Parquet),
            CopyFormat::Arrow => Some(Self::Arrow),
            CopyFormat::Text | CopyFormat::Csv | CopyFormat::Binary => None,
        }
    }
}

/// Where the writers of both formats leave their bytes, to be fetched.
///
/// # Locking
/// A leaf, and never contended: writer and encoder are one owner's.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Writer {
    Parquet(Box<ArrowWriter<Sink>>),
    Arrow(Box<StreamWriter<Sink>>),
}

/// See the module.
pub(super) struct ColumnarEncoder {
    columns: Vec<(String, ColumnType)>,
    zone: Tz,
    schema: SchemaRef,
    writer: Writer,
    sink: Sink,
    kept: Kept,
    kept_bytes: usize,
}

fn unwritable(error: &ParquetError) -> SqlError {
    SqlError::new(SqlState::FeatureNotSupported, format!("could not write Parquet: {error}"))
        .with_hint("Cast the column to another type, text at worst.")
}

impl ColumnarEncoder {
    /// An encoder for these columns. What it holds back is counted in `kept`.
    ///
    /// # Errors
    /// `0A000` for a type that the format does not have.
    pub(super) fn new(
        columns: &[(String, ColumnType)],
        format: Columnar,
        zone: Tz,
        kept: Kept,
    ) -> Result<Self, SqlError> {
        let field = |(name, ty): &(String, ColumnType)| Field::new(name, stored_type(*ty, format), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let sink = Sink::default();
        let writer = match format {
            Columnar::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
                    .build();
                let writer = ArrowWriter::try_new(sink.clone(), Arc::clone(&schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(|error| unwritable(&error))?))
            }
            Columnar::Arrow => Writer::Arrow(Box::new(StreamWriter::try_new(sink.clone(), &schema)?)),
        };
        Ok(Self { columns: columns.to_vec(), zone, schema, writer, sink, kept, kept_bytes: 0 })
    }

    /// Takes a batch; appends what bytes there are now.
    ///
    /// # Errors
    /// `53200` if there is no memory for what is held back.
    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let stored = batch.columns().iter().zip(&self.columns).zip(self.schema.fields());
        let arrays = stored.map(|((array, (_, ty)), field)| {
            let array = stored_array(array, *ty, self.zone)?;
            if array.data_type() == field.data_type() {
                Ok(array)
            } else {
                Ok(cast(&array, field.data_type())?)
            }
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)?;
        match &mut self.writer {
            Writer::Parquet(writer) => {
                writer.write(&batch).map_err(|error| unwritable(&error))?;
                let bytes = writer.memory_size();
                self.kept.keep_more(bytes.saturating_sub(self.kept_bytes), GROUP)?;
                self.kept.keep_less(self.kept_bytes.saturating_sub(bytes));
                self.kept_bytes = bytes;
            }
            Writer::Arrow(writer) => writer.write(&batch)?,
        }
        self.fetch(out);
        Ok(())
    }

    /// Appends what stands behind the last batch. Nothing is written after it.
    ///
    /// # Errors
    /// If the format cannot be written: a bug.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match &mut self.writer {
            Writer::Parquet(writer) => {
                writer.finish().map_err(|error| unwritable(&error))?;
            }
            Writer::Arrow(writer) => writer.finish()?,
        }
        self.kept.keep_less(std::mem::take(&mut self.kept_bytes));
        self.fetch(out);
        Ok(())
    }

    fn fetch(&mut self, out: &mut Vec<u8>) {
        let mut bytes = self.sink.0.lock();
        if out.is_empty() {
            std::mem::swap(out, &mut bytes);
        } else {
            out.append(&mut bytes);
        }
    }
}

/// Whether values are written as texts: what they are beside that is known here alone, or to few readers.
fn is_text(ty: ColumnType) -> bool {
    match ty {
        ColumnType::AnyNumeric
        | ColumnType::Interval
        | ColumnType::PgLsn
        | ColumnType::TimeTz
        | ColumnType::Bit(_)
        | ColumnType::Varbit(_)
        | ColumnType::Enum(_) => true,
        ColumnType::Array(element) => is_text(element.column_type()),
        _ => false,
    }
}

/// The type in which a column is written.
fn stored_type(ty: ColumnType, format: Columnar) -> DataType {
    let ty = if is_text(ty) { DataType::Utf8View } else { ty.arrow() };
    if format == Columnar::Arrow { without_views(&ty) } else { ty }
}

fn without_views(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(element) => {
            let inner = without_views(element.data_type());
            DataType::List(Arc::new(element.as_ref().clone().with_data_type(inner)))
        }
        other => other.clone(),
    }
}

/// The values in the type of their column, or as texts.
fn stored_array(array: &ArrayRef, ty: ColumnType, zone: Tz) -> Result<ArrayRef, SqlError> {
    if !is_text(ty) {
        return if *array.data_type() == ty.arrow() {
            Ok(array.clone())
        } else {
            assign_array(array, ty, zone)
        };
    }
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for index in 0..array.len() {
        match value_at(array.as_ref(), index) {
            value if value.is_null() => builder.append_null(),
            value => {
                text.clear();
                format_value(value, ty, zone, &mut text);
                builder.append_value(&text);
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}
