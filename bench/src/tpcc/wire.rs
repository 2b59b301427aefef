// SPDX-License-Identifier: Apache-2.0
//! SQL transactions over a connection to a server.
//!
//! BEGIN travels with the first statement of its transaction, as drivers send it. Statements that do not depend on each
//! other travel together, as drivers send batches, or each waits for the answer of the one before.

use super::client::{Answer, Call, Client};
use super::statements::{Script, Statement};
use crate::error::BenchError;
use crate::options::{Options, Sending};
use crate::wire::{Answer as Rows, Connection, Server};
use coeval::Value;
use tokio_postgres::Statement as Prepared;

/// A connection with the statements it has prepared.
pub(super) struct WireClient {
    connection: Connection,
    script: Script<Prepared>,
    /// Whether a transaction was asked for that the server has not heard of yet.
    begins: bool,
    sending: Sending,
}

impl WireClient {
    /// A connection whose transactions are of this level.
    pub(super) fn new(server: &Server, options: &Options) -> Result<Self, BenchError> {
        let connection = server.connect()?;
        let script = Script::new(options, |text| connection.prepare(text))?;
        Ok(Self { connection, script, begins: false, sending: options.sending })
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
        self.connection.run(&self.script.commit, &[])
    }

    fn roll_back(&mut self) -> Result<(), BenchError> {
        self.begins = false;
        self.connection.run(&self.script.rollback, &[])
    }

    fn call(&mut self, statement: Statement, parameters: &[Value]) -> Result<Rows, BenchError> {
        let statement = self.script.statements.get(statement);
        let begin = std::mem::take(&mut self.begins).then_some((&self.script.begin, &[][..]));
        let calls = begin.into_iter().chain([(statement, parameters)]);
        Ok(self.connection.query_all(calls)?.pop().expect("each statement has an answer"))
    }

    fn call_all(&mut self, calls: &[Call]) -> Result<Vec<Rows>, BenchError> {
        if self.sending == Sending::OneByOne {
            return calls.iter().map(|(statement, parameters)| self.call(*statement, parameters)).collect();
        }
        let begin = std::mem::take(&mut self.begins).then_some((&self.script.begin, &[][..]));
        let before = usize::from(begin.is_some());
        let calls = calls
            .iter()
            .map(|(statement, parameters)| (self.script.statements.get(*statement), &**parameters));
        let mut answers = self.connection.query_all(begin.into_iter().chain(calls))?;
        answers.drain(..before);
        Ok(answers)
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
