// SPDX-License-Identifier: Apache-2.0
//! A feed as one stream of Arrow batches: a row for each change, whatever table it is of, so rows of tables are JSON.

use super::arrow_head::{Head, failed};
use super::output::Writer;
use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use coeval::{ChangeAsJson, ChangeToken, FedChange, FedTransaction};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// The columns of text behind those of the head.
const TEXTS: [&str; 6] = ["table_schema", "table_name", "operation", "key", "before", "after"];

/// See the module.
pub(super) struct ArrowJson<W: Write> {
    out: StreamWriter<BufWriter<W>>,
    schema: SchemaRef,
    head: Head,
    texts: [StringBuilder; TEXTS.len()],
}

impl<W: Write> ArrowJson<W> {
    /// Writes the schema.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let texts = TEXTS.map(|name| Field::new(name, DataType::Utf8, true));
        let fields = Head::fields().into_iter().chain(texts);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let out = StreamWriter::try_new(BufWriter::new(out), &schema).map_err(failed)?;
        Ok(Self { out, schema, head: Head::new(), texts: std::array::from_fn(|_| StringBuilder::new()) })
    }

    fn close_row(&mut self, token: Option<&ChangeToken>) -> io::Result<()> {
        if self.head.close_row(token) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.head.rows() == 0 {
            return Ok(());
        }
        let mut columns = self.head.finish();
        columns.extend(self.texts.iter_mut().map(|text| Arc::new(text.finish()) as ArrayRef));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)?;
        self.out.write(&batch).map_err(failed)
    }
}

impl<W: Write> Writer for ArrowJson<W> {
    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.close_row(None)?;
        let name = &change.table().name;
        let ChangeAsJson { operation, key, before, after } = ChangeAsJson::of(change);
        let texts = [
            Some(name.schema.as_str()),
            Some(name.name.as_str()),
            Some(operation),
            key.as_deref(),
            before.as_deref(),
            after.as_deref(),
        ];
        let mut bytes = 0;
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.append_option(text);
            bytes += text.map_or(0, str::len);
        }
        self.head.open_row(Some(transaction), bytes);
        Ok(())
    }

    fn token(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.close_row(Some(token))
    }

    fn token_alone(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.texts.iter_mut().for_each(StringBuilder::append_null);
        self.head.open_row(None, 0);
        self.close_row(Some(token))
    }

    fn flush(&mut self) -> io::Result<()> {
        // Behind a transaction no row is open.
        self.write()?;
        self.out.get_mut().flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        // A transaction that has not ended counts for nothing; its last row has no token.
        self.close_row(None)?;
        self.write()?;
        self.out.finish().map_err(failed)?;
        self.out.get_mut().flush()
    }
}
