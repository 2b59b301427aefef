// SPDX-License-Identifier: Apache-2.0
//! A foreign engine as a system under test: by itself, with the transactions that it has, or under TiQuE.
//!
//! Both ways have the same tuning (TiQuE 3.2): the short optimizer pipeline for statements by key, writes that are sent
//! when the transaction commits, and the key's columns once more as one number or text where there are several.

mod native;
mod population;
mod rows;
mod template;

pub(crate) use rows::{number, text};
pub(crate) use template::Template;

use crate::error::BenchError;
use crate::options::Options;
use crate::system::Console;
use crate::table::TableSpec;
use arrow::array::RecordBatch;
use coeval_tique::{Database, Effort, Engine, Rows, Session};
use native::NativeSession;
use std::path::Path;
use std::sync::Arc;

/// Whether the engine runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The engine's own tables and transactions.
    Native,
    /// Under TiQuE.
    Tique,
}

impl Way {
    /// The name on the command line and in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tique => "tique",
        }
    }
}

/// An open engine, and TiQuE over it if it runs under TiQuE.
pub(crate) struct Foreign {
    engine: Arc<dyn Engine>,
    database: Option<Database>,
    directory: std::path::PathBuf,
}

impl Foreign {
    /// Takes an engine, whose data lies in `directory`, into use.
    ///
    /// # Errors
    /// TiQuE cannot open it.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        options: &Options,
        checkpoint_at: usize,
        directory: &Path,
    ) -> Result<Self, BenchError> {
        let database = match options.way {
            Way::Native => None,
            Way::Tique => {
                let settings = coeval_tique::Options {
                    checkpoint_at,
                    certification: options.certification,
                    ..Default::default()
                };
                Some(Database::open(Arc::clone(&engine), settings)?)
            }
        };
        Ok(Self { engine, database, directory: directory.to_owned() })
    }

    /// What ran, for reports.
    pub(crate) fn name(&self) -> String {
        let engine = self.engine.dialect().name;
        if self.database.is_some() { format!("TiQuE on {engine}") } else { format!("{engine}, native") }
    }

    /// TiQuE, if the engine runs under it.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// A session for one thread.
    ///
    /// # Errors
    /// The engine is not there.
    pub(crate) fn session(&self) -> Result<ForeignSession, BenchError> {
        Ok(match &self.database {
            Some(database) => ForeignSession::Tique(Box::new(database.session()?)),
            None => ForeignSession::Native(NativeSession::new(&*self.engine)?),
        })
    }

    /// The number that a query on the engine's own tables answers with.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn physical_number(&self, sql: &str) -> Result<i64, BenchError> {
        let found = self.engine.connect()?.query(sql, Effort::Analytical)?;
        Ok(if found.count() == 1 { number(&found, 0, 0).unwrap_or(0) } else { 0 })
    }

    /// For what happens around a measurement.
    ///
    /// # Errors
    /// The engine is not there.
    pub(crate) fn console(&self) -> Result<ForeignConsole<'_>, BenchError> {
        Ok(ForeignConsole { foreign: self, session: self.session()? })
    }

    /// How whole keys stand in the statements of native sessions.
    fn keys(&self) -> population::Keys {
        population::Keys::of(&*self.engine)
    }

    /// How texts stand in the statements that sessions are given.
    pub(crate) fn literal(&self, text: &str) -> String {
        match self.database {
            Some(_) => coeval_tique::Text::Plain.literal(text),
            None => self.engine.dialect().literals.literal(text),
        }
    }
}

/// A session of the engine's or of TiQuE's.
pub(crate) enum ForeignSession {
    Native(NativeSession),
    Tique(Box<Session>),
}

impl ForeignSession {
    /// Runs a statement. Natively, what does not read is sent when the transaction commits.
    ///
    /// # Errors
    /// What the engine says; a lost conflict is one that [`BenchError::is_conflict`] knows.
    pub(crate) fn run(&mut self, sql: &str, effort: Effort) -> Result<Option<Rows>, BenchError> {
        match self {
            Self::Native(session) => session.run(sql, effort),
            Self::Tique(session) => Ok(session.execute(sql)?.pop().and_then(|outcome| outcome.rows)),
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn begin(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Native(session) => session.begin(),
            Self::Tique(session) => Ok(session.execute("BEGIN").map(drop)?),
        }
    }

    /// Commits it.
    ///
    /// # Errors
    /// What the engine says; the transaction is over.
    pub(crate) fn commit(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Native(session) => session.commit(),
            Self::Tique(session) => Ok(session.execute("COMMIT").map(drop)?),
        }
    }

    /// Leaves it, if there is one.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn roll_back(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Native(session) => session.roll_back(),
            Self::Tique(session) => Ok(session.execute("ROLLBACK").map(drop)?),
        }
    }
}

/// What loading and checking need of a foreign engine.
pub(crate) struct ForeignConsole<'d> {
    foreign: &'d Foreign,
    session: ForeignSession,
}

impl Console for ForeignConsole<'_> {
    fn has_table(&mut self, table: &TableSpec) -> Result<bool, BenchError> {
        // Engines differ in where their catalog is; a table that is not there cannot be read.
        Ok(self.session.run(&format!("SELECT 1 FROM {} WHERE 1 = 0", table.name), Effort::Point).is_ok())
    }

    fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        match sql.split_whitespace().next() {
            Some("BEGIN") => self.session.begin(),
            Some("COMMIT") => self.session.commit(),
            _ => self.session.run(sql, Effort::Analytical).map(drop),
        }
    }

    fn query_number(&mut self, sql: &str) -> Result<i64, BenchError> {
        let rows = self.session.run(sql, Effort::Analytical)?;
        match rows {
            Some(found) if found.count() == 1 => Ok(number(&found, 0, 0).unwrap_or(0)),
            _ => Err(BenchError::Answer(format!("one row was asked for: {sql}"))),
        }
    }

    fn create(&mut self, table: &TableSpec) -> Result<(), BenchError> {
        let sql = match &self.foreign.database {
            Some(_) => population::create_tique_table(table),
            None => population::create_native_table(table, self.foreign.keys()),
        };
        match &mut self.session {
            ForeignSession::Native(session) => session.execute(&sql),
            ForeignSession::Tique(session) => Ok(session.execute(&sql).map(drop)?),
        }
    }

    fn load(&mut self, table: &TableSpec, batch: RecordBatch) -> Result<(), BenchError> {
        let place = population::Destination {
            engine: &*self.foreign.engine,
            is_tique: self.foreign.database.is_some(),
            directory: &self.foreign.directory,
        };
        place.load(table, &batch)
    }

    fn settle(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}
