// SPDX-License-Identifier: Apache-2.0
//! Long chains of AND and OR as trees that are as low as can be.
//!
//! The parser makes of `a OR b OR c OR d` a tree that leans to the left, as deep as the chain is long. What looks at each
//! operator's operands, as DataFusion does for their types, takes the square of that. Both operators may be regrouped as one
//! likes: `(a OR b) OR (c OR d)` asks the same operands in the same order, and is written the same.

use super::is_word;
use crate::walk::WalkMut;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, Value, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use std::ops::ControlFlow;

/// Chains of up to so many operators stay as they are.
const SHORT: usize = 16;

/// Whether there may be a long chain among these tokens.
pub(super) fn has_long_chain(tokens: &[TokenWithSpan]) -> bool {
    let is_truth = |token: &&TokenWithSpan| is_word(token, "or") || is_word(token, "and");
    tokens.len() > SHORT && tokens.iter().filter(is_truth).count() > SHORT
}

/// Regroups the long chains of a statement. Costs a walk over it.
pub(super) fn balance(statement: &mut Statement) {
    struct Balance;
    impl VisitorMut for Balance {
        type Break = ();
        fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            if let Expr::BinaryOp { op, .. } = expression
                && let operator @ (BinaryOperator::And | BinaryOperator::Or) = op.clone()
                && is_deep(expression, &operator)
            {
                let chain = std::mem::replace(expression, Expr::value(Value::Null));
                *expression = grouped(operands(chain, &operator), &operator);
            }
            ControlFlow::Continue(())
        }
    }
    // The visitor never breaks off.
    let _ = statement.walk_mut(&mut Balance);
}

fn is_deep(mut expression: &Expr, operator: &BinaryOperator) -> bool {
    for _ in 0..SHORT {
        match expression {
            Expr::BinaryOp { left, op, .. } if op == operator => expression = left,
            _ => return false,
        }
    }
    true
}

/// The operands of a chain, in their order.
fn operands(mut chain: Expr, operator: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    loop {
        match chain {
            Expr::BinaryOp { left, op, right } if op == *operator => {
                operands.push(*right);
                chain = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    operands
}

/// Pairs, pairs of pairs, and so on.
fn grouped(mut operands: Vec<Expr>, operator: &BinaryOperator) -> Expr {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => {
                    Expr::BinaryOp { left: Box::new(left), op: operator.clone(), right: Box::new(right) }
                }
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop().expect("a chain has operands")
}
