// SPDX-License-Identifier: Apache-2.0
//! Running statements for a client at a distance: rows are given as they are asked for, COPY exchanges its bytes
//! with the client, and a text is parsed once whatever becomes of it.

use super::block::IsQuery;
use super::cursor_statements::ForwardFetch;
use super::list_parameters::with_casts;
use super::parse::{self, Neighbours, is_session_statement};
use super::prepared::{Outcome, run_and_plan};
use super::query_statements::{is_query_statement, plain_query};
use super::{Prepared, Session, State};
use crate::cancel;
use crate::context::StatementContext;
use crate::copy::{self, CopyIn, CopyOut, Exchange, Gathered};
use crate::error::SqlError;
use crate::hand_over::aside;
use crate::memory::{SyntaxMemory, run_with};
use crate::parameters::refuse_parameters;
use crate::point::{PointPlan, Rows};
use crate::query::{self, PlannedQuery};
use crate::result::{CommandTag, RowSet, RowStream, StatementResult};
use crate::types::ParameterType;
use crate::{statement, tique};
use arrow::datatypes::SchemaRef;
use coeval_store::Value;
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::Arc;

/// Texts up to this length are parsed before anybody would notice.
const SHORT_TEXT_BYTES: usize = 4 << 10;

/// One statement of a text, parsed.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    syntax: parse::Parsed,
    sql: Arc<str>,
    neighbours: Neighbours,
    /// For the syntax of the whole text.
    memory: Option<Arc<SyntaxMemory>>,
}

impl ParsedStatement {
    /// Whether it is a COPY.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        match &self.syntax {
            parse::Parsed::Statement(statement) => matches!(statement.as_ref(), Statement::Copy { .. }),
            parse::Parsed::Definition(_) | parse::Parsed::Utility(_) | parse::Parsed::Checkpoint => false,
        }
    }

    /// What it wants of a cursor, if it is FETCH or MOVE: for whoever has cursors of their own, as a server that
    /// keeps portals.
    #[must_use]
    pub fn fetch(&self) -> Option<ForwardFetch<'_>> {
        match &self.syntax {
            parse::Parsed::Utility(utility) => utility.fetch(),
            parse::Parsed::Statement(_) | parse::Parsed::Definition(_) | parse::Parsed::Checkpoint => None,
        }
    }
}

/// What running a statement has come to.
#[derive(Debug)]
pub enum Execution {
    /// It is done and returns no rows.
    Done(CommandTag),
    /// It is done; a few rows, of these columns.
    Values(CommandTag, SchemaRef, Rows),
    /// It is done; all rows.
    Rows(CommandTag, RowSet),
    /// A query that runs while its rows are read.
    Stream(RowStream),
    /// The client is to send rows: [`Session::finish_copy`] puts them into the table.
    CopyIn(Box<CopyIn>),
    /// The client gets rows.
    CopyOut(Box<CopyOut>),
}

impl Execution {
    /// That of a statement that is done.
    #[must_use]
    pub fn of(result: StatementResult) -> Self {
        match result.rows {
            Some(rows) => Self::Rows(result.tag, rows),
            None => Self::Done(result.tag),
        }
    }
}

impl Outcome for Execution {
    fn of_point(plan: &PointPlan, context: &mut StatementContext<'_>) -> Result<Option<Self>, SqlError> {
        let Some(outcome) = plan.execute_rows(context)? else { return Ok(None) };
        let tag = plan.tag(outcome.count);
        Ok(Some(match (outcome.rows, plan.columns()) {
            (Some(rows), Some(columns)) => Self::Values(tag, Arc::clone(columns), rows),
            _ => Self::Done(tag),
        }))
    }

    fn of_result(result: StatementResult) -> Result<Self, SqlError> {
        Ok(Self::of(result))
    }

    fn of_query(context: &mut StatementContext<'_>, plan: &PlannedQuery) -> Result<Self, SqlError> {
        query::stream(context, plan).map(Self::Stream)
    }

    fn of_statement(context: &mut StatementContext<'_>, statement: &Statement) -> Result<Self, SqlError> {
        if copy::is_exchange(statement) {
            return Ok(match copy::begin_exchange(context, statement, statement::execute)? {
                Exchange::In(copy) => Self::CopyIn(Box::new(copy)),
                Exchange::Out(copy) => Self::CopyOut(Box::new(copy)),
            });
        }
        if let Some(result) = tique::run(context, statement)? {
            return Self::of_result(result);
        }
        if let Some(body) = plain_query(statement) {
            let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
            let planned = query::plan(context, body, &types)?;
            return Self::of_query(context, &planned);
        }
        statement::execute(context, statement).and_then(Self::of_result)
    }
}

impl Session {
    /// The statements of a text, in order; none if it holds nothing but blanks and comments.
    ///
    /// # Errors
    /// `42601` with the position. An open block is failed then.
    pub fn parse(&mut self, sql: &str) -> Result<Vec<ParsedStatement>, SqlError> {
        let _running = self.cancel.resume();
        let parsed = if sql.len() > SHORT_TEXT_BYTES { aside(|| self.parsed(sql)) } else { self.parsed(sql) };
        let (parsed, memory) = parsed.map_err(|error| self.fail(error))?;
        let neighbours = if parsed.len() > 1 { Neighbours::Some } else { Neighbours::None };
        let sql: Arc<str> = sql.into();
        let of_text = |syntax| {
            let sql = Arc::clone(&sql);
            ParsedStatement { syntax, sql, neighbours, memory: memory.clone() }
        };
        Ok(parsed.into_iter().map(of_text).collect())
    }

    /// A statement of this very text that has run by key before, and need not be parsed again.
    #[must_use]
    pub fn known(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        self.cached.get(sql)
    }

    /// Plans a parsed statement. Parameters whose type the caller knows have it in `types`. As for all methods here,
    /// the caller says by [`CancelHandle::begin_statement`](crate::CancelHandle::begin_statement) when a statement
    /// begins: requests from before do not concern it.
    ///
    /// # Errors
    /// What planning finds wrong with it. An open block is failed then.
    pub fn prepare_parsed_statement(
        &mut self,
        statement: ParsedStatement,
        types: &[Option<ParameterType>],
    ) -> Result<Arc<Prepared>, SqlError> {
        let _running = self.cancel.resume();
        let _syntax = run_with(statement.memory.as_ref());
        let known: Vec<_> = types.iter().map(|ty| ty.map(ParameterType::of_value)).collect();
        let syntax = match statement.syntax {
            parse::Parsed::Statement(syntax) => {
                parse::Parsed::Statement(Box::new(with_casts(*syntax, types)))
            }
            other => other,
        };
        self.prepare_parsed(syntax, &statement.sql, &known)
    }

    /// Runs a parsed statement. Outside a block it is a transaction of its own, which is committed when this
    /// returns; what a stream or a COPY gives comes from its snapshot.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn start(&mut self, statement: &ParsedStatement) -> Result<Execution, SqlError> {
        let _running = self.cancel.resume();
        let _syntax = run_with(statement.memory.as_ref());
        let sql = &*statement.sql;
        match &statement.syntax {
            parse::Parsed::Statement(syntax) if !is_session_statement(syntax) => {
                self.refuse_if_failed()?;
                refuse_parameters(syntax).map_err(|error| self.fail(error))?;
                let (execution, plan) =
                    self.in_transaction(sql, &[], &[], is_query_statement(syntax), |context| {
                        run_and_plan(context, syntax)
                    })?;
                if let Some(plan) = plan.filter(|_| statement.neighbours == Neighbours::None) {
                    self.remember(&statement.syntax, sql, plan);
                }
                Ok(execution)
            }
            other => self.execute_one(other, sql, Neighbours::Some).and_then(Execution::of_result),
        }
    }

    /// Runs a prepared statement with these parameter values, which are cast to its parameter types.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn start_prepared(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<Execution, SqlError> {
        let _running = self.cancel.resume();
        let parameters = self.bound(prepared, parameters)?;
        match prepared.parsed() {
            parse::Parsed::Statement(statement) if !is_session_statement(statement) => {
                self.run_planned(prepared, statement, &parameters)
            }
            _ => self.run_general(prepared, &parameters).and_then(Execution::of_result),
        }
    }

    /// Takes the client's next bytes of a COPY FROM STDIN, cut wherever. When many rows have gathered, they go
    /// into the table, as part of the open transaction, if their order allows it.
    ///
    /// # Errors
    /// What is wrong with a row, with line and column; `53200` if the rows that are kept take more than
    /// `coeval.copy_memory`; what constraints say; `57014` if the COPY was cancelled. No row is added then.
    pub fn feed_copy(&mut self, copy: &mut CopyIn, piece: &[u8]) -> Result<(), SqlError> {
        let _running = self.cancel.resume();
        if copy.gather(piece) == Gathered::Little {
            return Ok(());
        }
        aside(|| {
            cancel::check().and_then(|()| copy.read()).map_err(|error| self.fail(error))?;
            if copy.is_group() { self.append_group(copy) } else { Ok(()) }
        })
    }

    fn append_group(&mut self, copy: &mut CopyIn) -> Result<(), SqlError> {
        if matches!(self.state, State::Idle) {
            self.begin_implicit()?;
            copy.note_own_block();
        }
        let group = self.in_transaction("", &[], &[], IsQuery::No, |context| copy.append_group(context))?;
        copy.note_group(group).map_err(|error| self.fail(error))
    }

    /// Puts the rows of a COPY FROM STDIN, which the client has sent completely, into the table. Outside a block
    /// they are committed and durable when this returns.
    ///
    /// # Errors
    /// What is wrong with the last row; `55000` if the table changed meanwhile; what constraints say. No row is
    /// added then.
    pub fn finish_copy(&mut self, mut copy: CopyIn) -> Result<CommandTag, SqlError> {
        let _running = self.cancel.resume();
        let count = aside(|| {
            cancel::check().and_then(|()| copy.finish()).map_err(|error| self.fail(error))?;
            self.in_transaction("", &[], &[], IsQuery::No, |context| copy.append_rest(context))
        })?;
        if copy.has_own_block() {
            self.end_implicit()?;
        }
        Ok(CommandTag::Copy(count))
    }
}
