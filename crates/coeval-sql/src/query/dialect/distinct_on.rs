// SPDX-License-Identifier: Apache-2.0
//! DISTINCT ON in the order of ORDER BY: DataFusion wants its expressions in the order in which ORDER BY names them, PostgreSQL
//! only that ORDER BY names them first.

use super::only_select;
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, Value,
};

/// Puts the expressions of DISTINCT ON in the order of ORDER BY. Those that ORDER BY does not get to are put at its end.
pub(super) fn follow_order(query: &mut Query) {
    let mut order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order.clone(),
        _ => return,
    };
    let Some(select) = only_select(query) else { return };
    let Some(Distinct::On(on)) = &mut select.distinct else { return };
    let meant = |expression: &Expr| meant(expression, &select.projection);
    let mut left = on.clone();
    let mut ordered = Vec::with_capacity(left.len());
    for one in &order {
        let wanted = meant(&one.expr);
        let Some(place) = left.iter().position(|known| are_same(&meant(known), &wanted)) else { break };
        ordered.push(left.remove(place));
    }
    if ordered.len() == order.len() {
        order.extend(left.iter().map(|one| OrderByExpr {
            expr: one.clone(),
            options: OrderByOptions::default(),
            with_fill: None,
        }));
    }
    ordered.append(&mut left);
    // A place is one of an output in ORDER BY alone.
    *on = ordered.into_iter().map(|one| if is_place(&one) { meant(&one) } else { one }).collect();
    if let Some(order_by) = &mut query.order_by {
        order_by.kind = OrderByKind::Expressions(order);
    }
}

fn is_place(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// What an expression stands for that may be an output, by its place or by its name.
fn meant(expression: &Expr, outputs: &[SelectItem]) -> Expr {
    let output = match expression {
        Expr::Nested(inner) => return meant(inner, outputs),
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => {
                place.parse::<usize>().ok().and_then(|place| outputs.get(place.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Identifier(name) => outputs.iter().find(
            |item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name)),
        ),
        _ => None,
    };
    match output {
        Some(SelectItem::UnnamedExpr(meant) | SelectItem::ExprWithAlias { expr: meant, .. }) => meant.clone(),
        _ => expression.clone(),
    }
}

/// Whether two expressions are the same; a column may have its table's name in front in one of them.
fn are_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::Identifier(one), Expr::Identifier(other)) => fold(one) == fold(other),
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| fold(last) == fold(name))
        }
        (one, other) => one == other,
    }
}
