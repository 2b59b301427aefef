// SPDX-License-Identifier: Apache-2.0
//! The extended protocol: prepare, bind, describe, execute, and the Sync that ends a group.
//!
//! What is executed before one Sync is one transaction. A single Execute right before its Sync, which is what most
//! groups are, needs no block for that: it commits by itself, and its conflicts are tried again.

use super::copying::Origin;
use super::portal::{OpenRows, Portal, Progress, RowSource};
use super::{Connection, Failure, RECEIVED_FREE};
use crate::protocol::frontend::{Bind, Formats, Target, Types};
use crate::types::{Column, RowEncoder, bound_values, columns_of, declared_types, described_types};
use arrow::datatypes::SchemaRef;
use coeval::{CommandTag, SqlError, SqlState, TransactionStatus};
use coeval_sql::{Execution, NamedStatement, Prepared, QuotaShare, RowStream};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A prepared statement of a client.
#[derive(Debug)]
pub(super) struct Statement {
    /// `None`: it is empty.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// The numbers of its parameters' types, as the client is told.
    parameters: Box<[u32]>,
    /// The columns of its rows; `None`: it has no rows.
    pub(super) columns: Option<Arc<[Column]>>,
    /// What they were made of.
    schema: Option<SchemaRef>,
}

impl Statement {
    /// What a client is told of a statement, whose parameters' types it has declared like this.
    fn new(named: &NamedStatement, declared: impl Iterator<Item = u32>) -> Self {
        match named {
            NamedStatement::Empty => {
                Self { prepared: None, parameters: Box::default(), columns: None, schema: None }
            }
            NamedStatement::Planned(prepared) => Self {
                parameters: described_types(declared, prepared.described_parameters()),
                columns: prepared.columns().map(|schema| columns_of(schema)),
                schema: prepared.columns().cloned(),
                prepared: Some(Arc::clone(prepared)),
            },
        }
    }

    /// The columns of rows of this schema: most often those that the client was told of.
    fn columns_of(&self, schema: &SchemaRef) -> Result<Arc<[Column]>, SqlError> {
        if let (Some(columns), Some(told)) = (&self.columns, &self.schema)
            && Arc::ptr_eq(told, schema)
        {
            return Ok(Arc::clone(columns));
        }
        let columns = columns_of(schema);
        // What the client was told before, it may rely on: the sizes of binary values are in it.
        let is_as_told = |told: &[Column]| {
            told.len() == columns.len()
                && told.iter().zip(&*columns).all(|(told, now)| told.ty.oid == now.ty.oid)
        };
        if !self.columns.as_deref().is_none_or(is_as_told) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
        Ok(columns)
    }

    /// Whether it is this one.
    fn is_of(&self, named: &NamedStatement) -> bool {
        match (&self.prepared, named.prepared()) {
            (Some(prepared), Some(named)) => Arc::ptr_eq(prepared, named),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// What a client knows of its prepared statements.
#[derive(Debug, Default)]
pub(super) struct Statements {
    /// The one without a name, which is replaced without being asked.
    unnamed: Option<Arc<Statement>>,
    /// What was told of those with a name. Which there are, the session knows: SQL prepares and forgets them too.
    told: HashMap<Box<str>, Arc<Statement>>,
}

impl Statements {
    /// Forgets the statement without a name.
    pub(super) fn close_unnamed(&mut self) {
        self.unnamed = None;
    }
}

impl Connection {
    /// The prepared statement of this name, whoever prepared it.
    fn statement(&mut self, name: &str) -> Result<Arc<Statement>, SqlError> {
        if name.is_empty() {
            return self.statements.unnamed.clone().ok_or_else(|| {
                let message = "unnamed prepared statement does not exist";
                SqlError::new(SqlState::InvalidSqlStatementName, message)
            });
        }
        let named = self.session.named(name)?;
        if let Some(told) = self.statements.told.get(name).filter(|told| told.is_of(named)) {
            return Ok(Arc::clone(told));
        }
        let statement = Arc::new(Statement::new(named, std::iter::empty()));
        self.keep_told(name, &statement);
        Ok(statement)
    }

    /// Keeps what a client knows of a statement, and forgets what it knows of those that have gone.
    fn keep_told(&mut self, name: &str, statement: &Arc<Statement>) {
        let told = &mut self.statements.told;
        if told.len() >= self.session.named_count() {
            told.retain(|name, _| self.session.named(name).is_ok());
        }
        told.insert(name.into(), Arc::clone(statement));
    }

    pub(super) fn parse(&mut self, name: &str, sql: &str, types: Types<'_>) -> Result<(), Failure> {
        let _limited = self.limited();
        self.prepare(name, sql, types).map_err(|error| self.session.abort(error))?;
        self.output.parse_complete();
        Ok(())
    }

    fn prepare(&mut self, name: &str, sql: &str, types: Types<'_>) -> Result<(), SqlError> {
        if name.is_empty() {
            self.statements.unnamed = None;
        } else {
            self.session.refuse_known_name(name)?;
        }
        let named = self.planned(sql, types)?;
        let statement = Arc::new(Statement::new(&named, types.iter()));
        if name.is_empty() {
            self.statements.unnamed = Some(statement);
        } else {
            self.session.name_statement(name, named)?;
            self.keep_told(name, &statement);
        }
        Ok(())
    }

    fn planned(&mut self, sql: &str, types: Types<'_>) -> Result<NamedStatement, SqlError> {
        let declared = declared_types(types.iter(), |number| self.session.user_type(number))?;
        let mut parsed = self.session.parse(sql)?;
        let Some(syntax) = parsed.pop() else { return Ok(NamedStatement::Empty) };
        if !parsed.is_empty() {
            return Err(SqlError::syntax("cannot insert multiple commands into a prepared statement"));
        }
        let mut known: Vec<_> = declared.iter().map(|declared| declared.known()).collect();
        let mut prepared = self.session.prepare_parsed_statement(syntax.clone(), &known)?;
        let corrected: Vec<_> = declared
            .iter()
            .zip(prepared.parameter_types())
            .map(|(declared, &inferred)| declared.corrected(inferred))
            .collect();
        if corrected.iter().any(Option::is_some) {
            corrected.iter().zip(&mut known).for_each(|(corrected, known)| *known = corrected.or(*known));
            prepared = self.session.prepare_parsed_statement(syntax, &known)?;
        }
        Ok(NamedStatement::Planned(prepared))
    }

    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Failure> {
        let portal = self.bound(bind).map_err(|error| self.session.abort(error))?;
        self.portals.add(bind.portal, portal).map_err(|error| self.session.abort(error))?;
        self.output.bind_complete();
        Ok(())
    }

    fn bound(&mut self, bind: &Bind<'_>) -> Result<Portal, SqlError> {
        let statement = self.statement(bind.statement)?;
        let prepared = statement.prepared.as_ref();
        let types =
            prepared.map_or(Cow::Borrowed(&[][..]), |prepared| self.session.parameter_types(prepared));
        let zone = self.session.settings().zone();
        let mut kept = QuotaShare::of(&self.shared.received);
        kept.take(bind.values.byte_count().saturating_sub(RECEIVED_FREE))?;
        let values = bound_values(bind, &types, &statement.parameters, zone)?;
        let columns = statement.columns.as_ref().map_or(0, |columns| columns.len());
        if columns > 0 {
            bind.result_formats.check(columns, "column")?;
        }
        let formats = bind.result_formats.codes();
        Ok(Portal { statement, values, formats, progress: Progress::Bound, _kept: kept })
    }

    pub(super) fn describe(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        // A cursor of DECLARE is a portal, too.
        if target == Target::Portal
            && !self.portals.holds(name)
            && let Some(schema) = self.session.cursor_columns(name)
        {
            self.output.row_description(columns_of(schema).iter().map(Column::described), Formats::TEXT);
            return Ok(());
        }
        let described = match target {
            Target::Statement => self.statement(name).map(|statement| (statement, None)),
            Target::Portal => self
                .portals
                .get(name)
                .map(|portal| (Arc::clone(&portal.statement), Some(portal.formats.clone()))),
        };
        let (statement, formats) = described.map_err(|error| self.session.abort(error))?;
        if target == Target::Statement {
            self.output.parameter_description(&statement.parameters);
        }
        match &statement.columns {
            Some(columns) => {
                let formats = formats.as_deref().map_or(Formats::TEXT, Formats::of_codes);
                self.output.row_description(columns.iter().map(Column::described), formats);
            }
            None => self.output.no_data(),
        }
        Ok(())
    }

    pub(super) fn close(&mut self, target: Target, name: &str) {
        match target {
            Target::Statement if name.is_empty() => self.statements.unnamed = None,
            Target::Statement => {
                self.session.forget_statement(name);
                self.statements.told.remove(name);
            }
            Target::Portal => {
                self.portals.close(name);
                self.session.close_cursor(name);
            }
        }
        self.output.close_complete();
    }

    pub(super) async fn execute(
        &mut self,
        name: &str,
        rows_max: u32,
        next: Option<u8>,
    ) -> Result<(), Failure> {
        let mut portal = self.portals.take(name).map_err(|error| self.session.abort(error))?;
        if let Err(error) = self.may_run(name, &portal) {
            self.portals.put_back(name, portal);
            return Err(self.session.abort(error).into());
        }
        let prepared = portal.statement.prepared.clone();
        self.begin_statement(prepared.as_ref().map(|prepared| prepared.sql()));
        let limited = self.limited();
        if let Progress::Bound = portal.progress {
            let Some(prepared) = prepared else {
                self.portals.put_back(name, portal);
                self.output.empty_query();
                self.after_statement();
                return Ok(());
            };
            if next != Some(b'S') || self.session.is_implicit() {
                self.session.begin_implicit()?;
            }
            let execution = self.run(|session| session.start_prepared(&prepared, &portal.values)).await?;
            self.tell_notices();
            portal.progress = match execution {
                Execution::CopyIn(copy) => {
                    self.begin_copy(*copy, Origin::Extended, limited);
                    return Ok(());
                }
                execution => self.begun(&portal, execution).await?,
            };
        }
        self.give_rows(&mut portal, rows_max).await?;
        self.after_statement();
        // A COMMIT or ROLLBACK takes all portals along.
        if self.session.transaction_status() != TransactionStatus::Idle || self.session.is_implicit() {
            self.portals.put_back(name, portal);
        }
        Ok(())
    }

    /// Whether a portal may be executed, for the first time or again.
    fn may_run(&self, name: &str, portal: &Portal) -> Result<(), SqlError> {
        let has_failed = self.session.transaction_status() == TransactionStatus::Failed;
        match portal.progress {
            Progress::Done => {
                let message = format!("portal \"{name}\" cannot be run");
                Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message))
            }
            Progress::Open(_) | Progress::Exhausted if has_failed => {
                let message =
                    "current transaction is aborted, commands ignored until end of transaction block";
                Err(SqlError::new(SqlState::InFailedSqlTransaction, message))
            }
            // A statement that runs is asked by the session.
            Progress::Bound | Progress::Open(_) | Progress::Exhausted => Ok(()),
        }
    }

    /// Makes of a statement's outcome what the portal gives.
    pub(super) async fn begun(&mut self, portal: &Portal, execution: Execution) -> Result<Progress, Failure> {
        let (source, schema, tag) = match execution {
            Execution::Done(tag) => {
                self.output.command_complete(tag);
                return Ok(Progress::Done);
            }
            Execution::CopyOut(copy) => {
                self.send_copy(*copy).await?;
                return Ok(Progress::Done);
            }
            Execution::CopyIn(_) => unreachable!("who runs a statement looks for this first"),
            Execution::Values(tag, schema, rows) => (RowSource::Values(rows, 0), schema, Some(tag)),
            Execution::Rows(tag, rows) => {
                let schema = Arc::clone(&rows.schema);
                (RowSource::stream(RowStream::of_rows(rows)), schema, Some(tag))
            }
            Execution::Stream(rows) => {
                let schema = Arc::clone(rows.schema());
                (RowSource::stream(rows), schema, None)
            }
        };
        let columns = portal.statement.columns_of(&schema).map_err(|error| self.session.abort(error))?;
        let formats = Formats::of_codes(&portal.formats);
        let encoder = RowEncoder::new(columns, formats, self.session.settings().zone());
        // A query tells how many rows it gave this time.
        let tag = tag.filter(|tag| !matches!(tag, CommandTag::Select(_)));
        Ok(Progress::Open(Box::new(OpenRows { source, encoder, tag })))
    }

    async fn give_rows(&mut self, portal: &mut Portal, rows_max: u32) -> Result<(), Failure> {
        match &mut portal.progress {
            Progress::Bound => unreachable!("a portal runs before it gives rows"),
            Progress::Done => Ok(()),
            Progress::Exhausted => {
                self.output.command_complete(CommandTag::Select(0));
                Ok(())
            }
            Progress::Open(rows) => {
                let limit = if rows_max == 0 { u64::MAX } else { u64::from(rows_max) };
                let given = self.send_rows(&mut rows.source, &mut rows.encoder, limit).await?;
                if given == limit {
                    self.output.portal_suspended();
                } else {
                    let tag = rows.tag.unwrap_or(CommandTag::Select(given));
                    self.output.command_complete(tag);
                    portal.progress = Progress::Exhausted;
                }
                Ok(())
            }
        }
    }
}
