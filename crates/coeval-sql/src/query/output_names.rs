// SPDX-License-Identifier: Apache-2.0
//! The names of output columns, as PostgreSQL gives them to expressions without an alias.
//!
//! DataFusion names an expression by its text and refuses two of one name. So every unnamed expression gets
//! PostgreSQL's name as its alias before planning, and a name that is taken gets a mark and a number behind
//! it, which are cut off again from the result.

use super::dialect::is_register;
use crate::column_name::{MARK, column_name};
use crate::stack::with_room;
use crate::walk::{WalkMut, each_expression};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The query with all outputs of all its parts named.
pub(crate) fn named(query: &Query) -> Query {
    let mut query = query.clone();
    // Nothing breaks off the visit.
    let _ = query.walk_mut(&mut Namer { depth: 0 });
    query
}

/// Marks outputs that have the name of a column which the query is ordered by, `SELECT upper(p.name) AS name ... ORDER BY
/// p.name`: DataFusion has both beside each other until the rows are sorted, and could not tell them apart. For a query that
/// no other one names the outputs of. Whether there are any.
pub(crate) fn mark_beside_order(query: &mut Query) -> bool {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else {
        return false;
    };
    let OrderByKind::Expressions(order) = &mut order.kind else { return false };
    let columns = columns_of_tables(order);
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = crate::names::fold(alias);
        if !columns.contains(&name) {
            continue;
        }
        *alias = unique(&name, &mut taken);
        // By a name alone the query is ordered by its output.
        for ordering in order.iter_mut() {
            if let Expr::Identifier(ident) = &mut ordering.expr
                && crate::names::fold(ident) == name
            {
                *ident = alias.clone();
            }
        }
    }
    !taken.is_empty()
}

/// The names of the columns that are written with their table.
pub(super) fn columns_of_tables(order: &[OrderByExpr]) -> HashSet<String> {
    let mut columns = HashSet::new();
    for ordering in order {
        each_expression(&ordering.expr, |expression| {
            if let Expr::CompoundIdentifier(parts) = expression
                && let Some(name) = parts.last()
            {
                columns.insert(crate::names::fold(name));
            }
        });
    }
    columns
}

/// Names the outputs in the ORDER BY of a DISTINCT query whose expressions stand there once more: it is ordered by its outputs
/// alone.
fn order_by_outputs(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else { return };
    let (Some(Distinct::Distinct), OrderByKind::Expressions(order)) = (&select.distinct, &mut order.kind)
    else {
        return;
    };
    for ordering in order {
        let output = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == ordering.expr => Some(alias),
            _ => None,
        });
        if let Some(alias) = output {
            ordering.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// [`mark_beside_order`] of a query inside another one, which finds the outputs by their names: a query around it takes the
/// marks off again.
fn mark_inside(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_known = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { .. } => true,
        SelectItem::UnnamedExpr(expression) => {
            matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    if !query.locks.is_empty() || !select.projection.iter().all(is_known) || !mark_beside_order(query) {
        return;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let outputs = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(crate::names::fold(alias)),
        SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
        _ => None,
    });
    let mut taken = HashSet::new();
    let unmarked = |name: String| {
        let shown = name.split(MARK).next().unwrap_or_default().to_owned();
        // Of several outputs of one name only the first can be found by it.
        let alias = if taken.insert(shown.clone()) { shown } else { name.clone() };
        let expr = Expr::Identifier(Ident::with_quote('"', name));
        SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) }
    };
    let projection = outputs.map(unmarked).collect();
    *query = crate::select::around(query.clone(), projection);
}

/// The schema with the names as users see them.
pub(crate) fn shown(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name().split(MARK).next().unwrap_or_default();
            Field::new(name, field.data_type().clone(), field.is_nullable())
                .with_metadata(field.metadata().clone())
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// Names outputs; `depth` says how many queries there are around the one that is visited.
struct Namer {
    depth: usize,
}

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        name_body(&mut query.body);
        order_by_outputs(query);
        if self.depth > 0 {
            mark_inside(query);
        }
        ControlFlow::Continue(())
    }
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| name_body(left));
            name_body(right);
        }
        _ => {}
    }
}

fn name_select(select: &mut Select) {
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let (name, expression) = match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = crate::names::fold(alias);
                if !taken.insert(name.clone()) {
                    *alias = unique(&name, &mut taken);
                }
                continue;
            }
            SelectItem::UnnamedExpr(expression) => (column_name(expression), expression),
            _ => continue,
        };
        let is_column = matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            && !is_register(expression);
        let is_new = taken.insert(name.clone());
        if is_column && is_new && !has_wildcard {
            continue;
        }
        let alias =
            if is_new && !has_wildcard { Ident::with_quote('"', name) } else { unique(&name, &mut taken) };
        let expression = expression.clone();
        *item = SelectItem::ExprWithAlias { expr: expression, alias };
    }
}

/// The name with a mark and a number behind it, other than those that are taken, of which it is one then.
pub(super) fn unique(name: &str, taken: &mut HashSet<String>) -> Ident {
    let mut number = taken.len();
    loop {
        let candidate = format!("{name}{MARK}{number}");
        if taken.insert(candidate.clone()) {
            return Ident::with_quote('"', candidate);
        }
        number += 1;
    }
}
