// SPDX-License-Identifier: Apache-2.0
//! A feed as Arrow streams that stand one behind the other. Each has the rows of one table in one definition, with a column for
//! the row before and one for the row behind the change: structs of the table's columns, in the types that results of queries have.
//!
//! ```text
//! schema of accounts (id, amount) | rows ... | end | schema of accounts (id, amount, note) | a definition, rows ... | end
//! ```
//!
//! Another stream begins where a change is of another table, or of one that has got another definition. A `definition` is always
//! the first row of its stream, whose schema says what it is. So whoever reads knows what rows look like before they come, and
//! that nothing of the table comes in its former columns any more.
//!
//! A token alone goes into the stream that is open. If none is, it gets one that has no table.
//!
//! In memory are the rows of one batch, in builders and then as the bytes of their message.

use super::arrow_head::{Head, failed};
use super::output::Writer;
use arrow::array::{RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use coeval::{
    ChangeAsJson, ChangeToken, ChangedRow, ColumnType, FedChange, FedTransaction, QualifiedName, RowColumn,
    SpaceId, TableDef, TextForm,
};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// What a stream's schema says of its rows: the name of the table, what it is, and, in front of a definition, what it was.
const TABLE: &str = "coeval.table";
const DEFINITION: &str = "coeval.definition";
const DEFINITION_BEFORE: &str = "coeval.definition_before";

/// See the module.
pub(super) struct ArrowTables<W: Write> {
    out: BufWriter<W>,
    head: Head,
    operation: StringBuilder,
    stream: Option<Stream>,
    has_begun: bool,
}

/// A stream that has begun.
struct Stream {
    schema: SchemaRef,
    /// None if it has tokens alone.
    rows: Option<TableRows>,
    /// What it has written is fetched from there.
    encoder: StreamWriter<Vec<u8>>,
}

/// The columns that are a table's own.
struct TableRows {
    shape: Shape,
    /// None if no key is declared.
    key: Option<RowColumn>,
    before: RowColumn,
    after: RowColumn,
}

/// What the rows of a stream have in common.
struct Shape {
    id: SpaceId,
    name: QualifiedName,
    primary_key: Vec<usize>,
    /// Those that are live: by index, with name and type.
    columns: Vec<(usize, String, ColumnType)>,
}

impl Shape {
    fn of(table: &TableDef) -> Self {
        let columns = table.live_columns().map(|(index, column)| (index, column.name.clone(), column.ty));
        Self {
            id: table.id,
            name: table.name.clone(),
            primary_key: table.primary_key.clone(),
            columns: columns.collect(),
        }
    }

    fn fits(&self, table: &TableDef) -> bool {
        let columns = table.live_columns().map(|(index, column)| (index, column.name.as_str(), column.ty));
        let own = self.columns.iter().map(|(index, name, ty)| (*index, name.as_str(), *ty));
        self.id == table.id
            && self.name == table.name
            && self.primary_key == table.primary_key
            && own.eq(columns)
    }
}

/// Appends a row, or that there is none. Returns how many bytes it takes, about.
fn push(column: &mut RowColumn, row: Option<&ChangedRow<'_>>) -> usize {
    match row {
        Some(row) => column.push(|index| row.get(index)),
        None => {
            column.push_none();
            0
        }
    }
}

impl TableRows {
    fn new(table: &TableDef) -> Self {
        let live: Vec<usize> = table.live_columns().map(|(index, _)| index).collect();
        // Not all readers know views.
        let rows = |columns: &[usize]| RowColumn::new(table, columns, TextForm::Offsets);
        let has_key = table.bricks.is_none() && table.has_declared_primary_key();
        Self {
            shape: Shape::of(table),
            key: has_key.then(|| rows(&table.primary_key)),
            before: rows(&live),
            after: rows(&live),
        }
    }

    fn columns(&self) -> impl Iterator<Item = (&'static str, &RowColumn)> {
        let key = self.key.iter().map(|key| ("key", key));
        key.chain([("before", &self.before), ("after", &self.after)])
    }

    fn columns_mut(&mut self) -> impl Iterator<Item = &mut RowColumn> {
        self.key.iter_mut().chain([&mut self.before, &mut self.after])
    }

    /// Appends the rows of a change, or of a token alone, which has none. Returns how many bytes they take, about.
    fn push(&mut self, change: Option<&FedChange<'_>>) -> usize {
        let (key, before, after) = match change {
            Some(FedChange::Inserted { after, .. }) => (Some(after), None, Some(after)),
            Some(FedChange::Updated { before, after, .. }) => (Some(after), Some(before), Some(after)),
            Some(FedChange::Deleted { before, .. }) => (Some(before), Some(before), None),
            Some(FedChange::Emptied { .. } | FedChange::Defined { .. } | FedChange::Dropped { .. })
            | None => (None, None, None),
        };
        let key_bytes = self.key.as_mut().map_or(0, |column| push(column, key));
        key_bytes + push(&mut self.before, before) + push(&mut self.after, after)
    }
}

/// What the schema of a stream says that begins with a change.
fn described(change: &FedChange<'_>) -> HashMap<String, String> {
    let table = change.table();
    let before = match change {
        FedChange::Defined { before: Some(before), .. } => Some(ChangeAsJson::definition_of(before)),
        _ => None,
    };
    let marks = [
        (TABLE, Some(format!("{}.{}", table.name.schema, table.name.name))),
        (DEFINITION, Some(ChangeAsJson::definition_of(table))),
        (DEFINITION_BEFORE, before),
    ];
    marks.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?))).collect()
}

impl Stream {
    /// Writes the schema to where it is fetched from.
    fn begin(rows: Option<TableRows>, metadata: HashMap<String, String>) -> io::Result<Self> {
        let mut fields = Head::fields().to_vec();
        fields.push(Field::new("operation", DataType::Utf8, true));
        let columns = rows.iter().flat_map(TableRows::columns);
        fields.extend(columns.map(|(name, column)| Field::new(name, column.data_type(), true)));
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let encoder = StreamWriter::try_new(Vec::new(), &schema).map_err(failed)?;
        Ok(Self { schema, rows, encoder })
    }

    fn fits(&self, change: &FedChange<'_>) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.shape.fits(change.table()))
    }
}

impl<W: Write> ArrowTables<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out: BufWriter::new(out),
            head: Head::new(),
            operation: StringBuilder::new(),
            stream: None,
            has_begun: false,
        }
    }

    fn begin_stream(&mut self, rows: Option<TableRows>, metadata: HashMap<String, String>) -> io::Result<()> {
        self.end_stream()?;
        self.stream = Some(Stream::begin(rows, metadata)?);
        self.has_begun = true;
        Ok(())
    }

    fn end_stream(&mut self) -> io::Result<()> {
        self.write_batch()?;
        if let Some(mut stream) = self.stream.take() {
            stream.encoder.finish().map_err(failed)?;
            self.out.write_all(stream.encoder.get_ref())?;
        }
        Ok(())
    }

    fn close_row(&mut self, token: Option<&ChangeToken>) -> io::Result<()> {
        if self.head.close_row(token) { self.write_batch() } else { Ok(()) }
    }

    /// Writes what has come for the open stream and is not written yet.
    fn write_batch(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if self.head.rows() > 0 {
            let mut columns = self.head.finish();
            columns.push(Arc::new(self.operation.finish()));
            for column in stream.rows.iter_mut().flat_map(TableRows::columns_mut) {
                columns.push(column.finish().map_err(failed)?);
            }
            let batch = RecordBatch::try_new(Arc::clone(&stream.schema), columns).map_err(failed)?;
            stream.encoder.write(&batch).map_err(failed)?;
        }
        // What one large row took is given back.
        self.out.write_all(&std::mem::take(stream.encoder.get_mut()))
    }
}

impl<W: Write> Writer for ArrowTables<W> {
    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.close_row(None)?;
        let is_definition = matches!(change, FedChange::Defined { .. });
        let fits = self.stream.as_ref().is_some_and(|stream| stream.fits(change));
        if is_definition || !fits {
            self.begin_stream(Some(TableRows::new(change.table())), described(change))?;
        }
        self.operation.append_value(ChangeAsJson::operation_of(change));
        let rows = self.stream.as_mut().and_then(|stream| stream.rows.as_mut());
        let bytes = rows.map_or(0, |rows| rows.push(Some(change)));
        self.head.open_row(Some(transaction), bytes);
        Ok(())
    }

    fn token(&mut self, token: &ChangeToken) -> io::Result<()> {
        self.close_row(Some(token))
    }

    fn token_alone(&mut self, token: &ChangeToken) -> io::Result<()> {
        if self.stream.is_none() {
            self.begin_stream(None, HashMap::new())?;
        }
        self.operation.append_null();
        let rows = self.stream.as_mut().and_then(|stream| stream.rows.as_mut());
        let bytes = rows.map_or(0, |rows| rows.push(None));
        self.head.open_row(None, bytes);
        self.close_row(Some(token))
    }

    fn flush(&mut self) -> io::Result<()> {
        // Behind a transaction no row is open.
        self.write_batch()?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        // A transaction that has not ended counts for nothing; its last row has no token.
        self.close_row(None)?;
        if !self.has_begun {
            // Readers take no output for a mistake.
            self.begin_stream(None, HashMap::new())?;
        }
        self.end_stream()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
