// SPDX-License-Identifier: Apache-2.0
//! SET, RESET, SHOW and DISCARD.

use super::block::SettingsFrame;
use super::database_settings;
use super::token_wait::{END_LOOK, Needs, TokenWait};
use super::{Session, State};
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use crate::names::fold;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::settings::{Deferrable, Settings, canonical, of_database, written_name};
use crate::token::SnapshotToken;
use crate::types::parse_value;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use chrono_tz::Tz;
use coeval_store::{AccessMode, ColumnType, Value as StoredValue};
use coeval_txn::Isolation;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, DiscardObject, Expr, Ident, Interval, ObjectName, Reset, Set,
    SetSessionAuthorizationParamKind, Statement, TransactionAccessMode, TransactionIsolationLevel,
    TransactionMode, UnaryOperator, Value,
};
use std::sync::Arc;
use std::time::Instant;

/// Whether a setting has been assigned, or is a text of the session like most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Assigned {
    Yes,
    No,
}

/// How long a SET lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Session,
    Transaction,
}

impl Session {
    pub(super) fn variable_statement(&mut self, statement: &Statement) -> Result<StatementResult, SqlError> {
        match statement {
            Statement::Set(set) => {
                self.set(set)?;
                Ok(StatementResult::plain("SET"))
            }
            Statement::Reset(reset) => {
                match &reset.reset {
                    Reset::ALL => self.change(Scope::Session, |settings| {
                        settings.reset_all();
                        Ok(())
                    })?,
                    Reset::ConfigurationParameter(name) => {
                        self.assign(Scope::Session, &setting_name(name), None)?;
                    }
                }
                Ok(StatementResult::plain("RESET"))
            }
            Statement::ShowVariable { variable } => {
                let words: Vec<String> = variable.iter().map(fold).collect();
                self.show(&words)
            }
            Statement::Discard { object_type } => self.discard(object_type),
            other => Err(SqlError::unsupported(crate::names::statement_name(other))),
        }
    }

    fn set(&mut self, set: &Set) -> Result<(), SqlError> {
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let scope = match scope {
                    Some(ContextModifier::Local) => Scope::Transaction,
                    Some(ContextModifier::Session) | None => Scope::Session,
                    Some(ContextModifier::Global) => return Err(SqlError::unsupported("SET GLOBAL")),
                };
                self.set_one(scope, &setting_name(variable), values)
            }
            Set::SetTimeZone { local, value } => {
                let scope = if *local { Scope::Transaction } else { Scope::Session };
                match value {
                    Expr::Interval(east) => {
                        self.assign(scope, "timezone", Some(&hours_east(east)?.to_string()))
                    }
                    zone => self.set_one(scope, "timezone", std::slice::from_ref(zone)),
                }
            }
            Set::SetTransaction { modes, session: false, snapshot: None } => self.set_modes(modes),
            Set::SetTransaction { modes, session: true, .. } => self.set_defaults(modes),
            Set::SetNames { charset_name, .. } => {
                let value = charset_name.value.clone();
                self.change(Scope::Session, |settings| settings.set("client_encoding", &value))
            }
            Set::SetRole { context_modifier, role_name } => {
                let scope = match context_modifier {
                    Some(ContextModifier::Local) => Scope::Transaction,
                    Some(ContextModifier::Session | ContextModifier::Global) | None => Scope::Session,
                };
                self.set_role(scope, role_name.as_ref().map(role_text).as_deref())
            }
            Set::SetSessionAuthorization(authorization) => {
                let scope = match authorization.scope {
                    ContextModifier::Local => Scope::Transaction,
                    ContextModifier::Session | ContextModifier::Global => Scope::Session,
                };
                match &authorization.kind {
                    SetSessionAuthorizationParamKind::Default => self.set_authorization(scope, None),
                    SetSessionAuthorizationParamKind::User(user) => {
                        self.set_authorization(scope, Some(&role_text(user)))
                    }
                }
            }
            other => Err(SqlError::unsupported(format_args!("{other}"))),
        }
    }

    fn set_one(&mut self, scope: Scope, name: &str, values: &[Expr]) -> Result<(), SqlError> {
        let texts = values.iter().map(value_text).collect::<Result<Vec<_>, _>>()?;
        let text = texts.join(", ");
        let is_default = values.len() == 1 && text.eq_ignore_ascii_case("default");
        let text = match (name, values) {
            ("role" | "session_authorization", [Expr::Identifier(ident)]) => role_text(ident),
            _ => text,
        };
        self.assign(scope, name, (!is_default).then_some(text.as_str()))
    }

    /// Gives a setting this value, or the one that the session began with: the same for SET, RESET, `set_config` and what a client
    /// asks for when it connects.
    fn assign(&mut self, scope: Scope, name: &str, value: Option<&str>) -> Result<(), SqlError> {
        match self.assign_elsewhere(scope, name, value)? {
            Assigned::Yes => Ok(()),
            Assigned::No => self.change(scope, |settings| match value {
                Some(value) => settings.set(name, value),
                None => settings.reset(name),
            }),
        }
    }

    /// Assigns what is more than a text of the session: who it is, what its open transaction does, what all of the database have in
    /// common. Waits for a token.
    ///
    /// # Errors
    /// `22023` for a value that the setting does not take, `42501` for one that is for others to set, `25001` where a query has run
    /// already; that of [`wait_for_token`](Self::wait_for_token).
    pub(super) fn assign_elsewhere(
        &mut self,
        scope: Scope,
        name: &str,
        value: Option<&str>,
    ) -> Result<Assigned, SqlError> {
        match (canonical(name).as_str(), value) {
            (name @ ("transaction_isolation" | "transaction_read_only"), Some(value)) => {
                self.set_modes(&[mode_of(name, value)?])?;
            }
            (name @ "transaction_deferrable", Some(value)) => {
                let mut checked = self.settings.clone();
                checked.set(name, value)?;
                let is_on = checked.is_on(name);
                self.set_deferrable(if is_on { Deferrable::Yes } else { Deferrable::No })?;
            }
            ("role", name) => self.set_role(scope, name)?,
            ("session_authorization", name) => self.set_authorization(scope, name)?,
            ("coeval.wait_for_token", Some(token)) => {
                if !token.is_empty() {
                    self.wait_for_token(&SnapshotToken::parse(token)?)?;
                }
                // It is a setting, too: SHOW says what was waited for.
                return Ok(Assigned::No);
            }
            (name, value) => {
                let message = format!("permission denied to set parameter \"{name}\"");
                let allowed = || self.require_superuser(&message);
                return database_settings::assign(
                    self.engine.store(),
                    &self.settings,
                    allowed,
                    (name, value),
                );
            }
        }
        Ok(Assigned::Yes)
    }

    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    fn set_defaults(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => {
                    ("default_transaction_read_only", "on".to_owned())
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    ("default_transaction_read_only", "off".to_owned())
                }
                TransactionMode::IsolationLevel(level) => {
                    ("default_transaction_isolation", level.to_string())
                }
            };
            self.change(Scope::Session, |settings| settings.set(name, &value))?;
        }
        Ok(())
    }

    /// Changes the settings so that the end of the transaction undoes what it has to.
    pub(super) fn change(
        &mut self,
        scope: Scope,
        change: impl Fn(&mut Settings) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let State::Active(block) = &mut self.state else {
            // Outside a block SET LOCAL lasts for nothing.
            return if scope == Scope::Session {
                change(&mut self.settings)
            } else {
                change(&mut self.settings.clone())
            };
        };
        let mut changed = self.settings.clone();
        change(&mut changed)?;
        let frame = block.frame.get_or_insert_with(|| SettingsFrame {
            before: self.settings.clone(),
            lasting: self.settings.clone(),
        });
        if scope == Scope::Session {
            change(&mut frame.lasting)?;
        }
        self.settings = changed;
        Ok(())
    }

    /// Makes the changes that `set_config` has asked for in the statement that has just succeeded. An open block fails with one that
    /// cannot be made; a statement that was a transaction of its own is committed by then.
    pub(super) fn grant_requests(&mut self) -> Result<(), SqlError> {
        for request in self.settings.take_requests() {
            let scope = if request.is_local { Scope::Transaction } else { Scope::Session };
            self.assign(scope, &request.name, Some(&request.value)).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    fn show(&self, words: &[String]) -> Result<StatementResult, SqlError> {
        let name = shown_setting(words);
        if name == "all" {
            let all: Vec<_> = self.settings.all().collect();
            let column = |pick: &dyn Fn(&(&str, String, &str)) -> String| -> ArrayRef {
                let texts = all.iter().map(|listed| {
                    let value = self.override_of(listed.name).unwrap_or_else(|| listed.value.to_owned());
                    pick(&(listed.name, value, listed.description))
                });
                Arc::new(texts.map(Some).collect::<StringArray>())
            };
            return rows(&[
                ("name", column(&|row| row.0.to_owned())),
                ("setting", column(&|row| row.1.clone())),
                ("description", column(&|row| row.2.to_owned())),
            ]);
        }
        let value = match self.override_of(&name) {
            Some(value) => value,
            None => self.settings.get(&name)?.to_owned(),
        };
        let values: ArrayRef = Arc::new(StringArray::from(vec![value]));
        rows(&[(written_name(&name), values)])
    }

    /// Settings that the open transaction answers, or the database.
    fn override_of(&self, name: &str) -> Option<String> {
        let options = match &self.state {
            State::Active(block) | State::Failed(block) => Some(block.options),
            State::Idle => None,
        };
        match name {
            "transaction_isolation" => match options {
                Some(options) => Some(options.isolation.to_string().to_lowercase()),
                None => self.settings.get("default_transaction_isolation").ok().map(str::to_owned),
            },
            "transaction_deferrable" => Some(match options {
                Some(options) => options.deferrable.shown().to_owned(),
                None => self.settings.default_deferrable().shown().to_owned(),
            }),
            "transaction_read_only" => match options {
                Some(options) => {
                    Some(if options.mode == AccessMode::ReadOnly { "on" } else { "off" }.to_owned())
                }
                None if self.settings.is_replica() => Some("on".to_owned()),
                None => self.settings.get("default_transaction_read_only").ok().map(str::to_owned),
            },
            _ => {
                let upstream = self.engine.upstream_handle();
                of_database(name, self.engine.store(), self.engine.registry(), upstream.as_deref())
            }
        }
    }

    /// Waits until the snapshot of a token is there: a safe one, if that is what the session's transactions read. All that
    /// the session reads from then on has it.
    ///
    /// # Errors
    /// `55000` if that will never be, or not here; `57014` if it is cancelled or takes longer than it may.
    fn wait_for_token(&mut self, token: &SnapshotToken) -> Result<(), SqlError> {
        let store = self.engine.store();
        if let State::Active(block) | State::Failed(block) = &self.state
            && block.open_transaction().is_some()
        {
            let message = "SET coeval.wait_for_token must be called before any query";
            return Err(SqlError::new(SqlState::ActiveSqlTransaction, message));
        }
        let mut floor = self.floor;
        token.raise(&mut floor);
        let rest = self.open_by.map(|until| until.saturating_duration_since(Instant::now()));
        let is_safe_alone =
            store.is_following() && self.settings.default_isolation() == Isolation::Serializable;
        let wait = TokenWait {
            token,
            floor,
            needs: if is_safe_alone { Needs::Safe } else { Needs::Shown },
            limit: [self.settings.token_timeout(), rest].into_iter().flatten().min(),
            cancel: &self.cancel,
        };
        aside(|| wait.until_there(store, END_LOOK))?;
        self.floor = floor;
        Ok(())
    }

    fn discard(&mut self, object: &DiscardObject) -> Result<StatementResult, SqlError> {
        match object {
            DiscardObject::ALL => {
                if matches!(self.state, State::Active(_)) {
                    return Err(SqlError::new(
                        SqlState::ActiveSqlTransaction,
                        "DISCARD ALL cannot run inside a transaction block",
                    ));
                }
                self.settings.reset_all();
                self.set_authorization(Scope::Session, None)?;
                self.named.clear();
                self.close_all_cursors();
                self.cached.clear();
                self.replanned.clear();
                self.sequences = crate::context::SequenceValues::default();
                self.advisory_locks.unlock_all();
                self.settings.temporary().drop_all(self.engine.store());
                Ok(StatementResult::plain("DISCARD ALL"))
            }
            DiscardObject::PLANS => {
                self.cached.clear();
                self.replanned.clear();
                Ok(StatementResult::plain("DISCARD PLANS"))
            }
            DiscardObject::SEQUENCES => {
                self.sequences = crate::context::SequenceValues::default();
                Ok(StatementResult::plain("DISCARD SEQUENCES"))
            }
            DiscardObject::TEMP => {
                if matches!(self.state, State::Active(_)) {
                    return Err(SqlError::new(
                        SqlState::ActiveSqlTransaction,
                        "DISCARD TEMP cannot run inside a transaction block",
                    ));
                }
                self.settings.temporary().drop_all(self.engine.store());
                Ok(StatementResult::plain("DISCARD TEMP"))
            }
        }
    }
}

/// The columns of SHOW with these words behind it.
pub(super) fn columns_of_show(words: &[String]) -> SchemaRef {
    let name = shown_setting(words);
    match name.as_str() {
        "all" => text_columns(&["name", "setting", "description"]),
        name => text_columns(&[written_name(name)]),
    }
}

/// Columns of text.
fn text_columns(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    Arc::new(Schema::new(fields))
}

/// The setting that the words behind SHOW name.
fn shown_setting(words: &[String]) -> String {
    let name = words.join(" ");
    match name.as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "timezone".to_owned(),
        // Settings of Coeval and of applications have a point in their names.
        _ => words.join("."),
    }
}

fn rows(columns: &[(&str, ArrayRef)]) -> Result<StatementResult, SqlError> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch =
        RecordBatch::try_new(schema.clone(), columns.iter().map(|(_, array)| array.clone()).collect())?;
    let rows = RowSet::new(schema, vec![batch]);
    Ok(StatementResult { tag: CommandTag::Plain("SHOW"), rows: Some(rows) })
}

fn setting_name(name: &ObjectName) -> String {
    name.to_string().replace('"', "").to_lowercase()
}

/// The error of a value that the setting does not take.
pub(super) fn refused(name: &str, value: &str, hint: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(SqlState::InvalidParameterValue, message).with_hint(hint)
}

/// The role that a name in SET stands for.
fn role_text(ident: &Ident) -> String {
    match ident.quote_style {
        Some('\'') | Some('"') => ident.value.clone(),
        _ => fold(ident),
    }
}

/// The text of a SET value: a literal, a word, a number.
fn value_text(value: &Expr) -> Result<String, SqlError> {
    match value {
        Expr::Identifier(ident) => Ok(match ident.quote_style {
            Some(_) => format!("\"{}\"", ident.value),
            None => ident.value.clone(),
        }),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::DoubleQuotedString(text)
            | Value::Number(text, _) => Ok(text.clone()),
            Value::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
            other => Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(format!("-{}", value_text(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => value_text(expr),
        other => Err(SqlError::unsupported(format_args!("the value {other} in SET"))),
    }
}

/// Hours east of Greenwich of a zone that is an interval.
///
/// # Errors
/// `22023` for months and days, `0A000` for parts of hours.
fn hours_east(east: &Interval) -> Result<i64, SqlError> {
    const NANOS_PER_HOUR: i64 = 3_600_000_000_000;
    let text = value_text(&east.value)?;
    let written = match &east.leading_field {
        Some(field) if !text.contains(':') => format!("{text} {field}"),
        _ => text,
    };
    let refused = |parts: &str| {
        let message = format!("invalid value for parameter \"TimeZone\": \"INTERVAL '{written}'\"");
        SqlError::new(SqlState::InvalidParameterValue, message)
            .with_detail(format!("Cannot specify {parts} in time zone interval."))
    };
    let StoredValue::Interval(interval) = parse_value(&written, ColumnType::Interval, Tz::UTC)? else {
        return Err(SqlError::internal("an interval was read as something else"));
    };
    if interval.months != 0 {
        return Err(refused("months"));
    }
    if interval.days != 0 {
        return Err(refused("days"));
    }
    if interval.nanoseconds % NANOS_PER_HOUR != 0 {
        return Err(SqlError::unsupported("a time zone that is an interval with minutes")
            .with_hint("Name it as the IANA database does: 'Asia/Kolkata'."));
    }
    Ok(interval.nanoseconds / NANOS_PER_HOUR)
}

fn mode_of(name: &str, text: &str) -> Result<TransactionMode, SqlError> {
    let lower = text.to_lowercase();
    Ok(match (name, lower.as_str()) {
        ("transaction_isolation", "serializable") => {
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable)
        }
        ("transaction_isolation", "read committed" | "read uncommitted") => {
            TransactionMode::IsolationLevel(TransactionIsolationLevel::ReadCommitted)
        }
        ("transaction_isolation", "repeatable read") => {
            TransactionMode::IsolationLevel(TransactionIsolationLevel::RepeatableRead)
        }
        ("transaction_read_only", "on" | "true" | "yes" | "1") => {
            TransactionMode::AccessMode(TransactionAccessMode::ReadOnly)
        }
        ("transaction_read_only", "off" | "false" | "no" | "0") => {
            TransactionMode::AccessMode(TransactionAccessMode::ReadWrite)
        }
        _ => {
            let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
            return Err(SqlError::new(SqlState::InvalidParameterValue, message));
        }
    })
}
