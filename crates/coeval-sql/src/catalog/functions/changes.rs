// SPDX-License-Identifier: Apache-2.0
//! What committed transactions changed, between two tokens: `coeval_changes()` in FROM is made of an array of JSON.
//!
//! The rows come from the database's own files, as far back as its last checkpoint, and from its archive behind that, if who
//! opened the database has told the engine of one ([`ChangeSource`]).

use super::{Call, Entry, Gives, strict};
use crate::allowance::Meter;
use crate::catalog::CatalogAccess;
use crate::catalog::rows::Cell;
use crate::changes::ChangeSource;
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use crate::json::ChangeAsJson;
use crate::rights::insufficient;
use coeval_store::{ChangeFeedError, ChangeSink, ChangeToken, FedChange, FedTransaction, TableDef};
use std::fmt::Write;
use std::io;
use std::sync::Arc;

pub(super) const ENTRIES: &[Entry] =
    &[strict("coeval_changes_as_json", 1..=2, Gives::Texts, |call| changes(call).map(Cell::Texts))];

/// An object for each change behind the first token, up to the second one and the statement's snapshot.
fn changes(call: &Call<'_>) -> Result<Vec<String>, SqlError> {
    let access = call.access()?;
    check_role(access)?;
    let token = |index| call.text(index).map(str::parse::<ChangeToken>).transpose();
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
    let newest = access.world().version();
    let mut rows = Rows { texts: Vec::new(), is_open: false, meter: call.meter, failed: None };
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
        ChangeAsJson::is_fed(table)
    }

    fn change(&mut self, transaction: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        self.close("");
        let ChangeAsJson { operation, key, before, after } = ChangeAsJson::of(change);
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
        for (field, row) in [("key", key), ("before", before), ("after", after)] {
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
