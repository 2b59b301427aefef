// SPDX-License-Identifier: Apache-2.0
//! Prepared statements: parsed once, planned once, planned again only when a definition they use changed.

use super::instants::Sight;
use super::list_parameters::{compares_with_lists, spelled_out};
use super::parse::{Neighbours, Parsed, is_session_statement, parse};
use super::statement_steps::await_load;
use super::utility::Utility;
use super::{NamedStatement, Session, State, description, statement_context};
use crate::clock::Clock;
use crate::context::StatementContext;
use crate::dml;
use crate::error::{SqlError, SqlState, place_in};
use crate::hand_over::aside;
use crate::memory::{Kept, KeptPart, QueryEnvironment};
use crate::names::fold;
use crate::parameters::{resolved_types, stated_types};
use crate::parse::given_to_column;
use crate::point::{PointPlan, Rows};
use crate::query::{self, PlannedQuery};
use crate::result::{CommandTag, StatementResult};
use crate::rights::Checks;
use crate::session::block::IsQuery;
use crate::session::query_statements::is_query_statement;
use crate::settings::PointPath;
use crate::statement;
use crate::tique;
use crate::types::{ParameterType, column_type_of_field, type_in_words, type_name, without_length};
use crate::user_types::{self, declared_type};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_store::{Catalog, ColumnType, Value};
use coeval_txn::Isolation;
use datafusion::sql::sqlparser::ast::{DataType, Query, Statement};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers prepared statements, so that sessions can keep newer plans beside them.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// How many newer plans a session keeps.
const REPLANNED_MAX: usize = 1_024;

/// How a prepared statement runs.
#[allow(clippy::large_enum_variant, reason = "a plan is made once and shared")]
pub(super) enum Plan {
    /// As tree operations.
    Point(PointPlan),
    /// Through DataFusion, from this plan, whose memory is held until it goes.
    Query { plan: PlannedQuery, _memory: KeptPart },
    /// From its syntax each time. If it gives rows, their columns were told by these definitions.
    General { told_by: Option<Arc<Catalog>> },
}

impl Plan {
    /// Whether the definitions and rights that it relies on are those of this statement, and so are the settings that count.
    fn is_current(&self, context: &StatementContext<'_>, source: Source) -> bool {
        match self {
            Self::Point(plan) => plan.is_current(context),
            Self::Query { plan, .. } => {
                let means_the_same = match source {
                    Source::Prepare => plan.has_search_path_of(context),
                    Source::Text => plan.has_settings_of(context),
                };
                means_the_same && plan.is_current(context)
            }
            Self::General { told_by } => {
                let seen = context.transaction.world().catalog();
                told_by.as_ref().is_none_or(|told_by| Arc::ptr_eq(told_by, seen))
            }
        }
    }
}

/// A plan with which a statement has run from its text, and would run the same way again.
#[allow(clippy::large_enum_variant, reason = "it is moved once")]
pub(super) enum RunPlan {
    Point(PointPlan),
    Query(PlannedQuery),
}

/// Whether a statement is planned when it is prepared, or when its text is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// What its constants mean was decided when it was prepared. Its names are found by the search path of now.
    Prepare,
    /// Both mean what they mean now: all settings count.
    Text,
}

/// A statement as it is planned.
struct Planned {
    plan: Plan,
    parameter_types: Vec<ColumnType>,
    columns: Option<SchemaRef>,
    /// The types of parameters that are read as arrays.
    lists: Vec<Option<ParameterType>>,
}

impl Planned {
    fn by_key(plan: PointPlan) -> Self {
        let (parameter_types, columns) = (plan.parameter_types().to_vec(), plan.columns().cloned());
        Self { plan: Plan::Point(plan), parameter_types, columns, lists: Vec::new() }
    }

    fn general(parameter_types: Vec<ColumnType>, columns: Option<SchemaRef>) -> Self {
        Self { plan: Plan::General { told_by: None }, parameter_types, columns, lists: Vec::new() }
    }
}

/// A statement that is parsed and planned, to be run any number of times by the session that prepared it or
/// another of the same database.
pub struct Prepared {
    number: u64,
    sql: Box<str>,
    parsed: Parsed,
    planned: Planned,
    /// Whether the statement compares with an array that is a parameter.
    compares_with_lists: bool,
    is_query: IsQuery,
    source: Source,
}

impl Prepared {
    /// A statement without parameters that runs by key, with the plan that it has.
    pub(super) fn of_point(parsed: Parsed, sql: &str, plan: PointPlan) -> Arc<Self> {
        Self::new(parsed, sql, Planned::by_key(plan), Source::Text)
    }

    /// A query without parameters, with the plan that it has run with and the memory of that.
    pub(super) fn of_query(parsed: Parsed, sql: &str, plan: PlannedQuery, memory: KeptPart) -> Arc<Self> {
        let columns = Some(plan.columns().clone());
        let plan = Plan::Query { plan, _memory: memory };
        let planned = Planned { plan, parameter_types: Vec::new(), columns, lists: Vec::new() };
        Self::new(parsed, sql, planned, Source::Text)
    }

    fn new(parsed: Parsed, sql: &str, planned: Planned, source: Source) -> Arc<Self> {
        let (is_query, compares_with_lists) = match &parsed {
            Parsed::Statement(statement) => {
                let has_lists = planned.lists.iter().any(Option::is_some);
                (is_query_statement(statement), has_lists && compares_with_lists(statement))
            }
            Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => (IsQuery::No, false),
        };
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, sql: sql.into(), parsed, planned, compares_with_lists, is_query, source })
    }

    /// Refuses other columns than those that clients were told when it was prepared.
    ///
    /// # Errors
    /// `0A000` for others. What is wrong with the statement by now is said when it runs.
    fn require_columns(
        &self,
        context: &mut StatementContext<'_>,
        statement: &Statement,
    ) -> Result<(), SqlError> {
        let Some(told) = self.columns().filter(|_| self.source == Source::Prepare) else { return Ok(()) };
        match columns_by_now(context, statement) {
            Some(columns) if !are_alike(told, &columns) => {
                let message = "cached plan must not change result type";
                Err(SqlError::new(SqlState::FeatureNotSupported, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Its text.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The types of `$1`, `$2`, ...
    #[must_use]
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.planned.parameter_types
    }

    /// The types of `$1`, `$2`, ... as a client is told them: arrays are handed over as text.
    pub fn described_parameters(&self) -> impl Iterator<Item = ParameterType> {
        let Planned { parameter_types, lists, .. } = &self.planned;
        let described = parameter_types.iter().enumerate();
        described
            .map(move |(place, ty)| lists.get(place).copied().flatten().unwrap_or(ParameterType::Scalar(*ty)))
    }

    /// The columns of the rows it returns; `None` if it returns none.
    #[must_use]
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.planned.columns.as_ref()
    }

    /// Whether it is a query whose optimized plan is kept.
    #[cfg(test)]
    pub(super) fn keeps_optimized(&self) -> bool {
        matches!(&self.planned.plan, Plan::Query { plan, .. } if plan.keeps_optimized())
    }

    /// Whether it is a query whose physical plan is kept.
    #[cfg(test)]
    pub(super) fn keeps_physical(&self) -> bool {
        matches!(&self.planned.plan, Plan::Query { plan, .. } if plan.keeps_physical())
    }

    /// Whether it is a query whose next execution runs a copy of its physical plan, if it sees the same versions of its tables.
    #[cfg(test)]
    pub(super) fn may_copy_physical(&self) -> bool {
        matches!(&self.planned.plan, Plan::Query { plan, .. } if plan.may_copy_physical())
    }

    /// Forgets what the scans of its plan are estimated to give: of how many of them that was kept.
    #[cfg(test)]
    pub(super) fn forget_scans(&self) -> usize {
        if let Plan::Query { plan, .. } = &self.planned.plan { plan.forget_scans() } else { 0 }
    }

    /// The number by which a session finds a newer plan.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn parsed(&self) -> &Parsed {
        &self.parsed
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("sql", &self.sql)
            .field("parameter_types", &self.planned.parameter_types)
            .finish_non_exhaustive()
    }
}

/// Memory for a plan that a session keeps, among what it has for such plans.
///
/// # Errors
/// `53200` if there is none.
pub(super) fn memory_of(
    planned: &PlannedQuery,
    of_session: &mut Option<Arc<Kept>>,
    queries: &QueryEnvironment,
) -> Result<KeptPart, SqlError> {
    const WHAT: &str = "the plans of prepared statements";
    let kept = of_session.get_or_insert_with(|| Arc::new(queries.keep_nothing()));
    KeptPart::of(kept, planned.bytes(), WHAT).map_err(|error| {
        let hint = "DEALLOCATE prepared statements that are not needed any more, or give queries more memory \
                    (coeval serve --query-memory).";
        error.with_hint(hint)
    })
}

impl Session {
    pub(super) fn prepare_parsed(
        &mut self,
        mut parsed: Parsed,
        sql: &str,
        types: &[Option<ColumnType>],
    ) -> Result<Arc<Prepared>, SqlError> {
        let planned = match &mut parsed {
            Parsed::Statement(statement) if !is_session_statement(statement) => {
                self.refuse_if_failed()?;
                let (transaction, store) = (self.running_transaction(), self.engine.store());
                Sight { settings: &self.settings, transaction, store }.fix_instants(statement);
                self.plan(statement, sql, types).map_err(|error| self.fail(place_in(error, sql)))?
            }
            Parsed::Utility(utility) if utility.cursor_query().is_some() => {
                Planned::general(self.cursor_parameters(utility, sql, types)?, None)
            }
            Parsed::Statement(_) | Parsed::Definition(_) | Parsed::Utility(_) | Parsed::Checkpoint => {
                Planned::general(Vec::new(), self.columns_of_session_statement(&parsed))
            }
        };
        Ok(Prepared::new(parsed, sql, planned, Source::Prepare))
    }

    /// The types of the parameters of the query that a cursor is declared for.
    fn cursor_parameters(
        &mut self,
        utility: &Utility,
        sql: &str,
        types: &[Option<ColumnType>],
    ) -> Result<Vec<ColumnType>, SqlError> {
        self.refuse_if_failed()?;
        let Some(query) = utility.cursor_query() else { return Ok(Vec::new()) };
        let planned = self.plan(&query, sql, types).map_err(|error| self.fail(place_in(error, sql)))?;
        Ok(planned.parameter_types)
    }

    /// Runs a prepared statement that is not about data.
    pub(super) fn run_general(
        &mut self,
        prepared: &Prepared,
        parameters: &[Value],
    ) -> Result<StatementResult, SqlError> {
        if let Parsed::Utility(utility) = &prepared.parsed
            && let Utility::Declare(declare) = &**utility
        {
            let outcome = self.declare(declare, parameters, prepared.parameter_types());
            return outcome.map_err(|error| self.fail(error));
        }
        self.execute_one(&prepared.parsed, &prepared.sql, Neighbours::Some)
    }

    /// Plans a statement in the open block's transaction, or in one that is dropped again.
    fn plan(
        &mut self,
        statement: &Statement,
        sql: &str,
        types: &[Option<ColumnType>],
    ) -> Result<Planned, SqlError> {
        let engine = &self.engine;
        let mut own;
        let transaction = match &mut self.state {
            State::Active(block) => {
                let reader = (&**block, is_query_statement(statement));
                await_load(reader, self.spread.get_mut(), engine, &mut self.floor)?;
                self.spread.get_mut().note_shown(block.statement_place().isolation, engine);
                block.transaction(engine, &mut self.floor, &self.cancel)?
            }
            State::Idle | State::Failed(_) => {
                own = engine.store().begin(Isolation::Snapshot, self.settings.default_access());
                &mut own
            }
        };
        let point_path = self.settings.point_path();
        let resolved = user_types::resolved(statement, &self.settings, transaction);
        let types = &stated_types(&resolved, types, query::plain_type)[..];
        let parameter_types = resolved_types(types, types.len());
        let mut context = statement_context!(self, transaction, sql, Clock::start(), &[], &parameter_types);
        let types = dml::with_assigned_types(&mut context, statement, types)?;
        if point_path == PointPath::On
            // A change of a type is noticed by its tables' definitions; what names one may have none.
            && matches!(resolved, Cow::Borrowed(_))
            && let Some(plan) = PointPlan::compile(&context, statement, types.clone())
        {
            return Ok(Planned::by_key(plan));
        }
        match statement {
            Statement::Query(body) if dml::is_plain_query(body) => {
                let planned = query::plan(&mut context, body, &types)?;
                let (parameter_types, columns) =
                    (planned.parameter_types().to_vec(), Some(planned.columns().clone()));
                let lists = planned.special_parameters().to_vec();
                let is_sent = tique::is_sent_whole(&context, statement);
                let plan = if is_sent {
                    Plan::General { told_by: None }
                } else {
                    let memory = memory_of(&planned, &mut self.plan_memory, &engine.queries)?;
                    Plan::Query { plan: planned, _memory: memory }
                };
                Ok(Planned { plan, parameter_types, columns, lists })
            }
            other => {
                // It is checked when it runs.
                context.checks = Checks::Nothing;
                let (parameter_types, lists) = dml::parameter_types(&mut context, other, &types)?;
                let columns = description::columns_of(&mut context, other, &parameter_types);
                let told_by = columns.as_ref().map(|_| Arc::clone(context.transaction.world().catalog()));
                Ok(Planned { plan: Plan::General { told_by }, parameter_types, columns, lists })
            }
        }
    }

    /// The types of a prepared statement's parameters for its next execution: enums with the labels that they have by now.
    #[must_use]
    pub fn parameter_types<'p>(&self, prepared: &'p Prepared) -> Cow<'p, [ColumnType]> {
        let types = prepared.parameter_types();
        if types.iter().all(|ty| ty.user_type().is_none()) {
            return Cow::Borrowed(types);
        }
        self.with_catalog(|catalog| types.iter().map(|ty| user_types::current(*ty, catalog)).collect())
    }

    /// The type with this number in `pg_type`, if users have made it.
    #[must_use]
    pub fn user_type(&self, number: u32) -> Option<ColumnType> {
        self.with_catalog(|catalog| user_types::numbered(number, catalog))
    }

    /// Runs a prepared statement about data.
    pub(super) fn run_planned<T: Outcome>(
        &mut self,
        prepared: &Arc<Prepared>,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<T, SqlError> {
        let mut stale = false;
        let newer = self.replanned.get(&prepared.number).cloned();
        if self.engine.servers().are_there() {
            self.tique.lock().promise(prepared.planned.columns.clone());
        }
        let types = self.parameter_types(prepared);
        let result = self.in_transaction(&prepared.sql, parameters, &types, prepared.is_query, |context| {
            if prepared.compares_with_lists
                && context.settings.point_path() == PointPath::On
                && let Some(spelled) = spelled_out(statement, context.parameters)
                && let Some((result, _)) = by_key(context, &spelled)?
            {
                return Ok(result);
            }
            let plan = newer.as_deref().unwrap_or(&prepared.planned.plan);
            if !plan.is_current(context, prepared.source) {
                stale = true;
                return aside(|| {
                    prepared.require_columns(context, statement)?;
                    run_unplanned(context, statement)
                });
            }
            match plan {
                Plan::Point(plan) => match T::of_point(plan, context)? {
                    Some(result) => Ok(result),
                    None => aside(|| T::of_statement(context, statement)),
                },
                Plan::Query { plan, .. } => T::of_query(context, plan),
                Plan::General { .. } => aside(|| T::of_statement(context, statement)),
            }
        });
        if self.engine.servers().are_there() {
            // What this statement's client was told is nothing to the next one.
            self.tique.lock().promise(None);
        }
        let result = result?;
        if stale {
            self.replan(prepared, statement);
        }
        Ok(result)
    }

    /// Makes a new plan after a definition changed. If that fails the statement runs from its syntax.
    fn replan(&mut self, prepared: &Arc<Prepared>, statement: &Statement) {
        let types = self.parameter_types(prepared);
        let known: Vec<_> = types.iter().copied().map(Some).collect();
        let plan = match self.plan(statement, &prepared.sql, &known) {
            Ok(planned) if planned.parameter_types == *types => planned.plan,
            Ok(_) | Err(_) => Plan::General { told_by: None },
        };
        // Those of statements that have gone go with the others, which are planned again.
        if self.replanned.len() >= REPLANNED_MAX {
            self.replanned.clear();
        }
        self.replanned.insert(prepared.number, Arc::new(plan));
    }

    /// PREPARE, EXECUTE and DEALLOCATE.
    pub(super) fn named_statement(
        &mut self,
        statement: &Statement,
        sql: &str,
    ) -> Result<StatementResult, SqlError> {
        match statement {
            Statement::Prepare { name, data_types, statement: named } => {
                let name = fold(name);
                self.refuse_known_name(&name)?;
                let types = self.in_transaction(sql, &[], &[], IsQuery::No, |context| {
                    // Object ids and their like are what they are cast to.
                    let plain = |ty: &DataType| query::plain_type(ty).unwrap_or_else(|| ty.clone());
                    let declared = |ty| declared_type(&plain(ty), context.settings, context.transaction);
                    // A bit string is a parameter whatever its length is.
                    let of_parameter = |ty| declared(ty).map(|ty| Some(without_length(ty)));
                    data_types.iter().map(of_parameter).collect::<Result<Vec<_>, _>>()
                })?;
                let text = named.to_string();
                let parsed = Parsed::Statement(named.clone());
                let prepared = self.prepare_parsed(parsed, &text, &types)?;
                self.keep_named(&name, NamedStatement::Planned(prepared), Some(statement.to_string()))?;
                Ok(StatementResult::plain("PREPARE"))
            }
            Statement::Execute { name: Some(name), parameters, using, .. } if using.is_empty() => {
                let name = crate::names::fold_parts(name)?.join(".");
                let NamedStatement::Planned(prepared) = self.named(&name)?.clone() else {
                    return Ok(StatementResult::plain("EXECUTE"));
                };
                let types = self.parameter_types(&prepared).into_owned();
                let values = self.parameter_values(parameters, &types, sql)?;
                // Places are those in the text of PREPARE.
                self.run(&prepared, &values).map_err(SqlError::without_position)
            }
            Statement::Deallocate { name, .. } => {
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
                    self.named.clear();
                    self.replanned.clear();
                    return Ok(StatementResult::plain("DEALLOCATE ALL"));
                }
                let name = fold(name);
                self.named(&name)?;
                self.forget_statement(&name);
                Ok(StatementResult::plain("DEALLOCATE"))
            }
            other => Err(SqlError::unsupported(crate::names::statement_name(other))),
        }
    }

    /// The values of EXECUTE's arguments, cast to the parameters' types.
    fn parameter_values(
        &mut self,
        arguments: &[datafusion::sql::sqlparser::ast::Expr],
        types: &[ColumnType],
        sql: &str,
    ) -> Result<Vec<Value>, SqlError> {
        if arguments.is_empty() {
            return Ok(Vec::new());
        }
        let given = arguments.iter().enumerate().map(|(place, argument)| match types.get(place) {
            Some(ty) => given_to_column(argument, *ty).to_string(),
            None => argument.to_string(),
        });
        let list: Vec<String> = given.collect();
        let parsed = parse(&format!("SELECT {}", list.join(", ")))?;
        let [Parsed::Statement(statement)] = &parsed[..] else {
            return Err(SqlError::syntax("the arguments of EXECUTE are expressions"));
        };
        let Statement::Query(body) = &**statement else {
            return Err(SqlError::syntax("the arguments of EXECUTE are expressions"));
        };
        let rows =
            self.in_transaction(sql, &[], &[], IsQuery::No, |context| query::collect(context, body))?;
        query::single_row(&rows, types, self.settings.zone())
    }
}

/// The columns that a statement has in this transaction; `None` if it has none, or is wrong.
fn columns_by_now(context: &mut StatementContext<'_>, statement: &Statement) -> Option<SchemaRef> {
    let types = context.parameter_types;
    let resolved = user_types::resolved(statement, context.settings, context.transaction);
    if context.settings.point_path() == PointPath::On
        && matches!(resolved, Cow::Borrowed(_))
        && let Some(plan) = PointPlan::compile(context, statement, types.iter().copied().map(Some).collect())
    {
        return plan.columns().cloned();
    }
    description::columns_of(context, statement, types)
}

/// Whether columns have the same names and types. Lengths and digits may be others: nobody relies on them.
fn are_alike(some: &Schema, others: &Schema) -> bool {
    let name_of = |field: &Field| match column_type_of_field(field) {
        Some(ty) => type_name(ty),
        None => type_in_words(field.data_type()),
    };
    let mut pairs = some.fields().iter().zip(others.fields());
    some.fields().len() == others.fields().len()
        && pairs.all(|(one, other)| one.name() == other.name() && name_of(one) == name_of(other))
}

/// Runs a statement by key, from its syntax; also its plan, if it would run the same way again. `None` if that is no way to run it.
fn by_key<T: Outcome>(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<Option<(T, Option<PointPlan>)>, SqlError> {
    let resolved = user_types::resolved(statement, context.settings, context.transaction);
    let Some(plan) = PointPlan::compile_to_run(context, &resolved) else { return Ok(None) };
    let Some(outcome) = T::of_point(&plan, context)? else { return Ok(None) };
    // A change of a type is noticed by its tables' definitions; what names one may have none.
    let is_kept = matches!(resolved, Cow::Borrowed(_));
    Ok(Some((outcome, is_kept.then_some(plan))))
}

/// Runs a statement from its syntax.
pub(super) fn run_unplanned<T: Outcome>(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<T, SqlError> {
    run_and_plan(context, statement).map(|(outcome, _)| outcome)
}

/// Runs a statement from its syntax; also its plan, if it would run the same way again.
pub(super) fn run_and_plan<T: Outcome>(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<(T, Option<RunPlan>), SqlError> {
    if let Some((outcome, plan)) = by_key(context, statement)? {
        return Ok((outcome, plan.map(RunPlan::Point)));
    }
    aside(|| match query_of(context, statement) {
        Some(query) => {
            let planned = query::plan(context, query, &[])?;
            let outcome = T::of_query(context, &planned)?;
            Ok((outcome, planned.can_be_kept().then_some(RunPlan::Query(planned))))
        }
        None => T::of_statement(context, statement).map(|outcome| (outcome, None)),
    })
}

/// The query that a statement is, if it runs here from a plan of its own: it changes and locks nothing, names no types of users, and no
/// other engine may have a part in it.
fn query_of<'s>(context: &StatementContext<'_>, statement: &'s Statement) -> Option<&'s Query> {
    let Statement::Query(query) = statement else { return None };
    let is_ours = !context.engine.servers().are_there()
        && context.parameter_types.is_empty()
        && dml::is_plain_query(query)
        && matches!(user_types::resolved(statement, context.settings, context.transaction), Cow::Borrowed(_));
    is_ours.then_some(query)
}

/// What a caller wants of a statement: how each way to run one gives it.
pub(super) trait Outcome: Sized {
    /// Of the point path; `None` if the statement is not for it after all.
    ///
    /// # Errors
    /// As the statement.
    fn of_point(plan: &PointPlan, context: &mut StatementContext<'_>) -> Result<Option<Self>, SqlError>;

    /// Of a statement whose rows are all there.
    ///
    /// # Errors
    /// If the rows cannot be given as wanted: a bug.
    fn of_result(result: StatementResult) -> Result<Self, SqlError>;

    /// Of a planned query.
    ///
    /// # Errors
    /// As the query.
    fn of_query(context: &mut StatementContext<'_>, plan: &PlannedQuery) -> Result<Self, SqlError> {
        query::run(context, plan).and_then(Self::of_result)
    }

    /// Of a statement on the general path.
    ///
    /// # Errors
    /// As the statement.
    fn of_statement(context: &mut StatementContext<'_>, statement: &Statement) -> Result<Self, SqlError> {
        statement::execute(context, statement).and_then(Self::of_result)
    }
}

/// Rows as Arrow arrays.
impl Outcome for StatementResult {
    fn of_point(plan: &PointPlan, context: &mut StatementContext<'_>) -> Result<Option<Self>, SqlError> {
        plan.execute(context)
    }

    fn of_result(result: StatementResult) -> Result<Self, SqlError> {
        Ok(result)
    }
}

/// Rows as values.
impl Outcome for (CommandTag, Rows) {
    fn of_point(plan: &PointPlan, context: &mut StatementContext<'_>) -> Result<Option<Self>, SqlError> {
        let outcome = plan.execute_rows(context)?;
        Ok(outcome.map(|outcome| (plan.tag(outcome.count), outcome.rows.unwrap_or_default())))
    }

    fn of_result(result: StatementResult) -> Result<Self, SqlError> {
        let rows = match &result.rows {
            Some(rows) => Rows::of_batches(&rows.batches)?,
            None => Rows::default(),
        };
        Ok((result.tag, rows))
    }
}

#[cfg(test)]
mod template_tests;
#[cfg(test)]
mod tests;
