// SPDX-License-Identifier: Apache-2.0
//! SQL transactions over a connection to a server.
//!
//! BEGIN travels with the first statement of its transaction, as drivers send it; each other statement waits for the
//! answer of the one before.

use super::client::{Answer, Client};
use super::statements::{Statement, Statements, begin};
use crate::error::BenchError;
use crate::wire::{Answer as Rows, Connection, Server};
use coeval::{Isolation, Value};
use tokio_postgres::Statement as Prepared;

/// A connection with the statements it has prepared.
pub(super) struct WireClient {
    connection: Connection,
    begin: Prepared,
    commit: Prepared,
    rollback: Prepared,
    statements: Statements<Prepared>,
    /// Whether a transaction was asked for that the server has not heard of yet.
    begins: bool,
}

impl WireClient {
    /// A connection whose transactions are of this level.
    pub(super) fn new(server: &Server, isolation: Isolation) -> Result<Self, BenchError> {
        let connection = server.connect()?;
        let statements = Statements::new(isolation, |text| connection.prepare(text))?;
        let begin = connection.prepare(&begin(isolation))?;
        let commit = connection.prepare("COMMIT")?;
        let rollback = connection.prepare("ROLLBACK")?;
        Ok(Self { connection, begin, commit, rollback, statements, begins: false })
    }
}

impl Client for WireClient {
    type Answer = Rows;

    fn begin(&mut self) -> Result<(), BenchError> {
        self.begins = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        assert!(!self.begins, "a transaction runs a statement before it commits");
        self.connection.run(&self.commit, &[])
    }

    fn roll_back(&mut self) -> Result<(), BenchError> {
        self.begins = false;
        self.connection.run(&self.rollback, &[])
    }

    fn query(&mut self, statement: Statement, parameters: &[Value]) -> Result<Rows, BenchError> {
        let statement = self.statements.get(statement);
        if std::mem::take(&mut self.begins) {
            return self.connection.query_after(&self.begin, statement, parameters);
        }
        self.connection.query(statement, parameters)
    }

    fn run(&mut self, statement: Statement, parameters: &[Value]) -> Result<(), BenchError> {
        if self.begins {
            self.query(statement, parameters)?;
            return Ok(());
        }
        self.connection.run(self.statements.get(statement), parameters)
    }
}

impl Answer for Rows {
    fn row_count(&self) -> usize {
        self.len()
    }

    fn number(&self, row: usize, column: usize) -> i64 {
        self.number(row, column)
    }

    fn text(&self, row: usize, column: usize) -> &str {
        self.text(row, column)
    }
}
