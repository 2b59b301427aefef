// SPDX-License-Identifier: Apache-2.0
//! How many rows a relation has and how many distinct values its columns, in the statement's snapshot.
//!
//! Of a table its filters are tried on a sample, and values are counted there where keys and bounds do not tell them. What a subquery gives
//! is made of columns of tables (`value_origins`). Whatever was asked of a sample is known to the statement's scans, too.

mod filtered;
mod value_origins;

use crate::carried::Carry;
use crate::provider::{
    Answers, CoevalTable, Question, StatementSnapshot, distinct_in_column, distinct_results, known_bounds,
    known_distinct_values, selectivity,
};
use crate::query::generic_plan::SampleValues;
use crate::stack::with_room;
use coeval_store::{TableSummary, TableView};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableScan};
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
pub(in crate::query) use filtered::named_values;
use std::sync::Arc;

/// Rows of what nothing is known of, such as a table function.
const UNKNOWN_ROWS: f64 = 1_000.0;

/// Share of rows that a filter lets through if it cannot be tried.
const UNKNOWN_SELECTIVITY: f64 = 0.2;

/// A relation of a cluster of joins, as far as it is known.
pub(in crate::query) struct Relation {
    /// Rows that its filters leave, at least one.
    pub(in crate::query) rows: f64,
    /// See [`base_rows`](Self::base_rows).
    base_rows: f64,
    table: Option<Table>,
}

/// A relation that is a table of the snapshot.
struct Table {
    view: TableView,
    summary: Arc<TableSummary>,
    /// For each field of the relation the column's index in the definition.
    columns: Vec<usize>,
    /// The same for each field that its scan could give.
    all_columns: Vec<usize>,
    /// What its sample has told before.
    answers: Arc<Answers>,
}

impl Relation {
    /// What is known of this relation with these filters on it.
    pub(in crate::query) fn of(plan: &LogicalPlan, filters: &[Expr], config: &dyn OptimizerConfig) -> Self {
        let Some(table) = Table::of(plan, config) else {
            let base_rows = rows_of(plan, config).max(1.0);
            let share = UNKNOWN_SELECTIVITY.powi(i32::from(!filters.is_empty()));
            return Self { rows: (base_rows * share).max(1.0), base_rows, table: None };
        };
        let base_rows = (table.summary.rows as f64).max(1.0);
        let rows = table.summary.rows as f64 * table.share(plan, filters, config);
        Self { rows: rows.max(1.0), base_rows, table: Some(table) }
    }

    /// Whether it is a table of the snapshot, as it is or with filters.
    pub(in crate::query) const fn is_table(&self) -> bool {
        self.table.is_some()
    }

    /// Distinct values of a column of this relation, which is `plan`, before any filter of a table; a filter on the column itself is in
    /// `rows`. By its bounds if it has any, otherwise by a sample, and of what is no table by those of the columns that it is made of.
    /// `None` if nothing tells.
    pub(in crate::query) fn distinct(
        &self,
        column: &Column,
        plan: &LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<f64>> {
        let field = plan.schema().index_of_column(column)?;
        let found = match &self.table {
            Some(table) => table.values_of(field),
            None => value_origins::values_of(plan, field, config).map(|values| values.min(self.base_rows)),
        };
        Ok(found.map(|values| values.max(1.0)))
    }

    /// Values of an expression over this relation, which is `plan`, before any filter; `None` if it cannot be tried.
    pub(super) fn distinct_results(
        &self,
        expression: &Expr,
        plan: &LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Option<f64> {
        let table = self.table.as_ref()?;
        let asked = Question::Values(expression.clone());
        table.answers.of(table.view.def().id, asked, || {
            let compiled = compiled(&[expression], plan.schema(), config)?.pop()?;
            distinct_results(&table.view, &table.columns, compiled, self.base_rows())
        })
    }

    /// The least and the greatest value of a field that has whole numbers, before any filter, as far as they are known.
    pub(in crate::query) fn bounds(&self, field: usize) -> Option<(i64, i64)> {
        let table = self.table.as_ref()?;
        known_bounds(&table.summary, table.columns[field])
    }

    /// Rows before any filter; of what is no table, before those over its plan.
    pub(in crate::query) const fn base_rows(&self) -> f64 {
        self.base_rows
    }

    /// Whether no two rows have the same values in these fields, none of them NULL, in whatever a statement sees. That cannot be
    /// said of tables of other servers.
    pub(in crate::query) fn keeps_key(&self, fields: &[usize]) -> bool {
        let is_own = self.table.as_ref().is_some_and(|table| table.view.def().foreign.is_none());
        is_own && self.is_key(fields)
    }

    /// Whether these fields together hold no value twice.
    pub(super) fn is_key(&self, fields: &[usize]) -> bool {
        let Some(table) = &self.table else { return false };
        let def = table.view.def();
        let covered = |key: &[usize]| {
            key.iter().all(|column| fields.iter().any(|&field| table.columns[field] == *column))
        };
        let unique =
            def.indexes.iter().filter(|index| index.uniqueness.is_unique()).map(|index| &index.columns);
        std::iter::once(&def.primary_key).chain(unique).any(|key| covered(key))
    }
}

impl Table {
    fn of(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> Option<Self> {
        let scan = scan_of(plan)?;
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<CoevalTable>()?;
        let options = config.options();
        let snapshot = StatementSnapshot::carried_by(&options)?;
        let view = snapshot.view(table.def().id)?.clone();
        let columns = match &scan.projection {
            None => table.columns().to_vec(),
            Some(projection) => projection.iter().map(|&field| table.columns()[field]).collect(),
        };
        let (summary, answers) = (Arc::clone(view.summary()), Arc::clone(snapshot.answers()));
        Some(Self { view, summary, columns, all_columns: table.columns().to_vec(), answers })
    }

    /// About how many values a field of the relation has before any filter: by its bounds if it has any, otherwise by a sample.
    fn values_of(&self, field: usize) -> Option<f64> {
        let (def, column) = (self.view.def(), self.columns[field]);
        let known = known_distinct_values(def, &self.summary, column).map(|values| values as f64);
        known.or_else(|| {
            let find = || distinct_in_column(&self.view, column);
            self.answers.of(def.id, Question::ColumnValues(column), find)
        })
    }

    /// What share of its rows passes these filters, which are over the relation, and those within it.
    fn share(&self, plan: &LogicalPlan, filters: &[Expr], config: &dyn OptimizerConfig) -> f64 {
        let outer: Vec<&Expr> = filters.iter().collect();
        let passing = || self.passing(&outer, plan.schema(), &self.columns, config);
        self.tried(&outer, passing) * self.share_within(plan, config)
    }

    fn share_within(&self, plan: &LogicalPlan, config: &dyn OptimizerConfig) -> f64 {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => with_room(|| self.share_within(&alias.input, config)),
            LogicalPlan::Filter(filter) => {
                let filters = split_conjunction(&filter.predicate);
                let passing = || self.passing(&filters, filter.input.schema(), &self.columns, config);
                let share = self.tried(&filters, passing);
                share * with_room(|| self.share_within(&filter.input, config))
            }
            LogicalPlan::TableScan(scan) => {
                let filters: Vec<&Expr> = scan.filters.iter().collect();
                self.tried(&filters, || {
                    let schema = scan.source.schema();
                    let schema =
                        DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema).ok()?;
                    self.passing(&filters, &schema, &self.all_columns, config)
                })
            }
            _ => 1.0,
        }
    }

    /// What share of its rows passes these filters, found out if they were not tried before.
    fn tried(&self, filters: &[&Expr], find: impl FnOnce() -> Option<f64>) -> f64 {
        if filters.is_empty() {
            return 1.0;
        }
        let asked = Question::Share(filters.iter().copied().cloned().collect());
        self.answers.of(self.view.def().id, asked, find).unwrap_or(UNKNOWN_SELECTIVITY)
    }

    /// What share of its sample passes these filters over `schema`, whose fields stand at `columns`.
    fn passing(
        &self,
        filters: &[&Expr],
        schema: &DFSchema,
        columns: &[usize],
        config: &dyn OptimizerConfig,
    ) -> Option<f64> {
        let compiled = compiled(filters, schema, config)?;
        selectivity(&self.view, columns, &compiled)
    }
}

/// Expressions as they run on rows of `schema`; `None` if some must not be tried.
fn compiled(
    expressions: &[&Expr],
    schema: &DFSchema,
    config: &dyn OptimizerConfig,
) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    if expressions.iter().any(|expression| expression.is_volatile()) {
        // A look at a sample must not take a sequence's numbers.
        return None;
    }
    let options = config.options();
    let sample = SampleValues::carried_by(&options);
    let mut properties = ExecutionProps::new();
    properties.query_execution_start_time = config.query_execution_start_time();
    properties.config_options = Some(Arc::clone(&options));
    let context = PhysicalPlanningContext::default();
    let compile = |expression: &Expr| match sample {
        None => create_physical_expr(expression, schema, &properties, &context),
        Some(values) => {
            create_physical_expr(&values.within(expression.clone())?, schema, &properties, &context)
        }
    };
    expressions.iter().copied().map(compile).collect::<Result<_>>().ok()
}

/// The scan that a relation is, under another name or a filter.
fn scan_of(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::SubqueryAlias(alias) => scan_of(&alias.input),
        LogicalPlan::Filter(filter) => scan_of(&filter.input),
        _ => None,
    }
}

/// Rows of any plan, roughly.
fn rows_of(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> f64 {
    with_room(|| rows_of_node(plan, config))
}

fn rows_of_node(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> f64 {
    let input = |index: usize| plan.inputs().get(index).map_or(UNKNOWN_ROWS, |input| rows_of(input, config));
    match plan {
        LogicalPlan::TableScan(_) => Table::of(plan, config)
            .map_or(UNKNOWN_ROWS, |table| table.summary.rows as f64 * table.share(plan, &[], config)),
        LogicalPlan::Filter(_) => match Table::of(plan, config) {
            Some(table) => table.summary.rows as f64 * table.share(plan, &[], config),
            None => input(0) * UNKNOWN_SELECTIVITY,
        },
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => {
            let rows = input(0);
            // Groups are fewer than rows. Where it is not known what they are made of, it is not known by how much.
            value_origins::groups_of(plan, config).map_or_else(|| rows.powf(0.75), |groups| groups.min(rows))
        }
        LogicalPlan::Limit(_) => match plan.fetch() {
            Ok(Some(fetch)) => input(0).min(fetch as f64),
            Ok(None) | Err(_) => input(0),
        },
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => input(0) * 0.5,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => input(1) * 0.5,
            _ => input(0).max(input(1)),
        },
        LogicalPlan::Union(_) => plan.inputs().iter().map(|input| rows_of(input, config)).sum(),
        LogicalPlan::EmptyRelation(_) => 1.0,
        LogicalPlan::Values(values) => values.values.len() as f64,
        _ => plan.inputs().first().map_or(UNKNOWN_ROWS, |input| rows_of(input, config)),
    }
}
