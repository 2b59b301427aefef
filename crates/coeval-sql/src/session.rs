// SPDX-License-Identifier: Apache-2.0
//! A session: one client's transaction, settings and prepared statements.
//!
//! ```text
//! Idle --BEGIN--> Active --COMMIT, ROLLBACK--> Idle
//!                 Active --an error--> Failed --ROLLBACK--> Idle
//!                 Failed --ROLLBACK TO SAVEPOINT--> Active
//! ```
//! In Idle each statement is a transaction of its own, which is run again if it meets a conflict.

mod acknowledgement;
mod attempts;
mod binding;
mod block;
mod cursor_statements;
mod cursors;
mod database_settings;
mod deferrable;
mod description;
mod execution;
mod first_snapshot;
mod frame_values;
mod frames;
mod identity;
mod implicit;
mod instants;
mod kept_settings;
mod late_failure;
mod list_parameters;
mod named;
mod parse;
mod prepared;
mod query_statements;
mod refused;
mod set_constraints;
mod staleness;
mod statement_cache;
mod statement_steps;
mod token_wait;
mod utility;
mod variables;

pub use acknowledgement::Acknowledgement;
pub use cursor_statements::ForwardFetch;
pub use execution::{Execution, ParsedStatement};
pub use kept_settings::begin_with_kept_settings;
pub use late_failure::LateFailure;
pub use named::NamedStatement;
pub use prepared::Prepared;

use crate::advisory::SessionLocks;
use crate::cancel::{self, CancelHandle};
use crate::clock::Clock;
use crate::context::{SequenceValues, StatementContext};
use crate::deadline::Deadline;
use crate::definitions::Definitions;
use crate::engine::{Engine, LONG_TEXT_BYTES};
use crate::error::{SqlError, SqlState, place_in};
use crate::hand_over::aside;
use crate::memory::{Kept, SyntaxMemory, run_with};
use crate::parameters::refuse_parameters;
use crate::point::Rows;
use crate::quota::QuotaShare;
use crate::registry::{OpenTransaction, TransactionStatus};
use crate::result::{CommandTag, StatementResult};
use crate::server_part::ServerPart;
use crate::settings::Settings;
use crate::spread_part::{SpreadPart, Within};
use acknowledgement::Acknowledgements;
use attempts::Attempts;
use block::{Block, BlockOptions, IsQuery, Opened};
use coeval_store::{AccessMode, Catalog, ColumnType, Priority, Publication, StoreError, Transaction, Value};
use coeval_txn::Isolation;
use coeval_txn::ssi::SessionFloor;
use cursors::Cursor;
use datafusion::sql::sqlparser::ast::Statement;
use frames::Frames;
use named::NamedStatements;
use parking_lot::Mutex;
use parse::{Neighbours, Parsed};
use prepared::{Outcome, Plan, RunPlan, memory_of, run_and_plan};
use statement_cache::StatementCache;
use statement_steps::{
    await_load, before_commit, begin_statement, claim, end_spread, name_load, until_settled,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use variables::{Assigned, Scope};

enum State {
    Idle,
    Active(Box<Block>),
    Failed(Box<Block>),
}

/// The context of a statement of a session, from those of its parts that a block does not need meanwhile.
macro_rules! statement_context {
    ($session:ident, $transaction:expr, $sql:expr, $clock:expr, $parameters:expr, $parameter_types:expr) => {
        $crate::context::StatementContext {
            engine: &$session.engine,
            settings: &mut $session.settings,
            sequences: &mut $session.sequences,
            transaction: $transaction,
            parameters: $parameters,
            parameter_types: $parameter_types,
            clock: $clock,
            advisory_locks: &$session.advisory_locks,
            sql: $sql,
            checks: $crate::rights::Checks::All,
            open: $crate::open_objects::OpenObjects::new(
                &$session.named,
                &$session.cursors,
                &$session.frames,
            ),
            tique: &$session.tique,
            spread: &$session.spread,
            scan_foreign: $crate::tique::scan,
            parts: None,
            notices: &mut $session.notices,
        }
    };
}

use statement_context;

/// One client of a database. Dropping it rolls back what is open.
///
/// # Locking
/// `tique` and `spread` are the running statement's; they are locks because a context is shared within its statement.
pub struct Session {
    engine: Arc<Engine>,
    settings: Settings,
    sequences: SequenceValues,
    cancel: CancelHandle,
    state: State,
    /// Statements that took the point path, by their text.
    cached: StatementCache,
    /// Prepared statements with a name, whoever gave it: PREPARE or a client's protocol.
    named: NamedStatements,
    /// Open cursors, by name.
    cursors: HashMap<String, Cursor>,
    /// How many they are.
    cursors_open: QuotaShare,
    /// What their names and texts take.
    cursor_texts: QuotaShare,
    /// What the plans of its prepared statements take, whoever holds these; once there are any.
    plan_memory: Option<Arc<Kept>>,
    /// What a program has lent it.
    frames: Frames,
    /// Plans made anew because a definition changed, by the prepared statement's number.
    replanned: HashMap<u64, Arc<Plan>>,
    /// What statements had to say without failing, until it is asked for.
    notices: Vec<SqlError>,
    /// What every snapshot must have that it reads.
    floor: SessionFloor,
    advisory_locks: Arc<SessionLocks>,
    acknowledgements: Acknowledgements,
    /// What its transaction does on servers.
    tique: Mutex<ServerPart>,
    /// What its transaction does on the cluster over which tables are spread.
    spread: Mutex<SpreadPart>,
    /// What its transactions that have lost hand on to the next one, if they have priority.
    priority: Option<Priority>,
    /// When it has to be open; nothing if it is, or nobody waits for that.
    open_by: Option<Instant>,
}

/// Runs a statement of the database's own in a session of its own.
///
/// # Errors
/// Those of the statement.
pub(crate) fn run_own(engine: &Arc<Engine>, sql: &str) -> Result<StatementResult, SqlError> {
    let mut session = engine.session();
    session.configure("default_transaction_isolation", "repeatable read")?;
    let result = session.execute(sql)?.pop();
    result.ok_or_else(|| SqlError::internal("a statement of ours gave no result"))
}

impl Engine {
    /// A new session with default settings.
    #[must_use]
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self.clone())
    }
}

impl Session {
    /// A session with default settings and nothing open.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let cancel = CancelHandle::new();
        let settings = Settings::default();
        let store = engine.store();
        let is_read_only = store.is_following() || store.superseded_by().is_some() || store.is_salvaged();
        let settings = if is_read_only { settings.on_replica() } else { settings };
        Self {
            settings,
            advisory_locks: Arc::new(SessionLocks::new(
                engine.advisory_locks(),
                &engine.quotas().advisory_locks,
                &cancel,
            )),
            named: NamedStatements::new(engine.quotas()),
            cursors_open: QuotaShare::of(&engine.quotas().cursors),
            cursor_texts: QuotaShare::of(&engine.quotas().cursor_texts),
            cached: StatementCache::new(engine.quotas()),
            engine,
            sequences: SequenceValues::default(),
            cancel,
            state: State::Idle,
            cursors: HashMap::new(),
            plan_memory: None,
            frames: Frames::default(),
            replanned: HashMap::new(),
            notices: Vec::new(),
            floor: SessionFloor::default(),
            acknowledgements: Acknowledgements::default(),
            tique: Mutex::default(),
            spread: Mutex::default(),
            priority: None,
            open_by: None,
        }
    }

    /// Says who waits until what statements have done is durable.
    pub fn set_acknowledgement(&mut self, by: Acknowledgement) {
        self.acknowledgements.by = by;
    }

    /// What the caller is to wait for because of the statement before, if that was
    /// [left to it](Acknowledgement::LeftToCaller): neither its outcome nor its error may be given out before. An error
    /// of the wait takes the place of the outcome and goes through [`abort`](Self::abort).
    pub fn publication(&mut self) -> Option<Publication> {
        self.acknowledgements.take(self.engine.store())
    }

    /// Where it stands.
    #[must_use]
    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.state {
            State::Idle => TransactionStatus::Idle,
            State::Active(block) if block.opened == Opened::Implicitly => TransactionStatus::Idle,
            State::Active(block) if block.has_failed_late() => TransactionStatus::Failed,
            State::Active(_) => TransactionStatus::Active,
            State::Failed(_) => TransactionStatus::Failed,
        }
    }

    /// Names the database, as a server does that has one under whatever name a client asks for it:
    /// `current_database()` and the catalog answer so.
    pub fn name_database(&mut self, name: &str) {
        self.settings.set_database(name);
    }

    /// The transaction block that is open, if one is.
    #[must_use]
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        match &self.state {
            State::Active(block) | State::Failed(block) => Some(OpenTransaction {
                isolation: block.options.isolation,
                mode: block.options.mode,
                begin: block.open_transaction().map(Transaction::begin_version),
                id: block.open_transaction().map(Transaction::id),
                reading: block.open_transaction().and_then(Transaction::reading),
            }),
            State::Idle => None,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gives a setting the value that the session begins with, and that RESET goes back to.
    ///
    /// # Errors
    /// `42704` for a setting that does not exist, `22023` for a value that it does not take, and what SET of it fails with.
    pub fn configure(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        match self.assign_elsewhere(Scope::Session, name, Some(value))? {
            Assigned::Yes => Ok(()),
            Assigned::No => self.settings.begin_with(name, value),
        }
    }

    /// The same for a session that has to be open by then: it waits for no token any longer, whatever its timeout says.
    ///
    /// # Errors
    /// As [`configure`](Self::configure); `57014` if it waited until then.
    pub fn configure_until(&mut self, name: &str, value: &str, until: Instant) -> Result<(), SqlError> {
        self.open_by = Some(until);
        let configured = self.configure(name, value);
        self.open_by = None;
        configured
    }

    /// The definitions that its next statement sees: those of the open transaction with its own changes, else the
    /// newest.
    #[must_use]
    pub fn definitions(&self) -> Definitions {
        match self.running_transaction() {
            Some(transaction) => Definitions::of(transaction),
            None => Definitions::of(&self.engine.store().begin(Isolation::Snapshot, AccessMode::ReadOnly)),
        }
    }

    /// The transaction of the block that is open, if it has begun.
    fn running_transaction(&self) -> Option<&Transaction> {
        match &self.state {
            State::Active(block) => block.open_transaction(),
            State::Idle | State::Failed(_) => None,
        }
    }

    /// Looks into the catalog that the session's next statement sees.
    fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        match self.running_transaction() {
            Some(transaction) => look(transaction.catalog()),
            None => look(self.engine.store().world().catalog()),
        }
    }

    /// Takes what statements have warned of since the last time, in order.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        std::mem::take(&mut self.notices)
    }

    /// What cancels the statement that [`execute`](Self::execute) runs, from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The database it is a session of.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The statement that begins now ends when `statement_timeout` has passed, unless what this gives is dropped before.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.settings.statement_timeout().map(|limit| self.cancel.end_after(limit))
    }

    /// The statements of a text, and the memory that is kept for their syntax.
    fn parsed(&self, sql: &str) -> Result<(Vec<Parsed>, Option<Arc<SyntaxMemory>>), SqlError> {
        let memory = self.engine.queries.keep_syntax(sql)?;
        if sql.len() < LONG_TEXT_BYTES {
            return Ok((parse::parse(sql)?, memory));
        }
        let (text, _syntax): (Arc<str>, _) = (sql.into(), run_with(memory.as_ref()));
        let parsed = self.engine.runtime().apart(move || parse::parse(&text))?;
        Ok((parsed, memory))
    }

    /// Runs one or several statements, divided by semicolons, and gives the result of each. Several are one
    /// transaction, unless they open or close one themselves.
    ///
    /// A statement outside a transaction block is committed, and durable unless the session waived that, when
    /// this returns.
    ///
    /// # Errors
    /// The first statement's error that fails; those behind it are not run. In a transaction block the block
    /// is then failed; outside, nothing of this call remains.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<StatementResult>, SqlError> {
        let _running = self.cancel.begin();
        let deadline = self.deadline();
        self.notices.clear();
        // A session that was asked to stop begins no statement.
        cancel::check().map_err(|error| self.fail(error))?;
        if let Some(prepared) = self.cached.get(sql) {
            return Ok(vec![self.run(&prepared, &[])?]);
        }
        let (parsed, memory) = self.parsed(sql).map_err(|error| self.fail(error))?;
        let _syntax = run_with(memory.as_ref());
        if let [single] = &parsed[..] {
            return Ok(vec![self.execute_one(single, sql, Neighbours::None)?]);
        }
        // Each of several has a deadline of its own.
        drop(deadline);
        let mut results = Vec::with_capacity(parsed.len());
        for statement in &parsed {
            let _deadline = self.deadline();
            self.begin_implicit()?;
            results.push(self.execute_one(statement, sql, Neighbours::Some)?);
        }
        self.end_implicit()?;
        Ok(results)
    }

    /// Parses and plans a statement. Parameters are `$1`, `$2`, ...; their types are inferred.
    ///
    /// # Errors
    /// `42601` if the text is not one statement, and what planning it finds wrong.
    pub fn prepare(&mut self, sql: &str) -> Result<Arc<Prepared>, SqlError> {
        self.prepare_typed(sql, &[])
    }

    /// As [`Self::prepare`]; parameters whose type the caller knows have it in `types`.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_typed(
        &mut self,
        sql: &str,
        types: &[Option<ColumnType>],
    ) -> Result<Arc<Prepared>, SqlError> {
        let (mut parsed, memory) = self.parsed(sql).map_err(|error| self.fail(error))?;
        let _syntax = run_with(memory.as_ref());
        let (Some(parsed), true) = (parsed.pop(), parsed.is_empty()) else {
            return Err(self.fail(SqlError::syntax("a prepared statement is exactly one statement")));
        };
        self.prepare_parsed(parsed, sql, types)
    }

    /// Runs a prepared statement with these parameter values, which are cast to its parameter types.
    ///
    /// # Errors
    /// As [`Self::execute`]; `22023` if the number of parameters is wrong.
    pub fn run(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<StatementResult, SqlError> {
        let _running = self.cancel.begin();
        let _deadline = self.deadline();
        self.notices.clear();
        let parameters = self.bound(prepared, parameters)?;
        match prepared.parsed() {
            Parsed::Statement(statement) if !parse::is_session_statement(statement) => {
                self.run_planned(prepared, statement, &parameters)
            }
            Parsed::Statement(_) | Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => {
                self.run_general(prepared, &parameters)
            }
        }
    }

    /// As [`Self::run`], with the rows as values instead of Arrow arrays: the shortest way to a row by key.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_rows(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<(CommandTag, Rows), SqlError> {
        let _running = self.cancel.begin();
        let _deadline = self.deadline();
        self.notices.clear();
        let parameters = self.bound(prepared, parameters)?;
        match prepared.parsed() {
            Parsed::Statement(statement) if !parse::is_session_statement(statement) => {
                self.run_planned(prepared, statement, &parameters)
            }
            Parsed::Statement(_) | Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => {
                self.run_general(prepared, &parameters).and_then(Outcome::of_result)
            }
        }
    }

    /// The parameters as the statement needs them.
    fn bound<'v>(&mut self, prepared: &Prepared, values: &'v [Value]) -> Result<Cow<'v, [Value]>, SqlError> {
        let types = self.parameter_types(prepared);
        if values.len() != types.len() {
            let (wanted, given) = (types.len(), values.len());
            let message = format!("the statement has {wanted} parameters, {given} values were given");
            return Err(self.fail(SqlError::new(SqlState::InvalidParameterValue, message)));
        }
        binding::bind(values, &types, self.settings.zone()).map_err(|error| self.fail(error))
    }

    fn execute_one(
        &mut self,
        parsed: &Parsed,
        sql: &str,
        neighbours: Neighbours,
    ) -> Result<StatementResult, SqlError> {
        let outcome = match parsed {
            Parsed::Checkpoint => aside(|| self.checkpoint()),
            Parsed::Utility(utility) => aside(|| self.utility(utility)),
            Parsed::Definition(extended) => {
                return aside(|| {
                    self.in_transaction(sql, &[], &[], IsQuery::No, |context| {
                        crate::ddl::execute_extended(context, extended)
                    })
                });
            }
            Parsed::Statement(statement) if parse::is_session_statement(statement) => {
                self.session_statement(statement, sql)
            }
            Parsed::Statement(statement) => {
                let (result, plan) = self.execute_statement(statement, sql)?;
                if let Some(plan) = plan.filter(|_| neighbours == Neighbours::None) {
                    self.remember(parsed, sql, plan);
                }
                return Ok(result);
            }
        };
        outcome.map_err(|error| self.fail(error))
    }

    /// Statements about the session rather than data.
    fn session_statement(&mut self, statement: &Statement, sql: &str) -> Result<StatementResult, SqlError> {
        match statement {
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. } => self.block_statement(statement),
            Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. } => {
                self.refuse_if_failed()?;
                self.named_statement(statement, sql)
            }
            other => {
                self.refuse_if_failed()?;
                self.variable_statement(other)
            }
        }
    }

    fn checkpoint(&mut self) -> Result<StatementResult, SqlError> {
        self.refuse_if_failed()?;
        identity::require_checkpoint(self)?;
        self.engine.store().checkpoint()?;
        Ok(StatementResult::plain("CHECKPOINT"))
    }

    /// The statement's result and, if it would run the same way again, its plan.
    fn execute_statement(
        &mut self,
        statement: &Statement,
        sql: &str,
    ) -> Result<(StatementResult, Option<RunPlan>), SqlError> {
        self.refuse_if_failed()?;
        refuse_parameters(statement).map_err(|error| self.fail(error))?;
        let is_query = query_statements::is_query_statement(statement);
        self.in_transaction(sql, &[], &[], is_query, |context| run_and_plan(context, statement))
    }

    /// Keeps a statement that is all of its text with the plan that it has run with, so that the text is neither parsed nor planned
    /// again. Not if there is no memory for that.
    fn remember(&mut self, parsed: &Parsed, sql: &str, plan: RunPlan) {
        if !StatementCache::takes(sql) {
            return;
        }
        let prepared = match plan {
            RunPlan::Point(plan) => Prepared::of_point(parsed.clone(), sql, plan),
            RunPlan::Query(plan) => {
                let memory = memory_of(&plan, &mut self.plan_memory, &self.engine.queries);
                let Ok(memory) = memory else { return };
                Prepared::of_query(parsed.clone(), sql, plan, memory)
            }
        };
        self.cached.put(sql, prepared);
    }

    /// Runs `body` as the next statement of the open block, which fails with it.
    fn in_open_block<T>(
        &mut self,
        sql: &str,
        parameters: &[Value],
        parameter_types: &[ColumnType],
        is_query: IsQuery,
        body: &mut impl FnMut(&mut StatementContext<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let engine = &self.engine;
        let State::Active(block) = &mut self.state else { unreachable!("a block is open") };
        let clock = block.next_clock();
        self.spread.get_mut().begin_statement(block.statement_place(), engine);
        let reader = (&**block, is_query);
        if let Err(error) = await_load(reader, self.spread.get_mut(), engine, &mut self.floor) {
            return Err(self.fail(error));
        }
        let transaction = match block.transaction(engine, &mut self.floor, &self.cancel) {
            Ok(transaction) => transaction,
            Err(error) => return Err(self.fail(error)),
        };
        claim(&mut self.priority, &self.settings, engine, transaction);
        let begun = begin_statement(transaction, &self.settings, &self.cancel, sql);
        if let Err(error) = begun {
            return Err(self.fail(place_in(error.into(), sql)));
        }
        let mut context = statement_context!(self, transaction, sql, clock, parameters, parameter_types);
        let outcome = until_settled(&mut context, body).map_err(|error| self.cancel.named(error));
        let durable = self.acknowledgements.depend(engine.store(), context.transaction);
        self.floor.note_snapshot(context.transaction.begin_version());
        let outcome = durable.and(outcome).map_err(|error| self.fail(place_in(error, sql)))?;
        self.grant_requests()?;
        Ok(outcome)
    }

    /// Runs `body` in the open block, or as a transaction of its own that is tried again on conflicts.
    fn in_transaction<T>(
        &mut self,
        sql: &str,
        parameters: &[Value],
        parameter_types: &[ColumnType],
        is_query: IsQuery,
        mut body: impl FnMut(&mut StatementContext<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.refuse_if_failed()?;
        if matches!(self.state, State::Active(_)) {
            return self.in_open_block(sql, parameters, parameter_types, is_query, &mut body);
        }
        let engine = &self.engine;
        self.advisory_locks.end_transaction();
        let options = BlockOptions::of(&self.settings)?.of_query(is_query);
        let (mut attempts, said) = (Attempts::default(), self.notices.len());
        loop {
            self.tique.get_mut().rollback();
            self.spread.get_mut().end();
            self.spread.get_mut().begin_statement(options.statement_place(Within::Statement), engine);
            let mut transaction = if attempts.have_lost() {
                options.begin_again(engine)
            } else {
                let deferral = options.deferral(engine.store());
                options.begin(engine, &mut self.floor, deferral, &self.cancel)?
            };
            claim(&mut self.priority, &self.settings, engine, &mut transaction);
            begin_statement(&mut transaction, &self.settings, &self.cancel, sql)?;
            self.notices.truncate(said);
            let (clock, lent) = (Clock::start(), &mut transaction);
            let mut context = statement_context!(self, lent, sql, clock, parameters, parameter_types);
            let settled = until_settled(&mut context, &mut body).map_err(|error| self.cancel.named(error));
            let settled = before_commit(&mut context, settled).and_then(|value| {
                name_load(self.spread.get_mut(), self.tique.get_mut(), engine, &mut transaction)?;
                Ok(value)
            });
            self.floor.note_snapshot(transaction.begin_version());
            engine.store().set_synchronous_commit(&mut transaction, self.settings.synchronous_commit());
            let outcome = self.acknowledgements.end(
                engine.store(),
                &mut self.floor,
                &self.cancel,
                transaction,
                (settled, |error: &StoreError| self.spread.get_mut().fail(SqlState::of(error))),
            );
            let outcome = (outcome, self.acknowledgements.left());
            match end_spread(self.spread.get_mut(), engine, &self.settings, outcome) {
                Err(error) if attempts.go_on(options, &error) => {}
                Err(error) => return Err(self.shown(place_in(self.cancel.named(error), sql))),
                Ok(value) => {
                    self.remove_dropped();
                    return self.grant_requests().map(|()| value);
                }
            }
        }
    }

    fn refuse_if_failed(&self) -> Result<(), SqlError> {
        match self.state {
            State::Failed(_) => Err(SqlError::new(
                SqlState::InFailedSqlTransaction,
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            State::Idle | State::Active(_) => Ok(()),
        }
    }

    /// Notes that a statement failed: an open block is failed from here on, and one that nobody asked for has gone.
    fn fail(&mut self, error: SqlError) -> SqlError {
        let error = self.shown(error);
        self.fail_block();
        error
    }

    fn fail_block(&mut self) {
        self.spread.get_mut().lose_change();
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Active(block) => State::Failed(block),
            other => other,
        };
        self.drop_failed_implicit();
    }
}

impl Drop for Session {
    /// Rows of a stream may be read after this; locks do not wait for that.
    fn drop(&mut self) {
        self.state = State::Idle;
        self.advisory_locks.end_transaction();
        self.advisory_locks.unlock_all();
        self.settings.temporary().drop_all(self.engine.store());
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("status", &self.transaction_status()).finish_non_exhaustive()
    }
}
