// SPDX-License-Identifier: Apache-2.0
//! The engine as workloads use it: opening a directory, creating tables, loading batches, reading answers.

use crate::error::BenchError;
use crate::options::Options;
use crate::table::TableSpec;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type, UInt64Type};
use coeval::{CheckpointPolicy, Database, Key, KeyWriter, Session, ValueRef};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Where a database lies: in a directory that stays, or in one that goes when this is dropped.
#[derive(Debug)]
pub(crate) enum Place {
    Given(PathBuf),
    Temporary(TempDir),
}

impl Place {
    /// The directory of the options, made if it is not there, or a new temporary one.
    pub(crate) fn new(options: &Options) -> Result<Self, BenchError> {
        match &options.dir {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(|source| BenchError::file(path, source))?;
                Ok(Self::Given(path.clone()))
            }
            None => {
                let parent = std::env::temp_dir();
                let made = tempfile::Builder::new().prefix("coeval-bench-").tempdir_in(&parent);
                Ok(Self::Temporary(made.map_err(|source| BenchError::file(parent, source))?))
            }
        }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// Opens the database in a directory as the options say.
pub(crate) fn open(
    path: &Path,
    options: &Options,
    checkpoint: CheckpointPolicy,
) -> Result<Database, BenchError> {
    Ok(Database::options().durability(options.durability).checkpoint(checkpoint).open(path)?)
}

/// Whether the database has a table of this name.
pub(crate) fn has_table(db: &Database, table: &TableSpec) -> bool {
    db.table(table.name).is_ok()
}

/// Creates tables with their indexes.
pub(crate) fn create_tables<'t>(
    db: &Database,
    tables: impl IntoIterator<Item = &'t TableSpec>,
) -> Result<(), BenchError> {
    let mut session = db.session();
    for table in tables {
        for statement in table.ddl() {
            session.execute(&statement)?;
        }
    }
    Ok(())
}

/// Rows of a query.
pub(crate) fn query(session: &mut Session, sql: &str) -> Result<Vec<RecordBatch>, BenchError> {
    Ok(session.query(sql)?)
}

/// The one number that a query answers with; 0 for NULL.
pub(crate) fn query_number(session: &mut Session, sql: &str) -> Result<i64, BenchError> {
    let batches = query(session, sql)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows != 1 {
        return Err(BenchError::Answer(format!("one row was asked for, {rows} came: {sql}")));
    }
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).expect("one batch has the row");
    integer(batch.column(0), 0).map_or(Ok(0), Ok)
}

/// The whole number in a row of a column, unscaled if it is a decimal; `None` for NULL and other types.
pub(crate) fn integer(column: &dyn Array, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Int16 => Some(i64::from(column.as_primitive::<Int16Type>().value(row))),
        DataType::Int32 => Some(i64::from(column.as_primitive::<Int32Type>().value(row))),
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => i64::try_from(column.as_primitive::<UInt64Type>().value(row)).ok(),
        DataType::Decimal128(..) => i64::try_from(column.as_primitive::<Decimal128Type>().value(row)).ok(),
        _ => None,
    }
}

/// A primary key, or the first part of one, made of integers.
#[inline]
pub(crate) fn key(parts: &[i32]) -> Key {
    let mut writer = KeyWriter::new();
    for &part in parts {
        writer.push(ValueRef::Int32(part));
    }
    writer.finish()
}

/// Microseconds since 1970.
pub(crate) fn now_microseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
