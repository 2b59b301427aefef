// SPDX-License-Identifier: Apache-2.0
//! Rows looked for among, and compared with, the rows of a subquery: written as comparisons of columns inside of it.
//!
//! | form | becomes |
//! |---|---|
//! | `(a, b) IN (query)` as a condition | `EXISTS` a row of the query for which `a = c AND b = d` is true |
//! | `(a, b) NOT IN (query)` as a condition | `NOT EXISTS` one for which that is not false |
//! | either as a value | a CASE of the two, which may be NULL |
//! | `(a, b) = (query)` | a subquery with `a = c AND b = d`: of one row, or NULL |

use super::{rows, tables};
use crate::error::SqlError;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, UnaryOperator, Value,
};

/// What the subquery's rows go by, a name that no query has.
const ROWS: &str = "coeval rows";

/// A row that is looked for.
struct Membership<'e> {
    row: Vec<Expr>,
    query: &'e Query,
    is_negated: bool,
}

impl Membership<'_> {
    /// `42601` if the subquery has more or fewer columns than the row, as far as that can be seen.
    fn check_width(&self) -> Result<(), SqlError> {
        check_width(self.query, self.row.len())
    }
}

/// Rewrites conditions of a SELECT that look for rows, where NULL is as good as false: those connected by AND and OR.
pub(super) fn rewrite_conditions(select: &mut Select) {
    select.selection.iter_mut().for_each(rewrite_condition);
}

fn rewrite_condition(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            rewrite_condition(left);
            rewrite_condition(right);
        }
        Expr::Nested(inner) => rewrite_condition(inner),
        other => {
            if let Some(membership) = membership(other).filter(|one| one.check_width().is_ok()) {
                let subquery = if membership.is_negated {
                    found(&membership, |equal| Expr::IsNotFalse(Box::new(equal)))
                } else {
                    found(&membership, |equal| equal)
                };
                *other = Expr::Exists { subquery: Box::new(subquery), negated: membership.is_negated };
            }
        }
    }
}

/// What stands in place of a row beside a subquery, as a value; `None` for what is no such.
///
/// # Errors
/// `42601` if the subquery has more or fewer columns than the row.
pub(super) fn rewritten(expression: &Expr) -> Result<Option<Expr>, SqlError> {
    if let Some(membership) = membership(expression) {
        membership.check_width()?;
        return Ok(Some(value(&membership)));
    }
    let Expr::BinaryOp { left, op, right } = expression else { return Ok(None) };
    let (Some(query), Some(row), true) = (subquery(right), rows::columns(left), rows::compares(op)) else {
        return Ok(None);
    };
    check_width(query, row.len())?;
    let compared = rows::compared(&row, op, &columns_of(row.len()));
    let mut single = tables::restricted(query, alias(row.len()), Expr::Value(Value::Boolean(true).into()));
    if let SetExpr::Select(select) = single.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(compared)];
        select.selection = None;
    }
    Ok(Some(Expr::Subquery(Box::new(single))))
}

fn check_width(query: &Query, wanted: usize) -> Result<(), SqlError> {
    match width(&query.body) {
        Some(found) if found < wanted => Err(SqlError::syntax("subquery has too few columns")),
        Some(found) if found > wanted => Err(SqlError::syntax("subquery has too many columns")),
        Some(_) | None => Ok(()),
    }
}

/// How many columns a query has; `None` if one has to know its tables for that.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn membership(expression: &Expr) -> Option<Membership<'_>> {
    let (row, query, is_negated) = match expression {
        Expr::InSubquery { expr, subquery, negated } => (expr, subquery.as_ref(), *negated),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, subquery(right)?, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, subquery(right)?, true),
        _ => return None,
    };
    Some(Membership { row: rows::columns(row)?, query, is_negated })
}

fn subquery(expression: &Expr) -> Option<&Query> {
    match expression {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

/// `SELECT * FROM (query) rows WHERE which(row = rows)`.
fn found(membership: &Membership<'_>, which: impl Fn(Expr) -> Expr) -> Query {
    let width = membership.row.len();
    let equal = rows::compared(&membership.row, &BinaryOperator::Eq, &columns_of(width));
    tables::restricted(membership.query, alias(width), which(equal))
}

/// True if a row is equal, NULL if for one that is not known, otherwise false; or the contrary.
fn value(membership: &Membership<'_>) -> Expr {
    let boolean = |value: bool| Expr::Value(Value::Boolean(value).into());
    let exists = |query| Expr::Exists { subquery: Box::new(query), negated: false };
    let is_equal = exists(found(membership, |equal| equal));
    let may_be_equal = exists(found(membership, |equal| Expr::IsNull(Box::new(equal))));
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![
            CaseWhen { condition: is_equal, result: boolean(true) },
            CaseWhen { condition: may_be_equal, result: Expr::Value(Value::Null.into()) },
        ],
        else_result: Some(Box::new(boolean(false))),
    };
    if membership.is_negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(case) } } else { case }
}

fn alias(width: usize) -> TableAlias {
    let column = |place| TableAliasColumnDef { name: name_of(place), data_type: None };
    let columns = (0..width).map(column).collect();
    TableAlias { explicit: true, name: Ident::with_quote('"', ROWS), columns, at: None }
}

fn name_of(place: usize) -> Ident {
    Ident::with_quote('"', format!("coeval column {place}"))
}

/// The columns of the subquery's rows.
fn columns_of(width: usize) -> Vec<Expr> {
    let column = |place| Expr::CompoundIdentifier(vec![Ident::with_quote('"', ROWS), name_of(place)]);
    (0..width).map(column).collect()
}
