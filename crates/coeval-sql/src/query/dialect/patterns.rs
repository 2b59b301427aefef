// SPDX-License-Identifier: Apache-2.0
//! `x ~ pattern` and its like, with PostgreSQL's patterns.
//!
//! DataFusion's operators take patterns as the `regex` crate has them. A constant is written so once; for others, and NULL, a
//! function stands that writes each.

use super::{call, text};
use crate::error::SqlError;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// What stands in the place of an operator that matches a pattern; `None` if it stays, with another pattern.
///
/// # Errors
/// `2201B` for a constant that is no pattern, `0A000` for one that cannot be written so.
pub(super) fn matched(
    left: &Expr,
    operator: &BinaryOperator,
    right: &mut Expr,
) -> Result<Option<Expr>, SqlError> {
    let (ignores_case, is_negated) = match operator {
        BinaryOperator::PGRegexMatch => (false, false),
        BinaryOperator::PGRegexIMatch => (true, false),
        BinaryOperator::PGRegexNotMatch => (false, true),
        BinaryOperator::PGRegexNotIMatch => (true, true),
        _ => return Ok(None),
    };
    if let Expr::Value(value) = right {
        if let Value::SingleQuotedString(pattern) = &value.value {
            value.value = Value::SingleQuotedString(crate::functions::pattern_of_operator(pattern)?);
        }
        return Ok(None);
    }
    let mut arguments = vec![left.clone(), right.clone()];
    if ignores_case {
        arguments.push(text("i"));
    }
    let found = call("regexp_like", arguments);
    Ok(Some(if is_negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) } } else { found }))
}
