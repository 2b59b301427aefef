// SPDX-License-Identifier: Apache-2.0
//! MonetDB in this process, by its own library.
//!
//! The library has one database for each process, and any number of sessions on it. Queries of different sessions run at the
//! same time, and so do commits; the statements of a change run at the same time only as statements that use none of its
//! tables ([`Shared`] says why). A DELETE that conflicts with another change of its table is refused, at once or when it commits,
//! without effect, and is run again here; the last time with no other change beside it.

mod exclusion;
mod import;
mod interface;
mod worker;

use super::insertion::insertions;
use super::library::require;
use super::permissions::make_directory;
use super::{
    Connection, Copying, Dialect, Effort, Engine, EngineError, EngineErrorKind, Integers, Lists, Nulls,
    Pushdown, Rows, Text, digits,
};
use crate::literal::printed;
use crate::names::quoted;
use arrow::array::{AsArray, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType, TimezoneInfo, Value};
use exclusion::{Exclusion, Granted, Tables, Use};
use interface::{Functions, Handle};
use parking_lot::{Condvar, Mutex, RwLock};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use worker::Worker;

/// How often a change that conflicts with others is run beside them, before it is run alone.
const TRIES: usize = 3;
/// The library takes much more than twice the time for a statement of twice this length, and all later statements of its session
/// take longer too (eight megabytes: 0.1 s each). So rows are inserted by statements of this length, and a session that was
/// sent a longer one is replaced.
const STATEMENT_BYTES: usize = 64 << 10;
/// What the library says if a change conflicts with another one: when it commits, or at once.
const CONFLICTS: [&str; 2] = ["concurrency conflict", "due to conflict with another transaction"];

/// MonetDB, embedded. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct MonetDbEngine {
    shared: Arc<Shared>,
}

/// What the sessions share.
///
/// # Locking
/// In `rows` a change claims its tables while its statements run, and not during its commit; a query claims the tables that
/// it reads until its answer is copied. `changes` is held for reading around each change of rows, and for writing by a change that has to
/// run alone; it is taken behind the claim, so that who waits for a claim, which may take as long as a query, holds up nobody here.
/// Without these claims two things go wrong in MonetDB 11.41. A query that runs while the
/// texts of a column grow may read an empty text. And a query that begins while a DELETE removes a table's first rows, or an
/// INSERT reuses their place, may miss as many of the newest rows: MonetDB looks up the head of a table's list of segments
/// (`bind_cands`) before it takes the table's lock. Both concern one table, so statements on other tables need not wait: a commit
/// waits for the queries that read the caches of the tables that it wrote, and not for long (`exclusion.rs`). In the joined layout all
/// queries of snapshots read `tique_committed`, which every commit writes: for a moment, where they read copies.
/// `idle` is held for moments, inside of nothing. `_keeper` is never taken: it keeps the database open.
struct Shared {
    dialect: Dialect,
    functions: &'static Functions,
    directory: Option<CString>,
    changes: RwLock<()>,
    rows: Exclusion,
    idle: Mutex<Vec<Idle>>,
    _keeper: Mutex<Worker>,
    /// Dropped last: the database is closed by then.
    alone: OnlyDatabase,
}

/// A session of the library that is not in use, and what its optimizer is set to. It is kept for the next connection: MonetDB
/// 11.41 has places for 64 sessions, and unless the database is the first of its process it never frees the place of a session
/// that was closed. Sessions of the first database are closed.
type Idle = (Worker, Option<Effort>);

/// The right to have a database open in this process.
struct OnlyDatabase {
    is_first: bool,
}

/// Whether this process has, or has had, a database open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Databases {
    None,
    Open,
    Closed,
}

/// # Locking
/// Held for moments while a database is opened or closed; no other lock is held then.
static DATABASES: Mutex<Databases> = Mutex::new(Databases::None);
static CLOSED: Condvar = Condvar::new();
/// How long to wait for another thread that may be closing a database.
const CLOSING: Duration = Duration::from_secs(10);

impl OnlyDatabase {
    fn claim() -> Result<Self, EngineError> {
        let mut databases = DATABASES.lock();
        CLOSED.wait_while_for(&mut databases, |databases| *databases == Databases::Open, CLOSING);
        if *databases == Databases::Open {
            let message = "MonetDB has one database for each process, and one is open";
            return Err(EngineError::refused(message));
        }
        let is_first = *databases == Databases::None;
        *databases = Databases::Open;
        Ok(Self { is_first })
    }
}

impl Drop for OnlyDatabase {
    fn drop(&mut self) {
        *DATABASES.lock() = Databases::Closed;
        CLOSED.notify_all();
    }
}

impl MonetDbEngine {
    /// MonetDB from its library, on the database in this directory; in memory if there is none. It is closed when the
    /// engine and all its connections are dropped.
    ///
    /// # Errors
    /// The library is not there (the message says how to get it) or has another version; a database is open in this
    /// process; another process has this one.
    pub fn open(library: &Path, directory: Option<&Path>) -> Result<Self, EngineError> {
        require(library, "MonetDB library", "fetch-monetdb", "libmonetdbe.so")?;
        let alone = OnlyDatabase::claim()?;
        // The library cannot be loaded a second time beside itself: the first is the one.
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        let functions = match FUNCTIONS.get() {
            Some(functions) => functions,
            None => {
                let loaded = Functions::load(library)?;
                FUNCTIONS.get_or_init(|| loaded)
            }
        };
        let directory = directory.map(whole_path).transpose()?;
        let keeper = Worker::start(functions, directory.clone())?;
        let dialect = Dialect {
            name: "MonetDB",
            literals: Text::WithEscapes,
            lists: Lists::ColumnsApart,
            pushdown: Pushdown::Written,
            integers: Integers::Narrow("HUGEINT"),
            copying: Copying::Worthwhile,
            bytes: |bytes| Value::SingleQuotedString(digits(bytes)),
            nulls: Nulls::Above,
            spelled,
            ..Dialect::STANDARD
        };
        let (changes, rows, idle) = (RwLock::new(()), Exclusion::default(), Mutex::default());
        let keeper = Mutex::new(keeper);
        let shared = Shared { dialect, functions, directory, changes, rows, idle, _keeper: keeper, alone };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// The directory, made if it is not there, as the library wants it: from the root.
fn whole_path(directory: &Path) -> Result<CString, EngineError> {
    let failed = |error: std::io::Error| {
        EngineError::refused(format!("{} cannot be opened: {error}", directory.display()))
    };
    // The library's files are for everybody: their directory is not.
    make_directory(directory).map_err(failed)?;
    let path = directory.canonicalize().map_err(failed)?;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| EngineError::refused(format!("{} is no path", directory.display())))
}

/// MonetDB's names of types. What is read back has milliseconds, so nothing finer is stored. Its intervals,
/// `uuid` and `json` are not read back at all.
fn spelled(kind: &DataType) -> Option<DataType> {
    Some(match kind {
        DataType::Uuid | DataType::JSON | DataType::JSONB | DataType::Interval { .. } => return None,
        DataType::Varchar(None) | DataType::CharacterVarying(None) | DataType::Char(None) => DataType::Text,
        DataType::Bytea => DataType::Blob(None),
        DataType::Int2(_) => DataType::SmallInt(None),
        DataType::Int4(_) => DataType::Integer(None),
        DataType::Int8(_) => DataType::BigInt(None),
        DataType::Float4 => DataType::Real,
        DataType::Float8 => DataType::DoublePrecision,
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            DataType::Timestamp(Some(3), TimezoneInfo::WithTimeZone)
        }
        DataType::Timestamp(..) => DataType::Timestamp(Some(3), TimezoneInfo::None),
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time(Some(3), TimezoneInfo::None)
        }
        other => other.clone(),
    })
}

impl Engine for MonetDbEngine {
    fn dialect(&self) -> &Dialect {
        &self.shared.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, EngineError> {
        let shared = Arc::clone(&self.shared);
        let state = State::Clean;
        let idle = self.shared.idle.lock().pop();
        let (worker, effort) = idle.map_or_else(|| self.shared.start(), Ok)?;
        Ok(Box::new(Session { worker, effort, state, is_worn: false, shared }))
    }
}

impl Shared {
    /// Opens a session of the library's.
    fn start(&self) -> Result<Idle, EngineError> {
        let mut worker = Worker::start(self.functions, self.directory.clone())?;
        // Times with a zone are read without it.
        worker.run(|handle| handle.run("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE").map(drop))?;
        Ok((worker, None))
    }
}

/// What the next user of the session would find in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Clean,
    /// Temporary tables.
    HasTables,
    /// It may be in a transaction, or dead.
    Lost,
}

/// A session, closed or given back before it lets go of the database.
struct Session {
    worker: Worker,
    /// What its optimizer is set to.
    effort: Option<Effort>,
    state: State,
    /// Whether it was sent a long statement.
    is_worn: bool,
    shared: Arc<Shared>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.shared.alone.is_first {
            return;
        }
        if self.state == State::HasTables && self.drop_tables().is_err() {
            self.state = State::Lost;
        }
        if self.state != State::Lost {
            let worker = std::mem::replace(&mut self.worker, Worker::ended());
            self.shared.idle.lock().push((worker, self.effort));
        }
    }
}

impl Session {
    /// Takes another session of the library if this one has become slow and holds nothing that the caller needs.
    fn refresh(&mut self) {
        // Unless the database is the first of its process, each new session takes up a place for ever.
        if self.is_worn && self.state == State::Clean && self.shared.alone.is_first {
            // If no place is free, this session is used on.
            if let Ok((worker, effort)) = self.shared.start() {
                (self.worker, self.effort, self.is_worn) = (worker, effort, false);
            }
        }
    }

    /// Notes what a statement does to the session that it is sent to.
    fn wear(&mut self, sql: &str) {
        self.is_worn |= sql.len() > 2 * STATEMENT_BYTES;
    }

    fn run(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.wear(sql);
        let sql = sql.to_owned();
        self.ask(move |handle| handle.run(&sql).map(|(_, touched)| touched))
    }

    /// Does something with the library's session.
    fn ask<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Handle) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let outcome = self.worker.run(job);
        if outcome.as_ref().is_err_and(|error| error.kind == EngineErrorKind::Gone) {
            self.state = State::Lost;
        }
        outcome
    }

    /// Drops the session's temporary tables.
    fn drop_tables(&mut self) -> Result<(), EngineError> {
        let rows = self.ask(|handle| import::read(handle.run("SELECT name FROM tmp._tables")?.0))?;
        for batch in &rows.batches {
            for name in batch.column(0).as_string::<i32>().iter().flatten() {
                self.run(&format!("DROP TABLE {}", quoted(name)))?;
            }
        }
        Ok(())
    }

    /// Chooses the optimizer's pipeline (3.2.1).
    fn set(&mut self, effort: Effort) -> Result<(), EngineError> {
        self.refresh();
        if self.effort != Some(effort) {
            self.run(match effort {
                Effort::Point => "SET optimizer = 'minimal_fast'",
                Effort::Analytical => "SET optimizer = 'default_pipe'",
            })?;
            self.effort = Some(effort);
        }
        Ok(())
    }

    /// Runs statements as one change of these tables, again if another refused it.
    fn change(&mut self, tables: &Tables, how: Use, statements: &[String]) -> Result<u64, EngineError> {
        let shared = Arc::clone(&self.shared);
        for _ in 0..TRIES {
            let no_reader = shared.rows.claim(tables.clone(), how)?;
            let _beside_others = shared.changes.read();
            match self.try_change(no_reader, statements) {
                Err(error) if CONFLICTS.iter().any(|words| error.message.contains(words)) => {}
                outcome => return outcome,
            }
        }
        let no_reader = shared.rows.claim(tables.clone(), how)?;
        let _alone = shared.changes.write();
        self.try_change(no_reader, statements)
    }

    /// Runs statements as one change, whose tables are claimed until it commits.
    fn try_change(&mut self, no_reader: Granted<'_>, statements: &[String]) -> Result<u64, EngineError> {
        self.run("START TRANSACTION")?;
        let touched: Result<u64, EngineError> =
            statements.iter().try_fold(0, |sum, statement| Ok(sum + self.run(statement)?));
        drop(no_reader);
        match touched {
            // A commit that is refused has rolled back.
            Ok(touched) => self.run("COMMIT").map(|_| touched),
            Err(error) => {
                self.run("ROLLBACK").inspect_err(|_| self.state = State::Lost)?;
                Err(error)
            }
        }
    }
}

impl Connection for Session {
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError> {
        self.set(effort)?;
        if sql == "START TRANSACTION" {
            self.state = State::Lost;
        }
        self.wear(sql);
        let shared = Arc::clone(&self.shared);
        let _no_row_comes_or_goes = shared.rows.claim(Tables::of(sql), Use::Reads)?;
        let sql = sql.to_owned();
        self.ask(move |handle| import::read(handle.run(&sql)?.0))
    }

    fn execute(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.refresh();
        self.change(&Tables::of(sql), Use::Changes, &[sql.to_owned()])
    }

    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.set(Effort::Point)?;
        let statements = insertions(table, rows, given, STATEMENT_BYTES)?;
        self.change(&Tables::named([table]), Use::Changes, &statements).map(drop)
    }

    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        let statements = appends.iter().map(|(table, rows)| insertions(table, rows, given, STATEMENT_BYTES));
        let statements = statements.collect::<Result<Vec<_>, _>>()?.concat();
        if statements.is_empty() {
            return Ok(());
        }
        self.set(Effort::Point)?;
        let tables = Tables::named(appends.iter().map(|(table, _)| *table));
        self.change(&tables, Use::Commits, &statements).map(drop)
    }

    /// Beside everybody else's statements, as a query: nobody else has these tables.
    fn temporary(&mut self, sql: &str) -> Result<u64, EngineError> {
        self.set(Effort::Analytical)?;
        if self.state == State::Clean {
            self.state = State::HasTables;
        }
        let shared = Arc::clone(&self.shared);
        // The tables that it makes are nobody else's.
        let _no_row_comes_or_goes = shared.rows.claim(Tables::named_in(sql), Use::Reads)?;
        self.run(sql)
    }

    /// Each statement is durable when it returns.
    fn sync(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn is_lost(&self) -> bool {
        self.state == State::Lost
    }
}

/// A value as a literal that INSERT gives the type of its column.
fn given(value: &ScalarValue) -> String {
    let text = || Text::WithEscapes.literal(&printed(value));
    match value {
        value if value.is_null() => "NULL".to_owned(),
        ScalarValue::Date32(_) => format!("DATE {}", text()),
        ScalarValue::Time64Microsecond(_) => format!("TIME {}", text()),
        ScalarValue::TimestampMicrosecond(..) => format!("TIMESTAMP {}", text().replacen('T', " ", 1)),
        ScalarValue::Binary(Some(bytes)) => {
            format!("BLOB '{}'", digits(bytes))
        }
        ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_) => text(),
        // Integers of 128 bits may have a digit more than decimals, which are printed without it.
        ScalarValue::Decimal128(Some(number), _, 0) => number.to_string(),
        other => printed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_says_how_to_get_it() {
        let error = MonetDbEngine::open(Path::new("nowhere/libmonetdbe.so"), None).map(drop).unwrap_err();
        assert!(error.message.contains("fetch-monetdb"), "{error}");
    }
}
