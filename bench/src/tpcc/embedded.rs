// SPDX-License-Identifier: Apache-2.0
//! SQL transactions in an embedded session.
//!
//! Every statement finds its rows by key or by a prefix of a key or index, so none is planned when it runs.

use super::client::{Answer, Client};
use super::statements::{Statement, Statements, begin};
use crate::error::BenchError;
use crate::options::Options;
use coeval::{Database, Prepared, Rows, Session, Value};

/// A session with the statements it has prepared.
pub(super) struct EmbeddedClient {
    session: Session,
    begin: Prepared,
    commit: Prepared,
    rollback: Prepared,
    statements: Statements<Prepared>,
}

impl EmbeddedClient {
    /// A session whose transactions are of this level.
    pub(super) fn new(db: &Database, options: &Options) -> Result<Self, BenchError> {
        let mut session = db.session();
        let statements = Statements::new(options.update_reads, |text| session.prepare(text))?;
        let begin = session.prepare(&begin(options.isolation))?;
        let commit = session.prepare("COMMIT")?;
        let rollback = session.prepare("ROLLBACK")?;
        Ok(Self { session, begin, commit, rollback, statements })
    }
}

impl Client for EmbeddedClient {
    type Answer = Rows;

    fn begin(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.begin, &[])?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.commit, &[])?;
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.rollback, &[])?;
        Ok(())
    }

    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<Rows, BenchError> {
        Ok(self.session.query_rows(self.statements.get(statement), parameters)?)
    }
}

impl Answer for Rows {
    fn row_count(&self) -> usize {
        self.len()
    }

    fn number(&self, row: usize, column: usize) -> i64 {
        let number = match &self.row(row)[column] {
            Value::Decimal(unscaled) => i64::try_from(*unscaled).ok(),
            other => other.borrow().as_i64(),
        };
        number.expect("the statement asked for a number that is not NULL")
    }

    fn text(&self, row: usize, column: usize) -> &str {
        self.row(row)[column].borrow().as_str().expect("the statement asked for text that is not NULL")
    }
}
