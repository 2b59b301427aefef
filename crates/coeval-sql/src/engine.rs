// SPDX-License-Identifier: Apache-2.0
//! The engine: one per database, shared by its sessions.

mod apart;
mod left_behind;
mod spread;

use crate::advisory::AdvisoryLocks;
use crate::archiving::{Archiving, ArchivingStatus, Backups};
use crate::cancel;
use crate::changes::ChangeSource;
use crate::cluster::Cluster;
use crate::error::SqlError;
use crate::followers::Followers;
use crate::hand_over::{Watch, aside};
use crate::memory::{QueryEnvironment, QueryMemoryStanding};
use crate::quota::Quotas;
use crate::registry::Registry;
use crate::relations::CATALOG_NAME;
use crate::result::StatementResult;
use crate::rights::{Authority, Rights, is_member};
use crate::scalar::{PlanExpressions, check_compiler};
use crate::servers::{OfServers, Servers};
use crate::thread_priority::QueryPriority;
use crate::turns::{Account, QueryTurns, Turns};
use crate::upstream::{Upstream, UpstreamStatus};
use apart::Places;
pub(crate) use apart::{Asking, LONG_TEXT_BYTES};
use coeval_store::{RoleDef, Store};
use coeval_txn::RowLocks;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr;
use datafusion::sql::sqlparser::ast::Expr;
use left_behind::{LEFT_BEHIND_PATIENCE, LEFT_BEHIND_WAIT, LeftBehind, too_much_goes_on};
pub(crate) use spread::{SpreadUse, brick_schema, spread_number};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use tokio::runtime::{Handle, Runtime};

/// Runs a statement of the database's own in a session of its own.
pub(crate) type RunOwn = fn(&Arc<Engine>, &str) -> Result<StatementResult, SqlError>;

/// What an engine is handed that is made by those who know all of SQL.
pub(crate) struct Parts {
    /// The DataFusion state with all functions and rules.
    pub(crate) template: SessionState,
    /// What the state of a statement is cloned from, once its names are resolved.
    pub(crate) planning: SessionState,
    /// The memory of queries.
    pub(crate) queries: QueryEnvironment,
    pub(crate) run_own: RunOwn,
    /// That of the threads that run queries.
    pub(crate) priority: QueryPriority,
}

/// A database that sessions are opened on: the store, the threads that run queries, the functions.
pub struct Engine {
    store: Store,
    /// There until the engine is dropped.
    runtime: Option<Runtime>,
    template: SessionState,
    planning: SessionState,
    run_own: RunOwn,
    pub(crate) queries: QueryEnvironment,
    registry: Arc<Registry>,
    advisory_locks: AdvisoryLocks,
    quotas: Quotas,
    servers: Servers,
    followers: Followers,
    upstream: OnceLock<Arc<dyn Upstream>>,
    archiving: OnceLock<Arc<dyn Archiving>>,
    cluster: OnceLock<Arc<dyn Cluster>>,
    backups: OnceLock<Arc<dyn Backups>>,
    change_source: OnceLock<Arc<dyn ChangeSource>>,
    places: Places,
    left_behind: LeftBehind,
    /// By which the threads of `runtime` are shared.
    turns: Arc<Turns>,
    /// Over the threads of `runtime`.
    _watch: Watch,
}

/// Stack of a thread that runs statements, whatever they are: no statement that is accepted there needs more. Only
/// what a statement uses is ever taken from the system.
pub const STATEMENT_STACK_BYTES: usize = crate::parse::STACK_BYTES;

impl Engine {
    /// The engine over this store, with so many threads for queries. CHECK constraints get their meaning here.
    ///
    /// # Errors
    /// If the threads cannot be started; those of dropping what sessions have left.
    pub(crate) fn made_of(store: Store, threads: usize, parts: Parts) -> Result<Arc<Self>, SqlError> {
        let Parts { template, planning, queries, run_own, priority } = parts;
        let turns = Arc::new(Turns::new(threads));
        let (runtime, watch) = query_threads(threads, priority, &turns)
            .map_err(|error| SqlError::internal(format!("cannot start threads: {error}")))?;
        let engine = Arc::new(Self {
            store,
            runtime: Some(runtime),
            template,
            planning,
            run_own,
            queries,
            registry: Arc::default(),
            advisory_locks: Arc::new(RowLocks::new()),
            quotas: Quotas::default(),
            servers: Servers::default(),
            followers: Followers::default(),
            upstream: OnceLock::new(),
            archiving: OnceLock::new(),
            cluster: OnceLock::new(),
            backups: OnceLock::new(),
            change_source: OnceLock::new(),
            places: Places::default(),
            left_behind: LeftBehind::default(),
            turns,
            _watch: watch,
        });
        engine.servers.look(engine.store.world().catalog());
        engine.store.set_check_compiler(engine.check_compiler());
        engine.store.set_run_aside(|work| aside(work));
        engine.store.set_memory_accounts(engine.queries.change_accounts());
        if let Some(data) = engine.store.data_memory() {
            engine.queries.beside_data(data);
        }
        engine.servers.moments().set_held(engine.store.held_versions());
        engine.store.set_companion(Arc::clone(engine.servers.moments()) as Arc<dyn coeval_store::Companion>);
        if !engine.store.is_following() {
            crate::temporary::remove_left_over(&engine.store)?;
        }
        Ok(engine)
    }

    /// What gives CHECK constraints their meaning, for tools that look at a database without opening it.
    #[must_use]
    pub fn check_compiler(self: &Arc<Self>) -> Arc<dyn coeval_store::CheckCompiler> {
        let engine: Weak<Self> = Arc::downgrade(self);
        check_compiler(engine)
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The sessions of a server's clients.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The replicas that follow the log of this database.
    #[must_use]
    pub fn followers(&self) -> &Followers {
        &self.followers
    }

    /// Says who follows another database for this one. Once.
    pub fn set_upstream(&self, upstream: Arc<dyn Upstream>) {
        // A replica follows one primary.
        let _ = self.upstream.set(upstream);
    }

    /// Says which node of a cluster this process is. Once.
    pub fn set_cluster(&self, cluster: Arc<dyn Cluster>) {
        // A process is one node.
        let _ = self.cluster.set(cluster);
    }

    /// The node of a cluster that this process is, if it is one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.cluster.get()
    }

    /// Says who archives this database. Once.
    pub fn set_archiving(&self, archiving: Arc<dyn Archiving>) {
        // A database has one archive.
        let _ = self.archiving.set(archiving);
    }

    /// How far the archive is, if there is one.
    #[must_use]
    pub fn archiving(&self) -> Option<ArchivingStatus> {
        self.archiving.get().map(|archiving| archiving.status())
    }

    /// Says who makes backups of this database while it is open. Once.
    pub fn set_backups(&self, backups: Arc<dyn Backups>) {
        // Whoever has opened the database in a directory, makes them.
        let _ = self.backups.set(backups);
    }

    pub(crate) fn backups(&self) -> Option<&Arc<dyn Backups>> {
        self.backups.get()
    }

    /// Says where changes are found that the log does not have any more. Once.
    pub fn set_change_source(&self, source: Arc<dyn ChangeSource>) {
        // A database has one archive.
        let _ = self.change_source.set(source);
    }

    pub(crate) fn change_source(&self) -> Option<&Arc<dyn ChangeSource>> {
        self.change_source.get()
    }

    /// Where this one stands as a replica, if somebody follows for it.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamStatus> {
        self.upstream.get().map(|upstream| upstream.status())
    }

    /// Tells how far this replica is, if the database is a replica that a server runs.
    pub(crate) fn upstream_handle(&self) -> Option<Arc<dyn Upstream>> {
        self.upstream.get().cloned()
    }

    /// The role of this name, as it is now.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<Arc<RoleDef>> {
        self.store.world().catalog().role(name).cloned()
    }

    /// Whether this role is a member of another one, of whatever roles between them.
    #[must_use]
    pub fn is_member(&self, name: &str, of: &str) -> bool {
        is_member(name, of, &Authority::of_world(&self.store.world()))
    }

    /// Whether a role sees what all sessions do: a superuser, and who has the rights of `pg_monitor`. Nothing if there is no
    /// such role.
    #[must_use]
    pub fn is_monitor(&self, role: &str) -> Option<bool> {
        self.role(role)?;
        let rights = Rights::of_owner(Some(role), Authority::of_world(&self.store.world()));
        Some(rights.is_monitor())
    }

    /// The memory that queries have together.
    pub(crate) fn query_memory(&self) -> QueryMemoryStanding {
        self.queries.standing()
    }

    /// Whether this name is the administrator's, who is no role.
    #[must_use]
    pub fn is_administrator(&self, name: &str) -> bool {
        name == CATALOG_NAME
    }

    /// The advisory locks of all sessions.
    pub(crate) fn advisory_locks(&self) -> &AdvisoryLocks {
        &self.advisory_locks
    }

    /// The bounds of what sessions keep.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The servers that have tables of the database.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The threads that run queries.
    pub(crate) fn runtime(&self) -> QueryThreads<'_> {
        let runtime = self.runtime.as_ref().expect("it is there until the engine is dropped");
        QueryThreads { runtime, places: &self.places, left_behind: &self.left_behind, turns: &self.turns }
    }

    /// How the threads that run queries are shared.
    #[must_use]
    pub fn query_turns(&self) -> QueryTurns {
        self.turns.figures()
    }

    /// What a statement's query runs in: its memory, and where it spills.
    pub(crate) fn query_environment(&self) -> Arc<RuntimeEnv> {
        self.queries.of_statement()
    }

    /// The DataFusion state with all functions and rules, bound to no statement.
    pub(crate) fn template(&self) -> &SessionState {
        &self.template
    }

    /// The DataFusion state in which plans are made of plans: with all rules, and hardly any functions. Each query clones it.
    pub(crate) fn planning(&self) -> &SessionState {
        &self.planning
    }
}

impl PlanExpressions for Engine {
    fn expression_plan(&self, expression: Expr, schema: &DFSchema) -> Result<logical_expr::Expr, SqlError> {
        self.template.expression_plan(expression, schema)
    }

    fn expression_options(&self) -> &Arc<ConfigOptions> {
        self.template.expression_options()
    }
}

impl OfServers for Arc<Engine> {
    fn own_store(&self) -> &Store {
        &self.store
    }

    fn run_own(&self, sql: &str) -> Result<StatementResult, SqlError> {
        (self.run_own)(self, sql)
    }
}

impl Drop for Engine {
    /// Does not wait for the threads if the last handle is dropped on a thread of another runtime, where blocking is not allowed, or
    /// if work was left behind, which may take long.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take()
            && (Handle::try_current().is_ok() || self.left_behind.goes_on())
        {
            runtime.shutdown_background();
        }
    }
}

/// After so many tasks a thread takes one that comes from elsewhere, such as the first one of a statement. Left to itself tokio finds
/// the number by how long tasks work, too late for a query that begins: it starts with 61, which is a third of a second of pieces.
const TASKS_BETWEEN_OTHERS: u32 = 4;

/// So many threads that run queries, and the watch over them.
fn query_threads(
    count: usize,
    priority: QueryPriority,
    turns: &Arc<Turns>,
) -> std::io::Result<(Runtime, Watch)> {
    let (beginning, sleeping) = (Arc::clone(turns), Arc::clone(turns));
    let begin = move || {
        priority.take();
        beginning.serve_on_this_thread();
    };
    let watch = Watch::default();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(count)
        .thread_name("coeval-query")
        .thread_stack_size(STATEMENT_STACK_BYTES)
        .global_queue_interval(TASKS_BETWEEN_OTHERS)
        .enable_time();
    watch.prepare(&mut builder, begin, move || sleeping.begin_round());
    let runtime = builder.build()?;
    watch.begin(runtime.handle().clone())?;
    Ok((runtime, watch))
}

/// The threads that run queries, of whom one can wait for one.
pub(crate) struct QueryThreads<'e> {
    runtime: &'e Runtime,
    places: &'e Places,
    left_behind: &'e LeftBehind,
    turns: &'e Arc<Turns>,
}

impl QueryThreads<'_> {
    /// Waits for the future's result, or until the statement that runs on this thread is cancelled. If this is a thread of another
    /// runtime, which must have several threads, that runtime goes on with another thread meanwhile.
    ///
    /// # Errors
    /// The future's own; that of a cancelled statement.
    pub(crate) fn block_on<T>(
        &self,
        future: impl Future<Output = Result<T, DataFusionError>>,
    ) -> Result<T, DataFusionError> {
        aside(|| self.runtime.block_on(cancel::unless_cancelled(future)))
    }

    /// What the work gives, which looks at no request, or the error of the statement that runs on this thread if it is to end
    /// before: the work goes on by itself then, to its end. While too much was left behind so, by the role or by all, it waits before it
    /// begins more.
    ///
    /// # Errors
    /// That of a cancelled statement; `53400` if it has waited for too long: the work was not begun.
    pub(crate) fn beside<T: Send + 'static>(
        &self,
        role: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SqlError> {
        let began = Instant::now();
        while self.left_behind.is_full(role) {
            if began.elapsed() >= LEFT_BEHIND_PATIENCE {
                return Err(too_much_goes_on());
            }
            self.block_on(async {
                tokio::time::sleep(LEFT_BEHIND_WAIT).await;
                Ok(())
            })?;
        }
        let ticket = self.left_behind.ticket(role);
        let working = Arc::clone(&ticket);
        let running = self.runtime.spawn_blocking(move || {
            let _end = working.work();
            work()
        });
        let outcome = self.block_on(async { Ok(running.await) }).inspect_err(|_| ticket.leave())?;
        outcome.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => SqlError::internal(format!("work was not done: {error}")),
        })
    }

    /// Runs the future on these threads; it ends when the handle is dropped.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> SpawnedTask<T> {
        let _entered = self.runtime.enter();
        SpawnedTask::spawn(future)
    }

    /// The same for the work of a query, which takes turns with others.
    pub(crate) fn spawn_in_turns<T: Send + 'static>(
        &self,
        account: &Arc<Account>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> SpawnedTask<T> {
        self.spawn(self.turns.task(account, work))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
