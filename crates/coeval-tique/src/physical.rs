// SPDX-License-Identifier: Apache-2.0
//! The physical schema (2.2): what stands in the engine for the application's tables, and for its transactions.
//!
//! ```text
//! T (k, v)    T_storage (k, v)                                                     stable rows
//!             T_cache   (k, v, tique_deleted, tique_txid, tique_cts, tique_seq)    recent versions
//!
//! tique_began (txid, sts)              one row for each transaction that wrote: status R
//! tique_committing (txid, sts, cts)    status C
//! tique_committed (txid, cts)          status T: the commit marker, the only one of the five that is logged
//! tique_aborted (txid)                 status A
//! tique_write_sets (txid, entry, access)
//! tique_tables (name, definition)      the abstract schema
//! ```
//! A row is never updated: a status is a table (3.1.2), and the last of R, C and T or A that holds a transaction counts.

use crate::engine::{Connection, Dialect, Effort, Indexes, Rows};
use crate::error::{Result, SqlState, TiqueError};
use crate::names::quoted;
use crate::packed::{self, bits};
use crate::schema::{Column, Definition, KeyColumns, Kind};
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::sql::sqlparser::ast::DataType;

/// Whether the version is a tombstone.
pub(crate) const DELETED: &str = "tique_deleted";
/// The transaction that wrote the version.
pub(crate) const TXID: &str = "tique_txid";
/// Its commit timestamp; NULL while it runs, or always if visibility is looked up in `tique_committed`.
pub(crate) const CTS: &str = "tique_cts";
/// Orders the versions that one transaction wrote of one row.
pub(crate) const SEQUENCE: &str = "tique_seq";
/// The key's columns as one text or number.
pub(crate) const KEY: &str = "tique_key";

/// The physical tables of a table of this name: cache and storage.
pub(crate) fn tables(name: &str) -> [String; 2] {
    [format!("{name}_cache"), format!("{name}_storage")]
}

/// The index over the key's columns of a physical table.
fn index(physical: &str) -> String {
    format!("{physical}_keys")
}

/// # Errors
/// 42622: the engine would take two names of physical tables and indexes for one, or for another table's.
pub(crate) fn check_length(name: &str, dialect: &Dialect) -> Result<()> {
    let longest = tables(name).iter().map(|physical| index(physical).len()).max().unwrap_or(0);
    match dialect.name_bytes {
        Some(bytes) if longest > bytes => {
            let most = bytes - (longest - name.len());
            let message = format!("the name of table {name} has more than {most} bytes");
            let hint = format!(
                "{} looks at {bytes} bytes of a name, and behind this one stand others.",
                dialect.name
            );
            Err(TiqueError::new(SqlState::NameTooLong, message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Where the stable rows of a table are.
pub(crate) fn storage(table: &Definition) -> String {
    let [_, storage] = tables(&table.name);
    storage
}

/// Where the recent versions of a table are.
pub(crate) fn cache(table: &Definition) -> String {
    let [cache, _] = tables(&table.name);
    cache
}

/// The columns of the storage table, quoted.
pub(crate) fn storage_columns(table: &Definition) -> Vec<String> {
    let mut columns = table.all_names();
    if table.has_key_column() {
        columns.push(quoted(KEY));
    }
    columns
}

/// The columns that versions of one row agree in, quoted.
pub(crate) fn key_columns(table: &Definition) -> Vec<String> {
    match table.key_columns {
        KeyColumns::Separate => table.names(&table.key),
        KeyColumns::Concatenated | KeyColumns::Packed => vec![quoted(KEY)],
    }
}

/// Refuses a type that an engine lacks.
pub(crate) fn lacking(dialect: &Dialect, kind: &DataType) -> TiqueError {
    TiqueError::new(SqlState::FeatureNotSupported, format!("{} has no type {kind}", dialect.name))
        .hint("Use a type that the engine has; docs/tique.md lists what each lacks.")
}

/// A column's definition in the engine's words.
///
/// # Errors
/// 0A000: the engine has no such type.
pub(crate) fn column(column: &Column, dialect: &Dialect) -> Result<String> {
    // Types that an engine gives names of its own, as serial, are not columns alone.
    let is_standard = !matches!(column.kind, DataType::Custom(..));
    let kind = (dialect.spelled)(&column.kind).filter(|_| is_standard);
    let kind = kind.ok_or_else(|| lacking(dialect, &column.kind))?;
    if !(dialect.keeps)(&column.kind) {
        let message = format!("columns of type {} are not read back from {}", column.kind, dialect.name);
        return Err(TiqueError::new(SqlState::FeatureNotSupported, message)
            .hint("Use a type that is; docs/tique.md lists what each engine lacks."));
    }
    Ok(format!("{} {kind}", quoted(&column.name)))
}

/// The column, quoted, that the storage table declares as PRIMARY KEY: one integer that is the key, on engines that keep a hash
/// for it. The cache declares none: it may have several versions of a key, and is small.
fn declared_key(table: &Definition, dialect: &Dialect) -> Option<String> {
    dialect.integers.wide()?;
    if packed::is_kept(table, dialect) {
        return Some(quoted(KEY));
    }
    match *table.key {
        [column] if table.kind == Kind::Transactional && !table.has_key_column() => {
            let column = &table.columns[column];
            bits(column).map(|_| quoted(&column.name))
        }
        _ => None,
    }
}

/// The statements that make a table's physical tables.
///
/// # Errors
/// 0A000: the engine lacks a column's type.
pub(crate) fn create_table(table: &Definition, dialect: &Dialect) -> Result<Vec<String>> {
    let columns = table.columns.iter().map(|each| column(each, dialect));
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    let wide = dialect.integers.wide().filter(|_| packed::is_kept(table, dialect));
    if table.has_key_column() {
        columns.push(format!("{} {}", quoted(KEY), wide.unwrap_or(dialect.text)));
    }
    let (columns, bigint) = (columns.join(", "), dialect.bigint);
    let key = declared_key(table, dialect).map(|key| format!(", PRIMARY KEY ({key})")).unwrap_or_default();
    let storage = format!("CREATE TABLE IF NOT EXISTS {} ({columns}{key})", quoted(&storage(table)));
    let cache = format!(
        "CREATE TABLE IF NOT EXISTS {} ({columns}, {DELETED} {}, {TXID} {bigint}, {CTS} {bigint}, {SEQUENCE} {bigint})",
        quoted(&cache(table)),
        dialect.boolean
    );
    let mut statements = vec![storage, cache];
    if matches!(dialect.indexes, Indexes::OnKeys { .. }) && table.kind == Kind::Transactional {
        let keys = key_columns(table).join(", ");
        for physical in tables(&table.name) {
            let (index, on) = (quoted(&index(&physical)), quoted(&physical));
            statements.push(format!("CREATE INDEX IF NOT EXISTS {index} ON {on} ({keys})"));
        }
    }
    Ok(statements)
}

/// The statements that make the transaction tables, the catalog and the write sets.
pub(crate) fn create_schema(dialect: &Dialect) -> Vec<String> {
    let table = |kind: &str, name: &str, columns: &[&str]| {
        let columns: Vec<_> = columns.iter().map(|column| format!("{column} {}", dialect.bigint)).collect();
        format!("CREATE {kind} TABLE IF NOT EXISTS {name} ({})", columns.join(", "))
    };
    let volatile =
        |name: &str, columns: &[&str]| table(dialect.unlogged, &format!("{}{name}", dialect.memory), columns);
    vec![
        volatile("tique_began", &["txid", "sts"]),
        volatile("tique_committing", &["txid", "sts", "cts"]),
        table("", "tique_committed", &["txid", "cts"]),
        volatile("tique_aborted", &["txid"]),
        volatile("tique_write_sets", &["txid", "entry", "access"]),
        format!("CREATE TABLE IF NOT EXISTS tique_tables (name {0}, definition {0})", dialect.text),
    ]
}

/// What stands in the engine under our names was not made by us.
pub(crate) fn not_ours(error: impl std::fmt::Display) -> TiqueError {
    TiqueError::new(SqlState::EngineRefused, format!("the physical schema is not one of ours: {error}"))
}

/// The one number that a query gives; zero for NULL.
pub(crate) fn number(connection: &mut dyn Connection, sql: &str) -> Result<i64> {
    let rows: Rows = connection.query(sql, Effort::Point)?;
    let Some(batch) = rows.batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(0) };
    let numbers = cast(batch.column(0), &ArrowType::Int64).map_err(not_ours)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    Ok(if numbers.is_null(0) { 0 } else { numbers.value(0) })
}
