// SPDX-License-Identifier: Apache-2.0
//! Queries on the abstract schema become queries on the physical one: each table is replaced by its snapshot.
//!
//! Two passes over the syntax tree. The first finds the tables and whether all are looked up by key, and refuses what is
//! not there; the second replaces. A name that a common table expression hides is left alone. Then `spelling.rs`.

use crate::catalog::{Catalog, Table};
use crate::engine::Dialect;
use crate::error::{Result, SqlState, TiqueError};
use crate::literal::joined;
use crate::schema::{Definition, KeyColumns, check_name, folded, table_name};
use crate::snapshot::{self, Formulation, View};
use crate::spelling::spell;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Ident, ObjectName, Query, Select, Statement, TableAlias, TableFactor,
    UnaryOperator, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a query reads.
pub(crate) struct Reads {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    /// The formulation that suits it.
    pub(crate) formulation: Formulation,
}

/// What a query reads.
///
/// # Errors
/// A table that is not there (42P01), a name that collides (42939), or what TiQuE does not support.
pub(crate) fn reads(statement: &mut Statement, catalog: &Catalog) -> Result<Reads> {
    let mut visitor = Visitor::new(catalog, Pass::Find);
    match VisitMut::visit(statement, &mut visitor) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => {
            let formulation = if visitor.all_by_key { Formulation::Ranking } else { Formulation::AntiJoin };
            Ok(Reads { tables: visitor.found, formulation })
        }
    }
}

/// Replaces each table by its snapshot, and writes the rest as the engine wants it.
///
/// # Errors
/// As [`reads`], which is called first.
pub(crate) fn replace(
    statement: &mut Statement,
    catalog: &Catalog,
    dialect: &Dialect,
    formulation: Formulation,
    view: &dyn Fn(&Table) -> View,
) -> Result<()> {
    let mut visitor = Visitor::new(catalog, Pass::Replace { formulation, view });
    if let ControlFlow::Break(error) = VisitMut::visit(statement, &mut visitor) {
        return Err(error);
    }
    spell(statement, dialect);
    Ok(())
}

#[derive(Clone, Copy)]
enum Pass<'a> {
    Find,
    Replace { formulation: Formulation, view: &'a dyn Fn(&Table) -> View },
}

struct Visitor<'a> {
    catalog: &'a Catalog,
    pass: Pass<'a>,
    /// Names of common table expressions, innermost last.
    hidden: Vec<Vec<String>>,
    /// For each SELECT that is being visited: by what literals its WHERE finds columns, and whether it has one table.
    selects: Vec<Lookups>,
    found: BTreeMap<String, Arc<Table>>,
    all_by_key: bool,
}

#[derive(Default)]
struct Lookups {
    /// (qualifier, column) to the literal it equals; other look-ups by literals have none.
    columns: HashMap<(Option<String>, String), Option<ScalarValue>>,
    tables: usize,
}

impl Lookups {
    fn of(select: &Select) -> Self {
        let mut lookups = Self::default();
        if let Some(condition) = &select.selection {
            lookups.add(condition);
        }
        lookups.tables = select.from.iter().map(|from| 1 + from.joins.len()).sum();
        lookups
    }

    fn add(&mut self, condition: &Expr) {
        match condition {
            Expr::Nested(inner) => self.add(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add(left);
                self.add(right);
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                self.add_equal(left, right);
                self.add_equal(right, left);
            }
            Expr::InList { expr, list, negated: false } => {
                if let Some(column) = column_of(expr)
                    && list.iter().all(is_constant)
                {
                    self.columns.entry(column).or_insert(None);
                }
            }
            _ => {}
        }
    }

    fn add_equal(&mut self, column: &Expr, value: &Expr) {
        if let Some(column) = column_of(column)
            && is_constant(value)
        {
            self.columns.insert(column, constant(value));
        }
    }

    /// What a table's column is looked up by.
    fn get(&self, alias: &str, column: &str) -> Option<&Option<ScalarValue>> {
        let qualified = self.columns.get(&(Some(alias.to_owned()), column.to_owned()));
        qualified.or_else(|| self.columns.get(&(None, column.to_owned())))
    }

    /// The concatenated key of the one row that the SELECT can want of a table.
    fn concatenated_key(&self, alias: &str, table: &Definition) -> Option<String> {
        if table.key_columns != KeyColumns::Concatenated {
            return None;
        }
        let mut row = vec![ScalarValue::Null; table.columns.len()];
        for &place in &table.key {
            let column = &table.columns[place];
            let name = (Some(alias.to_owned()), column.name.clone());
            // An unqualified name could be another table's column.
            let plain = || self.columns.get(&(None, column.name.clone())).filter(|_| self.tables == 1);
            let value = self.columns.get(&name).or_else(plain)?.clone()?;
            let is_of_type = match &column.kind {
                DataType::Int(_) | DataType::Integer(_) | DataType::BigInt(_) | DataType::SmallInt(_) => {
                    matches!(value, ScalarValue::Int64(_))
                }
                DataType::Text | DataType::Varchar(_) => matches!(value, ScalarValue::Utf8(_)),
                _ => false,
            };
            row[place] = Some(value).filter(|_| is_of_type)?;
        }
        Some(format!("'{}'", joined(&row, &table.key).replace('\'', "''")))
    }
}

fn column_of(expr: &Expr) -> Option<(Option<String>, String)> {
    match expr {
        Expr::Identifier(column) => Some((None, folded(column))),
        Expr::CompoundIdentifier(parts) => {
            let [qualifier, column] = parts.as_slice() else { return None };
            Some((Some(folded(qualifier)), folded(column)))
        }
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

/// An integer or a text that stands there.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            ScalarValue::Int64(Some(number)) => Some(ScalarValue::from(-number)),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<i64>().ok().map(ScalarValue::from),
            Value::SingleQuotedString(text) => Some(ScalarValue::from(text.as_str())),
            _ => None,
        },
        _ => None,
    }
}

impl<'a> Visitor<'a> {
    fn new(catalog: &'a Catalog, pass: Pass<'a>) -> Self {
        let (hidden, selects) = (Vec::new(), Vec::new());
        Self { catalog, pass, hidden, selects, found: BTreeMap::new(), all_by_key: true }
    }

    fn quote_column(&self, ident: &mut Ident) {
        let name = folded(ident);
        if ident.quote_style.is_none() && self.catalog.has_column(&name) {
            *ident = Ident::with_quote('"', name);
        }
    }

    fn is_hidden(&self, name: &ObjectName) -> bool {
        match name.0.as_slice() {
            [part] => part.as_ident().is_some_and(|ident| {
                let name = folded(ident);
                self.hidden.iter().flatten().any(|hidden| *hidden == name)
            }),
            _ => false,
        }
    }

    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, args: None, version, sample, with_ordinality, .. } = factor
        else {
            return Ok(());
        };
        if self.is_hidden(name) {
            return Ok(());
        }
        let folded_name = table_name(name)?;
        match self.pass {
            Pass::Find => {
                let table = Arc::clone(self.catalog.table(&folded_name)?);
                if version.is_some() || sample.is_some() || *with_ordinality {
                    return Err(TiqueError::unsupported(format!("this way to read a table: {factor}")));
                }
                let alias = alias.as_ref().map_or_else(|| folded_name.clone(), |alias| folded(&alias.name));
                let first =
                    table.definition.key.first().map(|&column| &table.definition.columns[column].name);
                let lookups = self.selects.last();
                let is_by_key = first
                    .is_some_and(|first| lookups.is_some_and(|select| select.get(&alias, first).is_some()));
                self.all_by_key &= is_by_key;
                self.found.insert(folded_name, table);
            }
            Pass::Replace { formulation, view } => {
                // Physical tables are met here when a common table expression is visited a second time.
                let Ok(table) = self.catalog.table(&folded_name) else { return Ok(()) };
                let name = Ident::with_quote('"', &folded_name);
                let alias =
                    alias.take().unwrap_or(TableAlias { explicit: true, name, columns: vec![], at: None });
                let select = self.selects.last();
                let key = select
                    .and_then(|select| select.concatenated_key(&folded(&alias.name), &table.definition));
                let sql = snapshot::query(&table.definition, &view(table), formulation, key.as_deref());
                let subquery = Box::new(parse_query(&sql)?);
                *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
            }
        }
        Ok(())
    }

    /// Visits the parts of a WITH, each with the names before it, and hides all its names.
    fn with(&mut self, query: &mut Query) -> Result<()> {
        let Some(with) = &mut query.with else {
            self.hidden.push(Vec::new());
            return Ok(());
        };
        let names: Vec<_> = with.cte_tables.iter().map(|cte| folded(&cte.alias.name)).collect();
        for (place, cte) in with.cte_tables.iter_mut().enumerate() {
            check_name(&names[place])?;
            let end = if with.recursive { names.len() } else { place };
            self.hidden.push(names[..end].to_vec());
            let visited = VisitMut::visit(&mut *cte.query, self);
            self.hidden.pop();
            if let ControlFlow::Break(error) = visited {
                return Err(error);
            }
        }
        self.hidden.push(names);
        Ok(())
    }
}

fn flow(result: Result<()>) -> ControlFlow<TiqueError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Visitor<'_> {
    type Break = TiqueError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<TiqueError> {
        if !query.locks.is_empty() {
            return ControlFlow::Break(TiqueError::unsupported("SELECT ... FOR UPDATE or SHARE"));
        }
        flow(self.with(query))
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<TiqueError> {
        let was = self.hidden.pop();
        assert!(was.is_some(), "each query hides names once");
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<TiqueError> {
        if select.into.is_some() {
            return ControlFlow::Break(TiqueError::unsupported("SELECT INTO"));
        }
        self.selects.push(Lookups::of(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<TiqueError> {
        self.selects.pop();
        ControlFlow::Continue(())
    }

    /// Columns are quoted: what is a word of the engine's and not of the application's SQL would not be read as a name.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<TiqueError> {
        if let (Pass::Replace { .. }, Expr::Identifier(ident)) = (self.pass, &mut *expr) {
            self.quote_column(ident);
        }
        if let (Pass::Replace { .. }, Expr::CompoundIdentifier(parts)) = (self.pass, expr)
            && let Some(last) = parts.last_mut()
        {
            self.quote_column(last);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<TiqueError> {
        flow(self.table_factor(factor))
    }
}

/// The statements of a text.
///
/// # Errors
/// 42601, with the line and column.
pub(crate) fn parse(sql: &str) -> Result<Vec<Statement>> {
    Parser::parse_sql(&PostgreSqlDialect {}, sql)
        .map_err(|error| TiqueError::new(SqlState::SyntaxError, error.to_string()))
}

/// A query that we wrote, parsed.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    match parse(sql)?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(TiqueError::new(SqlState::SyntaxError, format!("not a query: {sql}"))),
    }
}
