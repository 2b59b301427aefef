// SPDX-License-Identifier: Apache-2.0
//! A session's part on the servers: its connections, and what its transaction does there.
//!
//! A transaction's part on a server begins with its first statement there, and ends with the transaction. How it ends:
//!
//! | wrote on | how |
//! |---|---|
//! | no server | the parts end; the database commits as ever |
//! | one server alone | the server commits |
//! | one server and the database | prepare there; the decision commits with the database's changes; commit there |
//! | two servers | refused (0A000) |
//!
//! **Atomic.** The decision is a row of the same commit record as the database's changes, so it is durable with them or not
//! at all, and the record is synced before the server's marker is written. **One snapshot.** A part begins at the state of its
//! server that goes with the transaction's world (`servers/moments.rs`); from then on the transaction stays with that world, at every level. **Seen
//! whole.** A part waits if a commit that spans the server is in the world and not yet in the server's state that goes with it, and is refused
//! (40001) if it is not there then either: the next commit came between its two halves (`servers/spans.rs`).
//!
//! **SERIALIZABLE on one server alone.** A server's transactions are as if run in the order of their commits, and the
//! database's in an order of its own, so two transactions could each read here what the other writes and be in both orders. Who
//! reads or writes in two places is refused (0A000).

use crate::cancel::{check, running};
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::servers::{Claim, DECISIONS, Moment, SCHEMA, Server};
use crate::settings::Settings;
use arrow::datatypes::SchemaRef;
use coeval_store::{Committed, QualifiedName, Refused, RowWriter, Store, StoreError, Transaction, ValueRef};
use coeval_tique::{
    Abandonment, Decision, Interrupt, Outcome, PreparedCommit, Session, abandonable, interruptible,
};
use coeval_txn::{Isolation, Version};
use datafusion::sql::sqlparser::ast::Statement;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How often a commit that waits for replicas alone, with nobody who waits for it, looks for them.
const PUBLISHED_LOOK: Duration = Duration::from_millis(50);

struct Open {
    server: Arc<Server>,
    session: Session,
    /// The revision of the client's settings that the session has.
    told: Option<u64>,
}

impl Open {
    fn new(server: Arc<Server>, session: Session) -> Self {
        Self { server, session, told: None }
    }

    /// Sets in the session what the client has set here.
    fn tell(&mut self, settings: &Settings) -> Result<(), SqlError> {
        if self.told != Some(settings.revision()) {
            for (name, value) in settings.on_servers() {
                self.session.execute(&format!("SET {name} = '{value}'"))?;
            }
            self.told = Some(settings.revision());
        }
        Ok(())
    }
}

/// See the module. Dropping it rolls back what is open.
#[derive(Default)]
pub(crate) struct ServerPart {
    open: HashMap<String, Open>,
    /// Whether what the transaction did on a server is lost: it can end without a trace alone.
    is_lost: bool,
    /// The savepoints of the session's block, each with how many tables were `dropped` at it. A part that begins later begins
    /// behind them.
    savepoints: Vec<usize>,
    /// Tables whose definitions the transaction has removed: server and table.
    dropped: Vec<(String, String)>,
    /// At which moment the transaction reads servers, once it has looked at one.
    moment: Option<Moment>,
    /// The columns that the client was told of the statement that runs.
    promised: Option<SchemaRef>,
}

/// How a block's parts on the servers ended.
pub(crate) enum Ended {
    /// They have ended; the database's is left to the caller.
    Left(Option<Box<Transaction>>),
    /// The whole has ended. If it was refused, nothing of it is held any more that others need while it waits.
    Spanned(Result<Committed, Box<Refused>>),
}

impl ServerPart {
    /// Notes what the client was told of the next statement's columns.
    pub(crate) fn promise(&mut self, columns: Option<SchemaRef>) {
        self.promised = columns;
    }

    pub(crate) fn promised(&self) -> Option<&SchemaRef> {
        self.promised.as_ref()
    }

    /// Runs a statement on a server, in the part of this transaction.
    ///
    /// # Errors
    /// `0A000` at SERIALIZABLE in more than one place; `40001` if the snapshots do not go together; what the server says;
    /// that of a cancelled statement: what the transaction did on the server is lost then.
    pub(crate) fn execute(
        &mut self,
        engine: &Arc<Engine>,
        transaction: &Transaction,
        settings: &Settings,
        server: &str,
        statement: Statement,
    ) -> Result<Outcome, SqlError> {
        self.begun(engine, transaction, settings, server)?.tell(settings)?;
        let Some(mut open) = self.open.remove(server) else { unreachable!("it is open now") };
        // The session stops waiting when it gets a cancel request, and leaves the connection to the statement that runs on it: the
        // engine is asked to end that, and the connection is rolled back and closed when it has ended. Nobody else gets it.
        let abandonment = Abandonment::default();
        let theirs = abandonment.clone();
        let ran = engine.runtime().beside(&settings.principal().name, move || {
            let outcome = abandonable(&theirs, || open.session.execute_parsed(statement));
            (open, outcome)
        });
        let (open, outcome) = ran.inspect_err(|_| {
            abandonment.abandon();
            self.is_lost = true;
        })?;
        if outcome.as_ref().is_err_and(|error| error.state.code() == "08006") {
            // The next one connects again.
            self.is_lost = true;
        } else {
            self.open.insert(server.to_owned(), open);
        }
        Ok(outcome?)
    }

    /// Runs a definition on a server, outside of its transactions. If the statement is cancelled meanwhile, the definition is made all
    /// the same: its table is one that nobody knows then.
    ///
    /// # Errors
    /// What the server says; that of a cancelled statement.
    pub(crate) fn define(
        &mut self,
        engine: &Arc<Engine>,
        settings: &Settings,
        server: &str,
        statement: Statement,
    ) -> Result<(), SqlError> {
        let role = &settings.principal().name;
        let (_, mut session) = connected(engine, role, engine.servers().get(engine, server)?)?;
        engine.runtime().beside(role, move || session.execute_parsed(statement).map(drop))??;
        Ok(())
    }

    fn begun(
        &mut self,
        engine: &Arc<Engine>,
        transaction: &Transaction,
        settings: &Settings,
        server: &str,
    ) -> Result<&mut Open, SqlError> {
        let level = match transaction.isolation() {
            Isolation::Serializable => {
                self.require_alone(transaction, server)?;
                " ISOLATION LEVEL SERIALIZABLE"
            }
            _ => "",
        };
        if !self.open.get(server).is_some_and(|open| open.session.is_in_block()) {
            let server = engine.servers().get(engine, server)?;
            // One that was opened again meanwhile has sessions of its own.
            if !self.open.get(&server.name).is_some_and(|open| Arc::ptr_eq(&open.server, &server)) {
                let (server, session) = connected(engine, &settings.principal().name, server)?;
                self.open.insert(server.name.clone(), Open::new(server, session));
            }
        }
        let Some(open) = self.open.get(server) else { unreachable!("it is open now") };
        if !open.session.is_in_block() {
            interrupted_with_statement(|| open.session.wait_for_turn())?;
            let there = Arc::clone(&open.server);
            let start = self.start_on(engine, transaction, &there)?;
            let Some(open) = self.open.get_mut(server) else { unreachable!("it is open now") };
            transaction.stay();
            open.session.begin_at(start);
            let mode = if transaction.has_begun_read_only() { " READ ONLY" } else { "" };
            let begin = format!("BEGIN{level}{mode}");
            interrupted_with_statement(|| open.session.execute(&begin))?;
            for _ in &self.savepoints {
                open.session.set_savepoint()?;
            }
        }
        let Some(open) = self.open.get_mut(server) else { unreachable!("it is open now") };
        Ok(open)
    }

    /// The state of a server that goes with the transaction's world, where both show the same commits that span them.
    ///
    /// # Errors
    /// `40001` if there is none; that of a statement that was cancelled while it waited.
    fn start_on(
        &mut self,
        engine: &Engine,
        transaction: &Transaction,
        server: &Server,
    ) -> Result<i64, SqlError> {
        let mut has_waited = false;
        loop {
            // If a first look was refused, the world may have moved on since, at READ COMMITTED.
            let version = transaction.begin_version();
            if self.moment.as_ref().is_none_or(|moment| moment.version != version) {
                self.moment = Some(engine.servers().moments().of(version));
            }
            let start = self.moment.as_ref().and_then(|moment| server.place.at(moment)).ok_or_else(apart)?;
            let Some(half) = server.spans.half(version, start)? else { return Ok(start) };
            // All servers are read as of one moment.
            if has_waited || self.begun_sessions().next().is_some() {
                return Err(apart());
            }
            server.spans.wait_settled(half)?;
            (self.moment, has_waited) = (None, true);
        }
    }

    /// Sees that a transaction at SERIALIZABLE is on this server alone.
    ///
    /// # Errors
    /// `0A000`.
    fn require_alone(&self, transaction: &Transaction, server: &str) -> Result<(), SqlError> {
        let is_there = |(name, open): (&String, &Open)| open.session.is_in_block() && server != name;
        if self.open.iter().any(is_there) {
            Err(in_two_places(transaction))
        } else {
            require_not_here(transaction)
        }
    }

    /// Sees that a transaction at SERIALIZABLE that is on a server is not here as well.
    ///
    /// # Errors
    /// `0A000`; its part has ended.
    pub(crate) fn require_end_alone(&mut self, transaction: &Transaction) -> Result<(), SqlError> {
        if transaction.isolation() != Isolation::Serializable || self.begun_sessions().next().is_none() {
            return Ok(());
        }
        require_not_here(transaction).inspect_err(|_| self.rollback())
    }

    fn begun_sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.open.values_mut().map(|open| &mut open.session).filter(|session| session.is_in_block())
    }

    /// Whether the transaction has written on a server.
    pub(crate) fn has_written(&self) -> bool {
        self.open.values().any(|open| open.session.has_written())
    }

    /// Whether the transaction has done anything on a server.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_lost || !self.dropped.is_empty() || self.open.values().any(|open| open.session.is_in_block())
    }

    /// A savepoint of the block.
    ///
    /// # Errors
    /// None today; whatever keeps a server from setting one.
    pub(crate) fn set_savepoint(&mut self) -> Result<(), SqlError> {
        for session in self.begun_sessions() {
            session.set_savepoint()?;
        }
        self.savepoints.push(self.dropped.len());
        Ok(())
    }

    /// Back to a savepoint, by how many there were before it.
    ///
    /// # Errors
    /// What a server says, that of a cancelled statement, or `08006` if the part there is lost; only ROLLBACK helps then.
    pub(crate) fn rollback_to(&mut self, place: usize) -> Result<(), SqlError> {
        self.require_kept()?;
        for session in self.begun_sessions() {
            // What it has sent to the engine is deleted there, which may have to wait for others' statements.
            interrupted_with_statement(|| session.rollback_to_savepoint(place))
                .map_err(|error| check().err().unwrap_or_else(|| error.into()))?;
        }
        self.savepoints.truncate(place + 1);
        self.dropped.truncate(self.savepoints.last().copied().unwrap_or_default());
        Ok(())
    }

    /// Forgets what has begun, but no savepoints: the block's next statement begins a new transaction.
    pub(crate) fn begin_anew(&mut self) {
        for session in self.begun_sessions() {
            // A session in a block rolls back without asking its engine.
            let _ = session.execute("ROLLBACK");
        }
        self.moment = None;
    }

    fn require_kept(&self) -> Result<(), SqlError> {
        match self.is_lost {
            false => Ok(()),
            true => Err(SqlError::new(
                SqlState::ConnectionFailure,
                "what the transaction did on a server is lost: the connection to it was, or a statement was canceled there",
            )
            .with_hint("ROLLBACK, and run the transaction again.")),
        }
    }

    /// Forgets savepoints from this one on.
    pub(crate) fn release(&mut self, place: usize) {
        self.begun_sessions().for_each(|session| session.release_savepoints(place));
        self.savepoints.truncate(place);
    }

    /// Ends the parts without a trace.
    pub(crate) fn rollback(&mut self) {
        self.begin_anew();
        self.savepoints.clear();
        self.dropped.clear();
        self.is_lost = false;
    }

    /// Notes that the transaction removes the definition of a table.
    pub(crate) fn note_dropped(&mut self, server: &str, table: &str) {
        self.dropped.push((server.to_owned(), table.to_owned()));
    }

    /// Removes the tables from their servers whose definitions have gone. What a server refuses stays there as a table
    /// that nobody knows, which CREATE TABLE of the name takes over if it is empty.
    pub(crate) fn remove_dropped(&mut self, engine: &Arc<Engine>, notices: &mut Vec<SqlError>) {
        let drop_table = |(server, table): &(String, String)| {
            let sql = format!("DROP TABLE IF EXISTS \"{}\"", table.replace('"', "\"\""));
            let server = engine.servers().get(engine, server)?;
            // It may have to wait for others' statements; a cancelled wait leaves the table there.
            interrupted_with_statement(|| server.database.session()?.execute(&sql).map(drop))
                .map_err(SqlError::from)
        };
        let mut dropped = std::mem::take(&mut self.dropped);
        loop {
            let before = dropped.len();
            // A table whose children go as well goes behind them.
            dropped.retain(|table| drop_table(table).is_err());
            if dropped.is_empty() || dropped.len() == before {
                break;
            }
        }
        for (server, table) in dropped {
            if let Err(error) = drop_table(&(server.clone(), table.clone())) {
                let message =
                    format!("server \"{server}\" keeps the rows of table {table}: {}", error.message);
                notices.push(SqlError::new(SqlState::InvalidTransactionStateNotice, message));
            }
        }
    }

    /// Ends the parts of a block that commits.
    ///
    /// # Errors
    /// What a server or the rules of this module refuse: nothing of the transaction remains anywhere, but for `08007`.
    pub(crate) fn end(
        &mut self,
        engine: &Arc<Engine>,
        transaction: Option<Box<Transaction>>,
        notices: &mut Vec<SqlError>,
    ) -> Result<Ended, SqlError> {
        if let Some(transaction) = &transaction {
            self.require_end_alone(transaction)?;
        }
        self.require_kept().inspect_err(|_| self.rollback())?;
        let mut written = self.open.values().filter(|open| open.session.has_written());
        let (first, second) = (written.next().map(|open| open.server.name.clone()), written.next());
        if second.is_some() {
            self.rollback();
            return Err(SqlError::unsupported("a transaction that writes on two servers")
                .with_hint("Commit between the two."));
        }
        let Some(name) = first else {
            self.end_parts();
            return Ok(Ended::Left(transaction));
        };
        let Some(open) = self.open.get_mut(&name) else { unreachable!("it has written") };
        let outcome = match transaction {
            Some(transaction) if transaction.has_writes() => {
                span(engine, &open.server, &mut open.session, *transaction, notices).map(Ended::Spanned)
            }
            left => {
                let committed = interrupted_with_statement(|| open.session.execute("COMMIT"));
                committed.map(|_| Ended::Left(left)).map_err(SqlError::from)
            }
        };
        if outcome.is_err() {
            self.rollback()
        } else {
            self.end_parts()
        }
        outcome
    }

    fn end_parts(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        self.rollback();
        self.dropped = dropped;
    }
}

/// Refuses a transaction that has read or written here. One that is declared read-only is refused, too: it may have read an older
/// snapshot, and what it reads is not noted.
fn require_not_here(transaction: &Transaction) -> Result<(), SqlError> {
    let is_here = transaction.has_reads() || transaction.has_writes() || transaction.has_begun_read_only();
    if is_here { Err(in_two_places(transaction)) } else { Ok(()) }
}

/// Sees that at SERIALIZABLE it is noted what else the transaction reads, a server's table being read by a statement over
/// others. Of a query that is a transaction of its own it is not.
///
/// # Errors
/// `0A000`.
pub(crate) fn require_noted(transaction: &Transaction) -> Result<(), SqlError> {
    let is_noted = transaction.isolation() != Isolation::Serializable || transaction.notes_reads();
    if is_noted { Ok(()) } else { Err(in_two_places(transaction)) }
}

/// What the server showed while the transaction's world was the newest is not known, or only half of it.
fn apart() -> SqlError {
    let message = "could not begin on the server: it is not known what it showed at the time of the transaction's snapshot";
    SqlError::new(SqlState::SerializationFailure, message)
        .with_hint("Run the transaction again. One that reads the server early keeps what it reads there.")
}

fn in_two_places(transaction: &Transaction) -> SqlError {
    let (what, hint) = if transaction.has_begun_read_only() {
        (
            "READ ONLY over a table of a server",
            "REPEATABLE READ, READ ONLY reads one state of the server, which had a serial order if all who wrote it were at \
             SERIALIZABLE.",
        )
    } else {
        (
            "in a transaction that reads or writes on a server and elsewhere",
            "Do the one in a transaction of its own, or BEGIN ISOLATION LEVEL REPEATABLE READ.",
        )
    };
    SqlError::unsupported(format!("SERIALIZABLE {what}")).with_hint(hint)
}

/// Commits what a transaction has changed here and on a server. If it is cancelled while it waits for replicas, it commits on the server
/// when they have it, without anybody who waits.
///
/// Whoever begins on the server, or spans it next, waits for this: so nothing here waits for other transactions. Locks are waited for
/// before, and a reservation that was met is waited for by the caller.
fn span(
    engine: &Arc<Engine>,
    server: &Arc<Server>,
    session: &mut Session,
    mut transaction: Transaction,
    notices: &mut Vec<SqlError>,
) -> Result<Result<Committed, Box<Refused>>, SqlError> {
    if let Err(error) = transaction.check_before_commit() {
        return Ok(Err(error.into()));
    }
    let claim = server.spans.claim()?;
    let Some(prepared) = interrupted_with_statement(|| session.prepare())? else {
        return Ok(transaction.commit_unless_refused());
    };
    let known = std::mem::take(&mut *server.known.lock());
    if let Err(error) = decide(&mut transaction, &server.name, prepared.decision(), &known) {
        server.known.lock().extend(known);
        return Err(error);
    }
    claim.begin_to_commit();
    let committed = match transaction.commit_unless_refused() {
        Ok(committed) => committed,
        Err(refused) => {
            server.known.lock().extend(known);
            return Ok(Err(refused));
        }
    };
    let decided = Decided::noted(claim, engine, server, prepared, committed.version);
    // The marker is not written before the decision is durable.
    match wait_published(engine.store(), committed.version) {
        Ok(()) => {
            decided.mark(notices);
            Ok(Ok(committed))
        }
        Err(StoreError::NotReplicated) => {
            decided.leave_to_a_thread();
            Ok(Err(StoreError::NotReplicated.into()))
        }
        // It goes to recovery.
        Err(error) => Ok(Err(error.into())),
    }
}

/// A session on a server, which is opened again if it has stopped. Connecting may take its time (ten seconds to a PostgreSQL that does not
/// answer): who is told to end leaves it behind.
///
/// # Errors
/// What the server says; that of a cancelled statement.
fn connected(
    engine: &Arc<Engine>,
    role: &Arc<str>,
    mut server: Arc<Server>,
) -> Result<(Arc<Server>, Session), SqlError> {
    let connect = |server: &Arc<Server>| {
        let there = Arc::clone(server);
        engine.runtime().beside(role, move || there.database.session())
    };
    let mut session = connect(&server)?;
    if session.is_err() && server.database.has_stopped() {
        // Nobody had noticed before.
        server = engine.servers().get(engine, &server.name)?;
        session = connect(&server)?;
    }
    Ok((server, session?))
}

/// Does something on a server whose waits end when the statement that runs on this thread is to end.
fn interrupted_with_statement<T>(work: impl FnOnce() -> T) -> T {
    let interrupt = running().map(|running| Arc::new(move || running.requested().is_some()) as Interrupt);
    interruptible(interrupt, work)
}

/// Waits until a commit is published, or the statement that runs is to end and nothing but replicas is waited for.
fn wait_published(store: &Store, version: Version) -> Result<(), StoreError> {
    match running() {
        Some(running) => store.wait_published_unless(version, &*running.interrupt()),
        None => store.wait_published(version),
    }
}

/// A commit that is decided here, and that the server has to show. Dropped before that, it is left to recovery: it is not known
/// whether the decision is durable.
struct Decided {
    engine: Weak<Engine>,
    server: Arc<Server>,
    prepared: Option<PreparedCommit>,
    version: Version,
    timestamp: i64,
}

impl Decided {
    fn noted(
        claim: Claim<'_>,
        engine: &Arc<Engine>,
        server: &Arc<Server>,
        prepared: PreparedCommit,
        version: Version,
    ) -> Self {
        let timestamp = prepared.decision().timestamp;
        claim.note(version, timestamp, server.database.passed());
        let (engine, server) = (Arc::downgrade(engine), Arc::clone(server));
        Self { engine, server, prepared: Some(prepared), version, timestamp }
    }

    fn mark(mut self, notices: &mut Vec<SqlError>) {
        if let Some(prepared) = self.prepared.take() {
            mark(&self.server, prepared, notices);
        }
    }

    /// Marks it when it is published; leaves it to recovery if that cannot be any more.
    fn mark_when_published(self) {
        loop {
            // Not kept for longer: a database that is closed meanwhile is not to end on this thread.
            let (is_published, has_ended) = {
                let Some(engine) = self.engine.upgrade() else { return };
                let store = engine.store();
                (store.world().version() >= self.version, store.check_running().is_err())
            };
            if is_published {
                // Nobody is there to hear of it.
                return self.mark(&mut Vec::new());
            }
            if has_ended {
                return;
            }
            thread::sleep(PUBLISHED_LOOK);
        }
    }

    /// The same by a thread of its own; by this one if there is none to be had.
    fn leave_to_a_thread(self) {
        let ours = Arc::new(Mutex::new(Some(self)));
        let theirs = Arc::clone(&ours);
        let thread = thread::Builder::new().name("coeval-spanning".to_owned());
        if thread.spawn(move || Self::finish(&theirs)).is_err() {
            Self::finish(&ours);
        }
    }

    fn finish(decided: &Mutex<Option<Self>>) {
        let taken = decided.lock().take();
        taken.into_iter().for_each(Self::mark_when_published);
    }
}

impl Drop for Decided {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            prepared.leave_to_recovery("it is not known whether a commit that spans the server is durable");
        }
        self.server.spans.note_settled(self.timestamp);
    }
}

/// Tells the server of its transaction's commit, which is decided.
fn mark(server: &Server, prepared: PreparedCommit, notices: &mut Vec<SqlError>) {
    let decision = prepared.decision();
    match prepared.commit() {
        Ok(()) => server.known.lock().push(decision.transaction),
        Err(error) => {
            let message = format!(
                "the transaction has committed, and server \"{}\" shows it once it is opened again: {}",
                server.name, error.message
            );
            notices.push(SqlError::new(SqlState::InvalidTransactionStateNotice, message));
        }
    }
}

/// Adds the decision to the transaction's changes, and takes out those that need not be kept any longer.
fn decide(
    transaction: &mut Transaction,
    server: &str,
    decision: Decision,
    known: &[i64],
) -> Result<(), SqlError> {
    let def = transaction.resolve_table(&QualifiedName::new(SCHEMA, DECISIONS));
    let def = def.ok_or_else(|| SqlError::internal("the table of decisions is not there"))?;
    let row = |transaction: i64, timestamp: i64| {
        let mut writer = RowWriter::new(def.layout());
        let values = [ValueRef::Text(server), ValueRef::Int64(transaction), ValueRef::Int64(timestamp)];
        for value in values {
            writer.push(value).map_err(|_| SqlError::internal("the table of decisions has other columns"))?;
        }
        Ok::<_, SqlError>(writer.finish())
    };
    for &old in known {
        let values = [ValueRef::Text(server), ValueRef::Int64(old)];
        let key = def.key_of(|column| values[column]);
        transaction.delete(def.id, &key)?;
    }
    transaction.insert(def.id, row(decision.transaction, decision.timestamp)?)?;
    Ok(())
}
