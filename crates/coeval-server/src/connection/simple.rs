// SPDX-License-Identifier: Apache-2.0
//! The simple protocol: a text with any number of statements, run one after the other.

use super::copying::Origin;
use super::portal::RowSource;
use super::rest::{Rest, Together};
use super::{Connection, Failure, Limited};
use crate::protocol::frontend::Formats;
use crate::types::{Column, RowEncoder, columns_of};
use arrow::datatypes::SchemaRef;
use coeval::CommandTag;
use coeval_sql::{Execution, RowStream};

impl Connection {
    pub(super) async fn query(&mut self, sql: &str) -> Result<(), Failure> {
        self.statements.close_unnamed();
        self.portals.close("");
        self.begin_statement(Some(sql));
        if let Some(prepared) = self.session.known(sql) {
            let _limited = self.limited();
            let execution = self.run(|session| session.start_prepared(&prepared, &[])).await?;
            self.tell_notices();
            self.send(execution).await?;
            return self.end_group().await;
        }
        // The time of the first statement begins here: a long text takes some to be read.
        let limited = self.limited();
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            self.output.empty_query();
        }
        let together = if statements.len() > 1 { Together::Yes } else { Together::No };
        self.run_from(Rest { statements: statements.into(), together }, Some(limited)).await
    }

    /// Runs what is left of a text, up to its end or a COPY FROM STDIN.
    pub(super) async fn run_rest(&mut self, rest: Rest) -> Result<(), Failure> {
        self.run_from(rest, None).await
    }

    /// The same; the time of the first statement may have begun.
    async fn run_from(&mut self, mut rest: Rest, mut begun: Option<Limited>) -> Result<(), Failure> {
        while let Some(statement) = rest.statements.pop_front() {
            if rest.together == Together::Yes {
                self.session.begin_implicit()?;
            }
            if let Some(fetch) = statement.fetch()
                && self.fetched(fetch).await?
            {
                continue;
            }
            let limited = begun.take().unwrap_or_else(|| self.limited());
            let execution = self.run(|session| session.start(&statement)).await?;
            self.tell_notices();
            match execution {
                Execution::CopyIn(copy) => {
                    self.begin_copy(*copy, Origin::Simple(rest), limited);
                    return Ok(());
                }
                execution => self.send(execution).await?,
            }
            self.flush_if_much().await?;
        }
        self.end_group().await
    }

    /// Gives all that a statement has come to, as text.
    async fn send(&mut self, execution: Execution) -> Result<(), Failure> {
        match execution {
            Execution::Done(tag) => self.output.command_complete(tag),
            Execution::Values(tag, schema, rows) => {
                self.send_all(&schema, RowSource::Values(rows, 0), Some(tag)).await?;
            }
            Execution::Rows(tag, rows) => {
                let schema = SchemaRef::clone(&rows.schema);
                let source = RowSource::stream(RowStream::of_rows(rows));
                self.send_all(&schema, source, Some(tag)).await?;
            }
            Execution::Stream(rows) => {
                let schema = SchemaRef::clone(rows.schema());
                self.send_all(&schema, RowSource::stream(rows), None).await?;
            }
            Execution::CopyOut(copy) => self.send_copy(*copy).await?,
            Execution::CopyIn(_) => unreachable!("who runs a statement looks for this first"),
        }
        Ok(())
    }

    async fn send_all(
        &mut self,
        schema: &SchemaRef,
        mut source: RowSource,
        tag: Option<CommandTag>,
    ) -> Result<(), Failure> {
        let columns = columns_of(schema);
        self.output.row_description(columns.iter().map(Column::described), Formats::TEXT);
        let mut encoder = RowEncoder::new(columns, Formats::TEXT, self.session.settings().zone());
        let given = self.send_rows(&mut source, &mut encoder, u64::MAX).await?;
        self.output.command_complete(tag.unwrap_or(CommandTag::Select(given)));
        Ok(())
    }
}
