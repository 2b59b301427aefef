// SPDX-License-Identifier: Apache-2.0
//! SQL transactions in an embedded session.
//!
//! Every statement finds its rows by key or by a prefix of a key or index, so none is planned when it runs.

use super::client::{Answer, Client};
use super::statements::{Script, Statement};
use crate::error::BenchError;
use crate::options::Options;
use coeval::{Database, Prepared, Rows, Session, Value};

/// A session with the statements it has prepared.
pub(super) struct EmbeddedClient {
    session: Session,
    script: Script<Prepared>,
}

impl EmbeddedClient {
    /// A session whose transactions are of this level.
    pub(super) fn new(db: &Database, options: &Options) -> Result<Self, BenchError> {
        let mut session = db.session();
        let script = Script::new(options, |text| session.prepare(text))?;
        Ok(Self { session, script })
    }
}

impl Client for EmbeddedClient {
    type Answer = Rows;

    fn begin(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.script.begin, &[])?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.script.commit, &[])?;
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), BenchError> {
        self.session.execute_prepared(&self.script.rollback, &[])?;
        Ok(())
    }

    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<Rows, BenchError> {
        Ok(self.session.query_rows(self.script.statements.get(statement), parameters)?)
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
