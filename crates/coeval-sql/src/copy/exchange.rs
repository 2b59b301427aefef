// SPDX-License-Identifier: Apache-2.0
//! COPY with a client at the other end: FROM STDIN takes pieces as they come, TO STDOUT gives rows as they are asked
//! for.

use super::binary::BinaryDecoder;
use super::columnar::{Columnar, ColumnarEncoder};
use super::decode::Decoder;
use super::encode::Encoder;
use super::load::{Group, Loading};
use super::options::{CopyDirection, CopyFormat, CopyOptions};
use super::portions::{Gathered, PORTION_BYTES, PortionReader};
use super::rejected::Rejections;
use super::{copied_columns, copied_table, returned_rows};
use crate::cancel::CancelHandle;
use crate::context::{Execute, StatementContext};
use crate::dml::refuse_read_only;
use crate::error::SqlError;
use crate::names::fold;
use crate::query;
use crate::result::RowStream;
use crate::types::column_type_of_arrow;
use arrow::array::{ArrayRef, RecordBatch};
use chrono_tz::Tz;
use coeval_store::{ColumnType, TableDef};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Ident, ObjectName, Query, Statement};

/// What the bytes of a COPY are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEncoding {
    /// Lines of text or CSV.
    Text,
    /// PostgreSQL's binary format, Parquet or Arrow.
    Binary,
}

/// Whether a statement is a COPY with the client at the other end.
pub(crate) fn is_exchange(statement: &Statement) -> bool {
    matches!(statement, Statement::Copy { target: CopyTarget::Stdin | CopyTarget::Stdout, .. })
}

/// A COPY with the client that has begun.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// The client sends rows.
    In(CopyIn),
    /// The client gets rows.
    Out(CopyOut),
}

/// Begins a COPY with the client. A statement in it that changes rows is run by `run`, to its end.
///
/// # Errors
/// `42P01` and the like; `0A000` for a format that clients cannot exchange.
pub(crate) fn begin(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    run: Execute,
) -> Result<Exchange, SqlError> {
    let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
        return Err(SqlError::internal("COPY was expected"));
    };
    refuse_read_only(context, statement)?;
    let direction = if *to { CopyDirection::To } else { CopyDirection::From };
    let options = CopyOptions::new(direction, options, legacy_options)?;
    if options.format == CopyFormat::Parquet && direction == CopyDirection::From {
        let error = SqlError::unsupported("COPY FROM STDIN of the format parquet");
        return Err(error
            .with_hint("Parquet is read from its end: name a file of the server, or send CSV or binary."));
    }
    match (direction, target, source) {
        (CopyDirection::From, CopyTarget::Stdin, CopySource::Table { table_name, columns }) => {
            begin_in(context, table_name, columns, &options).map(Exchange::In)
        }
        (CopyDirection::To, CopyTarget::Stdout, CopySource::Table { table_name, columns }) => {
            let (names, query) = query_of_table(context, table_name, columns)?;
            let planned = query::plan(context, &query, &[])?;
            let rows = query::stream(context, &planned)?;
            begin_out(context, rows, &names, &options).map(Exchange::Out)
        }
        (CopyDirection::To, CopyTarget::Stdout, CopySource::Query(query)) => {
            let rows = match returned_rows(context, query, run)? {
                Some(rows) => RowStream::of_rows(rows),
                None => {
                    let planned = query::plan(context, query, &[])?;
                    query::stream(context, &planned)?
                }
            };
            let columns = columns_of(rows.schema())?;
            begin_out(context, rows, &columns, &options).map(Exchange::Out)
        }
        _ => Err(SqlError::syntax("COPY is FROM STDIN or TO STDOUT")),
    }
}

/// A decoder of either kind.
pub(super) enum AnyDecoder {
    Text(Box<PortionReader>),
    /// With what has come and is not read yet.
    Binary(BinaryDecoder, Vec<u8>),
}

impl AnyDecoder {
    /// A decoder for these columns of a table.
    ///
    /// # Errors
    /// 42703 if an option names a column that is not copied.
    pub(super) fn new(
        def: &TableDef,
        columns: &[usize],
        options: &CopyOptions,
        zone: Tz,
    ) -> Result<Self, SqlError> {
        Ok(match options.format {
            CopyFormat::Binary => Self::Binary(BinaryDecoder::new(def, columns), Vec::new()),
            CopyFormat::Text | CopyFormat::Csv | CopyFormat::Parquet | CopyFormat::Arrow => {
                let decoder = Decoder::new(def, columns, options, zone)?;
                Self::Text(Box::new(PortionReader::new(decoder, options, PORTION_BYTES)))
            }
        })
    }

    /// Keeps a piece, cut wherever. If it is enough, it is to be [read](Self::read).
    pub(super) fn gather(&mut self, piece: &[u8]) -> Gathered {
        match self {
            Self::Text(reader) => reader.gather(piece),
            Self::Binary(_, gathered) => {
                gathered.extend_from_slice(piece);
                Gathered::of(gathered.len(), PORTION_BYTES)
            }
        }
    }

    /// Reads what was gathered; full batches go to `out`, now or later.
    ///
    /// # Errors
    /// What is wrong with the input, with line and column.
    pub(super) fn read(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        match self {
            Self::Text(reader) => reader.read(out),
            Self::Binary(decoder, gathered) => {
                decoder.feed(gathered, out)?;
                gathered.clear();
                Ok(())
            }
        }
    }

    /// There is no further piece: the rest goes to `out`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn finish(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), SqlError> {
        match self {
            Self::Text(reader) => reader.finish(out),
            Self::Binary(decoder, gathered) => {
                decoder.feed(gathered, out)?;
                decoder.finish(out)
            }
        }
    }

    /// How many bytes have come that are in no row yet.
    pub(super) fn pending_bytes(&self) -> usize {
        match self {
            Self::Text(reader) => reader.pending_bytes(),
            Self::Binary(decoder, gathered) => decoder.pending_bytes() + gathered.len(),
        }
    }

    /// The rows that were left out since the last call.
    pub(super) fn take_rejected(&mut self) -> Rejections {
        match self {
            Self::Text(reader) => reader.take_rejected(),
            Self::Binary(..) => Rejections::default(),
        }
    }
}

/// COPY FROM STDIN that has begun: it takes the client's bytes and knows where its rows go. They are put into the
/// table by `Session::feed_copy` and `Session::finish_copy`.
pub struct CopyIn {
    encoding: CopyEncoding,
    /// There until the client has sent all.
    decoder: Option<AnyDecoder>,
    rows: Loading,
    block: OpenedFor,
}

/// What the block was opened for that a COPY is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenedFor {
    /// Something else, or there is none.
    Others,
    /// The COPY alone: it ends with it.
    Copy,
}

fn begin_in(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    named: &[Ident],
    options: &CopyOptions,
) -> Result<CopyIn, SqlError> {
    let def = copied_table(context, name, named, CopyDirection::From)?;
    let columns = copied_columns(&def, named)?;
    options.check_table(&def)?;
    let decoder = AnyDecoder::new(&def, &columns, options, context.settings.zone())?;
    let kept = context.engine.queries.keep(0, "")?;
    let rows = Loading::new(def, columns, context.settings.copy_bytes_max(), options, kept);
    Ok(CopyIn { encoding: encoding_of(options), decoder: Some(decoder), rows, block: OpenedFor::Others })
}

fn encoding_of(options: &CopyOptions) -> CopyEncoding {
    match options.format {
        CopyFormat::Binary | CopyFormat::Parquet | CopyFormat::Arrow => CopyEncoding::Binary,
        CopyFormat::Text | CopyFormat::Csv => CopyEncoding::Text,
    }
}

impl CopyIn {
    /// How many columns a row has.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.rows.column_count()
    }

    /// What the client is to send.
    #[must_use]
    pub fn encoding(&self) -> CopyEncoding {
        self.encoding
    }

    /// Keeps the client's next bytes, cut wherever. If they are enough, they are to be [read](Self::read).
    pub(crate) fn gather(&mut self, piece: &[u8]) -> Gathered {
        self.decoder.as_mut().map_or(Gathered::Little, |decoder| decoder.gather(piece))
    }

    /// Reads what was gathered. May wait for other threads.
    ///
    /// # Errors
    /// `22P04` for what is no row, and what the columns' types say of values, with line and column; `53200` for more
    /// rows than are kept.
    pub(crate) fn read(&mut self) -> Result<(), SqlError> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let mut batches = Vec::new();
        decoder.read(&mut batches)?;
        self.rows.note_pending(decoder.pending_bytes())?;
        self.rows.reject(decoder.take_rejected())?;
        self.rows.push(batches)
    }

    /// There are no further bytes. May wait for other threads.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn finish(&mut self) -> Result<(), SqlError> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(()) };
        let mut batches = Vec::new();
        decoder.finish(&mut batches)?;
        self.rows.reject(decoder.take_rejected())?;
        self.rows.push(batches)
    }

    /// Whether there are enough rows to [put into the table](Self::append_group).
    pub(crate) fn is_group(&self) -> bool {
        self.rows.is_group()
    }

    /// Puts the rows so far into the table, if their order allows it.
    ///
    /// # Errors
    /// As [`append_rest`](Self::append_rest).
    pub(crate) fn append_group(&self, context: &mut StatementContext<'_>) -> Result<Group, SqlError> {
        self.rows.append_group(context)
    }

    /// Notes what became of the rows so far.
    ///
    /// # Errors
    /// If more rows were rejected than may be.
    pub(crate) fn note_group(&mut self, group: Group) -> Result<(), SqlError> {
        self.rows.note_group(group)
    }

    /// Puts what is left into the table; how many rows there were in all.
    ///
    /// # Errors
    /// `55000` if the table is not what it was when the COPY began; what constraints say.
    pub(crate) fn append_rest(&self, context: &mut StatementContext<'_>) -> Result<u64, SqlError> {
        self.rows.append_rest(context)
    }

    /// Notes that a block was opened for this COPY alone.
    pub(crate) fn note_own_block(&mut self) {
        self.block = OpenedFor::Copy;
    }

    /// Whether the block that it is in ends with it.
    pub(crate) fn has_own_block(&self) -> bool {
        self.block == OpenedFor::Copy
    }
}

impl std::fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyIn").field("table", &self.rows.def().name).finish_non_exhaustive()
    }
}

/// COPY TO STDOUT that has begun.
pub struct CopyOut {
    rows: RowStream,
    encoder: AnyEncoder,
    encoding: CopyEncoding,
    column_count: usize,
}

enum AnyEncoder {
    Rows(Encoder),
    /// Until what stands behind the last batch was given.
    Batches(ColumnarEncoder),
    /// Behind that.
    Finished,
}

fn begin_out(
    context: &StatementContext<'_>,
    rows: RowStream,
    columns: &[(String, ColumnType)],
    options: &CopyOptions,
) -> Result<CopyOut, SqlError> {
    let zone = context.settings.zone();
    let encoder = match Columnar::of(options.format) {
        None => AnyEncoder::Rows(Encoder::new(columns, options, zone)?),
        Some(format) => {
            let kept = context.engine.queries.keep(0, "")?;
            AnyEncoder::Batches(ColumnarEncoder::new(columns, format, zone, kept)?)
        }
    };
    Ok(CopyOut { rows, encoder, encoding: encoding_of(options), column_count: columns.len() })
}

fn columns_of(schema: &arrow::datatypes::Schema) -> Result<Vec<(String, ColumnType)>, SqlError> {
    let columns = schema.fields().iter().map(|field| {
        let ty = column_type_of_arrow(field.data_type());
        let ty = ty.ok_or_else(|| SqlError::unsupported(format!("COPY of a {}", field.data_type())))?;
        Ok((field.name().clone(), ty))
    });
    columns.collect()
}

/// The query that COPY of a table stands for, and its columns with the types of their definitions.
pub(super) fn query_of_table(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    named: &[Ident],
) -> Result<(Vec<(String, ColumnType)>, Query), SqlError> {
    let def = copied_table(context, name, named, CopyDirection::To)?;
    let columns: Vec<(String, ColumnType)> = copied_columns(&def, named)?
        .into_iter()
        .map(|index| (def.columns[index].name.clone(), def.columns[index].ty))
        .collect();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let list: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let text =
        format!("SELECT {} FROM {}.{}", list.join(", "), quoted(&def.name.schema), quoted(&def.name.name));
    debug_assert!(named.iter().all(|ident| columns.iter().any(|(name, _)| *name == fold(ident))));
    Ok((columns, crate::parse::parse_query(&text)?))
}

impl CopyOut {
    /// How many columns a row has.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.column_count
    }

    /// What the client gets.
    #[must_use]
    pub fn encoding(&self) -> CopyEncoding {
        self.encoding
    }

    /// Appends what stands before the rows; it may be nothing.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        if let AnyEncoder::Rows(encoder) = &mut self.encoder {
            encoder.header(out);
        }
    }

    /// Appends what stands behind the rows; it may be nothing.
    pub fn trailer(&self, out: &mut Vec<u8>) {
        if let AnyEncoder::Rows(encoder) = &self.encoder {
            encoder.trailer(out);
        }
    }

    /// The next rows; `None` behind the last ones. Of Parquet a group of rows comes with the last of its rows, so that
    /// there may be rows without a message; it is kept until then, and counted in the memory of queries.
    ///
    /// # Errors
    /// What the query meets; `53200` if there is no memory for a group of rows. There are no further rows then.
    pub async fn next(&mut self) -> Option<Result<CopyRows, SqlError>> {
        let batch = self.rows.next().await;
        self.encoded(batch)
    }

    /// As [`Self::next`], for a thread that may wait, until the statement is cancelled.
    ///
    /// # Errors
    /// As [`Self::next`]; [`QueryCanceled`](crate::SqlState::QueryCanceled), and the query ends.
    ///
    /// # Panics
    /// On a thread that runs asynchronous work.
    pub fn next_unless_cancelled(&mut self, cancel: &CancelHandle) -> Option<Result<CopyRows, SqlError>> {
        let batch = self.rows.next_unless_cancelled(cancel);
        self.encoded(batch)
    }

    /// What is given of what the query gives.
    fn encoded(
        &mut self,
        batch: Option<Result<RecordBatch, SqlError>>,
    ) -> Option<Result<CopyRows, SqlError>> {
        batch.transpose().and_then(|batch| self.encoder.take(batch.as_ref())).transpose()
    }

    /// Appends the message of this number of these rows: a row of text, CSV and the binary format, a piece of Parquet and
    /// Arrow.
    ///
    /// # Errors
    /// `22008` for a value that has no binary form; a part of the row is appended then.
    ///
    /// # Panics
    /// If there is no such message.
    pub fn encode(&mut self, rows: &CopyRows, message: usize, out: &mut Vec<u8>) -> Result<(), SqlError> {
        assert!(message < rows.messages(), "the message is one of those there are");
        match (&rows.given, &mut self.encoder) {
            (Given::Arrays(arrays), AnyEncoder::Rows(encoder)) => encoder.encode_row(arrays, message, out),
            (Given::Bytes(bytes), _) => {
                let from = message * MESSAGE_BYTES;
                out.extend_from_slice(&bytes[from..bytes.len().min(from + MESSAGE_BYTES)]);
                Ok(())
            }
            (Given::Arrays(_), _) => Err(SqlError::internal("the rows are of another COPY")),
        }
    }
}

impl AnyEncoder {
    /// What is given of a batch, or behind the last one; nothing behind that.
    fn take(&mut self, batch: Option<&RecordBatch>) -> Result<Option<CopyRows>, SqlError> {
        let count = batch.map_or(0, RecordBatch::num_rows);
        let given = match (&mut *self, batch) {
            (Self::Rows(encoder), Some(batch)) => Given::Arrays(encoder.arrays(batch)?),
            (Self::Batches(encoder), Some(batch)) => {
                let mut bytes = Vec::new();
                encoder.write(batch, &mut bytes)?;
                Given::Bytes(bytes)
            }
            (Self::Batches(encoder), None) => {
                let mut bytes = Vec::new();
                encoder.finish(&mut bytes)?;
                *self = Self::Finished;
                Given::Bytes(bytes)
            }
            (Self::Rows(_) | Self::Finished, None) => return Ok(None),
            (Self::Finished, Some(_)) => return Err(SqlError::internal("a batch behind the last one")),
        };
        Ok(Some(CopyRows { count, given }))
    }
}

impl std::fmt::Debug for CopyOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyOut").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Bytes of Parquet or Arrow in one message: many clients keep a message as a whole.
const MESSAGE_BYTES: usize = 256 << 10;

/// Rows of a COPY TO STDOUT.
#[derive(Debug)]
pub struct CopyRows {
    count: usize,
    given: Given,
}

#[derive(Debug)]
enum Given {
    Arrays(Vec<ArrayRef>),
    Bytes(Vec<u8>),
}

impl CopyRows {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many messages they take.
    #[must_use]
    pub fn messages(&self) -> usize {
        match &self.given {
            Given::Arrays(_) => self.count,
            Given::Bytes(bytes) => bytes.len().div_ceil(MESSAGE_BYTES),
        }
    }
}
