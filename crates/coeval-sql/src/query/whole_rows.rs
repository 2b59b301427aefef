// SPDX-License-Identifier: Apache-2.0
//! `count(b.*)` and `count(b)` of a table `b`: the rows that are there, and not those that an outer join has filled up.
//!
//! DataFusion counts all rows. A column of the table that is never NULL by itself is counted in the place of its rows.

use crate::error::SqlError;
use crate::names::fold;
use crate::walk::{Walk, WalkMut};
use coeval_store::TableDef;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, TableFactor, TableWithJoins, Visitor, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The query with the rows of tables counted by a column; `find` gives the table of a name.
///
/// # Errors
/// `0A000` beside an outer join if there is no such column.
pub(super) fn counted(
    query: &mut Query,
    find: &dyn Fn(&ObjectName) -> Option<Arc<TableDef>>,
) -> Result<(), SqlError> {
    if !counts_rows(query) {
        return Ok(());
    }
    let mut counter = Counter { find, parts: names_of_parts(query), scopes: Vec::new() };
    match query.walk_mut(&mut counter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The table whose rows a call counts.
fn counted_table(function: &Function) -> Option<&Ident> {
    let is_count =
        matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(name)] if fold(name) == "count");
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    // Different rows are counted by all of their columns.
    if list.duplicate_treatment.is_some() {
        return None;
    }
    match argument {
        _ if !is_count => None,
        FunctionArgExpr::QualifiedWildcard(name) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(table)] => Some(table),
            _ => None,
        },
        FunctionArgExpr::Expr(Expr::Identifier(table)) => Some(table),
        _ => None,
    }
}

fn counts_rows(query: &Query) -> bool {
    struct Counts;
    impl Visitor for Counts {
        type Break = ();
        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            match expression {
                Expr::Function(function) if counted_table(function).is_some() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.walk(&mut Counts).is_break()
}

/// The names of all that stands in a WITH: no tables.
fn names_of_parts(query: &Query) -> HashSet<String> {
    struct Parts(HashSet<String>);
    impl Visitor for Parts {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let parts = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(parts.map(|part| fold(&part.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut parts = Parts(HashSet::new());
    // Nothing breaks off the visit.
    let _ = query.walk(&mut parts);
    parts.0
}

/// What stands in a FROM.
struct Scope {
    /// By the name that it goes by, each table, or nothing if it is something else.
    tables: HashMap<String, Option<Arc<TableDef>>>,
    /// Whether rows may be filled up.
    has_outer_join: bool,
}

struct Counter<'f> {
    find: &'f dyn Fn(&ObjectName) -> Option<Arc<TableDef>>,
    parts: HashSet<String>,
    scopes: Vec<Scope>,
}

impl Counter<'_> {
    fn add(&self, from: &TableWithJoins, scope: &mut Scope) {
        self.add_factor(&from.relation, scope);
        for Join { relation, join_operator, .. } in &from.joins {
            scope.has_outer_join |= matches!(
                join_operator,
                JoinOperator::Left(_)
                    | JoinOperator::LeftOuter(_)
                    | JoinOperator::Right(_)
                    | JoinOperator::RightOuter(_)
                    | JoinOperator::FullOuter(_)
            );
            self.add_factor(relation, scope);
        }
    }

    fn add_factor(&self, factor: &TableFactor, scope: &mut Scope) {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let is_part = matches!(name.0.as_slice(), [ObjectNamePart::Identifier(name)] if self.parts.contains(&fold(name)));
                let table = if is_part { None } else { (self.find)(name) };
                let own = name.0.last().and_then(ObjectNamePart::as_ident);
                if let Some(known_as) = alias.as_ref().map(|alias| &alias.name).or(own) {
                    let is_renamed = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                    scope.tables.insert(fold(known_as), table.filter(|_| !is_renamed));
                }
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.add(table_with_joins, scope),
            TableFactor::Derived { alias: Some(alias), .. } => {
                scope.tables.insert(fold(&alias.name), None);
            }
            _ => {}
        }
    }

    /// The column that is counted for the rows of this table; `None` if the call stays as it is.
    fn column(&self, function: &Function) -> Result<Option<Expr>, SqlError> {
        let Some(table) = counted_table(function) else { return Ok(None) };
        let name = fold(table);
        let Some(scope) = self.scopes.iter().rev().find(|scope| scope.tables.contains_key(&name)) else {
            return Ok(None);
        };
        let is_column = |table: &Arc<TableDef>| table.column_index(&name).is_some();
        let is_name = !matches!(&function.args, FunctionArguments::List(list)
            if matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_))]));
        let are_known = scope.tables.values().all(Option::is_some);
        if is_name && (!are_known || scope.tables.values().flatten().any(is_column)) {
            return Ok(None);
        }
        let def = scope.tables.get(&name).and_then(Option::as_ref);
        let column = def.and_then(|def| def.live_columns().find(|(_, column)| column.not_null));
        match column {
            Some((_, column)) => {
                Ok(Some(Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', &column.name)])))
            }
            None if scope.has_outer_join => {
                let message = format!(
                    "counting rows of \"{name}\", which has no column that is NOT NULL, beside an outer join"
                );
                Err(SqlError::unsupported(message).with_hint("Count a column of it that is not NULL."))
            }
            None => Ok(None),
        }
    }
}

impl VisitorMut for Counter<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut scope = Scope { tables: HashMap::new(), has_outer_join: false };
        select.from.iter().for_each(|from| self.add(from, &mut scope));
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expression else { return ControlFlow::Continue(()) };
        match self.column(function) {
            Ok(Some(column)) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(column))];
                }
            }
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
