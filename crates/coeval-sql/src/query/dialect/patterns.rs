// SPDX-License-Identifier: Apache-2.0
//! `x ~ pattern` and its like, with PostgreSQL's patterns.
//!
//! DataFusion's operators take patterns as the `regex` crate has them. A constant is written so once; for one that cannot be, for
//! other patterns, parameters among them, and for values that are not a column's, a function stands that reads each, and that looks on
//! its way whether the statement is to end.

use super::{call, text};
use crate::error::SqlError;
use crate::functions::{HAS_MATCH, pattern_of_operator};
use crate::scalar::LetterCase;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Constants up to this length are left to DataFusion's operator.
const SHORT_BYTES: usize = 64;

/// What stands in the place of an operator that matches a pattern; `None` if it stays, with another pattern.
///
/// # Errors
/// `2201B` for a constant that is no pattern.
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
    // DataFusion's operator looks at nothing while it searches, and is fast: it is for columns and patterns of few states.
    let is_column = matches!(left, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if let Expr::Value(value) = right {
        match literal_of(&value.value) {
            Some(pattern) => {
                let letters = if ignores_case { LetterCase::Ignored } else { LetterCase::Sensitive };
                // Of letters DataFusion makes a pattern of LIKE, without regard to its escape: a backslash.
                let is_fast = |written: &String| {
                    is_column
                        && written.len() <= SHORT_BYTES
                        && !written.contains('{')
                        && !written.contains(r"\\")
                };
                if let Some(written) = pattern_of_operator(pattern, letters)?.filter(is_fast) {
                    value.value = Value::SingleQuotedString(written);
                    return Ok(None);
                }
            }
            // It may be any pattern each time.
            None if matches!(value.value, Value::Placeholder(_)) => {}
            None => return Ok(None),
        }
    }
    let mut arguments = vec![left.clone(), right.clone()];
    if ignores_case {
        arguments.push(text("i"));
    }
    let found = call(HAS_MATCH, arguments);
    Ok(Some(if is_negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) } } else { found }))
}

/// The text that an expression is as a literal, however that is quoted.
pub(super) fn literal(expression: &Expr) -> Option<&str> {
    let Expr::Value(value) = expression else { return None };
    literal_of(&value.value)
}

fn literal_of(value: &Value) -> Option<&str> {
    match value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        Value::DollarQuotedString(quoted) => Some(&quoted.value),
        _ => None,
    }
}
