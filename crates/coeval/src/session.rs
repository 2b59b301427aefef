// SPDX-License-Identifier: Apache-2.0
//! A session: SQL statements, one after the other, with transactions as SQL has them.

use crate::copying::{CopyInput, CopyOutcome, CopyOutput};
use crate::error::Error;
use crate::reader::Outcome;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use coeval_sql::{
    CancelHandle, CommandTag, Deadline, Definitions, Execution, Rows, Settings, SqlError, SqlState,
    StatementResult, TransactionStatus,
};
use coeval_store::{ColumnType, Value};
use std::sync::Arc;

/// The savepoint that an error of preparing a statement goes back to.
const PREPARING: &str = "coeval_preparing";

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

impl Prepared {
    /// The types of `$1`, `$2`, ...
    #[must_use]
    pub fn parameter_types(&self) -> &[ColumnType] {
        self.inner.parameter_types()
    }

    /// The columns of its rows; `None` if it returns none.
    #[must_use]
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.inner.columns()
    }
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
        Ok(row_count(&self.heeding().execute(sql)?))
    }

    /// Runs one or several statements and returns the rows of the last one, in batches of one schema. Columns
    /// are of the Arrow types of [`ColumnType::arrow`](crate::ColumnType::arrow).
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(last_rows(self.heeding().execute(sql)?))
    }

    /// Runs one or several statements and returns the tag and rows of each.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn run(&mut self, sql: &str) -> Result<Vec<StatementResult>, Error> {
        Ok(self.heeding().execute(sql)?)
    }

    /// Runs one or several statements; the rows of the last one come as they are read, if it is the only one. Outside a
    /// transaction block it is committed when this returns, and what is read comes from its snapshot. Within one, an error that
    /// the rows end with fails the block, as one of a statement does.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and `0A000` for a COPY that exchanges bytes with a client: see [`start_copy`](Self::start_copy).
    pub fn start(&mut self, sql: &str) -> Result<Outcome, Error> {
        let deadline = self.begin_statement();
        if let Some(known) = self.inner.known(sql) {
            let execution = self.inner.start_prepared(&known, &[])?;
            return self.outcome(execution, deadline);
        }
        if let [statement] = &self.inner.parse(sql)?[..] {
            let execution = self.inner.start(statement)?;
            return self.outcome(execution, deadline);
        }
        drop(deadline);
        let last = self.inner.execute(sql)?.pop();
        self.outcome(last.map_or(Execution::Done(CommandTag::Plain("")), Execution::of), None)
    }

    /// Runs one COPY statement, which may be FROM STDIN or TO STDOUT: then the program gives its bytes, or gets them.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and `42601` if the text is not one COPY.
    pub fn start_copy(&mut self, sql: &str) -> Result<CopyOutcome, Error> {
        let deadline = self.begin_statement();
        let parsed = self.inner.parse(sql)?;
        let Some(statement) = parsed.first().filter(|one| parsed.len() == 1 && one.is_copy()) else {
            return Err(self.no_copy());
        };
        match self.inner.start(statement)? {
            Execution::Done(tag @ CommandTag::Copy(_)) => Ok(CopyOutcome::Done(tag)),
            Execution::CopyIn(copy) => Ok(CopyOutcome::In(CopyInput { copy: *copy, _deadline: deadline })),
            Execution::CopyOut(copy) => {
                let block = self.inner.late_failure();
                let cancel = self.inner.cancel_handle();
                Ok(CopyOutcome::Out(CopyOutput::new(*copy, block, deadline, cancel)))
            }
            Execution::Done(_) | Execution::Values(..) | Execution::Rows(..) | Execution::Stream(_) => {
                Err(self.no_copy())
            }
        }
    }

    fn no_copy(&mut self) -> Error {
        self.inner.abort(SqlError::syntax("one COPY statement was expected")).into()
    }

    /// Gives a COPY FROM STDIN its next bytes, cut wherever.
    ///
    /// # Errors
    /// What is wrong with a row, with line and column; what constraints say; `57014` if it was cancelled. No row is added then.
    pub fn feed_copy(&mut self, copy: &mut CopyInput, piece: &[u8]) -> Result<(), Error> {
        Ok(self.inner.feed_copy(&mut copy.copy, piece)?)
    }

    /// Ends a COPY FROM STDIN that has got all its bytes; how many rows it has added. Outside a transaction block they are
    /// committed when this returns.
    ///
    /// # Errors
    /// As [`feed_copy`](Self::feed_copy). No row is added then.
    pub fn finish_copy(&mut self, copy: CopyInput) -> Result<u64, Error> {
        Ok(self.inner.finish_copy(copy.copy)?.rows().unwrap_or(0))
    }

    /// Gives up a COPY FROM STDIN whose bytes cannot be had. No row is added; an open transaction block has failed.
    pub fn abandon_copy(&mut self, copy: CopyInput) {
        drop(copy);
        let _said = self.inner.abort(SqlError::new(SqlState::QueryCanceled, "COPY from stdin failed"));
    }

    /// The outcome as others have it: an error of its rows fails the block that is open now, and they have to be read before the
    /// statement's deadline.
    fn outcome(&mut self, execution: Execution, deadline: Option<Deadline>) -> Result<Outcome, Error> {
        let block = self.inner.late_failure();
        Ok(Outcome::try_from(execution)?.begun_in(block, deadline, self.inner.cancel_handle()))
    }

    /// Runs a prepared statement with these parameters; its rows come as they are read, as with [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_prepared(&mut self, statement: &Prepared, parameters: &[Value]) -> Result<Outcome, Error> {
        let deadline = self.begin_statement();
        let execution = self.inner.start_prepared(&statement.inner, parameters)?;
        self.outcome(execution, deadline)
    }

    /// Requests to cancel from before do not concern what begins now, and what was said before was for others.
    fn begin_statement(&mut self) -> Option<Deadline> {
        self.heeding().cancel_handle().begin_statement();
        self.inner.take_notices();
        self.inner.deadline()
    }

    /// The session, which has heeded that rows failed behind an earlier statement.
    fn heeding(&mut self) -> &mut coeval_sql::Session {
        self.inner.heed_late_failure();
        &mut self.inner
    }

    /// What the last statement had to say without failing.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        self.inner.take_notices()
    }

    /// Lends the session batches of this schema: its statements read them as a table of this name, which must be written here
    /// as it is stored (lower case unless it is quoted in the statements), where the name is not qualified and nothing of the
    /// database has it. What was lent by this name before goes. They are read only, nobody else sees them, and they are there
    /// until they are [given back](Self::give_back). Columns of the types of [`ColumnType::arrow`] are not copied; others are
    /// cast to the nearest.
    ///
    /// # Errors
    /// `0A000` for a column of a type that SQL has nothing like; `22003` and others for a value that the nearest type cannot
    /// hold. Nothing is lent then, and what was lent before stays.
    pub fn lend(
        &mut self,
        name: impl Into<String>,
        schema: &Schema,
        batches: &[RecordBatch],
    ) -> Result<(), Error> {
        Ok(self.inner.lend(name, schema, batches, None)?)
    }

    /// As [`lend`](Self::lend), for this INSERT: what columns of the table have as `uuid`, dates, times, intervals, `numeric`,
    /// documents and values of enums may be texts in the columns of their names, as COPY reads them, and a `uuid` sixteen bytes.
    ///
    /// # Errors
    /// As [`lend`](Self::lend); `22P02` and its like for a value that cannot be read, with its row and column, and `42601` for a text
    /// that is no statement.
    pub fn lend_to_insert(
        &mut self,
        name: impl Into<String>,
        insert: &str,
        schema: &Schema,
        batches: &[RecordBatch],
    ) -> Result<(), Error> {
        Ok(self.inner.lend(name, schema, batches, Some(insert))?)
    }

    /// Takes back what was [lent](Self::lend) by this name. A query that runs goes on with it.
    pub fn give_back(&mut self, name: &str) {
        self.inner.give_back(name);
    }

    /// The names without a schema that the statements of a text mention as relations and nothing of the database has, sorted:
    /// those that a program may [lend](Self::lend) batches for. Names that the text itself gives, by WITH, may be among them.
    /// A text that cannot be parsed has none.
    #[must_use]
    pub fn unknown_relations(&self, sql: &str) -> Vec<String> {
        self.inner.unknown_relations(sql)
    }

    /// Parses and plans a statement with parameters `$1`, `$2`, ... Types are inferred.
    ///
    /// # Errors
    /// [`Error::Sql`] if the text is not one statement or does not fit the definitions.
    pub fn prepare(&mut self, sql: &str) -> Result<Prepared, Error> {
        Ok(Prepared { inner: self.heeding().prepare(sql)? })
    }

    /// As [`prepare`](Self::prepare); parameters whose type the caller knows have it in `types`.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_typed(&mut self, sql: &str, types: &[Option<ColumnType>]) -> Result<Prepared, Error> {
        Ok(Prepared { inner: self.heeding().prepare_typed(sql, types)? })
    }

    /// As [`prepare_typed`](Self::prepare_typed), and an error leaves an open transaction as it was: for who has to try which
    /// types a statement goes with.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare); what a savepoint meets.
    pub fn prepare_aside(&mut self, sql: &str, types: &[Option<ColumnType>]) -> Result<Prepared, Error> {
        if self.transaction_status() != TransactionStatus::Active {
            return self.prepare_typed(sql, types);
        }
        self.execute(&format!("SAVEPOINT {PREPARING}"))?;
        let prepared = self.prepare_typed(sql, types);
        if prepared.is_err() {
            self.execute(&format!("ROLLBACK TO SAVEPOINT {PREPARING}"))?;
        }
        self.execute(&format!("RELEASE SAVEPOINT {PREPARING}"))?;
        prepared
    }

    /// Runs a prepared statement with these parameters; returns how many rows it is about.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_prepared(&mut self, statement: &Prepared, parameters: &[Value]) -> Result<u64, Error> {
        Ok(self.heeding().run(&statement.inner, parameters)?.tag.rows().unwrap_or(0))
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
        let result = self.heeding().run(&statement.inner, parameters)?;
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
        Ok(self.heeding().run_rows(&statement.inner, parameters)?.1)
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
