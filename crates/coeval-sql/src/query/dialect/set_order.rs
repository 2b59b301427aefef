// SPDX-License-Identifier: Apache-2.0
//! Functions that return sets, in places of their own.
//!
//! ORDER BY of what is not selected, beside them: DataFusion finds no column below the place where it
//! spreads the sets. So the keys are selected there, under names of our own, and left out around it. Sets that stand in ORDER BY alone are
//! spread beside the outputs in the same way.
//!
//! ```text
//! SELECT unnest(tags) AS tag FROM post ORDER BY id
//!   -> SELECT tag FROM (SELECT unnest(tags) AS tag, id AS order0 FROM post) ORDER BY order0
//! ```
//!
//! Under DISTINCT ON it spreads none at all. So the sets are spread in a query below it, which has all that it and ORDER BY name:
//!
//! ```text
//! SELECT DISTINCT ON (day) unnest(tags) AS tag FROM post ORDER BY day, tag
//!   -> SELECT DISTINCT ON (key0) tag FROM (SELECT unnest(tags) AS tag, day AS key0 FROM post) ORDER BY key0, tag
//! ```

use super::{are_same, unqualified};
use crate::column_name::{MARK, column_name};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::select::{around, item, quoted};
use crate::walk::any_outside_queries;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, Value, Visit,
};

/// Selects what a query with sets is ordered by below its ORDER BY. For one whose outputs have their names and whose functions are
/// DataFusion's; one that is ordered by outputs alone stays as it is.
pub(super) fn select_keys(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_ref()
        && let Some(Distinct::On(_)) = &select.distinct
    {
        spread_below_distinct(query);
        return;
    }
    let (SetExpr::Select(select), Some(order), true) =
        (query.body.as_mut(), &mut query.order_by, query.locks.is_empty())
    else {
        return;
    };
    let OrderByKind::Expressions(order) = &mut order.kind else { return };
    // With DISTINCT, outputs are all there is to order by.
    let has_sets = || select.projection.iter().any(spreads) || order.iter().any(|key| spreads(&key.expr));
    if select.distinct.is_some() || !has_sets() {
        return;
    }
    let Some(outputs) = select.projection.iter().map(output_name).collect::<Option<Vec<String>>>() else {
        return;
    };
    for ordering in order.iter_mut() {
        // A set that is an output is spread once.
        if let Some(output) = output_of(&ordering.expr, &select.projection) {
            ordering.expr = Expr::Identifier(output);
        }
    }
    let mut keys = Vec::new();
    for ordering in order.iter_mut().filter(|ordering| !is_output(&ordering.expr, &outputs)) {
        let name = format!("{MARK}order{}", keys.len());
        let key = std::mem::replace(&mut ordering.expr, Expr::Identifier(quoted(name.clone())));
        keys.push(item(key, name));
    }
    if keys.is_empty() {
        return;
    }
    select.projection.append(&mut keys);
    let (order_by, limit_clause, fetch) =
        (query.order_by.take(), query.limit_clause.take(), query.fetch.take());
    let named = |name: String| item(Expr::Identifier(quoted(name.clone())), name);
    let outer = around(query.clone(), outputs.into_iter().map(named).collect());
    *query = Query { order_by, limit_clause, fetch, ..outer };
}

/// Spreads the sets of a query with DISTINCT ON in one below it.
fn spread_below_distinct(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let order = match query.order_by.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(order)) => order.as_mut_slice(),
        Some(OrderByKind::All(_)) => return,
        None => &mut [],
    };
    let Some(outputs) = select.projection.iter().map(output_name).collect::<Option<Vec<String>>>() else {
        return;
    };
    let has_sets = select.projection.iter().any(spreads)
        || select.distinct.iter().any(spreads)
        || order.iter().any(|key| spreads(&key.expr));
    let has_twins = outputs.iter().enumerate().any(|(place, name)| outputs[..place].contains(name));
    if !has_sets || has_twins || !query.locks.is_empty() {
        return;
    }
    let Some(Distinct::On(mut on)) = select.distinct.take() else { return };
    let mut keys: Vec<(Expr, String)> = Vec::new();
    for key in on.iter_mut().chain(order.iter_mut().map(|ordering| &mut ordering.expr)) {
        let known = keys.iter().find(|(known, _)| *known == *key).map(|(_, name)| name.clone());
        let name = output_meant(key, &select.projection, &outputs).or(known).unwrap_or_else(|| {
            let name = format!("{MARK}key{}", keys.len());
            keys.push((key.clone(), name.clone()));
            name
        });
        *key = Expr::Identifier(quoted(name));
    }
    select.projection.extend(keys.into_iter().map(|(key, name)| item(key, name)));
    let (order_by, limit_clause, fetch) =
        (query.order_by.take(), query.limit_clause.take(), query.fetch.take());
    let named = |name: String| item(Expr::Identifier(quoted(name.clone())), name);
    let mut outer = around(query.clone(), outputs.into_iter().map(named).collect());
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.distinct = Some(Distinct::On(on));
    }
    *query = Query { order_by, limit_clause, fetch, ..outer };
}

/// The name of the output that a key of DISTINCT ON or ORDER BY is, by its place, its name, or as it is written.
fn output_meant(key: &Expr, outputs: &[SelectItem], names: &[String]) -> Option<String> {
    let place = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => place.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        Expr::Identifier(name) => names.iter().position(|output| *output == fold(name)),
        _ => None,
    };
    let written = || {
        outputs.iter().position(|output| match output {
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => are_same(expr, key),
            _ => false,
        })
    };
    names.get(place.or_else(written)?).cloned()
}

/// Refuses sets of which one value would be chosen before there are rows.
///
/// # Errors
/// `0A000` for a set within CASE or COALESCE.
pub(super) fn refuse_sets(expression: &Expr) -> Result<(), SqlError> {
    let place = match expression {
        Expr::Case { .. } => "CASE",
        Expr::Function(function) if unqualified(&function.name).is_some_and(|name| name == "coalesce") => {
            "COALESCE"
        }
        _ => return Ok(()),
    };
    if !spreads(expression) {
        return Ok(());
    }
    let message = format!("set-returning functions are not allowed in {place}");
    Err(SqlError::new(SqlState::FeatureNotSupported, message))
}

/// The name of an output; `None` of all columns of a table.
pub(in crate::query) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
        _ => None,
    }
}

/// Whether a key is an output, by its place or its name.
fn is_output(key: &Expr, outputs: &[String]) -> bool {
    match key {
        Expr::Value(_) => true,
        Expr::Identifier(name) => outputs.contains(&fold(name)),
        _ => false,
    }
}

/// The name of the output that a key with sets is.
fn output_of(key: &Expr, outputs: &[SelectItem]) -> Option<Ident> {
    if !spreads(key) {
        return None;
    }
    outputs.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if expr == key => Some(alias.clone()),
        _ => None,
    })
}

/// Whether an output is made of sets, those in subqueries aside.
fn spreads(output: &impl Visit) -> bool {
    any_outside_queries(output, |part| {
        matches!(part, Expr::Function(function)
            if unqualified(&function.name).is_some_and(|name| name == "unnest"))
    })
}
