// SPDX-License-Identifier: Apache-2.0
//! The database that a workload runs against: one in this process, or a server behind a URL.

use crate::engine::{Place, has_table, open, query_number};
use crate::error::BenchError;
use crate::foreign::Foreign;
use crate::machine::CpuWatch;
use crate::options::Options;
use crate::table::TableSpec;
use crate::wire::Server;
use arrow::array::RecordBatch;
use coeval::{CheckpointPolicy, Database, Session};
use std::path::Path;

/// A database under test.
#[derive(Clone, Copy)]
pub(crate) enum System<'d> {
    /// In this process.
    Embedded(&'d Database),
    /// Behind a URL.
    Server(&'d Server),
    /// An engine that TiQuE can run on, with it or by itself.
    Foreign(&'d Foreign),
}

/// Opens the database of the options, or looks for their server, and gives it to `work` with the directory whose disk
/// counts: the database's own, or for a server the one that was named or that temporary files are made in.
///
/// # Errors
/// If the database cannot be opened or the server does not answer; what `work` returns.
pub(crate) fn with_system<T>(
    options: &Options,
    checkpoint: CheckpointPolicy,
    work: impl FnOnce(System<'_>, &Path) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let place = Place::new(options)?;
    if let Some(url) = &options.url {
        let server = Server::new(url)?;
        return work(System::Server(&server), place.path());
    }
    let db = open(place.path(), options, checkpoint)?;
    work(System::Embedded(&db), place.path())
}

impl<'d> System<'d> {
    /// A session for what happens around a measurement.
    pub(crate) fn console(self) -> Result<Box<dyn Console + 'd>, BenchError> {
        Ok(match self {
            Self::Embedded(db) => Box::new(EmbeddedConsole::new(db)),
            Self::Server(server) => Box::new(server.connect()?),
            Self::Foreign(foreign) => Box::new(foreign.console()?),
        })
    }

    /// Begins to watch who uses the processors.
    pub(crate) fn watch_cpu(self, options: &Options) -> CpuWatch {
        match (self, options.server_process) {
            (Self::Embedded(_) | Self::Foreign(_), _) => CpuWatch::start(),
            (Self::Server(_), process) => CpuWatch::beside(process),
        }
    }
}

/// What loading and checking ask of a database.
pub(crate) trait Console {
    /// Whether there is a table of this name.
    fn has_table(&mut self, table: &TableSpec) -> Result<bool, BenchError>;
    /// Runs a statement.
    fn execute(&mut self, sql: &str) -> Result<(), BenchError>;
    /// The one number that a query answers with; 0 for NULL.
    fn query_number(&mut self, sql: &str) -> Result<i64, BenchError>;
    /// Creates a table with its indexes.
    fn create(&mut self, table: &TableSpec) -> Result<(), BenchError> {
        table.ddl().iter().try_for_each(|statement| self.execute(statement))
    }
    /// Adds rows to a table, in a transaction of its own.
    fn load(&mut self, table: &TableSpec, batch: RecordBatch) -> Result<(), BenchError>;
    /// Called when all is loaded: what the system would do sooner or later, it does now.
    fn settle(&mut self) -> Result<(), BenchError>;
}

/// A console of a database in this process.
pub(crate) struct EmbeddedConsole<'d> {
    db: &'d Database,
    session: Session,
}

impl<'d> EmbeddedConsole<'d> {
    /// One of this database.
    pub(crate) fn new(db: &'d Database) -> Self {
        Self { db, session: db.session() }
    }
}

impl Console for EmbeddedConsole<'_> {
    fn has_table(&mut self, table: &TableSpec) -> Result<bool, BenchError> {
        Ok(has_table(self.db, table))
    }

    fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        self.session.execute(sql)?;
        Ok(())
    }

    fn query_number(&mut self, sql: &str) -> Result<i64, BenchError> {
        query_number(&mut self.session, sql)
    }

    fn load(&mut self, table: &TableSpec, batch: RecordBatch) -> Result<(), BenchError> {
        self.db.bulk_insert(table.name, &[batch])?;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), BenchError> {
        // Loaded rows are in the base already, and statistics are taken when a query is planned.
        Ok(())
    }
}
