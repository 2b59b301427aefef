// SPDX-License-Identifier: Apache-2.0
//! The names of a statement that is planned on another thread.
//!
//! A [`Planner`] borrows the statement's transaction, which stays with the thread that runs the statement. So the thread
//! that plans knows by itself what is the same for all statements, the functions and types, and asks for tables.

use super::Planner;
use crate::engine::{Asking, Engine};
use crate::query::mistakes::{Asks, asked_function};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Where a table that was asked for goes.
type Answer = Sender<Result<Arc<dyn TableSource>>>;

/// What the thread that plans asks.
pub(super) enum Question {
    Table(TableReference, Answer),
    Function(String, Vec<Expr>, Answer),
}

impl Question {
    /// Answers it from what the statement sees.
    pub(super) fn answer(self, planner: &Planner<'_>) {
        let (source, answer) = match self {
            Self::Table(name, answer) => (planner.get_table_source(name), answer),
            Self::Function(name, arguments, answer) => {
                (planner.get_table_function_source(&name, arguments), answer)
            }
        };
        // Whoever asked is there as long as this thread waits for him.
        let _ = answer.send(source);
    }
}

/// What a statement uses beside its tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) sequence_values: bool,
    pub(super) catalog: bool,
}

/// Resolves the names of one statement far from it.
pub(super) struct Remote {
    engine: Arc<Engine>,
    expression_planners: Vec<Arc<dyn ExprPlanner>>,
    asking: Asking<Question>,
    asks: Asks,
    uses: Cell<Uses>,
}

impl Remote {
    pub(super) fn new(
        engine: Arc<Engine>,
        expression_planners: Vec<Arc<dyn ExprPlanner>>,
        asking: Asking<Question>,
        asks: Asks,
    ) -> Self {
        Self { engine, expression_planners, asking, asks, uses: Cell::default() }
    }

    pub(super) fn uses(&self) -> Uses {
        self.uses.get()
    }

    fn state(&self) -> &SessionState {
        self.engine.template()
    }
}

impl ContextProvider for Remote {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.asking.ask(|answer| Question::Table(name, answer))?
    }

    fn get_table_function_source(&self, name: &str, arguments: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        self.asking.ask(|answer| Question::Function(name.to_owned(), arguments, answer))?
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        super::work_table(name, schema)
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expression_planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state().relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(crate::query::typing::Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let uses = self.uses.get();
        self.uses.set(Uses {
            sequence_values: uses.sequence_values || crate::sequences::is_sequence_function(name),
            catalog: uses.catalog || crate::catalog::is_catalog_function(name),
        });
        let known = self.state().scalar_functions().get(name).cloned();
        known.or_else(|| asked_function(self.asks, name, self.state()))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state().higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state().aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state().window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state().config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state().scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state().higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state().aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state().window_functions().keys().cloned().collect()
    }
}
