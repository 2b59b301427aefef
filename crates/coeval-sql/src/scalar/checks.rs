// SPDX-License-Identifier: Apache-2.0
//! CHECK constraints: the store asks for them, SQL gives them their meaning.

use super::compile::Compiler;
use super::datum::Datum;
use super::environment::{Environment, Inputs, NewRow, NoRows, RowSource};
use super::fallback::PlanExpressions;
use super::node::Scalar;
use super::scope::Scope;
use crate::error::{SqlError, syntax_error};
use crate::parameters::ParameterTypes;
use crate::parse::parse_expression;
use crate::user_types::with_value;
use chrono_tz::Tz;
use coeval_store::{
    CheckCompiler, ColumnDef, ColumnState, ConstraintError, ForeignKeyDef, QualifiedName, ReferentialAction,
    Row, RowChecks, SequenceDef, TableDef, Value, ValueRef,
};
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use std::fmt;
use std::sync::{Arc, Weak};

/// What gives CHECK constraints their meaning, as long as this planner is there.
pub(crate) fn check_compiler(planner: Weak<dyn PlanExpressions>) -> Arc<dyn CheckCompiler> {
    Arc::new(SqlChecks { planner })
}

/// Reads the text of an expression that a definition holds.
pub(crate) fn parse_stored(text: &str) -> Result<Expr, SqlError> {
    parse_expression(text).map_err(|error| syntax_error(error, text))
}

/// Holds the planner weakly: it is the engine, which owns the store, and that keeps the compiler.
#[derive(Debug)]
struct SqlChecks {
    planner: Weak<dyn PlanExpressions>,
}

impl CheckCompiler for SqlChecks {
    fn compile(&self, table: &TableDef) -> Result<Arc<dyn RowChecks>, String> {
        let planner = self.planner.upgrade().ok_or("the database is closing")?;
        let planner = &*planner;
        let checks = rules(table)?.into_iter().map(|(rule, condition)| {
            match compile_condition(planner, table, condition) {
                Ok(condition) => Ok((rule, condition)),
                Err(error) => Err(format!("{rule}: {error}")),
            }
        });
        let checks = checks.collect::<Result<_, String>>()?;
        let defaults = table.columns.iter().enumerate().filter_map(|(index, column)| {
            // Only foreign keys that set it need the default here.
            let is_set = |key: &ForeignKeyDef| {
                let sets = [key.on_delete, key.on_update].contains(&ReferentialAction::SetDefault);
                sets && key.columns.contains(&index)
            };
            let text = column.default.as_ref().filter(|_| table.foreign_keys.iter().any(is_set))?;
            Some(compile_default(text, column, planner).map(|scalar| (index, scalar)))
        });
        let defaults = defaults.collect::<Result<_, SqlError>>().map_err(|error| error.to_string())?;
        let generated = table.columns.iter().enumerate().filter(|(_, column)| column.generated.is_some());
        let generated = generated.map(|(index, column)| {
            let scalar = compile_generated(planner, table, column)
                .map_err(|error| format!("generated column \"{}\": {error}", column.name))?;
            Ok((index, scalar))
        });
        let mut generated = generated.collect::<Result<Vec<_>, String>>()?;
        // What indexes stand on may name generated columns.
        generated.sort_by_key(|(index, _)| table.columns[*index].state == ColumnState::Computed);
        Ok(Arc::new(CompiledChecks { checks, defaults, generated }))
    }
}

/// What a row has to satisfy.
#[derive(Clone, Debug)]
enum Rule {
    /// A check of the table, by its name.
    Table(String),
    /// A domain that refuses NULL.
    NotNull(QualifiedName),
    /// A check of a domain, by its name.
    Domain(QualifiedName, String),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "check constraint \"{name}\""),
            Self::NotNull(domain) => write!(f, "domain {domain}"),
            Self::Domain(domain, name) => write!(f, "check constraint \"{name}\" of domain {domain}"),
        }
    }
}

impl Rule {
    /// What is said of a row of this table for which the condition is false.
    fn violated(&self, table: &TableDef) -> ConstraintError {
        match self {
            Self::Table(name) => {
                ConstraintError::Check { table: Box::new(table.name.clone()), constraint: name.clone() }
            }
            Self::NotNull(domain) => ConstraintError::DomainNull { domain: Box::new(domain.clone()) },
            Self::Domain(domain, name) => {
                ConstraintError::DomainCheck { domain: Box::new(domain.clone()), constraint: name.clone() }
            }
        }
    }
}

/// What the rows of a table have to satisfy, with the conditions: first what domains ask of their columns, as PostgreSQL, where a
/// value gets into a domain before it gets into a row.
fn rules(table: &TableDef) -> Result<Vec<(Rule, Expr)>, String> {
    let parsed = |rule: &Rule, text: &str| parse_stored(text).map_err(|error| format!("{rule}: {error}"));
    let mut rules = Vec::new();
    for column in &table.columns {
        let Some(domain) = column.checked_domain() else { continue };
        let value = Expr::Identifier(Ident::with_quote('"', &column.name));
        if domain.not_null {
            rules.push((Rule::NotNull(domain.name.clone()), Expr::IsNotNull(Box::new(value.clone()))));
        }
        for check in &domain.checks {
            let rule = Rule::Domain(domain.name.clone(), check.name.clone());
            let condition = with_value(parsed(&rule, &check.expression)?, &value);
            rules.push((rule, condition));
        }
    }
    for check in &table.checks {
        let rule = Rule::Table(check.name.clone());
        let condition = parsed(&rule, &check.expression)?;
        rules.push((rule, condition));
    }
    Ok(rules)
}

fn compile_condition(
    planner: &dyn PlanExpressions,
    table: &TableDef,
    mut condition: Expr,
) -> Result<Scalar, SqlError> {
    crate::user_types::resolve_for_table(&mut condition, table);
    let (scope, mut parameters) = (Scope::of_table(table), ParameterTypes::default());
    let mut compiler = Compiler::new(&scope, &mut parameters).with_fallback(planner);
    Ok(compiler.condition(&condition)?)
}

/// What computes a generated column from the others of its row, as the column's type.
///
/// # Errors
/// What is wrong with its expression as the value of the column; `0A000` if it cannot be computed row by row.
pub(crate) fn compile_generated(
    planner: &dyn PlanExpressions,
    table: &TableDef,
    column: &ColumnDef,
) -> Result<Scalar, SqlError> {
    let text = column.generated.as_deref().unwrap_or("NULL");
    let (scope, mut parameters) = (Scope::of_table(table), ParameterTypes::default());
    let mut compiler = Compiler::new(&scope, &mut parameters).with_fallback(planner);
    let mut expression = parse_stored(text)?;
    crate::user_types::resolve_for_table(&mut expression, table);
    Ok(compiler.assignment(&expression, column)?)
}

fn compile_default(
    text: &str,
    column: &ColumnDef,
    planner: &dyn PlanExpressions,
) -> Result<Scalar, SqlError> {
    let expression = parse_stored(text)?;
    let (scope, mut parameters) = (Scope::new(Vec::new()), ParameterTypes::default());
    let mut compiler = Compiler::new(&scope, &mut parameters).with_fallback(planner);
    Ok(compiler.assignment(&expression, column)?)
}

/// The checks of one table, and by column the defaults that its foreign keys may set and what is generated.
#[derive(Debug)]
struct CompiledChecks {
    checks: Vec<(Rule, Scalar)>,
    defaults: Vec<(usize, Scalar)>,
    generated: Vec<(usize, Scalar)>,
}

/// Why an expression could not be computed.
fn failed(error: SqlError) -> ConstraintError {
    ConstraintError::Expression { state: error.state.code(), message: error.message }
}

/// A check depends on its row alone; what it cannot have stands still.
struct NoStatement;

impl Environment for NoStatement {
    fn transaction_time(&self) -> i64 {
        chrono::Utc::now().timestamp_micros()
    }

    fn zone(&self) -> Tz {
        Tz::UTC
    }

    fn next_value(&self, _sequence: &SequenceDef) -> Result<i64, SqlError> {
        Err(SqlError::unsupported("nextval in a check constraint"))
    }
}

impl RowChecks for CompiledChecks {
    fn check(&self, table: &TableDef, row: &Row) -> Result<(), ConstraintError> {
        let source = NewRow { table, row };
        let inputs = Inputs { rows: &source, parameters: &[], environment: &NoStatement };
        for (rule, condition) in &self.checks {
            // A check that is NULL passes.
            if condition.eval(inputs).map_err(failed)?.truth() == Some(false) {
                return Err(rule.violated(table));
            }
        }
        Ok(())
    }

    fn default_value(&self, table: &TableDef, column: usize) -> Result<Value, ConstraintError> {
        if table.columns[column].sequence.is_some() {
            let what = "SET DEFAULT of a column whose default is a sequence's next value";
            return Err(failed(SqlError::unsupported(what)));
        }
        let Some((_, default)) = self.defaults.iter().find(|(known, _)| *known == column) else {
            return Ok(Value::Null);
        };
        let inputs = Inputs { rows: &NoRows, parameters: &[], environment: &NoStatement };
        default.eval(inputs).map(Datum::into_value).map_err(failed)
    }

    fn generated(&self, table: &TableDef, row: &Row) -> Result<Vec<(usize, Value)>, ConstraintError> {
        let mut source = PartlyNew { row: NewRow { table, row }, values: Vec::new() };
        for (column, scalar) in &self.generated {
            let inputs = Inputs { rows: &source, parameters: &[], environment: &NoStatement };
            let value = scalar.eval(inputs).map(Datum::into_value).map_err(failed)?;
            source.values.push((*column, value));
        }
        Ok(source.values)
    }
}

/// A row of which some values have been computed anew.
struct PartlyNew<'a> {
    row: NewRow<'a>,
    values: Vec<(usize, Value)>,
}

impl RowSource for PartlyNew<'_> {
    fn value(&self, table: usize, column: usize) -> ValueRef<'_> {
        match self.values.iter().find(|(known, _)| *known == column) {
            Some((_, value)) => value.borrow(),
            None => self.row.value(table, column),
        }
    }
}
