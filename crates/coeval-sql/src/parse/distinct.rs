// SPDX-License-Identifier: Apache-2.0
//! `a IS DISTINCT FROM b OR c` means `(a IS DISTINCT FROM b) OR c`. The parser takes all that follows for what is compared
//! with, so AND and OR are taken out of there again, and then out of the ANDs and NOTs that this has put them into.

use super::is_word;
use crate::walk::change_expressions;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, VisitMut};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

/// Whether there may be such a comparison.
pub(super) fn compares_distinct(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is_word(token, "distinct"))
}

/// Groups the comparisons in a statement or an expression, as it was parsed, by their precedence. What has been
/// regrouped stands in parentheses: written as text and parsed again, it means the same.
pub(crate) fn regroup_distinct<V: VisitMut>(syntax: &mut V) {
    // Inner expressions come before those that they are in.
    change_expressions(syntax, regroup);
}

fn regroup(expression: &mut Expr) {
    let taken = std::mem::replace(expression, Expr::Wildcard(AttachedToken::empty()));
    *expression = match taken {
        Expr::IsDistinctFrom(left, right) => {
            lifted(*right, is_and_or, |right| Expr::IsDistinctFrom(left, Box::new(right)))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            lifted(*right, is_and_or, |right| Expr::IsNotDistinctFrom(left, Box::new(right)))
        }
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let is_or = |op: &BinaryOperator| *op == BinaryOperator::Or;
            lifted(*right, is_or, |right| Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right: Box::new(right),
            })
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            lifted(*expr, is_and_or, |expr| Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
        }
        other => other,
    };
}

fn is_and_or(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// The expression with `wrap` round the first operand of its operators that bind less; parentheses are operands.
fn lifted(
    expression: Expr,
    binds_less: fn(&BinaryOperator) -> bool,
    wrap: impl FnOnce(Expr) -> Expr,
) -> Expr {
    let mut first = expression;
    let mut outer = Vec::new();
    loop {
        match first {
            Expr::BinaryOp { left, op, right } if binds_less(&op) => {
                outer.push((op, right));
                first = *left;
            }
            operand => {
                let wrapped = wrap(operand);
                if outer.is_empty() {
                    return wrapped;
                }
                let wrapped = Expr::Nested(Box::new(wrapped));
                return outer.into_iter().rev().fold(wrapped, |left, (op, right)| Expr::BinaryOp {
                    left: Box::new(left),
                    op,
                    right,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Syntax, pieces};
    use crate::walk::change_expressions;
    use datafusion::sql::sqlparser::ast::{Expr, Statement};

    fn parsed(condition: &str) -> Statement {
        let sql = format!("SELECT {condition}");
        match pieces::<(), _>(&sql, |_| Ok(None), |piece| Ok(piece.syntax)).unwrap().pop() {
            Some(Syntax::Statement(statement)) => *statement,
            other => panic!("{other:?}"),
        }
    }

    /// Every operation in parentheses, those that were written left out.
    fn shape(condition: &str) -> String {
        let mut statement = parsed(condition);
        change_expressions(&mut statement, |expression| {
            if let Expr::Nested(inner) = expression {
                *expression = inner.as_ref().clone();
            } else if !matches!(expression, Expr::Identifier(_) | Expr::Value(_)) {
                *expression = Expr::Nested(Box::new(expression.clone()));
            }
        });
        statement.to_string()
    }

    #[test]
    fn what_follows_a_comparison_is_not_a_part_of_it() {
        for (written, grouped) in [
            ("a IS DISTINCT FROM b OR c", "SELECT ((a IS DISTINCT FROM b) OR c)"),
            ("a IS NOT DISTINCT FROM b AND c OR d", "SELECT (((a IS NOT DISTINCT FROM b) AND c) OR d)"),
            ("x AND a IS DISTINCT FROM b OR c", "SELECT ((x AND (a IS DISTINCT FROM b)) OR c)"),
            ("NOT a IS DISTINCT FROM b AND c", "SELECT ((NOT (a IS DISTINCT FROM b)) AND c)"),
            (
                "a IS DISTINCT FROM b OR c IS DISTINCT FROM d AND e",
                "SELECT ((a IS DISTINCT FROM b) OR ((c IS DISTINCT FROM d) AND e))",
            ),
            ("a IS DISTINCT FROM b + 1 OR c", "SELECT ((a IS DISTINCT FROM (b + 1)) OR c)"),
            ("a IS DISTINCT FROM (b OR c)", "SELECT (a IS DISTINCT FROM (b OR c))"),
        ] {
            assert_eq!(shape(written), grouped, "{written}");
        }
    }
}
