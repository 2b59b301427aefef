// SPDX-License-Identifier: Apache-2.0
//! A session: SQL statements, one after the other, with transactions as SQL has them.

use crate::error::Error;
use arrow::array::RecordBatch;
use coeval_sql::{CancelHandle, Definitions, Rows, Settings, StatementResult, TransactionStatus};
use coeval_store::Value;
use std::sync::Arc;

/// A statement that was parsed and planned once. Valid in the session that prepared it; planned again by
/// itself when a definition it relies on changes.
#[derive(Clone)]
pub struct Prepared {
    inner: Arc<coeval_sql::Prepared>,
}

/// One client's statements. Dropping it rolls back what is open. Sessions of several threads run at the same
/// time; one session belongs to one thread at a time.
pub struct Session {
    inner: coeval_sql::Session,
}

impl Session {
    pub(crate) fn new(inner: coeval_sql::Session) -> Self {
        Self { inner }
    }

    /// Runs one or several statements and returns how many rows the last one is about (0 if it counts none).
    ///
    /// # Errors
    /// [`Error::Sql`] with the SQLSTATE of the first statement that fails. Outside a transaction block nothing
    /// of the call remains; inside, the block is failed until `ROLLBACK`.
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        Ok(row_count(&self.inner.execute(sql)?))
    }

    /// Runs one or several statements and returns the rows of the last one, in batches of one schema. Columns
    /// are of the Arrow types of [`ColumnType::arrow`](crate::ColumnType::arrow).
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(last_rows(self.inner.execute(sql)?))
    }

    /// Runs one or several statements and returns the tag and rows of each.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn run(&mut self, sql: &str) -> Result<Vec<StatementResult>, Error> {
        Ok(self.inner.execute(sql)?)
    }

    /// Parses and plans a statement with parameters `$1`, `$2`, ... Types are inferred.
    ///
    /// # Errors
    /// [`Error::Sql`] if the text is not one statement or does not fit the definitions.
    pub fn prepare(&mut self, sql: &str) -> Result<Prepared, Error> {
        Ok(Prepared { inner: self.inner.prepare(sql)? })
    }

    /// Runs a prepared statement with these parameters; returns how many rows it is about.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_prepared(&mut self, statement: &Prepared, parameters: &[Value]) -> Result<u64, Error> {
        Ok(self.inner.run(&statement.inner, parameters)?.tag.rows().unwrap_or(0))
    }

    /// Runs a prepared statement with these parameters; returns its rows.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn query_prepared(
        &mut self,
        statement: &Prepared,
        parameters: &[Value],
    ) -> Result<Vec<RecordBatch>, Error> {
        let result = self.inner.run(&statement.inner, parameters)?;
        Ok(result.rows.map(|rows| rows.batches).unwrap_or_default())
    }

    /// Its settings, as SET changes them.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.inner.settings()
    }

    /// The definitions that its next statement sees: those of the open transaction with its own changes, else the
    /// newest.
    #[must_use]
    pub fn definitions(&self) -> Definitions {
        self.inner.definitions()
    }

    /// Runs a prepared statement with these parameters; returns its rows as values. The shortest way to a row
    /// by key in SQL: no Arrow arrays are made of the few values that such a statement gives.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn query_rows(&mut self, statement: &Prepared, parameters: &[Value]) -> Result<Rows, Error> {
        Ok(self.inner.run_rows(&statement.inner, parameters)?.1)
    }

    /// What cancels a running statement from another thread: [`execute`](Self::execute), [`query`](Self::query)
    /// and [`run`](Self::run) then fail with `57014`, and the session goes on.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.inner.cancel_handle()
    }

    /// Whether a transaction block is open.
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        self.inner.transaction_status()
    }
}

fn row_count(results: &[StatementResult]) -> u64 {
    results.last().and_then(|result| result.tag.rows()).unwrap_or(0)
}

fn last_rows(mut results: Vec<StatementResult>) -> Vec<RecordBatch> {
    results.pop().and_then(|result| result.rows).map(|rows| rows.batches).unwrap_or_default()
}
