// SPDX-License-Identifier: Apache-2.0
//! SQLite: what its dialect is, and what its columns hold.
//!
//! A column of SQLite's takes any value, and a CAST of what is no number is zero. So [`Types::Ours`]: values are checked in
//! this process before they are stored. Types that SQLite would keep as something else (decimals, dates, times, uuid,
//! json, bytea) are refused.

use super::{Manners, given};
use crate::engine::owner::Owner;
use crate::engine::{Dialect, EngineError, Indexes, Names, Nulls, Pushdown, Types};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::DataType;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn dialect() -> Dialect {
    Dialect {
        name: "SQLite",
        bigint: "INTEGER",
        boolean: "INTEGER",
        text: "TEXT",
        pushdown: Pushdown::Written,
        names: Names::Backticks,
        types: Types::Ours(read_as),
        indexes: Indexes::OnKeys { bytes_max: None },
        nulls: Nulls::Above,
        spelled,
        ..Dialect::STANDARD
    }
}

/// Readers do not wait for the writer, who waits for the writer before it; a commit is on the disk when it returns.
pub(super) const MANNERS: Manners = Manners {
    first: &["PRAGMA busy_timeout = 60000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"],
    plans_apart: false,
    begin: Some("BEGIN IMMEDIATE"),
    counts_without_rows: true,
    batches: &[c"1024", c"65536", c"4194304", c"67108864"],
    explain: None,
    given: given_to_sqlite,
};

/// The address of a database in a file; of one in memory, which is this engine's own, without.
pub(super) fn address(file: Option<&Path>) -> Result<String, EngineError> {
    /// Databases in memory so far.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match file {
        None => Ok(format!("file:/tique-{}?vfs=memdb", COUNT.fetch_add(1, Ordering::Relaxed))),
        Some(file) => {
            let path = std::path::absolute(file).map_err(|error| {
                EngineError::refused(format!("{} cannot be opened: {error}", file.display()))
            })?;
            Ok(path.to_string_lossy().into_owned())
        }
    }
}

/// The lock of the process that owns the tables in a database file, on a file beside it; held as long as this lives.
pub(super) fn owner(file: &Path) -> Result<Owner, EngineError> {
    let lock = file.with_added_extension("owner");
    let refused = |why: &str| EngineError::refused(format!("{}: {why}", lock.display()));
    let owner = Owner::lock(&lock).map_err(|error| refused(&error.to_string()))?;
    owner.ok_or_else(|| refused("another process owns the tables of TiQuE in this database"))
}

/// What SQLite calls the types that it keeps without loss.
fn spelled(kind: &DataType) -> Option<DataType> {
    match read_as(kind) {
        ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 | ArrowType::Boolean => {
            Some(DataType::Integer(None))
        }
        ArrowType::Float32 | ArrowType::Float64 => Some(DataType::Real),
        ArrowType::Utf8 => Some(DataType::Text),
        _ => None,
    }
}

/// The Arrow type of a column; [`ArrowType::Null`] for types that SQLite would store as something else.
fn read_as(kind: &DataType) -> ArrowType {
    match kind {
        DataType::SmallInt(_) | DataType::Int2(_) => ArrowType::Int16,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => ArrowType::Int32,
        DataType::BigInt(_) | DataType::Int8(_) => ArrowType::Int64,
        DataType::Real | DataType::Float4 => ArrowType::Float32,
        DataType::DoublePrecision | DataType::Double(_) | DataType::Float(_) | DataType::Float8 => {
            ArrowType::Float64
        }
        DataType::Boolean | DataType::Bool => ArrowType::Boolean,
        DataType::Text
        | DataType::Varchar(_)
        | DataType::CharacterVarying(_)
        | DataType::Char(_)
        | DataType::Character(_) => ArrowType::Utf8,
        _ => ArrowType::Null,
    }
}

/// A value as a literal that INSERT gives the type of its column.
fn given_to_sqlite(value: &ScalarValue) -> String {
    let infinite = |number: f64| if number > 0.0 { "9e999".to_owned() } else { "-9e999".to_owned() };
    match value {
        ScalarValue::Float64(Some(number)) if number.is_infinite() => infinite(*number),
        ScalarValue::Float32(Some(number)) if number.is_infinite() => infinite(f64::from(*number)),
        other => given(other),
    }
}
