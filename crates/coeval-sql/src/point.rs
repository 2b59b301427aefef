// SPDX-License-Identifier: Apache-2.0
//! The point path: statements that touch few rows by key, as direct tree operations.
//!
//! A statement is compiled once into a [`PointPlan`]: which keys to look up ([`access`]), what to compute from
//! the rows ([`crate::scalar`]) and what to do with them. Running it plans nothing, parses nothing and formats
//! nothing. Outer joins are steps of their own ([`choice`]), and subqueries that are asked by keys are walks within the walk
//! ([`subquery`]). What does not fit (no key in the predicate, other subqueries, window functions, ...) is not
//! an error here: the statement goes to DataFusion or the general DML, which give the same rows and errors.
//!
//! A SELECT whose range turns out to be long gives up after [`select::ROWS_VISITED_MAX`] rows, and so does a change that joins or asks
//! subqueries: scanning many rows is DataFusion's business. So does whatever keeps much of the rows that it visits (`walk.rs`), for which
//! the general path asks the memory budget.

mod access;
mod aggregate;
mod change;
mod choice;
mod condition;
mod conflict;
mod delete;
mod environment;
mod found_memory;
mod insert;
mod key;
mod output;
mod select;
mod select_plan;
mod source;
mod subquery;
mod update;
mod walk;

pub use output::Rows;
pub(crate) use source::conjuncts;

use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parameters::ParameterTypes;
use crate::result::{CommandTag, StatementResult};
use crate::rights::MadeFor;
use crate::scalar::Refusal;
use crate::settings::PointPath;
use arrow::datatypes::SchemaRef;
use coeval_store::{AccessMode, Catalog, ColumnType};
use datafusion::sql::sqlparser::ast::Statement;
use delete::DeletePlan;
use environment::StatementEnvironment;
use insert::InsertPlan;
use output::Output;
use select_plan::SelectPlan;
use source::Planner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use update::UpdatePlan;

#[cfg(test)]
thread_local! {
    static COMPILATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many statements this thread has compiled so far.
#[cfg(test)]
pub(crate) fn compilations() -> usize {
    COMPILATIONS.get()
}

/// A statement compiled to operations on trees.
#[derive(Debug)]
pub(crate) struct PointPlan {
    action: Action,
    parameter_types: Vec<ColumnType>,
    /// The definitions it was compiled against; another catalog means another plan.
    catalog: Arc<Catalog>,
    /// The schemas in which its names were found: others mean another plan.
    search_path: Arc<[String]>,
    /// Who may run it: another one's rights mean another plan.
    made_for: MadeFor,
    /// Whether a run has met more rows than this path is for.
    outgrown: AtomicBool,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a plan is made once and shared")]
enum Action {
    Select(SelectPlan),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
}

/// What a run of a plan gives: how many rows it is about, and the rows it returns.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) count: u64,
    pub(crate) rows: Option<Rows>,
}

impl PointPlan {
    /// The plan of a statement; `None` if it is not one for this path. Parameter types that the caller knows
    /// stand in `types`; the others are inferred from where the parameters stand. A statement that is wrong is left to the general path,
    /// whose message it gets.
    pub(crate) fn compile(
        context: &StatementContext<'_>,
        statement: &Statement,
        types: Vec<Option<ColumnType>>,
    ) -> Option<Self> {
        #[cfg(test)]
        COMPILATIONS.set(COMPILATIONS.get() + 1);
        let mut planner = Planner::new(context, ParameterTypes(types));
        let action = Self::action(&mut planner, statement).ok()?;
        Some(Self {
            action,
            parameter_types: planner.parameters.resolved(),
            catalog: Arc::clone(context.transaction.world().catalog()),
            search_path: context.settings.shared_search_path(),
            made_for: MadeFor::new(context.settings.principal(), context.transaction, context.engine.store()),
            outgrown: AtomicBool::new(false),
        })
    }

    /// The plan of a statement that is to run now, with the parameters that the context has; `None` if it is not one for this path, or
    /// if the session does not want it.
    pub(crate) fn compile_to_run(context: &StatementContext<'_>, statement: &Statement) -> Option<Self> {
        if context.settings.point_path() == PointPath::Off {
            return None;
        }
        Self::compile(context, statement, context.parameter_types.iter().copied().map(Some).collect())
    }

    fn action(planner: &mut Planner<'_>, statement: &Statement) -> Result<Action, Refusal> {
        match statement {
            Statement::Query(query) => SelectPlan::compile(planner, query).map(Action::Select),
            Statement::Insert(insert) => InsertPlan::compile(planner, insert).map(Action::Insert),
            Statement::Update(update) => UpdatePlan::compile(planner, update).map(Action::Update),
            Statement::Delete(delete) => DeletePlan::compile(planner, delete).map(Action::Delete),
            _ => Err(Refusal::unsupported("this statement")),
        }
    }

    /// Whether the definitions and rights that the plan relies on are those of this statement, and names are found as they were.
    pub(crate) fn is_current(&self, context: &StatementContext<'_>) -> bool {
        Arc::ptr_eq(&self.catalog, context.transaction.world().catalog())
            && *self.search_path == *context.settings.search_path()
            && self.made_for.is_current(
                context.settings.principal(),
                context.transaction,
                context.engine.store(),
            )
    }

    /// The types of the parameters.
    pub(crate) fn parameter_types(&self) -> &[ColumnType] {
        &self.parameter_types
    }

    /// The columns of the rows it returns, if it returns any.
    pub(crate) fn columns(&self) -> Option<&SchemaRef> {
        self.output().map(Output::schema)
    }

    fn output(&self) -> Option<&Output> {
        match &self.action {
            Action::Select(plan) => Some(plan.output()),
            Action::Insert(plan) => plan.output(),
            Action::Update(plan) => plan.output(),
            Action::Delete(plan) => plan.output(),
        }
    }

    /// Runs it. `None`: there are more rows than this path is for, nothing was changed, and the general path
    /// is to run the statement.
    ///
    /// # Errors
    /// As the statement on the general path.
    pub(crate) fn execute(
        &self,
        context: &mut StatementContext<'_>,
    ) -> Result<Option<StatementResult>, SqlError> {
        let Some(outcome) = self.execute_rows(context)? else { return Ok(None) };
        let rows = match (outcome.rows, self.output()) {
            (Some(rows), Some(output)) => Some(output.row_set(&rows)?),
            _ => None,
        };
        Ok(Some(StatementResult { tag: self.tag(outcome.count), rows }))
    }

    /// `25006` for a change in a read-only transaction, whether it would find rows or not.
    fn refuse_read_only(&self, context: &StatementContext<'_>) -> Result<(), SqlError> {
        let verb = match self.action {
            Action::Select(_) => return Ok(()),
            Action::Insert(_) => "INSERT",
            Action::Update(_) => "UPDATE",
            Action::Delete(_) => "DELETE",
        };
        if context.transaction.is_read_only() {
            let message = format!("cannot execute {verb} in a read-only transaction");
            return Err(SqlError::new(SqlState::ReadOnlySqlTransaction, message));
        }
        Ok(())
    }

    /// The command tag for this many rows.
    pub(crate) fn tag(&self, count: u64) -> CommandTag {
        match self.action {
            Action::Select(_) => CommandTag::Select(count),
            Action::Insert(_) => CommandTag::Insert(count),
            Action::Update(_) => CommandTag::Update(count),
            Action::Delete(_) => CommandTag::Delete(count),
        }
    }

    /// As [`Self::execute`], without making Arrow arrays of the rows.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub(crate) fn execute_rows(
        &self,
        context: &mut StatementContext<'_>,
    ) -> Result<Option<Outcome>, SqlError> {
        if self.outgrown.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.refuse_read_only(context)?;
        let engine = context.engine;
        let environment = StatementEnvironment::new(
            engine,
            context.clock,
            context.settings.zone(),
            context.sequences,
            if context.transaction.is_read_only() { AccessMode::ReadOnly } else { AccessMode::ReadWrite },
        );
        let (transaction, parameters) = (&mut *context.transaction, context.parameters);
        let outcome = match &self.action {
            Action::Select(plan) => {
                if transaction.is_read_only() {
                    // The transaction itself notes reads, but not of declared readers.
                    context.spread.lock().note_rows_read();
                }
                plan.run(transaction, parameters, &environment)?
            }
            Action::Insert(plan) => Some(plan.run(transaction, parameters, &environment, &engine.queries)?),
            Action::Update(plan) => plan.run(transaction, parameters, &environment, &engine.queries)?,
            Action::Delete(plan) => plan.run(transaction, parameters, &environment, &engine.queries)?,
        };
        if outcome.is_none() {
            self.outgrown.store(true, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    /// What EXPLAIN prints, line by line.
    pub(crate) fn explain(&self) -> Vec<String> {
        match &self.action {
            Action::Select(plan) => plan.explain(),
            Action::Insert(plan) => plan.explain(),
            Action::Update(plan) => plan.explain(),
            Action::Delete(plan) => plan.explain(),
        }
    }
}

#[cfg(test)]
mod tests;
