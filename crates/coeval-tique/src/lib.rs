// SPDX-License-Identifier: Apache-2.0
//! Transactions in the query engine: snapshot isolation by row, or SERIALIZABLE, written in SQL, for engines that have none or poor ones.
//!
//! # Owns
//! The abstract and the physical schema, the rewriting of statements, commit, checkpoint and recovery, as statements that an
//! engine's own optimizer plans. TiQuE, PVLDB 16(9), 2023; `README.md` has the way from the paper to this code.
//!
//! # Never does
//! Keep rows itself, but for those that a transaction has not committed. Rely on an engine's transactions, UPDATE,
//! constraints or sequences.
//!
//! # Invariants
//! - A transaction reads the state that the commits up to its start timestamp left, and its own writes.
//! - Of two concurrent transactions that wrote the same row, one commits at most.
//! - What was acknowledged is there after recovery; of what was not, all of a transaction or nothing.
//! - A checkpoint changes no snapshot.
//!
//! # Rooms
//! Modules import each other one way only, which a test holds. From the top:
//! ```text
//! database, spanning                  what a program opens; commits that another database decides
//! session                             statements of a client: blocks, changes with their constraints, savepoints
//! recovery, checkpoint, ddl           what is done with whole tables
//! definitions, copies, savepoints     what the engine keeps of tables, what a session keeps
//! shared, commit, options, certifier  what sessions share, and how they commit
//! rewrite, spelling, values, parse    statements, from the application's text to the engine's
//! buffer, write_set, read_set         what a transaction has written, and what it has read
//! snapshot, lookups, catalog          a table as a transaction sees it
//! physical, packed, schema, versions  tables as the application and as the engine has them
//! error, engine                       what can go wrong, and what is asked of an engine
//! literal, names, interrupt ...       what stands on nothing but what is below
//! ```
//!
//! # Start reading at
//! [`Database`] (`database.rs`) and [`Session`] (`session.rs`); then `snapshot.rs` (reads), `session/dml.rs` (writes), `commit.rs`.
//!
//! ```
//! use coeval_tique::{DataFusionEngine, Database, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = DataFusionEngine::in_memory()?;
//! let database = Database::open(std::sync::Arc::new(engine), Options::default())?;
//! let mut session = database.session()?;
//! session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")?;
//! session.execute("BEGIN; INSERT INTO t VALUES (1, 'one'); COMMIT")?;
//! let rows = session.execute("SELECT v FROM t WHERE k = 1")?.remove(0).rows;
//! assert_eq!(rows.map(|rows| rows.count()), Some(1));
//! # Ok(())
//! # }
//! ```

mod buffer;
mod catalog;
mod certifier;
mod checkpoint;
mod commit;
mod copies;
mod counters;
mod database;
mod ddl;
mod definitions;
mod engine;
mod error;
mod interrupt;
mod literal;
mod lookups;
mod names;
mod options;
mod packed;
mod parse;
mod physical;
mod place;
mod priority;
mod read_set;
mod recovery;
mod rewrite;
mod rows_as_sql;
mod savepoints;
mod schema;
mod session;
mod shared;
mod snapshot;
mod spanning;
mod spelling;
mod values;
mod versions;
mod write_set;

pub use certifier::Certification;
pub use commit::Decision;
pub use counters::Clock;
pub use database::Database;
/// The parser, whose statements and types stand in this interface.
pub use datafusion::sql::sqlparser;
pub use engine::{
    AdbcEngine, Appends, Connection, Copying, DataFusionEngine, Dialect, Durability, Effort, Engine,
    EngineError, EngineErrorKind, Indexes, Integers, Lists, MonetDbEngine, Names, Nulls, Pushdown, Rows,
    Text, Types,
};
pub use error::{Result, SqlState, TiqueError};
pub use interrupt::{Abandonment, Interrupt, abandonable, interruptible};
pub use options::{Options, Reading, Trials, Writes};
pub use packed::pack;
pub use place::of_parser as place_of_parser;
pub use savepoints::SavepointPlace;
pub use session::{Outcome, Priority, Session};
pub use snapshot::{Formulation, Layout};
pub use spanning::PreparedCommit;
