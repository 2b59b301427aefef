// SPDX-License-Identifier: Apache-2.0
//! A feed as a stream of Arrow batches: a row for each change, whatever table it is of, so rows of tables are JSON.

use super::output::Writer;
use arrow::array::{
    ArrayRef, Int32Builder, Int64Builder, RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use coeval::{ChangeAsJson, ChangeToken, FedTransaction, TableDef};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// Rows of one batch at most, and bytes of its texts after which it is written.
const BATCH_ROWS: usize = 4_096;
const BATCH_BYTES: usize = 4 << 20;

/// The columns of text behind the token.
const TEXTS: [&str; 6] = ["table_schema", "table_name", "operation", "key", "before", "after"];

/// See the module.
pub(super) struct ArrowStream<W: Write> {
    out: StreamWriter<BufWriter<W>>,
    schema: SchemaRef,
    /// The tokens of the rows so far; the last row's is missing while it is not known.
    token: StringBuilder,
    version: Int64Builder,
    position: Int32Builder,
    committed_at: TimestampMicrosecondBuilder,
    texts: [StringBuilder; TEXTS.len()],
    /// Whether the last row waits for its token.
    is_open: bool,
    bytes: usize,
}

fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write> ArrowStream<W> {
    /// Writes the schema.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let moment = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let head = [
            ("token", DataType::Utf8),
            ("version", DataType::Int64),
            ("position", DataType::Int32),
            ("committed_at", moment.clone()),
        ];
        let texts = TEXTS.map(|name| (name, DataType::Utf8));
        let fields = head.into_iter().chain(texts).map(|(name, ty)| Field::new(name, ty, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let out = StreamWriter::try_new(BufWriter::new(out), &schema).map_err(failed)?;
        Ok(Self {
            out,
            schema,
            token: StringBuilder::new(),
            version: Int64Builder::new(),
            position: Int32Builder::new(),
            committed_at: TimestampMicrosecondBuilder::new().with_data_type(moment),
            texts: std::array::from_fn(|_| StringBuilder::new()),
            is_open: false,
            bytes: 0,
        })
    }

    fn close_row(&mut self, token: Option<String>) -> io::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.token.append_option(token);
            let rows = self.version.values_slice().len();
            if rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
                return self.write();
            }
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.bytes = 0;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.token.finish()),
            Arc::new(self.version.finish()),
            Arc::new(self.position.finish()),
            Arc::new(self.committed_at.finish()),
        ];
        columns.extend(self.texts.iter_mut().map(|text| Arc::new(text.finish()) as ArrayRef));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)?;
        if batch.num_rows() > 0 {
            self.out.write(&batch).map_err(failed)?;
        }
        Ok(())
    }
}

impl<W: Write> Writer for ArrowStream<W> {
    fn change(
        &mut self,
        transaction: &FedTransaction,
        table: &TableDef,
        change: ChangeAsJson,
    ) -> io::Result<()> {
        self.close_row(None)?;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.version.append_value(number(transaction.version.get()));
        self.position.append_value(i32::try_from(transaction.position).unwrap_or(i32::MAX));
        self.committed_at.append_option(transaction.time.map(|time| number(time.micros())));
        let (schema, name) = (table.name.schema.as_str(), table.name.name.as_str());
        let ChangeAsJson { operation, key, before, after } = &change;
        let texts =
            [Some(schema), Some(name), Some(*operation), key.as_deref(), before.as_deref(), after.as_deref()];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.append_option(text);
            self.bytes += text.map_or(0, str::len);
        }
        self.is_open = true;
        Ok(())
    }

    fn token(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.close_row(Some(token.to_string()))
    }

    fn token_alone(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.version.append_null();
        self.position.append_null();
        self.committed_at.append_null();
        self.texts.iter_mut().for_each(StringBuilder::append_null);
        self.is_open = true;
        self.close_row(Some(token.to_string()))
    }

    fn flush(&mut self) -> io::Result<()> {
        // Behind a transaction no row is open.
        self.write()?;
        self.out.get_mut().flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_open {
            // A transaction that has not ended counts for nothing; its last row has no token.
            self.close_row(None)?;
        }
        self.write()?;
        self.out.finish().map_err(failed)?;
        self.out.get_mut().flush()
    }
}
