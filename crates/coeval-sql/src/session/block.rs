// SPDX-License-Identifier: Apache-2.0
//! Transaction blocks: BEGIN, COMMIT, ROLLBACK and savepoints.

use super::first_snapshot::{FIRST_SNAPSHOT_PATIENCE, await_first_snapshot};
use super::staleness::check_staleness;
use super::statement_steps::{end_spread, name_load};
use super::{LateFailure, Session, State};
use crate::cancel::{CancelHandle, CancelReason};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use crate::names::fold;
use crate::quota::{QuotaShare, Quotas, savepoint_bytes};
use crate::result::StatementResult;
use crate::server_part::Ended;
use crate::settings::{Deferrable, ReadOnlySnapshot, Settings};
use crate::spread_part::{Declared, StatementPlace, Within};
use coeval_store::{AccessMode, DeferralError, Savepoint, Store, StoreError, Transaction};
use coeval_txn::Isolation;
use coeval_txn::ssi::{Deferral, SessionFloor};
use datafusion::sql::sqlparser::ast::{
    Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use std::sync::Arc;
use std::time::Duration;

/// Changed rows up to which a transaction ends before anybody would notice.
const BRIEF_CHANGES_MAX: usize = 1_000;

/// What a transaction is begun with.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOptions {
    pub(super) isolation: Isolation,
    pub(super) mode: AccessMode,
    pub(super) deferrable: Deferrable,
    read_only_snapshot: ReadOnlySnapshot,
    /// What somebody said of it, whatever the database is.
    declared: Declared,
    /// How old what it reads on a replica may be.
    max_staleness: Option<Duration>,
    /// Whether the database is a replica.
    is_replica: bool,
    /// Whether what is run names no table of a user: that needs no snapshot of them.
    reads_system_alone: bool,
}

impl BlockOptions {
    /// What the session's defaults say.
    pub(super) fn of(settings: &Settings) -> Result<Self, SqlError> {
        Ok(Self {
            isolation: settings.default_isolation(),
            mode: settings.default_access(),
            deferrable: settings.default_deferrable(),
            read_only_snapshot: settings.read_only_snapshot(),
            declared: match settings.is_on("default_transaction_read_only") {
                true => Declared::Reader,
                false => Declared::Nothing,
            },
            max_staleness: settings.max_staleness(),
            is_replica: settings.is_replica(),
            reads_system_alone: false,
        })
    }

    /// The same with these modes.
    ///
    /// # Errors
    /// `0A000` for READ WRITE on a replica.
    pub(super) fn with(mut self, modes: &[TransactionMode]) -> Result<Self, SqlError> {
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => {
                    self.mode = AccessMode::ReadOnly;
                    self.declared = Declared::Reader;
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) if self.is_replica => {
                    let message = "cannot set transaction read-write mode on a replica";
                    return Err(SqlError::new(SqlState::FeatureNotSupported, message));
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    self.mode = AccessMode::ReadWrite;
                    self.declared = Declared::Nothing;
                }
                TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                    self.isolation = Isolation::Serializable;
                }
                // Nobody reads what is not committed, as in PostgreSQL.
                TransactionMode::IsolationLevel(
                    TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted,
                ) => self.isolation = Isolation::ReadCommitted,
                TransactionMode::IsolationLevel(
                    TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot,
                ) => self.isolation = Isolation::Snapshot,
            }
        }
        Ok(self)
    }

    /// The same with what others say of reading and writing.
    fn with_access_of(self, others: Self) -> Self {
        Self { mode: others.mode, declared: others.declared, ..self }
    }

    /// A transaction for a statement that has lost once. It begins on the newest applied world: what it lost
    /// against may not be published yet, and on the published world it would lose again until the log is
    /// synced. Its result is given out after its commit only, so it may.
    pub(super) fn begin_again(self, engine: &Engine) -> Transaction {
        engine.store().begin_applied(self.isolation)
    }

    /// Whether a statement outside a block runs again after this error: it has lost, and nobody was told anything. At
    /// SERIALIZABLE a deadlock is one of the ways to lose, since locks are taken there for the sake of speed alone.
    pub(super) fn may_run_again(self, error: &SqlError) -> bool {
        let is_deadlock = error.state == SqlState::DeadlockDetected;
        error.is_conflict() || (is_deadlock && self.isolation == Isolation::Serializable)
    }

    /// The same for a statement that only reads, if `is_query`: at SERIALIZABLE it then holds nobody back.
    pub(super) fn of_query(mut self, is_query: IsQuery) -> Self {
        if is_query != IsQuery::No && self.mode == AccessMode::ReadWrite {
            self.mode = AccessMode::Query;
        }
        self.reads_system_alone = is_query == IsQuery::OfSystem;
        self
    }

    /// Where a statement of such a transaction stands for the cluster.
    pub(super) fn statement_place(self, within: Within) -> StatementPlace {
        StatementPlace { within, declared: self.declared, isolation: self.isolation }
    }

    /// What a transaction that begins now waits for, if it does.
    pub(super) fn deferral(self, store: &Store) -> Option<Deferral> {
        self.is_deferred().then(|| Deferral::until(store.world().version()))
    }

    /// A transaction whose snapshot is taken now, or when `deferral` is over. `floor` is what its session has to find
    /// there, and notes it.
    ///
    /// # Errors
    /// That of a statement that was cancelled while it waited; that commits have stopped, of one that would wait for good; `57P03` on
    /// a replica whose first safe snapshot has not come in time.
    pub(super) fn begin(
        self,
        engine: &Engine,
        floor: &mut SessionFloor,
        deferral: Option<Deferral>,
        cancel: &CancelHandle,
    ) -> Result<Transaction, SqlError> {
        if let Some(max) = self.max_staleness {
            check_staleness(max, self.isolation, engine.store(), cancel)?;
        }
        if let Some(deferral) = deferral {
            let transaction = engine.store().begin_deferred(deferral, Some(&*cancel.interrupt()));
            let transaction = transaction.map_err(|error| match error {
                DeferralError::Interrupted => cancel.named(CancelReason::Request.error()),
                DeferralError::Stopped(reason) => reason.into(),
            })?;
            floor.note_safe_snapshot(transaction.begin_version());
            return Ok(transaction);
        }
        let isolation = self.isolation_on_replica(engine.store(), cancel)?;
        if (isolation, self.mode) == (Isolation::Serializable, AccessMode::ReadOnly) {
            let safe = match self.read_only_snapshot {
                ReadOnlySnapshot::Auto => engine.store().begin_safe(floor),
                ReadOnlySnapshot::Safe => engine.store().begin_safe(&SessionFloor::default()),
                ReadOnlySnapshot::Current => None,
            };
            if let Some(transaction) = safe {
                floor.note_safe_snapshot(transaction.begin_version());
                return Ok(transaction);
            }
        }
        let transaction = engine.store().begin(isolation, self.mode);
        floor.note_snapshot(transaction.begin_version());
        Ok(transaction)
    }
}

/// `25P01`: a statement that has a meaning within a block alone.
fn no_block(statement: &str) -> SqlError {
    let message = format!("{statement} can only be used in transaction blocks");
    SqlError::new(SqlState::NoActiveSqlTransaction, message)
}

impl BlockOptions {
    /// Its level. A replica that has no safe snapshot yet is waited for, unless nothing of what needs one is read.
    ///
    /// # Errors
    /// As [`await_first_snapshot`].
    fn isolation_on_replica(self, store: &Store, cancel: &CancelHandle) -> Result<Isolation, SqlError> {
        if !self.is_replica || self.isolation != Isolation::Serializable || store.has_safe_snapshot() {
            return Ok(self.isolation);
        }
        if self.reads_system_alone {
            // So that a replica can be promoted, and asked how it is, in whatever state it is.
            return Ok(Isolation::Snapshot);
        }
        aside(|| await_first_snapshot(store, FIRST_SNAPSHOT_PATIENCE, cancel))?;
        Ok(self.isolation)
    }
}

/// Whether a statement is known to change and lock nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsQuery {
    Yes,
    /// And its FROM clauses name nothing but tables and views of the system.
    OfSystem,
    No,
}

/// How a transaction block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// What it did stays.
    Commit,
    /// It has done nothing.
    Rollback,
}

/// The settings that an end of the transaction goes back to.
#[derive(Clone, Debug)]
pub(super) struct SettingsFrame {
    /// As they were at BEGIN: what ROLLBACK restores.
    pub(super) before: Settings,
    /// Without what SET LOCAL changed: what COMMIT restores.
    pub(super) lasting: Settings,
}

struct NamedSavepoint {
    name: String,
    /// `None`: no statement had run yet, so that there was no snapshot.
    point: Option<Savepoint>,
    settings: Arc<Settings>,
    /// Whether the transaction writes, as it was said then.
    options: BlockOptions,
    frame: Option<SettingsFrame>,
    /// What it takes.
    bytes: usize,
}

/// The settings that a savepoint of these and this frame keeps.
fn kept_settings<'s>(
    settings: &'s Settings,
    frame: Option<&'s SettingsFrame>,
) -> impl Iterator<Item = &'s Settings> {
    std::iter::once(settings).chain(frame.into_iter().flat_map(|frame| [&frame.before, &frame.lasting]))
}

/// About what a savepoint of this name takes that keeps these settings behind the `last` one, without what that keeps too.
fn bytes_of_savepoint(
    name: &str,
    settings: &Settings,
    frame: Option<&SettingsFrame>,
    last: Option<&NamedSavepoint>,
) -> usize {
    let mut kept: Vec<&Settings> = Vec::new();
    if let Some(last) = last {
        kept.extend(kept_settings(&last.settings, last.frame.as_ref()));
    }
    let mut bytes = savepoint_bytes(name);
    for copy in kept_settings(settings, frame) {
        bytes = bytes.saturating_add(copy.bytes_beside(&kept));
        kept.push(copy);
    }
    bytes
}

/// How a block was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// BEGIN.
    Explicitly,
    /// The first of several statements that are sent together: their end closes it.
    Implicitly,
}

/// An open transaction block. It takes its snapshot at its first statement.
pub(super) struct Block {
    pub(super) options: BlockOptions,
    pub(super) opened: Opened,
    transaction: Option<Transaction>,
    /// What it waits for before it takes its snapshot: everything that was there when it was declared DEFERRABLE.
    deferral: Option<Deferral>,
    /// Where it began, if there were savepoints before.
    beginning: Option<Savepoint>,
    /// Of its last statement, BEGIN among them; none of a block that nobody asked for before its first one.
    clock: Option<Clock>,
    savepoints: Vec<NamedSavepoint>,
    /// What the savepoints take.
    savepoints_share: QuotaShare,
    pub(super) frame: Option<SettingsFrame>,
    /// Made for the first reader of rows that may fail behind its statement.
    pub(super) late_failure: Option<LateFailure>,
}

impl Block {
    fn new(options: BlockOptions, opened: Opened, quotas: &Quotas) -> Self {
        Self {
            options,
            opened,
            transaction: None,
            deferral: None,
            beginning: None,
            clock: (opened == Opened::Explicitly).then(Clock::start),
            savepoints: Vec::new(),
            savepoints_share: QuotaShare::of(&quotas.savepoints),
            frame: None,
            late_failure: None,
        }
    }

    /// Where its next statement stands for the cluster.
    pub(super) fn statement_place(&self) -> StatementPlace {
        let within = match self.opened {
            _ if !self.savepoints.is_empty() => Within::Savepoints,
            Opened::Explicitly => Within::Block,
            Opened::Implicitly => Within::Several,
        };
        self.options.statement_place(within)
    }

    /// Forgets savepoints from this one on.
    fn forget_savepoints(&mut self, first: usize) {
        let freed = self.savepoints.drain(first..).map(|savepoint| savepoint.bytes).sum();
        self.savepoints_share.give_back(freed);
    }

    /// Whether a statement has run in it.
    pub(super) fn has_snapshot(&self) -> bool {
        self.transaction.is_some()
    }

    /// Its transaction, if a statement has run in it.
    pub(super) fn open_transaction(&self) -> Option<&Transaction> {
        self.transaction.as_ref()
    }

    /// Its modes may have changed: notes what it waits for, if it does.
    pub(super) fn note_deferral(&mut self, store: &Store) {
        self.deferral = match self.deferral {
            Some(noted) if self.options.is_deferred() => Some(noted),
            Some(_) | None => self.options.deferral(store),
        };
    }

    /// Its modes may have changed: its transaction writes or not, as they say.
    fn declare(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.declare(self.options.mode);
        }
    }

    /// What its transaction begins with: one that is to write when it goes back to a savepoint begins as one that writes.
    fn options_to_begin_with(&self) -> BlockOptions {
        let writes = |savepoint: &&NamedSavepoint| savepoint.options.mode == AccessMode::ReadWrite;
        let writing = self.savepoints.iter().find(writes);
        writing.map_or(self.options, |savepoint| self.options.with_access_of(savepoint.options))
    }

    /// Its transaction, begun if this is the first statement.
    ///
    /// # Errors
    /// As [`BlockOptions::begin`].
    pub(super) fn transaction(
        &mut self,
        engine: &Engine,
        floor: &mut SessionFloor,
        cancel: &CancelHandle,
    ) -> Result<&mut Transaction, SqlError> {
        let options = self.options_to_begin_with();
        let has_savepoints = !self.savepoints.is_empty() && options.isolation != Isolation::ReadCommitted;
        if self.transaction.is_none() {
            let deferral = self.deferral.filter(|_| options.mode == self.options.mode);
            let transaction = options.begin(engine, floor, deferral, cancel)?;
            self.beginning = has_savepoints.then(|| transaction.savepoint());
            self.transaction = Some(transaction);
            self.declare();
        }
        Ok(self.transaction.as_mut().expect("it is there or was just begun"))
    }

    /// The clock of its next statement.
    pub(super) fn next_clock(&mut self) -> Clock {
        let clock = self.clock.map_or_else(Clock::start, Clock::next_statement);
        self.clock = Some(clock);
        clock
    }
}

impl Session {
    pub(super) fn block_statement(&mut self, statement: &Statement) -> Result<StatementResult, SqlError> {
        match statement {
            Statement::StartTransaction { modes, begin, statements, .. } if statements.is_empty() => {
                self.begin(modes)?;
                Ok(StatementResult::plain(if *begin { "BEGIN" } else { "START TRANSACTION" }))
            }
            Statement::Commit { chain, .. } => {
                self.look_for_block(chain.then_some("COMMIT AND CHAIN"))?;
                let options = if *chain { self.block_options() } else { None };
                let committed = !matches!(self.state, State::Failed(_));
                self.commit()?;
                self.begin_chained(options);
                Ok(StatementResult::plain(if committed { "COMMIT" } else { "ROLLBACK" }))
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                self.rollback_to(&fold(name))?;
                Ok(StatementResult::plain("ROLLBACK"))
            }
            Statement::Rollback { chain, savepoint: None } => {
                self.look_for_block(chain.then_some("ROLLBACK AND CHAIN"))?;
                let options = if *chain { self.block_options() } else { None };
                self.rollback();
                self.begin_chained(options);
                Ok(StatementResult::plain("ROLLBACK"))
            }
            Statement::Savepoint { name } => {
                self.set_savepoint(fold(name))?;
                Ok(StatementResult::plain("SAVEPOINT"))
            }
            Statement::ReleaseSavepoint { name } => {
                self.release(&fold(name))?;
                Ok(StatementResult::plain("RELEASE"))
            }
            other => Err(SqlError::unsupported(crate::names::statement_name(other))),
        }
    }

    fn begin(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        self.refuse_if_failed()?;
        match &mut self.state {
            State::Idle => {
                let options = BlockOptions::of(&self.settings)?.with(modes)?;
                self.open(options, Opened::Explicitly);
                Ok(())
            }
            // PostgreSQL warns and goes on; the modes count if nothing has run yet. What statements sent together
            // have done so far becomes part of the block.
            State::Active(_) => {
                self.set_modes(modes)?;
                let State::Active(block) = &mut self.state else { return Ok(()) };
                block.clock.get_or_insert_with(Clock::start);
                if std::mem::replace(&mut block.opened, Opened::Explicitly) == Opened::Explicitly {
                    let message = "there is already a transaction in progress";
                    self.notices.push(SqlError::new(SqlState::ActiveSqlTransaction, message));
                }
                Ok(())
            }
            State::Failed(_) => Ok(()),
        }
    }

    /// Notes that there is no block to end, which is no error of a statement after which none begins.
    ///
    /// # Errors
    /// `25P01` of a statement that chains: there is no block that the next one could be like.
    fn look_for_block(&mut self, chaining: Option<&str>) -> Result<(), SqlError> {
        if !matches!(self.state, State::Idle) && !self.is_implicit() {
            return Ok(());
        }
        if let Some(statement) = chaining {
            return Err(no_block(statement));
        }
        let message = "there is no transaction in progress";
        self.notices.push(SqlError::new(SqlState::NoActiveSqlTransaction, message));
        Ok(())
    }

    /// Changes the modes of the open block.
    pub(super) fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        let State::Active(block) = &mut self.state else {
            return Ok(());
        };
        let options = block.options.with(modes)?;
        let is_to_write = (block.options.mode, options.mode) == (AccessMode::ReadOnly, AccessMode::ReadWrite);
        if is_to_write && !block.savepoints.is_empty() {
            let message = "cannot set transaction read-write mode inside a read-only transaction";
            return Err(SqlError::new(SqlState::ActiveSqlTransaction, message));
        }
        // What has begun as one that writes may do without.
        let is_allowed = options.isolation == block.options.isolation
            && (options.mode == block.options.mode || options.mode == AccessMode::ReadOnly);
        if block.has_snapshot() && !is_allowed {
            return Err(SqlError::new(
                SqlState::ActiveSqlTransaction,
                "SET TRANSACTION must be called before any query",
            ));
        }
        block.options = options;
        block.declare();
        block.note_deferral(self.engine.store());
        Ok(())
    }

    /// Opens a block.
    pub(super) fn open(&mut self, options: BlockOptions, opened: Opened) {
        let mut block = Block::new(options, opened, self.engine.quotas());
        block.note_deferral(self.engine.store());
        self.state = State::Active(Box::new(block));
    }

    /// The options of the block, if the next one is to begin with the same.
    fn block_options(&self) -> Option<BlockOptions> {
        match &self.state {
            State::Active(block) | State::Failed(block) => Some(block.options),
            State::Idle => None,
        }
    }

    fn begin_chained(&mut self, options: Option<BlockOptions>) {
        if let Some(options) = options {
            self.open(options, Opened::Explicitly);
        }
    }

    /// Commits the open block; a failed one is rolled back, and without one nothing happens.
    pub(super) fn commit(&mut self) -> Result<(), SqlError> {
        let ended = self.commit_block();
        self.advisory_locks.end_transaction();
        ended
    }

    fn commit_block(&mut self) -> Result<(), SqlError> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => Ok(()),
            State::Active(block) => {
                let Block { mut transaction, frame, .. } = *block;
                let temporary = Arc::clone(self.settings.temporary());
                // What becomes of temporary tables is no statement of the transaction's.
                if let Some(open) = &mut transaction {
                    open.declare(AccessMode::ReadWrite);
                }
                let ready = transaction.as_mut().map_or(Ok(()), |open| {
                    temporary.before_commit(open)?;
                    // What waits there looks whether the statement is to end.
                    let _running = self.spread.get_mut().has_change().then(|| self.cancel.resume());
                    name_load(self.spread.get_mut(), self.tique.get_mut(), &self.engine, open)
                });
                let applied = match ready.and_then(|()| self.end_parts(transaction.map(Box::new))) {
                    Ok(Ended::Spanned(applied)) => Some(applied),
                    Ok(Ended::Left(left)) => left.map(|mut transaction| {
                        let level = self.settings.synchronous_commit();
                        self.engine.store().set_synchronous_commit(&mut transaction, level);
                        let is_brief = transaction.change_count() <= BRIEF_CHANGES_MAX;
                        let commit = || transaction.commit_unless_refused();
                        if is_brief { commit() } else { aside(commit) }
                    }),
                    Err(error) => {
                        if let Some(frame) = frame {
                            self.settings = frame.before;
                        }
                        self.keep_held_cursors(End::Rollback);
                        self.roll_back_elsewhere();
                        return Err(error);
                    }
                };
                let store = self.engine.store();
                let outcome = match applied {
                    Some(applied) => {
                        let applied = applied.map_err(|refused| {
                            // Before anything is waited for: others' loads wait for this one's.
                            self.spread.get_mut().fail(SqlState::of(refused.error()));
                            refused.waited()
                        });
                        self.acknowledgements.commit(store, &mut self.floor, &self.cancel, applied)
                    }
                    None => Ok(()),
                };
                if let Err(StoreError::Conflict(conflict)) = &outcome {
                    // The client begins again, on the published world. If what it lost to is not there yet it
                    // would lose again and again until the log is synced. A log that failed is not news here:
                    // the next commit says so.
                    let _ = self.acknowledgements.wait(store, conflict.version);
                }
                let outcome = self.commit_spread(outcome.map_err(SqlError::from));
                if let Some(frame) = frame {
                    self.settings = if outcome.is_ok() { frame.lasting } else { frame.before };
                }
                self.keep_held_cursors(if outcome.is_ok() { End::Commit } else { End::Rollback });
                if outcome.is_ok() {
                    self.remove_dropped();
                } else {
                    self.tique.get_mut().rollback();
                }
                outcome
            }
            failed @ State::Failed(_) => {
                self.state = failed;
                self.rollback();
                Ok(())
            }
        }
    }

    /// Rolls back the open block, if there is one.
    pub(super) fn rollback(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Active(block) | State::Failed(block) => {
                if let Some(frame) = block.frame {
                    self.settings = frame.before;
                }
                self.roll_back_elsewhere();
                if let Some(transaction) = block.transaction {
                    let is_brief = transaction.change_count() <= BRIEF_CHANGES_MAX;
                    let rollback = || transaction.rollback();
                    if is_brief { rollback() } else { aside(rollback) }
                }
                self.advisory_locks.end_transaction();
                self.keep_held_cursors(End::Rollback);
            }
        }
    }

    /// Rolls back what the block did on servers and on the cluster.
    fn roll_back_elsewhere(&mut self) {
        self.tique.get_mut().rollback();
        self.spread.get_mut().end();
    }

    /// Commits what the block did on the cluster, now that its own transaction has come to this.
    fn commit_spread(&mut self, outcome: Result<(), SqlError>) -> Result<(), SqlError> {
        // What waits there looks whether the statement is to end.
        let _running = self.spread.get_mut().has_change().then(|| self.cancel.resume());
        let outcome = (outcome, self.acknowledgements.left());
        end_spread(self.spread.get_mut(), &self.engine, &self.settings, outcome)
    }

    /// Ends what the block did on servers, and the block's own transaction with it where a commit spans both.
    fn end_parts(&mut self, transaction: Option<Box<Transaction>>) -> Result<Ended, SqlError> {
        let part = self.tique.get_mut();
        if !part.is_touched() {
            return Ok(Ended::Left(transaction));
        }
        // What waits there looks whether the statement is to end.
        let _running = self.cancel.resume();
        let (engine, notices) = (&self.engine, &mut self.notices);
        aside(|| part.end(engine, transaction, notices))
    }

    /// Removes tables from servers whose definitions have gone with the transaction that has committed.
    pub(super) fn remove_dropped(&mut self) {
        let part = self.tique.get_mut();
        if part.is_touched() {
            let (engine, notices) = (&self.engine, &mut self.notices);
            aside(|| part.remove_dropped(engine, notices));
        }
    }

    fn open_block(&mut self, what: &str) -> Result<&mut Block, SqlError> {
        match &mut self.state {
            State::Active(block) | State::Failed(block) if block.opened == Opened::Explicitly => Ok(block),
            State::Active(_) | State::Failed(_) | State::Idle => Err(no_block(what)),
        }
    }

    fn set_savepoint(&mut self, name: String) -> Result<(), SqlError> {
        self.refuse_if_failed()?;
        self.spread.get_mut().require_no_change()?;
        let settings = self.settings_at_savepoint();
        let block = self.open_block("SAVEPOINT")?;
        let bytes = bytes_of_savepoint(&name, &settings, block.frame.as_ref(), block.savepoints.last());
        block.savepoints_share.take(bytes)?;
        let set = self.tique.get_mut().set_savepoint();
        let block = self.open_block("SAVEPOINT")?;
        if let Err(error) = set {
            block.savepoints_share.give_back(bytes);
            return Err(error);
        }
        let point = block.transaction.as_ref().map(Transaction::savepoint);
        let (options, frame) = (block.options, block.frame.clone());
        block.savepoints.push(NamedSavepoint { name, point, settings, options, frame, bytes });
        Ok(())
    }

    /// The settings, shared with the last savepoint if they have not changed since.
    fn settings_at_savepoint(&self) -> Arc<Settings> {
        let (State::Active(block) | State::Failed(block)) = &self.state else {
            return Arc::new(self.settings.clone());
        };
        match block.savepoints.last() {
            Some(last) if last.settings.revision() == self.settings.revision() => Arc::clone(&last.settings),
            Some(_) | None => Arc::new(self.settings.clone()),
        }
    }

    fn release(&mut self, name: &str) -> Result<(), SqlError> {
        self.refuse_if_failed()?;
        let block = self.open_block("RELEASE SAVEPOINT")?;
        let at = find_savepoint(&block.savepoints, name)?;
        // Behind it the transaction is what it was declared in front of it.
        block.options = block.options.with_access_of(block.savepoints[at].options);
        block.declare();
        block.forget_savepoints(at);
        self.tique.get_mut().release(at);
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<(), SqlError> {
        let block = self.open_block("ROLLBACK TO SAVEPOINT")?;
        let at = find_savepoint(&block.savepoints, name)?;
        self.tique.get_mut().rollback_to(at)?;
        let block = self.open_block("ROLLBACK TO SAVEPOINT")?;
        block.forget_savepoints(at + 1);
        let savepoint = &block.savepoints[at];
        match (&savepoint.point, &mut block.transaction) {
            (Some(point), Some(transaction)) => transaction.rollback_to(point),
            // Nothing had run before the savepoint. What ran since has shown the snapshot, so that stays where it
            // lasts for the transaction.
            (None, transaction) => match (transaction, &block.beginning) {
                (Some(transaction), Some(beginning)) => transaction.rollback_to(beginning),
                (transaction, _) => *transaction = None,
            },
            (Some(_), None) => {}
        }
        let begins_anew = !block.has_snapshot();
        block.options = block.options.with_access_of(savepoint.options);
        block.frame.clone_from(&savepoint.frame);
        let settings = Settings::clone(&savepoint.settings);
        block.declare();
        self.settings = settings;
        if begins_anew {
            self.tique.get_mut().begin_anew();
            self.spread.get_mut().end();
        }
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Failed(block) => State::Active(block),
            other => other,
        };
        Ok(())
    }
}

fn find_savepoint(savepoints: &[NamedSavepoint], name: &str) -> Result<usize, SqlError> {
    savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
        SqlError::new(SqlState::InvalidSavepointSpecification, format!("savepoint \"{name}\" does not exist"))
    })
}

#[cfg(test)]
mod tests;
