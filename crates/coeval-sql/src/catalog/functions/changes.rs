// SPDX-License-Identifier: Apache-2.0
//! What committed transactions changed, between two tokens: `coeval_changes()` and `coeval_table_changes()` in FROM are made of an array
//! of JSON.
//!
//! The rows come from the database's own files, as far back as its last checkpoint, and from its archive behind that, if who
//! opened the database has told the engine of one ([`ChangeSource`]).

use super::{Call, Entry, Gives, strict};
use crate::allowance::Meter;
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::changes::{ChangeSource, member_of};
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use crate::json::ChangeAsJson;
use crate::names::unknown_table;
use crate::rights::insufficient;
use crate::types::format_value;
use crate::types::json::push_string;
use chrono_tz::Tz;
use coeval_store::{
    ChangeFeedError, ChangeSink, ChangeToken, ChangedRow, FedChange, FedTransaction, Store, TableDef,
    ValueRef,
};
use std::fmt::Write;
use std::io;
use std::sync::Arc;

/// They read the log, and perhaps a backup. Where constants are folded they would do so for EXPLAIN, and, as what they give is large,
/// in vain.
pub(super) const ENTRIES: &[Entry] = &[
    strict("coeval_changes_as_json", 1..=2, Gives::Texts, |call| {
        changes(call, 0, Form::Documents).map(Cell::Texts)
    })
    .acting(),
    strict("coeval_table_changes_as_json", 3..=4, Gives::Texts, |call| {
        changes(call, 2, Form::Texts(table_of(call)?)).map(Cell::Texts)
    })
    .acting(),
];

/// How changes are written.
enum Form {
    /// Those of all tables, rows as documents.
    Documents,
    /// Those of one table, which is this by now: of each of its columns the text of its type, without those that are NULL.
    Texts(Arc<TableDef>),
}

impl Form {
    /// The fields of a change that are made of rows.
    fn rows_of(&self, change: &FedChange<'_>) -> [(&'static str, Option<String>); 3] {
        let (key, before, after) = match self {
            Self::Documents => {
                let ChangeAsJson { key, before, after, .. } = ChangeAsJson::of(change);
                (key, before, after)
            }
            Self::Texts(present) => {
                let texts =
                    |row: Option<&ChangedRow<'_>>| row.map(|row| texts_of(present, change.table(), row));
                let (before, after) = images_of(change);
                (None, texts(before), texts(after))
            }
        };
        [("key", key), ("before", before), ("after", after)]
    }
}

/// The row before a change, and the one behind it.
fn images_of<'c, 'r>(change: &'c FedChange<'r>) -> (Option<&'c ChangedRow<'r>>, Option<&'c ChangedRow<'r>>) {
    match change {
        FedChange::Inserted { after, .. } => (None, Some(after)),
        FedChange::Updated { before, after, .. } => (Some(before), Some(after)),
        FedChange::Deleted { before, .. } => (Some(before), None),
        FedChange::Emptied { .. } | FedChange::Defined { .. } | FedChange::Dropped { .. } => (None, None),
    }
}

/// A row of a table's earlier definition as the columns that the table has by now. They go by their places, which a new name
/// leaves as they are; where the table was made anew since, as for another type of a column, by their names.
fn texts_of(present: &TableDef, table: &TableDef, row: &ChangedRow<'_>) -> String {
    let is_same = present.id == table.id;
    let mut out = String::from("{");
    for (index, column) in present.live_columns() {
        let place = if is_same {
            table.columns.get(index).filter(|then| then.is_live()).map(|_| index)
        } else {
            table.column_index(&column.name)
        };
        let Some(place) = place else { continue };
        let value = row.get(place);
        if matches!(value, ValueRef::Null) {
            continue;
        }
        let mut text = String::new();
        format_value(value, table.columns[place].ty, Tz::UTC, &mut text);
        let separator = if out.len() == 1 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(out, "{separator}\"{}\":", member_of(index));
        push_string(&text, &mut out);
    }
    out.push('}');
    out
}

/// The table that the first two arguments name, schema and name.
fn table_of(call: &Call<'_>) -> Result<Arc<TableDef>, SqlError> {
    let (schema, name) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
    let is_it = |table: &&Arc<TableDef>| table.name.schema == schema && table.name.name == name;
    let found = call.access()?.objects().tables().find(is_it);
    found.cloned().ok_or_else(|| unknown_table(name))
}

/// An object for each change behind the first token, up to the second one and the statement's snapshot. The arguments that are tokens
/// begin at this place.
fn changes(call: &Call<'_>, tokens: usize, form: Form) -> Result<Vec<String>, SqlError> {
    let access = call.access()?;
    check_role(access)?;
    let token = |index| call.text(tokens + index).map(str::parse::<ChangeToken>).transpose();
    let malformed = |error: coeval_store::MalformedToken| {
        SqlError::new(SqlState::InvalidParameterValue, error.to_string())
    };
    let from = token(0).map_err(malformed)?;
    let from = from.ok_or_else(|| SqlError::internal("a strict function was called with NULL"))?;
    let until = token(1).map_err(malformed)?;
    let store = access.store();
    if store.log_position().is_none() {
        let message = "a database in memory has no log";
        return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message));
    }
    check_confirmed(store)?;
    let newest = access.world().version();
    let mut rows = Rows { form, texts: Vec::new(), is_open: false, meter: call.meter, failed: None };
    let mut read = aside(|| store.changes(from, until, newest, &mut rows));
    if let (Err(ChangeFeedError::TooOld { .. }), Some(source)) = (&read, access.change_source()) {
        read = aside(|| source.changes(store, from, until, newest, &mut rows));
    }
    match (read, rows.failed) {
        (_, Some(error)) => Err(error),
        (Ok(()), None) => Ok(rows.texts),
        (Err(error), None) => Err(refused(error, access.change_source())),
    }
}

/// As for PostgreSQL's functions of logical decoding.
fn check_role(access: &CatalogAccess) -> Result<(), SqlError> {
    if access.may_replicate() {
        return Ok(());
    }
    Err(insufficient("permission denied to read changes")
        .with_detail("Only roles with the REPLICATION attribute may read what transactions have changed."))
}

/// A feed gives nothing that a failover could lose. Superusers are let in before that is known of what was found behind a crash.
fn check_confirmed(store: &Store) -> Result<(), SqlError> {
    if store.has_confirmed() {
        return Ok(());
    }
    let message = "it is not known yet whether all that this database has may be shown";
    Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_detail(
            "Behind a crash it may have more than as many replicas have as commits wait for, or than its primary \
             has published.",
        )
        .with_hint("Start replicas, or the primary; SET synchronous_standby_names = '' if they are gone for good."))
}

fn refused(error: ChangeFeedError, source: Option<&Arc<dyn ChangeSource>>) -> SqlError {
    let refused = |message: String| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    match error {
        ChangeFeedError::TooOld { token, oldest } => {
            let message = format!("token {token} is older than the log: that begins behind version {oldest}");
            let hint = match source {
                None => "Serve the database with --archive, or keep a state of coeval feed.",
                Some(_) => "The archive has no backup from before the token.",
            };
            refused(message).with_hint(hint)
        }
        ChangeFeedError::Store(error) => error.into(),
        ChangeFeedError::Output(error) => refused(error.to_string()),
        error @ ChangeFeedError::Foreign { .. } => refused(error.to_string())
            .with_hint("A failover or a restore has left what it stands for; take a new token."),
        error => refused(error.to_string()),
    }
}

/// Changes as texts. The last one of a transaction has its token, and is open until that is known.
struct Rows<'m> {
    form: Form,
    texts: Vec<String>,
    is_open: bool,
    meter: &'m Meter,
    failed: Option<SqlError>,
}

impl Rows<'_> {
    fn close(&mut self, rest: &str) {
        if let Some(text) = self.texts.last_mut().filter(|_| std::mem::take(&mut self.is_open)) {
            text.push_str(rest);
            text.push('}');
        }
    }

    fn stop(&mut self, error: SqlError) -> io::Error {
        self.failed = Some(error);
        io::ErrorKind::Other.into()
    }
}

impl ChangeSink for Rows<'_> {
    fn wants(&self, table: &TableDef) -> bool {
        let is_asked_for = match &self.form {
            Form::Documents => true,
            Form::Texts(present) => present.name == table.name,
        };
        is_asked_for && ChangeAsJson::is_fed(table)
    }

    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.close("");
        let operation = ChangeAsJson::operation_of(change);
        let name = &change.table().name;
        let quoted = |text: &str| serde_json::Value::String(text.to_owned()).to_string();
        let mut text = format!(
            "{{\"version\":{},\"position\":{},\"operation\":\"{operation}\",\"table_schema\":{},\"table_name\":{}",
            transaction.version,
            transaction.position,
            quoted(&name.schema),
            quoted(&name.name),
        );
        if let Some(time) = transaction.time {
            // Writing to a String cannot fail.
            let _ = write!(text, ",\"committed_at\":\"{}\"", time.to_string().replace(" UTC", "+00"));
        }
        for (field, row) in self.form.rows_of(change) {
            if let Some(row) = row {
                let _ = write!(text, ",\"{field}\":{row}");
            }
        }
        self.meter.step().and_then(|()| self.meter.value(text.len())).map_err(|error| self.stop(error))?;
        self.texts.push(text);
        self.is_open = true;
        Ok(())
    }

    fn end(&mut self, transaction: &FedTransaction) -> io::Result<()> {
        self.close(&format!(",\"token\":\"{}\"", transaction.token));
        self.meter.look().map_err(|error| self.stop(error))
    }

    fn idle(&mut self, _: &ChangeToken) -> io::Result<()> {
        self.look()
    }

    fn look(&mut self) -> io::Result<()> {
        self.meter.look().map_err(|error| self.stop(error))
    }
}
