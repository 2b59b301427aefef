// SPDX-License-Identifier: Apache-2.0
//! INTERSECT and EXCEPT of queries without columns. DataFusion joins both sides by their columns, and refuses a join by none. So each
//! has a constant for a column, which is left out around them:
//!
//! ```text
//! SELECT FROM a INTERSECT SELECT FROM b
//!   -> SELECT FROM (SELECT 1 FROM a INTERSECT SELECT 1 FROM b)
//! ```

use crate::select::{around, item};
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, SetOperator, Value};

/// Gives the sides columns, if the query is such a one.
pub(super) fn give_columns(query: &mut Query) {
    if !joins_without_columns(&query.body) {
        return;
    }
    select_constants(&mut query.body);
    let (order_by, limit_clause, fetch) =
        (query.order_by.take(), query.limit_clause.take(), query.fetch.take());
    let outer = around(query.clone(), Vec::new());
    *query = Query { order_by, limit_clause, fetch, ..outer };
}

/// Whether a query has such an operation in it, and nothing is selected by any of the queries that it is put together from.
fn joins_without_columns(body: &SetExpr) -> bool {
    let (mut waiting, mut joins) = (vec![body], false);
    while let Some(part) = waiting.pop() {
        match part {
            SetExpr::SetOperation { op, left, right, .. } => {
                joins |= *op != SetOperator::Union;
                waiting.extend([left.as_ref(), right.as_ref()]);
            }
            SetExpr::Query(query) => waiting.push(query.body.as_ref()),
            SetExpr::Select(select) if select.projection.is_empty() => {}
            _ => return false,
        }
    }
    joins
}

fn select_constants(body: &mut SetExpr) {
    let mut waiting = vec![body];
    while let Some(part) = waiting.pop() {
        match part {
            SetExpr::SetOperation { left, right, .. } => waiting.extend([left.as_mut(), right.as_mut()]),
            SetExpr::Query(query) => waiting.push(query.body.as_mut()),
            SetExpr::Select(select) => {
                let one = Expr::Value(Value::Number("1".to_owned(), false).into());
                select.projection = vec![item(one, "coeval one".to_owned())];
            }
            _ => {}
        }
    }
}
