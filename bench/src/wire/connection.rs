// SPDX-License-Identifier: Apache-2.0
//! One connection, used by one thread: statements go out and answers are waited for.

use super::copy::Pieces;
use super::value::{Number, Parameter};
use crate::error::BenchError;
use crate::system::Console;
use crate::table::TableSpec;
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval::Value;
use futures::future::join_all;
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

/// How often a query that runs for long is asked whether it is still wanted.
const TICK: Duration = Duration::from_millis(50);

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With all its rows.
    Answered,
    /// Cancelled because nobody waited for it any more.
    Cancelled,
}

/// A connection. What is to be read and written is done by the thread that waits for an answer.
pub(crate) struct Connection {
    runtime: Runtime,
    client: Client,
}

impl Connection {
    /// Connects.
    pub(super) fn open(config: &Config) -> Result<Self, BenchError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(BenchError::Client)?;
        let (client, connection) = runtime.block_on(config.connect(NoTls))?;
        // How it ended is told to whoever waits for an answer then.
        runtime.spawn(async move { drop(connection.await) });
        Ok(Self { runtime, client })
    }

    /// Prepares a statement for this connection.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement, BenchError> {
        Ok(self.runtime.block_on(self.client.prepare(sql))?)
    }

    /// The rows of a prepared statement.
    pub(crate) fn query(&self, statement: &Statement, parameters: &[Value]) -> Result<Answer, BenchError> {
        Ok(Answer(self.runtime.block_on(self.rows(statement, parameters))?))
    }

    /// The rows of prepared statements that are sent together, in their order: one round trip for all. Fails with the
    /// first that does.
    pub(crate) fn query_all<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Statement, &'a [Value])>,
    ) -> Result<Vec<Answer>, BenchError> {
        let answers = calls.into_iter().map(|(statement, parameters)| self.rows(statement, parameters));
        let answers = self.runtime.block_on(join_all(answers));
        answers.into_iter().map(|rows| Ok(Answer(rows?))).collect()
    }

    async fn rows(
        &self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let parameters = parameters.iter().map(Parameter);
        self.client.query_raw(statement, parameters).await?.try_collect().await
    }

    /// Runs a prepared statement that answers with no rows.
    pub(crate) fn run(&self, statement: &Statement, parameters: &[Value]) -> Result<(), BenchError> {
        let parameters = parameters.iter().map(Parameter);
        self.runtime.block_on(self.client.execute_raw(statement, parameters))?;
        Ok(())
    }

    /// Runs a query to its end and forgets its rows, or cancels it as soon as `is_stopped` says so.
    pub(crate) fn query_unless(&self, sql: &str, is_stopped: &dyn Fn() -> bool) -> Result<Ended, BenchError> {
        let query = async {
            let none = std::iter::empty::<Parameter<'_>>();
            let mut rows = pin!(self.client.query_raw(sql, none).await?);
            while rows.try_next().await?.is_some() {}
            Ok::<(), tokio_postgres::Error>(())
        };
        self.runtime.block_on(async {
            let mut query = pin!(query);
            loop {
                tokio::select! {
                    answered = &mut query => return Ok(answered.map(|()| Ended::Answered)?),
                    () = tokio::time::sleep(TICK) => {}
                }
                if is_stopped() {
                    self.client.cancel_token().cancel_query(NoTls).await?;
                    // An error by now, unless the query was faster than its cancelling. Both are over.
                    drop(query.await);
                    return Ok(Ended::Cancelled);
                }
            }
        })
    }

    /// The text that a query of one row and one column answers with.
    pub(crate) fn query_text(&self, sql: &str) -> Result<String, BenchError> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]))?;
        Ok(row.try_get(0)?)
    }

    /// Has COPY FROM STDIN read these pieces of text as they are; how many rows it has taken.
    pub(crate) fn copy_text(&self, statement: &str, pieces: &[Bytes]) -> Result<u64, BenchError> {
        let rows = self.runtime.block_on(async {
            let mut sink = pin!(self.client.copy_in::<_, Bytes>(statement).await?);
            for piece in pieces {
                sink.send(piece.clone()).await?;
            }
            sink.finish().await
        });
        Ok(rows?)
    }

    async fn copy(&self, table: &TableSpec, batch: &RecordBatch) -> Result<(), BenchError> {
        let statement = format!("COPY {} FROM STDIN", table.name);
        let mut sink = pin!(self.client.copy_in::<_, Bytes>(&statement).await?);
        for piece in Pieces::new(batch)? {
            sink.send(piece).await?;
        }
        let rows = sink.finish().await?;
        if rows != batch.num_rows() as u64 {
            return Err(BenchError::Answer(format!("{} rows of {} were copied", rows, batch.num_rows())));
        }
        Ok(())
    }
}

impl Console for Connection {
    fn has_table(&mut self, table: &TableSpec) -> Result<bool, BenchError> {
        let name = table.name;
        let count = format!("SELECT count(*) FROM information_schema.tables WHERE table_name = '{name}'");
        Ok(self.query_number(&count)? > 0)
    }

    fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    fn query_number(&mut self, sql: &str) -> Result<i64, BenchError> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]))?;
        Ok(row.try_get::<_, Option<Number>>(0)?.map_or(0, |Number(number)| number))
    }

    fn load(&mut self, table: &TableSpec, batch: RecordBatch) -> Result<(), BenchError> {
        self.runtime.block_on(self.copy(table, &batch))
    }

    fn settle(&mut self) -> Result<(), BenchError> {
        self.execute("VACUUM ANALYZE")?;
        self.execute("CHECKPOINT")
    }
}

/// The rows of one answer.
pub(crate) struct Answer(Vec<Row>);

impl Answer {
    /// How many rows.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The whole number or unscaled decimal in a row and column.
    ///
    /// # Panics
    /// If there is no number, or NULL.
    pub(crate) fn number(&self, row: usize, column: usize) -> i64 {
        self.0[row].get::<_, Number>(column).0
    }

    /// The text in a row and column.
    ///
    /// # Panics
    /// If there is no text, or NULL.
    pub(crate) fn text(&self, row: usize, column: usize) -> &str {
        self.0[row].get(column)
    }
}
