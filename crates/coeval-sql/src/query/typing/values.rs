// SPDX-License-Identifier: Apache-2.0
//! `VALUES` with subqueries, which DataFusion cannot run: rows become queries of one row each.

use crate::query::has_subquery;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Writes each `VALUES` of the query that holds a subquery as a union of its rows.
pub(crate) fn without_subqueries_in_values(query: &mut Query) {
    // Nothing breaks off the visit.
    let _ = query.visit(&mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        rewrite(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn rewrite(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            rewrite(left);
            rewrite(right);
        }
        SetExpr::Values(values) if has_subquery(values) => {
            let rows = values.rows.iter().map(|row| one_row(&row.content));
            let union = rows.reduce(|left, right| SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left: Box::new(left),
                right: Box::new(right),
            });
            if let Some(union) = union {
                *body = union;
            }
        }
        _ => {}
    }
}

/// `SELECT a AS column1, b AS column2`.
fn one_row(values: &[Expr]) -> SetExpr {
    let projection = values.iter().enumerate().map(|(index, value)| SelectItem::ExprWithAlias {
        expr: value.clone(),
        alias: Ident::new(format!("column{}", index + 1)),
    });
    SetExpr::Select(Box::new(crate::dml::select_body(projection.collect(), Vec::new(), None)))
}
