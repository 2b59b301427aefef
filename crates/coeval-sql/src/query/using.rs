// SPDX-License-Identifier: Apache-2.0
//! `JOIN ... USING` and `NATURAL JOIN`, written as joins `ON` where the columns of their tables are known.
//!
//! | form | becomes |
//! |---|---|
//! | `a JOIN b USING (x)` | `a JOIN b ON a.x = b.x` |
//! | `x` behind it | `a.x`; of a RIGHT JOIN `b.x`; of a FULL JOIN `coalesce(a.x, b.x)`, and so for the next join; where they may be of two types, an [operator](super::typing::Merging) between them |
//! | `j.x` behind `a JOIN b USING (x) AS j` | the same as `x` |
//! | `*`, `j.*` | its columns in PostgreSQL's order, in which those that are merged come first |
//! | `(a JOIN b USING (x)) AS j` | a subquery |
//!
//! Why: DataFusion takes the left one of two columns whatever the join is, has them in the order of the tables, and does not know
//! which is meant where a subquery names it. Where a function's columns are not known, `dialect/merged_columns.rs` does what can be
//! done without.

use super::scopes::{FindRelation, JoinedColumn, Owner, Scopes, constraint_mut, constraint_of, forget_name};
use crate::column_name::{MARK, column_name};
use crate::names::fold;
use crate::select::{body as select_body, of_body as query_of_body};
use crate::walk::{WalkMut, any_select};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The query with its joins written out.
pub(super) fn written_out(query: &mut Query, find: FindRelation<'_>) {
    if !merges(query) {
        return;
    }
    let mut using = Using { scopes: Scopes::of_statement(find), queries: Vec::new() };
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut using);
}

fn merges(query: &Query) -> bool {
    any_select(query, |select| {
        select.from.iter().any(|tables| tables_merge(tables) || has_named_join(tables))
    })
}

/// Whether a join of these merges columns.
fn tables_merge(tables: &TableWithJoins) -> bool {
    let by_itself = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => tables_merge(table_with_joins),
        _ => false,
    };
    by_itself(&tables.relation)
        || tables.joins.iter().any(|join| {
            let constraint = constraint_of(&join.join_operator);
            matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
                || by_itself(&join.relation)
        })
}

fn has_named_join(tables: &TableWithJoins) -> bool {
    let joined = tables.joins.iter().map(|join| &join.relation);
    std::iter::once(&tables.relation).chain(joined).any(|factor| match factor {
        TableFactor::NestedJoin { alias: Some(_), .. } => true,
        TableFactor::NestedJoin { table_with_joins, alias: None } => has_named_join(table_with_joins),
        _ => false,
    })
}

/// What is known of a query around a place.
#[derive(Default)]
struct Around {
    /// What each merged column is.
    merged: HashMap<String, Expr>,
    /// The joins that have names, each with its merged columns.
    named: HashMap<String, Vec<JoinedColumn>>,
    /// Its ORDER BY, until the rest of it has been visited.
    order: Option<OrderBy>,
}

impl Around {
    /// What a merged column is; `None` of all others.
    fn value_of(&self, column: &Expr) -> Option<&Expr> {
        match column {
            Expr::Identifier(name) => self.merged.get(&fold(name)),
            Expr::CompoundIdentifier(parts) => {
                let [join, name] = parts.as_slice() else { return None };
                let name = fold(name);
                let mut columns = self.named.get(&fold(join))?.iter();
                columns.find(|column| column.name == name).map(|column| &column.value)
            }
            _ => None,
        }
    }
}

struct Using<'f> {
    scopes: Scopes<'f>,
    queries: Vec<Around>,
}

impl Using<'_> {
    /// Writes the joins of a FROM out; `None` and no change if not all columns are known.
    fn write_out(&mut self, select: &mut Select) -> Option<()> {
        if !select.from.iter().any(tables_merge) {
            return None;
        }
        let mut columns = Vec::new();
        let mut conditions = Vec::new();
        let mut named = HashMap::new();
        for tables in &select.from {
            let joined = self.scopes.joined_here(tables)?;
            columns.extend(joined.columns);
            named.extend(joined.named);
            conditions.push(joined.conditions);
        }
        for (tables, conditions) in select.from.iter_mut().zip(conditions) {
            set_conditions(tables, &mut conditions.into_iter());
        }
        let is_only = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
        let merged: HashMap<String, Expr> = columns
            .iter()
            .filter(|column| column.is_merged && is_only(&column.name))
            .map(|column| (column.name.clone(), column.value.clone()))
            .collect();
        let innermost = self.queries.last_mut()?;
        (innermost.merged, innermost.named) = (merged, named);
        write_outputs(select, &columns, innermost);
        Some(())
    }

    /// Writes merged columns out in an ORDER BY, but for names of outputs.
    fn order(&mut self, select: &Select, order: &mut OrderBy) {
        let OrderByKind::Expressions(orderings) = &mut order.kind else { return };
        let is_output = |name: &Ident| {
            let name = fold(name);
            select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == name))
        };
        for ordering in orderings {
            if !matches!(&ordering.expr, Expr::Identifier(name) if is_output(name)) {
                // Nothing breaks off the visit.
                let _ = ordering.expr.walk_mut(self);
            }
        }
    }
}

/// Puts conditions in the places of names, in the order in which `Scopes::joined_here` gives them.
fn set_conditions(tables: &mut TableWithJoins, conditions: &mut dyn Iterator<Item = Option<JoinConstraint>>) {
    set_inside(&mut tables.relation, conditions);
    for join in &mut tables.joins {
        set_inside(&mut join.relation, conditions);
        if let Some(Some(condition)) = conditions.next()
            && let Some(constraint) = constraint_mut(&mut join.join_operator)
        {
            *constraint = condition;
        }
    }
}

fn set_inside(factor: &mut TableFactor, conditions: &mut dyn Iterator<Item = Option<JoinConstraint>>) {
    if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
        set_conditions(table_with_joins, conditions);
    }
}

/// Takes the names off joins whose columns are not known.
fn forget_names(tables: &mut TableWithJoins) {
    tables.joins.iter_mut().for_each(|join| forget_name(&mut join.join_operator));
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut tables.relation).chain(joined) {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            forget_names(table_with_joins);
        }
    }
}

/// Writes `*` out, and gives what is no column any more the name that it had.
fn write_outputs(select: &mut Select, columns: &[JoinedColumn], around: &Around) {
    let aliases: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        })
        .collect();
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_plain(&options) => {
                columns.iter().for_each(|column| put_output(column, &aliases, &mut projection));
            }
            SelectItem::QualifiedWildcard(kind, options) => match columns_of_join(&kind, &options, around) {
                Some(columns) => {
                    columns.iter().for_each(|column| put_output(column, &aliases, &mut projection));
                }
                None => projection.push(SelectItem::QualifiedWildcard(kind, options)),
            },
            SelectItem::UnnamedExpr(column) => projection.push(match around.value_of(&column) {
                Some(value) => named_output(value.clone(), column_name(&column)),
                None => SelectItem::UnnamedExpr(column),
            }),
            other => projection.push(other),
        }
    }
    select.projection = projection;
}

/// The columns of `j.*` where `j` is a join; `None` if it is something else.
fn columns_of_join<'a>(
    kind: &SelectItemQualifiedWildcardKind,
    options: &WildcardAdditionalOptions,
    around: &'a Around,
) -> Option<&'a [JoinedColumn]> {
    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else { return None };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    around.named.get(&fold(name)).filter(|_| is_plain(options)).map(Vec::as_slice)
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
}

/// Puts a column among the outputs, of which some have these aliases.
fn put_output(column: &JoinedColumn, aliases: &[String], outputs: &mut Vec<SelectItem>) {
    let (value, name) = (&column.value, &column.name);
    // DataFusion refuses two outputs of one name; behind the mark is what is not shown.
    let shown = if aliases.contains(name) { format!("{name}{MARK}") } else { name.clone() };
    let output = named_output(value.clone(), shown);
    let is_new = !outputs.contains(&output);
    outputs.push(if is_new {
        output
    } else {
        let alias = Ident::with_quote('"', format!("{name}{MARK}{}", outputs.len()));
        SelectItem::ExprWithAlias { expr: value.clone(), alias }
    });
}

fn named_output(value: Expr, name: String) -> SelectItem {
    match value {
        // It has the name already, and that of its table as well.
        Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(value),
        expr => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) },
    }
}

/// Makes subqueries of joins that have a name, which then names all of their columns.
fn nest_named(scopes: &Scopes<'_>, tables: &mut TableWithJoins) {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut tables.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => nest_named(scopes, table_with_joins),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
                let body = select_body(all, vec![table_with_joins.as_ref().clone()], None);
                let subquery = Box::new(query_of_body(None, SetExpr::Select(Box::new(body))));
                let mut alias = alias.take();
                if let Some(TableAlias { columns, .. }) = &mut alias
                    && !columns.is_empty()
                    && let Some(joined) = scopes.joined_here(table_with_joins)
                {
                    let others = joined.columns.into_iter().skip(columns.len()).map(|column| column.name);
                    columns.extend(others.map(|name| TableAliasColumnDef {
                        name: Ident::with_quote('"', name),
                        data_type: None,
                    }));
                }
                *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
            }
            _ => {}
        }
    }
}

impl VisitorMut for Using<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        // Outputs are written out before what they are ordered by. What is put together from several queries is ordered by
        // its outputs alone.
        let order = match query.body.as_ref() {
            SetExpr::Select(_) => query.order_by.take(),
            _ => None,
        };
        self.queries.push(Around { order, ..Around::default() });
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(|tables| nest_named(&self.scopes, tables));
        self.scopes.turn_to(select);
        if let Some(innermost) = self.queries.last_mut() {
            innermost.merged.clear();
            innermost.named.clear();
        }
        // What cannot be written out stays.
        if self.write_out(select).is_none() {
            select.from.iter_mut().for_each(forget_names);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order = self.queries.last_mut().and_then(|innermost| innermost.order.take());
        if let (Some(mut order), SetExpr::Select(select)) = (order, query.body.as_ref()) {
            self.order(select, &mut order);
            query.order_by = Some(order);
        }
        self.queries.pop();
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.scopes.enter_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.scopes.leave_table(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(Owner::Query(place)) = self.scopes.owner_of_column(expression)
            && let Some(around) = self.queries.get(place)
            && let Some(value) = around.value_of(expression)
        {
            *expression = value.clone();
        }
        ControlFlow::Continue(())
    }
}
