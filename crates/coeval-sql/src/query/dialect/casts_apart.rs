// SPDX-License-Identifier: Apache-2.0
//! Calls that differ in casts alone, `sum(n)` and `sum(n::bigint)`.
//!
//! DataFusion leaves casts out of the names that it gives expressions, and refuses two of one name among the aggregates, windows and
//! groups of a query. So casts become calls of the function that casts, in those calls alone: what optimizes casts does not
//! see through it.

use super::unqualified;
use crate::query::typing::own_call;
use crate::types::column_type;
use crate::walk::{Walk, any_outside_queries, change_expressions, change_outside_queries};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    Value, Visitor,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Writes casts as calls in a query where names could not tell calls apart, but for its subqueries.
pub(super) fn told_apart(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut parts = parts_of(select, &mut query.order_by);
    // Most queries are left as they are here, at the cost of a look.
    if !parts.iter().any(|(_, part)| any_outside_queries(&**part, is_cast)) {
        return;
    }
    // What has a name, and what of the query it is made for.
    let mut alike: HashMap<String, HashMap<String, HashSet<String>>> = HashMap::new();
    for (role, part) in &parts {
        let mut calls = Calls::default();
        // Nothing breaks off the visit.
        let _ = part.walk(&mut calls);
        let group = (*role == Role::Group).then(|| (**part).clone());
        for part in calls.found.into_iter().chain(group) {
            for named in planned_as(&part) {
                let parts = alike.entry(without_casts(named.clone()).to_string()).or_default();
                parts.entry(named.to_string()).or_default().insert(part.to_string());
            }
        }
    }
    let several = alike.into_values().filter(|parts| parts.len() > 1);
    let meant = several.flat_map(HashMap::into_values).flatten().collect::<HashSet<_>>();
    if meant.is_empty() {
        return;
    }
    for (_, part) in &mut parts {
        change_outside_queries(*part, |expression| {
            // Outputs may be what rows are grouped by.
            let may_be_meant = matches!(expression, Expr::Function(_) | Expr::Cast { .. });
            if may_be_meant && meant.contains(&expression.to_string()) {
                call_casts(expression);
            }
        });
    }
}

/// What an expression is to its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Rows are grouped by it.
    Group,
    Other,
}

/// The expressions in which aggregates, windows and groups are named.
fn parts_of<'q>(select: &'q mut Select, order: &'q mut Option<OrderBy>) -> Vec<(Role, &'q mut Expr)> {
    let outputs = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let groups = match &mut select.group_by {
        GroupByExpr::Expressions(groups, _) => groups.as_mut_slice(),
        GroupByExpr::All(_) => &mut [],
    };
    let orderings = match order {
        Some(OrderBy { kind: OrderByKind::Expressions(orderings), .. }) => orderings.as_mut_slice(),
        _ => &mut [],
    };
    let others = outputs.chain(&mut select.having).chain(orderings.iter_mut().map(|one| &mut one.expr));
    let others = others.map(|expr| (Role::Other, expr));
    groups.iter_mut().map(|expr| (Role::Group, expr)).chain(others).collect()
}

/// Collects the outermost calls of an expression, those in subqueries aside.
#[derive(Default)]
struct Calls {
    found: Vec<Expr>,
    /// How many calls, and how many subqueries, there are around a place.
    calls: usize,
    queries: usize,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if self.queries == 0 && matches!(expression, Expr::Function(_)) {
            if self.calls == 0 {
                self.found.push(expression.clone());
            }
            self.calls += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if self.queries == 0 && matches!(expression, Expr::Function(_)) {
            self.calls -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// What a call is in a plan: a mean is a sum and a count.
fn planned_as(part: &Expr) -> Vec<Expr> {
    let named = |function: &Function, name: &str| {
        Expr::Function(Function { name: ObjectName::from(vec![Ident::new(name)]), ..function.clone() })
    };
    match part {
        Expr::Function(function) if unqualified(&function.name).is_some_and(|name| name == "avg") => {
            vec![named(function, "sum"), named(function, "count")]
        }
        part => vec![part.clone()],
    }
}

fn is_cast(expression: &Expr) -> bool {
    matches!(expression, Expr::Cast { .. })
}

fn without_casts(mut expression: Expr) -> Expr {
    change_expressions(&mut expression, |part| {
        if let Expr::Cast { expr, .. } = part {
            *part = expr.as_ref().clone();
        }
    });
    expression
}

/// Puts calls in the places of casts. One to what is no column's type stays, and may be refused.
fn call_casts(expression: &mut Expr) {
    change_expressions(expression, |part| {
        if let Expr::Cast { expr, data_type, .. } = part
            && !has_no_type(expr)
            && let Ok(ty) = column_type(data_type)
            && let Ok(call) = own_call(expr.as_ref().clone(), ty)
        {
            *part = call;
        }
    });
}

fn has_no_type(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::Placeholder(_) | Value::Null))
}
