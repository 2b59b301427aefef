// SPDX-License-Identifier: Apache-2.0
//! Queries on the abstract schema become queries on the physical one: each table is replaced by its snapshot.
//!
//! Two passes over the syntax tree. The first finds the tables and whether all are looked up by key, and refuses what is
//! not there; the second replaces. A name that a common table expression hides is left alone. Then `spelling.rs`.

use crate::catalog::{Catalog, Table};
use crate::engine::{Dialect, Effort, Pushdown};
use crate::error::{Result, TiqueError, flow};
use crate::lookups::{FoundBy, Lookups};
use crate::names::folded;
use crate::parse::parse_query;
use crate::physical;
use crate::schema::{check_name, table_name};
use crate::snapshot::{self, CopyOf, Formulation, View};
use crate::spelling::spell;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor, Value,
    VisitMut, VisitorMut,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a query reads.
pub(crate) struct Reads {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    /// For each table, how each of its places in the query finds rows.
    pub(crate) found_by: BTreeMap<String, Vec<FoundBy>>,
    /// The formulation that suits it.
    pub(crate) formulation: Formulation,
    /// How much thought it is worth.
    pub(crate) effort: Effort,
    /// Whether it may use columns that it does not name.
    pub(crate) uses_all_columns: bool,
}

/// What a query reads.
///
/// # Errors
/// A table that is not there (42P01), a name that collides (42939), or what TiQuE does not support.
pub(crate) fn reads(statement: &mut Statement, catalog: &Catalog, dialect: &Dialect) -> Result<Reads> {
    let mut visitor = Visitor::new(catalog, dialect.pushdown, Pass::Find);
    match VisitMut::visit(statement, &mut visitor) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => {
            let effort = if visitor.all_by_key { Effort::Point } else { Effort::Analytical };
            // Of a part of a key there may be many rows, and ranking sorts them all.
            let mut all = visitor.found_by.values().flatten();
            let formulation = match all.all(|found_by| found_by.key.is_some()) {
                true => Formulation::Ranking,
                false => Formulation::AntiJoin,
            };
            let is_natural = || statement.to_string().to_lowercase().contains("natural");
            let uses_all_columns = visitor.uses_all_columns || (effort == Effort::Analytical && is_natural());
            Ok(Reads {
                effort,
                tables: visitor.found,
                found_by: visitor.found_by,
                formulation,
                uses_all_columns,
            })
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
    snapshots: Snapshots<'_>,
) -> Result<()> {
    let mut visitor = Visitor::new(catalog, dialect.pushdown, Pass::Replace(snapshots));
    if let ControlFlow::Break(error) = VisitMut::visit(statement, &mut visitor) {
        return Err(error);
    }
    spell(statement, dialect)
}

#[derive(Clone, Copy)]
enum Pass<'a> {
    Find,
    Replace(Snapshots<'a>),
}

/// What tables are replaced by.
#[derive(Clone, Copy)]
pub(crate) struct Snapshots<'a> {
    pub(crate) formulation: Formulation,
    /// Tables of which there is a copy.
    pub(crate) copies: &'a BTreeMap<String, CopyOf>,
    pub(crate) storages: Storages,
    pub(crate) view: &'a dyn Fn(&Arc<Table>, &FoundBy) -> View,
}

/// How a query reads a storage table that is a whole snapshot by itself and has one more column, for the key. A storage table
/// without that column is always read by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storages {
    /// As a query of the table's columns.
    Queried,
    /// By its name, for statements that use only columns which they name: MonetDB orders joins of subqueries badly.
    Named,
}

struct Visitor<'a> {
    catalog: &'a Catalog,
    pushdown: Pushdown,
    pass: Pass<'a>,
    /// Names of common table expressions, innermost last.
    hidden: Vec<Vec<String>>,
    /// For each SELECT that is being visited: by what literals its WHERE finds columns, and whether it has one table.
    selects: Vec<Lookups>,
    found: BTreeMap<String, Arc<Table>>,
    found_by: BTreeMap<String, Vec<FoundBy>>,
    all_by_key: bool,
    uses_all_columns: bool,
}

impl<'a> Visitor<'a> {
    fn new(catalog: &'a Catalog, pushdown: Pushdown, pass: Pass<'a>) -> Self {
        let (hidden, selects) = (Vec::new(), Vec::new());
        let (found, found_by) = (BTreeMap::new(), BTreeMap::new());
        let (all_by_key, uses_all_columns) = (true, false);
        Self { catalog, pushdown, pass, hidden, selects, found, found_by, all_by_key, uses_all_columns }
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

    /// The one table that a SELECT is from, if it is that simple, and what it is called.
    fn only_table(&self, select: &Select) -> Option<(String, Arc<Table>)> {
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, alias, .. } = &from.relation else { return None };
        if !from.joins.is_empty() || self.is_hidden(name) {
            return None;
        }
        let name = table_name(name).ok()?;
        let table = Arc::clone(self.catalog.table(&name).ok()?);
        Some((alias.as_ref().map_or(name, |alias| folded(&alias.name)), table))
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
                self.uses_all_columns |= alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let alias = alias.as_ref().map_or_else(|| folded_name.clone(), |alias| folded(&alias.name));
                let first =
                    table.definition.key.first().map(|&column| &table.definition.columns[column].name);
                let lookups = self.selects.last();
                let is_by_key = first
                    .is_some_and(|first| lookups.is_some_and(|select| select.get(&alias, first).is_some()));
                self.all_by_key &= is_by_key;
                let found_by = lookups.map_or_else(FoundBy::default, |lookups| {
                    lookups.found_by(&alias, &table.definition, self.pushdown)
                });
                self.found_by.entry(folded_name.clone()).or_default().push(found_by);
                self.found.insert(folded_name, table);
            }
            Pass::Replace(Snapshots { formulation, copies, storages, view }) => {
                // Physical tables are met here when a common table expression is visited a second time.
                let Ok(table) = self.catalog.table(&folded_name) else { return Ok(()) };
                let name = Ident::with_quote('"', &folded_name);
                let alias =
                    alias.take().unwrap_or(TableAlias { explicit: true, name, columns: vec![], at: None });
                let select = self.selects.last();
                let found_by = select.map_or_else(FoundBy::default, |lookups| {
                    lookups.found_by(&folded(&alias.name), &table.definition, self.pushdown)
                });
                let sql = match copies.get(&folded_name).filter(|_| found_by.key.is_none()) {
                    Some(copy) => copy.query(&table.definition),
                    None => {
                        let view = view(table, &found_by);
                        let has_only_these = !table.definition.has_key_column() && alias.columns.is_empty();
                        let is_named =
                            has_only_these || (storages == Storages::Named && found_by.key.is_none());
                        if is_named && snapshot::is_storage(&table.definition, &view) {
                            let storage = Ident::with_quote('"', physical::storage(&table.definition));
                            set_table(factor, storage, alias);
                            return Ok(());
                        }
                        snapshot::query(&table.definition, &view, formulation, &found_by)
                    }
                };
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

impl VisitorMut for Visitor<'_> {
    type Break = TiqueError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<TiqueError> {
        if !query.locks.is_empty() {
            return ControlFlow::Break(TiqueError::unsupported("SELECT ... FOR UPDATE or SHARE"));
        }
        if matches!(
            *query.body,
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        ) {
            return ControlFlow::Break(TiqueError::unsupported("a change inside of another statement"));
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
        self.uses_all_columns |= select.projection.iter().any(is_wildcard);
        let lookups = Lookups::of(select);
        if let Pass::Replace(..) = self.pass
            && let Some((alias, table)) = self.only_table(select)
        {
            let found_by = lookups.found_by(&alias, &table.definition, self.pushdown);
            lookups.drop_key(select, &alias, &table.definition, &found_by);
        }
        self.selects.push(lookups);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<TiqueError> {
        self.selects.pop();
        ControlFlow::Continue(())
    }

    /// Columns are quoted: what is a word of the engine's and not of the application's SQL would not be read as a name.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<TiqueError> {
        if let (Pass::Find, Expr::Exists { subquery, .. }) = (self.pass, &mut *expr) {
            name_no_columns(subquery);
        }
        if let (Pass::Replace(..), Expr::Identifier(ident)) = (self.pass, &mut *expr) {
            self.quote_column(ident);
        }
        if let (Pass::Replace(..), Expr::CompoundIdentifier(parts)) = (self.pass, expr)
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

/// Makes a table of a FROM another.
fn set_table(factor: &mut TableFactor, table: Ident, called: TableAlias) {
    if let TableFactor::Table { name, alias, .. } = factor {
        *name = ObjectName::from(vec![table]);
        *alias = Some(called);
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Of `EXISTS (SELECT * ...)` no column is used.
fn name_no_columns(query: &mut Query) {
    if let SetExpr::Select(select) = &mut *query.body
        && select.distinct.is_none()
        && let [SelectItem::Wildcard(_)] = select.projection.as_slice()
    {
        let one = Value::Number("1".to_owned(), false).with_empty_span();
        select.projection = vec![SelectItem::UnnamedExpr(Expr::Value(one))];
    }
}
