// SPDX-License-Identifier: Apache-2.0
//! DISTINCT ON in the order of ORDER BY: DataFusion wants its expressions in the order in which ORDER BY names them, PostgreSQL
//! only that ORDER BY names them first.

use super::only_select;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, Value,
};

/// Puts the expressions of DISTINCT ON in the order of ORDER BY. Those that ORDER BY does not get to are put at its end.
///
/// # Errors
/// `42P10` for the place of an output that is not there, `0A000` for one that is not known.
pub(super) fn follow_order(query: &mut Query) -> Result<(), SqlError> {
    let mut order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order.clone(),
        Some(OrderByKind::All(_)) => return Ok(()),
        None => Vec::new(),
    };
    let Some(select) = only_select(query) else { return Ok(()) };
    let Some(Distinct::On(on)) = &mut select.distinct else { return Ok(()) };
    let meant = |expression: &Expr| meant(expression, &select.projection);
    if let Some(place) = on.iter().find(|one| is_place(one) && output_at(one, &select.projection).is_none()) {
        return Err(no_output(place, &select.projection));
    }
    let mut left = on.clone();
    let mut ordered = Vec::with_capacity(left.len());
    for one in &order {
        let wanted = meant(&one.expr);
        let Some(place) = left.iter().position(|known| are_same(&meant(known), &wanted)) else { break };
        ordered.push(left.remove(place));
    }
    if !order.is_empty() && ordered.len() == order.len() {
        order.extend(left.iter().map(|one| OrderByExpr {
            expr: one.clone(),
            options: OrderByOptions::default(),
            with_fill: None,
        }));
    }
    ordered.append(&mut left);
    // To DataFusion a place is one of an output in ORDER BY alone, and a number that all rows have in common here.
    *on = ordered.into_iter().map(|one| if is_place(&one) { meant(&one) } else { one }).collect();
    if let Some(order_by) = &mut query.order_by {
        order_by.kind = OrderByKind::Expressions(order);
    }
    Ok(())
}

fn is_place(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// The error for a place at which no output is known.
fn no_output(place: &Expr, outputs: &[SelectItem]) -> SqlError {
    if outputs.iter().all(is_one) {
        let message = format!("SELECT DISTINCT ON position {place} is not in select list");
        return SqlError::new(SqlState::InvalidColumnReference, message);
    }
    SqlError::unsupported("places behind all columns of a table in DISTINCT ON").with_hint("Name the column.")
}

/// Whether an item is one output, and not all columns of a table.
fn is_one(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// The output at a place. What stands behind all columns of a table is at no place that is known here.
fn output_at<'s>(place: &Expr, outputs: &'s [SelectItem]) -> Option<&'s SelectItem> {
    let Expr::Value(value) = place else { return None };
    let Value::Number(place, _) = &value.value else { return None };
    let before = place.parse::<usize>().ok()?.checked_sub(1)?;
    outputs.iter().take_while(|item| is_one(item)).nth(before)
}

/// What an expression stands for that may be an output, by its place or by its name.
pub(in crate::query) fn meant(expression: &Expr, outputs: &[SelectItem]) -> Expr {
    let output = match expression {
        Expr::Nested(inner) => return meant(inner, outputs),
        Expr::Value(_) => output_at(expression, outputs),
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
pub(in crate::query) fn are_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (Expr::Nested(inner), other) | (other, Expr::Nested(inner)) => are_same(inner, other),
        (Expr::Identifier(one), Expr::Identifier(other)) => fold(one) == fold(other),
        (Expr::CompoundIdentifier(one), Expr::CompoundIdentifier(other)) => {
            one.iter().rev().zip(other.iter().rev()).all(|(one, other)| fold(one) == fold(other))
        }
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| fold(last) == fold(name))
        }
        (one, other) => one == other,
    }
}
