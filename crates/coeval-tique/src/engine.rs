// SPDX-License-Identifier: Apache-2.0
//! What is asked of an engine: to append rows at once, to read without tearing, to run SQL.
//!
//! | asked for | why |
//! |---|---|
//! | a statement reads its tables as of one moment | a checkpoint moves rows between two tables |
//! | an append of many rows is there whole or not at all | the commit marker of a batch is one append |
//! | a DELETE is there whole or not at all | recovery and checkpoints delete |
//! | appends from many connections do not refuse each other | that is what TiQuE is for |
//!
//! Nothing else: no transactions, no UPDATE, no uniqueness, no sequences.

mod adbc;
mod datafusion;
mod insertion;
mod library;
mod monetdb;
mod owner;
mod permissions;

use ::datafusion::sql::sqlparser::ast::{DataType, Value};
pub use adbc::AdbcEngine;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
pub use datafusion::{DataFusionEngine, Durability};
pub use monetdb::MonetDbEngine;
use thiserror::Error;

/// How an engine spells what differs.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// The engine's name, for messages.
    pub name: &'static str,
    /// What stands between CREATE and TABLE for a table whose rows need not outlive the process.
    pub unlogged: &'static str,
    /// What stands before such a table's name where it is created: a database in memory, with a dot, where unqualified names find
    /// it. No change writes to it and to others.
    pub memory: &'static str,
    /// 64-bit integers.
    pub bigint: &'static str,
    /// True or false.
    pub boolean: &'static str,
    /// Text of any length.
    pub text: &'static str,
    /// How texts stand in a statement.
    pub literals: Text,
    /// How lists of rows stand in a query.
    pub lists: Lists,
    /// Whether the engine or TiQuE applies conditions on a key before the newest versions are chosen.
    pub pushdown: Pushdown,
    /// Whether appends to several tables can be made one.
    pub appends: Appends,
    /// How names stand in expressions.
    pub names: Names,
    /// Whether the engine or TiQuE checks that a value fits its column.
    pub types: Types,
    /// How rows are found by key.
    pub indexes: Indexes,
    /// How many bytes of a name the engine compares, if not all: names that differ only after these are the same name to it.
    pub name_bytes: Option<usize>,
    /// What its integers can hold.
    pub integers: Integers,
    /// Where NULL comes in an ORDER BY that says neither NULLS FIRST nor NULLS LAST.
    pub nulls: Nulls,
    /// The literal that stands for these bytes in a CAST to `bytea`.
    pub bytes: fn(&[u8]) -> Value,
    /// Whether analytical statements read copies of snapshots.
    pub copying: Copying,
    /// What a type of the application's is called; nothing if the engine has none like it.
    pub spelled: fn(&DataType) -> Option<DataType>,
    /// Whether columns of a type can be read back; those that `spelled` refuses are not asked about.
    pub keeps: fn(&DataType) -> bool,
}

impl Dialect {
    /// Of an engine that does what the standard says, has transactions, and keeps everything.
    pub const STANDARD: Self = Self {
        name: "the engine",
        unlogged: "",
        memory: "",
        bigint: "bigint",
        boolean: "boolean",
        text: "text",
        literals: Text::Plain,
        lists: Lists::Plain,
        pushdown: Pushdown::ByEngine,
        appends: Appends::Together,
        names: Names::Standard,
        types: Types::OfEngine,
        indexes: Indexes::None,
        name_bytes: None,
        integers: Integers::Whole,
        nulls: Nulls::AsEngine,
        bytes: |bytes| Value::HexStringLiteral(digits(bytes)),
        copying: Copying::Never,
        spelled: |kind| Some(kind.clone()),
        keeps: |_| true,
    };
}

/// How names stand in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// In double quotes; an alias of a query may name its columns.
    Standard,
    /// In backticks, since a name in double quotes that is no column's would be a text; a query's columns are named by a
    /// WITH. Both for SQLite.
    Backticks,
}

/// Whether the engine or TiQuE checks that a value fits its column.
#[derive(Clone, Copy, Debug)]
pub enum Types {
    /// The engine, by a CAST. What it says of a table's columns is what they are.
    OfEngine,
    /// TiQuE, for engines whose columns and casts accept any value. The function gives the Arrow type that a column of an SQL
    /// type is read as.
    Ours(fn(&DataType) -> ArrowType),
}

/// Where NULL comes in an ORDER BY that says neither NULLS FIRST nor NULLS LAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Where the engine puts it.
    AsEngine,
    /// Above all values, as in PostgreSQL: TiQuE writes NULLS FIRST or NULLS LAST into each query.
    Above,
}

/// What an engine's integers can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// What 16, 32 and 64 bits can.
    Whole,
    /// The same without the smallest number of each type, which means NULL; and there is this type of 128 bits, in which a
    /// concatenated key of integers is one number.
    Narrow(&'static str),
}

impl Integers {
    /// The name of the type of 128 bits.
    #[must_use]
    pub fn wide(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Narrow(wide) => Some(wide),
        }
    }
}

/// Bytes as hexadecimal digits.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether analytical statements read snapshots that were copied into temporary tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// They read storage and cache: the engine has no temporary tables, or plans unions well.
    Never,
    /// They read copies, which [`Connection::temporary`] makes: the engine plans tables much better than unions.
    Worthwhile,
}

/// How an engine finds rows by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexes {
    /// By its own means: no index is created.
    None,
    /// By indexes over the key's columns, which take keys of so many bytes.
    OnKeys {
        /// `None` if keys of any length are taken.
        bytes_max: Option<usize>,
    },
}

/// Whether the engine or TiQuE applies conditions on a key before the newest versions are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushdown {
    /// The engine's optimizer, where it can know that they hold for all versions of a row or for none.
    ByEngine,
    /// TiQuE, which writes them into the query: the engine does not move conditions through a window function.
    Written,
}

/// What [`Connection::append_all`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appends {
    /// One append after the other.
    OneByOne,
    /// One change: all of it or nothing.
    Together,
}

/// How a text stands between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// As it is; a quote is written twice.
    Plain,
    /// A backslash is written twice too.
    WithEscapes,
}

/// How a list of rows (VALUES) stands in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// As it is.
    Plain,
    /// As one query for each row where two columns have the same values in different orders: MonetDB takes them for the
    /// same column.
    ColumnsApart,
}

impl Text {
    /// The text as a literal.
    #[must_use]
    pub fn literal(self, text: &str) -> String {
        format!("'{}'", self.escaped(text).replace('\'', "''"))
    }

    /// The text with what the engine would take for an escape written so that it does not.
    pub(crate) fn escaped(self, text: &str) -> std::borrow::Cow<'_, str> {
        match self {
            Self::WithEscapes if text.contains('\\') => text.replace('\\', "\\\\").into(),
            _ => text.into(),
        }
    }
}

/// How much thought a query is worth to the engine (3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A few rows by key: the shortest way to a plan.
    Point,
    /// The whole optimizer.
    Analytical,
}

/// What a query returned.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Rows {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Whether the engine is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineErrorKind {
    /// It refused the statement and is well.
    Refused,
    /// It went away, or the connection to it did, and the statement took no effect.
    Lost,
    /// The same, and whether the statement took effect is not known.
    Gone,
    /// It takes no further connection.
    Full,
    /// A commit's rows were not written, because somebody's query does not let it write for long. Nothing took effect.
    Busy,
}

/// What an engine said instead of an answer.
#[derive(Clone, Debug, Error)]
#[error("{message}")]
pub struct EngineError {
    /// Whether the engine is still there.
    pub kind: EngineErrorKind,
    /// Its own words.
    pub message: String,
}

impl EngineError {
    /// The engine refused a statement.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: EngineErrorKind::Refused, message: message.into() }
    }

    /// The engine takes no further connection.
    #[must_use]
    pub fn full(message: impl Into<String>) -> Self {
        Self { kind: EngineErrorKind::Full, message: message.into() }
    }

    /// The engine is kept from writing a commit's rows by a query that runs for long.
    #[must_use]
    pub fn busy(message: impl Into<String>) -> Self {
        Self { kind: EngineErrorKind::Busy, message: message.into() }
    }

    /// The engine went away, and nothing took effect.
    #[must_use]
    pub fn lost(message: impl Into<String>) -> Self {
        Self { kind: EngineErrorKind::Lost, message: message.into() }
    }

    /// The engine went away, and what took effect is not known.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self { kind: EngineErrorKind::Gone, message: message.into() }
    }
}

/// An engine that keeps tables and runs SQL.
pub trait Engine: Send + Sync {
    /// How it spells what differs.
    fn dialect(&self) -> &Dialect;

    /// A connection of its own for one session.
    ///
    /// # Errors
    /// The engine is not there, takes no further connection, or has another owner; nothing happened.
    fn connect(&self) -> Result<Box<dyn Connection>, EngineError>;

    /// Whether this is known to be the owner of the tables no longer: there will be no further connection.
    fn is_lost(&self) -> bool {
        false
    }

    /// Gives the ownership of the tables back before this is dropped. There is no further connection from then on, and
    /// whoever becomes the owner ends those that are there before it does anything else. False where that cannot be.
    fn retire(&self) -> bool {
        false
    }
}

/// A session of an engine. Each call is a statement of its own (autocommit). One exception is there for measuring the engine
/// itself: queries between the queries `START TRANSACTION` and `COMMIT` or `ROLLBACK`, spelled exactly so, are one transaction
/// of the engine.
///
/// A call that has failed is over: nothing of it takes effect later, or the engine has no further connection.
pub trait Connection: Send {
    /// Runs a query; all tables are read as of one moment.
    ///
    /// # Errors
    /// As [`EngineErrorKind`] says. A query changes nothing.
    fn query(&mut self, sql: &str, effort: Effort) -> Result<Rows, EngineError>;

    /// Runs CREATE TABLE, DROP TABLE, INSERT or DELETE; how many rows it touched.
    ///
    /// # Errors
    /// `Refused`, `Lost`: nothing took effect. `Gone`: all of it or nothing.
    fn execute(&mut self, sql: &str) -> Result<u64, EngineError>;

    /// Appends rows to a table, whose columns they have in order. Visible at once, durable after
    /// [`sync`](Self::sync) at the latest and in the order of the calls.
    ///
    /// # Errors
    /// `Refused`, `Lost`: nothing took effect. `Gone`: all of it or nothing.
    fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<(), EngineError>;

    /// Appends to several tables, in order: as one change where the dialect says [`Appends::Together`]. It is what commits write by:
    /// others wait for them, so an engine that has to wait for queries does not wait for long.
    ///
    /// # Errors
    /// As [`append`](Self::append); where the appends are made one by one, those before the one that failed took effect. `Busy`, where
    /// they are made together: the engine had to wait for too long.
    fn append_all(&mut self, appends: &[(&str, &RecordBatch)]) -> Result<(), EngineError> {
        appends.iter().try_for_each(|(table, rows)| self.append(table, rows))
    }

    /// Runs a statement that makes, changes or drops a temporary table of this connection's; how many rows it touched. Only
    /// asked of engines whose dialect says [`Copying::Worthwhile`].
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn temporary(&mut self, sql: &str) -> Result<u64, EngineError> {
        Err(EngineError::refused(format!("the engine has no temporary tables: {sql}")))
    }

    /// Makes durable what this connection was told before.
    ///
    /// # Errors
    /// What is durable is not known.
    fn sync(&mut self) -> Result<(), EngineError>;

    /// Whether the connection is lost: all calls fail, and those of another connection may do.
    fn is_lost(&self) -> bool {
        false
    }
}
