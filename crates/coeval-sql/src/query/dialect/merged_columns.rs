// SPDX-License-Identifier: Apache-2.0
//! The columns of `JOIN ... USING` by the tables that they come from, where not all of their columns are known: behind a function of
//! several columns, or a file. All other joins are written out before (`query/using.rs`).
//!
//! `x` of `a JOIN b USING (x)` is the column of `a`, of a RIGHT JOIN that of `b`, of a FULL JOIN whichever is not NULL. DataFusion
//! does not know which of the two columns is meant, looks for one outside of the subquery then, and takes the left one of a
//! FULL JOIN.

use super::call;
use crate::names::fold;
use crate::walk::change_outside_queries;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
};
use std::collections::HashMap;

/// Names columns of USING by their tables in a query, but for those within its subqueries; `depth` is how many queries
/// there are around it.
pub(super) fn name_by_table(query: &mut Query, depth: usize) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let merged = merged_columns(select, depth);
    if merged.is_empty() {
        return;
    }
    let outputs: Vec<String> = select.projection.iter().filter_map(output_name).collect();
    for item in &mut select.projection {
        name_output(item, &merged);
    }
    let conditions = select.selection.iter_mut().chain(&mut select.having);
    conditions.for_each(|condition| put_columns(condition, &merged));
    if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
        expressions.iter_mut().for_each(|expression| put_columns(expression, &merged));
    }
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(expressions) = &mut order.kind
    {
        for ordering in expressions {
            let is_output = matches!(&ordering.expr, Expr::Identifier(name) if outputs.contains(&fold(name)));
            if !is_output {
                put_columns(&mut ordering.expr, &merged);
            }
        }
    }
}

fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        _ => None,
    }
}

/// An output keeps the name that the column has.
fn name_output(item: &mut SelectItem, merged: &HashMap<String, Expr>) {
    let replaced = match item {
        SelectItem::UnnamedExpr(expression) => {
            let name = match expression {
                Expr::Identifier(name) => Some(name.clone()),
                _ => None,
            };
            let before = expression.clone();
            put_columns(expression, merged);
            name.filter(|_| *expression != before).map(|name| (expression.clone(), name))
        }
        SelectItem::ExprWithAlias { expr, .. } => {
            put_columns(expr, merged);
            None
        }
        _ => None,
    };
    if let Some((expr, name)) = replaced {
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', fold(&name)) };
    }
}

/// What each column of USING is, as far as that can be said without knowing the tables.
fn merged_columns(select: &Select, depth: usize) -> HashMap<String, Expr> {
    let mut merged = HashMap::new();
    for from in &select.from {
        add_merged(from, depth, &mut merged);
    }
    merged
}

fn add_merged(from: &TableWithJoins, depth: usize, merged: &mut HashMap<String, Expr>) {
    let first = name_of(&from.relation);
    for (place, join) in from.joins.iter().enumerate() {
        let Some((constraint, keeps)) = kept_of(&join.join_operator) else { continue };
        let JoinConstraint::Using(columns) = constraint else { continue };
        let right = name_of(&join.relation);
        for name in columns {
            let Some(column) = name.0.last().and_then(ObjectNamePart::as_ident) else { continue };
            let known = fold(column);
            let of = |table: &Option<Ident>| {
                table.clone().map(|table| Expr::CompoundIdentifier(vec![table, column.clone()]))
            };
            // Which of several tables before has it is not known.
            let left = merged.get(&known).cloned().or_else(|| if place == 0 { of(&first) } else { None });
            let value = match (keeps, left, of(&right)) {
                // DataFusion takes the left one by itself, unless it looks outside.
                (Keeps::Left, ..) if depth == 0 => None,
                (Keeps::Left, left, _) => left,
                (Keeps::Either, left, right) if depth > 0 => left.or(right),
                (Keeps::Either, ..) => None,
                (Keeps::Right, _, right) => right,
                (Keeps::Both, Some(left), Some(right)) => Some(call("coalesce", vec![left, right])),
                (Keeps::Both, ..) => None,
            };
            if let Some(value) = value {
                merged.insert(known, value);
            }
        }
    }
}

/// Whose column is never filled up.
#[derive(Clone, Copy)]
enum Keeps {
    Left,
    Right,
    Either,
    Both,
}

fn kept_of(join: &JoinOperator) -> Option<(&JoinConstraint, Keeps)> {
    Some(match join {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, Keeps::Either),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, Keeps::Left),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Keeps::Right),
        JoinOperator::FullOuter(constraint) => (constraint, Keeps::Both),
        _ => return None,
    })
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    let last = |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).cloned();
    match factor {
        TableFactor::Table { name, alias, .. } => {
            alias.as_ref().map(|alias| alias.name.clone()).or_else(|| last(name))
        }
        TableFactor::Derived { alias, .. } | TableFactor::Function { alias, .. } => {
            alias.as_ref().map(|alias| alias.name.clone())
        }
        _ => None,
    }
}

/// Puts columns in the places of names, outside of subqueries.
fn put_columns(expression: &mut Expr, merged: &HashMap<String, Expr>) {
    change_outside_queries(expression, |part| {
        if let Expr::Identifier(name) = part
            && let Some(column) = merged.get(&fold(name))
        {
            *part = column.clone();
        }
    });
}
