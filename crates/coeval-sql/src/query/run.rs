// SPDX-License-Identifier: Apache-2.0
//! From a logical plan to rows: parameters, snapshot, optimization, execution.

use super::apply::{Extent, applied, joined};
use super::dependencies::has_correlated;
use super::generic_plan::{ForAllValues, for_all_values, with_values};
use super::kept_physical::{Copied, KEPT_PLANS_SETTING, Making, Turn};
use super::late_joins::LATE_JOINS_SETTING;
use super::mistakes::explained_plan;
use super::plan::{Length, PlannedQuery, plan, plan_with_hidden};
use super::plan_shape::Shape;
use super::row_order::{RowOrder, execute_in};
use super::shared_subplans::SHARED_SUBPLANS_SETTING;
use super::short_groups::SHORT_GROUPS_SETTING;
use super::subquery_environment::{StatementEnvironment, StatementTime};
use super::watched::{lifeline_of, watched};
use crate::allowance::{Allowance, Loan};
use crate::cancel::{self, Lifeline};
use crate::carried::Carry;
use crate::catalog::CatalogAccess;
use crate::context::StatementContext;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::hand_over::aside;
use crate::memory::{Kept, KeptPart, QueryEnvironment, bytes_of_rows};
use crate::plan_rule::SwitchedOff;
use crate::provider::{StatementSnapshot, counting};
use crate::result::{BatchPlace, RowSet, RowStream, SentBatch, StatementResult};
use crate::sequences::SequenceAccess;
use crate::turns::Account;
use crate::types::{assign_array, scalar_of};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use chrono::DateTime;
use chrono_tz::Tz;
use coeval_store::{ColumnType, StoreError, Value, value_at};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ParamValues, ScalarValue};
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// How many batches a query may be ahead of the reader of its rows.
const STREAMED_BATCHES_MAX: usize = 2;

/// From this size on a batch is counted while it waits.
const COUNTED_BATCH_BYTES: usize = 64 << 10;

/// As many batches of a query are on their way at most: with those that wait the one that is read and the one that comes.
const BATCHES_MAX: u32 = STREAMED_BATCHES_MAX as u32 + 2;

/// Of tables that are spread over a cluster, other nodes are told the keys that a join looks for, up to so many of them. A look-up in the
/// join's own table is quicker for many keys, and nothing that can be sent.
pub(crate) const LISTED_MAX: usize = 4_096;

/// The batches of a query that are on their way. They are as a query of their own: what the query itself has is its operators'.
struct OnTheWay {
    kept: Arc<Kept>,
    /// One of [`BATCHES_MAX`] for each.
    places: Arc<Semaphore>,
}

/// Runs a planned query with the context's parameters.
///
/// # Errors
/// What its evaluation meets.
pub(crate) fn run(
    context: &mut StatementContext<'_>,
    planned: &PlannedQuery,
) -> Result<StatementResult, SqlError> {
    collect_planned(context, planned).map(StatementResult::select)
}

/// Begins to run a planned query, on the engine's threads; its rows come as they are asked for. The stream needs
/// the transaction no longer. A query that takes values of sequences runs to its end here. Outside a block one of tables that are spread
/// over a cluster comes to its first rows here: if a node goes before, it runs again.
///
/// # Errors
/// As planning and running it.
pub(crate) fn stream(
    context: &mut StatementContext<'_>,
    planned: &PlannedQuery,
) -> Result<RowStream, SqlError> {
    // Values of sequences and changes of settings are noted when all rows are there.
    if planned.takes_sequence_values() || planned.asks_the_catalog() {
        return Ok(RowStream::of_rows(collect_planned(context, planned)?));
    }
    let Runnable { physical, task, loan } = optimized_physical_plan(context, planned)?;
    let shown = cancel::running().map(|statement| statement.show_progress(counting(&physical)));
    let lifeline = lifeline_of(task.session_config().options()).cloned();
    let account = account_of(lifeline.as_ref());
    let held = lifeline.as_ref().map(Lifeline::held);
    let physical = watched(physical, task.session_config().options())?;
    let (sender, batches) = mpsc::channel(STREAMED_BATCHES_MAX);
    let on_the_way = OnTheWay::new(&context.engine.queries);
    let columns = planned.columns.clone();
    let work = async move {
        // For as long as the query runs, or somebody may read on.
        let (_shown, _loan) = (shown, loan);
        let mut stream = match execute_stream(physical, task) {
            Ok(stream) => stream,
            Err(error) => {
                // If the error cannot be sent, the receiver of the rows is gone, and nobody needs it.
                let _ = sender.send(Err(error.into())).await;
                return;
            }
        };
        while let Some(batch) = stream.next().await {
            let batch = match batch {
                Ok(batch) if batch.num_rows() == 0 => continue,
                Ok(batch) => renamed(batch, &columns),
                Err(error) => Err(SqlError::from(error)),
            };
            let batch = match batch {
                Ok(rows) => on_the_way.batch(rows, lifeline.as_ref()).await,
                Err(error) => Err(error),
            };
            let is_last = batch.is_err();
            if sender.send(batch).await.is_err() || is_last {
                return;
            }
        }
    };
    let running = context.engine.runtime().spawn_in_turns(&account, work);
    let mut rows = RowStream::new(planned.columns.clone(), batches, running, held);
    if planned.tables().iter().any(|def| def.is_spread()) && context.spread.lock().is_of_one_statement() {
        let first = async { rows.await_first().await.map_err(DataFusionError::from) };
        context.engine.runtime().block_on(first)?;
    }
    Ok(rows)
}

impl OnTheWay {
    const WHAT: &str = "rows that wait for who reads them";

    fn new(queries: &QueryEnvironment) -> Self {
        let places = Arc::new(Semaphore::new(BATCHES_MAX as usize));
        Self { kept: Arc::new(queries.keep_nothing()), places }
    }

    /// A batch that leaves the query, with memory for as long as it is there. If there is none, this waits until those before
    /// it are read, and asks again.
    ///
    /// # Errors
    /// `53200` if there is no memory for it alone either.
    async fn batch(&self, rows: RecordBatch, lifeline: Option<&Lifeline>) -> Result<SentBatch, SqlError> {
        let bytes = bytes_of_rows(&rows).unwrap_or(0);
        if let Some(lifeline) = lifeline {
            lifeline.holding().let_go(bytes);
        }
        if bytes < COUNTED_BATCH_BYTES {
            return Ok(SentBatch { rows, place: None });
        }
        let memory = match KeptPart::of(&self.kept, bytes, Self::WHAT) {
            Ok(memory) => memory,
            Err(_) => {
                // All of them: those before it are gone.
                drop(self.places.acquire_many(BATCHES_MAX).await);
                KeptPart::of(&self.kept, bytes, Self::WHAT)?
            }
        };
        let permit = Arc::clone(&self.places).acquire_owned().await;
        let place = permit.ok().map(|permit| BatchPlace { _memory: memory, _permit: permit });
        Ok(SentBatch { rows, place })
    }
}

/// The rows of a query.
///
/// # Errors
/// As planning and running it.
pub(crate) fn collect(context: &mut StatementContext<'_>, query: &Query) -> Result<RowSet, SqlError> {
    let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
    let planned = plan(context, query, &types)?;
    collect_planned(context, &planned)
}

/// The rows of a query that may name the hidden row id of tables without a primary key.
///
/// # Errors
/// As planning and running it.
pub(crate) fn collect_with_hidden(
    context: &mut StatementContext<'_>,
    query: &Query,
) -> Result<RowSet, SqlError> {
    let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
    let planned = plan_with_hidden(context, query, &types)?;
    collect_planned(context, &planned)
}

/// The rows of a planned query.
///
/// # Errors
/// What its evaluation meets.
pub(crate) fn collect_planned(
    context: &mut StatementContext<'_>,
    planned: &PlannedQuery,
) -> Result<RowSet, SqlError> {
    let Runnable { physical, task, loan: _loan } = optimized_physical_plan(context, planned)?;
    let options = task.session_config().options();
    let access = SequenceAccess::carried_by(options).cloned();
    let catalog = CatalogAccess::carried_by(options).cloned();
    // Whatever becomes of the wait below, nobody works on when it is over.
    let _held = lifeline_of(options).map(Lifeline::held);
    let account = account_of(lifeline_of(options));
    let _shown = cancel::running().map(|statement| statement.show_progress(counting(&physical)));
    // On a thread of its own: who waits here is free to hear that the statement is cancelled.
    let work = collect_within(physical, task, planned.row_order());
    let running = context.engine.runtime().spawn_in_turns(&account, work);
    let batches = context.engine.runtime().block_on(async {
        running.join_unwind().await.map_err(|error| DataFusionError::External(Box::new(error)))?
    });
    if let Some(access) = access {
        // Values that were taken stay taken, whatever became of the query.
        *context.sequences = access.values();
    }
    let (batches, reservation) = batches?;
    if let Some(catalog) = catalog {
        context.settings.request(catalog.requests());
    }
    let batches = batches
        .into_iter()
        .filter(|batch| batch.num_rows() > 0)
        .map(|batch| renamed(batch, &planned.columns))
        .collect::<Result<Vec<_>, SqlError>>()?;
    let schema = batches.first().map_or_else(|| planned.columns.clone(), RecordBatch::schema);
    Ok(RowSet::reserved(schema, batches, Arc::new(reservation)))
}

/// Where the time of a query on the engine's threads is noted.
fn account_of(lifeline: Option<&Lifeline>) -> Arc<Account> {
    lifeline.map_or_else(Arc::default, |lifeline| Arc::clone(lifeline.account()))
}

/// All rows, as far as the query has memory for them.
async fn collect_within(
    physical: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    order: RowOrder,
) -> Result<(Vec<RecordBatch>, MemoryReservation), DataFusionError> {
    let reservation = MemoryConsumer::new("the rows of a statement").register(task.memory_pool());
    let physical = watched(physical, task.session_config().options())?;
    let mut stream = execute_in(order, physical, task)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        reservation.try_grow(bytes_of_rows(&batch)?)?;
        batches.push(batch);
    }
    Ok((batches, reservation))
}

/// Runs a plan for the sake of its figures: the plan that has them, and how many rows there are.
///
/// # Errors
/// What its evaluation meets.
pub(crate) fn run_to_measure(
    context: &StatementContext<'_>,
    physical: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> Result<(Arc<dyn ExecutionPlan>, u64), SqlError> {
    let options = task.session_config().options();
    let _held = lifeline_of(options).map(Lifeline::held);
    let physical = watched(physical, options)?;
    let batches =
        context.engine.runtime().block_on(datafusion::physical_plan::collect(Arc::clone(&physical), task))?;
    Ok((physical, batches.iter().map(|batch| batch.num_rows() as u64).sum()))
}

/// The batch under the names that users see, with the marks of its columns; Arrow's types are the batch's own.
fn renamed(batch: RecordBatch, columns: &SchemaRef) -> Result<RecordBatch, SqlError> {
    let actual = batch.schema();
    let fields: Vec<_> = actual
        .fields()
        .iter()
        .zip(columns.fields())
        .map(|(field, named)| {
            let field = field.as_ref().clone().with_metadata(named.metadata().clone());
            Arc::new(field.with_name(named.name()).with_nullable(true))
        })
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)?)
}

/// A physical plan over the transaction's snapshot, and what it runs in.
pub(crate) struct Runnable {
    pub(crate) physical: Arc<dyn ExecutionPlan>,
    pub(crate) task: Arc<TaskContext>,
    /// What functions of a plan that is used again look at, for as long as this one runs.
    pub(crate) loan: Option<Arc<Loan>>,
}

/// The physical plan over the transaction's snapshot, and what it runs in.
///
/// # Errors
/// What planning finds.
pub(crate) fn optimized_physical_plan(
    context: &StatementContext<'_>,
    planned: &PlannedQuery,
) -> Result<Runnable, SqlError> {
    aside(|| physical_plan(context, planned))
}

fn physical_plan(context: &StatementContext<'_>, planned: &PlannedQuery) -> Result<Runnable, SqlError> {
    let mut snapshot = snapshot_of(context, planned)?;
    let kept = planned.optimized(context, &snapshot);
    if let Some(answers) = kept.as_ref().and_then(|kept| kept.answers.as_ref()) {
        snapshot = snapshot.with_answers(Arc::clone(answers));
    }
    let mut state = statement_state(context, planned, snapshot.clone());
    let environment = context.engine.query_environment();
    let physical = kept.as_ref().and_then(|kept| kept.physical.clone());
    // Of what has such plans no subquery is planned while it runs, and a template would hold the environment.
    let may_plan = planned.runs_subqueries() || (planned.is_correlated() && physical.is_none());
    if may_plan {
        StatementEnvironment(Arc::clone(&environment)).carry_in(state.config_mut().options_mut());
    }
    carry_access(&mut state, context, planned);
    let physical = physical.filter(|_| context.settings.is_on(KEPT_PLANS_SETTING));
    let allowance = Allowance::of(&environment);
    allowance.lifeline().account().set_weight(context.settings.query_weight());
    let turn = physical.as_ref().map_or(Turn::Neither, |physical| physical.turn(&snapshot, &allowance));
    let (copied, making) = give_options(&mut state, allowance, turn);
    let parameters = match planned.parameter_types.is_empty() {
        true => None,
        false => Some(parameters(context)?),
    };
    let unfinished = Unfinished {
        engine: Arc::clone(context.engine),
        logical: Arc::clone(&planned.logical),
        parameters,
        is_correlated: planned.is_correlated(),
        kept: kept.map(|kept| kept.plan),
        copied,
        is_due: planned.is_due_for_all_values(context, &snapshot),
        runs_subqueries: planned.runs_subqueries(),
        joins_subqueries: context.settings.is_on("coeval.joined_subqueries"),
        snapshot: snapshot.clone(),
        state,
    };
    let finished = if Length::of(context.sql) == Length::Long || has_many_nodes(&planned.logical) {
        context.engine.runtime().apart(|| unfinished.finished())?
    } else {
        unfinished.finished()?
    };
    if let Some(optimized) = finished.optimized {
        planned.keep_optimized(optimized, finished.for_all, context, &snapshot);
    }
    if finished.reads_all {
        for def in planned.tables() {
            context.transaction.note_scanned(def.id, &[])?;
        }
    }
    let scans = snapshot.take_scans();
    for (table, extents) in &scans {
        context.transaction.note_scanned(*table, extents)?;
    }
    let mut loan = finished.loan;
    if let (Some(physical), Some(making)) = (physical, making) {
        loan = Some(physical.keep(making, &snapshot, &scans));
    }
    Ok(Runnable { physical: finished.physical, task: task_context(&finished.state, environment), loan })
}

/// Puts in what sequences and functions of the catalog need.
fn carry_access(state: &mut SessionState, context: &StatementContext<'_>, planned: &PlannedQuery) {
    let options = state.config_mut().options_mut();
    if planned.takes_sequence_values() {
        SequenceAccess::of(context).carry_in(options);
    }
    if planned.asks_the_catalog() {
        CatalogAccess::of(
            context.engine,
            context.transaction,
            context.settings,
            context.clock,
            context.advisory_locks,
        )
        .carry_in(options);
    }
}

/// Gives functions their options. There they find the session's time zone and the sequences, and what memory they may take: less while constants
/// are folded, for which DataFusion hands them the state's own options.
fn give_options(
    state: &mut SessionState,
    allowance: Allowance,
    turn: Turn,
) -> (Option<Copied>, Option<Making>) {
    let mut options = ConfigOptions::clone(state.config_options());
    let of_rules = state.config_mut().options_mut();
    allowance.while_planning().carry_in(of_rules);
    let turn = match turn {
        Turn::Copies(copied) => {
            copied.carry_in(of_rules);
            (Some(copied), None)
        }
        Turn::Makes(making) => {
            making.carry_in(of_rules, &mut options);
            (None, Some(making))
        }
        Turn::Neither => {
            allowance.carry_in(&mut options);
            (None, None)
        }
    };
    state.execution_props_mut().config_options = Some(Arc::new(options));
    turn
}

/// From so many nodes on a plan is made better apart: what rules do may grow much faster than the text.
const NODES_MAX: usize = 100;

/// Whether a plan has more nodes than that.
pub(super) fn has_many_nodes(plan: &LogicalPlan) -> bool {
    let mut nodes = 0;
    let counted = plan.apply(|_| {
        nodes += 1;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    counted.is_ok() && nodes > NODES_MAX
}

/// A plan on its way to what runs, with all that it takes: it can be finished on another thread.
struct Unfinished {
    engine: Arc<Engine>,
    logical: Arc<LogicalPlan>,
    parameters: Option<ParamValues>,
    is_correlated: bool,
    runs_subqueries: bool,
    /// Whether subqueries that run for each row become joins: `coeval.joined_subqueries` is on.
    joins_subqueries: bool,
    /// What came of optimizing it before, if that can be used again.
    kept: Option<Arc<LogicalPlan>>,
    /// The physical plan, if it is a copy of one that is kept.
    copied: Option<Copied>,
    /// Whether it is to be found out what a plan for all values of the parameters does.
    is_due: bool,
    snapshot: StatementSnapshot,
    state: SessionState,
}

/// A plan that runs.
struct Finished {
    physical: Arc<dyn ExecutionPlan>,
    state: SessionState,
    /// Whether scans are planned while it runs: all its tables count as read as a whole.
    reads_all: bool,
    /// The plan that it is of, if that is a new one, and its scans are planned.
    optimized: Option<LogicalPlan>,
    /// What was found out about a plan for all values of the parameters.
    for_all: ForAllValues,
    loan: Option<Arc<Loan>>,
}

impl Finished {
    /// Of a plan that was kept.
    fn of_kept(physical: Arc<dyn ExecutionPlan>, state: SessionState, loan: Option<Arc<Loan>>) -> Self {
        Self { physical, state, reads_all: false, optimized: None, for_all: ForAllValues::NotMade, loan }
    }
}

impl Unfinished {
    fn finished(mut self) -> Result<Finished, SqlError> {
        if let Some(copied) = self.copied.take() {
            let (physical, loan) = copied.plan(&self.snapshot, &self.state)?;
            return Ok(Finished::of_kept(physical, self.state, Some(loan)));
        }
        if let Some(physical) = self.of_kept()? {
            return Ok(Finished::of_kept(physical, self.state, None));
        }
        let valued;
        let logical: &LogicalPlan = match &self.parameters {
            None => &self.logical,
            Some(values) => {
                valued = LogicalPlan::clone(&self.logical).replace_params_with_values(values)?;
                &valued
            }
        };
        let (optimized, reads_all) = self.optimized(logical)?;
        let physical = self.physical(&optimized).map_err(|error| explained_plan(error, logical))?;
        let for_all = if reads_all { ForAllValues::NotMade } else { self.for_all_values(&optimized) };
        let optimized = (!reads_all).then_some(optimized);
        Ok(Finished { physical, state: self.state, reads_all, optimized, for_all, loan: None })
    }

    /// What runs, made of the plan that is kept. `None` if none is, or it is not for these values.
    fn of_kept(&self) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let Some(values) = &self.parameters else {
            let physical = self.physical(kept).map_err(|error| explained_plan(error, &self.logical))?;
            return Ok(Some(physical));
        };
        // What is wrong with values is found again, and told, where a plan is made for them alone.
        let Ok(Some(plan)) = with_values(LogicalPlan::clone(kept), values, &self.state) else {
            return Ok(None);
        };
        Ok(self.physical(&plan).ok())
    }

    fn physical(&self, optimized: &LogicalPlan) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let planner = Arc::clone(self.state.query_planner());
        self.engine.runtime().block_on(planner.create_physical_plan(optimized, &self.state))
    }

    /// What a plan for all values does, beside this one for those of now; nothing unless that is due.
    fn for_all_values(&self, custom: &LogicalPlan) -> ForAllValues {
        let (true, Some(values)) = (self.is_due, &self.parameters) else { return ForAllValues::NotMade };
        let Ok(plan) = for_all_values(&self.logical, values, &self.state) else {
            return if cancel::check().is_ok() { ForAllValues::Worse } else { ForAllValues::NotMade };
        };
        let is_whole = !(self.is_correlated && has_correlated(&plan));
        let does_the_same = |plan: &LogicalPlan| {
            with_values(plan.clone(), values, &self.state)
                .is_ok_and(|valued| valued.is_some_and(|valued| Shape::of(&valued) == Shape::of(custom)))
        };
        match is_whole && does_the_same(&plan) {
            true => ForAllValues::AsGood(Arc::new(plan)),
            false => ForAllValues::Worse,
        }
    }

    /// The optimized plan. Where DataFusion makes no join of a correlated subquery, the plan's correlated subqueries run
    /// for each row instead, or become joins of ours.
    fn optimized(&self, logical: &LogicalPlan) -> Result<(LogicalPlan, bool), SqlError> {
        let explained = |error| explained_plan(error, logical);
        let first = if self.runs_subqueries {
            self.state.optimize(&self.joined(logical.clone()).map_err(explained)?)
        } else {
            self.state.optimize(logical)
        };
        let is_done = match &first {
            Ok(plan) => !(self.is_correlated && has_correlated(plan)),
            Err(_) => !self.is_correlated,
        };
        if is_done {
            return Ok((first.map_err(explained)?, false));
        }
        let applied = applied(logical.clone(), self.engine.planning(), Extent::AllCorrelated)?;
        self.snapshot.stop_collecting();
        let joined = self.joined(applied.data).map_err(explained)?;
        Ok((self.state.optimize(&joined).map_err(explained)?, true))
    }

    /// The plan with joins in the place of subqueries that would run for each row.
    fn joined(&self, logical: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
        if self.joins_subqueries { joined(logical, &self.state) } else { Ok(logical) }
    }
}

/// The views of the tables that a query names. Each of its scans says what it reads, unless some may be planned while
/// the query runs: then all tables count as read as a whole.
fn snapshot_of(
    context: &StatementContext<'_>,
    planned: &PlannedQuery,
) -> Result<StatementSnapshot, SqlError> {
    let transaction = &*context.transaction;
    let (foreign, own): (Vec<_>, Vec<_>) = planned.tables().iter().partition(|def| def.foreign.is_some());
    let foreign = foreign.into_iter().map(|def| Ok((def.id, (context.scan_foreign)(context, def)?)));
    let foreign = foreign.collect::<Result<HashMap<_, _>, SqlError>>()?;
    let (spread, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|def| def.is_spread());
    if !(own.is_empty() && foreign.is_empty()) {
        context.spread.lock().note_rows_read();
    }
    let spread = crate::spread::snapshot(context, spread)?;
    let (bricks, rows): (Vec<_>, Vec<_>) = own.into_iter().partition(|def| def.bricks.is_some());
    let is_asked = transaction.notes_reads() && !planned.runs_subqueries();
    let bricks = bricks.iter().map(|def| {
        let view = if is_asked {
            transaction.brick_view_to_note(def.id, |all| all)
        } else {
            transaction.brick_view(def.id, |all| all)
        };
        Ok((def.id, view?))
    });
    let bricks = bricks.collect::<Result<HashMap<_, _>, StoreError>>()?;
    let tables = rows.iter().map(|def| def.id);
    if !is_asked {
        let view = |table| match &context.parts {
            None => transaction.view(table),
            Some(parts) => parts.view(transaction, table),
        };
        let views = tables.map(view).collect::<Result<Vec<_>, _>>()?;
        return Ok(StatementSnapshot::new(views)
            .with_bricks(bricks)
            .with_foreign(foreign)
            .with_spread(spread));
    }
    let view = |table| match &context.parts {
        None => transaction.view_to_note(table),
        Some(parts) => parts.view_to_note(transaction, table),
    };
    let views = tables.map(view).collect::<Result<Vec<_>, _>>()?;
    Ok(StatementSnapshot::collecting(views).with_bricks(bricks).with_foreign(foreign).with_spread(spread))
}

/// The statement does without pieces on other nodes: `coeval.spread_pieces` is off.
#[derive(Clone, Debug)]
pub(crate) struct WithoutPieces;

impl Carry for WithoutPieces {
    const NAME: &'static str = "coeval_without_pieces";
}

/// The settings that switch off a [`PlanRule`](crate::plan_rule::PlanRule), or a rule for logical plans.
const RULE_SETTINGS: [&str; 14] = [
    "coeval.coded_groups",
    "coeval.group_top",
    "coeval.grouping_sets",
    "coeval.integer_joins",
    "coeval.join_keys",
    LATE_JOINS_SETTING,
    "coeval.narrow_decimals",
    "coeval.narrow_scans",
    "coeval.packed_groups",
    "coeval.running_windows",
    SHORT_GROUPS_SETTING,
    "coeval.stepwise_filters",
    "coeval.text_codes",
    SHARED_SUBPLANS_SETTING,
];

/// DataFusion's state for what one statement does with plans: the engine's, with the snapshot and the clock.
fn statement_state(
    context: &StatementContext<'_>,
    planned: &PlannedQuery,
    snapshot: StatementSnapshot,
) -> SessionState {
    let mut state = context.engine.planning().clone();
    let now = DateTime::from_timestamp_micros(context.clock.transaction_micros);
    let config = state.config_mut();
    if planned.runs_subqueries() || planned.is_correlated() {
        StatementTime(now).carry_in(config.options_mut());
    }
    if planned.row_order() == RowOrder::OfOneThread {
        config.options_mut().execution.target_partitions = 1;
    }
    snapshot.carry_in(config.options_mut());
    if planned.tables().iter().any(|def| def.is_spread()) {
        config.options_mut().optimizer.hash_join_inlist_pushdown_max_distinct_values = LISTED_MAX;
    }
    if !context.settings.is_on("coeval.spread_pieces") {
        WithoutPieces.carry_in(config.options_mut());
    }
    let is_off = |setting: &&str| {
        let asks_for_copies = *setting == SHARED_SUBPLANS_SETTING && planned.asks_for_copies();
        asks_for_copies || !context.settings.is_on(setting)
    };
    let off: Vec<&'static str> = RULE_SETTINGS.into_iter().filter(is_off).collect();
    if !off.is_empty() {
        SwitchedOff(off).carry_in(config.options_mut());
    }
    let zone = context.settings.zone().name();
    if config.options().execution.time_zone.as_deref() != Some(zone) {
        config.options_mut().execution.time_zone = Some(zone.to_owned());
    }
    state.execution_props_mut().query_execution_start_time = now;
    state
}

/// What operators run in. Plans hold their functions, so the registries stay empty.
fn task_context(state: &SessionState, environment: Arc<RuntimeEnv>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        Default::default(),
        Default::default(),
        Default::default(),
        Default::default(),
        environment,
    ))
}

fn parameters(context: &StatementContext<'_>) -> Result<ParamValues, SqlError> {
    let scalars = context
        .parameters
        .iter()
        .zip(context.parameter_types)
        .map(|(value, ty)| scalar_of(value, *ty))
        .collect::<Result<Vec<ScalarValue>, _>>()?;
    Ok(ParamValues::from(scalars))
}

/// The values of a row set's only row, cast to these types.
///
/// # Errors
/// If there is not exactly one row of that many columns, or a value does not fit.
pub(crate) fn single_row(rows: &RowSet, types: &[ColumnType], zone: Tz) -> Result<Vec<Value>, SqlError> {
    let Some(batch) = rows.batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(SqlError::internal("exactly one row was expected"));
    };
    if batch.num_columns() != types.len() {
        let message = format!("wrong number of parameters: {} for {}", batch.num_columns(), types.len());
        return Err(SqlError::syntax(message));
    }
    let assigned = batch.columns().iter().zip(types).map(|(array, ty)| assign_array(array, *ty, zone));
    assigned.map(|array| array.map(|array| value_at(&array, 0).to_owned())).collect()
}
