// SPDX-License-Identifier: Apache-2.0
//! Engines behind ADBC drivers, which are shared libraries: DuckDB is one itself.
//!
//! The released `adbc_core` wants a feature of the Arrow crates that would make every part of the system that uses Arrow
//! another one. What is needed of ADBC is small: connect, run a text, read a stream of batches. `interface.rs` declares
//! that, `import.rs` copies the batches.

mod import;
mod interface;
mod postgresql;
mod sqlite;

use super::insertion::insertion;
use super::library::require;
use super::owner::Owner;
use super::{
    Appends, Connection, Copying, Dialect, Effort, Engine, EngineError, EngineErrorKind, Nulls, Rows, Text,
    digits,
};
use crate::interrupt::to_its_end;
use crate::literal::printed;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Value};
use interface::{Database, Driver, Failure, Link};
use postgresql::Ownership;
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// An engine behind an ADBC driver. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct AdbcEngine {
    dialect: Dialect,
    manners: Manners,
    database: Arc<Database>,
    /// The ownership of the tables in a server's database.
    ownership: Option<Arc<Ownership>>,
    /// The lock on a file beside the database that makes this process the owner, where the engine has no such lock itself. Kept
    /// only so that dropping it releases the lock.
    _file: Option<Arc<Owner>>,
}

/// The differences between drivers and their engines that the dialect does not describe.
#[derive(Clone, Copy)]
struct Manners {
    /// The statements that each new connection runs first.
    first: &'static [&'static str],
    /// Whether the engine plans a statement before it begins the transaction that runs it. The plan may then leave out a condition
    /// that all rows met at that time, and give wrong answers for rows that were added since. So planning and running are put into
    /// one transaction.
    plans_apart: bool,
    /// The statement that begins a change of several statements; none if the engine has no transactions.
    begin: Option<&'static str>,
    /// Whether the driver counts the rows of a change only if it is not asked for rows.
    counts_without_rows: bool,
    /// From how many rows of an answer the driver guesses the types of its columns, to be tried in this order until one is enough.
    /// Empty if the driver knows the types.
    batches: &'static [&'static CStr],
    /// An option with the value that EXPLAIN needs, if the driver does not answer it as it does queries.
    explain: Option<(&'static CStr, &'static CStr)>,
    /// Writes a value for INSERT.
    given: fn(&ScalarValue) -> String,
}

/// A driver that needs none of these.
const PLAIN: Manners = Manners {
    first: &[],
    plans_apart: false,
    begin: Some("BEGIN"),
    counts_without_rows: false,
    batches: &[],
    explain: None,
    given,
};

impl Manners {
    /// For an engine about which only the dialect is known.
    fn of(dialect: &Dialect) -> Self {
        let begin = (dialect.appends == Appends::Together).then_some("BEGIN");
        let given = match dialect.literals {
            Text::Plain => given_to_standard,
            Text::WithEscapes => given_with_escapes,
        };
        // Where there are transactions, it costs little to plan in them.
        Self { plans_apart: begin.is_some(), begin, given, ..PLAIN }
    }
}

/// A database in memory for what need not outlive the process, which names without a database find behind the file's.
const MEMORY: [&str; 2] =
    ["ATTACH IF NOT EXISTS ':memory:' AS tique_memory", "SET search_path = 'main,tique_memory.main'"];

impl AdbcEngine {
    /// Another engine in this process, by the library of its ADBC driver, whose functions `entry` gives, with these options of an
    /// ADBC database. The driver says how many rows a change touched. Rows are inserted as texts between quotes, bytes as
    /// `X'...'`. An engine whose dialect says [`Appends::Together`] has `BEGIN`, `COMMIT` and `ROLLBACK`.
    ///
    /// Not for servers: a lost connection would be reported as a refusal. The caller has to ensure that only one process at a time
    /// opens the engine's tables, and has to test, as this crate's tests do, that the engine does what [`Engine`] and [`Connection`] ask.
    ///
    /// # Errors
    /// The library cannot be loaded, has no such function, or refuses the options; the dialect says [`Copying::Worthwhile`].
    pub fn open(
        library: &Path,
        entry: &CStr,
        options: &[(&str, &str)],
        dialect: Dialect,
    ) -> Result<Self, EngineError> {
        if dialect.copying == Copying::Worthwhile {
            return Err(EngineError::refused("temporary tables are not made through an ADBC driver"));
        }
        let manners = Manners::of(&dialect);
        let database = Arc::new(Database::open(Driver::load(library, entry)?, options)?);
        Ok(Self { dialect, manners, database, ownership: None, _file: None })
    }

    /// DuckDB, from its own library, on the database in this file; in memory if there is none.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it), is not DuckDB's, or cannot open the file, for instance
    /// because another process has.
    pub fn duckdb(library: &Path, file: Option<&Path>) -> Result<Self, EngineError> {
        require(library, "DuckDB library", "fetch-duckdb", "libduckdb.so")?;
        let dialect = Dialect {
            name: "DuckDB",
            memory: "tique_memory.",
            text: "VARCHAR",
            bytes: |bytes| Value::SingleQuotedString(each_byte(bytes)),
            nulls: Nulls::Above,
            spelled: |kind| {
                let is_read = !matches!(kind, SqlType::Interval { .. } | SqlType::JSONB);
                is_read.then(|| kind.clone())
            },
            ..Dialect::STANDARD
        };
        let driver = Driver::load(library, c"duckdb_adbc_init")?;
        let path = file.map(|file| file.to_string_lossy().into_owned());
        let options: Vec<_> = path.iter().map(|path| ("path", path.as_str())).collect();
        let database = Arc::new(Database::open(driver, &options)?);
        let manners = Manners { first: &MEMORY, plans_apart: true, ..PLAIN };
        Ok(Self { dialect, manners, database, ownership: None, _file: None })
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
        let database = Arc::new(Database::open(driver, &[("uri", &sqlite::address(file)?)])?);
        let (dialect, manners) = (sqlite::dialect(), sqlite::MANNERS);
        Ok(Self { dialect, manners, database, ownership: None, _file: owner.map(Arc::new) })
    }

    /// PostgreSQL, by the library of `adbc-driver-postgresql`, at this address (`postgresql://user@host:port/database`).
    /// The engine owns the database's physical schema until it is dropped, by an advisory lock; a pooler of connections between
    /// them would lose that.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it) or is not the driver; the server is not there (`Lost`);
    /// another process owns the schema.
    pub fn postgresql(library: &Path, address: &str) -> Result<Self, EngineError> {
        require(library, "driver", "fetch-adbc postgresql", "libadbc_driver_postgresql.so")?;
        let driver = Driver::load(library, c"AdbcDriverPostgresqlInit")?;
        let address = postgresql::with_limits(address);
        let database = Database::open(driver, &[("uri", &address)]).map_err(postgresql::lost)?;
        let database = Arc::new(database);
        let session = Link::connect(Arc::clone(&database)).map_err(postgresql::lost)?;
        let ownership = Some(Arc::new(Ownership::take(session)?));
        let (dialect, manners) = (postgresql::dialect(), postgresql::MANNERS);
        Ok(Self { dialect, manners, database, ownership, _file: None })
    }
}

impl Engine for AdbcEngine {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let failed = |failure| match &self.ownership {
            Some(ownership) => {
                ownership.look();
                postgresql::lost(failure)
            }
            None => failure.into(),
        };
        let mut link = Link::connect(Arc::clone(&self.database)).map_err(failed)?;
        for statement in self.manners.first {
            link.run(statement).map_err(failed)?;
        }
        let presence = match &self.ownership {
            Some(ownership) => {
                let number = ownership.admit(&mut link)?;
                Some(Presence { ownership: Arc::clone(ownership), number })
            }
            None => None,
        };
        Ok(Box::new(Remote { link, manners: self.manners, has_begun: false, presence, is_lost: false }))
    }

    fn is_lost(&self) -> bool {
        self.ownership.as_ref().is_some_and(|ownership| ownership.has_ended())
    }

    fn retire(&self) -> bool {
        if let Some(ownership) = &self.ownership {
            ownership.give_back();
        }
        self.ownership.is_some()
    }
}

/// A session of a server that is elsewhere.
struct Presence {
    ownership: Arc<Ownership>,
    /// Of the session's process.
    number: i32,
}

struct Remote {
    link: Link,
    manners: Manners,
    /// Whether the caller has begun a transaction of its own.
    has_begun: bool,
    presence: Option<Presence>,
    is_lost: bool,
}

/// What a driver says if it guessed a column's type from too few rows.
const TYPE_MISMATCH: &str = "Type mismatch in column";

impl Connection for Remote {
    fn query(&mut self, sql: &str, _effort: Effort) -> Result<Rows, EngineError> {
        for rows in self.manners.batches {
            match self.link.run_with(sql, c"adbc.sqlite.query.batch_rows", rows) {
                Err(failure) if failure.message.contains(TYPE_MISMATCH) => {}
                outcome => return self.told(outcome),
            }
        }
        if let Some((option, value)) = self.manners.explain.filter(|_| sql.starts_with("EXPLAIN")) {
            let outcome = self.link.run_with(sql, option, value);
            return self.told(outcome);
        }
        let begins = sql == "START TRANSACTION";
        let ends = ["COMMIT", "ROLLBACK"].contains(&sql);
        if !self.manners.plans_apart || self.has_begun || begins {
            self.has_begun = begins || (self.has_begun && !ends);
            let outcome = self.run(sql);
            return if ends { outcome.map_err(unknown) } else { outcome };
        }
        self.at_once(|link| link.run(sql))
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        if self.manners.plans_apart && !self.has_begun {
            return self.at_once(|link| link.run_counted(sql)).map(touched);
        }
        self.change(sql).map_err(unknown)
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        self.insert(table, rows).map_err(unknown)
    }

    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        let full: Vec<_> = appends.iter().filter(|(_, rows)| rows.num_rows() > 0).collect();
        if let [(table, rows)] = full.as_slice() {
            return self.append(table, rows);
        }
        let Some(begin) = self.manners.begin else {
            return full.into_iter().try_for_each(|(table, rows)| self.append(table, rows));
        };
        self.run(begin)?;
        for (table, rows) in full {
            if let Err(error) = self.insert(table, rows) {
                // Where that fails, the transaction has ended with the connection, or by itself.
                drop(to_its_end(|| self.run("ROLLBACK")));
                return Err(error);
            }
        }
        // Whether a commit that failed took effect is not known, of a file as well as of a server.
        to_its_end(|| self.run("COMMIT")).map(drop).map_err(|error| EngineError::gone(error.message))
    }

    /// Each statement is durable when it returns.
    fn sync(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }
}

impl Remote {
    fn run(&mut self, sql: &str) -> Result<Rows, EngineError> {
        let outcome = self.link.run(sql);
        self.told(outcome)
    }

    /// Finds out whether a failure means that the connection is lost. If so, the server is no longer working on the statement when
    /// this returns.
    fn told<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, EngineError> {
        let failure = match (outcome, &self.presence) {
            (Ok(value), _) => return Ok(value),
            (Err(failure), None) => return Err(failure.into()),
            (Err(failure), Some(_)) => failure,
        };
        // Asked also for a statement that nobody waits for: the answer is about the connection.
        if !self.is_lost && to_its_end(|| postgresql::is_broken(&mut self.link, &failure)) {
            self.is_lost = true;
            if let Some(Presence { ownership, number }) = &self.presence {
                ownership.end(*number);
            }
        }
        match self.is_lost {
            true => Err(postgresql::lost(failure)),
            false => Err(failure.into()),
        }
    }

    /// Plans and runs a statement in one transaction: see [`Manners::plans_apart`].
    fn at_once<T>(&mut self, run: impl FnOnce(&mut Link) -> Result<T, Failure>) -> Result<T, EngineError> {
        self.run("BEGIN")?;
        let outcome = run(&mut self.link);
        to_its_end(|| self.run(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }))?;
        self.told(outcome)
    }

    /// Inserts rows, in the transaction that is open or in one of their own.
    fn insert(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        // A plan of rows that are given does not depend on others.
        self.change(&insertion(table, rows, self.manners.given)?).map(drop)
    }

    fn change(&mut self, sql: &str) -> Result<u64, EngineError> {
        let outcome = match self.manners.counts_without_rows {
            true => self.link.change(sql).map(|touched| touched.unwrap_or(0)),
            false => self.link.run_counted(sql).map(touched),
        };
        self.told(outcome)
    }
}

/// The error of a statement that ends a transaction: if the connection was lost, it is not known whether it took effect.
fn unknown(error: EngineError) -> EngineError {
    match error.kind {
        EngineErrorKind::Lost => EngineError::gone(error.message),
        _ => error,
    }
}

/// How many rows a change touched: an engine says it either in a row of its answer or as a count.
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

/// As [`given`], with bytes as the standard has them.
fn given_to_standard(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Binary(Some(bytes)) => Value::HexStringLiteral(digits(bytes)).to_string(),
        other => given(other),
    }
}

/// As [`given_to_standard`], where a backslash begins an escape.
fn given_with_escapes(value: &ScalarValue) -> String {
    Text::WithEscapes.escaped(&given_to_standard(value)).into_owned()
}

/// Bytes as DuckDB reads them from a text.
fn each_byte(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
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

    #[test]
    fn an_engine_is_told_what_its_dialect_says() {
        let together = Manners::of(&Dialect::STANDARD);
        assert_eq!((together.begin, together.plans_apart), (Some("BEGIN"), true));
        let one_by_one = Manners::of(&Dialect { appends: Appends::OneByOne, ..Dialect::STANDARD });
        assert_eq!((one_by_one.begin, one_by_one.plans_apart), (None, false));
        let escapes = Manners::of(&Dialect { literals: Text::WithEscapes, ..Dialect::STANDARD });
        let text = ScalarValue::Utf8(Some(r"\'".to_owned()));
        assert_eq!((together.given)(&text), r"'\'''");
        assert_eq!((escapes.given)(&text), r"'\\'''");
        let bytes = ScalarValue::Binary(Some(vec![0, 255]));
        assert_eq!((together.given)(&bytes), "X'00ff'");
        assert_eq!((escapes.given)(&ScalarValue::Null), "NULL");
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_that_says_why() {
        // Tests run in their package's directory. A path that is compiled in may be that of another checkout with the same cache.
        let error = AdbcEngine::duckdb(Path::new("./Cargo.toml"), None).map(drop).unwrap_err();
        assert!(error.message.contains("Cargo.toml cannot be loaded: "), "{error}");
        assert!(error.message.contains("ELF") || error.message.contains("magic"), "{error}");
    }
}
