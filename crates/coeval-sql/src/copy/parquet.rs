// SPDX-License-Identifier: Apache-2.0
//! Parquet files as the source of COPY; [`columnar`](super::columnar) writes them.
//!
//! Row groups are read in parallel and cast to the table's types column by column; no row is looked at by
//! itself. Columns are found by name.

use super::stream::Stream;
use crate::error::{SqlError, SqlState};
use crate::types::{assign_array, without_large_bytes};
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use ::parquet::errors::ParquetError;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use chrono_tz::Tz;
use coeval_store::{CHUNK_ROWS, TableDef};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::path::Path;
use std::sync::Arc;

fn damaged(path: &Path, error: &ParquetError) -> SqlError {
    let message = format!("could not read Parquet file \"{}\": {error}", path.display());
    SqlError::new(SqlState::BadCopyFileFormat, message)
}

/// What becomes of columns that only the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// They are not read.
    Skip,
    /// They are an error.
    Refuse,
}

/// Which columns of the file go into which columns of the table.
struct Match {
    /// Indexes in the file, ascending.
    file: Vec<usize>,
    /// For each of them the index in the table.
    table: Vec<usize>,
}

/// Reads the file's columns of the same names as these columns of the table. Returns the columns of the
/// table that the batches hold, cast to their types.
///
/// # Errors
/// 58P01 if the file is not there, 42809 if it is a pipe, 22P04 if it is damaged, 42703 if it lacks a column or
/// has one that the table does not have, and what casting answers.
pub(super) fn read(
    def: &TableDef,
    columns: &[usize],
    others: Others,
    path: &Path,
    zone: Tz,
) -> Result<(Vec<usize>, Vec<RecordBatch>), SqlError> {
    let opened = Stream::to_read(path)?.into_plain()?;
    let metadata = ArrowReaderMetadata::load(&opened, ArrowReaderOptions::new())
        .map_err(|error| damaged(path, &error))?;
    let matched = match_columns(def, columns, others, metadata.schema())?;
    let options = ArrowReaderOptions::new().with_schema(with_views(metadata.schema()));
    // Views share the pages' bytes; where the file's own types stand in the way, they are cast afterwards.
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).unwrap_or(metadata);
    let groups = metadata.metadata().num_row_groups();
    let batches: Vec<Vec<RecordBatch>> = (0..groups)
        .into_par_iter()
        .map(|group| read_group(def, &matched, path, &metadata, group, zone))
        .collect::<Result<_, SqlError>>()?;
    Ok((matched.table, batches.into_iter().flatten().collect()))
}

fn match_columns(
    def: &TableDef,
    columns: &[usize],
    others: Others,
    schema: &Schema,
) -> Result<Match, SqlError> {
    let same = |field: &Field, index: usize| field.name().eq_ignore_ascii_case(&def.columns[index].name);
    let mut matched = Match { file: Vec::new(), table: Vec::new() };
    for (place, field) in schema.fields().iter().enumerate() {
        match columns.iter().find(|&&index| same(field, index)) {
            Some(&index) => {
                matched.file.push(place);
                matched.table.push(index);
            }
            None if others == Others::Skip => {}
            None => {
                let message = format!(
                    "column \"{}\" of the Parquet file is not in relation \"{}\"",
                    field.name(),
                    def.name.name
                );
                return Err(SqlError::new(SqlState::UndefinedColumn, message));
            }
        }
    }
    let missing = columns.iter().find(|index| !matched.table.contains(index));
    match missing {
        Some(&index) => {
            let message = format!("column \"{}\" is not in the Parquet file", def.columns[index].name);
            Err(SqlError::new(SqlState::UndefinedColumn, message))
        }
        None => Ok(matched),
    }
}

/// The same columns, with text and bytes as views.
fn with_views(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let ty = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(ty)
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// A column of a file, with bytes in the place of large ones: here they would be numbers.
fn with_bytes(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let ty = without_large_bytes(array.data_type());
    if ty == *array.data_type() { Ok(Arc::clone(array)) } else { Ok(cast(array, &ty)?) }
}

fn read_group(
    def: &TableDef,
    matched: &Match,
    path: &Path,
    metadata: &ArrowReaderMetadata,
    group: usize,
    zone: Tz,
) -> Result<Vec<RecordBatch>, SqlError> {
    let opened = Stream::to_read(path)?.into_plain()?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), matched.file.iter().copied());
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(opened, metadata.clone())
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(CHUNK_ROWS)
        .build()
        .map_err(|error| damaged(path, &error))?;
    let fields: Vec<Field> = matched
        .table
        .iter()
        .map(|&index| Field::new(&def.columns[index].name, def.columns[index].ty.arrow(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| damaged(path, &ParquetError::from(error)))?;
        let arrays: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .zip(&matched.table)
            .map(|(array, &index)| {
                let column = &def.columns[index];
                let assigned = with_bytes(array).and_then(|array| assign_array(&array, column.ty, zone));
                assigned.map_err(|mut error| {
                    error
                        .detail
                        .get_or_insert_with(|| format!("COPY {}, column {}", def.name.name, column.name));
                    error
                })
            })
            .collect::<Result<_, _>>()?;
        batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays)?);
    }
    Ok(batches)
}
