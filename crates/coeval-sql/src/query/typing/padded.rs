// SPDX-License-Identifier: Apache-2.0
//! A `char(n)` where PostgreSQL sees the blanks that fill it up: in patterns, in its length in bytes, and where it is written into
//! another text or a document. Elsewhere they do not count, and it is kept without them.

use super::declared::char_length;
use crate::functions::{HAS_MATCH, MATCHES_ALL, MATCHES_ANY};
use crate::json::writes_values;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator, lit};
use std::sync::Arc;

/// Functions that see the blanks.
const FUNCTIONS: [&str; 7] =
    ["octet_length", "concat", "concat_ws", "format", HAS_MATCH, MATCHES_ANY, MATCHES_ALL];

/// Whether a function sees the blanks of an argument. One that makes JSON fills a column up itself, by a mark that other expressions have
/// lost when they are run.
fn sees_blanks(function: &str, argument: &Expr) -> bool {
    FUNCTIONS.contains(&function) || (writes_values(function) && !matches!(argument, Expr::Column(_)))
}

/// The expression with each `char(n)` filled up where that is seen; `None` if it is right as it is.
///
/// # Errors
/// If there is no function that fills up: a bug.
pub(super) fn settled(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    match expression {
        Expr::Like(like) if !is_prefix(&like.pattern) => {
            let filled = filled_up(&like.expr, schema)?;
            Ok(filled.map(|filled| Expr::Like(Like { expr: Box::new(filled), ..like.clone() })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_match(*op) => {
            let filled = filled_up(left, schema)?;
            Ok(filled.map(|filled| Expr::BinaryExpr(BinaryExpr::new(Box::new(filled), *op, right.clone()))))
        }
        Expr::ScalarFunction(call) if call.args.iter().any(|argument| sees_blanks(call.name(), argument)) => {
            let mut arguments = call.args.clone();
            let mut has_any = false;
            for argument in arguments.iter_mut().filter(|argument| sees_blanks(call.name(), argument)) {
                if let Some(filled) = filled_up(argument, schema)? {
                    *argument = filled;
                    has_any = true;
                }
            }
            let filled = ScalarFunction::new_udf(Arc::clone(&call.func), arguments);
            Ok(has_any.then_some(Expr::ScalarFunction(filled)))
        }
        _ => Ok(None),
    }
}

/// A `char(n)` with its blanks; `None` for all else.
fn filled_up(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(length) = char_length(expression, schema) else { return Ok(None) };
    let fill = crate::functions::function("rpad")?;
    Ok(Some(fill.call(vec![expression.clone(), lit(i64::from(length))])))
}

/// Whether an operator matches with a regular expression.
const fn is_match(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
    )
}

/// Whether a pattern asks for a beginning that blanks at the end neither make nor hide: then no row has to be filled up.
fn is_prefix(pattern: &Expr) -> bool {
    let Expr::Literal(pattern, _) = pattern else { return false };
    let beginning = pattern.try_as_str().flatten().and_then(|pattern| pattern.strip_suffix('%'));
    beginning.is_some_and(|beginning| !beginning.contains(['%', '_', '\\']) && !beginning.ends_with(' '))
}
