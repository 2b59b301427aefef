// SPDX-License-Identifier: Apache-2.0
//! The servers of a database: which there are, and those that are open.
//!
//! A server is opened when somebody first needs it. Before anybody uses it, its prepared transactions are settled: those
//! that a decision is kept of are marked committed there, durably, and the decisions go then.
//!
//! A server that has stopped is opened again when it is next needed, if its engine allows that while sessions of the last opening
//! are still there; those sessions fail. Which transactions were seen on it is no longer known, so transactions of the database
//! that read an older world than the newest may not take a snapshot of it.

pub(crate) mod engines;
mod error;
mod moments;
mod spans;

pub(crate) use error::unknown_server;
pub(crate) use moments::Moment;
pub(crate) use spans::Claim;

use crate::cancel::check;
use crate::error::SqlError;
use crate::hand_over::aside;
use crate::result::StatementResult;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use coeval_store::{Catalog, Store};
use coeval_tique::{Database, Decision};
use engines::{driver, settings};
use moments::{Moments, Opened, Place};
use parking_lot::{Mutex, MutexGuard};
use spans::{END_LOOK, Spans};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The schema of the tables that say which servers there are.
pub(crate) const SCHEMA: &str = "tique";
/// The servers, each with its engine and options.
pub(crate) const SERVERS: &str = "servers";
/// The transactions of servers that have committed here, as far as the server has not said that it knows.
pub(crate) const DECISIONS: &str = "decisions";

/// The database whose servers they are: it keeps in tables which there are, and what was decided about their transactions.
pub(crate) trait OfServers: Sync {
    /// Its store.
    fn own_store(&self) -> &Store;

    /// Runs a statement of its own in a session of its own, on this thread.
    ///
    /// # Errors
    /// Those of the statement.
    fn run_own(&self, sql: &str) -> Result<StatementResult, SqlError>;
}

/// A server that is open.
pub(crate) struct Server {
    pub(crate) name: String,
    /// Its engine.
    pub(crate) kind: String,
    pub(crate) database: Database,
    /// The commits that span this server and the database.
    pub(crate) spans: Spans,
    /// Which of its states go with which worlds.
    pub(crate) place: Place,
    /// Decisions that the server knows of, and that need not be kept.
    pub(crate) known: Mutex<Vec<i64>>,
}

/// Where a server is once somebody has needed it.
type Slot = Arc<Mutex<Option<Arc<Server>>>>;

/// The servers of a database.
///
/// # Locking
/// `places` is held for moments, inside of nothing. A place is held while its server is opened, so that two sessions open it
/// once and nobody waits for another server's; whoever waits for a place looks whether its statement is to end.
#[derive(Default)]
pub(crate) struct Servers {
    are_there: AtomicBool,
    places: Mutex<HashMap<String, Slot>>,
    moments: Arc<Moments>,
}

impl Servers {
    /// Whether there may be servers: what keeps everybody else from looking.
    pub(crate) fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    /// Which of their states go with which worlds.
    pub(crate) fn moments(&self) -> &Arc<Moments> {
        &self.moments
    }

    /// Looks whether a database that is opened has any.
    pub(crate) fn look(&self, catalog: &Catalog) {
        if catalog.has_schema(SCHEMA) {
            self.note();
        }
    }

    /// There is one, or may be soon.
    pub(crate) fn note(&self) {
        self.are_there.store(true, Ordering::Relaxed);
    }

    /// The server of this name, opened if it is not, and again if it has stopped.
    ///
    /// # Errors
    /// `42704` if there is none; what its engine says; that of a statement that was cancelled while it waited.
    pub(crate) fn get(&self, home: &dyn OfServers, name: &str) -> Result<Arc<Server>, SqlError> {
        let place = self.place(home, name)?;
        let mut place = locked(&place)?;
        if let Some(server) = &*place
            && !server.database.has_stopped()
        {
            return Ok(Arc::clone(server));
        }
        let last = place.clone();
        // Nothing that spans the server is on its way while its decisions are read.
        let claim = last.as_ref().map(|last| last.spans.claim_settled()).transpose()?;
        if let Some(last) = &last
            // If the log has failed it is not known here which decisions are durable.
            && (home.own_store().check_running().is_err() || !last.database.retire())
        {
            // It tells everybody to wait until this process has ended.
            return Ok(Arc::clone(last));
        }
        let (kind, database) = open(home, name)?;
        let opened = if claim.is_some() { Opened::Again } else { Opened::First };
        let newest = || home.own_store().world().version();
        let watched = self.moments.opened(database.clock(), opened, newest);
        let (moments, number) = (Arc::clone(&self.moments), watched.number());
        database.retain(move || moments.oldest_needed(number));
        let (spans, known) = (Spans::default(), Mutex::default());
        let server = Arc::new(Server { name: name.to_owned(), kind, database, spans, place: watched, known });
        *place = Some(Arc::clone(&server));
        Ok(server)
    }

    fn place(&self, home: &dyn OfServers, name: &str) -> Result<Slot, SqlError> {
        if let Some(place) = self.places.lock().get(name) {
            return Ok(Arc::clone(place));
        }
        described(home, name)?;
        Ok(Arc::clone(self.places.lock().entry(name.to_owned()).or_default()))
    }

    /// Forgets a server that was dropped; it is closed when the last session has let go of it.
    pub(crate) fn forget(&self, name: &str) {
        let forgotten = self.places.lock().remove(name);
        // Not under the lock: closing it waits for its checkpoint.
        drop(forgotten);
    }
}

/// Waits for a place.
fn locked<T>(place: &Mutex<T>) -> Result<MutexGuard<'_, T>, SqlError> {
    if let Some(place) = place.try_lock() {
        return Ok(place);
    }
    aside(|| {
        loop {
            if let Some(place) = place.try_lock_for(END_LOOK) {
                return Ok(place);
            }
            check()?;
        }
    })
}

/// Opens a server's database, and settles what was prepared there.
fn open(home: &dyn OfServers, name: &str) -> Result<(String, Database), SqlError> {
    let (kind, options) = described(home, name)?;
    let driver = driver(&kind, &options)?;
    let decided = decisions(home, name)?;
    let database = Database::open_decided(driver, settings(&options)?, &decided)?;
    if !decided.is_empty() {
        let sql = format!("DELETE FROM {SCHEMA}.{DECISIONS} WHERE server = {}", text(name));
        ask(home, &sql)?;
    }
    Ok((kind, database))
}

/// A text as a literal.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Runs a statement of ours on a thread of its own: the caller's statement stays the one that is cancelled on the caller's
/// thread.
fn ask(home: &dyn OfServers, sql: &str) -> Result<StatementResult, SqlError> {
    let outcome = std::thread::scope(|scope| scope.spawn(|| home.run_own(sql)).join());
    outcome.unwrap_or_else(|_| Err(SqlError::internal("a statement of ours panicked")))
}

/// The engine and the options of a server.
fn described(home: &dyn OfServers, name: &str) -> Result<(String, BTreeMap<String, String>), SqlError> {
    if !home.own_store().world().catalog().has_schema(SCHEMA) {
        return Err(unknown_server(name));
    }
    let sql = format!("SELECT engine, options FROM {SCHEMA}.{SERVERS} WHERE name = {}", text(name));
    let rows = ask(home, &sql)?.rows.map(|rows| rows.batches).unwrap_or_default();
    let Some(batch) = rows.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(unknown_server(name));
    };
    let column = |at: usize| -> Result<String, SqlError> {
        let column = cast(batch.column(at), &DataType::Utf8)?;
        Ok(column.as_string::<i32>().value(0).to_owned())
    };
    let options = serde_json::from_str(&column(1)?);
    let options = options.map_err(|error| SqlError::internal(format!("the options of {name}: {error}")))?;
    Ok((column(0)?, options))
}

/// The decisions that are kept for a server.
fn decisions(home: &dyn OfServers, name: &str) -> Result<Vec<Decision>, SqlError> {
    let sql = format!("SELECT transaction, stamp FROM {SCHEMA}.{DECISIONS} WHERE server = {}", text(name));
    let mut decisions = Vec::new();
    for batch in ask(home, &sql)?.rows.map(|rows| rows.batches).unwrap_or_default() {
        let (transactions, stamps) =
            (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        let pairs = transactions.values().iter().zip(stamps.values());
        decisions.extend(pairs.map(|(&transaction, &timestamp)| Decision { transaction, timestamp }));
    }
    Ok(decisions)
}
