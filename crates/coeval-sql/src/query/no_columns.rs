// SPDX-License-Identifier: Apache-2.0
//! Subqueries without columns, as `(SELECT FROM t)`, where a value is asked for: DataFusion takes it for granted that there is one.

use crate::error::SqlError;
use crate::walk::{any_query, find_expression};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
};

/// Refuses such a subquery in any part of a query.
///
/// # Errors
/// `42601`.
pub(super) fn refuse(query: &Query) -> Result<(), SqlError> {
    if !any_query(query, has_none) {
        return Ok(());
    }
    find_expression(query, refused).map_or(Ok(()), |message| Err(SqlError::syntax(message)))
}

/// What is wrong with an expression, if it is such a subquery or has one.
fn refused(expression: &Expr) -> Option<&'static str> {
    let (query, message) = match expression {
        Expr::Subquery(query) => (query, "subquery must return only one column"),
        Expr::Function(function) => match &function.args {
            FunctionArguments::Subquery(query) => (query, "subquery must return only one column"),
            FunctionArguments::List(_) | FunctionArguments::None => return None,
        },
        Expr::InSubquery { subquery, .. } => (subquery, "subquery has too few columns"),
        _ => return None,
    };
    has_none(query).then_some(message)
}

/// Whether a query has no columns, as far as that is seen without knowing its tables.
fn has_none(query: &Query) -> bool {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::Select(select) => return selects_none(select),
            SetExpr::Query(inner) => inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => left.as_ref(),
            _ => return false,
        };
    }
}

/// Whether nothing is selected, or all columns of subqueries that have none.
fn selects_none(select: &Select) -> bool {
    let is_derived_from_none = |table: &TableWithJoins| {
        table.joins.is_empty()
            && matches!(&table.relation, TableFactor::Derived { subquery, .. } if has_none(subquery))
    };
    match select.projection.as_slice() {
        [] => true,
        [SelectItem::Wildcard(_)] => !select.from.is_empty() && select.from.iter().all(is_derived_from_none),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_query;

    fn message(sql: &str) -> Option<String> {
        refuse(&parse_query(sql).unwrap()).err().map(|error| error.message)
    }

    #[test]
    fn a_value_has_a_column() {
        let (value, list) = ("subquery must return only one column", "subquery has too few columns");
        assert_eq!(message("SELECT (SELECT)").as_deref(), Some(value));
        assert_eq!(message("SELECT 1 + (SELECT FROM t UNION SELECT)").as_deref(), Some(value));
        assert_eq!(message("SELECT (SELECT * FROM (SELECT FROM t) q)").as_deref(), Some(value));
        assert_eq!(message("SELECT array(SELECT FROM t)").as_deref(), Some(value));
        assert_eq!(message("SELECT 1 WHERE 1 IN (SELECT WHERE false)").as_deref(), Some(list));
    }

    #[test]
    fn rows_have_none_where_they_are_counted() {
        assert_eq!(message("SELECT EXISTS (SELECT), count(*) FROM (SELECT FROM t) q"), None);
        assert_eq!(message("SELECT (SELECT 1 WHERE EXISTS (SELECT LIMIT 1))"), None);
    }
}
