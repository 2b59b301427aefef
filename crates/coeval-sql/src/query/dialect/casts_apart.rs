// SPDX-License-Identifier: Apache-2.0
//! Calls that differ in casts alone, `sum(n)` and `sum(n::bigint)`.
//!
//! DataFusion leaves casts out of the names that it gives expressions, and refuses two of one name among the aggregates, windows and
//! groups of a query. So casts become calls of the function that casts, in those calls alone: what optimizes casts does not
//! see through it.

use crate::query::typing::own_call;
use crate::types::column_type;
use crate::walk::WalkMut;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Writes casts as calls in a query where names could not tell calls apart, but for its subqueries.
pub(super) fn told_apart(query: &mut Query) {
    let order = &mut query.order_by;
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut seen = Seen::default();
    each_part(select, order, &mut seen);
    if !seen.has_casts {
        return;
    }
    let mut alike: HashMap<String, HashSet<String>> = HashMap::new();
    for part in &seen.parts {
        let mut bare = part.clone();
        // Nothing breaks off the visit.
        let _ = bare.walk_mut(&mut Strip);
        alike.entry(bare.to_string()).or_default().insert(part.to_string());
    }
    let meant = alike.into_values().filter(|parts| parts.len() > 1).flatten().collect::<HashSet<_>>();
    if !meant.is_empty() {
        each_part(select, order, &mut Replace { meant, depth: 0 });
    }
}

/// What is done with the expressions of a query.
trait Parts: VisitorMut<Break = ()> {
    /// An expression that rows are grouped by.
    fn group(&mut self, expression: &mut Expr);
}

fn each_part(select: &mut Select, order: &mut Option<OrderBy>, parts: &mut impl Parts) {
    // Nothing breaks off these visits.
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.walk_mut(parts);
        }
    }
    if let Some(condition) = &mut select.having {
        let _ = condition.walk_mut(parts);
    }
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        groups.iter_mut().for_each(|group| parts.group(group));
    }
    if let Some(OrderBy { kind: OrderByKind::Expressions(orderings), .. }) = order {
        for ordering in orderings {
            let _ = ordering.expr.walk_mut(parts);
        }
    }
}

/// Collects calls, and what rows are grouped by.
#[derive(Default)]
struct Seen {
    parts: Vec<Expr>,
    has_casts: bool,
    /// How many calls, and how many subqueries, there are around a place.
    calls: usize,
    depth: usize,
}

impl Parts for Seen {
    fn group(&mut self, expression: &mut Expr) {
        self.has_casts |= is_cast(expression);
        self.parts.push(expression.clone());
        let _ = expression.walk_mut(self);
    }
}

impl VisitorMut for Seen {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if matches!(expression, Expr::Function(_)) {
            // The outermost call has the others within it.
            if self.calls == 0 {
                self.parts.push(expression.clone());
            }
            self.calls += 1;
        }
        self.has_casts |= self.calls > 0 && is_cast(expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && matches!(expression, Expr::Function(_)) {
            self.calls -= 1;
        }
        ControlFlow::Continue(())
    }
}

fn is_cast(expression: &Expr) -> bool {
    matches!(expression, Expr::Cast { .. })
}

/// Leaves casts out.
struct Strip;

impl VisitorMut for Strip {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, .. } = expression {
            *expression = expr.as_ref().clone();
        }
        ControlFlow::Continue(())
    }
}

/// Puts calls in the places of the casts in these expressions.
struct Replace {
    meant: HashSet<String>,
    depth: usize,
}

impl Replace {
    fn replace(&self, expression: &mut Expr) {
        if self.meant.contains(&expression.to_string()) {
            let _ = expression.walk_mut(&mut Call);
        }
    }
}

impl Parts for Replace {
    fn group(&mut self, expression: &mut Expr) {
        self.replace(expression);
        let _ = expression.walk_mut(self);
    }
}

impl VisitorMut for Replace {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        // Outputs may be what rows are grouped by.
        if self.depth == 0 && matches!(expression, Expr::Function(_) | Expr::Cast { .. }) {
            self.replace(expression);
        }
        ControlFlow::Continue(())
    }
}

struct Call;

impl VisitorMut for Call {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Cast { expr, data_type, .. } = expression else { return ControlFlow::Continue(()) };
        let has_no_type = matches!(expr.as_ref(), Expr::Value(value)
            if matches!(value.value, Value::Placeholder(_) | Value::Null));
        // What is no column's type stays, and may be refused.
        if !has_no_type
            && let Ok(ty) = column_type(data_type)
            && let Ok(call) = own_call(expr.as_ref().clone(), ty)
        {
            *expression = call;
        }
        ControlFlow::Continue(())
    }
}
