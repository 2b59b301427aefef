// SPDX-License-Identifier: Apache-2.0
//! `BETWEEN SYMMETRIC` and `BETWEEN ASYMMETRIC`, which the parser has not.

use super::is_keyword;
use crate::walk::any_expression;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The parts of what stands there twice, at most: of forty within each other there would be a million million.
const PARTS_MAX: usize = 10_000;

/// Reads on behind an expression that one of them follows; `None`, with nothing read, if none does. Whichever of the two bounds is
/// the lower one, `x BETWEEN SYMMETRIC a AND b` is `x BETWEEN a AND b OR x BETWEEN b AND a`, as PostgreSQL has it.
pub(super) fn infix(parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
    let [first, second, third] = parser.peek_tokens_ref::<3>().map(|token| &token.token);
    let (between, word, negated) = match is_keyword(first, Keyword::NOT) {
        true => (second, third, true),
        false => (first, second, false),
    };
    if !is_keyword(between, Keyword::BETWEEN) {
        return None;
    }
    let Token::Word(word) = word else { return None };
    let is_symmetric = word.value.eq_ignore_ascii_case("symmetric");
    if word.quote_style.is_some() || !(is_symmetric || word.value.eq_ignore_ascii_case("asymmetric")) {
        return None;
    }
    for _ in 0..2 + usize::from(negated) {
        parser.advance_token();
    }
    let between = parser.parse_between(value.clone(), false);
    Some(between.and_then(|between| {
        let either = if is_symmetric { or_the_other_way(between)? } else { between };
        Ok(match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(either))) },
            false => either,
        })
    }))
}

fn or_the_other_way(between: Expr) -> Result<Expr, ParserError> {
    let mut parts = 0;
    let is_too_large = any_expression(&between, |_| {
        parts += 1;
        parts > PARTS_MAX
    });
    if is_too_large {
        return Err(ParserError::RecursionLimitExceeded);
    }
    let Expr::Between { expr, negated, low, high } = between else { return Ok(between) };
    let other = Expr::Between { expr: expr.clone(), negated, low: high.clone(), high: low.clone() };
    let either = Expr::BinaryOp {
        left: Box::new(Expr::Between { expr, negated, low, high }),
        op: BinaryOperator::Or,
        right: Box::new(other),
    };
    Ok(Expr::Nested(Box::new(either)))
}
