// SPDX-License-Identifier: Apache-2.0
//! VALUES as the query that an expression looks into: `x IN (VALUES (1), (2))` as `x IN (SELECT column1 FROM (VALUES (1), (2)))`.
//! DataFusion asks such a query for the expressions that it selects, and VALUES selects none.

use crate::select::{around, quoted};
use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr};

/// Selects the columns of VALUES, if that is what the expression looks into.
pub(super) fn select_columns(expression: &mut Expr) {
    let (Expr::InSubquery { subquery, .. } | Expr::Exists { subquery, .. } | Expr::Subquery(subquery)) =
        expression
    else {
        return;
    };
    let Some(width) = width(&subquery.body) else { return };
    let column = |place: usize| SelectItem::UnnamedExpr(Expr::Identifier(quoted(format!("column{place}"))));
    let selected = around(Query::clone(subquery), (1..=width).map(column).collect());
    **subquery = selected;
}

/// How many columns VALUES has, in parentheses or not; `None` of other queries.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Values(values) => Some(values.rows.first().map_or(0, |row| row.content.len())),
        SetExpr::Query(query) => width(&query.body),
        _ => None,
    }
}
