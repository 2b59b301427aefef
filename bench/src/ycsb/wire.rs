// SPDX-License-Identifier: Apache-2.0
//! YCSB's operations over a connection to a server: prepared statements, each a transaction of its own.

use super::run::{Client, FIELD_COUNT, insert_text, read_text, set_level, update_texts};
use crate::error::BenchError;
use crate::system::Console;
use crate::wire::{Connection, Server};
use coeval::{Isolation, Value};
use std::hint::black_box;
use tokio_postgres::Statement;

/// A connection with the statements it has prepared.
pub(super) struct WireClient {
    connection: Connection,
    read: Statement,
    updates: Vec<Statement>,
    insert: Statement,
}

impl WireClient {
    /// A connection whose transactions are of this level.
    pub(super) fn new(server: &Server, isolation: Isolation) -> Result<Self, BenchError> {
        let mut connection = server.connect()?;
        connection.execute(&set_level(isolation))?;
        let read = connection.prepare(&read_text())?;
        let updates = update_texts().iter().map(|text| connection.prepare(text)).collect::<Result<_, _>>()?;
        let insert = connection.prepare(&insert_text())?;
        Ok(Self { connection, read, updates, insert })
    }

    /// Runs a statement until it commits; how often it had lost before.
    fn write(&self, statement: &Statement, parameters: &[Value]) -> Result<u64, BenchError> {
        let mut conflicts = 0;
        loop {
            match self.connection.run(statement, parameters) {
                Ok(()) => return Ok(conflicts),
                Err(error) if error.is_conflict() => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Client for WireClient {
    fn read(&mut self, record: i64) -> Result<(), BenchError> {
        let answer = self.connection.query(&self.read, &[record.into()])?;
        for column in 0..FIELD_COUNT {
            black_box(answer.text(0, column));
        }
        Ok(())
    }

    fn update(&mut self, record: i64, field: usize, value: &str) -> Result<u64, BenchError> {
        self.write(&self.updates[field], &[value.into(), record.into()])
    }

    fn insert(&mut self, values: &[Value]) -> Result<u64, BenchError> {
        self.write(&self.insert, values)
    }
}
