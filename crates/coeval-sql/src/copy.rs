// SPDX-License-Identifier: Apache-2.0
//! COPY between tables and files or clients, as text, CSV, PostgreSQL's binary format, Parquet and Arrow.
//!
//! Reading is split so that it serves any source of bytes: [`decode::Decoder`] reads text and CSV, of which
//! [`portions::PortionReader`] gives parts to several threads, and [`binary::BinaryDecoder`] the binary format; all give
//! batches; [`load::Loading`] puts them into a table, in groups where their order allows it. Writing likewise: [`encode::Encoder`] makes bytes of rows,
//! [`columnar::ColumnarEncoder`] Parquet and Arrow of batches.
//! [`exchange`] is the same with a client at the other end.

mod binary;
mod block;
mod columnar;
mod decode;
mod encode;
mod exchange;
mod field;
mod file;
pub(crate) mod fuzzing;
pub(crate) mod load;
pub(crate) mod options;
mod parquet;
mod portions;
mod record;
mod rejected;
mod stream;

pub use exchange::{CopyEncoding, CopyIn, CopyOut, CopyRows};
pub(crate) use exchange::{Exchange, begin as begin_exchange, is_exchange};
pub(crate) use portions::Gathered;

use crate::context::{Execute, StatementContext};
use crate::dml;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::query;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::rights::insufficient;
use crate::types::column_type_of_arrow;
use arrow::array::RecordBatch;
use coeval_store::{ColumnType, ObjectRef, Privilege, TableDef};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Ident, ObjectName, Query, Statement};
use load::Loading;
use options::{CopyDirection, CopyFormat, CopyOptions};
use std::path::Path;
use std::sync::Arc;
use stream::Stream;

/// Runs a COPY statement. A statement in it that changes rows is run by `run`.
///
/// # Errors
/// 58P01 for a missing file, 42602 for one to write that is not named from the root on, 22P04 for malformed input, 22P02 and its like for values, each with line and
/// column; 0A000 for what is not supported. Nothing is loaded then.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
    run: Execute,
) -> Result<StatementResult, SqlError> {
    let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
        return Err(SqlError::internal("COPY was expected"));
    };
    let direction = if *to { CopyDirection::To } else { CopyDirection::From };
    let options = CopyOptions::new(direction, options, legacy_options)?;
    let path = match target {
        CopyTarget::File { filename } => Path::new(filename),
        CopyTarget::Stdin | CopyTarget::Stdout => {
            return Err(SqlError::unsupported("COPY FROM STDIN or TO STDOUT in this session")
                .with_hint("Name a file, or use a client's own copy command."));
        }
        CopyTarget::Program { .. } => return Err(SqlError::unsupported("COPY with PROGRAM")),
    };
    refuse_files(context, direction)?;
    let rows = match (source, direction) {
        (CopySource::Table { table_name, columns }, CopyDirection::From) => {
            copy_from(context, table_name, columns, path, &options)?
        }
        (CopySource::Table { table_name, columns }, CopyDirection::To) => {
            table_to(context, table_name, columns, path, &options)?
        }
        (CopySource::Query(query), CopyDirection::To) => {
            refuse_place(context, path)?;
            let rows = match returned_rows(context, query, run)? {
                Some(rows) => rows,
                None => query::collect(context, query)?,
            };
            rows_to(context, rows, path, &options)?
        }
        (CopySource::Query(_), CopyDirection::From) => {
            return Err(SqlError::syntax("COPY from a file needs a table"));
        }
    };
    Ok(StatementResult::tagged(CommandTag::Copy(rows)))
}

/// The rows that a statement in the place of a query returns which changes rows; `None` of one that changes none.
///
/// # Errors
/// `0A000` if it returns none; whatever the statement refuses.
fn returned_rows(
    context: &mut StatementContext<'_>,
    query: &Query,
    run: Execute,
) -> Result<Option<RowSet>, SqlError> {
    if dml::first_change(query).is_none() {
        return Ok(None);
    }
    let without_rows =
        || SqlError::new(SqlState::FeatureNotSupported, "COPY query must have a RETURNING clause");
    let statement = match dml::statement_of(query) {
        Some(change) if !dml::returns_rows(change) => return Err(without_rows()),
        // By itself it goes where any other change goes, also to a server.
        Some(change) if query.with.is_none() => change.clone(),
        _ => Statement::Query(Box::new(query.clone())),
    };
    run(context, &statement)?.rows.map(Some).ok_or_else(without_rows)
}

/// Files of the server are for superusers.
fn refuse_files(context: &StatementContext<'_>, direction: CopyDirection) -> Result<(), SqlError> {
    if context.rights().is_superuser() {
        return Ok(());
    }
    let (role, what) = match direction {
        CopyDirection::From => ("pg_read_server_files", "COPY from a file"),
        CopyDirection::To => ("pg_write_server_files", "COPY to a file"),
    };
    let message = format!("must be superuser or have privileges of the {role} role to {what}");
    Err(insufficient(message)
        .with_hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."))
}

/// A file that is written is named from the root on: nobody who sends a statement knows in which folder the program runs. Nor is it
/// among the database's own, of which one that is written in the place of another ends the database.
fn refuse_place(context: &StatementContext<'_>, path: &Path) -> Result<(), SqlError> {
    if path.is_relative() {
        return Err(SqlError::new(SqlState::InvalidName, "relative path not allowed for COPY to file"));
    }
    match context.engine.store().directory() {
        Some(directory) if file::is_within(path, directory) => {
            let message = format!("\"{}\" is in the directory of the database", path.display());
            Err(insufficient(message).with_hint("COPY writes to any other directory."))
        }
        _ => Ok(()),
    }
}

/// The table of a COPY; views and sequences are refused in words of their own.
fn copied_table(
    context: &StatementContext<'_>,
    name: &ObjectName,
    named: &[Ident],
    direction: CopyDirection,
) -> Result<Arc<TableDef>, SqlError> {
    let found = crate::names::existing_name(name, context.settings, context.transaction)?;
    let object = found.as_ref().and_then(|found| context.transaction.catalog().resolve(found));
    let (kind, hint) = match object {
        Some(ObjectRef::View) => ("view", "Try the COPY (SELECT ...) TO variant."),
        Some(ObjectRef::Sequence(_)) => ("sequence", "Try the COPY (SELECT ...) TO variant."),
        _ => {
            let def = crate::names::table(name, context.settings, context.transaction)?;
            crate::foreign::refuse_definition(&def)?;
            let needed = match direction {
                CopyDirection::From => Privilege::Insert,
                CopyDirection::To => Privilege::Select,
            };
            context.rights().require_on(&def, needed, &copied_columns(&def, named)?)?;
            return Ok(def);
        }
    };
    let (preposition, shown) = match direction {
        CopyDirection::From => ("to", name),
        CopyDirection::To => ("from", name),
    };
    let error =
        SqlError::new(SqlState::WrongObjectType, format!("cannot copy {preposition} {kind} \"{shown}\""));
    Err(if direction == CopyDirection::To { error.with_hint(hint) } else { error })
}

/// The columns that are copied: those named, or all.
fn copied_columns(def: &TableDef, named: &[Ident]) -> Result<Vec<usize>, SqlError> {
    if named.is_empty() {
        let written = def.live_columns().filter(|(_, column)| column.generated.is_none());
        return Ok(written.map(|(index, _)| index).collect());
    }
    let mut columns = Vec::with_capacity(named.len());
    for ident in named {
        let name = fold(ident);
        let index = def.column_index(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", def.name.name);
            SqlError::new(SqlState::UndefinedColumn, message)
        })?;
        if def.columns[index].generated.is_some() {
            let message = format!("column \"{name}\" is a generated column");
            return Err(SqlError::new(SqlState::InvalidColumnReference, message)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        if columns.contains(&index) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DuplicateColumn, message));
        }
        columns.push(index);
    }
    Ok(columns)
}

fn copy_from(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    named: &[Ident],
    path: &Path,
    options: &CopyOptions,
) -> Result<u64, SqlError> {
    let def = copied_table(context, name, named, CopyDirection::From)?;
    let columns = copied_columns(&def, named)?;
    options.check_table(&def)?;
    if options.format == CopyFormat::Parquet {
        // A list of columns chooses; without one, nothing of the file is left out silently.
        let others = if named.is_empty() { parquet::Others::Refuse } else { parquet::Others::Skip };
        let (columns, batches) = parquet::read(&def, &columns, others, path, context.settings.zone())?;
        return load::append(context, &def, &columns, &batches);
    }
    let mut input = Stream::to_read(path)?;
    let mut decoder = exchange::AnyDecoder::new(&def, &columns, options, context.settings.zone())?;
    let kept = context.engine.queries.keep(0, "")?;
    let mut rows = Loading::new(def, columns, context.settings.copy_bytes_max(), options, kept);
    file::read_pieces(&mut input, |piece| {
        if decoder.gather(piece) == Gathered::Little {
            return Ok(());
        }
        let mut batches = Vec::new();
        decoder.read(&mut batches)?;
        rows.note_pending(decoder.pending_bytes())?;
        rows.reject(decoder.take_rejected())?;
        rows.push(batches)?;
        if rows.is_group() {
            let group = rows.append_group(context)?;
            rows.note_group(group)?;
        }
        Ok(())
    })?;
    let mut batches = Vec::new();
    decoder.finish(&mut batches)?;
    rows.reject(decoder.take_rejected())?;
    rows.push(batches)?;
    rows.append_rest(context)
}

fn table_to(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    named: &[Ident],
    path: &Path,
    options: &CopyOptions,
) -> Result<u64, SqlError> {
    let def = copied_table(context, name, named, CopyDirection::To)?;
    let indexes = copied_columns(&def, named)?;
    let columns: Vec<(String, ColumnType)> =
        indexes.iter().map(|&index| (def.columns[index].name.clone(), def.columns[index].ty)).collect();
    refuse_place(context, path)?;
    if def.bricks.is_some() {
        let (_, query) = exchange::query_of_table(context, name, named)?;
        let rows = query::collect(context, &query)?;
        return rows_to(context, rows, path, options);
    }
    context.spread.lock().note_rows_read();
    let view = context.transaction.view(def.id)?;
    let parts = view.partition(1).into_iter();
    let batches = parts.flat_map(|part| view.scan(part, &indexes, |_: &_| true));
    write(context, path, options, &columns, batches.map(|batch| batch.map_err(SqlError::from)))
}

fn rows_to(
    context: &StatementContext<'_>,
    rows: RowSet,
    path: &Path,
    options: &CopyOptions,
) -> Result<u64, SqlError> {
    let columns: Vec<(String, ColumnType)> = rows
        .schema
        .fields()
        .iter()
        .map(|field| {
            let ty = column_type_of_arrow(field.data_type());
            let ty = ty.ok_or_else(|| SqlError::unsupported(format!("COPY of a {}", field.data_type())))?;
            Ok((field.name().clone(), ty))
        })
        .collect::<Result<_, SqlError>>()?;
    write(context, path, options, &columns, rows.batches.into_iter().map(Ok))
}

fn write(
    context: &StatementContext<'_>,
    path: &Path,
    options: &CopyOptions,
    columns: &[(String, ColumnType)],
    batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
) -> Result<u64, SqlError> {
    let zone = context.settings.zone();
    if let Some(format) = columnar::Columnar::of(options.format) {
        let kept = context.engine.queries.keep(0, "")?;
        let mut encoder = columnar::ColumnarEncoder::new(columns, format, zone, kept)?;
        return file::write_pieces(path, |out| {
            let mut rows = 0;
            for batch in batches {
                let batch = batch?;
                rows += batch.num_rows() as u64;
                encoder.write(&batch, out.buffer())?;
                out.flush_if_full()?;
            }
            encoder.finish(out.buffer())?;
            Ok(rows)
        });
    }
    let mut encoder = encode::Encoder::new(columns, options, zone)?;
    file::write_pieces(path, |out| {
        encoder.header(out.buffer());
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            let arrays = encoder.arrays(&batch)?;
            for row in 0..batch.num_rows() {
                encoder.encode_row(&arrays, row, out.buffer())?;
                out.flush_if_full()?;
            }
        }
        encoder.trailer(out.buffer());
        Ok(rows)
    })
}
