// SPDX-License-Identifier: Apache-2.0
//! How many rows LIMIT, OFFSET and FETCH ask for: any expression is a `bigint`, and the ties of the last row are asked for by a
//! function around the count.

use super::{call, casts, number, unqualified};
use crate::error::{SqlError, SqlState};
use crate::parse::WITH_TIES;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Fetch, LimitClause, Query, UnaryOperator, Value};

/// Rewrites the counts of a query.
///
/// # Errors
/// `42601` for WITH TIES without an order.
pub(super) fn rewrite(query: &mut Query) -> Result<(), SqlError> {
    let mut has_ties = false;
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
        has_ties = limit.as_ref().is_some_and(is_with_ties);
        limit.iter_mut().for_each(as_count);
        offset.iter_mut().for_each(|offset| as_count(&mut offset.value));
    }
    if let Some(Fetch { with_ties: true, percent: false, quantity }) = &query.fetch {
        let count = quantity.clone().unwrap_or_else(|| number("1"));
        let ties = Some(call(WITH_TIES, vec![casts::cast(count, DataType::BigInt(None))]));
        match &mut query.limit_clause {
            // Two counts, which is an error elsewhere.
            Some(LimitClause::LimitOffset { limit: Some(_), .. } | LimitClause::OffsetCommaLimit { .. }) => {
                return Ok(());
            }
            Some(LimitClause::LimitOffset { limit, .. }) => *limit = ties,
            none => {
                *none = Some(LimitClause::LimitOffset { limit: ties, offset: None, limit_by: Vec::new() })
            }
        }
        query.fetch = None;
        has_ties = true;
    }
    if has_ties && query.order_by.is_none() {
        let message = "WITH TIES cannot be specified without ORDER BY clause";
        return Err(SqlError::new(SqlState::SyntaxError, message));
    }
    Ok(())
}

fn is_with_ties(count: &Expr) -> bool {
    matches!(count, Expr::Function(function) if unqualified(&function.name).as_deref() == Some(WITH_TIES))
}

/// The count as a `bigint`, if it is not a whole number, a parameter or NULL, which are taken as they are.
fn as_count(count: &mut Expr) {
    if !is_plain(count) {
        *count = casts::cast(count.clone(), DataType::BigInt(None));
    }
}

fn is_plain(count: &Expr) -> bool {
    match count {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.bytes().all(|digit| digit.is_ascii_digit()),
            Value::Placeholder(_) | Value::Null => true,
            _ => false,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_plain(expr),
        _ => false,
    }
}
