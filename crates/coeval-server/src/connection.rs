// SPDX-License-Identifier: Apache-2.0
//! One client's connection: messages in, answers out, in order.
//!
//! ```text
//! Ready --an error in the extended protocol--> Skipping --Sync--> Ready
//! Ready --COPY FROM STDIN--> Copying --CopyDone, CopyFail, an error--> Ready or Skipping
//! ```
//! What is to be sent gathers, and goes out when no complete message is left to answer, or when it has become much:
//! then the connection waits until the client has read. So a group of messages is answered with one write, and a
//! client that does not read is not computed for.

mod copying;
mod extended;
mod fetching;
mod held_log;
mod opening;
mod portal;
mod replicating;
mod rest;
mod sending;
mod simple;

pub(crate) use opening::open;

use crate::auth::rules::Purpose;
use crate::presence::{Presence, Watched};
use crate::protocol::backend::{Output, Severity};
use crate::protocol::frontend::{Frontend, violation};
use crate::protocol::input::{Frame, Input};
use crate::sessions::Entry;
use crate::shared::Shared;
use crate::stream::Stream;
use coeval::{CancelHandle, LogFeed, Publication, SqlError, SqlState, StoreError, TransactionStatus};
use coeval_sql::{CancelReason, Deadline, QuotaShare, Session};
use copying::Copying;
use extended::Statements;
use portal::Portals;
use replicating::Replicating;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes that gather before the connection waits for the client to read them.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Bytes that each connection may have waiting without their being counted.
const UNSENT_FREE: usize = 1 << 20;

/// Bytes of messages that each connection may have without their being counted, and each portal of values.
const RECEIVED_FREE: usize = 64 << 10;

/// Bytes of room that an output keeps while nothing is in it.
const OUTPUT_ROOM_IDLE: usize = 8 << 10;

/// How long a client is waited for that is told its last.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How often a commit that waits for replicas looks whether it is to end.
const CANCEL_LOOK: Duration = Duration::from_millis(20);

/// How a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client said that it goes.
    Finished,
    /// The client is not there any more.
    Gone(io::Error),
    /// We end it, and say why.
    Fatal(SqlError),
}

/// Why a message has no ordinary answer.
#[derive(Debug)]
enum Failure {
    /// The statement failed; the connection goes on.
    Statement(SqlError),
    /// The connection ends.
    End(End),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Statement(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::End(End::Gone(error))
    }
}

/// What a connection makes of the next message.
#[derive(Debug)]
enum Phase {
    /// Whatever it says.
    Ready,
    /// A message of a group failed: the others of the group are passed over.
    Skipping,
    /// Rows of a COPY are expected.
    Copying(Box<Copying>),
    /// The client gets a copy of the database, or follows the log.
    Replicating(Box<Replicating>),
}

/// See the module. The order of the fields is the order of the end: the session has rolled back before it leaves the
/// registry and before the client sees the end.
pub(crate) struct Connection {
    portals: Portals,
    /// What waits to be sent, beyond what each connection may have waiting.
    unsent: QuotaShare,
    /// What has come of messages and is not worked off, beyond what each connection may have.
    received: QuotaShare,
    statements: Statements,
    session: Session,
    entry: Entry,
    /// Looks for the client while a statement runs.
    presence: Option<Presence>,
    stream: Stream,
    /// Its place among all connections that may be there; while it is opened, whoever opens it has that.
    socket: Option<OwnedSemaphorePermit>,
    output: Output,
    shared: Arc<Shared>,
    phase: Phase,
    purpose: Purpose,
    /// The log behind the copy that was just sent.
    behind_copy: Option<Box<LogFeed>>,
    turn: Turn,
    /// When the statement began that runs.
    began: Option<Instant>,
    /// The revision of the settings that the client knows.
    settings_told: u64,
}

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The client: it was told that we are ready, and has said nothing since.
    Client,
    /// It is in the middle of a group of messages, or gets its answer.
    Server,
}

impl Connection {
    /// Answers messages until the connection ends.
    async fn serve(&mut self, input: &mut Input) -> End {
        loop {
            match input.frame() {
                Ok(Some(frame)) => {
                    if let Err(end) = self.message(frame).await {
                        return end;
                    }
                    if let Err(error) = self.flush_if_much().await {
                        return End::Gone(error);
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => return End::Fatal(error),
            }
            let flushed = match self.phase {
                Phase::Replicating(_) => self.flush_to_replica(input).await,
                Phase::Ready | Phase::Skipping | Phase::Copying(_) => self.flush().await.map_err(End::Gone),
            };
            if let Err(end) = flushed {
                return end;
            }
            if let Err(end) = self.fill(input).await {
                return end;
            }
        }
    }

    /// Waits for the client; in a COPY, also for its end.
    async fn fill(&mut self, input: &mut Input) -> Result<(), End> {
        // Counted before it waits: who says nothing has no room that others need.
        input.make_room();
        self.count_received(input.capacity()).map_err(End::Fatal)?;
        let filled = if let Phase::Replicating(replicating) = &mut self.phase {
            let silent = replicating.silent_at(self.shared.engine.store().follower_silence_max());
            tokio::select! {
                biased;
                // What it says comes first, and is little: of one who gets more all the time it is to be heard that it is there.
                filled = input.fill(&mut self.stream) => {
                    replicating.note_heard();
                    filled
                }
                piece = replicating.next() => return self.send_piece(piece),
                () = replicating::until(silent) => return Err(self.silent()),
            }
        } else if matches!(self.phase, Phase::Copying(_)) {
            let cancel = self.session.cancel_handle();
            tokio::select! {
                biased;
                reason = cancel.cancelled() => return self.end_copy(Err(reason.error())).await,
                filled = input.fill(&mut self.stream) => filled,
            }
        } else if let Some((limit, error)) = self.idle_limit() {
            match tokio::time::timeout(limit, input.fill(&mut self.stream)).await {
                Ok(filled) => filled,
                Err(_) => return Err(End::Fatal(error)),
            }
        } else {
            input.fill(&mut self.stream).await
        };
        match filled {
            Ok(0) => Err(End::Gone(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(End::Gone(error)),
        }
    }

    /// Counts the room that what has come takes, if it is much, as a message can be.
    fn count_received(&mut self, room: usize) -> Result<(), SqlError> {
        let counted = room.saturating_sub(RECEIVED_FREE);
        match counted.checked_sub(self.received.amount()) {
            Some(more) => self.received.take(more),
            None => {
                self.received.give_back(self.received.amount() - counted);
                Ok(())
            }
        }
    }

    /// How long the client may be silent, and what it is told when it was.
    fn idle_limit(&self) -> Option<(Duration, SqlError)> {
        if self.turn == Turn::Server {
            return None;
        }
        let settings = self.session.settings();
        let (limit, state, what) = match self.session.transaction_status() {
            TransactionStatus::Idle => {
                (settings.idle_session_timeout(), SqlState::IdleSessionTimeout, "idle-session")
            }
            TransactionStatus::Active | TransactionStatus::Failed => (
                settings.idle_in_transaction_session_timeout(),
                SqlState::IdleInTransactionSessionTimeout,
                "idle-in-transaction",
            ),
        };
        let error = || SqlError::new(state, format!("terminating connection due to {what} timeout"));
        limit.map(|limit| (limit, error()))
    }

    /// Sends what has gathered.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.bytes().is_empty() {
            self.output.send_to(&mut self.stream).await?;
            self.output.clear(OUTPUT_ROOM_IDLE);
            self.unsent.give_back(self.unsent.amount());
        }
        Ok(())
    }

    /// Counts what has gathered if it is much, as a row can be; takes back what came after `before` if all connections
    /// together have too much of it.
    fn count_unsent(&mut self, before: usize) -> Result<(), SqlError> {
        let counted = self.output.bytes().len().saturating_sub(UNSENT_FREE);
        match counted.checked_sub(self.unsent.amount()) {
            None | Some(0) => Ok(()),
            Some(more) => self.unsent.take(more).inspect_err(|_| self.output.truncate(before)),
        }
    }

    /// Sends what has gathered if it is much.
    async fn flush_if_much(&mut self) -> io::Result<()> {
        if self.output.bytes().len() >= OUTPUT_BYTES_MAX { self.flush().await } else { Ok(()) }
    }

    async fn message(&mut self, frame: Frame<'_>) -> Result<(), End> {
        self.turn = Turn::Server;
        match self.phase {
            Phase::Ready => {}
            Phase::Skipping if frame.kind == b'S' || frame.kind == b'X' => self.phase = Phase::Ready,
            Phase::Skipping => return Ok(()),
            Phase::Copying(_) => return self.copy_message(frame).await,
            Phase::Replicating(_) => return self.replicating_message(frame),
        }
        let outcome = match Frontend::read(frame.kind, frame.body) {
            Ok(message) => self.answer(message, frame.next).await,
            Err(error) => Err(Failure::Statement(self.session.abort(error))),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Statement(error)) => self.fail(
                error,
                match frame.kind {
                    b'Q' | b'F' | b'S' => Phase::Ready,
                    _ => Phase::Skipping,
                },
            ),
        }
    }

    /// Tells the client that a statement failed, and goes on with `next`. A statement that ended because its session is to end says
    /// so as the session's last word: what the client has sent behind it has no answer.
    fn fail(&mut self, error: SqlError, next: Phase) -> Result<(), End> {
        if error.state == SqlState::AdminShutdown {
            self.shared.metrics.error();
            return Err(End::Fatal(error));
        }
        if let Some(reason @ CancelReason::ClientGone) = self.session.cancel_handle().requested() {
            // One that has closed its half only hears why nothing comes any more.
            self.shared.metrics.error();
            return Err(End::Fatal(reason.error()));
        }
        self.refuse(&error);
        if matches!(next, Phase::Ready) {
            self.ready();
        }
        self.phase = next;
        Ok(())
    }

    /// Runs a statement on this thread, which serves other connections too: the session leaves it for as long as it
    /// waits for a lock or a query. Waits until what the statement has done, or depends on, is durable. A client that goes
    /// meanwhile has it cancelled.
    async fn run<T>(
        &mut self,
        statement: impl FnOnce(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, Failure> {
        let _watched = self.watched();
        let outcome = statement(&mut self.session);
        if let Some(publication) = self.session.publication()
            && let Err(error) = acknowledged(publication, &self.session.cancel_handle()).await
        {
            return Err(self.session.abort(error.into()).into());
        }
        Ok(outcome?)
    }

    async fn answer(&mut self, message: Frontend<'_>, next: Option<u8>) -> Result<(), Failure> {
        match message {
            Frontend::Query(sql) if self.is_for_replication() => self.replication_command(sql)?,
            Frontend::Query(sql) => self.query(sql).await?,
            Frontend::Parse { name, sql, types } => self.parse(name, sql, types)?,
            Frontend::Bind(bind) => self.bind(&bind)?,
            Frontend::Describe(target, name) => self.describe(target, name)?,
            Frontend::Execute { portal, rows_max } => self.execute(portal, rows_max, next).await?,
            Frontend::Close(target, name) => self.close(target, name),
            Frontend::Flush => self.flush().await?,
            Frontend::Sync => self.end_group().await?,
            Frontend::Terminate => {
                // What it asked before is answered, if it still listens.
                let _ = tokio::time::timeout(LAST_WORD, self.flush()).await;
                return Err(Failure::End(End::Finished));
            }
            // What is left of a COPY that failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
            Frontend::FunctionCall => {
                return Err(self.session.abort(SqlError::unsupported("a function call message")).into());
            }
            Frontend::Password(_) => {
                return Err(Failure::End(End::Fatal(violation("nobody asked for a password"))));
            }
        }
        Ok(())
    }

    /// Tells the client of an error.
    fn refuse(&mut self, error: &SqlError) {
        self.after_statement();
        self.shared.metrics.error();
        tracing::debug!(pid = self.entry.pid(), state = error.state.code(), message = %error.message, "error");
        self.output.report(Severity::Error, error);
    }

    /// Tells the client what a statement had to say without failing.
    fn tell_notices(&mut self) {
        for notice in self.session.take_notices() {
            self.output.report(Severity::of_notice(&notice), &notice);
        }
    }

    /// Notes that a statement begins.
    fn begin_statement(&mut self, sql: Option<&str>) {
        self.entry.begin_statement(sql);
        self.began = Some(Instant::now());
    }

    /// Notes that a statement has ended, if one ran.
    fn after_statement(&mut self) {
        let Some(began) = self.began.take() else { return };
        let took = began.elapsed();
        self.shared.metrics.statement(took);
        if self.shared.options.slow_statement.is_some_and(|limit| took >= limit) {
            let statement = self.entry.shown().activity().statement;
            let milliseconds = took.as_millis();
            tracing::warn!(pid = self.entry.pid(), milliseconds, statement, "slow statement");
        }
    }

    /// From here on, a statement runs, until its time is over or it is cancelled; its time does not count any more
    /// when the guard is dropped.
    fn limited(&self) -> Limited {
        self.session.cancel_handle().begin_statement();
        Limited { _deadline: self.session.deadline() }
    }

    /// From here on, the client is looked for, until the guard is dropped: if it has gone, the statement is cancelled.
    fn watched(&self) -> Option<Watched> {
        let interval = self.session.settings().client_connection_check_interval()?;
        self.presence.as_ref().map(|presence| presence.watched(interval))
    }

    /// The end of a group, a text or what stands before a Sync: what it has done without a block is committed.
    async fn end_group(&mut self) -> Result<(), Failure> {
        if self.session.is_implicit() {
            self.run(Session::end_implicit).await?;
        }
        self.after_statement();
        self.ready();
        Ok(())
    }

    /// It is the client's turn.
    fn ready(&mut self) {
        debug_assert!(!self.session.is_implicit(), "a transaction that nobody asked for ends with its group");
        self.tell_settings();
        let status = self.session.transaction_status();
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.entry.await_client(&self.session);
        self.turn = Turn::Client;
        self.output.ready(status);
    }

    /// Tells the client of settings that have changed.
    fn tell_settings(&mut self) {
        let settings = self.session.settings();
        if settings.revision() == self.settings_told {
            return;
        }
        self.settings_told = settings.revision();
        for (name, key) in opening::TOLD_SETTINGS {
            if let Ok(value) = settings.get(key)
                && self.entry.tell(name, value)
            {
                self.output.parameter_status(name, value);
            }
        }
    }
}

/// Ends a statement when its time is over, unless it is dropped before.
#[derive(Debug)]
struct Limited {
    _deadline: Option<Deadline>,
}

/// Waits until what a statement has done, or depends on, is durable; for replicas no longer than until the statement is to end.
async fn acknowledged(publication: Publication, cancel: &CancelHandle) -> Result<(), StoreError> {
    if !publication.may_await_replicas() {
        return publication.await;
    }
    let mut publication = std::pin::pin!(publication);
    let mut shown = None;
    loop {
        tokio::select! {
            outcome = &mut publication => return outcome,
            () = tokio::time::sleep(CANCEL_LOOK) => {}
        }
        if !publication.awaits_replicas() {
            continue;
        }
        if cancel.requested().is_some() {
            return Err(StoreError::NotReplicated);
        }
        shown.get_or_insert_with(|| cancel.note_replica_wait());
    }
}
