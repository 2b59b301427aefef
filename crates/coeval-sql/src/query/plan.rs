// SPDX-License-Identifier: Apache-2.0
//! From a query's syntax to a logical plan without a snapshot.

use super::apply::{Extent, applied, runs_for_rows};
use super::dependencies::has_correlated;
use super::dialect::in_dialect;
use super::doubled;
use super::expansion::bounded;
use super::generic_plan::{ForAllValues, is_for_all_values};
use super::grouped_parameters::with_computed_sets;
use super::kept_plan::{Circumstances, KeptPlan, Reused, is_due, is_timeless};
use super::mistakes::{Asks, Refused, has_misplaced_call};
use super::no_columns;
use super::ordered_names;
use super::origins::{special_parameters, with_origins};
use super::outer_aggregates::{computed_outside, refuse_outer_aggregates};
use super::output_names;
use super::plan_size::plan_bytes;
use super::planner::{Dependencies, Planner};
use super::row_counts::with_counted_rows;
use super::row_order::{RowOrder, depends_on_threads, with_numbers_behind_order};
use super::run::has_many_nodes;
use super::scopes::found;
use super::shared_subplans::asks_for_copies;
use super::subqueries::refuse_deep_subqueries;
use super::typing::{marked_schema, settled, with_typed_literals, without_subqueries_in_values};
use super::using::written_out;
use super::whole_rows::counted;
use super::with_sizes::refuse_too_large;
use crate::cancel;
use crate::context::StatementContext;
use crate::engine::{Engine, LONG_TEXT_BYTES};
use crate::error::{SqlError, place_in};
use crate::hand_over::aside;
use crate::memory::{marks_of, syntax_memory};
use crate::parameters::{self, inferred_types, parameter_of, resolved_types};
use crate::provider::{HiddenColumns, Keys, StatementSnapshot};
use crate::relations::is_vector;
use crate::rights::MadeFor;
use crate::scalar::cast_function::refuse_words_for_days;
use crate::types::ParameterType;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use coeval_store::{ColumnType, QualifiedName, TableDef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::planner::PlannerContext;
use datafusion::sql::sqlparser::ast::{ObjectName, Query};
use parking_lot::Mutex;
use std::sync::Arc;

/// A query planned as far as it goes without a snapshot and parameters.
///
/// # Locking
///
/// What is known of its optimized plan is looked at before an execution is planned, and noted behind that. No other lock is taken in
/// between, and no plan is made: sessions that run it at once may make the same plan twice.
pub(crate) struct PlannedQuery {
    pub(super) logical: Arc<LogicalPlan>,
    pub(super) parameter_types: Vec<ColumnType>,
    found_types: Vec<Option<ColumnType>>,
    pub(super) columns: SchemaRef,
    special_parameters: Vec<Option<ParameterType>>,
    dependencies: Dependencies,
    /// For each of the tables that it reads what its name stood for without a schema.
    found_by_name: Vec<Option<QualifiedName>>,
    made_for: MadeFor,
    runs_subqueries: bool,
    is_correlated: bool,
    asks_for_copies: bool,
    row_order: RowOrder,
    /// The number of the settings that it was planned with.
    settings: u64,
    /// The search path of these.
    search_path: Arc<[String]>,
    /// What came of optimizing it when it ran before.
    optimized: Mutex<Option<KeptPlan>>,
}

impl PlannedQuery {
    /// The types of the parameters.
    pub(crate) fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// For each parameter the type that a place says, or that was known before. All others are text.
    pub(crate) fn found_types(&self) -> &[Option<ColumnType>] {
        &self.found_types
    }

    /// For each parameter its type, if it is read as an array or compared with object ids.
    pub(crate) fn special_parameters(&self) -> &[Option<ParameterType>] {
        &self.special_parameters
    }

    /// The columns of its rows.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// About what it takes in memory, with all that may be kept for its next execution. Costs a look at each of its expressions.
    pub(crate) fn bytes(&self) -> usize {
        // The plan, what comes of optimizing it, and without parameters the template of a physical plan.
        let kept = if self.parameter_types.is_empty() { 3 } else { 2 };
        plan_bytes(&self.logical).saturating_mul(kept)
    }

    /// Refuses words for days beside dates and times, whose value is another one in the next transaction.
    ///
    /// # Errors
    /// `22007`.
    pub(crate) fn refuse_words_for_days(&self) -> Result<(), SqlError> {
        self.logical.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                refuse_words_for_days(expression)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(())
    }

    /// The tables it reads.
    pub(crate) fn tables(&self) -> &[Arc<TableDef>] {
        &self.dependencies.tables
    }

    /// Whether it calls `nextval` or its like.
    pub(crate) fn takes_sequence_values(&self) -> bool {
        self.dependencies.takes_sequence_values
    }

    /// In which order its rows come.
    pub(super) fn row_order(&self) -> RowOrder {
        self.row_order
    }

    /// Its rows are given numbers, one after the other: they are to come in the same order each time.
    pub(crate) fn number_rows(&mut self) {
        if depends_on_threads(&self.logical) {
            self.row_order = RowOrder::OfOneThread;
        }
    }

    /// Whether it has subqueries that run for each row.
    pub(super) fn runs_subqueries(&self) -> bool {
        self.runs_subqueries
    }

    /// Whether it has subqueries that DataFusion is to make joins of.
    pub(super) fn is_correlated(&self) -> bool {
        self.is_correlated
    }

    /// Whether a query in it is to be computed in each place that names it.
    pub(super) fn asks_for_copies(&self) -> bool {
        self.asks_for_copies
    }

    /// Whether it calls a function of the catalog.
    pub(crate) fn asks_the_catalog(&self) -> bool {
        self.dependencies.asks_the_catalog
    }

    /// Whether a text that was planned as this would be planned as this again, as far as settings go: names are found and constants are
    /// read by them.
    pub(crate) fn has_settings_of(&self, context: &StatementContext<'_>) -> bool {
        self.settings == context.settings.revision()
    }

    /// Whether names are looked up in the same schemas as when it was planned. Another view may have the name of one that it reads.
    pub(crate) fn has_search_path_of(&self, context: &StatementContext<'_>) -> bool {
        *self.search_path == *context.settings.search_path()
    }

    /// Whether any plan of it is worth keeping: it names no system tables, which are made while it is planned.
    pub(crate) fn can_be_kept(&self) -> bool {
        !self.dependencies.unkept
    }

    /// What came of optimizing it, if that is right for this statement.
    pub(super) fn optimized(
        &self,
        context: &StatementContext<'_>,
        snapshot: &StatementSnapshot,
    ) -> Option<Reused> {
        let kept = self.optimized.lock();
        let kept = kept.as_ref().filter(|kept| kept.is_for(context.settings, snapshot));
        kept.and_then(KeptPlan::plan).cloned()
    }

    /// Whether a plan for all values of its parameters is to be made beside the one for the values of this statement.
    pub(super) fn is_due_for_all_values(
        &self,
        context: &StatementContext<'_>,
        snapshot: &StatementSnapshot,
    ) -> bool {
        if self.parameter_types.is_empty() {
            return false;
        }
        let is_due = {
            let kept = self.optimized.lock();
            let kept = kept.as_ref().filter(|kept| kept.is_for(context.settings, snapshot));
            is_due(kept, context.settings)
        };
        is_due && self.can_be_used_again()
    }

    /// Whether what came of optimizing it is kept.
    #[cfg(test)]
    pub(crate) fn keeps_optimized(&self) -> bool {
        self.optimized.lock().as_ref().is_some_and(|kept| kept.plan().is_some())
    }

    /// Whether its physical plan is kept for the versions of its tables.
    #[cfg(test)]
    pub(crate) fn keeps_physical(&self) -> bool {
        let kept = self.optimized.lock();
        let physical = kept.as_ref().and_then(KeptPlan::plan).and_then(|reused| reused.physical.as_ref());
        physical.is_some_and(|physical| physical.has_template())
    }

    /// Whether its next execution runs a copy of its physical plan, if it sees the same versions of its tables.
    #[cfg(test)]
    pub(crate) fn may_copy_physical(&self) -> bool {
        let kept = self.optimized.lock();
        let physical = kept.as_ref().and_then(KeptPlan::plan).and_then(|reused| reused.physical.as_ref());
        physical.is_some_and(|physical| physical.may_be_copied())
    }

    /// Forgets what its scans are estimated to give: of how many of them that was kept.
    #[cfg(test)]
    pub(crate) fn forget_scans(&self) -> usize {
        let kept = self.optimized.lock();
        let answers = kept.as_ref().and_then(KeptPlan::plan).and_then(|reused| reused.answers.as_ref());
        answers.map_or(0, |answers| answers.forget_scans())
    }

    /// Keeps what came of optimizing it in this snapshot, if its next execution can use that. Of a plan for the values of its parameters
    /// only the shape is kept; with it comes what was found out about a plan for all values.
    pub(super) fn keep_optimized(
        &self,
        plan: LogicalPlan,
        for_all: ForAllValues,
        context: &StatementContext<'_>,
        snapshot: &StatementSnapshot,
    ) {
        if let Some(kept) = &mut *self.optimized.lock()
            && kept.is_for(context.settings, snapshot)
        {
            kept.note(&plan, for_all);
            return;
        }
        let made_for = Circumstances::new(context.settings, self.tables(), snapshot);
        let kept = if !self.can_be_used_again() {
            KeptPlan::never(made_for)
        } else if self.parameter_types.is_empty() {
            KeptPlan::new(plan, snapshot, made_for)
        } else {
            KeptPlan::begun(&plan, for_all, made_for)
        };
        *self.optimized.lock() = Some(kept);
    }

    /// Whether the rules make the same of it at each execution, whatever the values of its parameters.
    fn can_be_used_again(&self) -> bool {
        let is_of_the_moment = self.dependencies.unkept
            || self.dependencies.takes_sequence_values
            || self.dependencies.asks_the_catalog
            || self.runs_subqueries;
        !is_of_the_moment && is_timeless(&self.logical) && is_for_all_values(&self.logical)
    }

    /// Whether the definitions and rights it relies on are those of this statement, and names mean the same tables.
    pub(crate) fn is_current(&self, context: &StatementContext<'_>) -> bool {
        let transaction = &*context.transaction;
        !self.dependencies.unkept
            && self.made_for.is_current(context.settings.principal(), transaction, context.engine.store())
            && self.dependencies.tables.iter().zip(&self.found_by_name).all(|(known, found)| {
                transaction
                    .resolve_table(&known.name)
                    .is_some_and(|now| Arc::ptr_eq(&now, known) || *now == **known)
                    && found_by_name(known, context) == *found
            })
    }
}

/// What the name of a table stands for where it is written without a schema. That changes with the search path, and when a relation of
/// that name, maybe a temporary one, is made in a schema that is looked at before the table's.
fn found_by_name(table: &TableDef, context: &StatementContext<'_>) -> Option<QualifiedName> {
    crate::names::resolve(None, &table.name.name, context.settings, context.transaction)
}

/// Plans a query. Parameters whose type is known have it in `types`; the others are inferred from where they
/// stand, or are text.
///
/// # Errors
/// What is wrong with the query: unknown names, types that do not go together.
pub(crate) fn plan(
    context: &mut StatementContext<'_>,
    query: &Query,
    types: &[Option<ColumnType>],
) -> Result<PlannedQuery, SqlError> {
    aside(|| {
        refuse_too_large(query)?;
        refuse_without_columns(query, context)?;
        refuse_doubled(query, context)?;
        ordered_names::refuse_ambiguous(query).map_err(|error| place_in(error, context.sql))?;
        plan_query(context, query, types, HiddenColumns::Left)
    })
}

/// As [`plan`], for DML: the hidden row id of tables without a primary key can be named.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_with_hidden(
    context: &mut StatementContext<'_>,
    query: &Query,
    types: &[Option<ColumnType>],
) -> Result<PlannedQuery, SqlError> {
    aside(|| {
        refuse_too_large(query)?;
        refuse_without_columns(query, context)?;
        plan_query(context, query, types, HiddenColumns::Shown)
    })
}

/// `42702` for a name of several columns of a subquery.
fn refuse_doubled(query: &Query, context: &StatementContext<'_>) -> Result<(), SqlError> {
    let find =
        |name: &ObjectName| found(name, context.settings, context.transaction, context.parts.as_deref());
    doubled::refuse(query, &find).map_err(|error| place_in(error, context.sql))
}

/// `42601` for a subquery without columns where a value is asked for.
fn refuse_without_columns(query: &Query, context: &StatementContext<'_>) -> Result<(), SqlError> {
    let find =
        |name: &ObjectName| found(name, context.settings, context.transaction, context.parts.as_deref());
    no_columns::refuse(query, &find)
}

/// The query, whose columns have the names that PostgreSQL gives them.
fn with_output_names(query: &Query, length: Length, engine: &Arc<Engine>) -> Result<Query, SqlError> {
    let mut query = query.clone();
    // Each step takes its time with hundreds of thousands of values.
    length.work(engine, move || {
        cancel::check()?;
        without_subqueries_in_values(&mut query);
        cancel::check()?;
        let mut named = output_names::named(&query);
        cancel::check()?;
        output_names::mark_beside_order(&mut named);
        Ok(named)
    })
}

fn plan_query(
    context: &mut StatementContext<'_>,
    query_as_written: &Query,
    types: &[Option<ColumnType>],
    hidden: HiddenColumns,
) -> Result<PlannedQuery, SqlError> {
    let engine = Arc::clone(context.engine);
    let length = Length::of(context.sql);
    if let Some(memory) = syntax_memory() {
        memory.keep_plan()?;
    }
    let mut named = with_output_names(query_as_written, length, &engine)?;
    cancel::check()?;
    let names_types = resolve_names(&mut named, context)?;
    let (named, count) = length.work(&engine, move || {
        in_dialect(&mut named)?;
        with_typed_literals(&mut named)?;
        cancel::check()?;
        let count = parameters::count(&named)?;
        Ok((Arc::new(named), count))
    })?;
    let known = |index: usize| types.get(index).copied().flatten();
    let parameters = (0..count).map(|index| known(index).map(parameter_of)).collect();
    let attempt =
        Attempt { engine: &engine, written: query_as_written, query: &named, parameters, hidden, length };
    let (planner, logical) = attempt.planned(context)?;
    cancel::check()?;
    let mut found_types = Vec::new();
    if count > 0 {
        let inferred = inferred_types(&logical, types)?;
        if !inferred.are_planned {
            drop(planner);
            return plan_query(context, query_as_written, &inferred.types, hidden);
        }
        found_types = inferred.types;
    }
    let length = if has_many_nodes(&logical) { Length::Long } else { length };
    refuse_subqueries(&logical)?;
    if has_misplaced_call(&logical)? {
        let error = with_refused(query_as_written, context, |refused| refused.misplaced_call());
        return Err(place_in(error, context.sql));
    }
    let (extent, settling) = (planner.extent(), Arc::clone(&engine));
    let mut dependencies = planner.into_dependencies();
    let takes_numbers = dependencies.takes_sequence_values;
    let (logical, runs_subqueries) = length.work(&engine, move || {
        let settled = settled(with_counted_rows(with_computed_sets(bounded(logical)?)?)?)?;
        let (applied, runs_subqueries) = with_subqueries_applied(settled, &settling, extent)?;
        let logical = if takes_numbers { with_numbers_behind_order(applied)? } else { applied };
        Ok((logical, runs_subqueries))
    })?;
    // Whoever changes a type gives its tables new definitions; a plan without any would not notice.
    dependencies.unkept |= names_types;
    let columns = with_origins(&output_names::shown(&marked_schema(&logical)), &logical);
    let special_parameters = if count == 0 { Vec::new() } else { special_parameters(&logical, count) };
    let made_for = made_for(&dependencies, context);
    let found_by_name = dependencies.tables.iter().map(|table| found_by_name(table, context)).collect();
    Ok(PlannedQuery {
        is_correlated: has_correlated(&logical),
        logical: Arc::new(logical),
        parameter_types: resolved_types(&found_types, count),
        found_types,
        columns,
        special_parameters,
        row_order: dependencies.row_order(),
        dependencies,
        found_by_name,
        made_for,
        runs_subqueries,
        asks_for_copies: asks_for_copies(query_as_written),
        settings: context.settings.revision(),
        search_path: context.settings.shared_search_path(),
        optimized: Mutex::new(None),
    })
}

/// Whose statements a plan is for.
fn made_for(dependencies: &Dependencies, context: &StatementContext<'_>) -> MadeFor {
    let principal = context.settings.principal();
    match dependencies.reads_views {
        true => MadeFor::with_views(principal, context.transaction, context.engine.store()),
        false => MadeFor::new(principal, context.transaction, context.engine.store()),
    }
}

/// A settled plan whose subqueries run for each row where DataFusion makes no join of them, and whether there are such.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
fn with_subqueries_applied(
    settled: LogicalPlan,
    engine: &Engine,
    extent: Extent,
) -> Result<(LogicalPlan, bool), SqlError> {
    let applied = applied(settled, engine.planning(), extent)?;
    let runs_subqueries = applied.transformed && runs_for_rows(&applied.data)?;
    Ok((with_written_vectors(applied.data, engine.template())?, runs_subqueries))
}

/// A query in a form that DataFusion plans.
struct Attempt<'q> {
    engine: &'q Arc<Engine>,
    written: &'q Query,
    query: &'q Arc<Query>,
    parameters: Vec<Option<FieldRef>>,
    hidden: HiddenColumns,
    length: Length,
}

impl Attempt<'_> {
    /// Its plan, and the planner that knows what that depends on.
    fn planned<'p>(
        &'p self,
        context: &'p StatementContext<'_>,
    ) -> Result<(Planner<'p>, LogicalPlan), SqlError> {
        // What is selected may depend on a primary key that it is grouped by.
        self.attempt(context, self.query, Keys::Untold, Asks::Nothing).or_else(|error| {
            cancel::check()?;
            self.attempt(context, self.query, Keys::Told, Asks::Nothing)
                .map_err(|_| place_in(self.explained(error, context), context.sql))
        })
    }

    /// The error for what it was refused with.
    fn explained(&self, error: DataFusionError, context: &StatementContext<'_>) -> SqlError {
        let plan_again = |asking| {
            let planned = self.attempt(context, &Arc::new(asking), Keys::Told, Asks::Why);
            planned.map(|(_, logical)| logical)
        };
        with_refused(self.written, context, |refused| refused.explained(error, self.query, plan_again))
    }

    fn attempt<'p>(
        &'p self,
        context: &'p StatementContext<'_>,
        query: &Arc<Query>,
        keys: Keys,
        asks: Asks,
    ) -> PlanResult<(Planner<'p>, LogicalPlan)> {
        let names = PlannerContext::new().with_prepare_param_data_types(self.parameters.clone());
        let planner = Planner::new(self.engine.template(), context, query, self.hidden, keys, asks);
        let logical = match self.length {
            Length::Short => planner.plan(query, names),
            Length::Long => planner.plan_apart(query, names),
        };
        logical.map(|logical| (planner, logical))
    }
}

/// Resolves what only the catalog knows of names in the syntax; whether types are named that users have made, or the columns of tables
/// are written out in it.
fn resolve_names(query: &mut Query, context: &StatementContext<'_>) -> Result<bool, SqlError> {
    let find =
        |name: &ObjectName| found(name, context.settings, context.transaction, context.parts.as_deref());
    super::outer_outputs::named(query, &find);
    super::names_beside_stars::give_back(query, &find);
    let has_table_changes = super::table_changes::written_out(query, &find)?;
    let names_types = crate::user_types::resolve(query, context.settings, context.transaction);
    let has_populated = super::populated::written_out(query, &find);
    counted(query, &find)?;
    super::table_ids::written_out(query, &find);
    written_out(query, &find);
    computed_outside(query, &find, context.engine.template())?;
    Ok(names_types || has_populated || has_table_changes)
}

/// What is told of a query that has been refused.
fn with_refused(
    written: &Query,
    context: &StatementContext<'_>,
    error: impl FnOnce(&Refused<'_>) -> SqlError,
) -> SqlError {
    let find =
        |name: &ObjectName| found(name, context.settings, context.transaction, context.parts.as_deref());
    let resolved = || {
        let mut query = written.clone();
        resolve_names(&mut query, context).ok().map(|_| query)
    };
    let (text_bytes, functions) = (context.sql.len(), context.engine.template());
    error(&Refused { written, text_bytes, find: &find, functions, resolved: &resolved })
}

fn refuse_subqueries(plan: &LogicalPlan) -> PlanResult<()> {
    refuse_deep_subqueries(plan)?;
    refuse_outer_aggregates(plan)
}

/// From so many marks between values and words on a statement is planned apart. What
/// DataFusion does for a chain of operators grows with its square, so a kilobyte can take a second.
const MARKS_MAX: usize = 200;

/// Whether a statement is planned apart: what is done for each word of a long one may take seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

impl Length {
    pub(super) fn of(sql: &str) -> Self {
        if sql.len() < LONG_TEXT_BYTES && marks_of(sql) < MARKS_MAX { Self::Short } else { Self::Long }
    }

    /// What the work gives; of a long statement, on another thread.
    fn work<T: Send + 'static>(
        self,
        engine: &Engine,
        work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        match self {
            Self::Short => work(),
            Self::Long => engine.runtime().apart(work),
        }
    }
}

/// The plan with vectors among its outputs as text, `1 2`: clients read them so, and arrays as `{1,2}`.
fn with_written_vectors(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan, SqlError> {
    let is_written = |field: &Field| is_vector(field) && matches!(field.data_type(), DataType::List(_));
    if !plan.schema().fields().iter().any(|field| is_written(field)) {
        return Ok(plan);
    }
    let Some(function) = state.scalar_functions().get("coeval_vector_text") else { return Ok(plan) };
    let schema = Arc::clone(plan.schema());
    let columns = schema.columns().into_iter().zip(schema.fields());
    let expressions: Vec<Expr> = columns
        .map(|(column, field)| {
            let name = column.name.clone();
            let column = Expr::Column(column);
            if is_written(field) { function.call(vec![column]).alias(name) } else { column }
        })
        .collect();
    Ok(LogicalPlanBuilder::from(plan).project(expressions)?.build()?)
}
