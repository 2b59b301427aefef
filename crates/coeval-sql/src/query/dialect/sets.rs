// SPDX-License-Identifier: Apache-2.0
//! Arrays as sets: membership in array literals, arrays of subqueries.

use super::{call, only_select, unqualified};
use crate::functions::is_aggregate;
use crate::names::fold;
use crate::query::typing::{FOUND, MISSING};
use crate::walk::any_expression;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};

/// The function that makes an empty array of no array.
pub(in crate::query) const OR_EMPTY: &str = "coeval_or_empty";

/// Which quantifier compares with an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    Any,
    All,
}

/// `x = ANY ('{a,b}')` as `x IN ('a', 'b')`, and `x <> ALL` as NOT IN: the elements are literals of the type of `x`.
/// A parameter is read as an array of that type. `None` for other arrays.
pub(super) fn membership(left: &Expr, right: &Expr, quantifier: Quantifier) -> Option<Expr> {
    let right = if let Expr::Nested(inner) = right { inner } else { right };
    let Expr::Value(value) = right else { return None };
    match &value.value {
        Value::SingleQuotedString(text) => {
            let list = elements(text)?;
            let negated = quantifier == Quantifier::All;
            if list.is_empty() {
                return Some(Expr::Value(Value::Boolean(negated).into()));
            }
            Some(Expr::InList { expr: Box::new(left.clone()), list, negated })
        }
        Value::Placeholder(_) => {
            let array = call("coeval_array_like", vec![right.clone(), left.clone()]);
            Some(sought_in(array, left, quantifier))
        }
        _ => None,
    }
}

/// `x = ANY (array)`, `x <> ALL (array)`; `None` for a subquery.
pub(super) fn sought(left: &Expr, right: &Expr, quantifier: Quantifier) -> Option<Expr> {
    (!matches!(right, Expr::Subquery(_))).then(|| sought_in(right.clone(), left, quantifier))
}

/// Whether an element is in an array, or whether it is not: NULL if it is not, and one that is there is NULL.
fn sought_in(array: Expr, element: &Expr, quantifier: Quantifier) -> Expr {
    let has = call("array_has", vec![array.clone(), element.clone()]);
    let told = match quantifier {
        Quantifier::Any => FOUND,
        Quantifier::All => MISSING,
    };
    call(told, vec![has, array])
}

/// The elements of `{a,b}` as literals; `None` if it is no simple array.
fn elements(text: &str) -> Option<Vec<Expr>> {
    let parts = crate::types::array_elements(text).ok()?;
    let literal = |part: Option<String>| match part {
        Some(text) => super::text(&text),
        None => Expr::Value(Value::Null.into()),
    };
    Some(parts.into_iter().map(literal).collect())
}

/// `ARRAY(SELECT x ... ORDER BY y)`.
pub(super) fn array_of(query: &Query) -> Expr {
    let mut query = query.clone();
    order_by_place(&mut query);
    let order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(expressions)) => expressions.clone(),
        _ => Vec::new(),
    };
    let is_plain = query.limit_clause.is_none() && query.fetch.is_none();
    if is_plain
        && let Some(select) = only_select(&mut query)
        && is_simple(select)
        && let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
            select.projection.as_slice()
        && is_of_one_row(item)
    {
        let aggregated = aggregate(item.clone(), order);
        select.projection = vec![SelectItem::UnnamedExpr(aggregated)];
        query.order_by = None;
        return Expr::Subquery(Box::new(query));
    }
    over_derived(query)
}

/// The only item has another name in what is made of the query: where ORDER BY says its name, it says its place.
fn order_by_place(query: &mut Query) {
    let Some(OrderByKind::Expressions(mut order)) = query.order_by.as_ref().map(|order| order.kind.clone())
    else {
        return;
    };
    let Some([SelectItem::ExprWithAlias { alias, .. }]) =
        only_select(query).map(|select| select.projection.as_slice())
    else {
        return;
    };
    let name = fold(alias);
    for one in &mut order {
        if matches!(&one.expr, Expr::Identifier(ident) if fold(ident) == name) {
            one.expr = Expr::Value(Value::Number("1".to_owned(), false).into());
        }
    }
    if let Some(order_by) = &mut query.order_by {
        order_by.kind = OrderByKind::Expressions(order);
    }
}

fn is_simple(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(expressions, _) => !expressions.is_empty(),
    };
    select.distinct.is_none() && select.having.is_none() && !is_grouped
}

/// Whether the item has one value for each row that is read: no aggregate, no window, no set.
fn is_of_one_row(item: &Expr) -> bool {
    let is_other = |function: &Function| {
        let name = unqualified(&function.name).unwrap_or_default();
        function.over.is_some()
            || matches!(name.as_str(), "unnest" | "generate_series")
            || is_aggregate(&name)
            || crate::catalog::set_returning(&name).is_some()
            || !crate::json::set_columns(&name).is_empty()
    };
    !any_expression(item, |part| matches!(part, Expr::Function(function) if is_other(function)))
}

/// `array_agg(item ORDER BY ...)`, never NULL. A place in ORDER BY is that of the only item.
fn aggregate(item: Expr, order: Vec<OrderByExpr>) -> Expr {
    let mut aggregated = call("array_agg", vec![item.clone()]);
    let by_item = |mut one: OrderByExpr| {
        if is_place(&one.expr) {
            one.expr = item.clone();
        }
        one
    };
    if let Expr::Function(function) = &mut aggregated
        && let FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order.into_iter().map(by_item).collect()));
    }
    call(OR_EMPTY, vec![aggregated])
}

/// Whether ORDER BY names a column by its place.
fn is_place(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// `(SELECT array_agg(x) FROM (query) AS t(x))`.
fn over_derived(query: Query) -> Expr {
    let column = Ident::with_quote('"', "element");
    let mut derived = query;
    // An order without a limit says nothing about the rows of a subquery in FROM: it goes to the aggregate.
    let order = match derived.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) if order.iter().all(|one| is_place(&one.expr)) => order.clone(),
        _ => Vec::new(),
    };
    if let SetExpr::Select(select) = derived.body.as_mut()
        && let [item] = select.projection.as_mut_slice()
        && let SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } = item
    {
        *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: column.clone() };
    }
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', "elements"),
        columns: vec![datafusion::sql::sqlparser::ast::TableAliasColumnDef::from_name("element")],
        at: None,
    };
    let from = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(derived),
        alias: Some(alias),
        sample: None,
    };
    let aggregated = aggregate(Expr::Identifier(column), order);
    Expr::Subquery(Box::new(super::tables::select_from(
        vec![SelectItem::UnnamedExpr(aggregated)],
        vec![TableWithJoins { relation: from, joins: Vec::new() }],
    )))
}
