// SPDX-License-Identifier: Apache-2.0
//! Names in ORDER BY that several outputs have, as `x` in `SELECT a AS x, b AS x FROM t ORDER BY x`. DataFusion would take the first.

use super::dialect::{are_same, output_name};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::walk::find_query;
use datafusion::sql::sqlparser::ast::{Expr, Ident, OrderByKind, Query, SelectItem, SetExpr};

/// Refuses such a name in any part of a query, unless the outputs are the same.
///
/// # Errors
/// `42702`.
pub(super) fn refuse_ambiguous(query: &Query) -> Result<(), SqlError> {
    find_query(query, ambiguous_name).map_or(Ok(()), |name| Err(ambiguous_order(&name)))
}

/// The error that such a name is.
pub(super) fn ambiguous_order(name: &Ident) -> SqlError {
    let error = SqlError::new(SqlState::AmbiguousColumn, format!("ORDER BY \"{}\" is ambiguous", fold(name)));
    error.at(name.span.start.line, name.span.start.column)
}

fn ambiguous_name(query: &Query) -> Option<Ident> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let OrderByKind::Expressions(order) = &query.order_by.as_ref()?.kind else { return None };
    order.iter().find_map(|key| match &key.expr {
        Expr::Identifier(name) if is_ambiguous(name, &select.projection) => Some(name.clone()),
        _ => None,
    })
}

fn is_ambiguous(name: &Ident, outputs: &[SelectItem]) -> bool {
    let name = fold(name);
    let mut meant = outputs.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(output) | SelectItem::ExprWithAlias { expr: output, .. } => {
            (output_name(item)? == name).then_some(output)
        }
        _ => None,
    });
    meant.next().is_some_and(|first| meant.any(|other| !are_same(first, other)))
}
