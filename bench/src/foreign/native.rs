// SPDX-License-Identifier: Apache-2.0
//! Transactions of the engine's own.

use crate::error::BenchError;
use coeval_tique::{Connection, Effort, Engine, EngineError, Rows};

/// A connection on which one transaction runs at a time.
pub(crate) struct NativeSession {
    connection: Box<dyn Connection>,
    is_in_transaction: bool,
    /// Writes that are sent when the transaction commits, as TiQuE's are (3.2.3).
    writes: Vec<String>,
}

/// What engines say of a transaction that lost against another; MonetDB has no better words for an update that met one. In
/// these workloads no two transactions make the same row, so a key that is there twice was made from a number that both read.
const LOST: [&str; 5] = ["conflict", "constraint", "aborted", "update failed", "gdk reported error"];

fn lost_or(error: EngineError) -> BenchError {
    let message = error.message.to_lowercase();
    if LOST.iter().any(|word| message.contains(word)) {
        BenchError::Lost(error)
    } else {
        BenchError::ForeignEngine(error)
    }
}

impl NativeSession {
    pub(super) fn new(engine: &dyn Engine) -> Result<Self, BenchError> {
        Ok(Self { connection: engine.connect()?, is_in_transaction: false, writes: Vec::new() })
    }

    pub(super) fn begin(&mut self) -> Result<(), BenchError> {
        self.connection.query("START TRANSACTION", Effort::Point)?;
        self.is_in_transaction = true;
        Ok(())
    }

    pub(super) fn run(&mut self, sql: &str, effort: Effort) -> Result<Option<Rows>, BenchError> {
        let reads = ["SELECT", "WITH"].iter().any(|word| sql.starts_with(word));
        if self.is_in_transaction && !reads {
            self.writes.push(sql.to_owned());
            return Ok(None);
        }
        self.connection.query(sql, effort).map(Some).map_err(lost_or)
    }

    /// Runs a statement outside of transactions.
    pub(super) fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        self.connection.execute(sql)?;
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), BenchError> {
        for sql in std::mem::take(&mut self.writes) {
            self.connection.query(&sql, Effort::Point).map_err(lost_or)?;
        }
        self.connection.query("COMMIT", Effort::Point).map_err(lost_or)?;
        self.is_in_transaction = false;
        Ok(())
    }

    pub(super) fn roll_back(&mut self) -> Result<(), BenchError> {
        self.writes.clear();
        if std::mem::take(&mut self.is_in_transaction) {
            // A commit that failed has ended the transaction already; then there is nothing to roll back.
            drop(self.connection.query("ROLLBACK", Effort::Point));
        }
        Ok(())
    }
}
