// SPDX-License-Identifier: Apache-2.0
//! Engines behind ADBC drivers, which are shared libraries: DuckDB is one itself.
//!
//! The released `adbc_core` wants a feature of the Arrow crates that would make every part of the system that uses Arrow
//! another one. What is needed of ADBC is small: connect, run a text, read a stream of batches. `interface.rs` declares
//! that, `import.rs` copies the batches.

mod import;
mod interface;
mod sqlite;

use super::insertion::insertion;
use super::library::require;
use super::{
    Appends, Connection, Copying, Dialect, Effort, Engine, EngineError, Indexes, Integers, Lists, Names,
    Nulls, Pushdown, Rows, Text, Types, digits,
};
use crate::literal::printed;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Value};
use interface::{Database, Driver, Link};
use parking_lot::Mutex;
use std::any::Any;
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// An engine behind an ADBC driver. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct AdbcEngine {
    dialect: Dialect,
    manners: Manners,
    database: Arc<Database>,
    /// Holds the lock that makes us the owner, where the engine itself does not see to that. There for its drop.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

/// In what drivers and their engines differ, besides the dialect.
#[derive(Clone, Copy)]
struct Manners {
    /// What each connection is told first.
    first: &'static [&'static str],
    /// Whether the engine plans a statement before the transaction begins that runs it: it may leave out a condition that held
    /// for all rows then, and meet rows that came since. So a statement is given a transaction that is there for both.
    plans_apart: bool,
    /// What begins a change of several statements.
    begin: &'static str,
    /// Whether the driver counts the rows of a change only if it is not asked for rows.
    counts_without_rows: bool,
    /// By how many rows of an answer the driver may tell the types of its columns: more, if those before did not do. Empty
    /// if it knows them.
    batches: &'static [&'static CStr],
    /// Writes a value for INSERT.
    given: fn(&ScalarValue) -> String,
}

/// Drivers that leave nothing to be done.
const PLAIN: Manners = Manners {
    first: &[],
    plans_apart: false,
    begin: "BEGIN",
    counts_without_rows: false,
    batches: &[],
    given,
};

impl AdbcEngine {
    /// DuckDB, from its own library, on the database in this file; in memory if there is none.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it), is not DuckDB's, or cannot open the file, for instance
    /// because another process has.
    pub fn duckdb(library: &Path, file: Option<&Path>) -> Result<Self, EngineError> {
        require(library, "DuckDB library", "fetch-duckdb", "libduckdb.so")?;
        let dialect = Dialect {
            name: "DuckDB",
            unlogged: "",
            bigint: "BIGINT",
            boolean: "BOOLEAN",
            text: "VARCHAR",
            literals: Text::Plain,
            lists: Lists::Plain,
            appends: Appends::Together,
            pushdown: Pushdown::ByEngine,
            names: Names::Standard,
            types: Types::OfEngine,
            indexes: Indexes::None,
            integers: Integers::Whole,
            copying: Copying::Never,
            bytes: |bytes| Value::SingleQuotedString(each_byte(bytes)),
            nulls: Nulls::Above,
            spelled: |kind| Some(kind.clone()).filter(|kind| !matches!(kind, SqlType::Interval { .. })),
        };
        let driver = Driver::load(library, c"duckdb_adbc_init")?;
        let path = file.map(|file| file.to_string_lossy().into_owned());
        let options: Vec<_> = path.iter().map(|path| ("path", path.as_str())).collect();
        let database = Arc::new(Database::open(driver, &options)?);
        let manners = Manners { plans_apart: true, ..PLAIN };
        Ok(Self { dialect, manners, database, _owner: None })
    }

    /// SQLite, by the library of `adbc-driver-sqlite`, on the database in this file; in memory if there is none. The
    /// engine owns the file's physical schema until it is dropped, by a lock on a file beside it.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it) or is not the driver; the file cannot be opened; another
    /// process owns the schema.
    pub fn sqlite(library: &Path, file: Option<&Path>) -> Result<Self, EngineError> {
        require(library, "driver", "fetch-adbc sqlite", "libadbc_driver_sqlite.so")?;
        let driver = Driver::load(library, c"AdbcDriverSqliteInit")?;
        let owner = file.map(sqlite::owner).transpose()?;
        let owner = owner.map(|owner| Arc::new(owner) as Arc<dyn Any + Send + Sync>);
        let database = Arc::new(Database::open(driver, &[("uri", &sqlite::address(file)?)])?);
        Ok(Self { dialect: sqlite::dialect(), manners: sqlite::MANNERS, database, _owner: owner })
    }

    /// PostgreSQL, by the library of `adbc-driver-postgresql`, at this address (`postgresql://user@host:port/database`).
    /// The engine owns the database's physical schema until it is dropped, by an advisory lock.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it) or is not the driver; the server is not there; another
    /// process owns the schema.
    pub fn postgresql(library: &Path, address: &str) -> Result<Self, EngineError> {
        require(library, "driver", "fetch-adbc postgresql", "libadbc_driver_postgresql.so")?;
        let dialect = Dialect {
            name: "PostgreSQL",
            unlogged: "UNLOGGED",
            bigint: "bigint",
            boolean: "boolean",
            text: "text",
            literals: Text::Plain,
            lists: Lists::Plain,
            appends: Appends::Together,
            pushdown: Pushdown::ByEngine,
            names: Names::Standard,
            types: Types::OfEngine,
            indexes: Indexes::None,
            integers: Integers::Whole,
            copying: Copying::Never,
            bytes: |bytes| Value::SingleQuotedString(format!("\\x{}", digits(bytes))),
            nulls: Nulls::AsEngine,
            spelled: |kind| Some(kind.clone()),
        };
        let driver = Driver::load(library, c"AdbcDriverPostgresqlInit")?;
        let database = Arc::new(Database::open(driver, &[("uri", address)])?);
        let mut owner = Link::connect(Arc::clone(&database))?;
        let locked = owner.run(&format!("SELECT pg_try_advisory_lock({OWNER_LOCK})"))?;
        let is_ours = locked.batches.iter().any(|batch| {
            batch.num_rows() == 1 && batch.column(0).as_boolean_opt().is_some_and(|locked| locked.value(0))
        });
        if !is_ours {
            let message = "another process owns the tables of TiQuE in this database (advisory lock)";
            return Err(EngineError::refused(message));
        }
        let manners = Manners { given: given_to_postgresql, ..PLAIN };
        Ok(Self { dialect, manners, database, _owner: Some(Arc::new(Mutex::new(owner))) })
    }
}

/// Who holds this advisory lock of a PostgreSQL database owns TiQuE's schema in it: "tique" in ASCII.
const OWNER_LOCK: i64 = 0x74_69_71_75_65;

impl Engine for AdbcEngine {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let mut link = Link::connect(Arc::clone(&self.database))?;
        for statement in self.manners.first {
            link.run(statement)?;
        }
        Ok(Box::new(Remote { link, manners: self.manners, has_begun: false }))
    }
}

struct Remote {
    link: Link,
    manners: Manners,
    /// Whether the caller has begun a transaction of its own.
    has_begun: bool,
}

/// What a driver says that told a column's type from rows which were not enough.
const TYPE_MISMATCH: &str = "Type mismatch in column";

impl Connection for Remote {
    fn query(&mut self, sql: &str, _effort: Effort) -> Result<Rows, EngineError> {
        for rows in self.manners.batches {
            match self.link.run_in_batches(sql, rows) {
                Err(error) if error.message.contains(TYPE_MISMATCH) => {}
                outcome => return outcome,
            }
        }
        let begins = sql == "START TRANSACTION";
        let ends = ["COMMIT", "ROLLBACK"].contains(&sql);
        if !self.manners.plans_apart || self.has_begun || begins {
            self.has_begun = begins || (self.has_begun && !ends);
            return self.link.run(sql);
        }
        self.at_once(|link| link.run(sql))
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        if self.manners.plans_apart && !self.has_begun {
            return self.at_once(|link| link.run_counted(sql)).map(touched);
        }
        self.change(sql)
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        // A plan of rows that are given does not depend on others.
        self.change(&insertion(table, rows, self.manners.given)?).map(drop)
    }

    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        let full: Vec<_> = appends.iter().filter(|(_, rows)| rows.num_rows() > 0).collect();
        if let [(table, rows)] = full.as_slice() {
            return self.append(table, rows);
        }
        self.link.run(self.manners.begin)?;
        for (table, rows) in full {
            if let Err(error) = self.append(table, rows) {
                self.link.run("ROLLBACK")?;
                return Err(error);
            }
        }
        // Whether a commit that failed took effect is not known of a server.
        self.link.run("COMMIT").map(drop).map_err(|error| EngineError::gone(error.message))
    }

    /// Each statement is durable when it returns.
    fn sync(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Remote {
    /// Plans and runs a statement in one transaction: see [`Manners::plans_apart`].
    fn at_once<T>(
        &mut self,
        run: impl FnOnce(&mut Link) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.link.run("BEGIN")?;
        let outcome = run(&mut self.link);
        self.link.run(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        outcome
    }

    fn change(&mut self, sql: &str) -> Result<u64, EngineError> {
        if self.manners.counts_without_rows {
            return Ok(self.link.change(sql)?.unwrap_or(0));
        }
        self.link.run_counted(sql).map(touched)
    }
}

/// The rows that a change touched, of which an engine says one or the other.
fn touched((rows, touched): (Rows, Option<u64>)) -> u64 {
    // DuckDB answers changes with a row that holds their count, definitions with nothing.
    let first = rows.batches.first().filter(|batch| batch.num_rows() == 1 && batch.num_columns() == 1);
    let count = first.and_then(|batch| cast(batch.column(0), &DataType::Int64).ok());
    let count = count.map_or(0, |count| count.as_primitive::<Int64Type>().value(0));
    u64::try_from(count).unwrap_or(0).max(touched.unwrap_or(0))
}

/// A value as a literal that INSERT gives the type of its column.
fn given(value: &ScalarValue) -> String {
    match value {
        value if value.is_null() => "NULL".to_owned(),
        ScalarValue::Boolean(_) => value.to_string(),
        ScalarValue::Binary(Some(bytes)) => Text::Plain.literal(&each_byte(bytes)),
        other => Text::Plain.literal(&printed(other)),
    }
}

/// Bytes as DuckDB reads them from a text.
fn each_byte(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

fn given_to_postgresql(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Binary(Some(bytes)) => Text::Plain.literal(&format!("\\x{}", digits(bytes))),
        other => given(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_says_how_to_get_it() {
        let error = AdbcEngine::duckdb(Path::new("nowhere/libduckdb.so"), None).map(drop).unwrap_err();
        assert!(error.message.contains("fetch-duckdb"), "{error}");
        let error = AdbcEngine::sqlite(Path::new("nowhere.so"), None).map(drop).unwrap_err();
        assert!(error.message.contains("fetch-adbc sqlite"), "{error}");
        let error = AdbcEngine::postgresql(Path::new("nowhere.so"), "postgresql://").map(drop).unwrap_err();
        assert!(error.message.contains("fetch-adbc postgresql"), "{error}");
    }
}
