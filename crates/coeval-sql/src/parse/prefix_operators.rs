// SPDX-License-Identifier: Apache-2.0
//! Operators in front of an operand, which bind otherwise in the parser than in PostgreSQL. A sign binds more tightly than a power:
//! `-2 ^ 2` is `(-2) ^ 2`. The others bind as operators without a place of their own do: `~ 5 + 2` is `~ (5 + 2)`.
//!
//! The operand gets parentheses where the text of this might be read otherwise: `- -x` would be written as `--x`, a comment.

use super::precedence;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Reads such an operator and its operand; `None`, with nothing read, if something else is next.
pub(super) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let operator = match parser.peek_token_ref().token {
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        _ => return None,
    };
    parser.advance_token();
    Some(match operator {
        UnaryOperator::Minus | UnaryOperator::Plus => signed(parser, operator),
        _ => other(parser, operator),
    })
}

/// The operand with its sign. Casts and subscripts belong to the operand; a power is one of both.
fn signed(parser: &mut Parser<'_>, sign: UnaryOperator) -> Result<Expr, ParserError> {
    let operand = parser.parse_subexpr(PostgreSqlDialect {}.prec_value(Precedence::AtTz))?;
    let operand = if matches!(operand, Expr::UnaryOp { .. }) { nested(operand) } else { operand };
    let signed = Expr::UnaryOp { op: sign, expr: Box::new(operand) };
    let is_base = parser.peek_token_ref().token == Token::Caret;
    Ok(if is_base { nested(signed) } else { signed })
}

/// The operand with another operator. Sums, products and powers belong to the operand.
fn other(parser: &mut Parser<'_>, operator: UnaryOperator) -> Result<Expr, ParserError> {
    let operand = parser.parse_subexpr(precedence::of_others())?;
    let operand = match operand {
        simple @ (Expr::Identifier(_) | Expr::Value(_) | Expr::Nested(_)) => simple,
        other => nested(other),
    };
    Ok(Expr::UnaryOp { op: operator, expr: Box::new(operand) })
}

fn nested(expression: Expr) -> Expr {
    Expr::Nested(Box::new(expression))
}
