// SPDX-License-Identifier: Apache-2.0
//! Subqueries without columns, as `(SELECT FROM t)`, where a value is asked for: DataFusion takes it for granted that there is one.

use super::scopes::{FindRelation, Scopes, keeping_scopes};
use crate::error::SqlError;
use crate::walk::{Walk, any_expression};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Visitor,
};
use std::ops::ControlFlow;

/// What is wrong where a value is asked for.
const NO_VALUE: &str = "subquery must return only one column";

/// What is wrong where a value is looked for.
const NO_LIST: &str = "subquery has too few columns";

/// Refuses such a subquery in any part of a query. Costs a second walk over a query with subqueries of which all columns are taken.
///
/// # Errors
/// `42601`.
pub(super) fn refuse(query: &Query, find: FindRelation<'_>) -> Result<(), SqlError> {
    let may_be_wrong =
        |expression: &Expr| valued(expression).is_some_and(|(subquery, _)| may_have_none(subquery));
    if !any_expression(query, may_be_wrong) {
        return Ok(());
    }
    query.try_walk(&mut Subqueries { scopes: Scopes::of_statement(find) })
}

/// Breaks off at the first subquery without columns.
struct Subqueries<'f> {
    scopes: Scopes<'f>,
}

impl Visitor for Subqueries<'_> {
    type Break = SqlError;

    keeping_scopes!(&);

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SqlError> {
        let has_none =
            |subquery: &Query| has_none(subquery) || self.scopes.width_of_query(subquery) == Some(0);
        match valued(expression).filter(|&(subquery, _)| has_none(subquery)) {
            Some((_, message)) => ControlFlow::Break(SqlError::syntax(message)),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The subquery whose rows are the values that an expression is or compares with, and what is wrong if it has no columns.
fn valued(expression: &Expr) -> Option<(&Query, &'static str)> {
    match expression {
        Expr::Subquery(query) => Some((query.as_ref(), NO_VALUE)),
        Expr::Function(function) => match &function.args {
            FunctionArguments::Subquery(query) => Some((query.as_ref(), NO_VALUE)),
            FunctionArguments::List(_) | FunctionArguments::None => None,
        },
        Expr::InSubquery { subquery, .. } => Some((subquery.as_ref(), NO_LIST)),
        _ => None,
    }
}

/// The first of the SELECTs that a query is put together from.
fn first_select(query: &Query) -> Option<&Select> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(inner) => inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => left.as_ref(),
            _ => return None,
        };
    }
}

/// Whether a query has columns only if its tables have some.
fn may_have_none(query: &Query) -> bool {
    let is_star =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    first_select(query).is_some_and(|select| select.projection.iter().all(is_star))
}

/// Whether a query has no columns, as far as that is seen without knowing its tables.
fn has_none(query: &Query) -> bool {
    first_select(query).is_some_and(selects_none)
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
    use crate::query::scopes::FoundRelation;
    use datafusion::sql::sqlparser::ast::ObjectName;

    /// What is wrong with a query, for which there is a table `nothing` without columns.
    fn message(sql: &str) -> Option<String> {
        let find =
            |name: &ObjectName| (name.to_string() == "nothing").then(|| FoundRelation::Columns(Vec::new()));
        refuse(&parse_query(sql).unwrap(), &find).err().map(|error| error.message)
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
    fn what_has_all_columns_of_tables_without_any_has_none() {
        let value = "subquery must return only one column";
        for sql in [
            "SELECT (SELECT * FROM nothing)",
            "SELECT 1 FROM t ORDER BY (SELECT n.* FROM nothing n)",
            "SELECT (SELECT *, * FROM nothing JOIN nothing n ON true)",
            "WITH q AS (SELECT FROM t) SELECT coalesce((SELECT * FROM q), 1)",
            "SELECT (SELECT q.* FROM (SELECT FROM t) q)",
        ] {
            assert_eq!(message(sql).as_deref(), Some(value), "{sql}");
        }
        assert_eq!(message("SELECT (SELECT * FROM t), (SELECT * FROM nothing, t)"), None);
    }

    #[test]
    fn rows_have_none_where_they_are_counted() {
        assert_eq!(message("SELECT EXISTS (SELECT), count(*) FROM (SELECT FROM t) q"), None);
        assert_eq!(message("SELECT (SELECT 1 WHERE EXISTS (SELECT LIMIT 1))"), None);
        assert_eq!(message("SELECT EXISTS (SELECT * FROM nothing)"), None);
    }
}
