// SPDX-License-Identifier: Apache-2.0
//! Names in a query, resolved in the transaction's catalog: tables, views, system tables, functions.

mod remote;
mod view_sizes;

use super::apply::Extent;
use super::mistakes::{AskedOperators, Asks, asked_function};
use super::row_order::RowOrder;
use super::typing::OuterTables;
use crate::cancel;
use crate::catalog::{Source, ViewColumns};
use crate::context::Parts;
use crate::context::StatementContext;
use crate::engine::Engine;
use crate::error::{SqlError, SqlState};
use crate::names::{resolve, unknown_table};
use crate::open_objects::OpenObjects;
use crate::provider::{CoevalTable, HiddenColumns, Keys};
use crate::rights::{Authority, CHANGED_VIEW, Checks, Kind, Object, Rights};
use crate::settings::Settings;
use crate::stack::with_room;
use crate::temporary::is_temporary;
use crate::types::view_column;
use crate::walk::any_expression;
use arrow::datatypes::DataType;
use coeval_store::{
    ObjectRef, Privilege, QualifiedName, SpaceId, TableDef, Transaction, ViewColumn, ViewDef,
};
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::config::ConfigOptions;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF, col,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, Statement};
use remote::Remote;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use view_sizes::ViewSizes;

/// How deep views may stand on views.
const VIEW_DEPTH_MAX: usize = 32;

/// Resolves the names of one statement.
pub(super) struct Planner<'a> {
    state: &'a SessionState,
    settings: &'a Settings,
    transaction: &'a Transaction,
    engine: &'a Arc<Engine>,
    /// With whose rights names are resolved: the session's, within a view its owner's.
    rights: RefCell<Rights>,
    /// The table that nobody's rights are needed to read; if a view is changed, in that view.
    exempt: Option<SpaceId>,
    /// The view that the statement changes, with the keys of its table.
    changed: Option<Arc<ViewDef>>,
    /// What the session has open.
    open: OpenObjects<'a>,
    /// What other parts of the statement have returned.
    parts: Option<Arc<Parts>>,
    /// Whether the statement names `tableoid`.
    has_table_ids: bool,
    expression_planners: Vec<Arc<dyn ExprPlanner>>,
    hidden: HiddenColumns,
    keys: Keys,
    asks: Asks,
    tables: RefCell<Vec<Arc<TableDef>>>,
    reads_system_tables: Cell<bool>,
    reads_views: Cell<bool>,
    takes_sequence_values: Cell<bool>,
    asks_the_catalog: Cell<bool>,
    /// Whether a table is named of which not all columns may be read.
    bars_columns: Cell<bool>,
    /// The views that are being planned, each within the one before.
    within: RefCell<Vec<QualifiedName>>,
    view_sizes: RefCell<ViewSizes>,
}

/// What a planned statement depends on.
pub(super) struct Dependencies {
    /// The tables it names, itself or through views.
    pub(super) tables: Vec<Arc<TableDef>>,
    /// Whether it reads system tables, which are made while it is planned, so that no plan of it is kept.
    pub(super) unkept: bool,
    /// Whether it reads views.
    pub(super) reads_views: bool,
    /// Whether it calls `nextval` or its like.
    pub(super) takes_sequence_values: bool,
    /// Whether it calls a function of the catalog.
    pub(super) asks_the_catalog: bool,
}

impl Dependencies {
    /// In which order the rows come.
    pub(super) fn row_order(&self) -> RowOrder {
        if self.takes_sequence_values { RowOrder::OfOneThread } else { RowOrder::Any }
    }
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        state: &'a SessionState,
        context: &'a StatementContext<'_>,
        query: &Query,
        hidden: HiddenColumns,
        keys: Keys,
        asks: Asks,
    ) -> Self {
        let find = |name: &ObjectName| crate::names::table(name, context.settings, context.transaction).ok();
        let mut expression_planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(OuterTables::of(query, find))];
        expression_planners.extend_from_slice(state.expr_planners());
        if asks == Asks::Why {
            expression_planners.push(Arc::new(AskedOperators));
        }
        Self {
            expression_planners,
            state,
            settings: context.settings,
            transaction: context.transaction,
            engine: context.engine,
            open: context.open,
            parts: context.parts.clone(),
            has_table_ids: names_table_ids(query),
            rights: RefCell::new(match context.checks {
                Checks::Nothing => Rights::of_owner(None, context.authority()),
                Checks::All | Checks::AllBut(_) | Checks::OfView(..) => context.rights(),
            }),
            exempt: match context.checks {
                Checks::AllBut(table) | Checks::OfView(table, _) => Some(table),
                Checks::All | Checks::Nothing => None,
            },
            changed: match &context.checks {
                Checks::OfView(_, view) => Some(Arc::clone(view)),
                Checks::All | Checks::AllBut(_) | Checks::Nothing => None,
            },
            hidden,
            keys,
            asks,
            tables: RefCell::default(),
            reads_system_tables: Cell::new(false),
            reads_views: Cell::new(false),
            takes_sequence_values: Cell::new(false),
            asks_the_catalog: Cell::new(false),
            bars_columns: Cell::new(false),
            within: RefCell::default(),
            view_sizes: RefCell::default(),
        }
    }

    /// The logical plan of a query.
    pub(super) fn plan(&self, query: &Query, mut names: PlannerContext) -> Result<LogicalPlan> {
        self.checked(logical_plan(self, query.clone(), &mut names)?, query)
    }

    /// The plan of a query that uses no column which may not be read.
    fn checked(&self, plan: LogicalPlan, query: &Query) -> Result<LogicalPlan> {
        if self.bars_columns.get() {
            super::readable_columns::check(&plan, query)?;
        }
        Ok(plan)
    }

    /// The same on a thread of its own, which asks here for what only this statement knows.
    pub(super) fn plan_apart(&self, query: &Arc<Query>, mut names: PlannerContext) -> Result<LogicalPlan> {
        let (engine, planned) = (Arc::clone(self.engine), Arc::clone(query));
        let (planners, asks) = (self.expression_planners.clone(), self.asks);
        let work = move |asking| {
            let remote = Remote::new(engine, planners, asking, asks);
            let plan = logical_plan(&remote, Query::clone(&planned), &mut names);
            Ok((plan, remote.uses()))
        };
        let (plan, uses) = self.engine.runtime().apart_asking(work, |question| question.answer(self))?;
        self.takes_sequence_values.set(self.takes_sequence_values.get() | uses.sequence_values);
        self.asks_the_catalog.set(self.asks_the_catalog.get() | uses.catalog);
        self.checked(plan?, query)
    }

    /// Which of the query's subqueries run for each row.
    pub(super) fn extent(&self) -> Extent {
        match self.reads_system_tables.get() || self.reads_views.get() {
            true => Extent::AllCorrelated,
            false => Extent::OnlyOthers,
        }
    }

    pub(super) fn into_dependencies(self) -> Dependencies {
        Dependencies {
            tables: self.tables.into_inner(),
            unkept: self.reads_system_tables.get(),
            reads_views: self.reads_views.get(),
            takes_sequence_values: self.takes_sequence_values.get(),
            asks_the_catalog: self.asks_the_catalog.get(),
        }
    }

    /// A table, of which these columns may be read; `None`: all.
    fn table(&self, def: Arc<TableDef>, readable: Option<Vec<usize>>) -> Arc<dyn TableSource> {
        let mut tables = self.tables.borrow_mut();
        if !tables.iter().any(|known| known.id == def.id) {
            tables.push(Arc::clone(&def));
        }
        let table = CoevalTable::new(def, self.hidden, self.keys);
        provider_as_source(Arc::new(match readable {
            None => table,
            Some(readable) => {
                self.bars_columns.set(true);
                table.of_columns(readable)
            }
        }))
    }

    /// A view is the plan of its query, with its own column names. Of these some may be read; `None`: all.
    fn view(&self, view: &ViewDef, readable: Option<Vec<usize>>) -> Result<Arc<dyn TableSource>> {
        self.refuse_endless_views(view)?;
        cancel::check()?;
        self.reads_views.set(true);
        let rights = Rights::of_view(view, &self.authority())?;
        let mut plan = self.view_plan_with(view, rights)?;
        if let Some(readable) = readable {
            self.bars_columns.set(true);
            plan = super::readable_columns::barring(plan, &view.name.name, &readable)?;
        }
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }

    /// The plan of a view with these rights, which counts with those of the statement's other views.
    fn view_plan_with(&self, view: &ViewDef, rights: Rights) -> Result<LogicalPlan> {
        let before = self.view_sizes.borrow().note_text(view)?;
        self.within.borrow_mut().push(view.name.clone());
        let plan = self.with_rights(rights, || with_room(|| self.view_plan(view)));
        self.within.borrow_mut().pop();
        let plan = plan?;
        self.view_sizes.borrow().note_plan(view, &plan, before)?;
        Ok(plan)
    }

    /// Refuses a view that is within itself, by way of whatever others, and more views than the stack has room for.
    fn refuse_endless_views(&self, view: &ViewDef) -> Result<()> {
        let within = self.within.borrow();
        if within.contains(&view.name) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name.name);
            let error = SqlError::new(SqlState::InvalidObjectDefinition, message);
            return Err(error.with_hint("The view selects from itself by way of others.").into());
        }
        if within.len() >= VIEW_DEPTH_MAX {
            let message = format!("views are nested too deeply at \"{}\"", view.name.name);
            let hint = format!(
                "At most {VIEW_DEPTH_MAX} views may stand on each other. Keep the rows of one in a table."
            );
            return Err(SqlError::new(SqlState::StatementTooComplex, message).with_hint(hint).into());
        }
        Ok(())
    }

    /// Whether a table is read without a right to it.
    fn is_exempt(&self, table: SpaceId) -> bool {
        let is_here = self.changed.as_ref().is_none_or(|view| *self.within.borrow() == [view.name.clone()]);
        is_here && self.exempt == Some(table)
    }

    fn is_within_view(&self) -> bool {
        !self.within.borrow().is_empty()
    }

    fn authority(&self) -> Authority {
        self.rights.borrow().authority().clone()
    }

    /// Plans something with these rights.
    fn with_rights<T>(&self, rights: Rights, plan: impl FnOnce() -> T) -> T {
        let before = self.rights.replace(rights);
        let planned = plan();
        self.rights.replace(before);
        planned
    }

    /// Refuses what may not be read.
    fn require_select(&self, object: Object<'_>) -> Result<()> {
        Ok(self.rights.borrow().require(object, Privilege::Select)?)
    }

    fn view_plan(&self, view: &ViewDef) -> Result<LogicalPlan> {
        let mut parsed = crate::parse::parse_query(&view.query)?;
        super::typing::without_subqueries_in_values(&mut parsed);
        let mut query = super::output_names::named(&parsed);
        let find = |name: &ObjectName| super::scopes::found(name, self.settings, self.transaction, None);
        super::outer_outputs::named(&mut query, &find);
        super::names_beside_stars::give_back(&mut query, &find);
        super::table_changes::written_out(&mut query, &find)?;
        crate::user_types::resolve(&mut query, self.settings, self.transaction);
        super::populated::written_out(&mut query, &find);
        super::whole_rows::counted(&mut query, &find)?;
        super::using::written_out(&mut query, &find);
        super::outer_aggregates::computed_outside(&mut query, &find, self.state)?;
        super::dialect::in_dialect(&mut query)?;
        super::typing::with_typed_literals(&mut query)?;
        let plan = self.plan(&query, PlannerContext::new())?;
        let shown = super::output_names::shown(plan.schema().as_arrow());
        let given = |index: usize| view.columns.get(index).unwrap_or_else(|| shown.field(index).name());
        let expressions: Vec<_> = plan
            .schema()
            .columns()
            .into_iter()
            .enumerate()
            .map(|(index, column)| col(column).alias(given(index)))
            .collect();
        LogicalPlanBuilder::from(plan).project(expressions)?.build()
    }

    /// The columns of the views as their definitions have them, but of other sessions' temporary ones.
    ///
    /// # Errors
    /// That of a cancelled statement.
    fn view_columns(&self) -> Result<ViewColumns> {
        let own = self.settings.temporary().schema();
        let mut found = ViewColumns::new();
        for view in self.transaction.catalog().views() {
            if is_temporary(&view.name.schema) && view.name.schema != own {
                continue;
            }
            let columns = match &view.output {
                Some(columns) => Some(columns.clone()),
                None => self.planned_columns(view)?,
            };
            found.extend(columns.map(|columns| (view.name.clone(), columns)));
        }
        Ok(found)
    }

    /// The columns of a view made by a program that did not keep them, if it can be planned. Within a view there are none:
    /// views that list columns would plan each other without end.
    ///
    /// # Errors
    /// That of a cancelled statement.
    fn planned_columns(&self, view: &ViewDef) -> Result<Option<Vec<ViewColumn>>> {
        if self.is_within_view() {
            return Ok(None);
        }
        cancel::check()?;
        let everything = Rights::of_owner(None, self.authority());
        // It is no part of the statement, so it counts alone.
        let before = self.view_sizes.take();
        let plan = self.view_plan_with(view, everything);
        self.view_sizes.replace(before);
        let Ok(plan) = plan else { return cancel::check().map(|()| None).map_err(Into::into) };
        let fields = plan.schema().fields().iter();
        Ok(Some(fields.map(|field| view_column(field.name().clone(), field)).collect()))
    }

    fn source(&self, schema: Option<&str>, name: &str) -> Result<Arc<dyn TableSource>> {
        if let (None, false, Some(parts)) = (schema, self.is_within_view(), &self.parts)
            && let Some(provider) = parts.provider(name)?
        {
            self.reads_system_tables.set(true);
            return Ok(provider_as_source(provider));
        }
        if let (Some(CHANGED_VIEW), Some(view)) = (schema, &self.changed) {
            // The statement has all that it needs of it.
            return self.view(view, None);
        }
        // A view names other relations with their schemas, and means the system's own whatever its reader's path is.
        // Any other name without one is not looked up: it would be read with the rights of the view's owner.
        let is_of_view = self.is_within_view() && schema.is_none();
        if !is_of_view && let Some(found) = resolve(schema, name, self.settings, self.transaction) {
            return self.object(&found);
        }
        let source = Source {
            engine: self.engine,
            transaction: self.transaction,
            settings: self.settings,
            open: self.open,
            has_table_ids: self.has_table_ids,
        };
        let view_columns = match crate::catalog::lists_columns(name) {
            true => self.view_columns()?,
            false => ViewColumns::new(),
        };
        if crate::catalog::is_secret(name) && !self.rights.borrow().is_superuser() {
            return Err(crate::rights::denied(Kind::Table, name).into());
        }
        if let Some(provider) = crate::system::provider(schema, name, &source, &view_columns)? {
            self.reads_system_tables.set(true);
            return Ok(provider_as_source(provider));
        }
        if let (None, false, Some(frame)) = (schema, self.is_within_view(), self.open.frame(name)) {
            self.reads_system_tables.set(true);
            return Ok(provider_as_source(frame));
        }
        if let (None, false, true) = (schema, self.is_within_view(), self.open.may_read_files())
            && let Some(files) = self.files(name)?
        {
            self.reads_system_tables.set(true);
            return Ok(provider_as_source(files));
        }
        let full = schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"));
        Err(unknown_table(&full).into())
    }

    /// The files of this name, if it is one of files.
    fn files(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !super::files::is_name_of_files(name) {
            return Ok(None);
        }
        // They are looked at while the query is planned, also where what a statement reads is checked when it runs.
        if !Rights::of(self.settings.principal(), self.authority()).is_superuser() {
            return Err(super::files::refused().into());
        }
        Ok(Some(super::files::provider(name, self.engine, self.state)?))
    }

    fn object(&self, name: &QualifiedName) -> Result<Arc<dyn TableSource>> {
        match self.transaction.catalog().resolve(name) {
            Some(ObjectRef::Table(_)) => match self.transaction.resolve_table(name) {
                Some(def) => {
                    let readable = match self.is_exempt(def.id) {
                        true => None,
                        false => self.rights.borrow().readable(&def)?,
                    };
                    Ok(self.table(def, readable))
                }
                None => Err(unknown_table(&name.name).into()),
            },
            Some(ObjectRef::View) => match self.transaction.catalog().view(name) {
                Some(view) => {
                    let readable = self.rights.borrow().readable_of_view(view)?;
                    self.view(&Arc::clone(view), readable)
                }
                None => Err(unknown_table(&name.name).into()),
            },
            Some(ObjectRef::Sequence(id)) => match self.transaction.catalog().sequence(id) {
                Some(sequence) => {
                    self.require_select(Object::Sequence(sequence))?;
                    self.reads_system_tables.set(true);
                    let row = crate::catalog::sequence_row(self.engine.store(), sequence)?;
                    Ok(provider_as_source(row))
                }
                None => Err(unknown_table(&name.name).into()),
            },
            Some(ObjectRef::Index(..)) => {
                let message = format!("\"{}\" is not a table or view", name.name);
                Err(SqlError::new(SqlState::WrongObjectType, message).into())
            }
            None => Err(unknown_table(&name.name).into()),
        }
    }
}

/// The table of a recursive query's rows of the step before.
fn work_table(name: &str, schema: arrow::datatypes::SchemaRef) -> Result<Arc<dyn TableSource>> {
    let table = datafusion::catalog::cte_worktable::CteWorkTable::new(name, schema);
    Ok(provider_as_source(Arc::new(table)))
}

/// The logical plan of a query whose names are found there.
fn logical_plan(
    names: &impl ContextProvider,
    query: Query,
    context: &mut PlannerContext,
) -> Result<LogicalPlan> {
    let options =
        ParserOptions { parse_float_as_decimal: true, collect_spans: true, ..ParserOptions::default() };
    let statement = Statement::Query(Box::new(query));
    SqlToRel::new_with_options(names, options).sql_statement_to_plan_with_context(statement, context)
}

/// Whether an expression of the query names `tableoid`.
fn names_table_ids(query: &Query) -> bool {
    let named = |ident: &Ident| ident.value.eq_ignore_ascii_case("tableoid");
    any_expression(query, |expression| match expression {
        Expr::Identifier(ident) => named(ident),
        Expr::CompoundIdentifier(idents) => idents.last().is_some_and(named),
        _ => false,
    })
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.source(name.schema(), name.table())
    }

    fn get_table_function_source(
        &self,
        name: &str,
        arguments: Vec<datafusion::logical_expr::Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(name) else {
            let message = format!("function {name} does not exist");
            return Err(SqlError::new(SqlState::UndefinedFunction, message).into());
        };
        let arguments = datafusion::catalog::TableFunctionArgs::new(&arguments, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(arguments)?))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: arrow::datatypes::SchemaRef,
    ) -> Result<Arc<dyn TableSource>> {
        work_table(name, schema)
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expression_planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(super::typing::Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if crate::sequences::is_sequence_function(name) {
            self.takes_sequence_values.set(true);
        }
        if crate::catalog::is_catalog_function(name) {
            self.asks_the_catalog.set(true);
        }
        let known = self.state.scalar_functions().get(name).cloned();
        known.or_else(|| asked_function(self.asks, name, self.state))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
