// SPDX-License-Identifier: Apache-2.0
//! The extended protocol: prepare, bind, describe, execute, and the Sync that ends a group.
//!
//! What is executed before one Sync is one transaction. A single Execute right before its Sync, which is what most
//! groups are, needs no block for that: it commits by itself, and its conflicts are tried again.

use super::portal::{OpenRows, Portal, Progress, RowSource};
use super::{Connection, Failure, Phase, Wait, run};
use crate::connection::copying::{Copying, Origin};
use crate::protocol::frontend::{Bind, Formats, Target, Types};
use crate::types::{Column, RowEncoder, bound_values, columns_of, declared_types, described_types};
use coeval::{CommandTag, SqlError, SqlState, TransactionStatus};
use coeval_sql::{Execution, Prepared};
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
}

/// A client's prepared statements. The one without a name is replaced without being asked.
#[derive(Debug, Default)]
pub(super) struct Statements {
    unnamed: Option<Arc<Statement>>,
    named: HashMap<Box<str>, Arc<Statement>>,
}

impl Statements {
    /// Forgets the statement without a name.
    pub(super) fn close_unnamed(&mut self) {
        self.unnamed = None;
    }

    fn get(&self, name: &str) -> Result<&Arc<Statement>, SqlError> {
        let found = if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) };
        found.ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(SqlState::InvalidSqlStatementName, message)
        })
    }
}

impl Connection {
    pub(super) fn parse(&mut self, name: &str, sql: &str, types: Types<'_>) -> Result<(), Failure> {
        let statement = self.prepared(name, sql, types).map_err(|error| self.session.abort(error))?;
        let statement = Arc::new(statement);
        if name.is_empty() {
            self.statements.unnamed = Some(statement);
        } else {
            self.statements.named.insert(name.into(), statement);
        }
        self.output.parse_complete();
        Ok(())
    }

    fn prepared(&mut self, name: &str, sql: &str, types: Types<'_>) -> Result<Statement, SqlError> {
        if name.is_empty() {
            self.statements.unnamed = None;
        } else if self.statements.named.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DuplicatePreparedStatement, message));
        }
        let declared = declared_types(types.iter())?;
        let mut parsed = self.session.parse(sql)?;
        let Some(syntax) = parsed.pop() else {
            return Ok(Statement { prepared: None, parameters: Box::default(), columns: None });
        };
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
        Ok(Statement {
            parameters: described_types(types.iter(), prepared.parameter_types()),
            columns: prepared.columns().map(|schema| columns_of(schema)),
            prepared: Some(prepared),
        })
    }

    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Failure> {
        let portal = self.bound(bind).map_err(|error| self.session.abort(error))?;
        self.portals.add(bind.portal, portal).map_err(|error| self.session.abort(error))?;
        self.output.bind_complete();
        Ok(())
    }

    fn bound(&self, bind: &Bind<'_>) -> Result<Portal, SqlError> {
        let statement = Arc::clone(self.statements.get(bind.statement)?);
        let types = statement.prepared.as_ref().map_or(&[][..], |prepared| prepared.parameter_types());
        let values = bound_values(bind, types, self.session.settings().zone())?;
        let columns = statement.columns.as_ref().map_or(0, |columns| columns.len());
        if columns > 0 {
            bind.result_formats.check(columns, "column")?;
        }
        Ok(Portal { statement, values, formats: bind.result_formats.codes(), progress: Progress::Bound })
    }

    pub(super) fn describe(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        // A cursor of DECLARE is a portal, too.
        if target == Target::Portal
            && !self.portals.holds(name)
            && let Some(schema) = self.session.cursor_columns(name)
        {
            self.output.row_description(&columns_of(schema), Formats::TEXT);
            return Ok(());
        }
        let described = match target {
            Target::Statement => self.statements.get(name).map(|statement| (Arc::clone(statement), None)),
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
                self.output.row_description(columns, formats);
            }
            None => self.output.no_data(),
        }
        Ok(())
    }

    pub(super) fn close(&mut self, target: Target, name: &str) {
        match target {
            Target::Statement if name.is_empty() => self.statements.unnamed = None,
            Target::Statement => {
                self.statements.named.remove(name);
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
        self.entry.begin_statement(portal.statement.prepared.as_ref().map(|prepared| prepared.sql()));
        let _limited = self.limited();
        if let Progress::Bound = portal.progress {
            let Some(prepared) = portal.statement.prepared.clone() else {
                self.portals.put_back(name, portal);
                self.output.empty_query();
                self.after_statement();
                return Ok(());
            };
            if next != Some(b'S') || self.session.is_implicit() {
                self.session.begin_implicit()?;
            }
            let wait = if prepared.is_point_query() { Wait::Never } else { Wait::Maybe };
            let execution = run(wait, || self.session.start_prepared(&prepared, &portal.values))?;
            self.tell_notices();
            if !self.begin_portal(&mut portal, execution).await? {
                return Ok(());
            }
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

    /// Makes of a statement's outcome what the portal gives; whether there is anything left to give here.
    pub(super) async fn begin_portal(
        &mut self,
        portal: &mut Portal,
        execution: Execution,
    ) -> Result<bool, Failure> {
        let (source, tag) = match execution {
            Execution::Done(tag) => {
                portal.progress = Progress::Done;
                self.output.command_complete(tag);
                return Ok(true);
            }
            Execution::CopyIn(copy) => {
                self.output.copy_response(b'G', copy.encoding(), copy.column_count());
                self.phase = Phase::Copying(Box::new(Copying { copy: *copy, origin: Origin::Extended }));
                return Ok(false);
            }
            Execution::CopyOut(copy) => {
                self.send_copy(*copy).await?;
                portal.progress = Progress::Done;
                return Ok(true);
            }
            Execution::Values(tag, schema, rows) => (Some((RowSource::Values(rows, 0), schema)), Some(tag)),
            Execution::Rows(tag, rows) => {
                let (rows, schema) = (coeval_sql::RowStream::of_rows(rows.clone()), rows.schema);
                (Some((RowSource::stream(rows), schema)), Some(tag))
            }
            Execution::Stream(rows) => {
                let schema = Arc::clone(rows.schema());
                (Some((RowSource::stream(rows), schema)), None)
            }
        };
        let Some((source, schema)) = source else { return Ok(true) };
        let columns = columns_of(&schema);
        // What the client was told before, it may rely on: the sizes of binary values are in it.
        let is_as_told = |told: &[Column]| {
            told.len() == columns.len()
                && told.iter().zip(&*columns).all(|(told, now)| told.ty.oid == now.ty.oid)
        };
        if !portal.statement.columns.as_deref().is_none_or(is_as_told) {
            let message = "cached plan must not change result type";
            return Err(self.session.abort(SqlError::new(SqlState::FeatureNotSupported, message)).into());
        }
        let formats = Formats::of_codes(&portal.formats);
        let encoder = RowEncoder::new(columns, formats, self.session.settings().zone());
        // A query tells how many rows it gave this time.
        let tag = tag.filter(|tag| !matches!(tag, CommandTag::Select(_)));
        portal.progress = Progress::Open(Box::new(OpenRows { source, encoder, tag }));
        Ok(true)
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

    /// The end of a group: what was executed since the last one is committed, unless it is in a block.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        if self.session.is_implicit() {
            run(Wait::Maybe, || self.session.end_implicit())?;
        }
        self.ready();
        Ok(())
    }
}
